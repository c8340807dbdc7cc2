"""The mathematics of a fusion on tensors that may be traced: no value is ever looked at.

Log-scores keep the axes they came with; what is per image or per pixel has length 1 elsewhere.
``reprior.fusion`` is the same for arrays, and a test holds the two equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["Layout", "columns", "compute_dtype", "fused", "posterior_of"]


class Layout(NamedTuple):
    """How scores lie."""

    shape: tuple[int, ...]
    """Of one pass, as given: that of the result."""
    axis: int
    """Of the classes in one pass, with all of them there."""
    single: bool
    """Whether there is one score for two classes."""
    kind: str
    passes: int
    """Leading axes of passes, 0 or 1."""


def compute_dtype(given: Sequence[Tensor]) -> torch.dtype:
    """What is computed in: float32 at least, float64 for float64 and for integers."""
    wide = torch.float32
    for z in given:
        exact = z.dtype == torch.float64 or not z.is_floating_point()
        if exact and z.device.type != "mps":  # which has no float64
            wide = torch.float64
    return wide


def columns(z: Tensor, layout: Layout) -> Tensor:
    """Log-scores with K entries on the class axis.

    Rows of "probs" and "log_probs" that do not sum to 1 are taken as they are, where
    :mod:`reprior.fusion` raises: they act like those divided by their sum.
    """
    axis = layout.axis + layout.passes
    if not layout.single:
        return _log(z) if layout.kind == "probs" else z
    if len(layout.shape) == 1:
        z = z.unsqueeze(-1)
    if layout.kind == "logits":
        return torch.cat([torch.zeros_like(z), z], dim=axis)
    if layout.kind == "probs":
        return _log(torch.cat([1.0 - z, z], dim=axis))
    near, far = (-torch.expm1(z)).log(), torch.log1p(-z.exp())
    return torch.cat([torch.where(z > -math.log(2.0), near, far), z], dim=axis)


def posterior_of(module: Any, m: int, log_z: Tensor, layout: Layout) -> Tensor:
    """The log-posterior of one modality, flattened and rebalanced in the module's order."""
    axis = layout.axis
    log_z, entropy, information = _read(log_z, layout, module)
    delta = None
    for measure, value in (("entropy", entropy), ("information", information)):
        known = module.reference(measure, m)
        if known is not None and value is not None:
            ratio = _ratio(value, *(each.to(value.dtype) for each in known))
            delta = ratio if delta is None else torch.minimum(delta, ratio)
    shape = [1] * log_z.ndim
    shape[axis] = -1
    shift = module.shift(m, log_z.dtype).reshape(shape)
    if delta is None:
        return torch.log_softmax(log_z + shift, dim=axis)
    if module.order == "rebalance_first":
        return torch.log_softmax(_scaled(log_z + shift, delta), dim=axis)
    return torch.log_softmax(_scaled(log_z, delta) + shift, dim=axis)


def fused(own: Sequence[Tensor], rule: str, axis: int) -> Tensor:
    """One log-posterior from those of the modalities.

    Under "product" a sample of which every class is impossible to some modality has no posterior,
    and is NaN, where :mod:`reprior.fusion` raises: no value is looked at here.
    """
    if len(own) == 1:
        return own[0]
    total = own[0]
    for part in own[1:]:
        if rule == "product":
            total = total + part
        elif rule == "mean":
            total = _log_add(total, part)
        else:
            # log(q + p·(1 − q)): as exact as log p and log q are, however small.
            total = _log_add(total, part + _log_rest(total))
    return torch.log_softmax(total, dim=axis)


def _read(
    log_z: Tensor, layout: Layout, module: Any
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Log-scores of one pass, their entropy, and the mutual information of class and pass."""
    axis, by_pixel = layout.axis, module.flatten_by == "pixel"
    if not layout.passes:
        if not module.flattens:
            return log_z, None, None
        entropy = _entropy(torch.log_softmax(log_z, dim=axis), axis)
        return log_z, _mean(entropy, axis, by_pixel), None
    each = torch.log_softmax(log_z, dim=axis + 1)
    log_mean = _log_sum_exp(each) - math.log(each.shape[0])
    if not module.flattens:
        return log_mean, None, None
    whole = _mean(_entropy(log_mean, axis), axis, by_pixel)
    of_passes = _mean(_entropy(each, axis + 1).mean(dim=0), axis, by_pixel)
    # Not below 0, but for rounding: entropy is concave.
    return log_mean, whole, torch.clamp_min(whole - of_passes, 0.0)


def _entropy(log_p: Tensor, axis: int) -> Tensor:
    """−Σ p log p, with 0·log 0 = 0, replaced before the product for the gradient's sake."""
    p = log_p.exp()
    finite = torch.where(p > 0, log_p, torch.zeros_like(log_p))
    return -(p * finite).sum(dim=axis, keepdim=True)


def _mean(per_pixel: Tensor, axis: int, by_pixel: bool) -> Tensor:
    """Over the pixels of an image, unless each has a δ of its own.

    One axis after the other: a runtime that adds up float32 one by one then adds up hundreds of
    numbers, not a hundred thousand.
    """
    if by_pixel:
        return per_pixel
    image = 1 if axis == 0 else 0
    for dim in reversed(range(per_pixel.ndim)):
        if dim not in (axis, image):
            per_pixel = per_pixel.mean(dim=dim, keepdim=True)
    return per_pixel


def _ratio(value: Tensor, mean: Tensor, limit: Tensor) -> Tensor:
    """δ = μ / (μ + max(0, H − (μ + σ))): 1 to the bit where H is at most μ + σ."""
    return mean / (mean + torch.clamp_min(value - limit, 0.0))


def _scaled(log_z: Tensor, delta: Tensor) -> Tensor:
    """δ·z, where −inf stays so: its product with the gradient of δ would be NaN."""
    gone = torch.isneginf(log_z)
    return torch.where(gone, log_z, torch.where(gone, torch.zeros_like(log_z), log_z) * delta)


def _log(p: Tensor) -> Tensor:
    """The logarithm, whose gradient at 0 would be NaN."""
    zero = p == 0
    log_p = torch.where(zero, torch.ones_like(p), p).log()
    return torch.where(zero, torch.full_like(p, -math.inf), log_p)


def _log_rest(log_q: Tensor) -> Tensor:
    """log(1 − q), −inf where q is 1, without the infinite gradient it has there."""
    sure = log_q >= 0
    rest = torch.log1p(-torch.where(sure, torch.full_like(log_q, -1.0), log_q).exp())
    return torch.where(sure, torch.full_like(log_q, -math.inf), rest)


def _log_add(a: Tensor, b: Tensor) -> Tensor:
    """log(exp a + exp b), −inf where both are, without the gradient NaN of that."""
    gone = torch.isneginf(torch.maximum(a, b))
    zero = torch.zeros_like(a)
    total = torch.logaddexp(torch.where(gone, zero, a), torch.where(gone, zero, b))
    return torch.where(gone, a, total)


def _log_sum_exp(each: Tensor) -> Tensor:
    """Over the passes, −inf where all are, without the gradient NaN of that."""
    gone = torch.isneginf(each).all(dim=0, keepdim=True)
    total = torch.logsumexp(torch.where(gone, torch.zeros_like(each), each), dim=0)
    return torch.where(gone.squeeze(0), torch.full_like(total, -math.inf), total)
