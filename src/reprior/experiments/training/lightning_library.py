"""Import Lightning, also where a torchvision lies beside a PyTorch it was not built for.

Lightning imports torchmetrics, which imports torchvision where it is installed, as it is with
timm. A torchvision that fails on the way takes both down.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from reprior.exceptions import require
from reprior.experiments.models.torchvision_operators import import_torchvision

__all__ = ["require_lightning"]


def require_lightning(module: str = "lightning.pytorch", *, purpose: str = "To train") -> Any:
    """Return a module of Lightning.

    Examples
    --------
    >>> require_lightning().__name__
    'lightning.pytorch'
    """
    with suppress(ModuleNotFoundError):  # without torchvision there is nothing to mend
        import_torchvision()
    return require(module, extra="experiments", purpose=purpose)
