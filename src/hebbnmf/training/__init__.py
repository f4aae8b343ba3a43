"""Training: a stream through a model, chunk by chunk, with checkpoints that outlive the process."""

from hebbnmf.training.loop import resume, train

__all__ = ["resume", "train"]
