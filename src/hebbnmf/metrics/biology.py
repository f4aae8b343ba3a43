"""Whether a trained network has the biological properties of section IV.B."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from hebbnmf.metrics.sparsity import activity_sparsity

__all__ = ["BiologicalReport", "biological_report"]

# Excess kurtosis of max(g, 0), with g normal: its moments are 1/sqrt(2 pi), 1/2, 2/sqrt(2 pi), 3/2.
_RECTIFIED_GAUSSIAN_KURTOSIS = 2.4077


class _TrainedNetwork(Protocol):
    """What a report needs of a network; it is copied before it learns."""

    @property
    def lateral_weights_(self) -> ArrayLike: ...

    @property
    def cumulative_activity_(self) -> ArrayLike: ...

    def transform(self, X: ArrayLike, /) -> ArrayLike: ...

    def partial_fit(self, X: ArrayLike, /) -> Self: ...


@dataclass(frozen=True)
class BiologicalReport:
    """What `biological_report` finds; ``str`` of it is a list of the checks."""

    n_units: int
    least_lateral_weight: float  # between two units; 0 where there is only one
    obeys_dales_law: bool  # no lateral weight is negative: units inhibit, and only inhibit
    least_activity: float  # of any unit in response to any sample
    is_rectified: bool  # no activity is negative
    learning_rates: tuple[float, float]  # least and greatest of a unit, 1 / cumulative activity
    learning_rates_fall: bool  # learning from the samples raised no unit's rate, lowered some
    probability_zero: float  # share of activities that are exactly zero
    kurtosis: float  # excess kurtosis of all activities, pooled
    lifetime_sparseness: float  # of each unit's activity over samples, in 0..1, on average
    population_sparseness: float  # of each sample's activity over units, in 0..1, on average
    fires_sparsely: bool  # zero more often, and heavier-tailed, than a rectified Gaussian

    def __str__(self) -> str:
        (slow, fast), least_weight = self.learning_rates, self.least_lateral_weight
        sparsity = (
            f"sparse firing: P(y = 0) = {self.probability_zero:.3f}, kurtosis {self.kurtosis:.3g}, "
            f"sparseness {self.lifetime_sparseness:.2f} (lifetime), "
            f"{self.population_sparseness:.2f} (population)"
        )
        checks = (
            (self.obeys_dales_law, f"Dale's law: lateral weights >= {least_weight:.3g}"),
            (self.is_rectified, f"rectified activity: activities >= {self.least_activity:.3g}"),
            (self.learning_rates_fall, f"learning rates fall: now {slow:.3g} to {fast:.3g}"),
            (self.fires_sparsely, sparsity),
        )
        lines = [f"  {'yes' if holds else 'NO '}  {text}" for holds, text in checks]
        return "\n".join([f"{self.n_units} units", *lines])


def biological_report(net: _TrainedNetwork, X: ArrayLike) -> BiologicalReport:
    """Check a trained network against the biology of section IV.B.

    Parameters
    ----------
    net : OnlineSNMF
        A trained network with at least one unit, or anything else with `transform`, `partial_fit`,
        `lateral_weights_` and `cumulative_activity_` that can be copied. It is not changed.
    X : array-like of shape (n_samples, n_features)
        Samples to respond to; some thousands are enough.

    Returns
    -------
    BiologicalReport
        The figures, and whether each property holds.

    Notes
    -----
    Section IV.B counts lateral weights as -M: there they are never positive. A copy of the network
    learns from X to see whether its rates fall. Firing counts as sparse if it is sparser than a
    rectified Gaussian: a probability of zero above 1/2, and an excess kurtosis above 2.41.

    Examples
    --------
    >>> from hebbnmf import OnlineSNMF
    >>> from hebbnmf.datasets import make_sparse_sources
    >>> from hebbnmf.metrics import biological_report
    >>> X = make_sparse_sources(2000, 8, random_state=0)
    >>> net = OnlineSNMF(16, rank_penalty=64.0, memory=None, activity_gain=0.1).fit(X)
    >>> report = biological_report(net, X)
    >>> report.obeys_dales_law, report.is_rectified, report.learning_rates_fall
    (True, True, True)
    """
    M, before = np.asarray(net.lateral_weights_), np.asarray(net.cumulative_activity_)
    if before.size == 0:
        raise ValueError(
            "net has 0 units, but the report needs at least 1: lower its rank_penalty and train it."
        )
    Y = np.asarray(net.transform(X))
    between = M[~np.eye(len(M), dtype=bool)]
    after = np.asarray(deepcopy(net).partial_fit(X).cumulative_activity_)[: before.size]
    sparsity = activity_sparsity(np.maximum(Y, 0))
    return BiologicalReport(
        n_units=before.size,
        least_lateral_weight=float(min(between, default=0.0)),
        obeys_dales_law=bool(np.all(between >= 0)),
        least_activity=float(Y.min()),
        is_rectified=bool(Y.min() >= 0),
        learning_rates=(float(1 / before.max()), float(1 / before.min())),
        learning_rates_fall=bool(np.all(after >= before) and np.any(after > before)),
        probability_zero=sparsity.probability_zero,
        kurtosis=sparsity.kurtosis,
        lifetime_sparseness=float(sparsity.lifetime.mean()),
        population_sparseness=float(sparsity.population.mean()),
        fires_sparsely=sparsity.probability_zero > 0.5
        and sparsity.kurtosis > _RECTIFIED_GAUSSIAN_KURTOSIS,
    )
