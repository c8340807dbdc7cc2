"""Classifiers that give zero probabilities, where probabilities are fitted by log-loss."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.sklearn.shared import NAMES, ROUNDING, three_classes

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV

X, y = three_classes(400, flip_y=0.2)
names = NAMES[y]

TREE = DecisionTreeClassifier(max_depth=4, min_samples_leaf=3, random_state=0)

KNOWN = {
    "forest": (RandomForestClassifier(20, random_state=0), 0.5 / 20),
    "extra trees": (ExtraTreesClassifier(20, random_state=0), 0.5 / 20),
    "bagging": (BaggingClassifier(TREE, n_estimators=10, random_state=0), 0.5 / 10),
    "neighbours": (KNeighborsClassifier(7), 0.5 / 7),
    "pipeline": (make_pipeline(StandardScaler(), KNeighborsClassifier(7)), 0.5 / 7),
    "search": (GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [7]}, cv=2), 0.5 / 7),
    "frozen": (FrozenEstimator(KNeighborsClassifier(7).fit(X, names)), 0.5 / 7),
}

BY_LOG_LOSS = [{"metric": "log_loss"}, {"temperature": "fit"}, {"separate": True}]

quiet = pytest.mark.filterwarnings("ignore::reprior.RepriorWarning")


@quiet
@pytest.mark.parametrize("options", BY_LOG_LOSS, ids=str)
@pytest.mark.parametrize("name", KNOWN)
def test_zeros_are_raised_to_half_a_vote(name, options):
    model, floor = KNOWN[name]
    meta = RebalancedClassifierCV(model, cv=3, **options).fit(X, names)
    assert meta.floor_ == floor
    before, after = meta.log_loss_
    assert np.isfinite(before)
    assert after <= before + 1e-9
    posterior = meta.predict_proba(X)
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    assert (posterior > 0).all()


@quiet
def test_the_floor_by_hand():
    forest = RandomForestClassifier(20, random_state=0)
    raw = cross_val_predict(forest, X, y, cv=3, method="predict_proba")
    assert (raw == 0).any()
    raised = np.maximum(raw, 0.5 / 20)
    raised /= raised.sum(axis=1, keepdims=True)
    by_hand = rp.PosteriorCalibrator(rp.prior_from_labels(y), kind="probs", metric="log_loss")
    by_hand.fit(raised, y)
    for method in ("predict_proba", "predict_log_proba"):
        meta = RebalancedClassifierCV(forest, cv=3, metric="log_loss", response_method=method)
        meta.fit(X, y)
        assert meta.temperature_ == pytest.approx(by_hand.temperature_, rel=1e-6)
        assert meta.strength_ == pytest.approx(by_hand.strength_, rel=1e-6)


@quiet
def test_a_tree_knows_its_largest_leaf():
    meta = RebalancedClassifierCV(TREE, cv=3, temperature="fit").fit(X, names)
    leaves = [np.bincount(model.apply(part)).max() for model, part in _trees()]
    assert meta.floor_ == 0.5 / leaves[0]  # of the first fold's tree


def _trees():
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold

    for train, _ in StratifiedKFold(3).split(X, names):
        yield clone(TREE).fit(X[train], names[train]), X[train]


def test_decisions_need_no_floor():
    meta = RebalancedClassifierCV(RandomForestClassifier(20, random_state=0), cv=3).fit(X, names)
    assert meta.floor_ is None
    zero = meta.estimator_.predict_proba(X) == 0
    assert (meta.predict_proba(X)[zero] == 0).all()


@quiet
@pytest.mark.parametrize("floor", [0.001, 1e-6])
def test_a_floor_that_is_given_is_applied_everywhere(floor):
    model = KNeighborsClassifier(15, weights="distance")
    for options in ({}, {"temperature": "fit"}):
        meta = RebalancedClassifierCV(model, cv=3, floor=floor, **options).fit(X, names)
        assert meta.floor_ == floor
        assert (meta.predict_proba(X) > 0).all()


@pytest.mark.parametrize("floor", ["auto", None, 0])
@pytest.mark.parametrize("options", BY_LOG_LOSS, ids=str)
def test_where_it_is_unknown_the_error_says_what_to_pass(floor, options):
    model = KNeighborsClassifier(15, weights="distance")
    with pytest.raises(rp.ScoresError, match="own class possible") as caught:
        RebalancedClassifierCV(model, cv=3, floor=floor, **options).fit(X, names)
    assert str(caught.value).endswith("Pass the smallest probability that counts, such as "
                                      "floor=0.001.")  # fmt: skip
    assert "KNeighborsClassifier, which gives the class of" in str(caught.value)


@quiet
def test_models_without_zeros_stay_as_they_are():
    plain = RebalancedClassifierCV(LogisticRegression(), cv=3, temperature="fit").fit(X, y)
    raised = RebalancedClassifierCV(LogisticRegression(), cv=3, temperature="fit", floor=1e-12).fit(
        X, y
    )
    assert plain.floor_ is None
    np.testing.assert_allclose(raised.predict_proba(X), plain.predict_proba(X), rtol=ROUNDING)
    margins = RebalancedClassifierCV(
        LogisticRegression(), cv=3, response_method="decision_function", floor=0.1
    )
    assert margins.fit(X, y).floor_ is None  # log-odds have no zeros


@quiet
def test_the_mean_of_forests_has_their_floor():
    forest = RandomForestClassifier(10, random_state=0)
    meta = RebalancedClassifierCV(forest, cv=3, ensemble=True, temperature="fit").fit(X, names)
    assert meta.floor_ == 0.05
    assert (meta.predict_proba(X) > 0).all()
