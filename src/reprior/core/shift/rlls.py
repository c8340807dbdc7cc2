r"""The target prior by regularised moments (RLLS), solved exactly.

.. math:: \min_{θ ≥ -1} ‖C θ - b‖_2 + ρ ‖θ‖_2

Neither norm is squared. With squares and a factor, ½‖Cθ − b‖² + ½λ‖θ‖², the minimum is that of a
bounded ridge problem; let r and t be the two norms there. As λ grows they trace the convex curve of
all best pairs (r, t), whose slope is −λt/r. So the wanted minimum is where λt/r = ρ, and λt/r grows
with λ: a root in one number.
"""

import math
from typing import Any, TypeAlias

import numpy as np

from reprior.core.shift.moments import Moments

__all__ = ["rlls", "strength_of_penalty", "weights"]

Vector: TypeAlias = np.ndarray[Any, Any]

ALPHA, DELTA = 0.01, 0.05
"""Azizzadenesheli et al.'s own choice: a hundredth of the bound that holds with 95 %."""

SMALLEST = 1e-10
"""λ is at least the square of this times the largest singular value: as good as 0."""

HIDDEN = 1e-14
"""Where bounds hold, λ is at least this times the trace of CᵀC, which is known no better."""

LARGEST = 1e10
"""… and at most the square of this times it: θ is then as good as 0."""

BISECTIONS = 46
"""Halvings of log λ between the two, after which it is known to a relative 1e-12."""

PRECISION = 1e-12
"""How far a weight may be below 0, or a slope, beside the largest, by rounding alone."""


def rlls(found: Moments, source: Vector) -> Vector:
    """Return source ∘ (1 + θ), the prior that regularised weights amount to; not negative.

    C = M·diag(source) with the confusion matrix M of validation samples, and b = μ − M·source
    with the mean prediction μ on the target. Works on stacks of replicates.
    """
    joint = found.confusion * source
    excess = found.predicted - found.confusion @ source
    rho = strength_of_penalty(source.size, found.n_labels)
    return source * (1.0 + weights(joint, excess, rho))


def strength_of_penalty(n_classes: int, n_labels: int) -> float:
    r"""Return ρ = α·3(2 log(2K/δ)/(3n) + √(2 log(2K/δ)/n)): what n labels leave open.

    Examples
    --------
    >>> strength_of_penalty(3, 1000)
    0.0030
    """
    log_term = 2.0 * math.log(2 * n_classes / DELTA)
    return ALPHA * 3.0 * (log_term / (3 * n_labels) + math.sqrt(log_term / n_labels))


def weights(joint: Vector, excess: Vector, rho: float) -> Vector:
    """Return the minimiser θ ≥ −1 of ‖joint·θ − excess‖ + rho·‖θ‖; stacks give stacks."""
    theta = _unbounded(joint, excess, rho)
    if joint.ndim == 2:
        return theta if theta.min() >= -1.0 else _bounded(joint, excess, rho)
    for i in np.flatnonzero(theta.min(axis=-1) < -1.0):
        theta[i] = _bounded(joint[i], excess[i], rho)
    return theta


def _unbounded(joint: Vector, excess: Vector, rho: float) -> Vector:
    """Return the minimiser where no bound is in the way.

    With singular values σ and β = Uᵀb, λt/r is the root mean square of σ, weighted by
    (β/(σ² + λ))².
    """
    left, sigma, right = np.linalg.svd(joint)
    beta = (np.swapaxes(left, -1, -2) @ excess[..., None])[..., 0]
    largest = sigma[..., :1]

    def slope(factor: Vector) -> Vector:
        share = beta / (sigma**2 + (factor * largest) ** 2)
        size = np.linalg.norm(share, axis=-1, keepdims=True)
        steep = np.linalg.norm(sigma * share, axis=-1, keepdims=True)
        found: Vector = np.divide(steep, size, out=np.full_like(size, np.inf), where=size > 0)
        return found

    low, high = (np.full_like(largest, math.log(end)) for end in (SMALLEST, LARGEST))
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        below = slope(np.exp(middle)) < rho
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    penalty = (np.exp(low) * largest) ** 2
    theta = np.swapaxes(right, -1, -2) @ (sigma * beta / (sigma**2 + penalty))[..., None]
    nothing = slope(np.full_like(largest, LARGEST)) <= rho
    return np.where(nothing, 0.0, theta[..., 0])


def _bounded(joint: Vector, excess: Vector, rho: float) -> Vector:
    """Return the minimiser of one problem some of whose bounds hold."""
    ridge = _BoundedRidge(joint, excess)
    low, high = math.log(ridge.smallest), math.log(ridge.largest)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ridge.slope(middle) < rho else (low, middle)
    return ridge(low)


class _BoundedRidge:
    """Minimisers of ½‖Cθ − b‖² + ½λ‖θ‖² over θ ≥ −1, one after the other for near λ."""

    def __init__(self, joint: Vector, excess: Vector) -> None:
        self.joint, self.excess = joint, excess
        # In w = 1 + θ ≥ 0 the quadratic is ½wᵀHw − hᵀw.
        self.square = joint.T @ joint
        self.linear = joint.T @ (excess + joint.sum(axis=1))
        self.free = np.ones(excess.size, dtype=bool)
        size = float(np.trace(self.square))
        self.smallest, self.largest = HIDDEN * size, LARGEST**2 * size

    def __call__(self, log_penalty: float) -> Vector:
        """Return θ at log λ, by block principal pivoting from the last free set on."""
        penalty = math.exp(log_penalty)
        matrix = self.square + penalty * np.eye(self.excess.size)
        linear = self.linear + penalty
        fewest, patience = self.free.size + 1, 3
        for _ in range(10 * self.free.size + 100):
            inside = np.flatnonzero(self.free)
            w = np.zeros(self.free.size)
            w[inside] = np.linalg.solve(matrix[np.ix_(inside, inside)], linear[inside])
            gradient = matrix @ w - linear
            limits = PRECISION * np.array([np.abs(w).max(), np.abs(linear).max()])
            wrong = np.where(self.free, w < -limits[0], gradient < -limits[1])
            n_wrong = int(wrong.sum())
            if not n_wrong:
                break
            if n_wrong < fewest:
                fewest, patience = n_wrong, 3
            elif patience:
                patience -= 1
            else:  # pragma: no cover - one at a time, the last first, never goes round in circles
                wrong = np.arange(wrong.size) == np.flatnonzero(wrong)[-1]
            self.free = self.free ^ wrong
        return np.maximum(w, 0.0) - 1.0

    def slope(self, log_penalty: float) -> float:
        """Return λt/r at log λ."""
        theta = self(log_penalty)
        residual = float(np.linalg.norm(self.joint @ theta - self.excess))
        size = float(np.linalg.norm(theta))
        return math.exp(log_penalty) * size / residual if residual > 0 else math.inf
