"""What the correction does to one trained classifier of iNaturalist: three folds, and curves."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reprior.exceptions import FileFormatError, RepriorWarning
from reprior.experiments.correction import BOUNDS, Folded, correct_folds
from reprior.experiments.top_k_curve import top_k_curve
from reprior.experiments.training.runfile import write_json
from reprior.files.atomic import atomic_write
from reprior.metrics.count_metrics import COUNT_METRICS
from reprior.tuning.profile import StrengthProfile
from reprior.tuning.widen import best_widened

__all__ = ["Corrected", "Curve", "MethodResult", "judge", "read_result", "value_at", "write_result"]

Array: TypeAlias = np.ndarray[Any, Any]

#: Strengths at which something changes, and values from there on.
Curve: TypeAlias = tuple[Array, Array]

RESULT, CURVES = "correction.json", "curves.npz"
FORMAT_VERSION = 1

METRIC, N_FOLDS, TOP = "accuracy", 3, 5

#: The plain rule of Bayes.
FULL = 1.0

#: Priors that differ by less are the same: the effective prior is counts times weights of 1.
SAME_PRIOR = 1e-12


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
        The best of all validation samples, and what is as good.
    error, top5_error : float
        Of all validation samples at ``strength``: tuned on the labels they are judged on.
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
        Of the profile: validation samples, classes, and changes of a prediction within the bounds.
    error, top5_error : float
        Of the uncorrected classifier on all validation samples.
    raw : Corrected
        With the training counts as the source prior.
    effective : Corrected or None
        With the prior that weights and samplers leave in the classifier, where it is another.
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
        """Return all but the curves, ready for JSON."""
        own = {name: getattr(self, name) for name in _NUMBERS}
        return own | {
            "bounds": list(self.bounds),
            "raw": asdict(self.raw),
            "effective": None if self.effective is None else asdict(self.effective),
        }


_NUMBERS = ("n_samples", "n_classes", "n_switches", "error", "top5_error")


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
        Which samples go into which fold.
    """
    raw, profile, top5 = _corrected(scores, labels, raw_prior, seed)
    effective = None
    if np.abs(np.asarray(effective_prior) / raw_prior - 1).max() > SAME_PRIOR:
        effective, _, _ = _corrected(scores, labels, effective_prior, seed)
    return MethodResult(
        profile.n_samples, profile.n_classes, profile.n_switches,
        1 - COUNT_METRICS[METRIC](profile.baseline), 1 - float(top5[1][0]),
        raw, effective, profile.bounds, profile.curve(METRIC), top5,
    )  # fmt: skip


def _corrected(
    scores: Array, labels: Array, prior: Any, seed: int
) -> tuple[Corrected, StrengthProfile, Curve]:
    """The correction by one prior, the profile of all samples, and their top-5 curve."""

    def profile_of(bounds: tuple[float, float]) -> StrengthProfile:
        return StrengthProfile.from_scores(scores, labels, source_prior=prior, bounds=bounds)

    with warnings.catch_warnings():
        # A prior that is nearly uniform has slopes near 0, and then no strength is too large: the
        # strength in the table says so.
        warnings.filterwarnings("ignore", "The best strength l|No strength from", RepriorWarning)
        folds = correct_folds(scores, labels, prior, n_folds=N_FOLDS, seed=seed, metric=METRIC)
        metric = COUNT_METRICS[METRIC]
        best, profile = best_widened(profile_of, BOUNDS, metric, (), stacklevel=2)
    top = min(TOP, profile.n_classes)
    curve = top_k_curve(scores, labels, source_prior=prior, k=top, bounds=profile.bounds)
    found = Corrected(
        folds, 1 - profile.evaluate(METRIC, FULL), best.strength, best.interval, 1 - best.value,
        1 - value_at(curve, best.strength),
    )  # fmt: skip
    return found, profile, curve


def value_at(curve: Curve, strength: float) -> float:
    """Return the value of a step function.

    Examples
    --------
    >>> value_at((np.array([0.0, 0.5]), np.array([0.7, 0.8])), 0.4)
    0.7
    """
    return float(curve[1][np.searchsorted(curve[0], strength, side="right") - 1])


def write_result(result: MethodResult, folder: Path) -> None:
    """Write ``curves.npz``, then ``correction.json``: where the latter is, both are."""
    with atomic_write(folder / CURVES) as file:
        np.savez_compressed(
            file, top1_strengths=result.top1[0], top1_values=result.top1[1],
            top5_strengths=result.top5[0], top5_values=result.top5[1],
        )  # fmt: skip
    write_json(folder / RESULT, {"format_version": FORMAT_VERSION, **result.to_dict()})


def read_result(folder: Path) -> MethodResult | None:
    """Return what :func:`write_result` wrote, or None where it is not there."""
    path = folder / RESULT
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        # Opened here: NumPy leaves a file open that is no archive.
        with open(folder / CURVES, "rb") as file, np.load(file, allow_pickle=False) as found:
            curves = [
                (found[f"{name}_strengths"], found[f"{name}_values"]) for name in ("top1", "top5")
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
    except (KeyError, TypeError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise FileFormatError(
            f"The correction of a cell must be what reprior wrote. Got {type(error).__name__}: "
            f"{error} in {path}. Remove the file: it is made anew from the cell's scores."
        ) from error


def _read(document: Mapping[str, Any]) -> Corrected:
    low, high = document["interval"]
    folds = Folded(**{key: tuple(value) for key, value in document["folds"].items()})
    return Corrected(**{**document, "folds": folds, "interval": (low, high)})
