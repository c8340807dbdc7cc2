"""Scores of every class, from every kind of classifier, of folds that may lack a class."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import Bunch
from tests.sklearn.shared import NAMES, three_classes, two_classes

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV
from reprior.sklearn.cross_validation import class_columns, cross_validated, out_of_fold

X, y = three_classes(n=300)
names = NAMES[y]


@pytest.mark.parametrize("method", ["predict_log_proba", "predict_proba", "decision_function"])
def test_columns_of_a_model_that_lacks_a_class(method):
    some = names != "bee"
    model = LogisticRegression().fit(X[some], names[some])
    columns = class_columns(model, X, method=method, classes=NAMES)
    kind = {"p": "probs", "l": "log_probs", "d": "logits"}[method.removeprefix("predict_")[0]]
    posterior = rp.rebalance(columns, np.full(3, 1 / 3), kind=kind)
    np.testing.assert_allclose(posterior[:, [0, 2]], model.predict_proba(X), rtol=1e-9)
    assert (posterior[:, 1] == 0).all()


def test_one_decision_per_sample_becomes_two_columns():
    X, y = two_classes()
    model = LogisticRegression().fit(X, y)
    columns = class_columns(model, X, method="decision_function", classes=model.classes_)
    np.testing.assert_array_equal(columns[:, 0], 0)
    np.testing.assert_array_equal(columns[:, 1], model.decision_function(X))


def test_columns_in_the_order_asked_for():
    model = GaussianNB().fit(X, names)
    columns = class_columns(model, X, method="predict_proba", classes=NAMES[::-1])
    np.testing.assert_array_equal(columns, model.predict_proba(X)[:, ::-1])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: model,
        lambda model: make_pipeline(StandardScaler(), model),
        lambda model: FrozenEstimator(make_pipeline(StandardScaler(), model).fit(X, names)),
        lambda model: GridSearchCV(model, {"C": [1.0]}, cv=2),
    ],
    ids=["alone", "pipeline", "frozen", "search"],
)
def test_votes_of_pairs_of_classes_are_no_scores_of_classes(wrap):
    model = wrap(SVC(decision_function_shape="ovo"))
    with pytest.raises(rp.ScoresError, match="a score per pair of classes"):
        RebalancedClassifierCV(model, response_method="decision_function").fit(X, names)


def test_scores_of_another_shape():
    class Odd(GaussianNB):
        def predict_log_proba(self, X):
            return np.zeros((len(X), 2))

    with pytest.raises(rp.ScoresError, match=r"one score per class. Got shape \(60, 2\) for 3"):
        RebalancedClassifierCV(Odd()).fit(X, y)


def folds_without_a_class():
    cow = np.flatnonzero(y == 2)
    rest = np.flatnonzero(y != 2)
    return [(rest[:200], np.r_[rest[200:], cow]), (np.r_[rest[100:], cow], rest[:100])]


@pytest.mark.parametrize("method", ["predict_log_proba", "predict_proba", "decision_function"])
def test_a_fold_without_a_class_warns(method):
    classifier = RebalancedClassifierCV(
        LogisticRegression(), cv=folds_without_a_class(), response_method=method
    )
    with pytest.warns(rp.RepriorWarning, match="Fold 0 of 2 trains without class 'cow'") as caught:
        classifier.fit(X, names)
    assert caught[0].filename == __file__
    counts = classifier.profile_.counts(classifier.strength_)
    assert counts.true_positive[2] == 0  # all of class 2 are in the fold that cannot know it
    assert counts.support[2] == (y == 2).sum()
    np.testing.assert_array_equal(classifier.classes_, NAMES)
    assert (classifier.predict(X) == "cow").any()  # the model that stays knows it


def test_several_classes_missing_are_counted():
    four = np.where(np.arange(300) % 50 == 0, "dog", names)
    rare = np.isin(four, ["cow", "dog"])
    splits = [(np.flatnonzero(~rare), np.flatnonzero(rare))]
    with pytest.warns(rp.RepriorWarning, match="without class 'cow' and 1 more"):
        out_of_fold(
            GaussianNB(), X, four, splits=splits, classes=np.unique(four),
            method="predict_proba", fit_params={}, n_jobs=None,
        )  # fmt: skip


def test_groups_go_to_the_splitter():
    groups = np.repeat(np.arange(30), 10)
    classifier = RebalancedClassifierCV(GaussianNB(), cv=GroupKFold(3))
    assert classifier.fit(X, y, groups=groups).profile_.n_samples == 300
    with pytest.raises(ValueError, match="groups"):
        classifier.fit(X, y)


X_FEW, Y_FEW = three_classes(200)
ROUTED = Bunch(splitter=Bunch(split={}), estimator=Bunch(fit={}))


def trained(**options):
    meta = RebalancedClassifierCV(LogisticRegression(), random_state=0, **options)
    return cross_validated(
        meta, X_FEW, Y_FEW, routed=ROUTED, classes=np.arange(3), method="predict_proba"
    )


def test_every_sample_is_scored_by_a_model_that_did_not_see_it():
    model, tuning = trained(cv=4)
    assert sorted(tuning.index.tolist()) == list(range(200))
    assert tuning.scores.shape == (200, 3)
    assert model.model.classes_.tolist() == [0, 1, 2]


def test_a_single_split_may_stay_as_it_is():
    model, tuning = trained(cv=0.25, refit=False)
    assert tuning.scores.shape == (50, 3)
    np.testing.assert_allclose(model.model.predict_proba(X_FEW[tuning.index]), tuning.scores)


def test_several_folds_must_be_refitted():
    with pytest.raises(rp.OptionError, match="`refit` must be True where there are several folds"):
        trained(cv=3, refit=False)
