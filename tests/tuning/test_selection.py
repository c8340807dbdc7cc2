"""Rules that choose a strength from a profile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from tests.tuning.shared import Case, cases, profile_of, random_case
from tests.tuning.test_resampling import arguments_of

import reprior as rp
from reprior import StrengthBootstrap
from reprior.core import slopes
from reprior.profile import Steps
from reprior.tuning import (
    CURVE_RULES,
    ROUNDING,
    RULES,
    Curve,
    differences,
    log_loss_strength,
    plausible,
    redrawn_best,
    select,
    smoothed,
)
from reprior.tuning.selection import MOST_STEPS, REDRAWS, _normals

METRIC = "balanced_accuracy"


def named(given):
    """Samples and priors as arguments of :func:`select`."""
    return dict(zip(("samples", "priors"), given, strict=True))


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
        model = rule == "max" and best.strength == 0.0
        assert best.at_bound == (not model and (a <= low or b >= high))


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
    want = log_loss_strength(*arguments_of(case))
    narrow = arguments_of(case, bounds=(0.0, 0.25))
    for found in (
        select(bootstrap_of(case), METRIC, "balanced_log_loss"),
        select(case.profile(), METRIC, "balanced_log_loss", **named(arguments_of(case))),
        select(case.profile(), METRIC, "balanced_log_loss", **named(narrow)),
    ):
        assert found.strength == pytest.approx(want, abs=1e-9)
    profile = case.profile(bounds=(0.0, 0.25))
    assert select(profile, METRIC, "balanced_log_loss", **named(narrow)).strength == 0.25


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
    reading = arguments_of(case)
    for rule in ("max", "balanced_log_loss"):
        found = select(binned, METRIC, rule, **named(reading))
        assert found.strength == pytest.approx(0.01 * round(found.strength / 0.01), abs=1e-12)
        assert found.value == pytest.approx(exact.evaluate(METRIC, found.strength))
        assert found.uncertainty > 0.0
    assert select(exact, METRIC, "balanced_log_loss", **named(reading)).uncertainty == 0.0
    odd = case.profile(resolution=0.3, bounds=(0.05, 0.1))  # no multiple of it within
    assert 0.05 <= select(odd, METRIC, "balanced_log_loss", **named(reading)).strength <= 0.1


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
            "`rule` 'balanced_log_loss' must have scores. Got a profile alone. Pass `samples` and "
            "`priors`, or StrengthBootstrap.from_scores(…).",
        ),
    ],
)
def test_words(rng, rule, sentence):
    with pytest.raises(rp.OptionError) as caught:
        select(random_case(rng, 30, 3).profile(), METRIC, rule)
    assert sentence in str(caught.value)


INTEGRATION = 1e-9
"""What the quadrature of the oracle is asked for, and the rounding of second antiderivatives."""


@st.composite
def curves(draw):
    n = draw(st.integers(1, 8))
    gaps = draw(st.lists(st.floats(0.01, 1.0), min_size=n, max_size=n))
    values = draw(st.lists(st.floats(0.0, 1.0), min_size=n, max_size=n))
    low = draw(st.sampled_from([0.0, -1.0, 0.5]))
    start = low + np.cumsum([0.0, *gaps[:-1]])
    return Steps(start, np.array(values)), float(start[-1] + gaps[-1])


def brute_force(steps, high, at, h):
    """Integrate piece by piece, as the formula is written."""

    def kernel(u):
        return max(0.0, 1 - abs(u - at) / h)

    ends = np.append(steps.start[1:], high)
    above = below = 0.0
    for a, b, value in zip(steps.start, ends, steps.value, strict=True):
        kinks = [x for x in (at - h, at, at + h) if a < x < b]
        area = quad(kernel, a, b, points=kinks or None)[0]
        above, below = above + value * area, below + area
    return above / below


@given(curves(), st.floats(0.05, 3.0), st.floats(0.0, 1.0))
def test_the_average_is_the_integral(curve, half_width, share):
    steps, high = curve
    at = steps.start[0] + share * (high - steps.start[0])
    found = smoothed(steps, high, np.array([at]), half_width)
    want = brute_force(steps, high, at, half_width)
    np.testing.assert_allclose(found, want, rtol=0, atol=INTEGRATION)


def test_a_narrow_average_is_the_curve_and_a_constant_stays():
    steps = Steps(np.array([0.0, 0.7]), np.array([0.2, 0.9]))
    np.testing.assert_allclose(smoothed(steps, 2.0, np.array([0.5, 1.5]), 1e-3), [0.2, 0.9])
    flat = Steps(np.array([0.0]), np.array([0.4]))
    np.testing.assert_allclose(smoothed(flat, 2.0, np.linspace(0, 2, 5), 0.3), 0.4)


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "macro_f1"])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_jumps_tell_the_error_of_a_difference(rng, metric, n_classes):
    case = random_case(rng, 1500, n_classes)
    bootstrap = StrengthBootstrap.from_scores(
        case.scores, case.labels, source_prior=case.source, n_replicates=400
    )
    drawn = bootstrap.replicates(metric)
    steps = Steps(*bootstrap.profile.curve(metric))
    ends = np.array([0.4, 0.7, 1.4, 1.9])
    columns = np.searchsorted(drawn.strengths, [1.0, *ends])
    want = (drawn.values[:, columns[1:]] - drawn.values[:, columns[:1]]).std(axis=0)
    at = int(np.searchsorted(steps.start, 1.0, side="right")) - 1
    found = differences(steps, at)[np.searchsorted(steps.start, ends, side="right") - 1]
    # Switches of one sample are not independent, and support is drawn too: alike, not equal.
    np.testing.assert_allclose(found, want, rtol=0.25)


def test_plausible_is_within_so_many_errors():
    # Jumps of 3 and 4: the error from the middle is 3 to the left, 4 to the right.
    steps = Steps(np.array([0.0, 0.5, 1.0]), np.array([2.0, 5.0, 1.0]))
    assert plausible(steps, 1).tolist() == [True, True, True]
    assert plausible(steps, 1, 0.99).tolist() == [False, True, False]
    far = Steps(np.arange(6.0), np.array([0.0, 1.0, 2.0, 3.0, 2.0, 1.0]))
    assert plausible(far, 3).tolist() == [False, False, True, True, True, False]


def test_maxima_of_other_noise_are_those_of_the_definition(rng):
    steps = Steps(*random_case(rng, 150, 3).profile().curve("accuracy"))
    jumps = np.diff(steps.value)
    ends = np.append(steps.start[1:], 2.0)
    normals = np.random.default_rng(0).standard_normal((REDRAWS // 2, MOST_STEPS))
    want = []
    for sign in (1, -1):
        for row in normals:
            curve, best = [steps.value[0]], 0
            for j, jump in enumerate(jumps):
                curve.append(curve[-1] + jump + sign * row[j + 1] * abs(jump))
                best = j + 1 if curve[j + 1] > curve[best] else best
            want.append((steps.start[best] + ends[best]) / 2)
    np.testing.assert_allclose(redrawn_best(steps, 2.0), want)


def test_maxima_of_other_noise_are_spread_like_those_of_other_samples(rng):
    case = random_case(rng, 600, 3)
    bootstrap = StrengthBootstrap.from_scores(
        case.scores, case.labels, source_prior=case.source, n_replicates=400
    )
    drawn = bootstrap.replicates("balanced_accuracy").best_strength
    found = redrawn_best(Steps(*bootstrap.profile.curve("balanced_accuracy")), 2.0)
    assert found.mean() == pytest.approx(drawn.mean(), abs=0.1)
    assert found.std() == pytest.approx(drawn.std(), rel=0.25)


def test_steps_beyond_number_are_taken_together(rng):
    case = random_case(rng, 30_000, 4, dtype="f8", spread=1.5)
    steps = Steps(*case.profile().curve("accuracy"))
    assert steps.start.size > 2 * MOST_STEPS
    found = redrawn_best(steps, 2.0)
    fine = steps.value.max() - steps.at(found)
    assert (fine < 0.01).all()
    assert found.std() < 0.2


def test_the_noise_that_all_share_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        _normals()[0, 0] = 0.0


CLOSE = 1e-6
"""Brent's search is good to the square root of rounding."""


def loss_of(case, strength, kept=slice(None)):
    """Write the definition out, for some of the samples."""
    z, y = case.scores[kept].astype(float), case.labels[kept]
    w = slopes(case.source, case.target)
    active = np.isfinite(w)
    weight = np.ones(len(y)) if case.weights is None else case.weights[kept]
    support = np.bincount(case.labels, case.weights, minlength=len(w))
    v = weight * case.target[y] / support[y]
    lines = z[:, active] + strength * w[active]
    own = z[np.arange(len(y)), y] + strength * np.where(active, w, 0.0)[y]
    return float(np.sum(v * (logsumexp(lines, axis=1) - own)))


def least_log_loss(case, kept=slice(None)):
    return minimize_scalar(
        lambda x: loss_of(case, x, kept), bounds=case.bounds, method="bounded",
        options={"xatol": 1e-10},
    ).x  # fmt: skip


@pytest.mark.parametrize("n_classes", [2, 3, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_minimum(rng, n_classes, weighted):
    case = random_case(rng, 300, n_classes, bounds=(-1.0, 4.0), weighted=weighted)
    assert log_loss_strength(*arguments_of(case)) == pytest.approx(least_log_loss(case), abs=CLOSE)


def test_far_from_1_newton_needs_its_bracket(rng):
    # Scores that are much too sure: a strength of 1 is on a plain where Newton overshoots.
    case = random_case(rng, 200, 3, bounds=(0.0, 500.0))
    sure = Case(60 * case.scores, case.labels, case.source, case.target, case.bounds)
    assert log_loss_strength(*arguments_of(sure)) == pytest.approx(least_log_loss(sure), rel=CLOSE)


def test_newton_that_leaves_its_bracket_gives_way_to_halves():
    # Flat between two far walls: log(1 + e^(20 − cλ)) + log(1 + e^(cλ − 44)), with c = log 4.
    scores = np.array([[0.0, -44.0], [0.0, -20.0]])
    case = Case(
        scores, np.array([0, 1]), np.array([0.8, 0.2]), np.array([0.5, 0.5]), bounds=(0.0, 60.0)
    )
    assert log_loss_strength(*arguments_of(case)) == pytest.approx(32 / np.log(4), rel=CLOSE)


@pytest.mark.parametrize("bounds, want", [((2.5, 3.0), 2.5), ((-3.0, -2.5), -2.5)])
def test_it_stays_within_the_bounds(rng, bounds, want):
    assert log_loss_strength(*arguments_of(random_case(rng, 200, 3, bounds=bounds))) == want


def test_classes_out_of_play_and_impossible_labels_say_nothing(rng):
    case = random_case(rng, 300, 4)
    case = Case(case.scores, case.labels, case.source, np.array([0.5, 0.25, 0.0, 0.25]))
    case.scores[0] = [0.0, 1.0, 2.0, -np.inf]
    case.labels[0] = 3
    kept = np.flatnonzero(case.labels != 2)[1:]
    # The sample that is left out counts for the frequencies of its class all the same.
    found = log_loss_strength(*arguments_of(case))
    assert found == pytest.approx(least_log_loss(case, kept), abs=CLOSE)


def test_samples_that_are_left_out(rng, monkeypatch):
    monkeypatch.setattr("reprior.tuning.selection.HOST_BLOCK", 90)
    case = random_case(rng, 120, 3)
    half = Case(case.scores, case.labels.copy(), case.source, case.target)
    half.labels[30:] = 255
    found = log_loss_strength(*arguments_of(half, ignore_index=255))
    assert found == log_loss_strength(*arguments_of(case.rows(slice(0, 30))))


def test_a_prior_of_the_labels_that_is_known(rng):
    case = random_case(rng, 300, 3, bounds=(-1.0, 4.0))
    reading = arguments_of(case)
    own = np.bincount(case.labels, minlength=3)
    same = log_loss_strength(reading[0], replace(reading[1], label=own / own.sum()))
    assert same == pytest.approx(log_loss_strength(*reading), abs=CLOSE)
    prior = np.array([0.2, 0.1, 0.7])
    weight = 1.0 / prior[case.labels]
    weighted = Case(case.scores, case.labels, case.source, case.target, case.bounds, weights=weight)
    # Weights v make the definition divide by Σ v of the class: take that off again.
    total = np.bincount(case.labels, weight, minlength=3)
    known = minimize_scalar(
        lambda x: sum(
            loss_of(weighted, x, np.flatnonzero(case.labels == k)) * total[k] for k in range(3)
        ),
        bounds=case.bounds, method="bounded", options={"xatol": 1e-10},
    ).x  # fmt: skip
    found = log_loss_strength(reading[0], replace(reading[1], label=prior))
    assert found == pytest.approx(known, abs=CLOSE)
    assert abs(found - same) > 1e-3
