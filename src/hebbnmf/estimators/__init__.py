"""The scikit-learn faces: each validates, and leaves the mathematics to what it wraps."""

from hebbnmf.estimators.nonnegative_ica import NonnegativeICA
from hebbnmf.estimators.online_dictionary import OnlineDictionary
from hebbnmf.estimators.online_pca import OnlinePCA
from hebbnmf.estimators.online_snmf import OnlineSNMF
from hebbnmf.estimators.symnmf import SymNMF

__all__ = ["NonnegativeICA", "OnlineDictionary", "OnlinePCA", "OnlineSNMF", "SymNMF"]
