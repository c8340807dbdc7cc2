"""Training fold by fold: what is refused before, and what stays."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Bunch
from tests.sklearn.shared import three_classes

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV
from reprior.sklearn.training import cross_validated

X, Y = three_classes(200)
ROUTED = Bunch(splitter=Bunch(split={}), estimator=Bunch(fit={}))


def trained(**options):
    meta = RebalancedClassifierCV(LogisticRegression(), random_state=0, **options)
    return cross_validated(meta, X, Y, routed=ROUTED, classes=np.arange(3), method="predict_proba")


def test_every_sample_is_scored_by_a_model_that_did_not_see_it():
    model, tuning = trained(cv=4)
    assert sorted(tuning.index.tolist()) == list(range(200))
    assert tuning.scores.shape == (200, 3)
    assert model.model.classes_.tolist() == [0, 1, 2]


def test_a_single_split_may_stay_as_it_is():
    model, tuning = trained(cv=0.25, refit=False)
    assert tuning.scores.shape == (50, 3)
    np.testing.assert_allclose(model.model.predict_proba(X[tuning.index]), tuning.scores)


def test_several_folds_must_be_refitted():
    with pytest.raises(rp.OptionError, match="`refit` must be True where there are several folds"):
        trained(cv=3, refit=False)
