r"""The fused posterior of some images: flattening, prior correction and fusion rule.

.. math::
    \text{rebalance_first:}\; P_m ∝ \exp\bigl(δ_m\,(z_m + λ_m w)\bigr), \qquad
    \text{flatten_first:}\; P_m ∝ \exp\bigl(δ_m z_m + λ_m w\bigr)

with the log-scores z_m of modality m, its flattening factor δ_m, its strength λ_m and the slopes
w = log P_t − log P_s; the P_m are then fused.

``native_…`` call the compiled kernels on NumPy arrays (images, K, pixels), or
(passes, images, K, pixels). ``array_…`` do the same in the array API, for every other library and
for gradients, on (images, K, pixels …); tests check that the two are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import array_api_compat
import numpy as np

from reprior.core import kernels
from reprior.core.arrays import (
    Array,
    Namespace,
    accumulation_dtype,
    compute_dtype,
    constant,
    device_of,
    is_traced,
)
from reprior.core.flatten import EntropyReference, entropy
from reprior.core.logspace import log_softmax, logsumexp, normalise

__all__ = [
    "SCORES_AT_ONCE",
    "NoPosteriorError",
    "Recipe",
    "References",
    "Uncertainty",
    "array_classes",
    "array_fused",
    "array_posterior",
    "array_uncertainty",
    "by_images",
    "native_classes",
    "native_fused",
    "native_uncertainty",
]


Vector: TypeAlias = np.ndarray[Any, Any]


class NoPosteriorError(Exception):
    """A row has no posterior: of one modality, by its index, or (None) of all together."""

    def __init__(self, modality: int | None) -> None:
        super().__init__(modality)
        self.modality = modality


class Uncertainty(NamedTuple):
    """The uncertainty of a modality per pixel or per image, in nats."""

    entropy: Array
    """The entropy of the posterior, which is the mean over passes where there are several."""
    information: Array | None = None
    """The mutual information of class and pass: that entropy less the mean entropy of a pass."""

    def averaged(self, recipe: Recipe, xp: Namespace) -> Uncertainty:
        """Return the mean over the pixels of every image, unless each pixel has its own δ."""
        if recipe.flatten_by == "pixel" or self.entropy.ndim == 1:
            return self
        axes = tuple(range(1, self.entropy.ndim))
        return Uncertainty(
            *(v if v is None else xp.mean(v, axis=axes, keepdims=True) for v in self)
        )


@dataclass(frozen=True)
class References:
    """The reference uncertainties of one modality; None for those that δ does not use."""

    entropy: EntropyReference | None = None
    information: EntropyReference | None = None

    def factor(self, uncertainty: Uncertainty, xp: Namespace) -> Array | None:
        """Return δ, the smaller one where there are two references; None where there is none."""
        pairs = (
            (uncertainty.entropy, self.entropy),
            (uncertainty.information, self.information),
        )
        factors = [_ratio(value, known, xp) for value, known in pairs if known is not None]
        if len(factors) < 2:
            return factors[0] if factors else None
        return xp.where(factors[0] < factors[1], factors[0], factors[1])


def _ratio(value: Array, known: EntropyReference, xp: Namespace) -> Array:
    """Return δ = μ / (μ + max(0, H − μ − σ)): exactly 1 where H is at most μ + σ."""
    excess = value - (known.mean + known.std)
    excess = xp.where(excess > 0, excess, xp.zeros_like(excess))
    return known.mean / (known.mean + excess)


@dataclass(frozen=True, eq=False)
class Recipe:
    """The modalities of a fusion, and how each one's scores are flattened, corrected and fused."""

    names: tuple[str, ...]
    references: tuple[References, ...]
    slopes: Vector
    rule: str
    order: str
    flatten_by: str
    kind: str
    passes: bool
    """Whether the scores have a leading axis of passes."""

    @property
    def flattens(self) -> bool:
        """Whether there is a δ to be computed."""
        return any(known != References() for known in self.references)

    def shift(self, strength: float) -> Vector | None:
        """Return λ·w, one per class; None where it is 0."""
        if strength == 0.0 or not self.slopes.any():
            return None
        shift: Vector = strength * self.slopes
        return shift

    def only(self, names: Sequence[str]) -> Recipe:
        """Return the recipe for the modalities among ``names``."""
        kept = [i for i, name in enumerate(self.names) if name in names]
        return replace(
            self,
            names=tuple(self.names[i] for i in kept),
            references=tuple(self.references[i] for i in kept),
        )


def native_uncertainty(recipe: Recipe, m: int, z: Vector, tolerance: float) -> Uncertainty:
    """Return the uncertainty of modality m for every pixel, (images, pixels)."""
    rows = _rows(z)
    values = np.empty((2 if recipe.passes else 1, rows.shape[1] * rows.shape[2]))
    if not _extension().entropies(rows, recipe.kind, tolerance, values):
        raise NoPosteriorError(m)
    return Uncertainty(*values.reshape(len(values), *rows.shape[1:3]))


def native_fused(
    recipe: Recipe,
    parts: Sequence[Vector],
    tolerances: Sequence[float],
    deltas: Sequence[Vector | None],
    strengths: Sequence[float],
    form: str,
    out: Vector,
) -> None:
    """Write the posterior, its logarithm or its scores into ``out`` (images, K, pixels).

    ``deltas`` are (images, pixels), or (images, 1) where the pixels of an image share one.
    """
    settings = np.array(strengths, np.float64)
    common = _common(recipe, parts, tolerances, deltas)
    target = out.swapaxes(1, 2)
    bad = _extension().fuse(*common, settings, *_how(recipe), form, target)
    _refuse(bad, len(parts))


def native_classes(
    recipe: Recipe,
    parts: Sequence[Vector],
    tolerances: Sequence[float],
    deltas: Sequence[Vector | None],
    settings: Sequence[Sequence[float]],
) -> Vector:
    """Return the arg max of the posterior at every setting, (settings, images, pixels).

    The posterior is rounded to the dtype of the scores first.
    """
    n_images = parts[0].shape[-3]
    n_pixels = parts[0].shape[-1]
    classes = np.empty((len(settings), n_images * n_pixels), np.int64)
    strengths = np.array(settings, np.float64).reshape(len(settings), len(parts))
    common = _common(recipe, parts, tolerances, deltas)
    bad = _extension().fused_classes(*common, strengths, *_how(recipe), classes)
    _refuse(bad, len(parts))
    return classes.reshape(len(settings), n_images, n_pixels)


def _extension() -> Any:
    return kernels.native


def _rows(z: Vector) -> Vector:
    """Return a view (passes, images, pixels, K), as the kernels take it."""
    if not z.flags.aligned or any(stride % z.itemsize for stride in z.strides):
        z = z.copy()
    rows = z.swapaxes(-1, -2)
    return rows if rows.ndim == 4 else rows[None]


def _common(
    recipe: Recipe,
    parts: Sequence[Vector],
    tolerances: Sequence[float],
    deltas: Sequence[Vector | None],
) -> tuple[Any, ...]:
    rows = [_rows(z) for z in parts]
    return rows, recipe.kind, np.array(tolerances), _factors(deltas), recipe.slopes


def _factors(deltas: Sequence[Vector | None]) -> Vector | None:
    known = [delta for delta in deltas if delta is not None]
    if not known:
        return None
    return np.stack([np.ones_like(known[0]) if delta is None else delta for delta in deltas])


def _how(recipe: Recipe) -> tuple[str, bool]:
    return recipe.rule, recipe.order == "flatten_first"


def _refuse(bad: int, n_modalities: int) -> None:
    if bad >= 0:
        raise NoPosteriorError(bad if bad < n_modalities else None if n_modalities > 1 else 0)


Parts: TypeAlias = Sequence[Array]

SCORES_AT_ONCE = 1 << 22
"""Scores of one modality in one call of array code: 16 MB of float32."""


def by_images(work: Callable[[list[Array]], Array], parts: Parts, recipe: Recipe) -> Array:
    """Return ``work`` of all images, some at a time."""
    xp = array_api_compat.array_namespace(*parts)
    lead = (slice(None),) if recipe.passes else ()
    shape = tuple(parts[0].shape)[len(lead) :]
    step = max(1, SCORES_AT_ONCE // math.prod(shape[1:]))
    groups = [slice(a, min(a + step, shape[0])) for a in range(0, shape[0], step)]

    def part(group: slice) -> Array:
        with np.errstate(all="ignore"):  # log 0 is −inf; a row's maximum finds a NaN
            return work([z[(*lead, group, ...)] for z in parts])

    if len(groups) == 1:
        return part(groups[0])
    if array_api_compat.is_jax_array(parts[0]):
        return xp.concat([part(group) for group in groups], axis=0)
    first = part(groups[0])
    result = xp.empty((shape[0], *first.shape[1:]), dtype=first.dtype, device=device_of(first))
    result[groups[0], ...] = first
    for group in groups[1:]:
        result[group, ...] = part(group)
    return result


def array_posterior(
    recipe: Recipe,
    strengths: Sequence[float],
    tolerances: Sequence[float],
    parts: Parts,
    *,
    log: bool,
) -> Array:
    """Return the fused (log-)posterior of some images, in the compute dtype."""
    deltas: list[Array | None] = []
    for m, z in enumerate(parts):
        if not recipe.flattens:
            deltas.append(None)
            continue
        xp = array_api_compat.array_namespace(z)
        uncertainty = array_uncertainty(recipe, m, z, tolerances[m]).averaged(recipe, xp)
        deltas.append(recipe.references[m].factor(uncertainty, xp))
    return array_fused(recipe, parts, tolerances, deltas, strengths, "log" if log else "posterior")


def array_uncertainty(recipe: Recipe, m: int, z: Array, tolerance: float) -> Uncertainty:
    """Return the uncertainty of modality m for every pixel, (images, pixels …)."""
    xp = array_api_compat.array_namespace(z)
    if not recipe.passes:
        return Uncertainty(_entropies(_log_scores(recipe, z, tolerance, m, axis=1, xp=xp), 1, xp))
    log_mean, each = _mean_of_passes(recipe, z, tolerance, m, xp)
    total = _entropies(log_mean, 1, xp)
    information = total - xp.mean(_entropies(each, 2, xp), axis=0)
    return Uncertainty(total, xp.where(information > 0, information, xp.zeros_like(total)))


def array_fused(
    recipe: Recipe,
    parts: Parts,
    tolerances: Sequence[float],
    deltas: Sequence[Array | None],
    strengths: Sequence[float],
    form: str,
) -> Array:
    """Return the fused "posterior", its "log", or (of the product) the "scores" of its softmax.

    ``deltas`` have one entry per pixel, or one per image and axes of length 1.
    """
    xp = array_api_compat.array_namespace(*parts)
    modalities = []
    for m, (z, delta, strength) in enumerate(zip(parts, deltas, strengths, strict=True)):
        log_z = _read(recipe, z, tolerances[m], m, xp)
        if delta is not None:
            delta = xp.expand_dims(xp.astype(delta, log_z.dtype, copy=False), axis=1)
        scores = _tempered(recipe, log_z, delta, recipe.shift(strength), xp)
        peak = _finite_peak(scores, m, xp)
        summed = recipe.rule == "product"
        log = form == "log"
        part = scores if summed else normalise(scores, peak, axis=1, xp=xp, log=log)
        modalities.append(part)
    if form == "scores":
        total = sum(modalities[1:], modalities[0])
        _joint_peak(modalities, total, xp)
        return total
    return (_fused_log if form == "log" else _fused)(modalities, recipe.rule, xp)


def array_classes(
    recipe: Recipe,
    parts: Parts,
    tolerances: Sequence[float],
    deltas: Sequence[Array | None],
    settings: Sequence[Sequence[float]],
    dtype: Any,
) -> Array:
    """Return the arg max of the posterior, rounded to ``dtype``, at every setting."""
    xp = array_api_compat.array_namespace(*parts)
    classes = []
    for strengths in settings:
        posterior = array_fused(recipe, parts, tolerances, deltas, strengths, "posterior")
        classes.append(xp.argmax(xp.astype(posterior, dtype, copy=False), axis=1))
    return xp.stack(classes)


def _read(recipe: Recipe, z: Array, tolerance: float, m: int, xp: Namespace) -> Array:
    """Return log-scores (images, K, pixels …)."""
    if recipe.passes:
        return _mean_of_passes(recipe, z, tolerance, m, xp)[0]
    return _log_scores(recipe, z, tolerance, m, axis=1, xp=xp)


def _mean_of_passes(
    recipe: Recipe, z: Array, tolerance: float, m: int, xp: Namespace
) -> tuple[Array, Array]:
    """Return the logarithm of the passes' mean posterior, and the log-posterior of each."""
    each = log_softmax(_log_scores(recipe, z, tolerance, m, axis=2, xp=xp), axis=2, xp=xp)
    return logsumexp(each, axis=0, xp=xp) - math.log(z.shape[0]), each


def _log_scores(
    recipe: Recipe, z: Array, tolerance: float, m: int, *, axis: int, xp: Namespace
) -> Array:
    kind = recipe.kind
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
    """Return the entropy per pixel, in float64 where the library has it."""
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


def _fused(modalities: Sequence[Array], rule: str, xp: Namespace) -> Array:
    """Return the fused posterior of posteriors, or of log-scores under "product"."""
    fused = modalities[0]
    for part in modalities[1:]:
        # 1 − (1 − q)(1 − p) = q + p − q·p: as exact as p and q are, however small.
        fused = fused + part if rule != "noisy_or" else fused + part - fused * part
    if rule == "product":
        return normalise(fused, _joint_peak(modalities, fused, xp), axis=1, xp=xp, log=False)
    return fused if len(modalities) == 1 else fused / xp.sum(fused, axis=1, keepdims=True)


def _fused_log(modalities: Sequence[Array], rule: str, xp: Namespace) -> Array:
    """Return the fused log-posterior of log-posteriors: exact where a posterior underflows."""
    fused = modalities[0]
    for part in modalities[1:]:
        if rule == "product":
            fused = fused + part
            continue
        if rule == "noisy_or":
            part = part + xp.log1p(-xp.exp(xp.where(fused < 0, fused, xp.zeros_like(fused))))
        fused = xp.logaddexp(fused, part)
    if len(modalities) == 1 and rule != "product":
        return fused
    return normalise(fused, _joint_peak(modalities, fused, xp), axis=1, xp=xp, log=True)


def _joint_peak(modalities: Sequence[Array], fused: Array, xp: Namespace) -> Array:
    return _finite_peak(fused, None if len(modalities) > 1 else 0, xp)


def _finite_peak(scores: Array, m: int | None, xp: Namespace, axis: int = 1) -> Array:
    """Return the largest score of every row; refuse NaN and +inf, which it passes on."""
    peak = xp.max(scores, axis=axis, keepdims=True)
    if not is_traced(peak) and not bool(xp.all(xp.isfinite(peak))):
        raise NoPosteriorError(m)
    return peak
