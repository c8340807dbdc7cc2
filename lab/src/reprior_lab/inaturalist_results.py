"""Judge the correction of one classifier of iNaturalist: three folds, and exact curves."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reprior import StrengthProfile
from reprior.core import as_prior, as_target_prior, check_labels, slopes
from reprior.exceptions import FileFormatError, OptionError, RepriorWarning
from reprior.files import atomic_write, read_arrays
from reprior.metrics import COUNT_METRICS
from reprior.tuning import best_widened
from reprior_lab.cifar import TABLE_SETTINGS
from reprior_lab.correction import BOUNDS, Folded, correct_folds
from reprior_lab.training.runfile import read_json, write_json

__all__ = [
    "FIXED_SETTINGS",
    "ROWS",
    "Corrected",
    "Curve",
    "MethodResult",
    "judge",
    "read_result",
    "top_k_curve",
    "value_at",
    "write_result",
]

#: Rows of the table, in the paper's order; each is trained and corrected.
ROWS = ("ce", "ce-drw", "focal", "focal-drw", "ldam", "ldam-drw", "bbn")

#: Settings that the data, rows, columns and options determine.
FIXED_SETTINGS = (*TABLE_SETTINGS, "model", "seed")

Array: TypeAlias = np.ndarray[Any, Any]

#: How many scores are processed at once: a few copies of so many almost fit a CPU's cache.
BLOCK = 1 << 19

RESULT, CURVES = "correction.json", "curves.npz"
FORMAT_VERSION = 1

METRIC, N_FOLDS, TOP = "accuracy", 3, 5

#: The plain rule of Bayes.
FULL = 1.0

#: Priors that differ by less are equal: the effective prior is counts times weights of 1.
SAME_PRIOR = 1e-12

_NUMBERS = ("n_samples", "n_classes", "n_switches", "error", "top5_error")


def top_k_curve(
    scores: Any,
    labels: Any,
    *,
    source_prior: Any,
    k: int = 5,
    bounds: tuple[float, float] = (0.0, 2.0),
) -> tuple[Array, Array]:
    r"""Return the top-k accuracy as a step function of the strength, for a uniform target prior.

    The lines :math:`z_j + λ w_j` of the classes, with slopes :math:`w = \log P_t - \log P_s`, meet
    the line of the true class y at

    .. math:: λ_j = \frac{z_y - z_j}{w_j - w_y}

    where z are the scores of a sample. A class with a larger slope is ahead of y from λ_j on, one
    with a smaller slope up to λ_j. So y is among the first k if, for some i from 0 to k − 1, at
    most i of the former and at most k − 1 − i of the latter are ahead: from the (k − i)-th largest
    λ_j of the latter up to the (i + 1)-th smallest of the former. The k smallest and the k largest
    crossings determine these k intervals, without sorting all classes.

    Parameters
    ----------
    scores : array of shape (N, K)
        Logits or log-probabilities.
    labels : integer array of shape (N,)
        Class indices.
    source_prior : array-like of shape (K,)
        P_s.
    k : int, default 5
        1 … K. With 1 it is the accuracy curve of :class:`reprior.StrengthProfile`.
    bounds : (float, float), default (0, 2)
        The strengths covered.

    Returns
    -------
    strengths, values : ndarray
        ``values[i]`` holds from ``strengths[i]`` to the next strength; the first strength is the
        lower bound. At a crossing the larger slope is ahead; of equal lines the lower index.

    Examples
    --------
    >>> scores = np.array([[2.0, 1.0, 0.0], [3.0, 2.0, 0.0]])
    >>> top_k_curve(scores, [0, 2], source_prior=[0.6, 0.3, 0.1], k=2)
    (array([0.        , 1.44269504, 1.67433188]), array([0.5, 0. , 0.5]))
    """
    known = np.asarray(labels)
    z = np.asarray(scores)
    source = as_prior(source_prior, name="source_prior", n_classes=z.shape[-1])
    check_labels(known, n_classes=source.size, shape=z.shape[:-1])
    _check_k(k, source.size)
    w = slopes(source, as_target_prior("uniform", n_classes=source.size))
    step = max(1, BLOCK // source.size)
    parts = [
        _right_within(z[at : at + step].astype(np.float64), known[at : at + step], w, int(k))
        for at in range(0, known.size, step)
    ]
    begins, ends = (np.concatenate(each) for each in zip(*parts, strict=True))
    return _steps(begins, ends, known.size, bounds)


def _check_k(k: Any, n_classes: int) -> None:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= n_classes:
        raise OptionError(
            argument="k",
            rule=f"must be an integer from 1 to the number of classes, {n_classes}",
            got=repr(k),
            remedy="Pass a smaller k.",
        )


def _right_within(z: Array, y: Array, w: Array, k: int) -> tuple[Array, Array]:
    """Return the bounds of the intervals [a, b) of strengths in which y is among the first k."""
    rows = np.arange(y.size)
    gap, rise = z[rows, y][:, None] - z, w - w[y][:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = gap / rise
    # With equal slopes a class is ahead at every strength, or at none.
    ahead = (gap < 0) | ((gap == 0) & (np.arange(w.size) < y[:, None]))
    level = np.where(ahead, -np.inf, np.inf)
    rising = np.where(rise > 0, crossing, np.where(rise == 0, level, np.inf))
    falling = np.where(rise < 0, crossing, -np.inf)
    rising[rows, y] = np.inf
    enter = np.sort(np.partition(rising, k - 1, axis=1)[:, :k], axis=1)
    leave = np.sort(-np.partition(-falling, k - 1, axis=1)[:, :k], axis=1)
    # Both ends of the k intervals ascend, so the new part of each begins where the last one ended.
    last = np.pad(enter[:, :-1], ((0, 0), (1, 0)), constant_values=-np.inf)
    begin = np.maximum(leave, last)
    is_interval = begin < enter
    return begin[is_interval], enter[is_interval]


def _steps(begins: Array, ends: Array, n: int, bounds: tuple[float, float]) -> tuple[Array, Array]:
    """Return the share of correct samples as steps, from the intervals where they are correct."""
    low, high = bounds
    start = np.count_nonzero((begins <= low) & (ends > low))
    at = np.concatenate([begins, ends])
    change = np.repeat(np.array([1, -1]), [begins.size, ends.size])
    inside = (at > low) & (at <= high)
    strengths, where = np.unique(at[inside], return_inverse=True)
    moved = np.bincount(where, change[inside], strengths.size).astype(np.int64)
    kept = moved != 0  # gains and losses at one strength may cancel
    values = np.concatenate([[start], start + np.cumsum(moved[kept])]) / n
    return np.concatenate([[low], strengths[kept]]), values


#: Strengths at which something changes, and values from there on.
Curve: TypeAlias = tuple[Array, Array]


@dataclass(frozen=True)
class Corrected:
    """The correction by one source prior.

    Parameters
    ----------
    folds : Folded
        Cross-validated: tuned on two thirds of the validation samples, tested on the rest.
    bayes : float
        Share of wrong predictions at strength 1, of all validation samples.
    strength, interval : float and (float, float)
        The best strength on all validation samples, and the interval of equally good ones.
    error, top5_error : float
        Errors of all validation samples at ``strength``, tuned and judged on the same labels.
    """

    folds: Folded
    bayes: float
    strength: float
    interval: tuple[float, float]
    error: float
    top5_error: float


@dataclass(frozen=True, eq=False)
class MethodResult:
    """One trained classifier, before and after the correction.

    Parameters
    ----------
    n_samples, n_classes, n_switches : int
        Sizes of the profile: validation samples, classes, and prediction changes within bounds.
    error, top5_error : float
        Errors of the uncorrected classifier on all validation samples.
    raw : Corrected
        With the training counts as the source prior.
    effective : Corrected or None
        With the prior that the classifier has learnt from weights and samplers, if it differs.
    bounds : (float, float)
        The strengths that the curves cover.
    top1, top5 : Curve
        Accuracy of all validation samples over the strength, with raw counts: exact.
    """

    n_samples: int
    n_classes: int
    n_switches: int
    error: float
    top5_error: float
    raw: Corrected
    effective: Corrected | None
    bounds: tuple[float, float]
    top1: Curve
    top5: Curve

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the curves, ready for JSON."""
        numbers = {name: getattr(self, name) for name in _NUMBERS}
        return numbers | {
            "bounds": list(self.bounds),
            "raw": asdict(self.raw),
            "effective": None if self.effective is None else asdict(self.effective),
        }


def judge(
    scores: Array, labels: Array, raw_prior: Any, effective_prior: Any, *, seed: int = 0
) -> MethodResult:
    """Correct the scores of a classifier and judge it.

    Parameters
    ----------
    scores, labels : arrays of shape (N, K) and (N,)
        Logits and labels of the validation samples.
    raw_prior, effective_prior : arrays of shape (K,)
        Shares of the training samples, and the prior that the classifier has learnt from them.
    seed : int, default 0
        The seed of the assignment of samples to folds.
    """
    raw, profile, top5 = _corrected(scores, labels, raw_prior, seed)
    effective = None
    if np.abs(np.asarray(effective_prior) / raw_prior - 1).max() > SAME_PRIOR:
        effective, _, _ = _corrected(scores, labels, effective_prior, seed)
    return MethodResult(
        profile.n_samples,
        profile.n_classes,
        profile.n_switches,
        1 - COUNT_METRICS[METRIC](profile.baseline),
        1 - float(top5[1][0]),
        raw,
        effective,
        profile.bounds,
        profile.curve(METRIC),
        top5,
    )


def _corrected(
    scores: Array, labels: Array, prior: Any, seed: int
) -> tuple[Corrected, StrengthProfile, Curve]:
    """Return the correction by one prior, the profile of all samples, and their top-5 curve."""

    def profile_of(bounds: tuple[float, float]) -> StrengthProfile:
        return StrengthProfile.from_scores(scores, labels, source_prior=prior, bounds=bounds)

    with warnings.catch_warnings():
        # A nearly uniform prior has slopes near 0, and then no strength is too large: the table
        # shows the strength.
        warnings.simplefilter("ignore", RepriorWarning)
        folds = correct_folds(scores, labels, prior, n_folds=N_FOLDS, seed=seed, metric=METRIC)
        metric = COUNT_METRICS[METRIC]
        best, profile = best_widened(profile_of, BOUNDS, metric, (), prefer_model=False)
    top = min(TOP, profile.n_classes)
    curve = top_k_curve(scores, labels, source_prior=prior, k=top, bounds=profile.bounds)
    corrected = Corrected(
        folds,
        1 - profile.evaluate(METRIC, FULL),
        best.strength,
        best.interval,
        1 - best.value,
        1 - value_at(curve, best.strength),
    )
    return corrected, profile, curve


def value_at(curve: Curve, strength: float) -> float:
    """Return the value of a step function.

    Examples
    --------
    >>> value_at((np.array([0.0, 0.5]), np.array([0.7, 0.8])), 0.4)
    0.7
    """
    return float(curve[1][np.searchsorted(curve[0], strength, side="right") - 1])


def write_result(result: MethodResult, folder: Path) -> None:
    """Write ``curves.npz``, then ``correction.json``: if the latter exists, so does the former."""
    with atomic_write(folder / CURVES) as file:
        np.savez_compressed(
            file,
            top1_strengths=result.top1[0],
            top1_values=result.top1[1],
            top5_strengths=result.top5[0],
            top5_values=result.top5[1],
        )
    write_json(folder / RESULT, {"format_version": FORMAT_VERSION, **result.to_dict()})


def read_result(folder: Path) -> MethodResult | None:
    """Return the result that :func:`write_result` wrote, or None if there is none."""
    path = folder / RESULT
    try:
        document = read_json(path)
        arrays = read_arrays(folder / CURVES)
        curves = [
            (arrays[f"{name}_strengths"], arrays[f"{name}_values"]) for name in ("top1", "top5")
        ]
        if document["format_version"] != FORMAT_VERSION:
            raise ValueError(f"format_version {document['format_version']!r}")
        effective = document["effective"]
        low, high = document["bounds"]
        return MethodResult(
            **{name: document[name] for name in _NUMBERS},
            raw=_read(document["raw"]),
            effective=None if effective is None else _read(effective),
            bounds=(low, high),
            top1=curves[0],
            top5=curves[1],
        )
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise FileFormatError(
            f"The correction of a cell must be what reprior wrote. Got {type(error).__name__}: "
            f"{error} in {path}. Remove the file: it is computed again from the cell's scores."
        ) from error


def _read(document: Mapping[str, Any]) -> Corrected:
    low, high = document["interval"]
    folds = Folded(**{key: tuple(value) for key, value in document["folds"].items()})
    return Corrected(**{**document, "folds": folds, "interval": (low, high)})
