"""The mathematics of a fusion in the array API, for every library but NumPy, and for gradients.

Arrays are (images, K, pixels …), or (passes, images, K, pixels …). Some images are done at a
time, so that what is needed in between stays small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import array_api_compat

from reprior.core.arrays import (
    Array,
    Namespace,
    accumulation_dtype,
    compute_dtype,
    constant,
    device_of,
    is_traced,
)
from reprior.core.flatten import entropy
from reprior.core.logspace import log_softmax, logsumexp, normalise
from reprior.fusion.kernel import NoPosteriorError
from reprior.fusion.recipe import Doubt, Recipe

__all__ = ["by_images", "fused_arrays"]

Parts: TypeAlias = Sequence[Array]

SCORES_AT_ONCE = 1 << 22
"""Scores of one modality that are worked on together: 16 MB of float32."""


def by_images(work: Callable[[list[Array]], Array], parts: Parts, recipe: Recipe) -> Array:
    """What ``work`` makes of all images, some at a time."""
    xp = array_api_compat.array_namespace(*parts)
    lead = (slice(None),) if recipe.passes else ()
    shape = tuple(parts[0].shape)[len(lead) :]
    step = max(1, SCORES_AT_ONCE // math.prod(shape[1:]))
    groups = [slice(a, min(a + step, shape[0])) for a in range(0, shape[0], step)]

    def part(group: slice) -> Array:
        return work([z[(*lead, group, ...)] for z in parts])

    if len(groups) == 1:
        return part(groups[0])
    if not array_api_compat.is_torch_array(parts[0]):
        return xp.concat([part(group) for group in groups], axis=0)
    found = part(groups[0])
    whole = xp.empty((shape[0], *found.shape[1:]), dtype=found.dtype, device=found.device)
    whole[groups[0]] = found
    for group in groups[1:]:
        whole[group] = part(group)
    return whole


def fused_arrays(
    recipe: Recipe,
    strengths: Sequence[float],
    tolerances: Sequence[float],
    parts: Parts,
    *,
    log: bool,
) -> Array:
    """The fused (log-)posterior of some images, in the compute dtype."""
    xp = array_api_compat.array_namespace(*parts)
    own = []
    for m, (z, strength) in enumerate(zip(parts, strengths, strict=True)):
        log_z, doubt = _read(recipe, z, tolerances[m], m, xp)
        delta = recipe.references[m].factor(doubt, xp)
        if delta is not None:
            delta = xp.expand_dims(xp.astype(delta, log_z.dtype, copy=False), axis=1)
        scores = _tempered(recipe, log_z, delta, recipe.shift(strength), xp)
        peak = _finite_peak(scores, m, xp)
        summed = recipe.rule == "product"
        own.append(scores if summed else normalise(scores, peak, axis=1, xp=xp, log=log))
    return (_fused_log if log else _fused)(own, recipe.rule, xp)


def _read(recipe: Recipe, z: Array, tolerance: float, m: int, xp: Namespace) -> tuple[Array, Doubt]:
    """Log-scores (images, K, pixels …), and how unsure the modality is of images or pixels."""
    if not recipe.passes:
        log_z = _log_scores(z, recipe.kind, tolerance, m, axis=1, xp=xp)
        if not recipe.flattens:
            return log_z, Doubt(None)
        return log_z, Doubt(_mean(_entropies(log_z, 1, xp), recipe, xp))
    each = log_softmax(_log_scores(z, recipe.kind, tolerance, m, axis=2, xp=xp), axis=2, xp=xp)
    log_mean = logsumexp(each, axis=0, xp=xp) - math.log(z.shape[0])
    if not recipe.flattens:
        return log_mean, Doubt(None)
    whole = _mean(_entropies(log_mean, 1, xp), recipe, xp)
    of_passes = _mean(xp.mean(_entropies(each, 2, xp), axis=0), recipe, xp)
    information = whole - of_passes
    return log_mean, Doubt(whole, xp.where(information > 0, information, xp.zeros_like(whole)))


def _log_scores(
    z: Array, kind: str, tolerance: float, m: int, *, axis: int, xp: Namespace
) -> Array:
    log_z = xp.astype(z, compute_dtype(xp, z.dtype, device_of(z)), copy=False)
    if kind != "logits":
        mass = log_z if kind == "probs" else xp.exp(log_z)
        total = xp.sum(mass, axis=axis)
        if not is_traced(total):
            good = xp.all(xp.abs(total - 1.0) <= tolerance) & (xp.min(mass) >= 0.0)
            if not bool(good):
                raise NoPosteriorError(m)
    if kind == "probs":
        log_z = xp.log(log_z)
    _finite_peak(log_z, m, xp, axis)
    return log_z


def _entropies(log_z: Array, axis: int, xp: Namespace) -> Array:
    """Per pixel, in float64 where there is one."""
    per_pixel = entropy(log_softmax(log_z, axis=axis, xp=xp), axis=axis, xp=xp)
    return xp.astype(per_pixel, accumulation_dtype(xp, device_of(per_pixel)), copy=False)


def _mean(per_pixel: Array, recipe: Recipe, xp: Namespace) -> Array:
    """Over the pixels of an image, unless each has a δ of its own."""
    if recipe.flatten_by == "pixel" or per_pixel.ndim == 1:
        return per_pixel
    return xp.mean(per_pixel, axis=tuple(range(1, per_pixel.ndim)), keepdims=True)


def _tempered(
    recipe: Recipe, log_z: Array, delta: Array | None, shift: Any, xp: Namespace
) -> Array:
    """Flatten and shift log-scores in the recipe's order."""
    if shift is not None:
        shift = constant(shift, xp, like=log_z, dtype=log_z.dtype)
        shift = xp.reshape(shift, (-1,) + (1,) * (log_z.ndim - 2))
    if shift is None or delta is None:
        scores = log_z if shift is None else log_z + shift
        return scores if delta is None else scores * delta
    if recipe.order == "rebalance_first":
        return (log_z + shift) * delta
    return log_z * delta + shift


def _fused(own: Sequence[Array], rule: str, xp: Namespace) -> Array:
    """The fused posterior from posteriors, or from log-scores under "product"."""
    fused = own[0]
    for part in own[1:]:
        # 1 − (1 − q)(1 − p) = q + p − q·p: as exact as p and q are, however small.
        fused = fused + part if rule != "noisy_or" else fused + part - fused * part
    if rule == "product":
        return normalise(fused, _joint_peak(own, fused, xp), axis=1, xp=xp, log=False)
    return fused if len(own) == 1 else fused / xp.sum(fused, axis=1, keepdims=True)


def _fused_log(own: Sequence[Array], rule: str, xp: Namespace) -> Array:
    """The same from log-posteriors, as the log-posterior: exact where the other underflows."""
    fused = own[0]
    for part in own[1:]:
        if rule == "product":
            fused = fused + part
            continue
        if rule == "noisy_or":
            part = part + xp.log1p(-xp.exp(xp.where(fused < 0, fused, xp.zeros_like(fused))))
        fused = xp.logaddexp(fused, part)
    if len(own) == 1 and rule != "product":
        return fused
    return normalise(fused, _joint_peak(own, fused, xp), axis=1, xp=xp, log=True)


def _joint_peak(own: Sequence[Array], fused: Array, xp: Namespace) -> Array:
    return _finite_peak(fused, None if len(own) > 1 else 0, xp)


def _finite_peak(scores: Array, m: int | None, xp: Namespace, axis: int = 1) -> Array:
    """The largest score of every row: NaN and +inf come through, and are refused."""
    peak = xp.max(scores, axis=axis, keepdims=True)
    if not is_traced(peak) and not bool(xp.all(xp.isfinite(peak))):
        raise NoPosteriorError(m)
    return peak
