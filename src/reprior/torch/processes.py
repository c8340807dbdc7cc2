"""One result from several processes, each of which has seen a part of the data."""

from __future__ import annotations

from typing import Any

from torch import distributed

from reprior.engines import OnlineFit

__all__ = ["merged"]


def merged(fit: OnlineFit) -> OnlineFit:
    """The counts of all processes in the order of their ranks, the same on each of them."""
    if not distributed.is_available() or not distributed.is_initialized():
        return fit
    fits: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(fits, fit)
    first: OnlineFit = fits[0]
    for other in fits[1:]:
        first.merge(other)
    return first
