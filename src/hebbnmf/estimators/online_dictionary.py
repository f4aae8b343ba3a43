"""OnlineDictionary: sparse codes and their atoms, by units with a threshold."""

import numpy as np
from numpy.typing import ArrayLike

from hebbnmf.engine.state import FloatArray
from hebbnmf.estimators.online import RespondingEstimator
from hebbnmf.learner import DictionarySettings

__all__ = ["OnlineDictionary"]


class OnlineDictionary(RespondingEstimator):
    """Sparse dictionary learning online, by a Hebbian/anti-Hebbian network with thresholds.

    The network of `OnlineSNMF`, whose units are silent unless their net input exceeds a threshold:
    similarity matching with a price on activity [1]_. Codes are signed unless asked to be positive.
    Give it whitened data, such as those of `hebbnmf.preprocessing.ZCAWhitener`: atoms of large
    variance otherwise attract several units.

    Parameters
    ----------
    n_components : int, default=8
        Number of atoms, which the first samples begin.
    alpha : float, default=0.5
        Threshold of the net input of a unit, on the scale of the samples. The larger, the sparser
        the codes.
    positive_code : bool, default=False
        Whether codes are non-negative.
    memory : float or None, default=0.1
        How much of the stream the weights remember: a share of it between 0 and 1, a number of
        samples of at least 2, or all of it (None).
    tol : float, default=1e-4
        Error of a code, as a share of its largest entry.
    max_sweeps : int, default=1000
        Bound on the sweeps over the units that a code may take.
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
        The atoms: feedforward weights, each of unit length.
    feedforward_weights_ : ndarray of shape (n_components_, n_features_in_)
        Weights W of the network.
    lateral_weights_ : ndarray of shape (n_components_, n_components_)
        Weights M of the network, signed where codes are.
    cumulative_activity_ : ndarray of shape (n_components_,)
        Cumulative activity of each unit; one over it is the unit's learning rate.
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
    sklearn.decomposition.MiniBatchDictionaryLearning : Minimises the error of reconstruction.

    References
    ----------
    .. [1] T. Hu, C. Pehlevan and D. B. Chklovskii, "A Hebbian/Anti-Hebbian Network for Online
       Sparse Dictionary Learning Derived from Symmetric Matrix Factorization", Asilomar Conference
       on Signals, Systems and Computers, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> from hebbnmf import OnlineDictionary
    >>> rng = np.random.default_rng(0)
    >>> codes = rng.standard_normal((5000, 3)) * (rng.random((5000, 3)) < 0.2)
    >>> atoms = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    >>> net = OnlineDictionary(3, alpha=0.3).fit(codes @ atoms)
    >>> np.abs(net.components_ @ atoms.T).max(axis=0).round(1)
    array([1., 1., 1.])
    """

    settings = DictionarySettings

    def __init__(
        self,
        n_components: int = 8,
        *,
        alpha: float = 0.5,
        positive_code: bool = False,
        memory: float | None = 0.1,
        tol: float = 1e-4,
        max_sweeps: int = 1000,
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.positive_code = positive_code
        self.memory = memory
        self.tol = tol
        self.max_sweeps = max_sweeps
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state
        self.n_jobs = n_jobs

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the sparse codes of samples, each by itself.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.

        Returns
        -------
        codes : ndarray of shape (n_samples, n_components_)
            The responses of the network with frozen weights.
        """
        return super().transform(X)

    @property
    def components_(self) -> FloatArray:
        """The atoms."""
        W = self.feedforward_weights_
        lengths = np.linalg.norm(W, axis=1, keepdims=True)
        return np.asarray(W / np.maximum(lengths, np.finfo(W.dtype).tiny))

    @property
    def feedforward_weights_(self) -> FloatArray:
        """Feedforward weights W."""
        return self.learner_.network.components
