"""Benchmarks: every figure is a ratio of two things timed in turn, in one run."""
