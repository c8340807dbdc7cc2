"""The PyTorch adapter: the correction as a layer, or in a layer's weights; fits from a loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reprior.exceptions import require

require("torch", extra="torch", purpose="For reprior.torch")

# The libraries above are looked for first, so that the sentence is ours and not an ImportError.
from reprior.torch.export import export_fusion  # noqa: E402 - after the check that the library is there
from reprior.torch.folding import fold_into, unfold  # noqa: E402 - after the check that the library is there
from reprior.torch.fusion import ModalityFusion  # noqa: E402 - after the check that the library is there
from reprior.torch.loader import fit_from_loader  # noqa: E402 - after the check that the library is there
from reprior.torch.rebalance import Rebalance  # noqa: E402 - after the check that the library is there

if TYPE_CHECKING:
    from reprior.torch.callback import RebalanceCallback

__all__ = [
    "ModalityFusion",
    "Rebalance",
    "RebalanceCallback",
    "export_fusion",
    "fit_from_loader",
    "fold_into",
    "unfold",
]


def __getattr__(name: str) -> Any:
    """Import the Lightning callback on first use: Lightning takes seconds to import."""

    if name == "RebalanceCallback":
        from reprior.torch.callback import RebalanceCallback

        return RebalanceCallback
    raise AttributeError(f"module 'reprior.torch' has no attribute {name!r}")
