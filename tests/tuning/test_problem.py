"""What is looked for, and what is said about it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tuning.shared import random_case

import reprior as rp
from reprior.encoding import read_terms, state_problem


def problem_of(case, **options):
    calibrator = rp.PosteriorCalibrator(case.source, **options)
    return state_problem(calibrator, read_terms(calibrator, calibrator.classes))


def asked(profiles):
    """Return a source of profiles within any bounds, and the bounds it is asked for."""
    seen = []

    def profile_of(bounds):
        seen.append(bounds)
        return profiles(bounds)

    return profile_of, seen


def test_the_best_of_the_profile(rng):
    case = random_case(rng)
    problem = problem_of(case, bounds=(0.0, 8.0))
    profile_of, seen = asked(lambda bounds: case.profile(bounds=bounds))
    best, profile = problem.search(profile_of)
    assert best == profile.best("balanced_accuracy")
    assert problem.search(profile_of, widen=False)[0] == best
    assert seen == [(0.0, 8.0)] * 2


def test_without_widening_the_bounds_stay():
    scores = np.array([[9.0, 0.0], [0.1, 0.0], [20.0, 0.0]])
    calibrator = rp.PosteriorCalibrator([0.8, 0.2], bounds=(0.0, 1.0))
    problem = state_problem(calibrator, read_terms(calibrator, None))
    profile = rp.StrengthProfile.from_scores(
        scores, [1, 1, 0], source_prior=[0.8, 0.2], bounds=(0.0, 1.0)
    )

    def fit():
        return problem.search(lambda _: profile, widen=False)

    with pytest.warns(rp.RepriorWarning, match="upper bound 1, and the scores cannot") as caught:
        best, _ = fit()
    assert caught[0].filename == __file__
    assert best.at_bound


@pytest.mark.parametrize("widen", [True, False])
def test_equal_priors_leave_nothing_to_search(rng, widen):
    case = random_case(rng)
    problem = problem_of(case, target_prior=case.source)
    profile_of, seen = asked(lambda bounds: case.profile(target_prior=case.source, bounds=bounds))

    def fit():
        return problem.search(profile_of, widen=widen)

    with pytest.warns(rp.RepriorWarning, match="The target prior is the source prior") as caught:
        best, _ = fit()
    assert caught[0].filename == __file__
    assert (best.strength, best.interval, seen) == (1.0, (0.0, 2.0), [(0.0, 2.0)])


@pytest.mark.parametrize("n_classes, words", [(3, "1 of 3 .*: 2"), (9, "7 of 9 .*6, …")])
def test_absent_classes_are_named(rng, n_classes, words):
    case = random_case(rng, 30, n_classes)
    kept = case.rows(case.labels < 2)
    problem = problem_of(kept)

    def fit():
        problem.warn_of_absent(kept.profile())

    with pytest.warns(rp.RepriorWarning, match=words) as caught:
        fit()
    assert caught[0].filename == __file__


def test_nothing_is_said_where_all_are_there(rng):
    case = random_case(rng)
    problem_of(case).warn_of_absent(case.profile())
    assert case.profile().baseline.labelled.all()
