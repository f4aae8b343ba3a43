"""OnlinePCA: the principal subspace by local rules, with the face of IncrementalPCA."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from hebbnmf.engine.network import Responses
from hebbnmf.engine.state import FloatArray
from hebbnmf.estimators.online import OnlineEstimator
from hebbnmf.learner import SubspaceSettings
from hebbnmf.parameters import FLAG, check_parameter

__all__ = ["OnlinePCA"]


class OnlinePCA(OnlineEstimator):
    """Principal component analysis online, by a Hebbian/anti-Hebbian network of linear units.

    The network of `OnlineSNMF` without its rectifier: unconstrained similarity matching [1]_. It
    presents samples one at a time, in constant memory, and its weights turn into a basis of the
    principal subspace. With ``memory`` older samples count less and less, so that it follows a
    subspace that moves; `sklearn.decomposition.IncrementalPCA` weighs all samples alike, and wants
    chunks of at least ``n_components`` rows.

    Parameters
    ----------
    n_components : int, default=8
        Number of components; there are fewer where the samples span no more.
    memory : float or None, default=None
        How much of the stream the weights remember: all of it (None), a number of samples of at
        least 2, which follows a stream that drifts, or a share of the stream between 0 and 1.
    whiten : bool, default=False
        Whether `transform` divides each component by its standard deviation.
    center : bool, default=True
        Whether the running mean, remembered as long as the rest, is taken from the samples.
    n_epochs : int, default=1
        Number of times `fit` presents the data.
    shuffle : bool, default=False
        Whether `fit` presents the samples of each epoch in random order.
    random_state : int, RandomState instance or None, default=None
        Seed of that order.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Principal axes, orthonormal, by falling variance; the largest entry of each is positive.
    explained_variance_ : ndarray of shape (n_components_,)
        Variance of the samples along each axis, as far as they are remembered.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        The same as a share of the variance of all features.
    singular_values_ : ndarray of shape (n_components_,)
        Square roots of the discounted sums of squares along the axes.
    noise_variance_ : float
        Mean variance along the directions that are left out.
    mean_ : ndarray of shape (n_features_in_,)
        Mean of the samples, as far as they are remembered; zeros with ``center=False``.
    feedforward_weights_ : ndarray of shape (n_components_, n_features_in_)
        Weights W of the network.
    lateral_weights_ : ndarray of shape (n_components_, n_components_)
        Weights M of the network, signed. Its response is ``y = W x - M y``.
    cumulative_activity_ : ndarray of shape (n_components_,)
        Discounted sum of the squared activity of each unit.
    n_components_ : int
        Number of units recruited so far.
    n_samples_seen_ : int
        Number of presentations so far.
    learner_ : Learner
        The network and its settings, for use without validation.
    n_iter_ : int
        Number of passes over the data.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where the data had them.

    See Also
    --------
    sklearn.decomposition.IncrementalPCA : Batches; all samples count alike.

    Notes
    -----
    `hebbnmf.engine.subspace` has the mathematics. The rule is that of PAST [2]_, recursive least
    squares, reached from another side: with all samples remembered, the subspace is as good as that
    of batch PCA once the first samples no longer matter.

    References
    ----------
    .. [1] C. Pehlevan, T. Hu and D. B. Chklovskii, "A Hebbian/Anti-Hebbian Neural Network for
       Linear Subspace Learning", Neural Computation, 2015.
    .. [2] B. Yang, "Projection Approximation Subspace Tracking", IEEE Transactions on Signal
       Processing, 1995.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf import OnlinePCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 3)) * [3.0, 0.1, 1.0]
    >>> pca = OnlinePCA(2)
    >>> for chunk in np.split(X, 20):
    ...     pca = pca.partial_fit(chunk)
    >>> pca.components_.round(1) + 0.0
    array([[1., 0., 0.],
           [0., 0., 1.]])
    >>> pca.explained_variance_ratio_.round(1)
    array([0.9, 0.1])
    """

    settings = SubspaceSettings

    def __init__(
        self,
        n_components: int = 8,
        *,
        memory: float | None = None,
        whiten: bool = False,
        center: bool = True,
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.memory = memory
        self.whiten = whiten
        self.center = center
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state

    def transform(self, X: ArrayLike) -> FloatArray:
        """Project samples on the principal axes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components_)
            Their coordinates, of unit variance with ``whiten``.
        """
        return super().transform(X)

    def inverse_transform(self, X: ArrayLike) -> FloatArray:
        """Return the samples of the principal subspace that have these coordinates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components_)
            The coordinates, as from `transform`.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            The samples.
        """
        check_is_fitted(self)
        coordinates = check_array(X, dtype=[np.float64, np.float32], ensure_min_features=0)
        if coordinates.shape[1] != self.n_components_:
            raise ValueError(
                f"X has {coordinates.shape[1]} columns, but there are {self.n_components_} "
                "components: give coordinates that transform returned."
            )
        return np.asarray((coordinates * self._scale) @ self.components_ + self.mean_)

    def get_covariance(self) -> FloatArray:
        """Return the covariance of the probabilistic model of PCA.

        Returns
        -------
        covariance : ndarray of shape (n_features, n_features)
            ``C' diag(v - noise) C + noise I``, C and v being components and variances.
        """
        check_is_fitted(self)
        C, variances, noise = self.components_, self.explained_variance_, self.noise_variance_
        return np.asarray(
            (C.T * (variances - noise)) @ C + noise * np.eye(C.shape[1], dtype=C.dtype)
        )

    def respond(self, rows: FloatArray, *, keep: bool = True) -> Responses:
        """Return the coordinates of rows that the learner has checked; `keep` is ignored."""
        Y = np.asarray((rows - self.mean_) @ self.components_.T / self._scale)
        return Responses(Y, np.full(len(Y), -1), 0, [])

    def check_parameters(self) -> SubspaceSettings:
        """Check every parameter, and return those of the network."""
        check_parameter("whiten", self.whiten, FLAG)
        settings: SubspaceSettings = super().check_parameters()
        return settings

    @property
    def components_(self) -> FloatArray:
        """Principal axes."""
        axes, _ = self.learner_.network.principal_axes()
        return axes.astype(self.learner_.network.dtype)

    @property
    def explained_variance_(self) -> FloatArray:
        """Variance along each axis."""
        return self._variance_of(self._scatter)

    @property
    def explained_variance_ratio_(self) -> FloatArray:
        """Share of each axis in the variance of all features."""
        whole = max(self.learner_.network.learned.energy[0], np.finfo(np.float64).tiny)
        return (self._scatter / whole).astype(self.learner_.network.dtype)

    @property
    def singular_values_(self) -> FloatArray:
        """Square roots of the discounted sums of squares along the axes."""
        return np.sqrt(self._scatter).astype(self.learner_.network.dtype)

    @property
    def noise_variance_(self) -> float:
        """Mean variance along the directions that are left out."""
        n_left_out = self.n_features_in_ - self.n_components_
        rest = max(self.learner_.network.learned.energy[0] - self._scatter.sum(), 0.0)
        return float(self._variance_of(rest / n_left_out)) if n_left_out else 0.0

    @property
    def mean_(self) -> FloatArray:
        """Mean of the samples."""
        return self.learner_.network.learned.mean.astype(self.learner_.network.dtype)

    @property
    def feedforward_weights_(self) -> FloatArray:
        """Feedforward weights W."""
        return self.learner_.network.feedforward_weights

    @property
    def _scatter(self) -> NDArray[np.float64]:
        """Discounted sum of squares along each axis."""
        return self.learner_.network.principal_axes()[1]

    @property
    def _scale(self) -> FloatArray:
        """What coordinates are divided by."""
        return (
            np.sqrt(self.explained_variance_)
            if self.whiten
            else np.ones(self.n_components_, self.learner_.network.dtype)
        )

    def _variance_of(self, scatter: ArrayLike) -> FloatArray:
        """Divide a sum of squares by the degrees of freedom, or by the samples if not centred."""
        network = self.learner_.network
        n_free = network.learned.energy[1] - network.rules.center
        return np.asarray(scatter / max(n_free, np.finfo(float).eps), network.dtype)
