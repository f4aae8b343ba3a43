"""The live page: a network that learns in front of your eyes."""

from hebbnmf.live.view import LiveView

__all__ = ["LiveView"]
