"""Online clustering and sparse feature discovery with a Hebbian/anti-Hebbian network."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hebbnmf.cost import RunningCost, snmf_cost
    from hebbnmf.estimator import OnlineSNMF
    from hebbnmf.network import Network
    from hebbnmf.offline import SymNMF

__version__ = "0.1.0"
__all__ = ["Network", "OnlineSNMF", "RunningCost", "SymNMF", "snmf_cost"]

_HOME = {
    "Network": "network",
    "OnlineSNMF": "estimator",
    "RunningCost": "cost",
    "SymNMF": "offline",
    "snmf_cost": "cost",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: scikit-learn takes seconds, `hebbnmf --help` must not."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"hebbnmf.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
