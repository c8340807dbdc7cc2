r"""Reliability on a grid of strengths, in one pass over the scores.

With :math:`E_{ik} = \exp((z_{ik} - \max_j z_{ij})/T)` and :math:`V_{kg} = \exp(λ_g w_k / T)`, the
normaliser of sample i at strength :math:`λ_g` is :math:`(E V)_{ig}`: one exponential per score
and one matrix product give it for every strength of the grid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from reprior.profile.envelope import Envelope

__all__ = ["GridReliability", "predictions_along"]

Vector: TypeAlias = np.ndarray[Any, Any]

N_BINS = 15

#: Below this logarithm of a term, smaller ones of the same sum may be lost to underflow.
SMALLEST_LOG = -600.0


def predictions_along(found: Envelope, strengths: Vector) -> Vector:
    """The class of every sample at increasing strengths, (N, G)."""
    order = np.argsort(found.position, kind="stable")
    position, row, winner = found.position[order], found.row[order], found.winner[order]
    current = found.start.astype(np.int64, copy=True)
    result = np.empty((current.size, strengths.size), np.int64)
    done = 0
    for g, strength in enumerate(strengths):
        until = int(np.searchsorted(position, strength, side="right"))
        # Of several switches of one sample the last one, in order of strength, stands.
        current[row[done:until]] = winner[done:until]
        result[:, g], done = current, until
    return result


@dataclass(eq=False)
class GridReliability:
    """Confidence, hits and weight per bin of confidence, and log-loss, at every strength.

    Bin b holds the confidences in (b/15, (b+1)/15], as in
    :func:`reprior.metrics.reliability_curve`.
    """

    strengths: Vector
    slopes: Vector
    temperature: float = 1.0
    weight: Vector = field(init=False)
    confidence: Vector = field(init=False)
    hits: Vector = field(init=False)
    loss: Vector = field(init=False)

    def __post_init__(self) -> None:
        shape = (self.strengths.size, N_BINS)
        self.weight, self.confidence, self.hits = (np.zeros(shape) for _ in range(3))
        self.loss = np.zeros(self.strengths.size)

    def add(self, scores: Vector, labels: Vector, weights: Vector | None, chosen: Vector) -> None:
        """Count a block: log-scores (n, K), labels (n,), weights, predictions (n, G)."""
        weight = np.ones(labels.size) if weights is None else weights
        each = np.arange(labels.size)
        scaled = scores.astype(np.float64) / self.temperature
        scaled -= scaled.max(axis=1, keepdims=True)
        shift = self._shift()
        top = scaled[each[:, None], chosen] + shift.T[chosen, np.arange(self.strengths.size)]
        log_total = self._log_totals(scaled, shift, top)
        sure = np.minimum(np.exp(top - log_total), 1.0)
        own = scaled[each, labels][:, None] + shift.T[labels]
        self.loss += weight @ (log_total - own)
        edges = np.linspace(0.0, 1.0, N_BINS + 1)
        cell = np.searchsorted(edges[1:-1], sure, side="left")
        cell += N_BINS * np.arange(self.strengths.size)
        spread = np.broadcast_to(weight[:, None], sure.shape)
        hit = chosen == labels[:, None]
        for table, values in (
            (self.weight, spread), (self.confidence, spread * sure), (self.hits, spread * hit),
        ):  # fmt: skip
            sums = np.bincount(cell.ravel(), values.ravel(), minlength=table.size)
            table += sums.reshape(table.shape)

    @property
    def ece(self) -> Vector:
        """Expected calibration error at every strength, (G,)."""
        gap = np.abs(self.confidence - self.hits).sum(axis=1)
        return np.asarray(gap / self.weight.sum(axis=1))

    @property
    def log_loss(self) -> Vector:
        """Mean negative log-probability of the labels at every strength, (G,)."""
        return np.asarray(self.loss / self.weight.sum(axis=1))

    def only(self, strength: float) -> GridReliability:
        """That of one strength of the grid alone."""
        here = self.strengths == strength
        alone = GridReliability(self.strengths[here], self.slopes, self.temperature)
        for name in ("weight", "confidence", "hits", "loss"):
            setattr(alone, name, getattr(self, name)[here])
        return alone

    def _shift(self) -> Vector:
        """λ·w / T, (G, K), less its largest entry per strength; 0·(−inf) = 0."""
        with np.errstate(invalid="ignore"):
            shift = np.outer(self.strengths / self.temperature, self.slopes)
        shift[self.strengths == 0.0] = 0.0
        return np.asarray(shift - shift.max(axis=1, keepdims=True))

    def _log_totals(self, scaled: Vector, shift: Vector, top: Vector) -> Vector:
        """Logarithm of the sum over classes, (n, G); term by term where products underflow."""
        with np.errstate(divide="ignore", under="ignore"):
            total = np.log(np.exp(scaled) @ np.exp(shift).T)
        for g in np.flatnonzero((top < SMALLEST_LOG).any(axis=0)):
            rows = np.flatnonzero(top[:, g] < SMALLEST_LOG)
            terms = scaled[rows] + shift[g]
            peak = terms.max(axis=1)
            with np.errstate(under="ignore"):
                total[rows, g] = peak + np.log(np.exp(terms - peak[:, None]).sum(axis=1))
        return np.asarray(total)
