"""Scores of all modalities, gone through in blocks, with the blocks shared among threads.

Nothing but the result is as large as the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np

from reprior.core.arrays import Array, compute_dtype, to_numpy
from reprior.core.threads import n_cores
from reprior.fusion.counting import Moments, Tally, merged
from reprior.fusion.kernel import SHORT_ROW, Kernel
from reprior.fusion.recipe import Doubt, Recipe

__all__ = ["Batch"]

Vector: TypeAlias = np.ndarray[Any, Any]
Index: TypeAlias = Any
Found = TypeVar("Found")

BLOCK_BYTES = 1 << 18
"""Size of a block of one modality. Measured: three to four of them fit a core's own cache."""

SHORT_RUN = 64
"""Images of fewer pixels than this have the classes turned to the front, so that reductions run
along the samples; with one pixel, where there are few classes too."""

SCORES_PER_THREAD = 1 << 20
"""Fewer scores than this are done before a second thread is awake."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Scores of the modalities as (images, K, pixels …), of one shape.

    With passes they are (passes, images, K, pixels …); each modality may have its own number.
    ``images`` are the indices of those that count, None for all.
    """

    arrays: tuple[Array, ...]
    tolerances: tuple[float, ...]
    recipe: Recipe
    images: Vector | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one pass."""
        return tuple(self.arrays[0].shape)[1 if self.recipe.passes else 0 :]

    @property
    def dtype(self) -> Any:
        """What is computed in."""
        return np.result_type(*(compute_dtype(np, array.dtype) for array in self.arrays))

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.shape[1])

    @property
    def n_pixels(self) -> int:
        """Of one image."""
        return math.prod(self.shape[2:])

    # ------------------------------------------------------------------------------------- results

    def posterior(self, strengths: Sequence[float], out: Vector, *, log: bool) -> None:
        """Write the fused (log-)posterior into ``out`` (images, K, pixels …)."""
        self._run(partial(self._write, strengths, out, log))

    def decisions(self, strengths: Sequence[float], out: Vector, dtype: Any) -> None:
        """Write the arg max of the posterior, rounded to ``dtype``, into ``out`` (images, …)."""
        self._run(partial(self._decide, strengths, out, dtype))

    def moments(self, counted: Vector | None = None) -> list[list[Moments | None]]:
        """Of every modality's entropy and mutual information, over images or over pixels.

        ``counted`` (images, pixels) tells which pixels count where each has a δ of its own; an
        image has them all.
        """
        found = [each for share in self._run(partial(self._doubts, counted)) for each in share]
        return [
            [merged(group[m][i] for group in found) for i in range(2)]
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
        for images in self._groups(n_scores):
            some = replace(self, images=np.arange(self.shape[0])[images])
            found = _quietly(some._line_blocks, some._groups(self._block_size))
            yield images, np.concatenate(found)

    # --------------------------------------------------------------------------------------- work

    def _write(
        self, strengths: Sequence[float], out: Vector, log: bool, groups: Sequence[Index]
    ) -> None:
        kernel = self._kernel()
        for group in groups:
            target = out[group]
            flat = target.reshape(*target.shape[:2], -1)
            for pixels, fused in self._fused(kernel, strengths, group, log=log):
                self._turned(flat[..., pixels])[...] = fused
            if not np.may_share_memory(flat, out):  # axes that no view can join
                out[group] = flat.reshape(target.shape)

    def _decide(
        self, strengths: Sequence[float], out: Vector, dtype: Any, groups: Sequence[Index]
    ) -> None:
        kernel = self._kernel()
        for group in groups:
            flat = out[group].reshape(out[group].shape[0], -1)
            for pixels, fused in self._fused(kernel, strengths, group, log=False):
                flat[:, pixels] = fused.astype(dtype, copy=False).argmax(axis=self._axis)

    def _fused(
        self, kernel: Kernel, strengths: Sequence[float], group: Index, *, log: bool
    ) -> Iterator[tuple[slice, Vector]]:
        """The fused (log-)posterior of every block of pixels of some images."""
        parts, shifts = self._parts(group), [self._shift(each) for each in strengths]
        deltas = self._deltas(kernel, parts)
        for pixels in self._pixels(parts[0]):
            own = []
            for m, part in enumerate(parts):
                rows, delta = self._turned(part[..., pixels]), deltas[m]
                if self._by_pixel:
                    delta = self._delta(kernel, m, rows)
                log_z = kernel.log_scores(m, rows)
                own.append(self._own(kernel, m, log_z, delta, shifts[m], log))
            out = kernel.buffer("fused", own[0].shape)
            yield pixels, kernel.fused_log(own, out) if log else kernel.fused(own, out)

    def _own(
        self,
        kernel: Kernel,
        m: int,
        log_z: Vector,
        delta: Vector | None,
        shift: Vector | None,
        log: bool,
    ) -> Vector:
        """The (log-)posterior of one modality, or what the product rule needs of it."""
        out = kernel.buffer(("own", m), log_z.shape)
        scores = kernel.tempered(log_z, delta, shift, out)
        if self.recipe.rule == "product" and not log:
            if scores is not out:
                np.copyto(out, scores)
            return out
        return kernel.softmax(scores, out, m, log=log)

    def _line_blocks(self, groups: Sequence[Index]) -> list[Vector]:
        """Per group of images, (n, K, pixels)."""
        kernel, found = self._kernel(), []
        for group in groups:
            parts = self._parts(group)
            deltas = self._deltas(kernel, parts)
            z = np.zeros(parts[0].shape[-3:], self.dtype)
            for pixels in self._pixels(parts[0]):
                total, factors = self._turned(z[..., pixels]), np.zeros(1)
                for m, part in enumerate(parts):
                    rows, delta = self._turned(part[..., pixels]), deltas[m]
                    if self._by_pixel:
                        delta = self._delta(kernel, m, rows)
                    log_z = kernel.log_scores(m, rows)
                    total += log_z if delta is None else log_z * delta
                    if delta is None or self.recipe.order == "flatten_first":
                        factors = factors + 1.0
                    else:
                        factors = factors + delta
                total /= factors
            found.append(z)
        return found

    def _doubts(
        self, counted: Vector | None, groups: Sequence[Index]
    ) -> list[list[list[Moments | None]]]:
        """Per group of images, modality and measure."""
        kernel, found = self._kernel(), []
        for group in groups:
            keep = None if counted is None or not self._by_pixel else counted[group]
            of_group = []
            for m, part in enumerate(self._parts(group)):
                doubt = self._doubt(kernel, m, part)
                values = [v if v is None or keep is None else v[keep] for v in doubt]
                of_group.append([Moments.of(v) if v is not None and v.size else None
                                 for v in values])  # fmt: skip
            found.append(of_group)
        return found

    def _count(
        self,
        settings: Sequence[Sequence[float]],
        labels: Vector,
        weights: Vector | None,
        keep: Vector,
        dtype: Any,
        groups: Sequence[Index],
    ) -> Tally:
        kernel = self._kernel()
        tally = Tally.empty(len(settings), self.n_classes, weights is not None)
        shifts = {each: self._shift(each) for setting in settings for each in setting}
        for group in groups:
            parts = self._parts(group)
            deltas = self._deltas(kernel, parts)
            for pixels in self._pixels(parts[0]):
                kept = keep[group][:, pixels]
                y = labels[group][:, pixels][kept]
                v = None if weights is None else weights[group][:, pixels][kept]
                for i, fused in self._at(kernel, parts, deltas, pixels, settings, shifts):
                    found = fused.astype(dtype, copy=False).argmax(axis=self._axis)
                    tally.add(i, y, found[kept], v)
        return tally

    def _at(
        self,
        kernel: Kernel,
        parts: Sequence[Vector],
        deltas: Sequence[Vector | None],
        pixels: slice,
        settings: Sequence[Sequence[float]],
        shifts: dict[float, Vector | None],
    ) -> Iterator[tuple[int, Vector]]:
        """The fused posterior of a block at every setting; what does not change is kept."""
        rows = [self._turned(part[..., pixels]) for part in parts]
        if self._by_pixel:
            deltas = [self._delta(kernel, m, each) for m, each in enumerate(rows)]
        scores = [kernel.log_scores(m, each, ("scores", m)) for m, each in enumerate(rows)]
        last: Sequence[float | None] = [None] * len(rows)
        own = [scores[0]] * len(rows)
        for i, setting in enumerate(settings):
            for m, strength in enumerate(setting):
                if strength != last[m]:
                    own[m] = self._own(kernel, m, scores[m], deltas[m], shifts[strength], False)
            last = setting
            yield i, kernel.fused(own, kernel.buffer("fused", own[0].shape))

    # ---------------------------------------------------------------------------------- flattening

    def _deltas(self, kernel: Kernel, parts: Sequence[Vector]) -> list[Vector | None]:
        """δ of every modality for some images; None where it is 1, or for each pixel its own."""
        if not self.recipe.flattens or self._by_pixel:
            return [None] * len(parts)
        return [self._spread(m, self._doubt(kernel, m, part)) for m, part in enumerate(parts)]

    def _delta(self, kernel: Kernel, m: int, rows: Vector) -> Vector | None:
        return self._spread(m, kernel.doubt(m, rows))

    def _spread(self, m: int, doubt: Doubt) -> Vector | None:
        """δ as a block is multiplied with it."""
        delta = self.recipe.references[m].factor(doubt, np)
        if delta is None or (delta == 1.0).all():
            return None
        return np.expand_dims(delta.astype(self.dtype), self._axis)

    def _doubt(self, kernel: Kernel, m: int, part: Vector) -> Doubt:
        """How unsure a modality is of some images, (images, 1), or of their pixels."""
        blocks = [kernel.doubt(m, self._turned(part[..., pixels])) for pixels in self._pixels(part)]
        joined = [
            None if blocks[0][i] is None else np.concatenate([b[i] for b in blocks], axis=1)
            for i in range(2)
        ]
        if self._by_pixel:
            return Doubt(*joined)
        return Doubt(*(None if v is None else v.mean(axis=1, keepdims=True) for v in joined))

    # -------------------------------------------------------------------------------------- layout

    @property
    def _by_pixel(self) -> bool:
        return self.recipe.flattens and self.recipe.flatten_by == "pixel"

    @property
    def _axis(self) -> int:
        """Where the classes of a block are: 0 if they are turned to the front, else 1."""
        n_pixels = self.n_pixels
        return int(n_pixels >= SHORT_RUN or (n_pixels == 1 and self.n_classes >= SHORT_ROW))

    def _turned(self, block: Vector) -> Vector:
        return block if self._axis else np.moveaxis(block, -2, -3)

    def _shift(self, strength: float) -> Vector | None:
        shift = self.recipe.shift(strength)
        if shift is None:
            return None
        return shift.astype(self.dtype).reshape((-1, 1) if self._axis else (-1, 1, 1))

    def _parts(self, group: Index) -> list[Vector]:
        """Some images of every modality, (n, K, pixels) or (passes, n, K, pixels)."""
        lead = (slice(None),) if self.recipe.passes else ()
        found = [to_numpy(array[(*lead, group)]) for array in self.arrays]
        return [each.reshape(*each.shape[: len(lead) + 2], -1) for each in found]

    def _groups(self, n_scores: int) -> list[Index]:
        """Indices of images, with whole images and about ``n_scores`` in each group."""
        n_images = self.shape[0] if self.images is None else self.images.size
        step = max(1, n_scores // (self.n_classes * self.n_pixels))
        edges = [*range(0, n_images, step), n_images]
        if self.images is None:
            return [slice(a, b) for a, b in pairwise(edges)]
        return [self.images[a:b] for a, b in pairwise(edges)]

    def _pixels(self, part: Vector) -> list[slice]:
        """Blocks of the pixels of some images."""
        n_images, n_classes, n_pixels = part.shape[-3:]
        step = max(1, self._block_size // (n_images * n_classes))
        return [slice(a, min(a + step, n_pixels)) for a in range(0, n_pixels, step)]

    @property
    def _block_size(self) -> int:
        return max(self.n_classes, BLOCK_BYTES // int(np.dtype(self.dtype).itemsize))

    def _kernel(self) -> Kernel:
        return Kernel(
            self.recipe,
            axis=self._axis,
            size=self._block_size,
            dtype=self.dtype,
            tolerances=self.tolerances,
        )

    def _run(self, work: Callable[[Sequence[Index]], Found]) -> list[Found]:
        """What the threads found, among which the groups of images are shared out in order."""
        groups = self._groups(self._block_size)
        n_images = self.shape[0] if self.images is None else self.images.size
        n_scores = n_images * self.n_classes * self.n_pixels * len(self.arrays)
        n = max(1, min(n_cores(), n_scores // SCORES_PER_THREAD, len(groups)))
        edges = [len(groups) * i // n for i in range(n + 1)]
        shares = [groups[a:b] for a, b in pairwise(edges)]
        if n == 1:
            return [_quietly(work, shares[0])]
        with ThreadPoolExecutor(n - 1, thread_name_prefix="reprior") as pool:
            others = [pool.submit(_quietly, work, share) for share in shares[1:]]
            return [_quietly(work, shares[0]), *(other.result() for other in others)]


def _quietly(work: Callable[[Sequence[Index]], Found], groups: Sequence[Index]) -> Found:
    # log 0 is −inf and a NaN is found by the maximum of its row: neither needs to be announced.
    with np.errstate(all="ignore"):
        return work(groups)
