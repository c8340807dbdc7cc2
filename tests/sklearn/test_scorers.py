"""scikit-learn's scorers as the metric: equal to their names here, and to predicting again."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score, fbeta_score, make_scorer, rand_score, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from tests.sklearn.shared import NAMES, three_classes, two_classes

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV, scorers

X, y = three_classes(300)
names = NAMES[y]
F2 = make_scorer(fbeta_score, beta=2, average="macro")
ROUNDING = 1e-9


def fitted(metric, labels=names, sample_weight=None, data=X):
    meta = RebalancedClassifierCV(GaussianNB(), cv=3, metric=metric, keep_profile=True)
    return clone(meta).fit(data, labels, sample_weight=sample_weight)


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2, len(y))], ids=["plain", "weights"])
def test_a_scorer_is_the_metric_that_it_computes(weight):
    by_scorer, by_name = fitted(F2, sample_weight=weight), fitted("macro_fbeta(2)", names, weight)
    assert by_scorer.strength_ == by_name.strength_
    assert by_scorer.best_score_ == pytest.approx(by_name.best_score_, abs=ROUNDING)
    for column, other in (("after_fbeta_score", "after_macro_fbeta(2)"), ("strength", "strength")):
        np.testing.assert_allclose(by_scorer.cv_results_[column], by_name.cv_results_[other])
    strengths, values = by_scorer.profile_.curve(by_scorer.calibrator_.metric)
    found = by_name.profile_.evaluate("macro_fbeta(2)", strengths)
    np.testing.assert_allclose(values, found, atol=ROUNDING)


def test_a_score_of_losses_is_smaller_the_worse():
    def mistakes(labels, predictions, sample_weight=None):
        return 1.0 - accuracy_score(labels, predictions, sample_weight=sample_weight)

    by_scorer = fitted(make_scorer(mistakes, greater_is_better=False))
    by_name = fitted("accuracy")
    assert by_scorer.strength_ == by_name.strength_
    assert by_scorer.best_score_ == pytest.approx(by_name.best_score_ - 1.0, abs=ROUNDING)


def test_scorers_by_name_which_this_library_does_not_have():
    meta = fitted(["rand_score", "macro_f1"])
    decided = meta.calibrator_.metric.function
    assert not decided.weighs
    counts = meta.profile_.counts(meta.strength_)
    label, predicted = (np.repeat(each, counts.pairs.count) for each in
                        (counts.pairs.label, counts.pairs.predicted))  # fmt: skip
    assert meta.best_score_ == pytest.approx(rand_score(label, predicted))
    assert list(meta.scores_) == ["rand_score", "macro_f1"]


def test_the_positive_class_of_two():
    data, labels = two_classes()
    by_scorer = fitted("f1", labels, data=data)
    by_name = fitted("f1[1]", labels, data=data)
    assert by_scorer.strength_ == by_name.strength_
    assert by_scorer.best_score_ == pytest.approx(by_name.best_score_)


def test_a_scorer_of_ones_own():
    def scorer(estimator, data, labels):
        return float((estimator.predict(data) == labels).mean())

    assert fitted(scorer).best_score_ == pytest.approx(fitted("accuracy").best_score_)


def test_a_scorer_without_weights_needs_integers():
    weights = np.where(y == 0, 1.0, 2.0)
    repeated = fitted("rand_score", sample_weight=weights)
    counts = repeated.profile_.counts(repeated.strength_).pairs
    label, predicted = (np.repeat(each, counts.weight.astype(int)) for each in
                        (counts.label, counts.predicted))  # fmt: skip
    assert repeated.best_score_ == pytest.approx(rand_score(label, predicted))
    with pytest.raises(rp.LabelsError, match="must be integers for 'rand_score', a scorer that"):
        fitted("rand_score", sample_weight=weights / 4)


def test_many_outcomes_are_scored_on_a_grid(monkeypatch):
    monkeypatch.setattr(scorers, "MOST_CALLS", 20)
    with pytest.warns(rp.RepriorWarning, match="it is only evaluated on a grid of 0"):
        coarse = fitted(F2)
    assert coarse.best_score_ == pytest.approx(fitted("macro_fbeta(2)").best_score_, abs=0.02)


def test_a_file_says_that_the_metric_was_a_function(tmp_path):
    meta = fitted(F2)
    meta.calibrator_.save(tmp_path / "cal.json")
    loaded = rp.load(tmp_path / "cal.json")
    assert loaded.metric == "fbeta_score"
    scores = GaussianNB().fit(X, names).predict_log_proba(X)
    assert (loaded.predict(scores) == meta.calibrator_.predict(scores)).all()
    again = tmp_path / "again.json"
    loaded.save(again)
    assert json.loads(again.read_text())["metric_function"]
    with pytest.raises(rp.OptionError, match="fbeta_score"):
        loaded.fit(scores, names)


@pytest.mark.parametrize(
    "metric, words",
    [
        ("roc_auc", "which ranks samples within a class"),
        ("neg_brier_score", "a metric of probabilities"),
        ("d2_log_loss_score", "must be decided by hard labels. Got 'd2_log_loss_score', a scorer"),
        ("top_k_accuracy", "a scorer of probabilities or ranks, which has no prediction to count"),
        (make_scorer(roc_auc_score, response_method="predict_proba"), "Got 'roc_auc_score', a sc"),
        (make_scorer(fbeta_score, beta=2), "Got 'fbeta_score', which raises ValueError: Target is"),
        (lambda estimator: 1.0, "called as scorer.* which raises TypeError"),
        ("f1_samples", "which raises ValueError: Samplewise metrics"),
        (["accuracy", "roc_auc"], "which ranks samples within a class"),
        ("f1_makro", "Did you mean 'f1_macro'?"),
        (3, "must be one metric"),
    ],
)
def test_what_is_no_scorer_of_hard_labels_is_refused(metric, words):
    with pytest.raises(rp.OptionError, match=words):
        fitted(metric)
