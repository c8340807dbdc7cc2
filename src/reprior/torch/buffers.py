"""Buffers that follow a module to its device, and are not rounded on the way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

__all__ = ["exact_buffers"]


@contextmanager
def exact_buffers(module: nn.Module) -> Iterator[None]:
    """Keep the values of a module's own buffers while torch casts or moves it.

    For use around ``super()._apply(fn)``: afterwards the buffers are where ``fn`` put them, with
    the values they had, in float64 (float32 on devices without). Where ``fn`` fails they are as
    they were.

    Examples
    --------
    >>> import torch
    >>> from reprior.torch.buffers import exact_buffers
    >>> module = torch.nn.Module()
    >>> module.register_buffer("third", torch.tensor(1 / 3, dtype=torch.float64))
    >>> with exact_buffers(module):
    ...     _ = module.half()
    >>> module.third
    tensor(0.3333, dtype=torch.float64)
    """
    kept = {name: value for name, value in module._buffers.items() if value is not None}
    try:
        for name, value in kept.items():
            setattr(module, name, value.float())  # some devices take no float64
        yield
    except BaseException:
        for name, value in kept.items():
            setattr(module, name, value)
        raise
    for name, value in kept.items():
        device = getattr(module, name).device
        if device.type == "meta" or value.device.type == "meta":
            continue
        exact = torch.float32 if device.type == "mps" else torch.float64
        setattr(module, name, value.to(device=device, dtype=exact))
