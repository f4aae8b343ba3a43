"""NonnegativeICA: sources that are not negative, by whitening and rectified units."""

import numpy as np
from numpy.typing import ArrayLike

from hebbnmf.engine.state import FloatArray
from hebbnmf.estimators.online import RespondingEstimator
from hebbnmf.learner import SeparationSettings

__all__ = ["NonnegativeICA"]


class NonnegativeICA(RespondingEstimator):
    """Non-negative independent component analysis online, by a Hebbian/anti-Hebbian network.

    Separates non-negative sources that are independent, or at least uncorrelated, and often near
    zero, from mixtures of any signs. A network of linear units whitens the samples by their
    covariance and leaves their mean, which tells where zero is; that of `OnlineSNMF` then finds the
    rotation of the whitened samples whose entries are not negative [1]_ [2]_.

    Parameters
    ----------
    n_components : int, default=8
        Number of sources. It must be known: with more, noise is whitened too. Separation begins
        after four samples for each.
    memory : float or None, default=0.01
        How much of the stream the rotation remembers: a share of it between 0 and 1, a number of
        samples of at least 2, or all of it (None). It should be short: the rotation is learned
        from samples that it would give a negative source alone, and these grow rare.
    whitening_memory : float or None, default=None
        The same for the covariance.
    tol : float, default=1e-4
        Error of a response, as a share of its largest activity.
    max_sweeps : int, default=1000
        Bound on the sweeps over the units that a response may take.
    n_epochs : int, default=1
        Number of times `fit` presents the data.
    shuffle : bool, default=False
        Whether `fit` presents the samples of each epoch in random order.
    random_state : int, RandomState instance or None, default=None
        Seed of that order.
    n_jobs : int or None, default=None
        Number of threads of `transform`, as in `OnlineSNMF`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        The linear map from samples to sources, where all are active.
    mixing_ : ndarray of shape (n_features_in_, n_components_)
        Its pseudo-inverse, from sources to samples. Sources are of unit variance.
    whitening_ : ndarray of shape (n_components, n_features_in_)
        The map from samples to whitened ones.
    lateral_weights_ : ndarray of shape (n_components_, n_components_)
        Weights M of the rectified units, zero on the diagonal.
    cumulative_activity_ : ndarray of shape (n_components_,)
        Cumulative activity of each; one over it is the unit's learning rate.
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
    sklearn.decomposition.FastICA : Batches; sources of any sign that are not Gaussian.

    References
    ----------
    .. [1] M. Plumbley, "Algorithms for Nonnegative Independent Component Analysis", IEEE
       Transactions on Neural Networks, 2003.
    .. [2] C. Pehlevan, S. Mohan and D. B. Chklovskii, "Blind Nonnegative Source Separation Using
       Biological Neural Networks", Neural Computation, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf import NonnegativeICA
    >>> rng = np.random.default_rng(0)
    >>> sources = rng.random((20_000, 2))
    >>> ica = NonnegativeICA(2).fit(sources @ [[1.0, 2.0, -1.0], [0.5, -1.0, 1.0]])
    >>> gain = ica.components_ @ [[1.0, 0.5], [2.0, -1.0], [-1.0, 1.0]]
    >>> np.abs(gain / np.abs(gain).max(axis=1, keepdims=True)).round(1)
    array([[1., 0.],
           [0., 1.]])
    """

    settings = SeparationSettings

    def __init__(
        self,
        n_components: int = 8,
        *,
        memory: float | None = 0.01,
        whitening_memory: float | None = None,
        tol: float = 1e-4,
        max_sweeps: int = 1000,
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.memory = memory
        self.whitening_memory = whitening_memory
        self.tol = tol
        self.max_sweeps = max_sweeps
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state
        self.n_jobs = n_jobs

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the sources of samples, each by itself.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        sources : ndarray of shape (n_samples, n_components_)
            The responses of the network with frozen weights, non-negative.
        """
        return super().transform(X)

    @property
    def components_(self) -> FloatArray:
        """The linear map from samples to sources."""
        network = self.learner_.network
        W, M = network.separation.components, network.separation.lateral_weights
        rotation = np.linalg.lstsq(np.eye(len(M), dtype=M.dtype) + M, W)[0]
        return np.asarray(rotation @ network.whitening_matrix)

    @property
    def mixing_(self) -> FloatArray:
        """The linear map from sources to samples."""
        return np.asarray(np.linalg.pinv(self.components_))

    @property
    def whitening_(self) -> FloatArray:
        """The map from samples to whitened ones."""
        return self.learner_.network.whitening_matrix
