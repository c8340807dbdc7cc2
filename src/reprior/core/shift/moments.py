r"""The target prior by matching moments: black-box shift estimation (BBSE), and regularised (RLLS).

The mean prediction on the target is a mixture, by the target prior, of the mean predictions on
each class. Labelled validation scores measure the latter, and the mixture is solved for the prior.
BBSE solves it directly, RLLS with a penalty on the weights 1 + θ = P_t / P_s,

.. math:: \min_{θ ≥ -1} ‖C θ - b‖_2 + ρ ‖θ‖_2

where neither norm is squared. With squares and a factor, ½‖Cθ − b‖² + ½λ‖θ‖², the minimum is that
of a bounded ridge problem; let r and t be the two norms there. As λ grows they trace the convex
curve of all best pairs (r, t), whose slope is −λt/r. So the wanted minimum is where λt/r = ρ, and
λt/r grows with λ: RLLS is solved exactly, by a root in one number.
"""

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior.core.shift.predictions import Predictions

__all__ = [
    "Conditioning",
    "Moments",
    "bbse",
    "clipped_prior",
    "conditioning",
    "penalty_factor",
    "regularised_weights",
    "rlls",
]

Vector: TypeAlias = np.ndarray[Any, Any]


STANDARD_ERRORS = 2.0
"""Standard errors of the smallest singular value by which it must differ from 0, or the matrix is
near-singular: of matrices that truly are singular, 95 % are then recognised."""

WELL_CONDITIONED = 1e-6
"""Of squares of singular values that are further apart, the smallest loses more than six digits."""

MAX_GROWTH = 1e8
"""A matrix is regular if its solution for a random right side grows by less than this. With a
matrix that is singular up to rounding it grows by about 1e15, unless the right side is orthogonal
to the singular direction to seven digits."""

ROUNDINGS = 8.0
"""Units of rounding per class, relative to the largest singular value, up to which a smallest one
counts as 0: the division that made the matrix and the decomposition both round."""


class Moments(NamedTuple):
    """The moments that the mixture is solved from.

    ``predicted`` (K,) is the mean prediction on the target, ``confusion`` (K, K) that on the
    validation samples of each class, a column each; both may have an axis of B replicates first.
    ``n_labels`` is the number of validation labels.
    """

    predicted: Vector
    confusion: Vector
    n_labels: int


@dataclass(frozen=True)
class Conditioning:
    """How well a confusion matrix distinguishes the classes.

    Attributes
    ----------
    condition_number : float
        Largest over smallest singular value of P(predicted|class): by up to this factor errors
        of the predicted frequencies grow in the estimate. Infinite for a singular matrix.
    smallest_singular_value : float
        0 where two class mixes give the same predictions.
    standard_error : float
        Of the smallest singular value, by the number of validation labels. Infinite where a class
        has a single label, which does not show how much its samples differ.
    near_singular : bool
        Whether the smallest singular value is less than two standard errors above 0, so that the
        labels cannot exclude a singular matrix.
    """

    condition_number: float
    smallest_singular_value: float
    standard_error: float
    near_singular: bool


def bbse(moments: Moments, source: Vector) -> Vector:
    r"""Solve M p = μ for the prior p; entries may be negative.

    μ is the mean prediction on the target, and column j of M that on validation samples of class
    j. This is :math:`p = w ∘ P_v` with Lipton's weights :math:`w = C^{-1} μ`, where C is the joint
    confusion matrix and P_v the class mix of the validation labels. Where M is singular up to
    rounding, it is the solution nearest to the source prior. Also solves stacks of replicates.
    """
    K = source.size
    matrices = moments.confusion.reshape(-1, K, K)
    predicted = moments.predicted.reshape(-1, K)
    priors, regular = _regular_solutions(matrices, predicted)
    if not regular.all():
        priors[~regular] = _nearest_solutions(matrices[~regular], predicted[~regular], source)
    return priors.reshape(moments.predicted.shape)


def _regular_solutions(matrices: Vector, predicted: Vector) -> tuple[Vector, NDArray[np.bool_]]:
    """Solve the systems (B, K, K), (B, K) that are not singular to rounding.

    Returns the solutions, and a mask of the systems that have one.
    """
    # Even with a singular matrix the solution for `predicted` may be small by chance; the solution
    # for random numbers is not.
    probe = np.random.default_rng(0).normal(size=predicted.shape[1])
    sides = np.stack([predicted, np.broadcast_to(probe, predicted.shape)], axis=2)
    solutions = np.full(sides.shape, np.inf)
    # A class that is never predicted has a row of zeros.
    regular: NDArray[np.bool_] = np.abs(matrices).sum(axis=2).min(axis=1) > 0
    with suppress(np.linalg.LinAlgError):  # raised for all where one pivot is exactly 0
        solutions[regular] = np.linalg.solve(matrices[regular], sides[regular])
    size = np.linalg.norm(solutions[..., 1], axis=1)
    doubtful = regular & ~(size < MAX_GROWTH * np.linalg.norm(probe))
    if doubtful.any():
        sigma = np.linalg.svd(matrices[doubtful], compute_uv=False)
        regular[doubtful] = sigma[:, -1] > _rounding(sigma.shape[1]) * sigma[:, 0]
        again = regular & doubtful
        solutions[again] = np.linalg.solve(matrices[again], sides[again])
    return solutions[..., 0], regular


def _nearest_solutions(matrices: Vector, predicted: Vector, source: Vector) -> Vector:
    """Return the solutions nearest to the source prior of singular systems (B, K, K), (B, K)."""
    missing = predicted - matrices @ source
    balanced = np.eye(source.size) - 1.0 / source.size  # changes that leave the sum at 1
    left, sigma, right = np.linalg.svd(matrices @ balanced)
    # As small as rounding of the matrix itself, of which only the balanced part is left here.
    largest = np.linalg.norm(matrices, ord=2, axis=(1, 2))[:, None]
    determined = sigma > _rounding(source.size) * largest
    along = np.einsum("bij,bi->bj", left, missing)
    along = np.divide(along, sigma, out=np.zeros_like(along), where=determined)
    priors: Vector = source + np.einsum("bji,bj->bi", right, along) @ balanced
    return priors


def clipped_prior(priors: Vector, source: Vector) -> Vector:
    """Return priors with negative entries set to 0, of sum 1; the source prior if all are."""
    kept = np.maximum(priors, 0.0)
    total = kept.sum(axis=-1, keepdims=True)
    return np.where(total > 0, kept / np.where(total > 0, total, 1.0), source)


def conditioning(
    predictions: Predictions, labels: NDArray[np.int64], confusion: Vector
) -> Conditioning:
    r"""Return how far the confusion matrix of validation predictions is from a singular one.

    To first order the smallest singular value :math:`σ = u^⊤ M v` has the variance
    :math:`\sum_j v_j^2 \operatorname{var}_j(u^⊤ f) / n_j` with the predictions f of the n_j samples
    of class j, whose variance is estimated with n_j − 1.
    """
    left, smallest, right, largest = _smallest_singular(confusion)
    projected = predictions.projected(left)
    counts = np.bincount(labels).astype(np.float64)
    mean = np.bincount(labels, weights=projected) / counts
    spread = np.bincount(labels, weights=(projected - mean[labels]) ** 2)
    error = float("inf")
    if counts.min() > 1:
        error = float(np.sqrt((right**2 * spread / (counts * (counts - 1))).sum()))
    singular = smallest <= _rounding(right.size) * largest
    return Conditioning(
        condition_number=float("inf") if singular else largest / smallest,
        smallest_singular_value=smallest,
        standard_error=error,
        near_singular=bool(singular or smallest < STANDARD_ERRORS * error),
    )


def _smallest_singular(matrix: Vector) -> tuple[Vector, float, Vector, float]:
    """Return the smallest singular value between its vectors, left and right, and the largest."""
    # Faster than a decomposition, and as good where squares leave enough digits.
    squares, vectors = np.linalg.eigh(matrix.T @ matrix)
    if squares[0] > WELL_CONDITIONED * squares[-1]:
        smallest, largest = float(np.sqrt(squares[0])), float(np.sqrt(squares[-1]))
        return matrix @ vectors[:, 0] / smallest, smallest, vectors[:, 0], largest
    left, sigma, right = np.linalg.svd(matrix)
    return left[:, -1], float(sigma[-1]), right[-1], float(sigma[0])


def _rounding(n_classes: int) -> float:
    return ROUNDINGS * n_classes * float(np.finfo(np.float64).eps)


ALPHA = 0.01
DELTA = 0.05
"""The choice of Azizzadenesheli et al.: a hundredth of the bound that holds with 95 %."""

SMALLEST_RIDGE = 1e-10
"""λ is at least the square of this times the largest singular value: as good as 0."""

SMALLEST_BOUNDED_RIDGE = 1e-14
"""Where bounds hold, λ is at least this times the trace of CᵀC: its rounding error."""

LARGEST_RIDGE = 1e10
"""… and at most the square of this times it: θ is then as good as 0."""

BISECTIONS = 46
"""Halvings of log λ between the two, after which it is known to a relative 1e-12."""

PIVOT_TOLERANCE = 1e-12
"""How far a weight may be below 0, or a slope, beside the largest, by rounding alone."""


# ------------------------------------------------------------------------------ regularised: RLLS


def rlls(moments: Moments, source: Vector) -> Vector:
    """Return source ∘ (1 + θ), the prior of the regularised weights; not negative.

    C = M·diag(source) with the confusion matrix M of validation samples, and b = μ − M·source
    with the mean prediction μ on the target. Works on stacks of replicates.
    """
    joint = moments.confusion * source
    excess = moments.predicted - moments.confusion @ source
    rho = penalty_factor(source.size, moments.n_labels)
    return source * (1.0 + regularised_weights(joint, excess, rho))


def penalty_factor(n_classes: int, n_labels: int) -> float:
    r"""Return the penalty ρ = α·3(2 log(2K/δ)/(3n) + √(2 log(2K/δ)/n)) for n labels.

    Examples
    --------
    >>> penalty_factor(3, 1000)
    0.0030
    """
    log_term = 2.0 * math.log(2 * n_classes / DELTA)
    return ALPHA * 3.0 * (log_term / (3 * n_labels) + math.sqrt(log_term / n_labels))


def regularised_weights(joint: Vector, excess: Vector, rho: float) -> Vector:
    """Return the minimiser θ ≥ −1 of ‖joint·θ − excess‖ + rho·‖θ‖; stacks give stacks."""
    theta = _unbounded(joint, excess, rho)
    if joint.ndim == 2:
        return theta if theta.min() >= -1.0 else _bounded(joint, excess, rho)
    for i in np.flatnonzero(theta.min(axis=-1) < -1.0):
        theta[i] = _bounded(joint[i], excess[i], rho)
    return theta


def _unbounded(joint: Vector, excess: Vector, rho: float) -> Vector:
    """Return the minimiser without bounds.

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
        ratio: Vector = np.divide(steep, size, out=np.full_like(size, np.inf), where=size > 0)
        return ratio

    low = np.full_like(largest, math.log(SMALLEST_RIDGE))
    high = np.full_like(largest, math.log(LARGEST_RIDGE))
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        below = slope(np.exp(middle)) < rho
        low = np.where(below, middle, low)
        high = np.where(below, high, middle)
    penalty = (np.exp(low) * largest) ** 2
    theta = np.swapaxes(right, -1, -2) @ (sigma * beta / (sigma**2 + penalty))[..., None]
    is_zero = slope(np.full_like(largest, LARGEST_RIDGE)) <= rho
    return np.where(is_zero, 0.0, theta[..., 0])


def _bounded(joint: Vector, excess: Vector, rho: float) -> Vector:
    """Return the minimiser of one problem some of whose bounds hold."""
    ridge = _BoundedRidge(joint, excess)
    low = math.log(ridge.smallest)
    high = math.log(ridge.largest)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if ridge.slope(middle) < rho:
            low = middle
        else:
            high = middle
    return ridge(low)


class _BoundedRidge:
    """Minimisers of ½‖Cθ − b‖² + ½λ‖θ‖² over θ ≥ −1, each started from the last one's bounds."""

    def __init__(self, joint: Vector, excess: Vector) -> None:
        self.joint = joint
        self.excess = excess
        # In w = 1 + θ ≥ 0 the quadratic is ½wᵀHw − hᵀw.
        self.square = joint.T @ joint
        self.linear = joint.T @ (excess + joint.sum(axis=1))
        self.free = np.ones(excess.size, dtype=bool)
        size = float(np.trace(self.square))
        self.smallest = SMALLEST_BOUNDED_RIDGE * size
        self.largest = LARGEST_RIDGE**2 * size

    def __call__(self, log_penalty: float) -> Vector:
        """Return θ at log λ, by block principal pivoting from the last free set on."""
        penalty = math.exp(log_penalty)
        matrix = self.square + penalty * np.eye(self.excess.size)
        linear = self.linear + penalty
        fewest = self.free.size + 1
        patience = 3
        for _ in range(10 * self.free.size + 100):
            inside = np.flatnonzero(self.free)
            w = np.zeros(self.free.size)
            w[inside] = np.linalg.solve(matrix[np.ix_(inside, inside)], linear[inside])
            gradient = matrix @ w - linear
            limits = PIVOT_TOLERANCE * np.array([np.abs(w).max(), np.abs(linear).max()])
            wrong = np.where(self.free, w < -limits[0], gradient < -limits[1])
            n_wrong = int(wrong.sum())
            if not n_wrong:
                break
            if n_wrong < fewest:
                fewest = n_wrong
                patience = 3
            elif patience:
                patience -= 1
            else:  # pragma: no cover - one at a time, the last first, never cycles
                wrong = np.arange(wrong.size) == np.flatnonzero(wrong)[-1]
            self.free = self.free ^ wrong
        return np.maximum(w, 0.0) - 1.0

    def slope(self, log_penalty: float) -> float:
        """Return λt/r at log λ."""
        theta = self(log_penalty)
        residual = float(np.linalg.norm(self.joint @ theta - self.excess))
        size = float(np.linalg.norm(theta))
        return math.exp(log_penalty) * size / residual if residual > 0 else math.inf
