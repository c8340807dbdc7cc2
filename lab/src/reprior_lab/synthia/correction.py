"""Correct a segmentation network: tuned on held-out frames, judged on others.

Decisions are counted frame by frame; intervals of gains come from a bootstrap over stretches of
the drive.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from reprior import StrengthProfile, prior_from_counts
from reprior.core import as_prior, as_target_prior, slopes
from reprior.exceptions import FileFormatError, RepriorWarning
from reprior.metrics import COUNT_METRICS, ClassCounts, CountMetric
from reprior.tuning import ProfileSum, best_widened
from reprior_lab.synthia.data import CLEAR, HELD_OUT
from reprior_lab.synthia.frames import IGNORED
from reprior_lab.synthia.runs import NetworkRun, digests_of
from reprior_lab.training.runfile import read_json, write_json

if TYPE_CHECKING:
    from reprior_lab.synthia.scores import ConditionScores

__all__ = [
    "CURVE",
    "KEPT",
    "METRICS",
    "STRETCH",
    "WAYS",
    "Gain",
    "JudgedFrames",
    "NetworkCorrection",
    "correct_network",
    "count_corrected",
    "count_frames",
    "find_strengths",
    "found_shares",
    "gain_of",
    "read_correction",
    "values_of",
]

Array: TypeAlias = np.ndarray[Any, Any]

#: The metrics of the tables, in order.
METRICS = ("mean_iou", "balanced_accuracy")

#: Number of frames in a stretch, which is drawn as a whole because neighbours are almost equal;
#: and the least number of stretches, which makes them shorter if there are few frames.
STRETCH, LEAST_STRETCHES = 10, 4

#: Draws of the bootstrap, and the coverage of its interval.
DRAWS, CONFIDENCE = 2000, 0.95

CORRECTION, FORMAT_VERSION = "correction.json", 2

#: Ways to choose a strength: the best mean accuracy of the held-out frames; the best that costs at
#: most half a point of their mean IoU; the rule of Bayes, without tuning.
WAYS = ("tuned", "kept", "bayes")
KEPT = "mean_iou >= baseline - 0.005"

CURVE = tuple(round(0.02 * i, 2) for i in range(101))

#: Priors with a smaller relative difference differ only by rounding.
UNIFORM = 1e-5

#: How many frames are profiled at once; how many single switches are kept, and the bins beyond.
AT_ONCE, MOST_SWITCHES, RESOLUTION = 64, 10**7, 1e-4


class Gain(NamedTuple):
    """A difference of two metrics, and its 95 % interval."""

    value: float
    low: float
    high: float


def count_frames(labels: Array, decided: Array, n_classes: int) -> Array:
    """Return true positives, predicted and support of every class in every frame, (N, 3, K).

    Parameters
    ----------
    labels : uint8 (N, h, w)
        Class indices, 255 for ignored pixels.
    decided : integer (N, h, w)
        The predicted classes.
    n_classes : int
        K.

    Examples
    --------
    >>> labels = np.array([[[0, 1, 255]]], np.uint8)
    >>> count_frames(labels, np.array([[[0, 0, 1]]]), 2)
    array([[[1, 0],
            [2, 0],
            [1, 1]]])
    """
    found = np.zeros((len(labels), 3, n_classes), np.int64)
    for frame, own, said in zip(found, labels, decided, strict=True):
        kept = own != IGNORED
        counts = ClassCounts.from_predictions(
            own[kept].astype(np.int64), said[kept], n_classes=n_classes
        )
        frame[:] = counts.true_positive, counts.predicted, counts.support
    return found


def values_of(counts: Array) -> dict[str, float]:
    """Return mean IoU and mean accuracy of all frames.

    Examples
    --------
    >>> values_of(np.array([[[1, 0], [2, 0], [1, 1]]]))
    {'mean_iou': 0.25, 'balanced_accuracy': 0.5}
    """
    total = ClassCounts(*counts.sum(axis=0))
    return {name: COUNT_METRICS[name](total) for name in METRICS}


def found_shares(counts: Array) -> list[float | None]:
    """Return the recall of each class; None for a class without pixels.

    Examples
    --------
    >>> found_shares(np.array([[[1, 0, 0], [2, 0, 0], [1, 1, 0]]]))
    [1.0, 0.0, None]
    """
    hits, _, support = counts.sum(axis=0)
    return [round(float(hit / n), 6) if n else None for hit, n in zip(hits, support, strict=True)]


def gain_of(before: Sequence[Array], after: Sequence[Array], metric: str, *, seed: int = 0) -> Gain:
    """Return the gain in a metric, averaged over conditions, with its bootstrap interval.

    Stretches of ten frames (fewer for under forty frames) are resampled with replacement, the same
    ones before and after, and the same ones under every condition with equally many; the interval
    is from the 2.5 % to the 97.5 % quantile of the gains, for given strengths.

    Both sides are averaged over the same classes: those with labels, and for the mean IoU also
    those that either side predicts. A class that is missing in a draw is left out on both sides.

    Parameters
    ----------
    before, after : sequence of int (N, 3, K)
        Counts of the frames under each condition, see :func:`count_frames`.
    metric : str
        "mean_iou" or "balanced_accuracy".
    seed : int, default 0
        The seed of the draws.
    """
    of = COUNT_METRICS[metric]
    values, draws = [], np.zeros(DRAWS)
    for one, other in zip(before, after, strict=True):
        length = max(1, min(STRETCH, len(one) // LEAST_STRETCHES))
        starts = np.arange(0, len(one), length)
        was, became = (np.add.reduceat(counts, starts, axis=0) for counts in (one, other))
        values.append(_gains(was, became, of, np.ones((1, len(starts))))[0])
        draws += _gains(was, became, of, _weights(len(starts), seed))
    tail = (1.0 - CONFIDENCE) / 2
    low, high = np.quantile(draws / len(values), (tail, 1.0 - tail))
    return Gain(float(np.mean(values)), float(low), float(high))


def _weights(n_stretches: int, seed: int) -> Array:
    """Return how often each stretch is in each draw, (draws, stretches)."""
    rng = np.random.default_rng([seed, n_stretches])
    return rng.multinomial(n_stretches, np.full(n_stretches, 1.0 / n_stretches), size=DRAWS)


def _gains(before: Array, after: Array, metric: CountMetric, weights: Array) -> Array:
    """Return the gain of each draw, from the counts of each stretch."""
    drawn = [np.moveaxis(np.tensordot(weights, counts, axes=1), 1, 0) for counts in (before, after)]
    has_labels = drawn[0][2] > 0
    if metric.average != "labelled":
        # One set of classes for both sides. With separate sets, a class that only one side
        # predicts, and a draw has no labels of, would enter one denominator only.
        has_labels = has_labels | (drawn[0][1] > 0) | (drawn[1][1] > 0)
    was, became = (np.where(has_labels, metric.ratio(*each), 0.0).sum(axis=1) for each in drawn)
    # A draw without any label has no metric, and no gain.
    gained: Array = (became - was) / np.maximum(has_labels.sum(axis=1), 1)
    return gained


Bounds: TypeAlias = tuple[float, float]


#: The first bounds of the search, and the strengths of the curves, whose values there are exact.
BOUNDS: Bounds = (0.0, 2.0)


@dataclass(frozen=True)
class JudgedFrames:
    """The result of a strength on the test frames.

    Parameters
    ----------
    strength : float
        λ.
    mean_iou, balanced_accuracy : float
        Metrics of the test frames.
    gains : mapping of str to Gain
        The gain of each metric over the uncorrected network, with bootstrap intervals.
    """

    strength: float
    mean_iou: float
    balanced_accuracy: float
    gains: Mapping[str, Gain]


@dataclass(frozen=True)
class NetworkCorrection:
    """A segmentation network before and after the correction of its prior.

    Parameters
    ----------
    n_held_out, n_test : int
        Numbers of frames to tune strengths on, and to judge on.
    as_trained : mapping of str to float
        Metrics of the test frames without a correction.
    raw, effective : mapping of str to JudgedFrames
        By the ways of :data:`WAYS`: with the counts of training pixels as the source prior, and
        with the prior that the network has learnt from the weights of the loss.
    curves : mapping of str to mapping of str to sequence of float
        By part ("held_out", "clear") and metric the values at the strengths of :data:`CURVE`,
        with raw counts.
    classes : mapping of str to sequence of float or None
        "before" and "after": the recall of each class on the test frames, as trained and at the
        tuned strength, with raw counts; None for a class that the test frames lack.
    scores : mapping of str to str
        By part the digest of the score file that these results are from.
    """

    n_held_out: int
    n_test: int
    as_trained: Mapping[str, float]
    raw: Mapping[str, JudgedFrames]
    effective: Mapping[str, JudgedFrames]
    curves: Mapping[str, Mapping[str, Sequence[float]]]
    classes: Mapping[str, Sequence[float | None]]
    scores: Mapping[str, str]

    def write(self, home: Path) -> None:
        """Write ``correction.json`` into a network's folder."""
        document = {"format_version": FORMAT_VERSION, "strengths": list(CURVE), **asdict(self)}
        write_json(home / CORRECTION, document)


def read_correction(home: Path) -> NetworkCorrection | None:
    """Return the correction in a network's folder, or None if it has none."""
    path = home / CORRECTION
    try:
        document = read_json(path)
        if document.pop("format_version") != FORMAT_VERSION:
            raise ValueError("another format_version")
        if tuple(document.pop("strengths")) != CURVE:
            raise ValueError("the curve is at other strengths")
        for part in ("raw", "effective"):
            document[part] = {way: _judged_of(each) for way, each in document[part].items()}
        return NetworkCorrection(**document)
    except FileNotFoundError:
        return None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"A network's correction must be JSON as reprior wrote it. Got "
            f"{type(error).__name__}: {error} in {path}. Delete the file: it is computed again "
            f"from the network's score files."
        ) from error


def correct_network(run: NetworkRun, home: Path) -> NetworkCorrection:
    """Tune strengths on the scores of the held-out frames, and judge them on the test frames.

    Parameters
    ----------
    run : NetworkRun
        The run, with the counts and the effective prior.
    home : path
        The network's folder, with its score files.
    """
    from reprior_lab.synthia.scores import read_scores

    tuning, judging = (read_scores(home, part) for part in (HELD_OUT, CLEAR))
    raw = prior_from_counts(run.class_counts)
    before = count_corrected(judging, raw, 0.0)
    by_raw = _corrected(tuning, judging, raw, before)
    effective = as_prior(run.effective_prior, name="effective_prior", n_classes=raw.size)
    by_effective = (
        by_raw
        if np.allclose(effective, raw, rtol=UNIFORM)
        else _corrected(tuning, judging, effective, before)
    )
    after = count_corrected(judging, raw, by_raw["tuned"].strength)
    curves = {
        part: _curves(_profile(scores, raw)(BOUNDS))
        for part, scores in ((HELD_OUT, tuning), (CLEAR, judging))
    }
    return NetworkCorrection(
        len(tuning.names),
        len(judging.names),
        values_of(before),
        by_raw,
        by_effective,
        curves,
        {"before": found_shares(before), "after": found_shares(after)},
        digests_of(home, (HELD_OUT, CLEAR)),
    )


def _corrected(
    tuning: ConditionScores, judging: ConditionScores, prior: Array, before: Array
) -> dict[str, JudgedFrames]:
    if np.allclose(prior, 1.0 / prior.size, rtol=UNIFORM):
        # A uniform prior corrects nothing: only rounding would decide between equal scores.
        nothing = {name: Gain(0.0, 0.0, 0.0) for name in METRICS}
        return dict.fromkeys(WAYS, JudgedFrames(1.0, **values_of(before), gains=nothing))
    found = {}
    for way, strength in find_strengths(tuning, prior).items():
        after = count_corrected(judging, prior, strength)
        gains = {name: gain_of([before], [after], name) for name in METRICS}
        found[way] = JudgedFrames(strength, **values_of(after), gains=gains)
    return found


def find_strengths(tuning: ConditionScores, prior: Array) -> dict[str, float]:
    """Return the strength of each of :data:`WAYS`, from the scores of the held-out frames."""
    profile = _profile(tuning, prior)
    return {
        "tuned": _best(profile, ()),
        "kept": _best(profile, (KEPT,)),
        "bayes": 1.0,
    }


def _best(profile: Callable[[Bounds], StrengthProfile], constraints: Sequence[str]) -> float:
    metric = COUNT_METRICS["balanced_accuracy"]
    with warnings.catch_warnings():
        # An effective prior may be almost uniform: then only extreme strengths change a
        # prediction, as the recorded strength shows. Absent classes are in the run's notes.
        warnings.simplefilter("ignore", RepriorWarning)
        best, _ = best_widened(profile, BOUNDS, metric, constraints, prefer_model=False)
    return float(best.strength)


def _profile(scores: ConditionScores, prior: Array) -> Callable[[Bounds], StrengthProfile]:
    """Return a function that profiles the scores within bounds, some frames at a time."""

    def within(bounds: Bounds) -> StrengthProfile:
        if bounds not in known:
            total = ProfileSum(exact_up_to=MOST_SWITCHES, resolution=RESOLUTION)
            for start in range(0, len(scores.labels), AT_ONCE):
                some = slice(start, start + AT_ONCE)
                if (scores.labels[some] != IGNORED).any():
                    total.add(
                        StrengthProfile.from_scores(
                            scores.scores[some].astype(np.float32),
                            scores.labels[some].astype(np.int64),
                            source_prior=prior,
                            bounds=bounds,
                            class_axis=1,
                            ignore_index=IGNORED,
                        )
                    )
            known[bounds] = total.total()
        return known[bounds]

    known: dict[Bounds, StrengthProfile] = {}
    return within


def count_corrected(scores: ConditionScores, prior: Array, strength: float) -> Array:
    """Return the counts of every frame, (N, 3, K), corrected by a strength."""
    shift = strength * slopes(prior, as_target_prior("uniform", n_classes=prior.size))
    added = shift.astype(np.float32)[:, None, None]
    decided = [(frame.astype(np.float32) + added).argmax(axis=0) for frame in scores.scores]
    return count_frames(scores.labels, np.stack(decided), prior.size)


def _curves(profile: StrengthProfile) -> dict[str, list[float]]:
    return {
        name: np.asarray(profile.evaluate(name, np.array(CURVE))).round(6).tolist()
        for name in METRICS
    }


def _judged_of(document: Mapping[str, Any]) -> JudgedFrames:
    gains = {name: Gain(*gain) for name, gain in document["gains"].items()}
    return JudgedFrames(**{**document, "gains": gains})
