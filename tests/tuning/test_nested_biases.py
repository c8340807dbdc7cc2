"""The honest score of biases per class."""

from __future__ import annotations

import numpy as np
import pytest

import reprior as rp
from reprior.calibrator.options import full_problem
from reprior.encoding import read_terms
from reprior.exceptions import InfeasibleError, OptionError
from reprior.profile.profile import StrengthProfile
from reprior.profile.reading import read
from reprior.tuning.nested_biases import nested_biases

PRIOR = np.array([0.6, 0.3, 0.1])
BOUNDS = (0.0, 2.0)


def case(n=240, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    logits = rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[labels] + np.log(PRIOR) + [0.0, 0.8, -0.5]
    return logits, labels


def nested(logits, labels, folds, weight=None, ignore=None, **options):
    calibrator = rp.PosteriorCalibrator(PRIOR, tune="per_class", **options)
    problem = full_problem(calibrator, read_terms(calibrator, None))
    reading = read(
        logits, labels, weight, source_prior=PRIOR, target_prior=problem.target_prior,
        kind="logits", bounds=BOUNDS, class_axis=-1, ignore_index=ignore, resolution=None,
    )  # fmt: skip
    profile = StrengthProfile._of(reading)
    best = profile.best(problem.metric)
    return nested_biases(reading, folds, problem, best=best, profile=profile)


@pytest.mark.parametrize("weighted", [False, True])
def test_each_fold_is_predicted_by_what_was_tuned_without_it(weighted):
    logits, labels = case()
    folds = np.arange(labels.size) % 3
    weight = np.random.default_rng(1).integers(1, 4, labels.size) * 1.0 if weighted else None
    found = nested(logits, labels, folds, weight, metric="macro_f1")
    predicted = np.empty_like(labels)
    for k in range(3):
        rest = folds != k
        part = None if weight is None else weight[rest]
        tuned = rp.tune_per_class(
            logits[rest], labels[rest], source_prior=PRIOR, metric="macro_f1", sample_weight=part
        )
        assert found.strengths[k] == tuned.strength
        predicted[~rest] = (logits[~rest] + tuned.biases).argmax(1)
        own = None if weight is None else weight[~rest]
        assert found.scores[k] == pytest.approx(
            rp.metrics.evaluate(
                "macro_f1", labels[~rest], predicted[~rest], n_classes=3, sample_weight=own
            )
        )
    expected = rp.metrics.evaluate("macro_f1", labels, predicted, sample_weight=weight)
    assert found.score == pytest.approx(expected)
    plain = rp.metrics.evaluate("macro_f1", labels, logits.argmax(1), sample_weight=weight)
    assert found.baseline_score == pytest.approx(plain)


def test_ignored_samples_are_in_no_fold():
    logits, labels = case()
    marked = labels.copy()
    marked[::5] = 9
    kept = marked != 9
    folds = np.arange(labels.size) % 2
    a = nested(logits, marked, folds, ignore=9)
    b = nested(logits[kept], labels[kept], folds[kept])
    assert (a.score, a.strengths) == (b.score, b.strengths)


def test_biases_begin_where_no_strength_is_feasible():
    logits, labels = case()
    rule = ["recall[0] >= 0.72", "recall[1] >= 0.72", "recall[2] >= 0.55"]
    folds = np.arange(labels.size) % 2
    with pytest.raises(InfeasibleError):
        rp.PosteriorCalibrator(PRIOR, subject_to=rule).fit(logits, labels)
    assert nested(logits, labels, folds, subject_to=rule).score > 0.6


def test_without_slopes_the_biases_begin_at_0():
    logits, labels = case()
    found = nested(logits, labels, np.arange(labels.size) % 2, target_prior=PRIOR)
    assert found.strengths == (1.0, 1.0)
    assert found.gain > 0


def test_one_fold_leaves_nothing_to_tune_on():
    logits, labels = case(30)
    with pytest.raises(OptionError, match=r"at least two folds with samples\. Got 1"):
        nested(logits, labels, np.zeros(30, int))
