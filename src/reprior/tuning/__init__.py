"""Tuning the strength: the exact profile, and searches for metrics that are black boxes."""

from reprior.profile.merging import ProfileSum
from reprior.tuning.problem import best_widened

__all__ = ["ProfileSum", "best_widened"]
