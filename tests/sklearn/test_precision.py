"""Scores that single precision spoils: the sentence says what helps here."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV


def many_constant_features():
    """Log-densities are large, the same large number for both classes, and rounded in float32."""
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.3).astype(int)
    X = np.zeros((300, 5000))
    X[:, 0] = rng.normal(size=300) + y
    return X, y


def test_naive_bayes_in_single_precision():
    X, y = many_constant_features()
    with pytest.raises(rp.ScoresError, match=r"of GaussianNB. Pass X in double") as told:
        RebalancedClassifierCV(GaussianNB()).fit(X.astype(np.float32), y)
    assert "kind='logits'" not in str(told.value)
    tuned = RebalancedClassifierCV(GaussianNB()).fit(X, y)
    assert tuned.predict_proba(X).shape == (300, 2)


class Unnormalised(LogisticRegression):
    def predict_proba(self, X):
        return 1.5 * super().predict_proba(X)

    def predict_log_proba(self, X):
        return np.log(self.predict_proba(X))


def test_probabilities_that_are_none():
    X, y = many_constant_features()
    with pytest.raises(rp.ScoresError, match=r"of Unnormalised. Repair its predict_log_proba"):
        RebalancedClassifierCV(Unnormalised(max_iter=5000)).fit(X[:, :2], y)
    tuned = RebalancedClassifierCV(LogisticRegression()).fit(X[:, :2], y)
    tuned.estimator_ = Unnormalised().fit(X[:, :2], y)
    with pytest.raises(rp.ScoresError, match=r"Repair its predict_log_proba, or pass another"):
        tuned.predict(X[:, :2])
