"""What a fitted RebalancedClassifierCV offers: folds, metrics, decisions, other mixes, files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.sklearn.shared import NAMES, three_classes, two_classes

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV

X, y = three_classes()
names = NAMES[y]
PRIOR = rp.prior_from_labels(y)
METRICS = ["macro_f1", "accuracy", "recall[cow]"]


# ---------------------------------------------------------------------- folds and metrics


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2, len(y))], ids=["plain", "weights"])
def test_the_results_of_every_fold(weight):
    cv = StratifiedKFold(3)
    meta = RebalancedClassifierCV(GaussianNB(), cv=cv, metric=METRICS)
    meta.fit(X, names, sample_weight=weight)
    table = pd.DataFrame(meta.cv_results_)
    assert table.training.tolist() == ["as_given"] * 3
    assert table.split.tolist() == [0, 1, 2]
    w = -np.log(meta.source_prior_)
    for fold, (train, test) in enumerate(cv.split(X, y)):
        model = GaussianNB().fit(X[train], y[train], None if weight is None else weight[train])
        scores = model.predict_log_proba(X[test])
        own = None if weight is None else weight[test]
        alone = rp.PosteriorCalibrator(meta.source_prior_, kind="log_probs", metric="macro_f1")
        alone.fit(scores, y[test], sample_weight=own)
        row = table.iloc[fold]
        assert row.n_samples == len(test)
        assert row.strength == pytest.approx(alone.strength_)
        assert row.value == pytest.approx(alone.best_score_)
        for name, strength in (("before", 0.0), ("after", meta.strength_)):
            decided = (scores + strength * w).argmax(axis=1)
            for metric in METRICS:
                expected = rp.metrics.evaluate(
                    metric.replace("cow", "2"), y[test], decided, n_classes=3, sample_weight=own
                )
                assert row[f"{name}_{metric}"] == pytest.approx(expected)


def test_all_metrics_of_a_list_are_reported_and_the_first_is_tuned():
    several = RebalancedClassifierCV(GaussianNB(), cv=3, metric=METRICS).fit(X, names)
    first = RebalancedClassifierCV(GaussianNB(), cv=3, metric="macro_f1").fit(X, names)
    assert several.strength_ == first.strength_
    assert list(several.scores_) == METRICS
    assert several.scores_["macro_f1"]["after"] == pytest.approx(several.best_score_)
    for metric in METRICS:
        name = metric.replace("cow", "2")
        assert several.scores_[metric]["before"] == pytest.approx(
            rp.metrics.find_metric(name, n_classes=3)(several.profile_.baseline)
        )
        assert several.scores_[metric]["after"] == pytest.approx(
            several.profile_.evaluate(name, several.strength_)
        )
    assert list(first.scores_) == ["macro_f1"]
    metric = rp.metrics.COUNT_METRICS["accuracy"]
    by_object = RebalancedClassifierCV(GaussianNB(), cv=3, metric=("macro_f1", metric))
    assert list(by_object.fit(X, names).scores_) == ["macro_f1", "accuracy"]


def test_the_log_loss_of_every_fold():
    meta = RebalancedClassifierCV(LogisticRegression(), cv=3, metric=["log_loss", "macro_f1"])
    meta.fit(X, y)
    assert meta.scores_["log_loss"] == dict(zip(("before", "after"), meta.log_loss_, strict=True))
    folds = pd.DataFrame(meta.cv_results_)
    assert (folds.after_log_loss < folds.before_log_loss).all()
    assert (folds.value <= folds.after_log_loss + 1e-9).all()  # the fold's own is its best
    assert folds.after_log_loss.mean() == pytest.approx(meta.best_score_, rel=0.1)


@pytest.mark.filterwarnings("ignore::reprior.RepriorWarning")
def test_a_fold_with_a_single_class_has_no_strength():
    splits = [(np.arange(600), np.flatnonzero(y == 0)), (np.arange(600), np.arange(600))]
    meta = RebalancedClassifierCV(LogisticRegression(), cv=splits, metric="log_loss").fit(X, y)
    assert np.isnan(meta.cv_results_["strength"][0])
    assert np.isfinite(meta.cv_results_["strength"][1])


@pytest.mark.parametrize(
    "options", [{"tune": "per_class"}, {"separate": True}, {"n_bootstrap": 20},
                {"selection": "balanced_log_loss"}], ids=str,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:The gain of strength")
def test_folds_with_other_options(options):
    meta = RebalancedClassifierCV(LogisticRegression(), cv=3, **options).fit(X, y)
    assert np.isfinite(meta.cv_results_["strength"]).all()
    total = np.average(
        meta.cv_results_["after_balanced_accuracy"], weights=meta.cv_results_["n_samples"]
    )
    assert total == pytest.approx(meta.scores_["balanced_accuracy"]["after"], abs=0.02)


def test_a_frozen_model_has_one_part():
    frozen = FrozenEstimator(GaussianNB().fit(X, names))
    meta = RebalancedClassifierCV(frozen, source_prior=PRIOR).fit(X, names)
    assert meta.cv_results_["n_samples"].tolist() == [600]
    assert meta.cv_results_["strength"][0] == meta.strength_


# ---------------------------------------------------------------------------- decisions


@pytest.mark.parametrize(
    "model", [LogisticRegression(), GaussianNB(), DecisionTreeClassifier(max_depth=3)], ids=str
)
@pytest.mark.parametrize("data", [three_classes, two_classes])
def test_the_decision_function_is_what_predict_decides_by(model, data):
    X, y = data()
    meta = RebalancedClassifierCV(model, cv=3, random_state=0).fit(X, y)
    decision = meta.decision_function(X)
    assert np.isfinite(decision).all()
    index = (decision > 0).astype(int) if decision.ndim == 1 else decision.argmax(axis=1)
    np.testing.assert_array_equal(meta.classes_[index], meta.predict(X))
    if decision.ndim == 1:
        assert roc_auc_score(y, decision) == roc_auc_score(y, meta.predict_proba(X)[:, 1])


def test_the_decision_function_is_of_the_map_for_decisions():
    meta = RebalancedClassifierCV(LogisticRegression(), separate=True).fit(X, y)
    np.testing.assert_array_equal(meta.decision_function(X).argmax(axis=1), meta.predict(X))
    assert (meta.predict_proba(X).argmax(axis=1) != meta.predict(X)).any()


def test_no_decision_function_without_scores():
    assert not hasattr(RebalancedClassifierCV(None), "decision_function")


# -------------------------------------------------------------------------- other mixes


@pytest.mark.parametrize(
    "target_prior", ["uniform", [0.2, 0.2, 0.6], {"cow": 0.6, "ant": 0.2, "bee": 0.2}], ids=str
)
def test_a_retargeted_copy(target_prior):
    meta = RebalancedClassifierCV(LogisticRegression(), target_prior=[0.4, 0.3, 0.3])
    meta.fit(X, names)
    before = meta.predict_proba(X)
    other = meta.retarget(target_prior)
    np.testing.assert_array_equal(
        other.predict_proba(X), meta.predict_proba(X, target_prior=target_prior)
    )
    assert other.estimator_ is meta.estimator_
    assert other.strength_ == meta.strength_
    assert other.get_params()["target_prior"] == target_prior
    np.testing.assert_array_equal(other.target_prior_, other.calibrator_.target_prior_)
    np.testing.assert_array_equal(meta.predict_proba(X), before)  # the first one stays
    with pytest.raises(rp.OptionError, match="`target_prior` must be"):
        meta.retarget("estimate")


def test_the_labels_own_mix_as_the_target():
    weight = np.where(y == 1, 3.0, 1.0)
    inner = LogisticRegression(class_weight="balanced")
    meta = RebalancedClassifierCV(
        inner, source_prior="effective", target_prior="labels", metric="accuracy"
    )
    meta.fit(X, names)
    np.testing.assert_allclose(meta.target_prior_, PRIOR)
    balanced = balanced_accuracy_score(names, inner.fit(X, names).predict(X))
    assert meta.score(X, names) > inner.score(X, names)
    assert balanced_accuracy_score(names, meta.predict(X)) < balanced
    meta.fit(X, names, sample_weight=weight)
    np.testing.assert_allclose(meta.target_prior_, rp.prior_from_labels(y, sample_weight=weight))


# ------------------------------------------------------------------ a constant predictor


def test_a_classifier_that_scores_all_samples_equally_warns():
    with pytest.warns(rp.RepriorWarning, match="decides 'ant' for every sample") as caught:
        RebalancedClassifierCV(DummyClassifier(), source_prior=PRIOR, metric="accuracy").fit(
            X, names
        )
    assert "The estimator scores all of them equally" in str(caught[0].message)


def test_a_classifier_that_decides_for_one_class_only_warns():
    noise = np.random.default_rng(0).normal(size=(600, 1))
    with pytest.warns(rp.RepriorWarning, match="decides 'ant' for every sample") as caught:
        RebalancedClassifierCV(LogisticRegression(), metric="accuracy").fit(noise, names)
    assert "No strength within the bounds does better" in str(caught[0].message)


# ------------------------------------------------------------------------------ skops


DOCS = Path(__file__).parents[2] / "docs" / "api" / "sklearn.md"


@pytest.mark.filterwarnings("ignore:The gain of strength")
@pytest.mark.parametrize(
    "options",
    [{}, {"training": "weighted"}, {"ensemble": True}, {"separate": True}, {"n_bootstrap": 20},
     {"tune": "per_class"}],
    ids=str,
)  # fmt: skip
def test_skops_with_the_types_that_the_docs_list(options):
    skops = pytest.importorskip("skops.io")
    meta = RebalancedClassifierCV(
        make_pipeline(StandardScaler(), LogisticRegression()), cv=3, **options
    ).fit(X, names)
    data = skops.dumps(meta)
    unknown = skops.get_untrusted_types(data=data)
    listed = re.findall(r"^\| `(reprior\.[\w.]+)` \|", DOCS.read_text(), flags=re.M)
    assert set(unknown) <= set(listed)
    again = skops.loads(data, trusted=unknown)
    np.testing.assert_array_equal(again.predict_proba(X), meta.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), meta.predict(X))
    assert again.strength_ == meta.strength_


def test_out_of_fold_values_are_those_of_cross_val_predict():
    cv = StratifiedKFold(3)
    scores = cross_val_predict(GaussianNB(), X, y, cv=cv, method="predict_log_proba")
    meta = RebalancedClassifierCV(GaussianNB(), cv=cv).fit(X, y)
    decided = (scores - meta.strength_ * np.log(meta.source_prior_)).argmax(axis=1)
    assert meta.scores_["balanced_accuracy"] == {
        "before": pytest.approx(balanced_accuracy_score(y, scores.argmax(axis=1))),
        "after": pytest.approx(balanced_accuracy_score(y, decided)),
    }
