"""StreamPipeline: a pipeline of scikit-learn that learns online; and the online clusterer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from hebbnmf.estimators import OnlineSNMF
from hebbnmf.feature_map import RBFMap
from hebbnmf.parameters import check_parameter, one_of
from hebbnmf.preprocessing import RunningScaler

__all__ = ["StreamPipeline", "make_online_clusterer"]

Rows = Any  # an array, a frame, a sparse matrix, a list of texts: whatever the first step takes
Step = Any  # an estimator of scikit-learn


def _last_step_has(*methods: str) -> Callable[["StreamPipeline"], bool]:
    """Make the condition that the last step has one of some methods, as `available_if` takes it."""

    def check(pipeline: "StreamPipeline") -> bool:
        last = pipeline.steps[-1][1]
        # A last step that does nothing hands on what comes; its rows are the output.
        return _is_empty(last) or any(hasattr(last, method) for method in methods)

    return check


class StreamPipeline(Pipeline):
    """A chain of transformers before a model, all of which learn from a stream.

    scikit-learn's `Pipeline`, of which this is a subclass, with `partial_fit`. Steps that have
    `partial_fit` learn from every chunk. Steps that have not are fitted to the first chunk alone,
    which must be large enough for them; so are steps before them, as by `fit`. From then on every
    row passes the steps as they stand when it arrives.

    Parameters
    ----------
    steps : list of (name, estimator)
        The steps, as in `Pipeline`: transformers, and at the end any estimator.
    transform_input, memory, verbose
        As in `Pipeline`; `partial_fit` does not use them.

    See Also
    --------
    make_online_clusterer : The pipeline for a stream of which nothing is known.

    Notes
    -----
    A row passes a step by its ``partial_fit_transform`` where it has one, as all steps of this
    package that learn on have but `OnlinePCA`: then chunks after the first of any size give the
    same result. Other steps transform a chunk as they stood before it, then learn from it.

    Examples
    --------
    >>> from hebbnmf import OnlineSNMF, StreamPipeline
    >>> from hebbnmf.datasets import make_three_gaussians
    >>> from hebbnmf.preprocessing import RunningScaler
    >>> X, _ = make_three_gaussians(random_state=0)
    >>> model = StreamPipeline([("scaler", RunningScaler()), ("network", OnlineSNMF(3))])
    >>> for chunk in (X[:100], X[100:101], X[101:]):
    ...     Y = model.partial_fit_transform(chunk)
    >>> model["network"].n_samples_seen_, Y.shape
    (300, (199, 3))
    >>> model.predict([[1.1, 1.1], [-0.6, 0.9]]).tolist()
    [0, 2]
    """

    @available_if(_last_step_has("partial_fit", "transform"))
    def partial_fit(self, X: Rows, y: object = None, **params: Any) -> Self:
        """Learn from one more chunk of the stream.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or whatever the first step takes
            The samples, in order.
        y : array-like, optional
            Targets, for steps that take them.
        **params : dict
            Parameters of the ``partial_fit`` of steps, as ``<name of the step>__<parameter>``:
            ``classes`` of a classifier.

        Returns
        -------
        self : StreamPipeline
        """
        with self._as_before_on_error():
            rows, of_steps = self._pass_transformers(X, y, params)
            name, last = self.steps[-1]
            if hasattr(last, "partial_fit"):
                last.partial_fit(rows, *_targets(y), **of_steps.get(name, {}))
            elif not _is_empty(last) and not _is_fitted(last):
                self._fit_once(name, last, rows, y, of_steps.get(name, {}))
        return self

    @available_if(_last_step_has("partial_fit_transform", "transform"))
    def partial_fit_transform(self, X: Rows, y: object = None, **params: Any) -> Any:
        """Learn from one more chunk, and return the output of the last step for it on arrival.

        Parameters
        ----------
        X, y, **params
            As in `partial_fit`.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_features_out), or the container set by `set_output`
        """
        with self._as_before_on_error():
            rows, of_steps = self._pass_transformers(X, y, params)
            name, last = self.steps[-1]
            if _is_empty(last):
                return rows
            return self._pass_step(name, last, rows, y, of_steps.get(name, {}))

    @property
    def labels_(self) -> NDArray[np.intp]:
        """The labels that the last step, a clusterer, gave to the chunk it learned last."""
        labels: NDArray[np.intp] = self.steps[-1][1].labels_
        return labels

    def _pass_transformers(
        self, X: Rows, y: object, params: dict[str, Any]
    ) -> tuple[Rows, dict[str, dict[str, Any]]]:
        """Let all steps but the last learn from a chunk and transform it.

        Returns the rows for the last step, and the parameters of each step by its name.
        """
        self._validate_steps()
        of_steps = self._parameters_of_steps(params)
        n_whole = self._n_fitted_as_a_whole()
        for i, (name, step) in enumerate(self.steps[:-1]):
            if _is_empty(step):
                continue
            given = of_steps.get(name, {})
            if i < n_whole and hasattr(step, "partial_fit") and not _is_fitted(step):
                X = step.partial_fit(X, *_targets(y), **given).transform(X)
            else:
                X = self._pass_step(name, step, X, y, given)
        return X, of_steps

    def _pass_step(self, name: str, step: Step, X: Rows, y: object, given: dict[str, Any]) -> Rows:
        """Let a step learn from a chunk, if it learns on, and transform it."""
        if hasattr(step, "partial_fit_transform"):
            return step.partial_fit_transform(X, *_targets(y), **given)
        if hasattr(step, "partial_fit"):
            transformed = step.transform(X) if _is_fitted(step) else None
            step.partial_fit(X, *_targets(y), **given)
            return step.transform(X) if transformed is None else transformed
        if not _is_fitted(step):
            self._fit_once(name, step, X, y, given)
        return step.transform(X)

    def _fit_once(self, name: str, step: Step, X: Rows, y: object, given: dict[str, Any]) -> None:
        """Fit a step that cannot learn on to the first chunk."""
        try:
            step.fit(X, *_targets(y), **given)
        except ValueError as error:
            raise ValueError(
                f"the step {name!r} learns from the first chunk alone, and failed on its "
                f"{_n_rows(X)} rows: {error} A larger first chunk may do."
            ) from error

    @contextmanager
    def _as_before_on_error(self) -> Iterator[None]:
        """Forget what unfitted steps learned from a first chunk that a later one refuses."""
        steps = [step for _, step in self.steps if not _is_empty(step) and not _is_fitted(step)]
        before = [dict(vars(step)) for step in steps]
        try:
            yield
        except BaseException:
            for step, attributes in zip(steps, before, strict=True):
                vars(step).clear()
                vars(step).update(attributes)
            raise

    def _n_fitted_as_a_whole(self) -> int:
        """Return the number of leading steps up to the last one that is fitted to this chunk only.

        The last step of all is not among them: its turn comes after the transformers.
        """
        n_whole = 0
        for i, (_, step) in enumerate(self.steps):
            if not _is_empty(step) and not hasattr(step, "partial_fit") and not _is_fitted(step):
                n_whole = i + 1
        return n_whole

    def _parameters_of_steps(self, params: dict[str, Any]) -> dict[str, dict[str, Any]]:
        of_steps: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, found, parameter = key.partition("__")
            if not found or name not in self.named_steps:
                raise ValueError(
                    f"{key} is not a parameter of a step: write <name of the step>__<parameter>, "
                    f"with a step of {', '.join(self.named_steps)}."
                )
            of_steps.setdefault(name, {})[parameter] = value
        return of_steps


def make_online_clusterer(
    n_clusters: int,
    *,
    kernel: str = "rbf",
    n_landmarks: int = 300,
    memory: float | None = 0.1,
    random_state: int | np.random.RandomState | None = None,
) -> StreamPipeline:
    """Make a clusterer for a stream of which nothing is known but the number of clusters, at most.

    It standardises the features, maps them so that similarity falls with distance, and feeds the
    network. All of it learns in one pass, in constant memory. Its settings were chosen on one half
    of twelve real data sets and do well on the other; the guide "What is it good for?" has the
    figures, and says where other clusterers do better.

    Parameters
    ----------
    n_clusters : int
        Largest number of clusters. Fewer are found where the data call for fewer.
    kernel : {"rbf", "linear"}, default="rbf"
        Similarity of samples: a Gaussian of their distance, see `RBFMap`, or their inner product,
        for clusters that are directions, such as topics of texts.
    n_landmarks : int, default=300
        Number of samples of the first chunk that the Gaussian kernel is approximated by. More
        cost more time.
    memory : float or None, default=0.1
        How much of the stream scaler and network remember: a share of it, a number of samples, or
        all (None). A stream that drifts wants a number.
    random_state : int, RandomState instance or None, default=None
        Seed of the choice of landmarks.

    Returns
    -------
    StreamPipeline
        With the steps "scaler", "kernel" unless it is linear, and "network".

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf import make_online_clusterer
    >>> from sklearn.datasets import make_blobs
    >>> X, y = make_blobs(2000, n_features=10, centers=5, random_state=0)
    >>> model = make_online_clusterer(20, n_landmarks=100, random_state=0)
    >>> for start in range(0, 2000, 500):
    ...     model = model.partial_fit(X[start : start + 500])
    >>> model["network"].n_components_
    5
    >>> [np.unique(model.predict(X[y == k])).tolist() for k in range(5)]
    [[0], [3], [2], [4], [1]]
    """
    check_parameter("kernel", kernel, one_of("rbf", "linear"))
    steps: list[tuple[str, Step]] = [("scaler", RunningScaler(memory))]
    if kernel == "rbf":
        steps.append(("kernel", RBFMap(n_landmarks=n_landmarks, random_state=random_state)))
    steps.append(("network", OnlineSNMF(n_clusters, memory=memory, random_state=random_state)))
    return StreamPipeline(steps)


def _is_empty(step: Step) -> bool:
    return step is None or (isinstance(step, str) and step == "passthrough")


def _is_fitted(step: Step) -> bool:
    try:
        check_is_fitted(step)
    except NotFittedError:
        return False
    return True


def _targets(y: object) -> Iterator[object]:
    """Give a step its targets only where there are any: some take none."""
    return iter(() if y is None else (y,))


def _n_rows(X: Rows) -> int:
    shape = getattr(X, "shape", None)
    return int(shape[0]) if shape else len(X)
