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
        feature_map,
        live,
        metrics,
        persistence,
        pipeline,
        plots,
        preprocessing,
        streams,
        training,
    )
    from hebbnmf.cost import RunningCost, snmf_cost
    from hebbnmf.engine.network import Network
    from hebbnmf.estimators import (
        NonnegativeICA,
        OnlineDictionary,
        OnlinePCA,
        OnlineSNMF,
        SymNMF,
    )
    from hebbnmf.learner import Learner, Settings
    from hebbnmf.pipeline import StreamPipeline, make_online_clusterer

__version__ = "0.2.0"
_NAMES = {
    "Learner": "hebbnmf.learner",
    "Network": "hebbnmf.engine.network",
    "NonnegativeICA": "hebbnmf.estimators",
    "OnlineDictionary": "hebbnmf.estimators",
    "OnlinePCA": "hebbnmf.estimators",
    "OnlineSNMF": "hebbnmf.estimators",
    "RunningCost": "hebbnmf.cost",
    "Settings": "hebbnmf.learner",
    "StreamPipeline": "hebbnmf.pipeline",
    "SymNMF": "hebbnmf.estimators",
    "make_online_clusterer": "hebbnmf.pipeline",
    "snmf_cost": "hebbnmf.cost",
}
__all__ = [
    "Learner",
    "Network",
    "NonnegativeICA",
    "OnlineDictionary",
    "OnlinePCA",
    "OnlineSNMF",
    "RunningCost",
    "Settings",
    "StreamPipeline",
    "SymNMF",
    "adapters",
    "clustering",
    "cost",
    "datasets",
    "distributed",
    "estimators",
    "feature_map",
    "live",
    "make_online_clusterer",
    "metrics",
    "persistence",
    "pipeline",
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
