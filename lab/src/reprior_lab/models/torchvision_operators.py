"""Import torchvision beside a PyTorch that its wheel was not built for.

timm imports torchvision. Its wheel registers its compiled operators when its extension library
loads, which fails for a wheel for CUDA beside a CPU-only PyTorch. torchvision then continues
without them, and fails a few lines later because it describes the shapes of ``torchvision::nms``,
an operator that was not declared. Declaring it, without an implementation, is enough:
classification never calls it.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

__all__ = ["import_torchvision"]

#: Operators whose shapes torchvision's Python code describes at import.
DECLARED = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)

# A library's declarations live as long as this object does.
_kept: list[Any] = []


def import_torchvision() -> None:
    """Import torchvision; if that fails, declare the operators that it lacks and try again."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        operators = torch.ops.torchvision
        missing = [each for each in DECLARED if not hasattr(operators, each.partition("(")[0])]
        if not missing:
            raise  # something else is wrong
        for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        torch_library: Any = torch.library  # untyped
        library = torch_library.Library("torchvision", "FRAGMENT")
        for schema in missing:
            library.define(schema)
        _kept.append(library)
        importlib.import_module("torchvision")
