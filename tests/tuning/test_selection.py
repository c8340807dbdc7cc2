"""Rules that choose a strength from a profile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from tests.tuning.shared import cases, profile_of, random_case
from tests.tuning.test_resampling import reading_of

import reprior as rp
from reprior.profile.sweep import Steps
from reprior.tuning.balanced_loss import log_loss_strength
from reprior.tuning.bootstrap import StrengthBootstrap
from reprior.tuning.noise import ROUNDING, differences, redrawn_best, smoothed
from reprior.tuning.selection import CURVE_RULES, RULES, Curve, select

METRIC = "balanced_accuracy"


def bootstrap_of(case, **options):
    return StrengthBootstrap.from_scores(
        case.scores, case.labels, source_prior=case.source, bounds=case.bounds,
        **({"n_replicates": 40} | options),
    )  # fmt: skip


@given(cases())
def test_every_rule_gives_a_strength_that_the_profile_confirms(case):
    profile = case.profile()
    low, high = profile.bounds
    for rule in CURVE_RULES:
        best = select(profile, METRIC, rule)
        a, b = best.interval
        assert low <= a <= best.strength <= b <= high
        assert best.value == profile.evaluate(METRIC, best.strength)
        assert best.value == profile.evaluate(METRIC, a)
        assert best.at_bound == (a <= low or b >= high)


@given(cases())
def test_max_is_the_best_of_the_profile(case):
    profile = case.profile()
    for metric in (METRIC, "macro_f1"):
        assert select(profile, metric) == select(profile, metric, "max") == profile.best(metric)


def plausible_strengths(profile, metric):
    """Walk over every step, as the rule is told."""
    starts, values = profile.curve(metric)
    ends = [*starts[1:], profile.bounds[1]]
    best = profile.best(metric)
    at = max(i for i, start in enumerate(starts) if start <= best.strength)
    found = []
    for i in range(len(starts)):
        inside = values[min(i, at) : max(i, at) + 1]
        if values[at] - values[i] <= np.sqrt(np.sum(np.diff(inside) ** 2)) + ROUNDING:
            found.append((starts[i], ends[i]))
    return found


@pytest.mark.parametrize("metric", ["accuracy", METRIC, "macro_f1"])
def test_one_se_is_the_least_change_within_an_error(rng, metric):
    for n_classes in (2, 3, 6):
        profile = random_case(rng, 150, n_classes).profile()
        found = select(profile, metric, "one_se")
        nearest = min(start for start, _ in plausible_strengths(profile, metric))
        assert found.strength == nearest
        assert found.strength <= profile.best(metric).strength


def test_one_se_looks_from_either_side_of_0():
    # Below 0 the nearest to 0 is the end of a step, which does not belong to it.
    steps = Steps(np.array([-2.0, -1.0, -0.5, 0.5]), np.array([0.9, 0.5, 0.1, 0.2]))
    assert CURVE_RULES["one_se"](Curve(steps, 2.0, -1.5)) == np.nextafter(-0.5, -1.0)
    curve = Curve(Steps(np.array([-2.0, -1.0]), np.array([0.1, 0.9])), 2.0, 0.5)
    assert CURVE_RULES["one_se"](curve) == 0.0


@pytest.mark.parametrize("metric", ["accuracy", METRIC, "macro_f1"])
def test_smooth_is_the_largest_of_the_averaged_curve(rng, metric):
    profile = random_case(rng, 200, 4).profile()
    width = sum(b - a for a, b in plausible_strengths(profile, metric))
    steps = Steps(*profile.curve(metric))
    found = select(profile, metric, "smooth").strength
    around = smoothed(steps, 2.0, np.array([found, *np.linspace(0, 2, 77)]), width)
    assert around[0] >= around[1:].max() - 1e-6


def test_smooth_is_the_middle_of_what_is_equally_good():
    # A plateau keeps its middle, of two the longer one is taken, and no curve at all has one too.
    rule = CURVE_RULES["smooth"]
    assert rule(Curve(Steps(np.array([0.0]), np.array([0.5])), 2.0, 1.0)) == 1.0
    steps = Steps(np.array([0.0, 0.5, 1.5]), np.array([0.2, 0.9, 0.2]))
    assert rule(Curve(steps, 2.0, 1.0)) == pytest.approx(1.0)
    # The best is a float wide, and so are its neighbours: the grid is as fine as it gets.
    narrow = Steps(np.array([0.0, 1.0, 1.0 + 1e-15, 1.0 + 2e-15]), np.array([0.0, 0.8, 0.9, 0.1]))
    assert 0.0 <= rule(Curve(narrow, 2.0, 1.0 + 1e-15)) <= 2.0


def test_bagged_is_the_mean_of_the_maxima_of_other_noise(rng):
    profile = random_case(rng, 200, 3).profile()
    steps = Steps(*profile.curve(METRIC))
    drawn = redrawn_best(steps, 2.0)
    assert select(profile, METRIC, "bagged").strength == drawn.mean()


def test_shrunk_goes_further_the_less_is_known(rng):
    case = random_case(rng, 4000, 3, bounds=(0.0, 4.0))
    case.scores[:] *= 2.5  # over-confident: the best strength is well above 1
    shares = []
    for n in (60, 4000):
        profile = case.rows(slice(0, n)).profile()
        bagged, shrunk = (select(profile, METRIC, rule).strength for rule in ("bagged", "shrunk"))
        share = (shrunk - 1) / (bagged - 1)
        spread = redrawn_best(Steps(*profile.curve(METRIC)), 4.0).std()
        assert share == pytest.approx(0.25 / (0.25 + spread**2))
        shares.append(share)
    assert 0 < shares[0] < shares[1] < 1


def test_a_bootstrap_stands_for_its_profile(rng):
    bootstrap = bootstrap_of(random_case(rng, 150, 3))
    for rule in CURVE_RULES:
        assert select(bootstrap, METRIC, rule) == select(bootstrap.profile, METRIC, rule)


def test_balanced_log_loss_is_within_the_bounds_of_the_profile(rng):
    case = random_case(rng, 150, 3)
    want = log_loss_strength(reading_of(case))
    narrow = reading_of(case, bounds=(0.0, 0.25))
    for found in (
        select(bootstrap_of(case), METRIC, "balanced_log_loss"),
        select(case.profile(), METRIC, "balanced_log_loss", reading=reading_of(case)),
        select(case.profile(), METRIC, "balanced_log_loss", reading=narrow),
    ):
        assert found.strength == pytest.approx(want, abs=1e-9)
    profile = case.profile(bounds=(0.0, 0.25))
    assert select(profile, METRIC, "balanced_log_loss", reading=narrow).strength == 0.25


@pytest.mark.parametrize("rule", RULES)
def test_constraints_are_kept_by_every_rule(rng, rule):
    case = random_case(rng, 300, 3)
    bootstrap, limit = bootstrap_of(case), "accuracy >= baseline - 0.01"
    found = select(bootstrap, METRIC, rule, subject_to=limit)
    profile = bootstrap.profile
    floor = profile.evaluate("accuracy", 0.0) - 0.01
    assert profile.evaluate("accuracy", found.strength) >= floor - 1e-12
    free = select(bootstrap, METRIC, rule).strength
    if profile.evaluate("accuracy", free) >= floor and rule != "max":
        assert found.strength == free


def test_a_choice_that_breaks_a_constraint_goes_to_the_nearest_that_does_not(rng):
    profile = random_case(rng, 300, 3).profile()
    free = select(profile, METRIC, "smooth").strength
    level = (profile.evaluate("recall[0]", free) + profile.evaluate("recall[0]", 0.0)) / 2
    found = select(profile, METRIC, "smooth", subject_to=f"recall[0] >= {level}")
    assert profile.evaluate("recall[0]", found.strength) >= level - 1e-12
    between = np.linspace(found.interval[1], free, 200)
    assert (profile.evaluate("recall[0]", between[1:]) < level).all()


@pytest.mark.parametrize("resolution", [None, 0.01])
@pytest.mark.parametrize("metric", ["precision[2]", "macro_f1", "mean_iou"])
def test_no_allowed_strength_is_nearer_than_the_one_that_is_taken(rng, metric, resolution):
    moved = 0
    for _ in range(20):
        profile = random_case(rng, 120, 3).profile(resolution=resolution)
        values = profile.curve(metric)[1]
        rule = f"{metric} >= {np.quantile(values, rng.uniform(0.3, 0.95))}"
        for name in ("smooth", "one_se", "shrunk"):
            free = select(profile, METRIC, name).strength
            found = select(profile, METRIC, name, subject_to=rule)
            at = np.linspace(*profile.bounds, 201)  # multiples of the resolution
            allowed = at[profile.evaluate(metric, at) >= float(rule.rsplit(maxsplit=1)[-1])]
            distance = abs(found.strength - free)
            assert (
                profile.evaluate(metric, found.strength)
                >= float(rule.rsplit(maxsplit=1)[-1]) - 1e-12
            )
            assert found.interval[0] <= found.strength <= found.interval[1]
            assert found.value == profile.evaluate(METRIC, found.strength)
            assert distance <= np.abs(allowed - free).min(initial=np.inf) + 1e-9
            moved += distance > 0
    assert moved


def test_binned_profiles_are_chosen_from_on_their_grid(rng):
    case = random_case(rng, 4000, 3)
    exact, binned = case.profile(), case.profile(resolution=0.01)
    reading = reading_of(case)
    for rule in ("max", "balanced_log_loss"):
        found = select(binned, METRIC, rule, reading=reading)
        assert found.strength == pytest.approx(0.01 * round(found.strength / 0.01), abs=1e-12)
        assert found.value == pytest.approx(exact.evaluate(METRIC, found.strength))
        assert found.uncertainty > 0.0
    assert select(exact, METRIC, "balanced_log_loss", reading=reading).uncertainty == 0.0
    odd = case.profile(resolution=0.3, bounds=(0.05, 0.1))  # no multiple of it within
    assert 0.05 <= select(odd, METRIC, "balanced_log_loss", reading=reading).strength <= 0.1


def test_bins_make_rules_cautious_where_the_curve_is_steep(rng):
    # One bin's jump is that of all its switches: where the curve rises steadily its square is
    # many times the sum of theirs.
    n = 4000
    crossing = np.log(4.0) * np.linspace(0.0, 1.9, n)  # each is right from its crossing on
    scores = np.stack([crossing, np.zeros(n)], axis=1)
    exact, binned = (
        rp.StrengthProfile.from_scores(
            scores, np.ones(n, int), source_prior=[0.8, 0.2], resolution=width
        )
        for width in (None, 0.1)
    )
    right, wide = (
        differences(Steps(*profile.curve("accuracy")), 0)[-1] for profile in (exact, binned)
    )
    assert wide > 5 * right
    cautious, free = (select(each, "accuracy", "one_se").strength for each in (binned, exact))
    assert cautious < free <= 1.9
    assert cautious == pytest.approx(0.1 * round(cautious / 0.1))


def test_a_curve_without_a_step_is_plausible_all_over():
    profile = profile_of([[5.0, 0.0], [0.0, 5.0]], [0, 1], [0.0, 1.0], (0.0, 2.0))
    steps = Steps(*profile.curve("accuracy"))
    assert differences(steps, 0).tolist() == [0.0]
    assert Curve(steps, 2.0, 1.0).spread() == 2.0
    assert select(profile, "accuracy", "one_se").strength == 0.0


@pytest.mark.parametrize(
    "rule, sentence",
    [
        ("maximum", "`rule` must be one of 'max', 'smooth', 'bagged', 'one_se', 'shrunk', "),
        (
            "balanced_log_loss",
            "`rule` 'balanced_log_loss' must have scores. Got a profile alone. Pass `reading`, or "
            "StrengthBootstrap.from_scores(…).",
        ),
    ],
)
def test_words(rng, rule, sentence):
    with pytest.raises(rp.OptionError) as caught:
        select(random_case(rng, 30, 3).profile(), METRIC, rule)
    assert sentence in str(caught.value)
