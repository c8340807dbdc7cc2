"""fold_into: a linear model that needs no correction any more."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from tests.sklearn.shared import NAMES, three_classes, two_classes

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV, fold_into

EXACT = 1e-9
"""The same formula in double precision, summed in another order."""

PROBABILISTIC = [
    LogisticRegression(),
    LogisticRegression(fit_intercept=False),
    LinearDiscriminantAnalysis(),
    LinearDiscriminantAnalysis(solver="lsqr"),
    make_pipeline(StandardScaler(), LogisticRegression(C=0.3)),
    make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), LogisticRegression())),
]


def tuned(model, scores, y, kind, **options):
    prior = rp.prior_from_labels(np.unique(y, return_inverse=True)[1])
    classes = model.classes_ if y.dtype.kind == "U" else None
    cal = rp.PosteriorCalibrator(prior, kind=kind, classes=classes, bounds=(0, 8), **options)
    return cal.fit(scores, y)


@pytest.mark.parametrize("temperature", [None, 1.7])
@pytest.mark.parametrize("n_classes", [3, 2])
@pytest.mark.parametrize("model", PROBABILISTIC, ids=lambda model: type(model).__name__)
def test_probabilities_and_labels(model, n_classes, temperature):
    X, y = three_classes() if n_classes == 3 else two_classes()
    y = NAMES[y]
    model.fit(X, y)
    cal = tuned(model, model.predict_proba(X), y, "probs", temperature=temperature)
    before = model.predict_proba(X)
    folded = fold_into(model, cal)
    assert type(folded) is type(model)
    wanted = cal.predict_proba(before)
    assert np.abs(folded.predict_proba(X) - wanted).max() < EXACT
    assert (folded.predict(X) == cal.predict(before)).all()
    assert np.array_equal(model.predict_proba(X), before)
    assert (folded.predict(X) != model.predict(X)).any()


@pytest.mark.parametrize("n_classes", [3, 2])
@pytest.mark.parametrize(
    "model",
    [LinearSVC(), LinearSVC(fit_intercept=False), RidgeClassifier(), SGDClassifier(random_state=0)],
    ids=lambda model: type(model).__name__,
)
def test_decision_functions(model, n_classes):
    X, y = three_classes() if n_classes == 3 else two_classes()
    model.fit(X, y)
    z = model.decision_function(X)
    cal = tuned(model, z, y, "logits", temperature=0.8)
    folded = fold_into(model, cal)
    assert (folded.predict(X) == cal.predict(z)).all()
    assert folded.decision_function(X).shape == z.shape


def test_sgd_with_log_loss_for_two_classes():
    X, y = two_classes()
    model = SGDClassifier(loss="log_loss", alpha=0.05, random_state=0).fit(X, y)
    cal = tuned(model, model.predict_proba(X), y, "probs")
    folded = fold_into(model, cal)
    assert np.abs(folded.predict_proba(X) - cal.predict_proba(model.predict_proba(X))).max() < EXACT


@pytest.mark.parametrize("n_classes", [3, 2])
@pytest.mark.parametrize("wrapped", [LogisticRegression(), PROBABILISTIC[4]])
def test_the_meta_estimator(n_classes, wrapped):
    X, y = three_classes() if n_classes == 3 else two_classes()
    meta = RebalancedClassifierCV(wrapped, temperature=1.3).fit(X, NAMES[y])
    folded = fold_into(meta)
    assert type(folded) is type(wrapped)
    assert np.abs(folded.predict_proba(X) - meta.predict_proba(X)).max() < EXACT
    assert (folded.predict(X) == meta.predict(X)).all()


def test_a_frozen_model():
    X, y = three_classes()
    inner = LogisticRegression().fit(X, y)
    prior = rp.prior_from_labels(y)
    meta = RebalancedClassifierCV(FrozenEstimator(inner), source_prior=prior).fit(X, y)
    assert (fold_into(meta).predict(X) == meta.predict(X)).all()


def test_a_class_of_target_prior_0():
    X, y = three_classes()
    model = LogisticRegression().fit(X, y)
    cal = tuned(model, model.predict_proba(X), y, "probs").retarget([0.5, 0.5, 0.0])
    folded = fold_into(model, cal)
    assert (folded.predict_proba(X)[:, 2] == 0).all()


@pytest.mark.parametrize(
    "model, words",
    [
        (RandomForestClassifier(3), r"must be a linear model.*Got RandomForestClassifier"),
        (SGDClassifier(loss="log_loss", random_state=0), r"one-vs-rest models"),
    ],
)
def test_other_models_are_refused(model, words):
    X, y = three_classes()
    model.fit(X, y)
    cal = tuned(LogisticRegression(), LogisticRegression().fit(X, y).predict_proba(X), y, "probs")
    with pytest.raises(rp.OptionError, match=words):
        fold_into(model, cal)


def test_a_refitted_model_is_plain_again():
    X, y = three_classes()
    model = LogisticRegression().fit(X, y)
    cal = tuned(model, model.predict_proba(X), y, "probs")
    again = fold_into(model, cal).fit(X, y)
    assert np.array_equal(again.intercept_, model.intercept_)
    assert np.array_equal(fold_into(again, cal).intercept_, fold_into(model, cal).intercept_)


def test_words():
    X, y = three_classes()
    model = LogisticRegression().fit(X, y)
    cal = tuned(model, model.predict_proba(X), y, "probs")
    with pytest.raises(rp.OptionError, match=r"must be a PosteriorCalibrator. Got NoneType"):
        fold_into(model)
    with pytest.raises(rp.OptionError, match="must not hold a calibrator yet"):
        fold_into(fold_into(model, cal), cal)
    with pytest.raises(rp.OptionError, match=r"without probabilities, LinearSVC.*kind='logits'"):
        fold_into(LinearSVC().fit(X, y), cal)
    two = rp.PosteriorCalibrator([0.9, 0.1]).fit(3 * np.eye(2), [0, 1])
    with pytest.raises(rp.OptionError, match=r"classes of the estimator, \[0, 1, 2\]"):
        fold_into(model, two)
