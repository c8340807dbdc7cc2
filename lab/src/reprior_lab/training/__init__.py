"""Training: from a configuration to a run folder."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reprior_lab.training.loop import train
    from reprior_lab.training.recipes import effective_prior, register_loss
    from reprior_lab.training.runfile import RunFile
    from reprior_lab.training.scores import RunScores, read_scores

__all__ = ["RunFile", "RunScores", "effective_prior", "read_scores", "register_loss", "train"]

#: Imported on first use: Lightning takes seconds to import, and tables do not need it.
_HOMES = {
    "RunFile": "runfile",
    "RunScores": "scores",
    "effective_prior": "recipes",
    "read_scores": "scores",
    "register_loss": "recipes",
    "train": "loop",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'reprior_lab.training' has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
