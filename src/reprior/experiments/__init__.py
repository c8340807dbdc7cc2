"""The long-tail lab: train the paper's compared methods, and correct each of them.

Nothing heavy is imported until it is used: PyTorch and Lightning come with the extra
``experiments``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reprior.experiments.config import RunConfig
    from reprior.experiments.data import ImageData, open_data
    from reprior.experiments.models import build_model
    from reprior.experiments.training import RunFile, train

__all__ = ["ImageData", "RunConfig", "RunFile", "build_model", "open_data", "train"]

_HOMES = {
    "ImageData": "reprior.experiments.data",
    "RunConfig": "reprior.experiments.config",
    "RunFile": "reprior.experiments.training",
    "build_model": "reprior.experiments.models",
    "open_data": "reprior.experiments.data",
    "train": "reprior.experiments.training",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'reprior.experiments' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
