"""RebalancedClassifierCV beyond one number, and the class mix of a batch."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from tests.sklearn.shared import NAMES, three_classes

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV, fold_into
from reprior.sklearn.rebalanced import for_batch

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
    honest = meta.calibrator_.predict_log_proba(scores)
    prior = rp.estimate_target_prior(honest, source_prior=meta.target_prior_, kind="log_probs")
    same = meta.calibrator_.retarget(prior)
    found = meta.predict_proba(batch, target_prior="estimate")
    np.testing.assert_allclose(found, same.predict_proba(scores))
    np.testing.assert_array_equal(meta.predict(batch, target_prior="estimate"), found.argmax(1))
    log = meta.predict_log_proba(batch, target_prior="estimate")
    np.testing.assert_allclose(np.exp(log), found)
    assert prior[2] > 0.5 > meta.target_prior_[2]
    np.testing.assert_array_equal(meta.target_prior_, [1 / 3] * 3)  # the classifier stays


class TooSure(ClassifierMixin, BaseEstimator):
    """Scores of three Gaussian classes that are 2.5 times too large; X is the scores it has."""

    classes_ = np.arange(3)

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict_log_proba(self, X):
        return log_softmax(2.5 * np.asarray(X), axis=1)


SEEN, MIX = np.array([0.7, 0.2, 0.1]), np.array([0.2, 0.3, 0.5])


def exact_scores(n, mix, seed):
    """Log-posteriors under ``SEEN`` of samples in the ratio of ``mix``, and their classes."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, size=n, p=mix)
    x = rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[labels]
    return 1.5 * x + np.log(SEEN), labels


@pytest.mark.filterwarnings("ignore:.*rules the class out")
@pytest.mark.parametrize(
    "options, target",
    [
        ({"metric": "log_loss"}, "uniform"),
        ({"metric": "log_loss", "temperature": "vector"}, "uniform"),
        ({"metric": "log_loss"}, [0.5, 0.5, 0.0]),
        ({"separate": True, "metric": "macro_f1"}, "uniform"),
        ({"separate": True, "tune": "per_class"}, [0.3, 0.3, 0.4]),
        ({"temperature": "fit"}, "uniform"),
        ({"temperature": 2.5}, "uniform"),
    ],
    ids=str,
)
def test_the_estimate_of_a_model_that_is_too_sure_is_right(options, target):
    known, labels = exact_scores(6000, SEEN, 0)
    batch, _ = exact_scores(6000, MIX, 1)
    meta = RebalancedClassifierCV(
        FrozenEstimator(TooSure()),
        source_prior=SEEN,
        target_prior=target,
        bounds=(0, 4),
        **options,
    ).fit(known, labels)
    scores = meta.estimator_.predict_log_proba(batch)
    found = for_batch(meta.calibrator_, scores, "estimate").target_prior_
    np.testing.assert_allclose(found, MIX, atol=0.035)
    raw = rp.estimate_target_prior(scores, source_prior=SEEN, kind="log_probs")
    assert np.abs(raw - MIX).max() > 2 * np.abs(found - MIX).max()


def test_an_estimate_that_trusts_the_model_says_so():
    meta = fitted()
    scores = meta.estimator_.predict_log_proba(X)
    prior = rp.estimate_target_prior(scores, source_prior=meta.source_prior_, kind="log_probs")
    want = meta.calibrator_.retarget(prior)
    for name in ("predict", "predict_proba", "predict_log_proba"):
        with pytest.warns(rp.RepriorWarning, match="Pass separate=True, metric='log_l") as told:
            found = getattr(meta, name)(X, target_prior="estimate")
        assert len(told) == 1
        assert told[0].filename == __file__
        np.testing.assert_allclose(found, getattr(want, name)(scores))


def test_what_the_calibrator_knows_is_shown():
    meta = fitted(separate=True, temperature="vector", n_bootstrap=20)
    names = "strength_ temperature_ scales_ probability_map_ best_score_ log_loss_ profile_"
    for name in (*names.split(), "uncertainty_", "source_prior_", "target_prior_"):
        assert getattr(meta, name) is getattr(meta.calibrator_, name)
    assert meta.probability_map_.scales.shape == (3,)
    assert meta.log_loss_[1] < meta.log_loss_[0]
    assert fitted(metric="log_loss", temperature="vector").scales_.shape == (3,)


def test_decisions_of_least_cost():
    meta = fitted(NAMES[Y], separate=True)
    costs = np.array([[0, 1, 4.0], [2, 0, 1], [9, 3, 0]])
    found = meta.predict(X, costs=costs)
    np.testing.assert_array_equal(found, NAMES[(meta.predict_proba(X) @ costs).argmin(axis=1)])
    assert (found != meta.predict(X)).any()
    asking = np.column_stack([costs, np.full(3, 0.2)])
    want = (meta.predict_proba(X, target_prior=[0.6, 0.2, 0.2]) @ asking).argmin(axis=1)
    np.testing.assert_array_equal(meta.predict(X, costs=asking, target_prior=[0.6, 0.2, 0.2]), want)


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


def test_an_estimate_of_few_samples_says_so_where_it_is_called():
    meta = fitted(metric="log_loss")
    for name in ("predict", "predict_proba"):
        with pytest.warns(rp.RepriorWarning, match="5 samples are too few to estimate") as caught:
            getattr(meta, name)(X[:5], target_prior="estimate")
        assert [w.filename for w in caught] == [__file__]


def test_a_misspelt_estimate_is_understood():
    meta = fitted(metric="log_loss")
    words = "must be one of 'estimate', 'uniform'. Got 'estimated'. Did you mean 'estimate'"
    with pytest.raises(rp.OptionError, match=words):
        meta.predict(X, target_prior="estimated")
