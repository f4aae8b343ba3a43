"""OnlineSNMF: the scikit-learn face of the network of the paper."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClusterMixin
from sklearn.utils import Tags

from hebbnmf.engine.network import Responses
from hebbnmf.engine.state import FloatArray
from hebbnmf.estimators.online import RespondingEstimator
from hebbnmf.learner import Settings

__all__ = ["OnlineSNMF"]


class OnlineSNMF(ClusterMixin, RespondingEstimator):
    """Online symmetric non-negative matrix factorization by a Hebbian/anti-Hebbian network.

    Samples are presented one at a time. The units respond to each with non-negative activities
    ``y`` whose inner products approach those of the samples, ``y_t . y_s ~ x_t . x_s``, and learn
    from it by local rules, before the next one comes. On clustered data each unit comes to stand
    for a cluster; on whitened natural data, for a sparse feature. Units are recruited as the
    stream demands them.

    Batch methods such as `sklearn.decomposition.NMF` factorize the data and need them to be
    non-negative; here the *similarities* of the samples are factorized, features may have any
    sign, and a sample is never looked at twice unless ``n_epochs`` says so.

    Parameters
    ----------
    n_components : int, default=8
        Largest number of units. Fewer are recruited where ``rank_penalty`` holds them back.
    rank_penalty : float or "auto", default="auto"
        Price of a further unit. With "auto" a sample recruits a unit if the part ``|x|^2 - |y|^2``
        of its squared length that the network does not explain exceeds 0.6 times the geometric
        mean of ``|x|^2`` and of its mean over the stream so far: the scale of the data plays no
        part. A number is lambda of Eq. (4), on the scale of ``|x|**4``: the threshold is then
        ``sqrt(rank_penalty)``. At 0 every sample whose response falls short of it recruits a
        unit, up to ``n_components``.
    memory : float or None, default=0.1
        How much of the stream the weights remember: older samples count less and less, by one
        clock for all units. A share of the stream, above 0 and below 1, lets early mistakes
        fade, while learning rates still fall as one over time. A number of samples, at least 2,
        follows a stream that drifts. None is all of it, as in the paper.
    recycle : bool, default=False
        Whether a sample that would recruit a unit, where there are ``n_components`` already,
        takes the place of the weakest unit that is silent for it, if the cumulative activity of
        that unit is below ``|x|^2 - |y|^2``. It takes a ``memory`` for units to grow weak.
    initial_activity : float or None, default=None
        Cumulative activity that a new unit starts with, on the scale of ``|x|**2``; the larger,
        the smaller its first learning steps. None takes the square of its first activity (the
        plain schedule); the paper takes 1000 for natural images (section III.C). Meant for
        ``memory=None``, as is ``activity_gain``: both forget, and together too fast.
    activity_gain : float, default=1.0
        Share of a squared activity that is added to the cumulative activity. At 1 learning rates
        fall as one over time (the plain schedule); the paper takes 0.01 for natural images.
    similarity_offset : float or str, default=0.0
        What is taken from every similarity, so that responses match ``x_t . x_s - offset``: units
        then respond to a part of a manifold each, the narrower the larger the offset. A number, or
        a share of the mean of ``|x|^2`` over the stream so far, such as "50%". `score` and `cost_`
        are those of the similarities themselves.
    dynamics : {"rectified", "quartic"}, default="rectified"
        How units respond: rectified net input, Eq. (7), or the exact minimum of Eq. (6), which
        matters while cumulative activity is small.
    tol : float, default=1e-4
        Error of a response, as a share of its largest activity: it is final when what further
        steps would change is estimated to be less.
    max_sweeps : int, default=1000
        Bound on the steps and sweeps over the units that a response may take, at most 100,000.
    n_epochs : int, default=1
        Number of times `fit` presents the data.
    shuffle : bool, default=False
        Whether `fit` presents the samples of each epoch in random order.
    random_state : int, RandomState instance or None, default=None
        Seed of that order.
    track_cost : bool, default=False
        Whether to track the cost (9) of the online responses. It takes longer than
        learning itself where units are many: 0.2 microseconds a sample for 5 features and units
        together, 3 for 128, 22 for 512.
    n_jobs : int or None, default=None
        Number of threads of `transform`, `predict` and `score`, which changes no result. None
        takes all cores, but one inside a worker of joblib; -1 all cores, as joblib counts them.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Feedforward weights W of the recruited units.
    lateral_weights_ : ndarray of shape (n_components_, n_components_)
        Lateral weights M: row i holds the strengths with which the other units inhibit unit i.
        Never negative, zero on the diagonal, not symmetric.
    cumulative_activity_ : ndarray of shape (n_components_,)
        Cumulative activity of each unit; one over it is the unit's learning rate.
    thresholds_ : ndarray of shape (n_components_,)
        What ``similarity_offset`` takes from the net input of each unit; zeros without.
    unit_births_ : ndarray of shape (n_components_,)
        Number of samples presented before the one that recruited each unit; -1 where a file of
        version 0.1 does not say. With ``recycle``, index and birth together identify what
        a label stands for.
    n_components_ : int
        Number of units recruited so far.
    n_samples_seen_ : int
        Number of presentations so far.
    cost_ : float
        Cost (9) of the responses given online so far; only with ``track_cost=True``.
    labels_ : ndarray of shape (n_samples,)
        The unit with the strongest response to each sample, -1 where all are silent: after `fit`
        those of `predict` on the training data, after `partial_fit` those given online to the
        last chunk.
    learner_ : Learner
        The network, its settings and its running cost, for use without validation.
    n_iter_ : int
        Number of passes over the data.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where the data had them.

    See Also
    --------
    Learner : The same without validation, on bare rows.

    Notes
    -----
    The method is Algorithm 1 of [1]_. Weights are the ratios of sums that the paper defines,
    updated by Eq. (8); presenting the same rows in any chunks gives the same weights.

    Samples may be the rows of a sparse matrix, compressed rows (CSR) best. A block of 72 of them is
    made dense in the features that are not zero in all of it, if these are less than half of all:
    then time grows with them, and weights are the same up to rounding.

    The defaults of ``rank_penalty`` and ``memory`` are ours, not the paper's. Its own settings:

    ======  ====================================================================================
    figure  parameters
    ======  ====================================================================================
    3       ``n_components=3, rank_penalty=0.6, memory=None``
    4       ``n_components=256, rank_penalty=200, memory=None, initial_activity=1000,
            activity_gain=0.01``
    5       ``n_components=4, rank_penalty=4, memory=None``; ``activity_gain=0.1`` is faster
    ======  ====================================================================================

    References
    ----------
    .. [1] C. Pehlevan and D. B. Chklovskii, "A Hebbian/Anti-Hebbian Network Derived from Online
       Non-Negative Matrix Factorization Can Cluster and Discover Sparse Features", Asilomar
       Conference on Signals, Systems and Computers, 2014.

    Examples
    --------
    >>> from hebbnmf import OnlineSNMF
    >>> from hebbnmf.datasets import make_three_gaussians
    >>> X, _ = make_three_gaussians(random_state=0)
    >>> net = OnlineSNMF(n_components=3)
    >>> for chunk in (X[:100], X[100:200], X[200:]):
    ...     Y = net.partial_fit_transform(chunk)
    >>> net.n_components_, Y.shape
    (3, (100, 3))
    >>> net.predict([[1.1, 1.1], [-0.6, 0.9], [0.0, 0.0]]).tolist()
    [1, 2, -1]
    """

    settings = Settings

    def __init__(
        self,
        n_components: int = 8,
        *,
        rank_penalty: float | str = "auto",
        memory: float | None = 0.1,
        recycle: bool = False,
        initial_activity: float | None = None,
        activity_gain: float = 1.0,
        similarity_offset: float | str = 0.0,
        dynamics: str = "rectified",
        tol: float = 1e-4,
        max_sweeps: int = 1000,
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: int | np.random.RandomState | None = None,
        track_cost: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.rank_penalty = rank_penalty
        self.memory = memory
        self.recycle = recycle
        self.initial_activity = initial_activity
        self.activity_gain = activity_gain
        self.similarity_offset = similarity_offset
        self.dynamics = dynamics
        self.tol = tol
        self.max_sweeps = max_sweeps
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state
        self.track_cost = track_cost
        self.n_jobs = n_jobs

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Name the unit that responds to each sample most strongly, with frozen weights.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Indices of units; -1 for a sample to which no unit responds.
        """
        return self._respond(X, keep=False).labels

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Return the share of the similarities of samples that frozen responses explain.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        y : Ignored

        Returns
        -------
        score : float
            ``1 - C / |X X'|^2`` with the cost C of Eq. (9): 1 if the responses have the inner
            products of the samples, 0 if all units are silent, below 0 if zero responses cost less.
            Samples that are all zero are explained by silence, and score 1.

        Examples
        --------
        >>> from hebbnmf import OnlineSNMF
        >>> net = OnlineSNMF(2, rank_penalty=0.5).fit([[2.0, 0.0], [0.0, 1.0]])
        >>> net.score([[3.0, 0.0], [0.0, 1.0]]), net.score([[-3.0, 0.0]])
        (1.0, 0.0)
        """
        rows = self._rows_to_respond_to(X)
        score, n_unconverged = self.learner_.score(rows, self.n_jobs)
        self.learner_.warn_unconverged(n_unconverged, rows.shape[0])
        return score

    def note(self, responses: Responses) -> None:
        """Note the labels of the responses given online to the last chunk."""
        super().note(responses)
        self.labels_ = responses.labels

    @property
    def components_(self) -> FloatArray:
        """Feedforward weights W."""
        return self.learner_.network.components

    @property
    def thresholds_(self) -> FloatArray:
        """What the offset takes from the net input of each unit."""
        return self.learner_.network.thresholds

    @property
    def unit_births_(self) -> NDArray[np.int64]:
        """Number of samples presented before the one that recruited each unit."""
        return self.learner_.network.unit_births

    @property
    def cost_(self) -> float:
        """Cost (9) of the responses given online so far."""
        if self.learner_.cost is None:
            raise AttributeError("cost_ is known only with track_cost=True, set before learning.")
        return self.learner_.cost.value

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _complete_fit(self, samples: FloatArray) -> int:
        responses = self.learner_.respond(samples, self.n_jobs, keep=False)
        self.labels_ = responses.labels
        return responses.n_unconverged
