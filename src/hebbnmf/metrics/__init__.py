"""How well a network did."""

from hebbnmf.metrics.gabors import *  # noqa: F403
