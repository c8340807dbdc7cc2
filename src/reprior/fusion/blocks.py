"""Passes over the scores of all modalities, in blocks that are shared among threads.

A pass returns the fused posterior, its decisions, counts of decisions (:class:`Tally`) or the
moments of an uncertainty (:class:`Moments`); the last two can be merged. Only the result may be as
large as the scores. Blocks, and so results, are the same for every number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from reprior.core import kernels
from reprior.core.arrays import Array, compute_dtype, is_floating, to_numpy
from reprior.core.binary import contract
from reprior.core.threads import in_threads, n_shares
from reprior.fusion.fused import (
    NoPosteriorError,
    Recipe,
    Uncertainty,
    array_classes,
    array_fused,
    array_posterior,
    array_uncertainty,
    by_images,
    native_classes,
    native_fused,
    native_uncertainty,
)
from reprior.fusion.named_scores import Inputs

__all__ = ["Batch", "Moments", "Tally", "decisions", "merged", "posterior"]


Vector: TypeAlias = np.ndarray[Any, Any]


class Moments(NamedTuple):
    """Number, mean and summed squared deviations of some values."""

    n: int
    mean: float
    squares: float

    @classmethod
    def of(cls, values: Vector) -> Moments:
        """Return the moments of an array."""
        mean = float(values.mean())
        return cls(values.size, mean, float(np.square(values - mean).sum()))

    def merged(self, other: Moments) -> Moments:
        """Return the moments of both together."""
        n = self.n + other.n
        step = other.mean - self.mean
        mean = self.mean + step * other.n / n
        return Moments(n, mean, self.squares + other.squares + step**2 * self.n * other.n / n)

    @property
    def std(self) -> float:
        """The population standard deviation."""
        return math.sqrt(self.squares / self.n)


class Tally(NamedTuple):
    """True positives and predictions per setting and class: numbers, and sums of weights."""

    counts: Vector
    """(2, settings, K) integers."""
    sums: Vector | None
    """(2, settings, K) floats where samples have weights, else None."""

    @classmethod
    def empty(cls, n_settings: int, n_classes: int, weighted: bool) -> Tally:
        """Return a tally of no decisions."""
        shape = (2, n_settings, n_classes)
        return cls(np.zeros(shape, np.int64), np.zeros(shape) if weighted else None)

    def add(self, setting: int, labels: Vector, decided: Vector, weights: Vector | None) -> None:
        """Count the decisions of one setting."""
        n_classes = self.counts.shape[2]
        right = labels == decided
        self.counts[0, setting] += np.bincount(labels[right], minlength=n_classes)
        self.counts[1, setting] += np.bincount(decided, minlength=n_classes)
        if self.sums is not None and weights is not None:
            self.sums[0, setting] += np.bincount(labels[right], weights[right], minlength=n_classes)
            self.sums[1, setting] += np.bincount(decided, weights, minlength=n_classes)

    def merged(self, other: Tally) -> Tally:
        """Return the counts of both."""
        sums = None if self.sums is None or other.sums is None else self.sums + other.sums
        return Tally(self.counts + other.counts, sums)


def merged(moments: Iterable[Moments | None]) -> Moments | None:
    """Merge the moments of all parts, in their order; None where no part has any."""
    total: Moments | None = None
    for each in moments:
        if each is not None:
            total = each if total is None else total.merged(each)
    return total


Index: TypeAlias = Any
Result = TypeVar("Result")

BLOCK_SCORES = 1 << 18
"""About how many scores of one modality a kernel gets in one call, in whole pixels."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Scores of the modalities on the host as (images, K, pixels …), of one shape.

    With passes they are (passes, images, K, pixels …); modalities may have different numbers of
    passes. ``images`` are the indices of the images that count, None for all.
    """

    arrays: tuple[Array, ...]
    tolerances: tuple[float, ...]
    recipe: Recipe
    images: Vector | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one pass."""
        return tuple(self.arrays[0].shape)[1 if self.recipe.passes else 0 :]

    @property
    def dtype(self) -> Any:
        """The compute dtype."""
        return np.result_type(*(compute_dtype(np, array.dtype) for array in self.arrays))

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.shape[1])

    @property
    def n_pixels(self) -> int:
        """The number of pixels of one image."""
        return math.prod(self.shape[2:])

    # ------------------------------------------------------------------------------------- results

    def posterior(self, strengths: Sequence[float], out: Vector, *, log: bool) -> None:
        """Write the fused (log-)posterior into ``out`` (images, K, pixels …)."""
        self._run(partial(self._write, strengths, out, "log" if log else "posterior"))

    def decisions(self, strengths: Sequence[float], out: Vector, dtype: Any) -> None:
        """Write the arg max of the posterior, rounded to ``dtype``, into ``out`` (images, …)."""
        self._run(partial(self._decide, strengths, out, dtype))

    def moments(self, counted: Vector | None = None) -> list[list[Moments | None]]:
        """Return the moments of each modality's entropy and mutual information.

        They are over images, or over pixels where each pixel has its own δ: ``counted`` (images,
        pixels) then says which pixels count. An image counts with all its pixels.
        """
        groups = self._run(partial(self._moments, counted))
        return [
            [merged(group[m][i] for group in groups) for i in range(2)]
            for m in range(len(self.arrays))
        ]

    def tally(
        self,
        settings: Sequence[Sequence[float]],
        labels: Vector,
        weights: Vector | None,
        keep: Vector,
        dtype: Any,
    ) -> Tally:
        """Count the decisions at every setting of the strengths.

        ``labels``, ``weights`` and ``keep`` are (images, pixels); a setting has a strength per
        modality.
        """
        work = partial(self._count, settings, labels, weights, keep, dtype)
        first, *others = self._run(work)
        for other in others:
            first = first.merged(other)
        return first

    def lines(self, n_scores: int) -> Iterator[tuple[Index, Vector]]:
        """Indices of images, and log-scores (n, K, pixels) that are lines in a shared strength.

        s_k(λ) = z_k + λ·w_k has the arg max of the fused posterior at strength λ, where there is
        one modality or the rule is "product": the sum of their lines is one, and dividing it
        by the sum of its factors of λ changes no arg max.
        """
        together = replace(self, recipe=replace(self.recipe, rule="product"))
        for images in self._groups(n_scores):
            some = replace(together, images=np.arange(self.shape[0])[images])
            yield images, np.concatenate(some._run(some._line))

    # --------------------------------------------------------------------------------------- work

    def _write(self, strengths: Sequence[float], out: Vector, form: str, group: Index) -> None:
        target = out[group]
        flat = target.reshape(*target.shape[:2], -1)
        for pixels, parts, deltas in self._blocks(group):
            self._fuse(parts, deltas, strengths, form, flat[..., pixels])
        if not np.may_share_memory(flat, out):  # axes that no view can join
            out[group] = flat.reshape(target.shape)

    def _decide(self, strengths: Sequence[float], out: Vector, dtype: Any, group: Index) -> None:
        flat = out[group].reshape(out[group].shape[0], -1)
        for pixels, parts, deltas in self._blocks(group):
            flat[:, pixels] = self._classes(parts, deltas, [strengths], dtype)[0]

    def _line(self, group: Index) -> Vector:
        """Return the lines of some images, (n, K, pixels)."""
        z = np.empty((self._parts(group)[0].shape[-3], self.n_classes, self.n_pixels), self.dtype)
        for pixels, parts, deltas in self._blocks(group):
            self._fuse(parts, deltas, [0.0] * len(parts), "scores", z[..., pixels])
            if self.recipe.order == "flatten_first":
                deltas = [None] * len(parts)
            z[..., pixels] /= sum(1.0 if d is None else d[:, None].astype(z.dtype) for d in deltas)
        return z

    def _moments(self, counted: Vector | None, group: Index) -> list[list[Moments | None]]:
        """Return the moments of some images, per modality and measure."""
        keep = None if counted is None or not self._by_pixel else counted[group]
        moments = []
        for m, part in enumerate(self._parts(group)):
            values = [
                v if v is None or keep is None else v[keep] for v in self._uncertainty(m, part)
            ]
            moments.append([Moments.of(v) if v is not None and v.size else None for v in values])
        return moments

    def _count(
        self,
        settings: Sequence[Sequence[float]],
        labels: Vector,
        weights: Vector | None,
        keep: Vector,
        dtype: Any,
        group: Index,
    ) -> Tally:
        tally = Tally.empty(len(settings), self.n_classes, weights is not None)
        for pixels, parts, deltas in self._blocks(group):
            kept = keep[group][:, pixels]
            y = labels[group][:, pixels][kept]
            v = None if weights is None else weights[group][:, pixels][kept]
            for i, decided in enumerate(self._classes(parts, deltas, settings, dtype)):
                tally.add(i, y, decided[kept], v)
        return tally

    # --------------------------------------------------------------------------- kernels or arrays

    @property
    def _native(self) -> bool:
        """Whether the kernels take the scores as they are."""
        return all(kernels.serves(to_numpy(array[:0])) for array in self.arrays)

    def _fuse(
        self,
        parts: Sequence[Vector],
        deltas: Sequence[Vector | None],
        strengths: Sequence[float],
        form: str,
        out: Vector,
    ) -> None:
        what = (self.recipe, parts, self.tolerances, deltas, strengths, form)
        if self._native:
            native_fused(*what, out)
        else:
            out[...] = array_fused(*what)

    def _classes(
        self,
        parts: Sequence[Vector],
        deltas: Sequence[Vector | None],
        settings: Sequence[Sequence[float]],
        dtype: Any,
    ) -> Vector:
        """Return the decisions at every setting, (settings, images, pixels)."""
        what = (self.recipe, parts, self.tolerances, deltas, settings)
        if self._native:
            return native_classes(*what)
        classes: Vector = array_classes(*what, dtype)
        return classes

    def _uncertainty(self, m: int, part: Vector) -> Uncertainty:
        """Return a modality's uncertainty of some images, (images, 1), or of their pixels."""
        work = native_uncertainty if self._native else array_uncertainty
        return work(self.recipe, m, part, self.tolerances[m]).averaged(self.recipe, np)

    def _deltas(self, parts: Sequence[Vector]) -> list[Vector | None]:
        """Return δ of every modality, (images, 1) or (images, pixels); None where it is 1."""
        deltas: list[Vector | None] = []
        for m, part in enumerate(parts):
            delta = None
            if self.recipe.flattens:
                delta = self.recipe.references[m].factor(self._uncertainty(m, part), np)
            deltas.append(None if delta is None or (delta == 1.0).all() else delta)
        return deltas

    # -------------------------------------------------------------------------------------- layout

    @property
    def _by_pixel(self) -> bool:
        return self.recipe.flattens and self.recipe.flatten_by == "pixel"

    def _blocks(self, group: Index) -> Iterator[tuple[slice, list[Vector], list[Vector | None]]]:
        """Give the pixels of some images in blocks: which pixels, their scores, and δ."""
        parts = self._parts(group)
        deltas = [] if self._by_pixel else self._deltas(parts)
        n_images, n_classes, n_pixels = parts[0].shape[-3:]
        step = max(1, BLOCK_SCORES // (n_images * n_classes))
        for a in range(0, n_pixels, step):
            pixels = slice(a, min(a + step, n_pixels))
            some = [part[..., pixels] for part in parts]
            yield pixels, some, self._deltas(some) if self._by_pixel else deltas

    def _parts(self, group: Index) -> list[Vector]:
        """Return some images of every modality, (n, K, pixels) or (passes, n, K, pixels)."""
        lead = (slice(None),) if self.recipe.passes else ()
        parts = [to_numpy(array[(*lead, group)]) for array in self.arrays]
        return [part.reshape(*part.shape[: len(lead) + 2], -1) for part in parts]

    def _groups(self, n_scores: int) -> list[Index]:
        """Return groups of image indices, with about ``n_scores`` scores each."""
        n_images = self.shape[0] if self.images is None else self.images.size
        step = max(1, n_scores // (self.n_classes * self.n_pixels))
        edges = [*range(0, n_images, step), n_images]
        if self.images is None:
            return [slice(a, b) for a, b in pairwise(edges)]
        return [self.images[a:b] for a, b in pairwise(edges)]

    def _run(self, work: Callable[[Index], Result]) -> list[Result]:
        """Return the results of every group of images, in their order."""
        groups = self._groups(BLOCK_SCORES)
        n_images = self.shape[0] if self.images is None else self.images.size
        n_scores = n_images * self.n_classes * self.n_pixels * len(self.arrays)
        return in_threads(partial(_quietly, work), groups, n_shares(len(groups), n_scores))


def _quietly(work: Callable[[Index], Result], group: Index) -> Result:
    # log 0 is −inf, and the maximum of a row finds a NaN: NumPy need not warn of either.
    with np.errstate(all="ignore"):
        return work(group)


def posterior(inputs: Inputs, recipe: Recipe, strengths: Sequence[float], *, log: bool) -> Array:
    """Return the fused (log-)posterior, of the shape, library and dtype of the scores."""
    with _refusing(inputs, recipe):
        if _takes_kernels(inputs):
            columns = np.empty(inputs.columns_shape, inputs.dtype)
            batch = Batch(inputs.images_first(), inputs.tolerances, recipe)
            batch.posterior(strengths, inputs.view(columns), log=log)
        else:
            columns = inputs.as_given(_arrays(inputs, recipe, strengths, log=log))
    if inputs.single:
        return contract(columns, inputs.shape, xp=inputs.xp, class_axis=inputs.axis)
    return columns


def decisions(inputs: Inputs, recipe: Recipe, strengths: Sequence[float]) -> Array:
    """Return the arg max of the posterior, of the labels' shape."""
    with _refusing(inputs, recipe):
        if _takes_kernels(inputs):
            index = np.empty(inputs.labels_shape, np.int64)
            batch = Batch(inputs.images_first(), inputs.tolerances, recipe)
            batch.decisions(strengths, index, inputs.dtype)
            return index
        return inputs.xp.argmax(_arrays(inputs, recipe, strengths, log=False), axis=1)


def _takes_kernels(inputs: Inputs) -> bool:
    return all(kernels.serves(z) for z in inputs.arrays.values())


def _arrays(inputs: Inputs, recipe: Recipe, strengths: Sequence[float], *, log: bool) -> Array:
    """Return the (log-)posterior (images, K, pixels …) by array-API code."""
    xp = inputs.xp
    dtype = xp.result_type(*inputs.given.values())

    def work(parts: list[Any]) -> Array:
        fused = array_posterior(recipe, strengths, inputs.tolerances, parts, log=log)
        return xp.astype(fused, dtype, copy=False) if is_floating(dtype) else fused

    return by_images(work, inputs.images_first(), recipe)


@contextmanager
def _refusing(inputs: Inputs, recipe: Recipe) -> Iterator[None]:
    """Raise an error that names the row, where one has no posterior."""
    try:
        yield
    except NoPosteriorError as error:
        inputs.refuse(error.modality, recipe)
