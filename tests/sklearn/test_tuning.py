"""The calibrator behind the classifier, and its rehearsal."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from tests.sklearn.shared import NAMES

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV
from reprior.sklearn.tuning import make_calibrator, rehearse

OWN = {"estimator", "response_method", "cv", "refit", "n_jobs"}
"""Parameters of the classifier that are not the calibrator's, or mean something else there."""

SETTLED = {"kind", "class_axis", "classes", "cv", "ignore_index"}
"""Parameters of the calibrator that follow from the classifier, or have no meaning for one."""


def parameters(cls):
    found = dict(inspect.signature(cls.__init__).parameters)
    found.pop("self")
    return found


def test_every_option_of_the_calibrator_is_one_of_the_classifier():
    mine, its = parameters(RebalancedClassifierCV), parameters(rp.PosteriorCalibrator)
    assert set(mine) - OWN == set(its) - SETTLED
    shared = set(mine) - OWN - {"source_prior"}
    assert {name: mine[name].default for name in shared} == {
        name: its[name].default for name in shared
    }


def test_options_are_handed_on():
    options = RebalancedClassifierCV(
        GaussianNB(), metric="accuracy", bounds=(0, 1), temperature="fit", random_state=3
    )
    calibrator = make_calibrator(options, [0.2, 0.3, 0.5], NAMES.astype(object), "probs")
    assert (calibrator.metric, calibrator.bounds, calibrator.kind) == ("accuracy", (0, 1), "probs")
    assert calibrator.temperature == "fit"
    assert calibrator.random_state == 3
    assert calibrator.classes.tolist() == NAMES.tolist()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": "fit"},
        {"temperature": 2.0},
        {"subject_to": "accuracy <= 0.0"},
        {"metric": "recall[bee]"},
        {"source_prior": [0.2, 0.3, 0.5], "target_prior": [0.2, 0.3, 0.5]},
    ],
)
def test_a_rehearsal_is_silent(options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rehearse(RebalancedClassifierCV(GaussianNB(), **options), NAMES)


def test_a_rehearsal_of_thousands_of_classes_is_cheap():
    rehearse(RebalancedClassifierCV(GaussianNB()), np.arange(2000))
