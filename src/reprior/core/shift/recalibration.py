"""Calibrations of log-scores: maps that are given, and the one that EM fits to validation labels.

EM relies on calibrated probabilities. A bias-corrected temperature (one scale and a bias per class)
calibrates them on the validation samples, whatever their class mix, and is then moved to the
source prior, by which EM divides. For bootstrap replicates the fit is repeated on resampled labels.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from reprior.core.arrays import to_numpy
from reprior.core.scaling import fit_scaling
from reprior.core.shift.predictions import (
    Calibration,
    Validation,
    naming_validation,
    relative_probabilities,
)
from reprior.exceptions import Argument, OptionError, ScoresError

__all__ = [
    "AffineCalibration",
    "Refits",
    "as_calibration",
    "every_second_label",
    "fit_calibration",
    "refit_calibration",
]

Vector: TypeAlias = np.ndarray[Any, Any]

SMALL_STEP = 0.05
"""A refit ends after a first step below this: the remaining error is of the order of its square, a
twentieth of a spread that is small itself."""

REFIT_MAX_CLASSES = 64
"""With more classes, a refit is a single step: another one needs second derivatives of all biases
for every replicate."""

REFIT_PRECISION = 1e-4
"""Further steps end where they are below this, far below the noise of any labels."""

REFIT_MAX_STEPS = 25
"""Further steps; three or four are usual."""

MAX_STEP = 1.0
"""The longest step: farther away, the second derivatives at its start no longer hold."""

MIN_SCALE = 0.05
"""A scale that is not positive would reverse the order of the scores."""

_FITTED_MAP = "Pass (scale, bias) of a fitted map."


class AffineCalibration:
    """The calibration z → scale·z + bias of log-scores z.

    Parameters
    ----------
    scale : float, or array-like of shape (K,)
        1/T of a temperature T, or a factor per class. Positive.
    bias : float, or array-like of shape (K,)
        Added afterwards.

    Examples
    --------
    >>> AffineCalibration(0.5, [1.0, 0.0])(np.array([[2.0, 4.0]]))
    array([[2., 2.]])
    """

    def __init__(self, scale: Any, bias: Any, n_classes: int | None = None) -> None:
        self.scale = _numbers(Argument("calibration", (0,)), scale, n_classes)
        self.bias = _numbers(Argument("calibration", (1,)), bias, n_classes)
        if (self.scale <= 0).any():
            raise OptionError(
                argument=Argument("calibration", (0,)),
                rule="must be positive: it is 1/T, or a factor per class",
                got=f"{float(self.scale.min()):g}",
                remedy=_FITTED_MAP,
            )

    def __call__(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the calibrated rows, in the rows' dtype."""
        scaled: NDArray[Any] = rows * self.scale.astype(rows.dtype) + self.bias.astype(rows.dtype)
        return scaled


def as_calibration(calibration: Any, n_classes: int) -> Calibration | None:
    """Return ``calibration``, a function, (scale, bias) or None, as a function or None."""
    if calibration is None or isinstance(calibration, AffineCalibration):
        return calibration
    if isinstance(calibration, tuple | list) and len(calibration) == 2:
        return AffineCalibration(calibration[0], calibration[1], n_classes)
    if callable(calibration):
        return _checked(calibration)
    raise OptionError(
        argument="calibration",
        rule="must be (scale, bias), or a function of log-scores (n, K)",
        got=type(calibration).__name__,
        remedy="Pass for example calibration=(1 / temperature, 0.0).",
    )


def _checked(calibration: Calibration) -> Calibration:
    """Return the function with a check that its results are log-scores."""

    def calibrated(rows: NDArray[Any]) -> NDArray[Any]:
        result = np.asarray(calibration(rows))
        if result.shape != rows.shape or result.dtype.kind != "f":
            raise _bad_result(
                f"must return log-scores of the shape it was given, {rows.shape}",
                f"{result.dtype} of shape {result.shape}",
                "Let it map rows of log-scores to rows of log-scores.",
            )
        if np.isnan(result).any() or not (result.max(axis=1) < np.inf).all():
            raise _bad_result(
                "must return log-scores without NaN and +inf",
                "some",
                "Check what it does to the smallest scores.",
            )
        return result

    return calibrated


def _bad_result(rule: str, got: str, remedy: str) -> OptionError:
    return OptionError(argument="calibration", rule=rule, got=got, remedy=remedy)


def _numbers(name: Argument, values: Any, n_classes: int | None) -> NDArray[np.float64]:
    host = to_numpy(values)
    shapes = ((), (n_classes,)) if n_classes is not None else (host.shape,)
    if host.dtype.kind not in "iuf" or host.shape not in shapes or not np.isfinite(host).all():
        raise OptionError(
            argument=name,
            rule="must be a finite number, or one per class",
            got=f"{host.dtype} of shape {host.shape}",
            remedy=_FITTED_MAP,
        )
    return host.astype(np.float64)


# ------------------------------------------------------------------------------ the fit for EM


def fit_calibration(
    validation: Validation[NDArray[Any]], source: NDArray[np.float64]
) -> AffineCalibration:
    r"""Return the map to log-posteriors under the source prior that fits the labels best.

    .. math:: a z_k + b_k + \log P_s(k) - \log P_v(k)

    where z_k is the log-score of class k, softmax(a z + b) has the smallest log-loss on the labels
    as they are, and P_v is their class mix: a posterior under P_v, divided by it and times the
    source prior P_s, is one under P_s.

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
    >>> fitted = fit_calibration(Validation(rows, labels), np.array([0.8, 0.2]))
    >>> fitted.scale.round(1), np.diff(fitted.bias).round(1)  # log(0.2 / 0.8) = -1.4
    (array([0.5, 0.5]), array([-1.4]))
    """
    mix = np.bincount(validation.labels, minlength=source.size) / validation.labels.size
    with naming_validation():
        fit = fit_scaling(validation.rows, validation.labels, source_prior=source, target_prior=mix)
    if not fit.scale[0] > 0.0:
        raise ScoresError(
            argument=Argument("validation", (0,)),
            rule="must rise with the labels' classes, or no temperature calibrates them",
            got=f"a best scale of {fit.scale[0]:.2g}",
            remedy="Check that the labels belong to the scores, or pass calibration=(1, 0) to take "
            "the scores as they are.",
        )
    return AffineCalibration(fit.scale, fit.bias + np.log(source) - np.log(mix))


def every_second_label(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of every second label of each class, in their order, from the second on.

    A calibration that is fitted to these can be judged by the others. The labels that it is fitted
    to would make it look better than it is.

    Examples
    --------
    >>> every_second_label(np.array([0, 1, 0, 0, 1])).tolist()
    [False, False, True, False, True]
    """
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    mask = np.empty(labels.size, np.bool_)
    mask[order] = (np.arange(labels.size) - np.searchsorted(ordered, ordered)) % 2 == 1
    return mask


# ---------------------------------------------------------------- the fit for bootstrap replicates


class Refits(NamedTuple):
    """One scale and a bias per class for each of B replicates, (B,) and (B, K)."""

    scales: Vector
    biases: Vector


def refit_calibration(
    validation: Validation[NDArray[Any]],
    source: NDArray[np.float64],
    n_replicates: int,
    rng: np.random.Generator,
) -> Refits:
    r"""Return how likelihood ratios change if the calibration is fitted to resampled labels.

    Calibrated scores are scaled and shifted once more, starting at scale 1 and biases 0, to fit
    the samples of each replicate.

    Parameters
    ----------
    validation : Validation
        Calibrated rows, log-posteriors under the source prior, and their labels.
    source : ndarray of shape (K,)
        The source prior P_s.
    n_replicates : int
        B, how often samples are resampled within each class.
    rng : numpy Generator
        Source of random numbers.

    Returns
    -------
    Refits
        Scale s and bias e: :math:`\log P(x|k)` becomes :math:`s \log P(x|k) + e_k`, up to a number
        per sample.
    """
    mix = np.bincount(validation.labels, minlength=source.size) / validation.labels.size
    fit = _Refit(validation.rows + np.log(mix) - np.log(source), validation.labels)
    points = fit.minima(n_replicates, rng)
    scales = points[:, 0]
    return Refits(scales, points[:, 1:] + (scales[:, None] - 1.0) * np.log(mix))


class _Refit:
    """The log-loss of softmax(s·z + d), and its minima on resampled samples.

    The first fit has the penalty of one sample, around a centre. It ended at s = 1, d = 0, which
    determines the penalty's slope there; the fits of replicates get the same penalty.
    """

    def __init__(self, rows: NDArray[Any], labels: NDArray[np.int64]) -> None:
        self.rows = rows.astype(np.float64, copy=False)
        self.labels = labels
        possible = np.isfinite(self.rows)
        if not possible.all():  # stays impossible, and 0 times its score is 0
            self.rows = np.where(possible, self.rows, np.finfo(np.float64).min / 4)
        self.start = np.concatenate([[1.0], np.zeros(rows.shape[1])])
        self.penalty = 1.0 / len(rows)
        self.slopes = self._slopes(self.start)
        self.penalty_slope = -self.slopes.mean(axis=0)

    def minima(self, n_replicates: int, rng: np.random.Generator) -> Vector:
        """Return the minima (B, 1 + K) of replicates: one Newton step, or as many as needed.

        The first step uses the curvature of all samples. At the start, the slope of a replicate is
        a sum of slopes of the samples, which are computed once.
        """
        all_samples = np.ones(len(self.rows), np.uint8)
        inverse = np.linalg.inv(self._curvature(self.start, all_samples))
        points = np.tile(self.start, (n_replicates, 1))
        draw = within_class_resampler(self.labels)
        for point in points:
            counts = draw(rng)
            slope = counts @ self.slopes / len(counts) + self.penalty_slope
            step = _limited(-inverse @ slope)
            point += step
            if np.abs(step).max() > SMALL_STEP and self.rows.shape[1] <= REFIT_MAX_CLASSES:
                point[:] = self._minimum(point, counts)
        points[:, 0] = np.maximum(points[:, 0], MIN_SCALE)
        return points

    def _minimum(self, point: Vector, counts: NDArray[np.uint8]) -> Vector:
        """Continue by Newton's method with the curvature of the samples that were drawn."""
        drawn = counts > 0
        subset = object.__new__(_Refit)
        subset.rows = self.rows[drawn]
        subset.labels = self.labels[drawn]
        subset.start = self.start
        subset.penalty = self.penalty
        subset_counts = counts[drawn]
        for _ in range(REFIT_MAX_STEPS):
            slope = subset_counts @ subset._slopes(point) / len(counts) + self.penalty_slope
            slope += self.penalty * (point - self.start)
            step = _limited(-np.linalg.solve(subset._curvature(point, subset_counts), slope))
            point = point + step
            if np.abs(step).max() <= REFIT_PRECISION:
                break
        return point

    def _posteriors(self, point: Vector) -> Vector:
        z = point[0] * self.rows + point[1:]
        mass = relative_probabilities(z, out=z)
        posteriors: Vector = mass / mass.sum(axis=1, keepdims=True)
        return posteriors

    def _slopes(self, point: Vector) -> Vector:
        """Return every sample's slope of its log-loss, (n, 1 + K)."""
        p = self._posteriors(point)
        label_entries = (np.arange(len(self.rows)), self.labels)
        by_scale = (p * self.rows).sum(axis=1) - self.rows[label_entries]
        p[label_entries] -= 1.0
        return np.concatenate([by_scale[:, None], p], axis=1)

    def _curvature(self, point: Vector, counts: NDArray[np.uint8]) -> Vector:
        """Return the second derivatives, (1 + K, 1 + K), of the penalised mean."""
        p = self._posteriors(point)
        pz = p * self.rows
        both = np.concatenate([pz.sum(axis=1, keepdims=True), p], axis=1)
        curvature: Vector = -(both * counts[:, None]).T @ both
        curvature[0, 0] += counts @ (pz * self.rows).sum(axis=1)
        mixed = counts @ pz
        curvature[0, 1:] += mixed
        curvature[1:, 0] += mixed
        curvature[1:, 1:] += np.diag(counts @ p)
        curvature /= float(counts.sum())
        curvature += self.penalty * np.eye(len(curvature))
        return curvature


def _limited(step: Vector) -> Vector:
    longest = float(np.abs(step).max())
    return step if longest <= MAX_STEP else step * (MAX_STEP / longest)


def within_class_resampler(
    labels: NDArray[np.int64],
) -> Callable[[np.random.Generator], NDArray[np.uint8]]:
    """Return a function that draws as many samples of each class again, and counts them."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    class_sizes = np.repeat(sizes, sizes)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)

    def draw(rng: np.random.Generator) -> NDArray[np.uint8]:
        places = starts + rng.integers(class_sizes)
        return np.bincount(order[places], minlength=labels.size).astype(np.uint8)

    return draw
