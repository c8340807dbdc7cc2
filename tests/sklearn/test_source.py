"""Which prior is the source prior."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.sklearn.shared import NAMES, three_classes

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV
from reprior.sklearn.source import check_source_prior, label_prior

X, y = three_classes(n=300)
names = NAMES[y]


def test_label_prior():
    np.testing.assert_allclose(label_prior(names, NAMES, None), rp.prior_from_labels(y))
    weight = np.linspace(0, 1, y.size)
    np.testing.assert_allclose(
        label_prior(names, NAMES, weight), rp.prior_from_labels(y, sample_weight=weight)
    )


@pytest.mark.parametrize(
    "weight, words",
    [(None, "must have samples of every class"), (np.ones(2), "must have samples of positive")],
)
def test_label_prior_of_a_class_without_samples(weight, words):
    with pytest.raises(rp.PriorError, match=f"{words}.*none of class 'cow'"):
        label_prior(np.array(["ant", "bee"]), NAMES, weight)


def test_a_class_of_weight_0_is_refused():
    with pytest.raises(rp.PriorError, match="none of class 'cow'"):
        RebalancedClassifierCV(GaussianNB()).fit(X, names, sample_weight=(y != 2).astype(float))


@pytest.mark.parametrize("option", ["labels", "effective", [9, 9, 9], dict.fromkeys("abc", 0.5)])
def test_what_is_left_to_the_calibrator(option):
    check_source_prior(option, NAMES)


@pytest.mark.parametrize(
    "option, words",
    [
        (0.5, r"Got 0\.5\. Pass an array of shape \(3,\)"),
        (None, r"Got None\. Pass an array"),
        (np.full((3, 1), 1 / 3), r"Pass an array of shape \(3,\)"),
        ({"ant": 1.0}, "Got 1 values for 3 classes"),
        ([0.5, 0.5], "Got 2 values for 3 classes"),
    ],
    ids=["number", "none", "2d", "mapping", "list"],
)
def test_what_is_no_prior_over_the_classes(option, words):
    with pytest.raises(rp.PriorError, match=words):
        RebalancedClassifierCV(GaussianNB(), source_prior=option).fit(X, names)


FROZEN = "but the frozen estimator was trained on others"


@pytest.mark.parametrize("source_prior", ["labels", "effective"])
@pytest.mark.parametrize("inside_a_pipeline", [False, True])
def test_a_frozen_model_was_trained_on_other_labels(source_prior, inside_a_pipeline):
    model = FrozenEstimator(GaussianNB().fit(X, names))
    if inside_a_pipeline:
        model = make_pipeline(StandardScaler(with_std=False), model)
    with pytest.warns(rp.RepriorWarning, match=FROZEN) as caught:
        RebalancedClassifierCV(model, source_prior=source_prior).fit(X, names)
    assert caught[0].filename == __file__


def test_no_warning_where_the_labels_have_no_say():
    balanced = FrozenEstimator(LogisticRegression(class_weight="balanced").fit(X, names))
    with pytest.warns(rp.RepriorWarning) as caught:
        RebalancedClassifierCV(balanced, source_prior="effective").fit(X, names)
    assert [str(w.message)[:16] for w in caught] == ["The target prior"]
    given = RebalancedClassifierCV(balanced, source_prior=[0.3, 0.3, 0.4])
    given.fit(X, names)  # no warning at all
