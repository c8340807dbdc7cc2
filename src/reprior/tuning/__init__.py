"""Tuning the strength: the exact profile, and searches for metrics that are black boxes."""
