"""Segmentation of drives under weather that the network was not trained on.

PyTorch and Pillow take time to import, so they are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reprior_lab.synthia.data import (
        SegmentationData,
        open_data,
        open_sequence_data,
        split_data,
    )
    from reprior_lab.synthia.frames import Frame, Frames, open_folders, open_sequences, open_sf
    from reprior_lab.synthia.networks import build_network
    from reprior_lab.synthia.runs import NetworkRun
    from reprior_lab.synthia.scores import read_scores, write_scores
    from reprior_lab.synthia.settings import NetworkSettings
    from reprior_lab.synthia.training import load_network, train_network
    from reprior_lab.synthia.weather import CONDITIONS, apply_weather

__all__ = [
    "CONDITIONS",
    "Frame",
    "Frames",
    "NetworkRun",
    "NetworkSettings",
    "SegmentationData",
    "apply_weather",
    "build_network",
    "load_network",
    "open_data",
    "open_folders",
    "open_sequence_data",
    "open_sequences",
    "open_sf",
    "read_scores",
    "split_data",
    "train_network",
    "write_scores",
]

_HOMES = {
    "CONDITIONS": "weather",
    "Frame": "frames",
    "Frames": "frames",
    "NetworkRun": "runs",
    "NetworkSettings": "settings",
    "SegmentationData": "data",
    "apply_weather": "weather",
    "build_network": "networks",
    "load_network": "training",
    "open_data": "data",
    "open_folders": "frames",
    "open_sequence_data": "data",
    "open_sequences": "frames",
    "open_sf": "frames",
    "read_scores": "scores",
    "split_data": "data",
    "train_network": "training",
    "write_scores": "scores",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'reprior_lab.synthia' has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
