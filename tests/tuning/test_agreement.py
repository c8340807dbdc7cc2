"""``best_score_`` is the metric of ``predict`` on the tuning scores, ties or not."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest

import reprior as rp

#: Values are means of ratios: their sums differ by some 1e-15 between ways to add.
ROUNDING = 1e-12

METRICS = [
    "accuracy", "accuracy", "accuracy", "balanced_accuracy", "mean_iou", "macro_f1",
    "macro_precision", "precision[1]", "f1[0]",
]  # fmt: skip
CONSTRAINTS = [None, None, "accuracy >= baseline - 0.05", "recall[0] >= 0.9 * baseline"]
BOUNDS = [(0.0, 2.0), (0.0, 2.0), (-1.0, 1.0), (0.0, 1.0), (0.5, 3.0)]
DTYPES = ["f2", "f4", "f8", "i8"]

PROBLEMS_AT_ONCE = 2500
FEW_PROBLEMS = 1000


class Problem(NamedTuple):
    """Scores, labels, weights, and the options of a calibrator."""

    scores: Any
    labels: Any
    weights: Any
    options: dict[str, Any]


def drawn(rng: np.random.Generator) -> Problem:
    """Draw integer logits in any dtype, or logits in half precision, with many ties.

    Half of the problems have two classes: switches of integer logits then lie on a lattice, and the
    middle of two of them often is a third at which as many decisions become right as wrong.
    """
    n_classes = 2 if rng.random() < 0.5 else int(rng.integers(3, 7))
    n = int(rng.integers(3, 150))
    labels = rng.integers(n_classes, size=n)
    labels[:2] = [0, 1]
    if rng.random() < 0.7:
        scores = rng.integers(-4, 5, size=(n, n_classes)) + np.eye(n_classes)[labels]
        scores = scores.astype(rng.choice(DTYPES))
    else:
        scores = rng.normal(scale=2.0, size=(n, n_classes)) + np.eye(n_classes)[labels]
        scores = scores.astype("f2")
    scores[0] -= scores.dtype.type(9)  # never all rows of probabilities: those bring a warning
    counts = rng.integers(1, 60, n_classes)
    options = {
        "source_prior": counts / counts.sum(),
        "metric": str(rng.choice(METRICS)),
        "subject_to": CONSTRAINTS[rng.integers(len(CONSTRAINTS))],
        "bounds": BOUNDS[rng.integers(len(BOUNDS))],
    }
    if rng.random() < 0.2:
        target = rng.integers(1, 60, n_classes)
        options["target_prior"] = target / target.sum()
    weights = [None, rng.integers(1, 5, n).astype(float), rng.uniform(0.1, 3.0, n)]
    return Problem(scores, labels, weights[rng.choice(3, p=[0.6, 0.2, 0.2])], options)


def disagreements(seed: int, n_problems: int) -> list[tuple[int, float, float]]:
    """Fit and predict; return which scores are not those of the predictions, and both values."""
    different = []
    for number in range(n_problems):
        problem = drawn(np.random.default_rng([seed, number]))
        calibrator = rp.PosteriorCalibrator(**problem.options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rp.RepriorWarning)
            try:
                calibrator.fit(problem.scores, problem.labels, problem.weights)
            except rp.InfeasibleError:
                assert problem.options["bounds"][0] > 0.0
                continue
        value = rp.metrics.evaluate(
            problem.options["metric"],
            problem.labels,
            calibrator.predict(problem.scores),
            n_classes=problem.scores.shape[1],
            sample_weight=problem.weights,
        )
        if abs(value - calibrator.best_score_) > ROUNDING:
            different.append((number, calibrator.best_score_, value))
    return different


def test_the_score_is_that_of_the_predictions():
    assert disagreements(seed=0, n_problems=FEW_PROBLEMS) == []


def test_a_model_that_cannot_be_bettered_is_left_as_it_is():
    scores, labels = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]]), [0, 0, 1]
    calibrator = rp.PosteriorCalibrator([0.8, 0.2]).fit(scores, labels)
    assert calibrator.strength_ == 0.0
    assert calibrator.best_score_ == 1.0
    low, high = calibrator.strength_interval_
    assert (low, high) == (0.0, pytest.approx(1.0 / np.log(4.0)))
    np.testing.assert_array_equal(calibrator.predict(scores), scores.argmax(axis=1))
    with pytest.warns(rp.RepriorWarning, match="`retarget` changes nothing at strength 0") as seen:
        other = calibrator.retarget([0.3, 0.7])
    assert seen[0].filename == __file__
    np.testing.assert_array_equal(other.predict_proba(scores), calibrator.predict_proba(scores))


def test_biases_and_fitted_probabilities_follow_another_target_prior_at_strength_0():
    scores, labels = np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]]), [0, 0, 1]
    for options in ({"metric": "log_loss"}, {"separate": True}):
        calibrator = rp.PosteriorCalibrator([0.8, 0.2], bounds=(-1.0, 0.0), **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rp.RepriorWarning)
            calibrator.fit(scores, labels)
        other = calibrator.retarget([0.01, 0.99])
        assert (other.predict_proba(scores) != calibrator.predict_proba(scores)).any()


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(1, 41))
def test_the_score_is_that_of_the_predictions_100_000_times(seed):
    assert disagreements(seed, PROBLEMS_AT_ONCE) == []
