"""The correction on top of a run's scores, against every strength tried by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from reprior import prior_from_counts
from reprior.exceptions import (
    FileFormatError,
    LabelsError,
    OptionError,
    PriorError,
    RepriorWarning,
)
from reprior.metrics import evaluate
from reprior.profile.profile import StrengthProfile
from reprior_lab import correction
from reprior_lab.correction import (
    Correction,
    Folded,
    _interval,
    correct,
    correct_folds,
)
from reprior_lab.training import RunScores

COUNTS = [400, 90, 20, 6]
PRIOR = prior_from_counts(COUNTS)


def draw(n, seed, counts=COUNTS):
    """A balanced labelled set, scored by a model that leans to the frequent classes."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % len(counts))
    logits = rng.normal(size=(n, len(counts))) + 1.5 * np.eye(len(counts))[labels]
    return (logits + np.log(prior_from_counts(counts))).astype(np.float32), labels


def halved(n, seed):
    first, second = draw(n, seed), draw(n, seed + 1000)
    return RunScores(*first, *second, halved=True)


def predictions(strength, scores, prior=PRIOR):
    """The arg max of the corrected scores: the definition, row by row."""
    shift = strength * (np.log(1 / len(prior)) - np.log(prior))
    return np.array([np.argmax(row + shift) for row in scores.astype(float)])


def errors_at(strength, scores, labels):
    return (predictions(strength, scores) != labels).astype(int)


def all_strengths(scores, prior=PRIOR, high=2.0):
    """One strength between any two neighbouring crossings of any two classes' lines."""
    w, z = -np.log(prior), scores.astype(float)
    crossings = [0.0, high]
    for i in range(len(prior)):
        for j in range(i):
            crossings += list((z[:, i] - z[:, j]) / (w[j] - w[i]))
    inside = np.unique([c for c in crossings if 0 <= c <= high])
    return (inside[1:] + inside[:-1]) / 2


def least_error(scores, labels):
    """The least error over the continuum of strengths from 0 to 2."""
    return min(errors_at(s, scores, labels).mean() for s in all_strengths(scores))


@pytest.mark.parametrize("seed", range(4))
def test_no_strength_does_better_than_the_papers_protocol(seed):
    scores = halved(24, seed)
    found = correct(scores, PRIOR).paper
    (strength,) = found.strengths
    assert found.error == pytest.approx(least_error(*scores.whole()))
    assert found.error == pytest.approx(errors_at(strength, *scores.whole()).mean())
    assert found.same_labels


@pytest.mark.parametrize("seed", range(4))
def test_each_half_is_judged_with_the_strength_of_the_other(seed):
    scores = halved(24, seed)
    first = scores.validation_scores, scores.validation_labels
    second = scores.test_scores, scores.test_labels
    found = correct(scores, PRIOR).honest
    of_first, of_second = found.strengths
    assert errors_at(of_first, *first).mean() == pytest.approx(least_error(*first))
    assert errors_at(of_second, *second).mean() == pytest.approx(least_error(*second))
    wrong = errors_at(of_first, *second).sum() + errors_at(of_second, *first).sum()
    assert found.error == pytest.approx(wrong / 48)
    assert not found.same_labels


def test_a_grid_does_not_do_better():
    scores = halved(400, 7)
    grid = [errors_at(s, *scores.whole()).mean() for s in np.linspace(0, 2, 81)]
    found = correct(scores, PRIOR)
    assert found.paper.error <= min(grid)
    assert found.error == pytest.approx(grid[0])
    assert found.bayes.error == pytest.approx(grid[40])
    assert found.bayes.strengths == (1.0,)
    assert not found.bayes.same_labels


def test_the_gain_is_that_of_the_same_samples():
    scores = halved(300, 3)
    found = correct(scores, PRIOR)
    for judged in (found.honest, found.paper, found.bayes):
        assert judged.gain == pytest.approx(found.error - judged.error)
        low, high = judged.interval
        assert low < judged.gain < high
    assert found.honest.gain > 0.05, "and it is worth having"


def test_with_a_validation_part_the_test_part_alone_is_judged():
    validation, test = draw(200, 1), draw(120, 2)
    scores = RunScores(*validation, *test, halved=False)
    found = correct(scores, PRIOR)
    (tuned,) = found.honest.strengths
    assert found.honest.error == pytest.approx(errors_at(tuned, *test).mean())
    assert errors_at(tuned, *validation).mean() == pytest.approx(least_error(*validation))
    assert found.paper.error == pytest.approx(least_error(*test))
    assert found.error == pytest.approx(errors_at(0.0, *test).mean())
    assert found.bayes.error == pytest.approx(errors_at(1.0, *test).mean())


def test_the_interval_by_hand():
    # At strength 1, log 4 = 1.39 goes from class 0 to class 1: a lead of 1 is lost, one of 3 not.
    # Three samples are put right, one is put wrong and six stay: gain 0.2. The interval of 3 in 4
    # by Clopper and Pearson is that of scipy.stats.binomtest, of a share p: 0.4 · (2 p − 1).
    lead = np.array([1.0, 1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0])
    labels = np.array([1, 1, 1, 0, 0, 0, 0, 0, 0, 1])
    logits = np.stack([lead, np.zeros(10)], axis=1)
    scores = RunScores(logits, labels, logits, labels, halved=False)
    found = correct(scores, [0.8, 0.2]).bayes
    assert found.gain == pytest.approx(0.2)
    share = stats.binomtest(3, 4).proportion_ci(0.95, method="exact")
    assert found.interval == pytest.approx((0.4 * (2 * share.low - 1), 0.4 * (2 * share.high - 1)))


@pytest.mark.parametrize("better, worse", [(0, 4), (4, 0), (1, 0), (0, 0), (5, 3), (900, 20)])
def test_the_interval_has_zero_in_it_where_a_sign_test_sees_nothing(better, worse):
    low, high = _interval(better, worse, 10_000)
    assert low <= (better - worse) / 10_000 <= high
    seen = better + worse > 0 and stats.binomtest(better, better + worse).pvalue < 0.05
    assert (low > 0 or high < 0) == seen


@pytest.mark.parametrize("metric", ["balanced_accuracy", "macro_f1"])
def test_another_metric_is_tuned_for_and_errors_stay_errors(metric):
    labels = np.array([0] * 30 + [1] * 6 + [2] * 3 + [3] * 3)
    logits = draw(42, 5)[0] + np.eye(4)[labels]
    scores = RunScores(logits, labels, logits, labels, halved=False)
    found = correct(scores, PRIOR, metric=metric).paper
    (strength,) = found.strengths
    tried = [strength, *all_strengths(logits)]
    values = [evaluate(metric, labels, predictions(s, logits), n_classes=4) for s in tried]
    assert values[0] == pytest.approx(max(values))
    assert found.error == pytest.approx(errors_at(strength, logits, labels).mean())


def test_a_strength_above_the_bound_is_found_without_a_word():
    # Leads of 4 and 5 and a slope of log 4: all right from strength 3.6 on, so that a search up to
    # 4 finds nothing left to gain beyond.
    logits = np.array([[4.0, 0.0], [5.0, 0.0], [9.0, 0.0], [9.0, 0.0]])
    scores = RunScores(*(logits, np.array([1, 1, 0, 0])) * 2, halved=True)
    found = correct(scores, [0.8, 0.2])
    assert found.honest.strengths == pytest.approx([(5 / np.log(4) + 4) / 2] * 2)
    assert found.honest.error == 0.0


def test_a_strength_at_the_last_bound_is_said():
    # One more is right beyond each bound, and the last sample never is.
    logits = np.array([[2.0, 0.0], [4.0, 0.0], [9.0, 0.0], [0.0, 1.0]])
    scores = RunScores(*(logits, np.array([1, 1, 1, 0])) * 2, halved=False)
    with pytest.warns(RepriorWarning, match="upper bound 8; more is not tried") as said:
        correct(scores, [0.8, 0.2])
    assert not any("searching" in str(each.message) for each in said)


def test_a_uniform_source_changes_nothing():
    found = correct(halved(40, 0), [0.25] * 4)
    assert {found.honest.error, found.paper.error, found.bayes.error} == {found.error}
    assert found.honest.strengths == (1.0, 1.0)
    assert found.honest.interval == (0.0, 0.0)


def test_blocks_change_nothing(monkeypatch):
    scores = halved(50, 2)
    whole = correct(scores, PRIOR)
    monkeypatch.setattr(correction, "BLOCK", 12)
    assert correct(scores, PRIOR) == whole


def test_json_and_back_is_the_same():
    found = correct(halved(40, 0), PRIOR)
    assert Correction.from_dict(json.loads(json.dumps(found.to_dict()))) == found


@pytest.mark.parametrize("change", [{"paper": None}, {"honest": {"error": 1}}, {"error": "x"}])
def test_a_document_that_is_none_is_refused(change):
    document = correct(halved(40, 0), PRIOR).to_dict() | change
    with pytest.raises(FileFormatError, match="A correction must have error, honest"):
        Correction.from_dict(document)


@pytest.mark.parametrize(
    "prior, metric, error, sentence",
    [
        (COUNTS, "accuracy", PriorError, "must sum to 1. Got a sum of 516. These look like counts"),
        ([0.5, 0.5], "accuracy", PriorError, "Got 2 values for 4 classes"),
        ([1.0, 0.0, 0.0, 0.0], "accuracy", PriorError, r"source_prior\[1\]=0"),
        (PRIOR, "acuracy", OptionError, "Did you mean 'accuracy'"),
    ],
)
def test_what_cannot_be_corrected_is_refused(prior, metric, error, sentence):
    with pytest.raises(error, match=sentence):
        correct(halved(8, 0), prior, metric=metric)
    with pytest.raises(error, match=sentence):
        correct_folds(*draw(8, 0), prior, metric=metric)


# ------------------------------------------------------------------------------------------- folds


@pytest.mark.parametrize("n_folds, metric", [(3, "accuracy"), (5, "accuracy"), (3, "macro_f1")])
def test_folds_are_as_if_profiled_from_scratch(n_folds, metric):
    scores, labels = draw(61, 4)
    found = correct_folds(scores, labels, PRIOR, n_folds=n_folds, seed=9, metric=metric)
    fold_of = correction._folds(labels, n_folds, 9)
    for k in range(n_folds):
        here, others = fold_of == k, fold_of != k
        afresh = StrengthProfile.from_scores(scores[others], labels[others], source_prior=PRIOR)
        assert found.strengths[k] == afresh.best(metric).strength
        strengths = found.strengths[k], 0.0
        own = [errors_at(s, scores[here], labels[here]).mean() for s in strengths]
        assert (found.errors[k], found.baseline[k]) == pytest.approx(tuple(own))


def test_no_fold_is_profiled_twice(monkeypatch):
    sizes = []
    afresh = StrengthProfile.from_scores

    def counting(scores, labels, **options):
        sizes.append(len(labels))
        return afresh(scores, labels, **options)

    monkeypatch.setattr(StrengthProfile, "from_scores", counting)
    correct_folds(*draw(90, 4), PRIOR)
    assert sizes == [30, 30, 30]


def test_folds_go_above_the_bound_together():
    logits = np.tile([[4.0, 0.0], [5.0, 0.0], [9.0, 0.0], [9.5, 0.0]], (6, 1))
    labels = np.tile([1, 1, 0, 0], 6)
    found = correct_folds(logits, labels, [0.8, 0.2])
    assert min(found.strengths) > 2.0
    assert found.errors == (0.0, 0.0, 0.0)
    assert found.baseline == (0.5, 0.5, 0.5)


@given(st.lists(st.integers(0, 5), min_size=4, max_size=60), st.integers(2, 4), st.integers(0, 99))
def test_folds_are_stratified(labels, n_folds, seed):
    labels = np.array(labels)
    fold_of = correction._folds(labels, n_folds, seed)
    sizes = np.bincount(fold_of, minlength=n_folds)
    assert sizes.max() - sizes.min() <= 1
    for k in np.unique(labels):
        own = np.bincount(fold_of[labels == k], minlength=n_folds)
        assert own.max() - own.min() <= 1


def test_the_seed_shuffles_and_repeats():
    labels = np.arange(90) % 3
    folds = [tuple(correction._folds(labels, 3, seed)) for seed in (0, 0, 1)]
    assert folds[0] == folds[1] != folds[2]
    # Shuffled, not dealt in the order of the file: places in a fold are not evenly spaced.
    assert len(set(np.diff(np.flatnonzero(np.array(folds[0]) == 0)))) > 3


def test_mean_and_sample_deviation():
    found = Folded(errors=(0.1, 0.2, 0.6), strengths=(1, 1, 1), baseline=(0.5, 0.5, 0.5))
    assert found.mean == pytest.approx(0.3)
    assert found.std == pytest.approx(np.sqrt((0.2**2 + 0.1**2 + 0.3**2) / 2))


@pytest.mark.parametrize(
    "labels, n_folds, error, sentence",
    [
        ([0, 1, 2, 3], 1, OptionError, "`n_folds` must be from 2 to the number of samples, 4"),
        ([0, 1, 2, 3], 5, OptionError, "Got 5"),
        ([0, 1, 2, 4], 2, LabelsError, r"labels\[3\]=4"),
        ([0, 1, 2], 2, LabelsError, "one entry per sample"),
        ([0.0, 1.0, 2.0, 3.0], 2, LabelsError, "must be integers"),
    ],
)
def test_folds_that_cannot_be_are_refused(labels, n_folds, error, sentence):
    with pytest.raises(error, match=sentence):
        correct_folds(np.zeros((4, 4)), labels, PRIOR, n_folds=n_folds)
