"""Training: a stream through a model, chunk by chunk, with checkpoints that outlive the process."""

from hebbnmf.training.training import TrainingInterrupted, resume, train

__all__ = ["TrainingInterrupted", "resume", "train"]
