"""The mathematics of a fusion on one block of NumPy arrays, in buffers that are used again.

A block is (images, K, pixels), or (K, images, pixels) where the classes were turned to the front;
``axis`` is that of the classes. Everything is done to a block while it is in the processor's
cache. :mod:`reprior.fusion.arrays` is the same for other libraries; a test holds the two equal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from reprior.fusion.recipe import Doubt, Recipe

__all__ = ["Kernel", "NoPosteriorError"]

Block: TypeAlias = np.ndarray[Any, Any]

SHORT_ROW = 24
"""Fewer terms than this are summed in their own dtype: that rounds no more than the other steps
of the formula do. Longer rows are summed in float64, which takes twice as long."""


class NoPosteriorError(Exception):
    """A row has no posterior; holds the modality's index, or None for what they leave together."""

    def __init__(self, modality: int | None) -> None:
        super().__init__(modality)
        self.modality = modality


class Kernel:
    """Posteriors of blocks of at most ``size`` scores per modality; one thread's own.

    Parameters
    ----------
    recipe : Recipe
        What is done.
    axis : int
        The class axis of a block, 0 or 1.
    size : int
        Scores in the largest block.
    dtype : dtype
        What is computed in, float32 or float64.
    tolerances : sequence of float
        How far the sum of a row of probabilities may be from 1, per modality.
    """

    def __init__(
        self, recipe: Recipe, *, axis: int, size: int, dtype: Any, tolerances: Sequence[float]
    ) -> None:
        self.recipe, self.axis, self.dtype = recipe, axis, np.dtype(dtype)
        self.tolerances = tolerances
        self._size = size
        self._buffers: dict[Any, Block] = {}

    def buffer(self, name: Any, shape: Sequence[int]) -> Block:
        """The memory of that name, made when it is first asked for."""
        if name not in self._buffers:
            self._buffers[name] = np.empty(self._size, self.dtype)
        return self._buffers[name][: math.prod(shape)].reshape(shape)

    # ------------------------------------------------------------------------------- one modality

    def log_scores(self, modality: int, rows: Block, name: Any = "scores") -> Block:
        """Log-scores in the compute dtype: the rows themselves, or the buffer ``name``."""
        if self.recipe.passes:
            return self._mean_of_passes(modality, rows, name)[0]
        return self._log_scores(modality, rows, name)

    def doubt(self, modality: int, rows: Block) -> Doubt:
        """How unsure the modality is of every pixel, (images, pixels) in float64."""
        if not self.recipe.passes:
            return Doubt(self._entropy(modality, self._log_scores(modality, rows, "scores")))
        log_mean, of_passes = self._mean_of_passes(modality, rows, "scores")
        entropy = self._entropy(modality, log_mean)
        # Not below 0, but for rounding: entropy is concave.
        return Doubt(entropy, np.maximum(entropy - of_passes, 0.0))

    def tempered(self, log_z: Block, delta: Block | None, shift: Block | None, out: Block) -> Block:
        """Flatten and shift log-scores in the recipe's order, into ``out``; None does nothing."""
        if shift is None:
            return log_z if delta is None else np.multiply(log_z, delta, out=out)
        if delta is None:
            return np.add(log_z, shift, out=out)
        if self.recipe.order == "rebalance_first":
            return np.multiply(np.add(log_z, shift, out=out), delta, out=out)
        return np.add(np.multiply(log_z, delta, out=out), shift, out=out)

    def softmax(self, scores: Block, out: Block, modality: int | None, *, log: bool) -> Block:
        """The (log-)softmax over the classes, into ``out``, which may be the scores."""
        np.subtract(scores, self._peak(scores, modality), out=out)
        if log:
            mass = np.exp(out, out=self.buffer("mass", out.shape))
            return np.subtract(out, np.log(self._total(mass)), out=out)
        return self._divided(np.exp(out, out=out), out)

    # ----------------------------------------------------------------------------- all modalities

    def fused(self, parts: Sequence[Block], out: Block) -> Block:
        """One posterior from those of the modalities, or from log-scores under "product".

        ``out`` may be no part.
        """
        if self.recipe.rule == "product":
            self._sum(parts, out)
            return self.softmax(out, out, None if len(parts) > 1 else 0, log=False)
        if len(parts) == 1:
            np.copyto(out, parts[0])
            return out
        if self.recipe.rule == "mean":
            return np.divide(self._sum(parts, out), len(parts), out=out)
        np.copyto(out, parts[0])
        both = self.buffer("both", out.shape)
        for part in parts[1:]:
            # 1 − (1 − q)(1 − p) = q + p − q·p: as exact as p and q are, however small.
            np.multiply(out, part, out=both)
            np.add(out, part, out=out)
            np.subtract(out, both, out=out)
        return self._divided(out, out)

    def fused_log(self, parts: Sequence[Block], out: Block) -> Block:
        """The same from log-posteriors, as the log-posterior: exact where the other underflows."""
        np.copyto(out, parts[0])
        for part in parts[1:]:
            if self.recipe.rule == "product":
                np.add(out, part, out=out)
                continue
            if self.recipe.rule == "noisy_or":
                rest = np.log1p(-np.exp(np.minimum(out, 0.0)))
                part = part + rest
            np.logaddexp(out, part, out=out)
        return out if len(parts) == 1 else self.softmax(out, out, None, log=True)

    # -------------------------------------------------------------------------------------- steps

    def _log_scores(self, modality: int, rows: Block, name: Any) -> Block:
        kind = self.recipe.kind
        if kind != "logits":
            mass = rows if kind == "probs" else self.buffer("mass", rows.shape)
            if kind == "log_probs":
                np.exp(rows, out=mass, dtype=self.dtype, casting="same_kind")
            off = np.abs(mass.sum(axis=self.axis, dtype=np.float64) - 1.0)
            if not (off.max() <= self.tolerances[modality] and mass.min() >= 0):
                raise NoPosteriorError(modality)
        if kind == "probs":
            out = self.buffer(name, rows.shape)
            np.copyto(out, rows, casting="unsafe")
            return np.log(out, out=out)
        if rows.dtype == self.dtype:
            return rows
        out = self.buffer(name, rows.shape)
        np.copyto(out, rows, casting="unsafe")
        return out

    def _mean_of_passes(self, modality: int, rows: Block, name: Any) -> tuple[Block, Block]:
        """The logarithm of the passes' mean posterior, and the mean of their entropies."""
        out = self.buffer(name, rows.shape[1:])
        out[...] = 0.0
        entropy = np.zeros([n for i, n in enumerate(out.shape) if i != self.axis])
        for one in rows:
            log_z = self._log_scores(modality, one, "pass")
            if self.recipe.flattens:
                entropy += self._entropy(modality, log_z)
            out += self.softmax(log_z, self.buffer("pass", out.shape), modality, log=False)
        np.divide(out, len(rows), out=out)
        return np.log(out, out=out), entropy / len(rows)

    def _entropy(self, modality: int, log_z: Block) -> Block:
        """Per pixel: log Σ exp(s) − Σ s·exp(s) / Σ exp(s), with 0·log 0 = 0."""
        peak = self._peak(log_z, modality)
        shifted = np.subtract(log_z, peak, out=self.buffer("shifted", log_z.shape))
        mass = np.exp(shifted, out=self.buffer("mass", log_z.shape))
        total = self._total(mass)
        cross = self._total(np.multiply(mass, shifted, out=shifted))
        if np.isnan(cross).any():  # classes that are impossible
            np.subtract(log_z, peak, out=shifted)
            shifted[mass == 0] = 0.0
            cross = self._total(np.multiply(mass, shifted, out=shifted))
        wide = total.astype(np.float64)
        return np.squeeze(np.log(wide) - cross / wide, axis=self.axis)

    def _sum(self, parts: Sequence[Block], out: Block) -> Block:
        np.copyto(out, parts[0])
        for part in parts[1:]:
            np.add(out, part, out=out)
        return out

    def _peak(self, scores: Block, modality: int | None) -> Block:
        """The largest score of every row: NaN and +inf come through, and are refused."""
        peak: Block = scores.max(axis=self.axis, keepdims=True)
        if not np.isfinite(peak).all():
            raise NoPosteriorError(modality)
        return peak

    def _total(self, mass: Block) -> Block:
        """The sum of every row, in the compute dtype."""
        if mass.shape[self.axis] < SHORT_ROW:
            short: Block = mass.sum(axis=self.axis, keepdims=True)
            return short
        total = mass.sum(axis=self.axis, keepdims=True, dtype=np.float64)
        return np.asarray(total, dtype=self.dtype)

    def _divided(self, mass: Block, out: Block) -> Block:
        return np.divide(mass, self._total(mass), out=out)
