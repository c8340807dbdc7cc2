"""The calibration that EM needs first: a bias-corrected temperature, fitted to validation labels.

EM believes every probability. One scale and a bias per class make them right on the validation
samples, whatever their class mix, and are then moved to the source prior, by which EM divides.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior.core.scaling import fit_scaling
from reprior.core.shift.predictions import Affine, Validation, about_validation
from reprior.exceptions import ScoresError

__all__ = ["Recalibrated", "every_second", "fitted_calibration", "recalibrated"]

Vector: TypeAlias = np.ndarray[Any, Any]


def fitted_calibration(validation: Validation[NDArray[Any]], source: NDArray[np.float64]) -> Affine:
    r"""Return the map to log-posteriors under the source prior that fits the labels best.

    .. math:: a z_k + b_k + \log P_s(k) - \log P_v(k)

    where softmax(a z + b) has the smallest log-loss on the labels as they are, and P_v is their
    class mix: a posterior under P_v, divided by it and times the source prior P_s, is one under
    P_s.

    References
    ----------
    .. [1] Alexandari, Kundaje, Shrikumar. "Maximum Likelihood with Bias-Corrected Calibration is
       Hard-To-Beat at Label Shift Adaptation", ICML 2020.

    Examples
    --------
    Scores of two classes that are twice too large, on labels of another mix than the source's:

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(2, size=20_000)
    >>> right = rng.normal(size=20_000) + 2 * labels - 1
    >>> rows = np.stack([-4 * right, np.zeros(20_000)], axis=1)
    >>> found = fitted_calibration(Validation(rows, labels), np.array([0.8, 0.2]))
    >>> found.scale.round(1), np.diff(found.bias).round(1)  # log(0.2 / 0.8) = -1.4
    (array([0.5, 0.5]), array([-1.4]))
    """
    mix = np.bincount(validation.labels, minlength=source.size) / validation.labels.size
    with about_validation():
        fit = fit_scaling(validation.rows, validation.labels, source_prior=source, target_prior=mix)
    if not fit.scale[0] > 0.0:
        raise ScoresError(
            f"`validation[0]` must rise with the labels' classes, or no temperature makes it "
            f"honest. Got a best scale of {fit.scale[0]:.2g}. Check that the labels belong to the "
            f"scores, or pass calibration=(1, 0) to take the scores as they are."
        )
    return Affine(fit.scale, fit.bias + np.log(source) - np.log(mix))


def every_second(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of every second label of each class, in their order, from the second on.

    A calibration that is fitted to these can be judged by the others. Judged by its own labels, it
    would be wrong most where these say that it is right.

    Examples
    --------
    >>> every_second(np.array([0, 1, 0, 0, 1])).tolist()
    [False, False, True, False, True]
    """
    order = np.argsort(labels, kind="stable")
    ranked = labels[order]
    found = np.empty(labels.size, np.bool_)
    found[order] = (np.arange(labels.size) - np.searchsorted(ranked, ranked)) % 2 == 1
    return found


SMALL_STEP = 0.05
"""A first step below this is the last: what is left is of the order of its square, a twentieth of
a spread that is small itself."""

REFIT_MAX_CLASSES = 64
"""Of more classes the first step is the only one: a further one needs second derivatives of all
biases, for every replicate."""

REFIT_PRECISION = 1e-4
"""Further steps end where they are below this, far below what any labels can tell."""

REFIT_MAX_STEPS = 25
"""Further steps; three or four are usual."""

MAX_STEP = 1.0
"""How far a step may go: by more, the second derivatives where it begins say nothing of its end."""

MIN_SCALE = 0.05
"""A scale that is not positive would turn the scores round."""


class Recalibrated(NamedTuple):
    """One scale and a bias per class for each of B replicates, (B,) and (B, K)."""

    scales: Vector
    biases: Vector


def recalibrated(
    validation: Validation[NDArray[Any]],
    source: NDArray[np.float64],
    n_replicates: int,
    rng: np.random.Generator,
) -> Recalibrated:
    r"""Return the maps by which likelihood ratios change if the labelled samples are others.

    Parameters
    ----------
    validation : Validation
        Calibrated rows, log-posteriors under the source prior, and their labels.
    source : ndarray of shape (K,)
        The source prior P_s.
    n_replicates : int
        B, how often samples are drawn again within each class.
    rng : numpy Generator
        What draws them.

    Returns
    -------
    Recalibrated
        Scale s and bias e: what was :math:`\log P(x|k)` becomes :math:`s \log P(x|k) + e_k`, up to
        a number per sample.
    """
    mix = np.bincount(validation.labels, minlength=source.size) / validation.labels.size
    fit = _Refit(validation.rows + np.log(mix) - np.log(source), validation.labels)
    points = fit.first_steps(n_replicates, rng)
    scales, biases = points[:, 0], points[:, 1:]
    return Recalibrated(scales, biases + (scales[:, None] - 1.0) * np.log(mix))


class _Refit:
    """The log-loss of softmax(s·z + d), and its minima on samples drawn again.

    The first fit is held near a centre by the penalty of one sample. That it ended at s = 1, d = 0
    says what the penalty's slope is there, and so the same penalty holds the others.
    """

    def __init__(self, rows: NDArray[Any], labels: NDArray[np.int64]) -> None:
        self.rows, self.labels = rows.astype(np.float64, copy=False), labels
        possible = np.isfinite(self.rows)
        if not possible.all():  # stays impossible, and 0 times its score is 0
            self.rows = np.where(possible, self.rows, np.finfo(np.float64).min / 4)
        self.start = np.concatenate([[1.0], np.zeros(rows.shape[1])])
        self.penalty = 1.0 / len(rows)
        self.slopes = self._slopes(self.start)
        self.pull = -self.slopes.mean(axis=0)

    def first_steps(self, n_replicates: int, rng: np.random.Generator) -> Vector:
        """Return the minima (B, 1 + K), by a step with the curvature of all, or as many as needed.

        The slopes of all replicates at the start are sums of the same slopes of the samples.
        """
        every = np.ones(len(self.rows), np.uint8)
        inverse = np.linalg.inv(self._curvature(self.start, every))
        found = np.tile(self.start, (n_replicates, 1))
        draw = _within_classes(self.labels)
        for point in found:
            counts = draw(rng)
            slope = counts @ self.slopes / len(counts) + self.pull
            step = _shortened(-inverse @ slope)
            point += step
            if np.abs(step).max() > SMALL_STEP and self.rows.shape[1] <= REFIT_MAX_CLASSES:
                point[:] = self._minimum(point, counts)
        found[:, 0] = np.maximum(found[:, 0], MIN_SCALE)
        return found

    def _minimum(self, point: Vector, counts: NDArray[np.uint8]) -> Vector:
        """Go on by Newton's method with the samples' own curvature."""
        drawn = counts > 0
        some = object.__new__(_Refit)
        some.rows, some.labels, some.start = self.rows[drawn], self.labels[drawn], self.start
        some.penalty, times, n = self.penalty, counts[drawn], len(counts)
        for _ in range(REFIT_MAX_STEPS):
            slope = times @ some._slopes(point) / n + self.pull
            slope += self.penalty * (point - self.start)
            step = _shortened(-np.linalg.solve(some._curvature(point, times), slope))
            point = point + step
            if np.abs(step).max() <= REFIT_PRECISION:
                break
        return point

    def _posteriors(self, point: Vector) -> Vector:
        z = point[0] * self.rows + point[1:]
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        posteriors: Vector = z / z.sum(axis=1, keepdims=True)
        return posteriors

    def _slopes(self, point: Vector) -> Vector:
        """Return every sample's slope of its log-loss, (n, 1 + K)."""
        p, at = self._posteriors(point), (np.arange(len(self.rows)), self.labels)
        by_scale = (p * self.rows).sum(axis=1) - self.rows[at]
        p[at] -= 1.0
        return np.concatenate([by_scale[:, None], p], axis=1)

    def _curvature(self, point: Vector, counts: NDArray[np.uint8]) -> Vector:
        """Return the second derivatives, (1 + K, 1 + K), of the penalised mean."""
        p, n = self._posteriors(point), float(counts.sum())
        pz = p * self.rows
        both = np.concatenate([pz.sum(axis=1, keepdims=True), p], axis=1)
        found: Vector = -(both * counts[:, None]).T @ both
        found[0, 0] += counts @ (pz * self.rows).sum(axis=1)
        mixed = counts @ pz
        found[0, 1:] += mixed
        found[1:, 0] += mixed
        found[1:, 1:] += np.diag(counts @ p)
        found /= n
        found += self.penalty * np.eye(len(found))
        return found


def _shortened(step: Vector) -> Vector:
    longest = float(np.abs(step).max())
    return step if longest <= MAX_STEP else step * (MAX_STEP / longest)


def _within_classes(
    labels: NDArray[np.int64],
) -> Callable[[np.random.Generator], NDArray[np.uint8]]:
    """Return what draws as many samples of each class again as there are, and counts them."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    own = np.repeat(np.arange(sizes.size), sizes)
    start = (np.cumsum(sizes) - sizes)[own]

    def draw(rng: np.random.Generator) -> NDArray[np.uint8]:
        places = start + rng.integers(sizes[own])
        return np.bincount(order[places], minlength=labels.size).astype(np.uint8)

    return draw
