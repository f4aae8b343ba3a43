"""Training: a stream through a model, chunk by chunk, with checkpoints that outlive the process."""

from hebbnmf.training.checkpoints import check_checkpoint
from hebbnmf.training.loop import resume, train

__all__ = ["check_checkpoint", "resume", "train"]
