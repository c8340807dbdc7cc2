"""RebalancedClassifierCV beyond one number, and the class mix of a batch."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tests.sklearn.shared import NAMES, three_classes

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV, fold_into
from reprior.sklearn.batch import for_batch

X, Y = three_classes(900)
MODEL = LogisticRegression()


def fitted(y=Y, **options):
    return RebalancedClassifierCV(MODEL, cv=3, **options).fit(X, y)


OPTIONS = [
    {"tune": "per_class", "metric": "macro_f1"},
    {"tune": "per_class", "temperature": "fit"},
    {"metric": "log_loss"},
    {"metric": "log_loss", "temperature": "vector"},
    {"separate": True, "label_prior": [0.8, 0.14, 0.06]},
    {"selection": "shrunk", "n_bootstrap": 20},
    {"selection": "balanced_log_loss"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_are_those_of_the_calibrator(options):
    meta = fitted(**options)
    scores = meta.estimator_.predict_log_proba(X)
    np.testing.assert_array_equal(meta.predict(X), meta.calibrator_.predict(scores))
    np.testing.assert_allclose(meta.predict_proba(X), meta.calibrator_.predict_proba(scores))
    np.testing.assert_allclose(np.exp(meta.predict_log_proba(X)), meta.predict_proba(X))
    for name in ("tune", "selection", "temperature", "separate", "n_bootstrap"):
        assert getattr(meta.calibrator_, name) == getattr(meta, name)
    assert (meta.biases_ is None) == (meta.calibrator_.biases_ is None)
    assert (meta.uncertainty_ is None) == (not options.get("n_bootstrap"))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"temperature": "bcts"}, "`separate` must be True"),
        ({"metric": "log_loss", "tune": "per_class"}, "`tune` must be 'strength'"),
        ({"tune": "per_class", "n_bootstrap": 50}, "`n_bootstrap` must be 0"),
    ],
)
def test_wrong_options_cost_no_training(options, words):
    class Untrained(LogisticRegression):
        def fit(self, X, y):
            raise AssertionError("it was trained")

    with pytest.raises(rp.OptionError, match=words):
        RebalancedClassifierCV(Untrained(), **options).fit(X, Y)


def test_the_mix_of_a_batch_is_estimated_from_it():
    meta = fitted(metric="log_loss")
    batch = X[np.concatenate([np.flatnonzero(Y == 2), np.flatnonzero(Y == 0)[:20]])]
    scores = meta.estimator_.predict_log_proba(batch)
    prior = rp.estimate_target_prior(scores, source_prior=meta.source_prior_, kind="log_probs")
    same = meta.calibrator_.retarget(prior)
    found = meta.predict_proba(batch, target_prior="estimate")
    np.testing.assert_allclose(found, same.predict_proba(scores))
    np.testing.assert_array_equal(meta.predict(batch, target_prior="estimate"), found.argmax(1))
    log = meta.predict_log_proba(batch, target_prior="estimate")
    np.testing.assert_allclose(np.exp(log), found)
    assert prior[2] > 0.5 > meta.target_prior_[2]
    np.testing.assert_array_equal(meta.target_prior_, [1 / 3] * 3)  # the classifier stays


@pytest.mark.parametrize(
    "prior", [[0.5, 0.3, 0.2], dict(zip(NAMES, [0.5, 0.3, 0.2], strict=True)), "uniform"], ids=str
)
def test_the_mix_of_a_batch_can_be_stated(prior):
    meta = fitted(NAMES[Y])
    told = "uniform" if isinstance(prior, str) else [0.5, 0.3, 0.2]
    scores = meta.estimator_.predict_log_proba(X)
    np.testing.assert_array_equal(
        meta.predict(X, target_prior=prior), meta.calibrator_.retarget(told).predict(scores)
    )
    assert for_batch(meta.calibrator_, scores, None) is meta.calibrator_


def test_folding_asks_which_map():
    meta = fitted(separate=True)
    with pytest.raises(rp.OptionError, match="`map` must say which is meant"):
        fold_into(meta)
    np.testing.assert_array_equal(fold_into(meta, map="decision").predict(X), meta.predict(X))
    np.testing.assert_allclose(
        fold_into(meta, map="probability").predict_proba(X), meta.predict_proba(X)
    )
    biased = fitted(tune="per_class")
    np.testing.assert_array_equal(fold_into(biased).predict(X), biased.predict(X))
    with pytest.raises(rp.OptionError, match="one scale for all classes"):
        fold_into(fitted(metric="log_loss", temperature="vector"))
