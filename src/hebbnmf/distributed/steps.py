"""Rounds of the steps before a network: what they have learned are sums, and adds up.

A worker passes its rows as a serial run does, through copies of the steps as they were sent out, on
the clock on which its rows come. The leading worker's copies replace those of the driver. Every
other worker reports what its rows alone add, as steps that began with nothing, and the driver adds
them in order: ``sum <- Gamma sum + added``, Gamma being the product of the discounts of these rows.
Means and covariances are added about their own means, as Chan, Golub & LeVeque (1979) do.

Steps without ``partial_fit`` are fitted to the first rows, by the driver, and stay as they are.
"""

from copy import copy
from typing import Any

import numpy as np
from sklearn.base import clone

from hebbnmf.engine.plasticity import discount_over
from hebbnmf.engine.state import FloatArray
from hebbnmf.pipeline import StreamPipeline
from hebbnmf.preprocessing import MissingFiller, RunningScaler, ZCAWhitener, as_dense, unnamed_rows

__all__ = ["check_steps", "divided", "merge_steps", "pass_leading", "pass_other"]

Step = Any  # a transformer
Summing = MissingFiller | RunningScaler | ZCAWhitener


def divided(model: Any) -> tuple[StreamPipeline, Any]:
    """Return the steps before the network, none for a bare one, and the network."""
    if isinstance(model, StreamPipeline):
        return model[:-1], model[-1]
    return StreamPipeline([]), model


def check_steps(head: StreamPipeline) -> None:
    """Refuse steps that learn on, but whose learning does not add up."""
    for name, step in head.steps:
        if hasattr(step, "partial_fit") and not isinstance(step, Summing):
            raise TypeError(
                f"the step {name!r}, a {type(step).__name__}, cannot learn in rounds: take "
                "MissingFiller, RunningScaler, ZCAWhitener, or a step without partial_fit, such "
                "as RBFMap, which is fitted to the first rows."
            )


def pass_leading(head: StreamPipeline, X: FloatArray) -> FloatArray:
    """Let the steps before the network learn rows, as in a serial run; return their output."""
    if not head.steps:
        return X
    with unnamed_rows:
        return as_dense(head.partial_fit_transform(X), head[-1])


def pass_other(
    head: StreamPipeline, X: FloatArray, n_before: int
) -> tuple[FloatArray, list[Summing]]:
    """Do the same `n_before` rows later; also return what the rows add to each step that learns."""
    added = []
    with unnamed_rows:
        for step in _learning(head):
            if isinstance(step, RunningScaler):
                step.n_samples_seen_ += n_before
        for _, step in head.steps:
            if isinstance(step, Summing):
                added.append(_nothing_of(step).partial_fit(X))
            X = pass_leading(StreamPipeline([("step", step)]), X)
    return X, added


def merge_steps(outcomes: list[Any]) -> StreamPipeline:
    """Return the steps of the leading worker, with what the rows of the others have added."""
    leading, *others = outcomes
    for other in others:
        for step, more in zip(_learning(leading.steps), other.steps, strict=True):
            _add(step, more, other.n_read)
    head: StreamPipeline = leading.steps
    return head


def _learning(head: StreamPipeline) -> list[Summing]:
    return [step for _, step in head.steps if isinstance(step, Summing)]


def _nothing_of(step: Summing) -> Summing:
    """Return a step of the same settings that has learned nothing, on the same clock."""
    if not isinstance(step, RunningScaler):
        return clone(step)
    nothing = copy(step)
    nothing.weight_ = 0.0
    nothing.mean_, nothing.var_ = np.zeros_like(step.mean_), np.zeros_like(step.var_)
    return nothing


def _add(step: Summing, more: Summing, n_rows: int) -> None:
    """Add to a step what another one, which began with nothing, learned from the next rows."""
    if isinstance(step, ZCAWhitener):
        step.merge(more)
        return
    if isinstance(step, RunningScaler):
        fading, _ = discount_over(step.n_samples_seen_, n_rows, float(step.memory or 0))
        weight = fading * step.weight_ + more.weight_
        share, shift = more.weight_ / weight, more.mean_ - step.mean_
        step.var_ = (1 - share) * (step.var_ + share * shift**2) + share * more.var_
        step.weight_ = weight
    else:
        n_present = step.n_present_ + more.n_present_
        share, shift = more.n_present_ / np.maximum(n_present, 1), more.mean_ - step.mean_
        step.n_present_ = n_present
    step.mean_ = step.mean_ + share * shift
    step.n_samples_seen_ += n_rows
