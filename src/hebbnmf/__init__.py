"""Online clustering and sparse feature discovery with a Hebbian/anti-Hebbian network."""

from hebbnmf.estimator import OnlineSNMF
from hebbnmf.network import Network

__all__ = ["Network", "OnlineSNMF"]
