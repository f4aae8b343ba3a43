"""Measures of what a network has learned, and of its activity."""

from hebbnmf.metrics.biology import BiologicalReport, biological_report
from hebbnmf.metrics.clusters import (
    ClusterAgreement,
    ClusterSeparation,
    cluster_agreement,
    cluster_separation,
)
from hebbnmf.metrics.directions import DirectionAlignment, direction_alignment
from hebbnmf.metrics.gabors import GaborFits, fit_gabors
from hebbnmf.metrics.sparsity import ActivitySparsity, activity_sparsity

__all__ = [
    "ActivitySparsity",
    "BiologicalReport",
    "ClusterAgreement",
    "ClusterSeparation",
    "DirectionAlignment",
    "GaborFits",
    "activity_sparsity",
    "biological_report",
    "cluster_agreement",
    "cluster_separation",
    "direction_alignment",
    "fit_gabors",
]
