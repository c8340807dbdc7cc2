"""The mathematics of a fusion in the array API: for every library, and for gradients.

It serves the arrays that the kernels (:mod:`reprior.fusion.native`) do not take, and tests hold
the two equal. Arrays are (images, K, pixels …), or (passes, images, K, pixels …).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

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
from reprior.fusion.posterior import Doubt, NoPosteriorError, Recipe

__all__ = ["SCORES_AT_ONCE", "by_images", "classes", "doubt", "fused", "fused_arrays"]

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
        with np.errstate(all="ignore"):  # log 0 is −inf, and a NaN is found by its row's maximum
            return work([z[(*lead, group, ...)] for z in parts])

    if len(groups) == 1:
        return part(groups[0])
    if array_api_compat.is_jax_array(parts[0]):
        return xp.concat([part(group) for group in groups], axis=0)
    found = part(groups[0])
    whole = xp.empty((shape[0], *found.shape[1:]), dtype=found.dtype, device=device_of(found))
    whole[groups[0], ...] = found
    for group in groups[1:]:
        whole[group, ...] = part(group)
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
    deltas: list[Array | None] = []
    for m, z in enumerate(parts):
        if not recipe.flattens:
            deltas.append(None)
            continue
        xp = array_api_compat.array_namespace(z)
        unsure = doubt(recipe, m, z, tolerances[m])
        deltas.append(recipe.references[m].factor(unsure.averaged(recipe, xp), xp))
    return fused(recipe, parts, tolerances, deltas, strengths, "log" if log else "posterior")


def doubt(recipe: Recipe, m: int, z: Array, tolerance: float) -> Doubt:
    """How unsure modality m is of every pixel, (images, pixels …)."""
    xp = array_api_compat.array_namespace(z)
    if not recipe.passes:
        return Doubt(_entropies(_log_scores(recipe, z, tolerance, m, axis=1, xp=xp), 1, xp))
    log_mean, each = _mean_of_passes(recipe, z, tolerance, m, xp)
    whole = _entropies(log_mean, 1, xp)
    information = whole - xp.mean(_entropies(each, 2, xp), axis=0)
    return Doubt(whole, xp.where(information > 0, information, xp.zeros_like(whole)))


def fused(
    recipe: Recipe,
    parts: Parts,
    tolerances: Sequence[float],
    deltas: Sequence[Array | None],
    strengths: Sequence[float],
    form: str,
) -> Array:
    """The fused "posterior", its "log", or (of the product) the "scores" of its softmax.

    ``deltas`` have one entry per pixel, or one per image and axes of length 1.
    """
    xp = array_api_compat.array_namespace(*parts)
    own = []
    for m, (z, delta, strength) in enumerate(zip(parts, deltas, strengths, strict=True)):
        log_z = _read(recipe, z, tolerances[m], m, xp)
        if delta is not None:
            delta = xp.expand_dims(xp.astype(delta, log_z.dtype, copy=False), axis=1)
        scores = _tempered(recipe, log_z, delta, recipe.shift(strength), xp)
        peak = _finite_peak(scores, m, xp)
        summed, log = recipe.rule == "product", form == "log"
        own.append(scores if summed else normalise(scores, peak, axis=1, xp=xp, log=log))
    if form == "scores":
        total = sum(own[1:], own[0])
        _joint_peak(own, total, xp)
        return total
    return (_fused_log if form == "log" else _fused)(own, recipe.rule, xp)


def classes(
    recipe: Recipe,
    parts: Parts,
    tolerances: Sequence[float],
    deltas: Sequence[Array | None],
    settings: Sequence[Sequence[float]],
    dtype: Any,
) -> Array:
    """The arg max of the posterior, rounded to ``dtype``, at every setting of the strengths."""
    xp = array_api_compat.array_namespace(*parts)
    found = []
    for strengths in settings:
        posterior = fused(recipe, parts, tolerances, deltas, strengths, "posterior")
        found.append(xp.argmax(xp.astype(posterior, dtype, copy=False), axis=1))
    return xp.stack(found)


def _read(recipe: Recipe, z: Array, tolerance: float, m: int, xp: Namespace) -> Array:
    """Log-scores (images, K, pixels …)."""
    if recipe.passes:
        return _mean_of_passes(recipe, z, tolerance, m, xp)[0]
    return _log_scores(recipe, z, tolerance, m, axis=1, xp=xp)


def _mean_of_passes(
    recipe: Recipe, z: Array, tolerance: float, m: int, xp: Namespace
) -> tuple[Array, Array]:
    """The logarithm of the passes' mean posterior, and the log-posterior of each."""
    each = log_softmax(_log_scores(recipe, z, tolerance, m, axis=2, xp=xp), axis=2, xp=xp)
    return logsumexp(each, axis=0, xp=xp) - math.log(z.shape[0]), each


def _log_scores(
    recipe: Recipe, z: Array, tolerance: float, m: int, *, axis: int, xp: Namespace
) -> Array:
    kind, log_z = recipe.kind, xp.astype(z, compute_dtype(xp, z.dtype, device_of(z)), copy=False)
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
