"""Data sets of the experiments, read from the publishers' unpacked archives."""

from __future__ import annotations

from reprior_lab.data.images import ImageData, LazyImages
from reprior_lab.data.imbalance import imbalance_counts, imbalanced_indices
from reprior_lab.data.registry import data_names, open_data

__all__ = [
    "ImageData",
    "LazyImages",
    "data_names",
    "imbalance_counts",
    "imbalanced_indices",
    "open_data",
]
