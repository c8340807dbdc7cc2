"""What a tuning problem searches, and the warnings it issues."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tuning.shared import random_case

import reprior as rp
from reprior.calibrator.encoding import read_terms, state_problem
from reprior.calibrator.options import full_problem
from reprior.metrics import find_metric
from reprior.profile import Constraint
from reprior.tuning import best_widened, best_within


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


PRIOR = [0.8, 0.2]
ACCURACY = find_metric("accuracy", n_classes=2)


def profiles_of(margins, labels):
    """Profiles of two classes whose margin at strength λ is ``margin − λ·log 4``."""
    scores = np.stack([np.asarray(margins, float), np.zeros(len(margins))], axis=1)
    seen = []

    def profile_of(bounds):
        seen.append(bounds)
        return rp.StrengthProfile.from_scores(scores, labels, source_prior=PRIOR, bounds=bounds)

    return profile_of, seen


def test_a_best_inside_the_bounds_needs_one_profile():
    profile_of, seen = profiles_of([1.0, 4.0], [1, 0])
    best, profile = best_widened(profile_of, (0.0, 2.0), ACCURACY, [])
    assert seen == [(0.0, 2.0)]
    assert best == profile.best("accuracy")
    assert best.value == 1.0


def test_the_bound_is_doubled_until_the_best_lies_inside():
    profile_of, seen = profiles_of([0.5, 4.0, 7.0, 5.0], [1, 1, 0, 1])
    with pytest.warns(rp.RepriorWarning) as caught:
        best, profile = best_widened(profile_of, (0.0, 1.0), ACCURACY, [])
    assert seen == [(0.0, 1.0), (0.0, 2.0), (0.0, 4.0)]
    assert profile.bounds == (0.0, 4.0)
    assert best.value == 1.0
    assert [str(w.message) for w in caught] == [
        "The best strength lay at the upper bound 1: searching up to 2.",
        "The best strength lay at the upper bound 2: searching up to 4.",
    ]
    assert {w.filename for w in caught} == {__file__}


def test_a_best_at_the_bound_alone_is_followed_be_it_perfect():
    # Two switch to their class exactly at 2, and stay there until 36.
    profile_of, _ = profiles_of([2 * np.log(4)] * 2 + [50.0], [1, 1, 0])
    assert profile_of((0.0, 2.0)).best("accuracy").interval == (2.0, 2.0)
    with pytest.warns(rp.RepriorWarning, match="at the upper bound 2"):
        best, _ = best_widened(profile_of, (0.0, 2.0), ACCURACY, [])
    assert best.interval == (2.0, 4.0)
    assert best.value == 1.0


def test_a_best_near_the_bound_is_followed_too():
    # Four are right from 1.8 to 1.95, and five from 2.7 to 3: noise just below the bound.
    margins = np.log(4.0) * np.array([1.8, 2.6, 2.7, 1.95, 3.0])
    profile_of, seen = profiles_of([*margins, 9.0], [1, 1, 1, 0, 0, 0])
    with pytest.warns(rp.RepriorWarning) as caught:
        best, profile = best_widened(profile_of, (0.0, 2.0), ACCURACY, [])
    assert seen == [(0.0, 2.0), (0.0, 4.0)]
    assert best == profile.best("accuracy")
    assert best.strength > 2.6
    assert [str(w.message) for w in caught] == [
        "The best strength lay near the upper bound 2: searching up to 4."
    ]


def test_where_there_is_nothing_better_further_up_the_bounds_stay_without_a_word():
    margins = np.log(4.0) * np.array([1.8, 1.8, 1.9, 7.0, 0.5])
    profile_of, seen = profiles_of(margins, [1, 1, 0, 0, 0])
    best, profile = best_widened(profile_of, (0.0, 2.0), ACCURACY, [])
    assert best == profile.best("accuracy")
    assert (seen, profile.bounds) == ([(0.0, 2.0), (0.0, 4.0)], (0.0, 2.0))
    with pytest.warns(rp.RepriorWarning, match="lies near the upper bound 2, and"):
        best_within(profile_of((1.0, 2.0)), ACCURACY, [])


@pytest.mark.parametrize("seed", range(5))
def test_models_that_are_three_times_too_sure(seed):
    rng, prior = np.random.default_rng(seed), np.array([0.6, 0.2, 0.1, 0.07, 0.03])
    labels = rng.choice(5, 3000, p=prior)
    scores = 3 * (1.5 * np.eye(5)[labels] + rng.normal(size=(3000, 5)) + np.log(prior))
    with pytest.warns(rp.RepriorWarning, match="searching up to 4"):
        found = rp.PosteriorCalibrator(prior).fit(scores, labels)
    wide = rp.PosteriorCalibrator(prior, bounds=(0.0, 8.0)).fit(scores, labels)
    assert found.best_score_ == wide.best_score_


def test_it_ends_at_8_and_asks_about_the_prior():
    profile_of, seen = profiles_of([0.5, 9.0, 50.0, 60.0], [1, 1, 0, 1])
    with pytest.warns(rp.RepriorWarning) as caught:
        best, _ = best_widened(profile_of, (0.0, 3.0), ACCURACY, [])
    assert seen == [(0.0, 3.0), (0.0, 6.0), (0.0, 8.0)]
    assert "`source_prior` is not what the model was trained on" in str(caught[-1].message)
    assert best.interval[1] == 8.0


def test_a_best_just_before_8_is_taken_as_it_is():
    margins = np.log(4.0) * np.array([7.0, 7.5, 1.0])
    profile_of, seen = profiles_of(margins, [1, 0, 0])
    best, _ = best_widened(profile_of, (0.0, 8.0), ACCURACY, [])
    assert (best.interval[0], seen) == (0.0, [(0.0, 8.0)])
    profile_of, seen = profiles_of([*margins, margins[0]], [1, 0, 0, 1])
    best, _ = best_widened(profile_of, (0.0, 8.0), ACCURACY, [])
    assert best.interval == pytest.approx((7.0, 7.5))
    assert seen == [(0.0, 8.0)]


def test_where_nothing_changes_the_bounds_stay_as_given():
    profile_of, _ = profiles_of([50.0, 50.0], [0, 1])
    with pytest.warns(rp.RepriorWarning, match=r"No strength from 0.5 to 8 changes accuracy"):
        best, profile = best_widened(profile_of, (0.5, 2.0), ACCURACY, [])
    assert (best.interval, profile.bounds) == ((0.5, 2.0), (0.5, 2.0))


@pytest.mark.parametrize("low", [-1.0, 0.5])
@pytest.mark.parametrize("widen", [True, False])
def test_a_best_at_the_lower_bound_is_said(low, widen):
    # Two samples are right below −0.5 or 0.7 only, another one above 1.
    first = -0.5 if low < 0 else 0.7
    profile_of, _ = profiles_of([first, first, 1.0], [0, 0, 1])
    calibrator = rp.PosteriorCalibrator(PRIOR, metric="accuracy", bounds=(low, 2.0))
    problem = full_problem(calibrator, read_terms(calibrator, None))
    with pytest.warns(rp.RepriorWarning, match=f"lies at the lower bound {low:g}; less is not"):
        best, _ = problem.search(profile_of, widen=widen)
    assert best.interval[0] == low
    assert best.strength < first


def test_a_lower_bound_of_0_is_the_model_as_it_is():
    profile_of, _ = profiles_of([0.7, 0.7, 1.0], [0, 0, 1])
    for prefer_model in (True, False):  # no warning
        best, _ = best_widened(profile_of, (0.0, 2.0), ACCURACY, [], prefer_model=prefer_model)
        assert best.interval[0] == 0.0


def test_where_nothing_is_better_than_the_model_no_bound_is_widened():
    profile_of, seen = profiles_of([4.0, 7.0, 5.0], [1, 0, 1])
    best, _ = best_widened(profile_of, (0.0, 2.0), ACCURACY, [])
    assert (best.strength, best.at_bound, seen) == (0.0, False, [(0.0, 2.0)])
    assert best_within(profile_of((0.0, 2.0)), ACCURACY, []) == best


@pytest.mark.parametrize("options", [{"tune": "per_class"}, {"selection": "smooth"}])
@pytest.mark.parametrize("widen", [True, False])
def test_only_the_raw_maximum_of_the_strength_prefers_0(options, widen):
    profile_of, _ = profiles_of([0.5, 0.6, 6.0], [0, 1, 0])
    calibrator = rp.PosteriorCalibrator(PRIOR, metric="accuracy", bounds=(0.0, 2.0), **options)
    problem = full_problem(calibrator, read_terms(calibrator, None))
    with pytest.warns(rp.RepriorWarning, match="upper bound"):
        best, _ = problem.search(profile_of, widen=widen)
    assert best.strength > 1.0
    plain = rp.PosteriorCalibrator(PRIOR, metric="accuracy", bounds=(0.0, 2.0))
    problem = full_problem(plain, read_terms(plain, None))
    assert problem.search(profile_of, widen=widen)[0].strength == 0.0


def test_a_bound_below_0_jumps_to_the_widest():
    profile_of, seen = profiles_of([1.0, 4.0], [1, 0])
    with pytest.warns(rp.RepriorWarning, match="searching up to 8"):
        best_widened(profile_of, (-2.0, -1.0), ACCURACY, [])
    assert seen[-1] == (-2.0, 8.0)


def test_constraints_are_kept_while_widening():
    profile_of, _ = profiles_of([0.5, 4.0, 4.2, 5.0], [1, 1, 0, 1])
    rule = Constraint.parse("recall[0] >= 0.9")
    with pytest.warns(rp.RepriorWarning):
        best, profile = best_widened(profile_of, (0.0, 2.0), ACCURACY, [rule])
    assert profile.evaluate("recall[0]", best.strength) == 1.0


def test_what_no_strength_allows_is_looked_for_further_up():
    profile_of, seen = profiles_of([4.0, 1.0, 9.0], [1, 1, 0])  # class 1 wins the first from 2.9 on
    rule = Constraint.parse("recall[1] >= 1").resolved(n_classes=2)
    with pytest.warns(rp.RepriorWarning) as caught:
        best, profile = best_widened(profile_of, (0.0, 2.0), ACCURACY, [rule])
    assert seen == [(0.0, 2.0), (0.0, 4.0)]
    assert best.strength > 4.0 / np.log(4.0)
    assert profile.evaluate("recall[1]", best.strength) == 1.0
    assert [str(w.message) for w in caught] == [
        "No strength up to 2 satisfies `subject_to`: searching up to 4."
    ]


def test_what_nothing_allows_is_refused_with_the_nearest():
    profile_of, seen = profiles_of([100.0, 1.0], [1, 1])
    rule = Constraint.parse("recall[1] >= 1").resolved(n_classes=2)
    with pytest.raises(rp.InfeasibleError) as caught:
        best_widened(profile_of, (0.0, 2.0), ACCURACY, [rule])
    assert seen[-1] == (0.0, 8.0)
    assert caught.value.shortfall == 0.5


def test_the_largest_value_is_the_metrics_own():
    double = rp.CountMetric("double_recall", gain=2, support=1, average="labelled")
    profile_of, seen = profiles_of([1.0, 1.2, 1.4], [1, 1, 1])
    with pytest.warns(rp.RepriorWarning, match=r"upper bound 0.8"):
        best, _ = best_widened(profile_of, (0.0, 0.8), double, [])
    assert best.value == 2.0
    assert len(seen) == 2


def test_scores_that_cannot_be_read_again_keep_their_bounds():
    profile_of, seen = profiles_of([0.5, 4.0, 7.0, 5.0], [1, 1, 0, 1])
    with pytest.warns(rp.RepriorWarning, match="lies at the upper bound 1, and the") as caught:
        best = best_within(profile_of((0.0, 1.0)), ACCURACY, [])
    assert caught[0].filename == __file__
    assert best.interval[1] == 1.0
    with pytest.warns(rp.RepriorWarning, match=r"from 0.1 to 0.25 changes accuracy, and"):
        best_within(profile_of((0.1, 0.25)), ACCURACY, [])
    assert best_within(profile_of((0.0, 4.5)), ACCURACY, []).value == 1.0
    assert seen == [(0.0, 1.0), (0.1, 0.25), (0.0, 4.5)]
