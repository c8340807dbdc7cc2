"""What can be asked of a calibrator together, and the sentence where it cannot."""

from __future__ import annotations

import numpy as np
import pytest
from tests.calibrator.shared import PRIOR, VALID, case, fit

import reprior as rp
from reprior.calibrator.encoding import read_terms
from reprior.calibrator.options import check_map, check_options, full_problem, seed_of
from reprior.tuning.problem import DEFAULT_SELECTION


@pytest.mark.parametrize("options", VALID.values(), ids=VALID)
def test_these_go_together(options):
    check_options(rp.PosteriorCalibrator(PRIOR, **options))


LOG_LOSS = {"metric": "log_loss"}
INVALID = [
    ({**LOG_LOSS, "subject_to": "accuracy >= 0.5"},
     "`subject_to` must be None with metric='log_loss'.*Tune a count metric.*temperature='fit'"),
    ({**LOG_LOSS, "tune": "per_class"}, "`tune` must be 'strength'.*Pass temperature='bcts'"),
    ({**LOG_LOSS, "selection": "one_se"}, "`selection` must be left out.*Got 'one_se'"),
    ({**LOG_LOSS, "separate": True}, "`separate` must be False.*Name the metric of the decisions"),
    ({**LOG_LOSS, "cv": 3}, "`cv` must be None.*Judge the calibrator on other data"),
    ({**LOG_LOSS, "n_bootstrap": 100}, "`n_bootstrap` must be 0.*Judge the calibrator"),
    ({"temperature": "bcts"}, "`separate` must be True with temperature='bcts' and a metric of "
     "decisions.*Pass separate=True, or metric='log_loss', or temperature='fit'"),
    ({"temperature": "vector", "tune": "per_class"}, "`separate` must be True with "
     "temperature='vector'"),
    ({"tune": "per_class", "n_bootstrap": 100}, "`n_bootstrap` must be 0 with tune='per_class'.*"
     "Pass cv=5"),
    ({"selection": "balanced_log_loss", "cv": 3}, "`selection` must look at profiles alone"),
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
def test_what_does_not_go_together_is_answered_in_words(options, words):
    calibrator = rp.PosteriorCalibrator(PRIOR, **options)
    with pytest.raises(rp.OptionError, match=words):
        calibrator.fit(*case())
    assert not hasattr(calibrator, "strength_")


def test_the_default_of_the_selection_is_said_in_one_place():
    assert rp.PosteriorCalibrator(PRIOR).selection == DEFAULT_SELECTION


def test_seeds():
    assert seed_of(None) == 0
    assert seed_of(np.int64(5)) == 5
    same = [seed_of(np.random.default_rng(3)) for _ in range(2)]
    assert same[0] == same[1]
    assert seed_of(np.random.RandomState(3)) == seed_of(np.random.RandomState(3))


def test_probabilities_are_fitted_without_being_told():
    for options in ({"metric": "log_loss"}, {"separate": True}):
        calibrator = rp.PosteriorCalibrator(PRIOR, **options)
        assert full_problem(calibrator, read_terms(calibrator, None)).temperature == "fit"
    calibrator = rp.PosteriorCalibrator(PRIOR)
    assert full_problem(calibrator, read_terms(calibrator, None)).temperature == 1.0


def test_which_map():
    assert check_map(None, separate=False, needed=True) == "probability"
    assert check_map(None, separate=True, needed=False) == "probability"
    assert check_map("decision", separate=True, needed=True) == "decision"
    with pytest.raises(rp.OptionError, match=r"`map` must say which is meant.*map='decision'"):
        check_map(None, separate=True, needed=True)
    with pytest.raises(rp.OptionError, match="Did you mean 'decision'"):
        check_map("decisions", separate=True, needed=True)


def test_an_infeasible_constraint_names_the_nearest_strength():
    with pytest.raises(rp.InfeasibleError, match="the nearest is") as caught:
        fit({"subject_to": "accuracy >= 0.99"})
    assert 0.0 <= caught.value.strength <= 2.0
    assert caught.value.shortfall > 0.0


@pytest.mark.parametrize("rule", ["recall[faill] >= 0.9", "recall >= 0.8"])
def test_a_wrong_constraint_is_refused_by_its_own_name(rule):
    with pytest.raises(rp.RepriorError, match=r"^`subject_to` must"):
        rp.PosteriorCalibrator([0.8, 0.2], subject_to=rule).fit(np.eye(2) * 3, [0, 1])
