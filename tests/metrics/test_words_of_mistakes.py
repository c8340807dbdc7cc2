"""One sentence, with a remedy that works, for likely mistakes about metrics and classes."""

from __future__ import annotations

import numpy as np
import pytest

import reprior as rp

PRIOR = [0.75, 0.2, 0.05]
COST = rp.Cost([[0, 1, 1], [3, 0, 1], [9, 2, 0]])


@pytest.fixture
def problem(rng):
    labels = np.repeat([0, 1, 2], [300, 80, 20])
    return rng.normal(size=(400, 3)) + 1.5 * np.eye(3)[labels] + np.log(PRIOR), labels


@pytest.mark.parametrize(
    "options, words",
    [
        ({"metric": [[0, 1, 1], [1, 0, 1], [1, 1, 0]]}, r"pass rp\.Cost\(matrix\)"),
        ({"metric": np.eye(3)}, r"pass rp\.Cost\(matrix\)"),
        ({"metric": "quadratic_kappa"}, r"Did you mean 'cohen_kappa\(quadratic\)'"),
        ({"metric": "linear_weighted_kappa"}, r"Did you mean 'cohen_kappa\(linear\)'"),
        ({"classes": ["a", "b", "c"]}, r"pass np\.asarray\(classes\)\[labels\]"),
    ],
)
def test_the_remedy_names_what_to_pass(problem, options, words):
    with pytest.raises(rp.RepriorError, match=words):
        rp.PosteriorCalibrator(PRIOR, **options).fit(*problem)


def test_an_unknown_group_is_not_told_to_make_groups(problem):
    calibrator = rp.PosteriorCalibrator(PRIOR, metric="recall[fwe]", class_groups={"few": [2]})
    with pytest.raises(rp.RepriorError, match="or a group, one of 'few'") as caught:
        calibrator.fit(*problem)
    assert "For a mean over a group" not in str(caught.value)


def test_ragged_costs_and_columns_that_are_no_names(problem):
    with pytest.raises(rp.OptionError, match="`matrix` must have rows of one length"):
        rp.Cost([[0, 1], [1]])
    with pytest.raises(rp.OptionError, match=r"`columns` must be the names of columns\. Got 5"):
        rp.PosteriorCalibrator(PRIOR).fit(*problem).to_sql(5)


def test_the_summary_suggests_only_constraints_that_can_be_passed(problem):
    rule = (COST, "<= 5")
    tuned = rp.PosteriorCalibrator(PRIOR, subject_to=rule)
    text = tuned.fit(*problem).summary()
    assert "in subject_to as well" in text
    assert "['cost <= 5'" not in text
