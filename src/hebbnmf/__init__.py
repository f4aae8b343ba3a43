"""Online clustering and sparse feature discovery with a Hebbian/anti-Hebbian network."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hebbnmf import (
        adapters,
        clustering,
        cost,
        datasets,
        distributed,
        estimators,
        live,
        metrics,
        persistence,
        plots,
        preprocessing,
        streams,
        training,
    )
    from hebbnmf.cost import RunningCost, snmf_cost
    from hebbnmf.engine.network import Network
    from hebbnmf.estimators import OnlineSNMF, SymNMF
    from hebbnmf.learner import Learner, Settings

__version__ = "0.1.0"
_NAMES = {
    "Learner": "hebbnmf.learner",
    "Network": "hebbnmf.engine.network",
    "OnlineSNMF": "hebbnmf.estimators",
    "RunningCost": "hebbnmf.cost",
    "Settings": "hebbnmf.learner",
    "SymNMF": "hebbnmf.estimators",
    "snmf_cost": "hebbnmf.cost",
}
__all__ = [
    "Learner",
    "Network",
    "OnlineSNMF",
    "RunningCost",
    "Settings",
    "SymNMF",
    "adapters",
    "clustering",
    "cost",
    "datasets",
    "distributed",
    "estimators",
    "live",
    "metrics",
    "persistence",
    "plots",
    "preprocessing",
    "snmf_cost",
    "streams",
    "training",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: scikit-learn takes seconds, `hebbnmf --help` must not."""
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    if name in __all__:
        return import_module(f"hebbnmf.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
