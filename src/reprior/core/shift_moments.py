r"""The target prior by matching moments: black-box shift estimation, hard and soft (BBSE).

What a model predicts on the target is a mixture, by the target prior, of what it predicts on each
class; labelled validation scores say what that is, and the mixture is then solved for.
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior.core.shift_predictions import Predicted

__all__ = [
    "Conditioning",
    "Moments",
    "bbse",
    "conditioning",
    "truncated",
]

Vector: TypeAlias = np.ndarray[Any, Any]

CERTAIN = 2.0
"""Standard errors of the smallest singular value by which it must differ from 0, or the matrix is
taken as near-singular: of matrices that truly are singular, 95 % are then recognised."""

WELL_CONDITIONED = 1e-6
"""Of squares of singular values that are further apart, the smallest loses more than six digits."""

HUGE = 1e8
"""Solutions beyond this are of matrices that are singular but for rounding."""


class Moments(NamedTuple):
    """What the mixture is solved from.

    ``predicted`` (K,) is the mean prediction on the target, ``confusion`` (K, K) that on the
    validation samples of each class, a column each; both may have B replicates in front.
    ``n_labels`` is the number of validation labels.
    """

    predicted: Vector
    confusion: Vector
    n_labels: int


@dataclass(frozen=True)
class Conditioning:
    """How well a confusion matrix tells the classes apart.

    Attributes
    ----------
    condition_number : float
        Largest over smallest singular value of P(predicted|class): by up to this factor errors
        of the predicted frequencies grow in the estimate. Infinite for a singular matrix.
    smallest_singular_value : float
        0 where some mix of classes cannot be told from another.
    standard_error : float
        Of the smallest singular value, by the number of validation labels.
    near_singular : bool
        Whether the smallest singular value is not two standard errors above 0, so that the
        matrix may be singular for all that the labels say.
    """

    condition_number: float
    smallest_singular_value: float
    standard_error: float
    near_singular: bool


def bbse(found: Moments, source: Vector) -> Vector:
    r"""Solve M p = μ for the prior p; entries may be negative.

    μ is the mean prediction on the target, and column j of M that on validation samples of class
    j. This is :math:`p = w ∘ P_v` with Lipton's weights :math:`w = C^{-1} μ`, where C is the joint
    confusion matrix and P_v the class mix of the validation labels. Where M is singular, it is
    the solution nearest to the source prior. Works on stacks of replicates.
    """
    prior: Vector
    with suppress(np.linalg.LinAlgError):  # raised where a class is never predicted
        prior = np.linalg.solve(found.confusion, found.predicted[..., None])[..., 0]
        if np.abs(prior).max() < HUGE:
            return prior
    missing = found.predicted - found.confusion @ source
    balanced = np.eye(source.size) - 1.0 / source.size  # changes that leave the sum at 1
    nearest = np.linalg.pinv(found.confusion @ balanced, rcond=_rounding(source.size))
    prior = source + (balanced @ nearest @ missing[..., None])[..., 0]
    return prior


def truncated(priors: Vector, source: Vector) -> Vector:
    """Return priors with negative entries made 0, of sum 1; the source prior if nothing is left."""
    kept = np.maximum(priors, 0.0)
    total = kept.sum(axis=-1, keepdims=True)
    return np.where(total > 0, kept / np.where(total > 0, total, 1.0), source)


def conditioning(source: Predicted, labels: NDArray[np.int64], confusion: Vector) -> Conditioning:
    r"""Return how far a confusion matrix of validation samples is from a singular one.

    To first order the smallest singular value :math:`σ = u^⊤ M v` has the variance
    :math:`\sum_j v_j^2 \operatorname{var}_j(u^⊤ f) / n_j` with the predictions f of the n_j samples
    of class j.
    """
    left, smallest, right, largest = _least_seen(confusion)
    along = source.along(left)
    counts = np.bincount(labels).astype(np.float64)
    mean = np.bincount(labels, weights=along) / counts
    variance = np.bincount(labels, weights=(along - mean[labels]) ** 2) / counts
    error = float(np.sqrt((right**2 * variance / counts).sum()))
    singular = smallest <= _rounding(right.size) * largest
    return Conditioning(
        condition_number=float("inf") if singular else largest / smallest,
        smallest_singular_value=smallest,
        standard_error=error,
        near_singular=bool(singular or smallest < CERTAIN * error),
    )


def _least_seen(matrix: Vector) -> tuple[Vector, float, Vector, float]:
    """Return the smallest singular value between its vectors, left and right, and the largest."""
    # Sooner than a decomposition, and as good where squares leave enough digits.
    squares, vectors = np.linalg.eigh(matrix.T @ matrix)
    if squares[0] > WELL_CONDITIONED * squares[-1]:
        smallest, largest = float(np.sqrt(squares[0])), float(np.sqrt(squares[-1]))
        return matrix @ vectors[:, 0] / smallest, smallest, vectors[:, 0], largest
    left, sigma, right = np.linalg.svd(matrix)
    return left[:, -1], float(sigma[-1]), right[-1], float(sigma[0])


def _rounding(n_classes: int) -> float:
    return n_classes * float(np.finfo(np.float64).eps)
