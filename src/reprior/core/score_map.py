"""What a calibrator does to scores: a scale and a bias for every class, and a temperature."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior.core import kernels
from reprior.core.affine_map import AffineMap, kernel_decisions, map_decisions, map_posterior
from reprior.core.arrays import Array
from reprior.core.prior import as_prior, as_target_prior, slopes
from reprior.core.rebalance import prior_shift

__all__ = ["ScoreMap"]

MOST_CLASSES = 1024
"""With more classes, looking up the cached map takes as long as computing it."""


@dataclass(frozen=True, eq=False)
class ScoreMap:
    r"""The map from log-scores z to a posterior.

    .. math:: P(k|x) ∝ \exp\bigl((a_k z_k(x) + b_k) / T\bigr)

    with the temperature T. By default a = 1 and b = λ·w, with the slopes w = log P_t − log P_s of
    the target and the source prior.

    Attributes
    ----------
    strength : float
        λ. With biases, the strength from which their fit started.
    temperature : float
        T.
    biases : ndarray of shape (K,) or None
        b instead of λ·w, −inf for a class that must not be predicted.
    scales : ndarray of shape (K,) or None
        a instead of 1.

    Examples
    --------
    >>> score_map = ScoreMap(0.5, temperature=2.0)
    >>> score_map.affine([0.8, 0.2], [0.5, 0.5])
    (0.5, array([-0.118,  0.229]))
    """

    strength: float
    temperature: float = 1.0
    biases: NDArray[np.float64] | None = None
    scales: NDArray[np.float64] | None = None

    @property
    def plain(self) -> bool:
        """Whether strength and temperature define the map."""
        return self.biases is None and self.scales is None

    def shifts(self, source_prior: Any, target_prior: Any) -> NDArray[np.float64]:
        """Return b: what is added to the log-score of every class, before the temperature."""
        if self.biases is not None:
            return self.biases
        with np.errstate(invalid="ignore"):
            bias = self.strength * slopes(np.asarray(source_prior), np.asarray(target_prior))
        return np.nan_to_num(bias, nan=0.0, neginf=-np.inf)

    def affine(
        self, source_prior: Any, target_prior: Any
    ) -> tuple[float | NDArray[np.float64], NDArray[np.float64]]:
        """Return (scale, bias), so that softmax(scale·z + bias) is the posterior.

        The scale is a number, or one per class where there are ``scales``.
        """
        scale: float | NDArray[np.float64] = 1.0 / self.temperature
        if self.scales is not None:
            scale = self.scales / self.temperature
        return scale, self.shifts(source_prior, target_prior) / self.temperature

    def posterior(
        self,
        scores: Any,
        source_prior: Any,
        target_prior: Any,
        *,
        kind: str,
        class_axis: int,
        log: bool = False,
    ) -> Array:
        """Return the posterior of scores, or its logarithm, as :func:`reprior.rebalance` does.

        The priors were checked before.
        """
        affine = self._affine_map(source_prior, target_prior, tempered=True)
        return map_posterior(scores, affine, kind=kind, class_axis=class_axis, log=log)

    def decide(
        self, scores: Any, source_prior: Any, target_prior: Any, *, kind: str, class_axis: int
    ) -> Array:
        """Return the class of the largest posterior, the lowest index among equals.

        The temperature changes no decision and is not applied.
        """
        affine = self._affine_map(source_prior, target_prior, tempered=False)
        return map_decisions(scores, affine, kind=kind, class_axis=class_axis)

    def _affine_map(self, source_prior: Any, target_prior: Any, *, tempered: bool) -> AffineMap:
        """Return the affine map of log-scores, with or without the temperature."""
        temperature = float(self.temperature) if tempered else 1.0
        if not self.plain:
            scales = np.ones(1) if self.scales is None else self.scales
            bias = self.shifts(source_prior, target_prior) / temperature
            return AffineMap(bias, scales=np.broadcast_to(scales / temperature, bias.shape))
        source, target = (np.asarray(p, np.float64) for p in (source_prior, target_prior))
        # Decisions are those of the strength at any temperature.
        strength = float(self.strength) / temperature
        if source.size > MOST_CLASSES:
            return _plain_map(strength, temperature, source, target)
        return _cached_plain_map(strength, temperature, source.tobytes(), target.tobytes())

    def decisions(self, rows: NDArray[Any], source_prior: Any, target_prior: Any) -> NDArray[Any]:
        """Return the class of the largest a·z + b of log-scores (n, K), the lowest among equals."""
        shift = self.shifts(source_prior, target_prior)
        view = kernels.host_view(rows)
        if view is not None:
            scale = np.ones(shift.size) if self.scales is None else self.scales
            decided = kernel_decisions(view, scale, shift, kind="logits", axis=1, tolerance=0.0)
            if decided is not None:
                return decided
        if self.scales is None:
            return np.asarray(np.argmax(rows + shift, axis=1))
        impossible = np.isneginf(rows)
        scaled = np.where(impossible, 0.0, rows) * self.scales + shift
        return np.asarray(np.argmax(np.where(impossible, -np.inf, scaled), axis=1))

    @property
    def untouched(self) -> bool:
        """Whether the map leaves scores unchanged."""
        return self.plain and self.strength == 0.0 and self.temperature == 1.0

    def retargeted(
        self, source_prior: Any, before: Any, after: Any, *, calibrated: bool = False
    ) -> ScoreMap:
        """Return the map for another target prior: biases move as λ·w does.

        With ``calibrated`` the map is taken to give correct probabilities under ``before``, at
        whatever λ. By Bayes' rule, those under ``after`` are proportional to
        P(k|x)·P_t'(k) / P_t(k): biases, which the temperature divides, move by T·log(P_t' / P_t).

        A class with target prior 0 under ``before`` has no bias; it gets λ·w.
        """
        old, new = np.asarray(before), np.asarray(after)
        if (self.biases is None and not calibrated) or np.array_equal(old, new):
            return self
        step = self.temperature if calibrated else self.strength
        now = self.shifts(source_prior, old)
        fresh = ScoreMap(self.strength).shifts(source_prior, new)
        known = np.isfinite(now) & (old > 0) & (new > 0)
        ratio = np.divide(new, old, out=np.ones_like(new), where=known)
        biases = np.where(known, now + step * np.log(ratio), fresh)
        if calibrated:
            biases = np.where(new > 0, biases, -np.inf)
        return replace(self, biases=biases)


def _plain_map(
    strength: float, temperature: float, source: NDArray[np.float64], target: NDArray[np.float64]
) -> AffineMap:
    source = as_prior(source, name="source_prior")
    target = as_target_prior(target, n_classes=source.size)
    return AffineMap(prior_shift(source, target, strength), temperature)


@lru_cache(maxsize=16)
def _cached_plain_map(
    strength: float, temperature: float, source: bytes, target: bytes
) -> AffineMap:
    """Cache the map that a calibrator uses at every call, by value: it cannot become stale."""
    return _plain_map(strength, temperature, np.frombuffer(source), np.frombuffer(target))
