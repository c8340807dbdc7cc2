"""Ratios against named peers, measured in one run on one machine: ``python -m benchmarks``."""
