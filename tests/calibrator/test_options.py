"""The options of a calibrator: which exclude each other, and the sentence that says so."""

from __future__ import annotations

import numpy as np
import pytest
from tests.calibrator.shared import PRIOR, case, fit

import reprior as rp

LOG_LOSS = {"metric": "log_loss"}
INVALID = [
    ({**LOG_LOSS, "subject_to": "accuracy >= 0.5"},
     "`subject_to` must be None with metric='log_loss'.*Tune a count metric.*temperature='fit'"),
    ({**LOG_LOSS, "tune": "per_class"}, "`tune` must be 'strength'.*Pass temperature='bcts'"),
    ({**LOG_LOSS, "selection": "one_se"}, "`selection` must be left out.*Got 'one_se'"),
    ({**LOG_LOSS, "separate": True}, "`separate` must be False.*Pass the metric of the decisions"),
    ({**LOG_LOSS, "cv": 3}, "`cv` must be None.*Judge the calibrator on other data"),
    ({**LOG_LOSS, "n_bootstrap": 100}, "`n_bootstrap` must be 0.*Judge the calibrator"),
    ({"temperature": "bcts"}, "`separate` must be True with temperature='bcts' and a metric of "
     "decisions.*Pass separate=True, or metric='log_loss', or temperature='fit'"),
    ({"temperature": "vector", "tune": "per_class"}, "`separate` must be True with "
     "temperature='vector'"),
    ({"tune": "per_class", "n_bootstrap": 100}, "`n_bootstrap` must be 0 with tune='per_class'.*"
     "Pass cv=5"),
    ({"selection": "balanced_log_loss", "cv": 3}, "`selection` must be a rule that needs profiles "
     "only where `cv` is given"),
    ({"n_bootstrap": 5}, "`n_bootstrap` must be 0 or a whole number of at least 20. Got 5"),
    ({"n_bootstrap": True}, "`n_bootstrap` must be 0 or"),
    ({"n_bootstrap": 100.0}, "`n_bootstrap` must be 0 or"),
    ({"separate": 1}, "`separate` must be True or False. Got 1"),
    ({"cv": 1}, "`cv` must be at least 2 folds. Got 1"),
    ({"cv": "kfold"}, "`cv` must be None, a number of folds.*Got 'kfold'"),
    ({"cv": True}, "`cv` must be None, a number"),
    ({"cv": 2.5}, "`cv` must be None, a number"),
    ({"temperature": "platt"}, "`temperature` must be a finite number above 0. Got 'platt'.*"
     "'fit', 'bcts', 'vector' or None"),
    ({"label_prior": [0.25] * 4}, "`label_prior` must be left out where nothing is fitted by "
     "log-loss.*pass temperature='fit'"),
    ({"label_prior": [0.25] * 4, "temperature": 2.0}, "`label_prior` must be left out"),
    ({"tune": "perclass"}, "Did you mean 'per_class'"),
    ({"selection": "one-se"}, "Did you mean 'one_se'"),
    ({"metric": "nll"}, "metric of probabilities"),
    ({"random_state": -1}, "`random_state` must be None, a whole number of at least 0"),
    ({"random_state": "a"}, "`random_state` must be None"),
    ({"random_state": True}, "`random_state` must be None"),
]  # fmt: skip


@pytest.mark.parametrize("options, words", INVALID)
def test_options_that_exclude_each_other_are_refused(options, words):
    calibrator = rp.PosteriorCalibrator(PRIOR, **options)
    with pytest.raises(rp.OptionError, match=words):
        calibrator.fit(*case())
    assert not hasattr(calibrator, "strength_")


def test_seeds():
    def strengths(random_state):
        return fit({"cv": 3, "random_state": random_state}).cross_validation_.strengths

    assert strengths(None) == strengths(0)
    assert strengths(5) == strengths(np.int64(5))
    for generator in (np.random.default_rng, np.random.RandomState):
        assert strengths(generator(3)) == strengths(generator(3))
        assert strengths(generator(3)) != strengths(generator(4))


@pytest.mark.parametrize("options", [{"metric": "log_loss"}, {"separate": True}], ids=str)
def test_the_temperature_of_probabilities_is_fitted_by_default(options):
    default, asked = fit(options), fit({**options, "temperature": "fit"})
    scores = case()[0]
    np.testing.assert_array_equal(default.predict_proba(scores), asked.predict_proba(scores))
    assert fit({}).temperature_ == 1.0


def test_a_map_that_does_not_exist():
    with pytest.raises(rp.OptionError, match="Did you mean 'decision'"):
        fit({"separate": True}).as_affine("decisions")


def test_an_infeasible_constraint_names_the_nearest_strength():
    with pytest.raises(rp.InfeasibleError, match="the nearest is") as caught:
        fit({"subject_to": "accuracy >= 0.99"})
    assert 0.0 <= caught.value.strength <= 2.0
    assert caught.value.shortfall > 0.0


@pytest.mark.parametrize("rule", ["recall[faill] >= 0.9", "recall >= 0.8"])
def test_a_wrong_constraint_is_refused_by_its_own_name(rule):
    with pytest.raises(rp.RepriorError, match=r"^`subject_to` must"):
        rp.PosteriorCalibrator([0.8, 0.2], subject_to=rule).fit(np.eye(2) * 3, [0, 1])
