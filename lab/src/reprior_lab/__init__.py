"""The long-tail lab: train the methods that the paper compares, and correct each of them.

PyTorch and Lightning take seconds to import, so they are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reprior_lab.config import RunConfig
    from reprior_lab.data import ImageData, open_data
    from reprior_lab.models.registry import build_model
    from reprior_lab.training import RunFile, train

__all__ = ["ImageData", "RunConfig", "RunFile", "build_model", "open_data", "train"]

_HOMES = {
    "ImageData": "reprior_lab.data",
    "RunConfig": "reprior_lab.config",
    "RunFile": "reprior_lab.training",
    "build_model": "reprior_lab.models.registry",
    "open_data": "reprior_lab.data",
    "train": "reprior_lab.training",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'reprior_lab' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
