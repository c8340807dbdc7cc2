"""Every warning points at the user's line, however deep it arises and whatever calls us."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

import reprior as rp
from reprior.sklearn import RebalancedClassifierCV

PRIOR = np.array([0.6, 0.3, 0.1])
RNG = np.random.default_rng(0)
LABELS = RNG.choice(3, 300, p=PRIOR)
SCORES = RNG.normal(size=(300, 3)) + 2 * np.eye(3)[LABELS] + np.log(PRIOR)
PROBS = np.exp(SCORES) / np.exp(SCORES).sum(axis=1, keepdims=True)
NAMES = np.array(["ant", "bee", "cow"])
FEW = LABELS < 2


def fit(prior=PRIOR, **options):
    return rp.PosteriorCalibrator(prior, **options).fit


def meta():
    return RebalancedClassifierCV(LogisticRegression(), cv=2, bounds=(0.0, 0.5))


def fusion():
    return rp.ModalityFusion(PRIOR, flatten=False).fit


# One line each: a warning must point at the line of its function.
CASES = {
    "sums to 1": lambda: rp.rebalance(PROBS, PRIOR),
    "declared as kind='logits'": lambda: fit()(PROBS, LABELS),
    "no tuning labels": lambda: fit()(SCORES[FEW], LABELS[FEW]),
    "sorted order": lambda: fit()(SCORES, NAMES[LABELS]),
    "worse than chance": lambda: fit(bounds=(-1.0, 0.0))(-SCORES, LABELS),
    "searching up to": lambda: fit(bounds=(0.0, 0.1))(SCORES, LABELS),
    "no strength changes a decision": lambda: fit(target_prior=PRIOR)(SCORES, LABELS),
    "rules the class out": lambda: fit(target_prior=[0.5, 0.5, 0.0])(SCORES, LABELS),
    "(no tuning|have no) labels": lambda: rp.engines.fit(
        calibrator(), [(SCORES[FEW], LABELS[FEW])]
    ),
    "tuning labels": lambda: fusion()({"a": SCORES[FEW], "b": SCORES[FEW]}, LABELS[FEW]),
    "the upper bound 0.5": lambda: meta().fit(SCORES, LABELS),
    "The best strength": lambda: cross_val_score(meta(), SCORES, LABELS, cv=2, error_score="raise"),
}


def calibrator():
    return rp.PosteriorCalibrator(PRIOR)


@pytest.mark.parametrize("sentence", CASES)
def test_a_warning_points_at_the_line_that_was_typed(sentence):
    typed = CASES[sentence]
    with pytest.warns(rp.RepriorWarning, match=sentence) as caught:
        typed()
    own = [each for each in caught if issubclass(each.category, rp.RepriorWarning)]
    assert {(each.filename, each.lineno) for each in own} == {
        (__file__, typed.__code__.co_firstlineno)
    }


def test_a_warning_is_shown_once_per_line_as_any_other():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            rp.rebalance(PROBS, PRIOR)
    assert len(caught) == 1


def test_a_filter_by_module_applies_to_the_users_module():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=rp.RepriorWarning, module=__name__)
        rp.rebalance(PROBS, PRIOR)


@pytest.mark.parametrize("metric", ["balanced_accuracy", "log_loss"])
def test_a_search_beyond_the_bounds_has_a_category_of_its_own(metric):
    with pytest.warns(rp.exceptions.WidenedBoundsWarning) as caught:
        fit(metric=metric, bounds=(0.0, 0.1))(SCORES, LABELS)
    assert "lay at the upper bound 0.1: searching up to 0.2." in str(caught[0].message)
