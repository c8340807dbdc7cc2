from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import oracles
from tests.tuning.shared import (
    BESIDE,
    MARGIN,
    ROUNDING,
    Case,
    assert_same_counts,
    cases,
    exact_cases,
    profile_of,
    random_case,
)

from reprior import CountMetric
from reprior.exceptions import InfeasibleError, LabelsError, OptionError
from reprior.metrics import find_metric
from reprior.profile import AFTER_ZERO, StrengthProfile, passes
from reprior.profile import profile as profile_module

GRID = 20_001
NEAR = 1e-9
SIZES = [(2, "f8"), (3, "f2"), (14, "f4"), (127, "f4"), (128, "f2"), (129, "f8"), (300, "f4")]


def uniform(n_classes):
    return np.full(n_classes, 1 / n_classes)


def is_switch(position, strength):
    """Whether a switch lies too near a strength."""
    return bool((np.abs(position - strength) <= NEAR).any())


def brute_force(case, at):
    """Every metric at every strength, by the oracle."""
    return oracles.metrics_at(case.scores, case.labels, case.slopes, at, case.weights)


def assert_values(profile, case, at):
    for name, want in brute_force(case, at).items():
        np.testing.assert_allclose(profile.evaluate(name, at), want, rtol=0, atol=ROUNDING)


def assert_counts(counts, labels, predicted, weights=None):
    """Counts equal those of a confusion matrix, and presence those of an unweighted one."""
    n_classes = counts.n_classes
    matrix = oracles.confusion(labels, predicted, n_classes, weights)
    np.testing.assert_allclose(counts.true_positive, np.diag(matrix), atol=ROUNDING)
    np.testing.assert_allclose(counts.predicted, matrix.sum(axis=0), atol=ROUNDING)
    np.testing.assert_allclose(counts.support, matrix.sum(axis=1), atol=ROUNDING)
    there = np.isin(np.arange(n_classes), predicted)
    np.testing.assert_array_equal(counts.labelled, np.isin(np.arange(n_classes), labels))
    np.testing.assert_array_equal(counts.seen, counts.labelled | there)
    assert not counts.predicted[~there].any()


# ------------------------------------------------------------------- evaluate: brute force


@settings(max_examples=150)
@given(exact_cases())
def test_exact_lines_equal_brute_force_at_the_switches_too(case):
    profile, at = case.profile(), case.strengths()
    assert_values(profile, case, at)
    predicted = oracles.predictions(case.scores, case.slopes, at)
    for strength, row in list(zip(at, predicted, strict=True))[::5]:
        assert_counts(profile.counts(strength), case.labels, row)
    assert_counts(
        profile.baseline, case.labels, oracles.predictions(case.scores, case.slopes, 0.0)[0]
    )


@settings(max_examples=150)
@given(cases())
def test_evaluate_equals_brute_force_away_from_switches(case):
    profile = case.profile()
    at = np.concatenate([np.linspace(*case.bounds, 41), np.clip([0.0], *case.bounds)])
    at = oracles.clear_strengths(case.scores, case.slopes, at, MARGIN)
    predicted = oracles.predictions(case.scores, case.slopes, at)
    assert_values(profile, case, at)
    for strength, row in list(zip(at, predicted, strict=True))[::5]:
        assert_counts(profile.counts(strength), case.labels, row, case.weights)


@pytest.mark.parametrize("n_classes, dtype", SIZES)
@pytest.mark.parametrize("bounds", [(0.0, 2.0), (-1.0, 1.0)])
def test_many_classes_equal_brute_force(rng, n_classes, dtype, bounds):
    case = random_case(rng, 50, n_classes, dtype=dtype, bounds=bounds)
    profile = case.profile()
    at = np.linspace(*bounds, 61)
    at = oracles.clear_strengths(case.scores, case.slopes, at, MARGIN)
    assert at.size > 40
    assert_values(profile, case, at)


@pytest.mark.parametrize("metric", ["recall[1]", "precision[1]", "iou[1]", "f1[1]"])
def test_one_class_equals_its_definition(rng, metric):
    case = random_case(rng, 60, 3)
    profile = case.profile()
    for strength in np.linspace(0, 2, 21):
        counts = profile.counts(strength)
        tp, p, s = counts.true_positive[1], counts.predicted[1], counts.support[1]
        below = {"recall": s, "precision": p, "iou": s + p - tp, "f1": (s + p) / 2}[metric[:-3]]
        assert profile.evaluate(metric, strength) == pytest.approx(tp / below, abs=ROUNDING)


@given(cases())
def test_strength_0_is_the_baseline(case):
    low, high = case.bounds
    if low <= 0.0 <= high:
        profile = case.profile()
        here, baseline = profile.counts(0.0), profile.baseline
        np.testing.assert_array_equal(here.seen, baseline.seen)
        for name in ("true_positive", "predicted", "support"):
            np.testing.assert_allclose(
                getattr(here, name), getattr(baseline, name), rtol=ROUNDING, atol=ROUNDING
            )


def test_strength_0_is_the_baseline_where_slopes_differ_by_rounding_alone():
    # At −1 both lines are 9 in float64, so only the scores at 0 tell that the first comes first.
    slopes = np.array([1.0, np.nextafter(1.0, 2.0)])
    profile = profile_of(np.full((1, 2), 10.0), [0], slopes, (-1.0, 1.0))
    assert profile.baseline.predicted.tolist() == [1, 0]
    assert profile.counts(0.0).predicted.tolist() == [1, 0]


def test_strength_0_is_the_baseline_where_scores_differ_by_rounding_alone(rng):
    scores = 1 + np.spacing(1.0) * rng.integers(0, 3, (300, 5))
    profile = profile_of(scores, np.zeros(300), [-5.0, -1.0, 0.0, 2.0, 5.0], (-1.0, 1.0))
    assert_same_counts(profile.counts(0.0), profile.baseline)


def test_a_tie_at_0_goes_to_the_first_class_there_and_to_the_larger_slope_after():
    profile = profile_of(np.zeros((1, 3)), [1], [1.0, 2.0, 0.0], (-1.0, 1.0))
    winners = [profile.counts(x).predicted.argmax() for x in (-BESIDE, 0.0, AFTER_ZERO, BESIDE)]
    assert winners == [2, 0, 1, 1]


@pytest.mark.parametrize("bounds", [(0.0, 2.0), (-1.0, 1.0), (1.0, 3.0)])
def test_equal_slopes_never_switch(rng, bounds):
    scores = rng.normal(size=(30, 4))
    labels = rng.integers(4, size=30)
    profile = StrengthProfile.from_scores(scores, labels, source_prior=uniform(4), bounds=bounds)
    assert profile.n_switches == 0
    best = profile.best("accuracy")
    assert best.interval == bounds
    with_model = bounds[0] <= 0.0
    assert (best.strength, best.at_bound) == ((0.0, False) if with_model else (2.0, True))


def test_a_class_without_target_prior_is_in_play_at_0_alone():
    scores = np.array([[3.0, 1.0, 0.0], [0.0, 1.0, 0.5]])
    profile = StrengthProfile.from_scores(
        scores, [0, 1], source_prior=[0.5, 0.25, 0.25], target_prior=[0.0, 0.5, 0.5]
    )
    assert profile.counts(0.0).predicted.tolist() == [1, 1, 0]
    assert profile.counts(AFTER_ZERO).predicted.tolist() == [0, 2, 0]
    assert profile.baseline.predicted.tolist() == [1, 1, 0]


def test_a_single_class_with_target_prior_takes_everything():
    scores = np.array([[3.0, 1.0], [0.0, 1.0]])
    profile = StrengthProfile.from_scores(
        scores, [0, 1], source_prior=[0.5, 0.5], target_prior=[0.0, 1.0], bounds=(0.0, 1.0)
    )
    assert profile.counts(1.0).predicted.tolist() == [0, 2]
    above = StrengthProfile.from_scores(
        scores, [0, 1], source_prior=[0.5, 0.5], target_prior=[0.0, 1.0], bounds=(0.5, 1.0)
    )
    assert above.counts(0.5).predicted.tolist() == [0, 2]
    assert above.baseline.predicted.tolist() == [1, 1]


# ------------------------------------------------------------------------- sample weights


@given(exact_cases(weighted=True))
def test_whole_weights_are_repeated_rows_to_the_bit(case):
    again = np.repeat(np.arange(len(case.labels)), case.weights.astype(int))
    repeated = replace(case, scores=case.scores[again], labels=case.labels[again], weights=None)
    a, b, at = case.profile(), repeated.profile(), case.strengths()
    for name in oracles.METRICS:
        np.testing.assert_array_equal(a.evaluate(name, at), b.evaluate(name, at))
        assert a.best(name) == b.best(name)
    for strength in at[::7]:
        assert_same_counts(a.counts(strength), b.counts(strength))


@given(cases(weighted=False), st.data())
def test_zero_weights_are_left_out(case, data):
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=case.n, max_size=case.n)))
    keep[0] = True
    scores = case.scores.copy()
    scores[~keep] = np.nan  # not even looked at
    weighted = replace(case, scores=scores, weights=keep.astype(int)).profile()
    alone = case.rows(keep).profile()
    assert weighted.n_samples == alone.n_samples == keep.sum()
    at = np.linspace(*case.bounds, 9)
    for name in oracles.METRICS:
        np.testing.assert_array_equal(weighted.evaluate(name, at), alone.evaluate(name, at))


def test_sums_of_weights_that_cancel_leave_no_ghost():
    # 0.1 + 0.2 + 0.3 taken away in another order leaves 2.8e-17 of a class nobody predicts.
    scores = np.array([[1.0, 0.0], [0.25, 0.0], [0.5, 0.0]])
    case = Case(
        scores, np.array([0, 0, 0]), np.array([0.8, 0.2]), uniform(2), (0.0, 2.0),
        np.array([0.1, 0.2, 0.3]),
    )  # fmt: skip
    profile = case.profile()
    assert profile.counts(2.0).predicted[0] == 0.0
    assert profile.counts(2.0).true_positive[0] == 0.0
    assert_values(profile, case, np.array([2.0]))


# --------------------------------------------------------------------------- best: exact


@settings(max_examples=12)
@given(cases())
def test_best_is_at_least_the_best_of_a_fine_grid(case):
    profile = case.profile()
    grid = brute_force(case, np.linspace(*case.bounds, GRID))
    for name, values in grid.items():
        best = profile.best(name)
        assert best.value >= values.max() - ROUNDING
        assert profile.evaluate(name, best.strength) == pytest.approx(best.value, abs=ROUNDING)


@pytest.mark.parametrize("n_classes, dtype", [(2, "f2"), (14, "f4"), (300, "f8")])
def test_best_beats_a_fine_grid_with_many_classes(rng, n_classes, dtype):
    case = random_case(rng, 40 if n_classes < 100 else 12, n_classes, dtype=dtype)
    profile = case.profile()
    at = np.linspace(*case.bounds, GRID if n_classes < 100 else GRID // 10)
    for name, values in brute_force(case, at).items():
        assert profile.best(name).value >= values.max() - ROUNDING


@settings(max_examples=150)
@given(exact_cases())
def test_best_is_the_best_and_its_interval_is_right(case):
    profile, (low, high) = case.profile(), case.bounds
    at = case.strengths()
    for name, values in brute_force(case, at).items():
        best = profile.best(name)
        a, b = best.interval
        assert best.value == pytest.approx(values.max(), abs=ROUNDING)
        assert low <= a <= best.strength <= b <= high
        assert profile.evaluate(name, best.strength) == pytest.approx(best.value, abs=ROUNDING)
        at_top = b == high and profile.evaluate(name, high) >= best.value - ROUNDING
        inside = (at >= a) & ((at < b) | ((at == high) & at_top))
        assert (values[inside] >= best.value - ROUNDING).all()
        if a > low:
            assert profile.evaluate(name, np.nextafter(a, -np.inf)) < best.value
        if b < high:
            assert profile.evaluate(name, b) < best.value
        assert best.at_bound == (best.strength != 0.0 and (a == low or b == high))


@settings(max_examples=100)
@given(exact_cases())
def test_best_is_0_where_nothing_is_better(case):
    profile, (low, high) = case.profile(), case.bounds
    for name in ("accuracy", "mean_iou"):
        best = profile.best(name)
        within = low <= 0.0 <= high
        gains = within and best.value > profile.evaluate(name, 0.0) + ROUNDING
        assert (best.strength == 0.0) == (within and not gains)


@settings(max_examples=100)
@given(exact_cases())
def test_best_keeps_away_from_switches(case):
    profile = case.profile()
    for name in ("accuracy", "mean_iou"):
        best = profile.best(name)
        a, b = best.interval
        position = profile.switches.position
        if best.strength == 0.0 or a == b:
            continue
        edges = np.unique([a, b, *position[(position > a) & (position < b)]])
        gap = np.searchsorted(edges, best.strength, side="right") - 1
        width = edges[gap + 1] - edges[gap]
        assert best.strength == edges[gap] + width / 2 or not is_switch(position, (a + b) / 2)
        assert not is_switch(position, best.strength) or width <= 2 * NEAR
        if is_switch(position, (a + b) / 2):
            assert width == pytest.approx(np.diff(edges).max(), abs=NEAR)
        else:
            assert best.strength == (a + b) / 2


@settings(max_examples=100)
@given(exact_cases())
def test_best_takes_the_widest_interval_then_the_one_nearest_0(case):
    profile = case.profile()
    for name in ("accuracy", "mean_iou"):
        strengths, values = profile.curve(name)
        ends = np.append(strengths[1:], case.bounds[1])
        best = profile.best(name)
        if best.strength == 0.0:  # the model as it is, however narrow
            continue
        rivals = [
            (b - a, 0.0 if a <= 0.0 <= b else min(abs(a), abs(b)))
            for a, b, value in zip(strengths, ends, values, strict=True)
            if value >= best.value - ROUNDING
        ]
        a, b = best.interval
        distance = 0.0 if a <= 0.0 <= b else min(abs(a), abs(b))
        assert all((b - a, -distance) >= (width, -far) for width, far in rivals)


def test_of_two_equally_wide_intervals_the_one_nearest_0_is_best():
    # Right within [−3, −2) and [1, 2), wrong elsewhere: the second is nearer to 0.
    scores = np.array([[0.0, 2.0, 1.0], [0.0, -1.0, -3.0]])
    profile = profile_of(scores, [2, 1], [0.0, 1.0, 2.0], (-4.0, 4.0))
    strengths, values = profile.curve("accuracy")
    good = strengths[values == values.max()]
    best = profile.best("accuracy")
    assert best.interval[0] == good[np.argmin(np.abs(good))]
    assert best.interval == (1.0, 2.0)
    assert best.strength == 1.5
    assert not best.at_bound


def test_an_interval_of_one_float_is_not_chosen():
    # Right from one number to just before the next: two switches that are one but for rounding.
    a, b = np.nextafter(1.0, 2.0), np.nextafter(np.nextafter(1.0, 2.0), 2.0)
    assert (a + b) / 2 == b
    scores = np.array([[a, 0.0], [b, 0.0]])
    profile = profile_of(scores, [1, 0], [0.0, 1.0], (0.0, 2.0))
    assert profile.evaluate("accuracy", a) == 1.0
    best = profile.best("accuracy")
    assert (best.value, best.interval) == (0.5, (0.0, 2.0))
    front = profile.pareto("recall[0]", "recall[1]")
    np.testing.assert_array_equal(front.strengths, [a])


def test_upper_bound_0_ends_at_the_models_own_choice():
    # Right after 0 the second class wins; that is outside of the bounds.
    profile = profile_of(np.zeros((1, 2)), [1], [-1.0, 0.0], (-1.0, 0.0))
    best = profile.best("accuracy")
    assert (best.value, best.interval) == (0.0, (-1.0, 0.0))
    assert profile.curve("accuracy")[0].tolist() == [-1.0]
    assert profile.n_switches == 0


@pytest.mark.parametrize(
    "bounds, at_bound, interval",
    [((0.0, 2.0), False, (0.5, 1.5)), ((0.0, 1.0), True, (0.5, 1.0)), ((0.75, 2.0), True, None)],
)
def test_at_bound(bounds, at_bound, interval):
    scores = np.array([[0.5, 0.0], [1.5, 0.0]])
    best = profile_of(scores, [1, 0], [0.0, 1.0], bounds).best("accuracy")
    assert best.at_bound is at_bound
    assert best.interval == (interval or (0.75, 1.5))
    assert best.value == 1.0


def test_a_custom_metric_is_tuned_like_any_other(rng):
    case = random_case(rng)
    profile = case.profile()
    f2 = CountMetric("macro_f2", gain=5, support=4, predicted=1)
    at = np.linspace(0, 2, 101)
    want = [f2(profile.counts(x)) for x in at]
    np.testing.assert_allclose(profile.evaluate(f2, at), want, atol=ROUNDING)
    assert profile.best(f2).value >= max(want) - ROUNDING


# ----------------------------------------------------------------------------- constraints


@settings(max_examples=80)
@given(
    exact_cases(),
    st.sampled_from(oracles.METRICS),
    st.sampled_from(oracles.METRICS),
    st.sampled_from([(">=", 1.0, -0.125), (">=", 0.5, 0.0), ("<=", 1.0, 0.0), (">=", 1.0, 0.25)]),
)
def test_constrained_best_equals_brute_force(case, name, limited, rule):
    profile, at = case.profile(), case.strengths()
    relation, factor, offset = rule
    threshold = factor * brute_force(case, 0.0)[limited][0] + offset
    everything = brute_force(case, at)
    values = everything[limited]
    feasible = (
        values >= threshold - ROUNDING if relation == ">=" else values <= threshold + ROUNDING
    )
    text = f"{limited} {relation} {factor} * baseline {offset:+}"
    if not feasible.any():
        with pytest.raises(InfeasibleError, match="must be possible within the bounds"):
            profile.best(name, subject_to=text)
        return
    best = profile.best(name, subject_to=text)
    assert best.value == pytest.approx(everything[name][feasible].max(), abs=ROUNDING)
    held = profile.evaluate(limited, best.strength)
    assert held >= threshold - ROUNDING if relation == ">=" else held <= threshold + ROUNDING


def test_baseline_is_the_uncorrected_model_also_outside_the_bounds(rng):
    case = random_case(rng, 200, 4, bounds=(0.5, 1.5))
    profile = case.profile()
    wide = replace(case, bounds=(0.0, 2.0)).profile()
    assert_same_counts(profile.baseline, wide.counts(0.0))
    accuracy = wide.evaluate("accuracy", 0.0)
    best = profile.best("balanced_accuracy", subject_to="accuracy >= baseline - 0.05")
    assert profile.evaluate("accuracy", best.strength) >= accuracy - 0.05 - ROUNDING


def test_infeasible_alone_says_what_is_nearest(rng):
    profile = random_case(rng).profile()
    top = profile.best("accuracy")
    with pytest.raises(InfeasibleError) as caught:
        profile.best("mean_iou", subject_to="accuracy >= 1.5")
    assert f"nearest is {top.value:.6g}" in str(caught.value)
    assert caught.value.shortfall == pytest.approx(1.5 - top.value)
    assert profile.evaluate("accuracy", caught.value.strength) == top.value
    assert "Loosen the constraint, widen `bounds`, or tune a bias for every class" in str(
        caught.value
    )


def test_infeasible_together_says_so(rng):
    profile = random_case(rng, 300).profile()
    top = profile.best("recall[0]").value
    rules = [f"recall[0] >= {top}", f"recall[4] >= {profile.best('recall[4]').value}"]
    for rule in rules:
        profile.best("accuracy", subject_to=rule)
    with pytest.raises(InfeasibleError, match="no strength satisfies together") as caught:
        profile.best("accuracy", subject_to=rules)

    def miss(strength):
        misses = [float(r.split()[-1]) - profile.evaluate(r[:9], strength) for r in rules]
        return max(misses)

    assert caught.value.shortfall == pytest.approx(miss(caught.value.strength))
    grid = np.linspace(0, 2, 401)
    assert caught.value.shortfall <= min(map(miss, grid)) + ROUNDING


# ------------------------------------------------------------------------ pareto and curve


@settings(max_examples=80)
@given(exact_cases(), st.sampled_from(oracles.METRICS), st.sampled_from(oracles.METRICS))
def test_pareto_equals_brute_force(case, a, b):
    profile, at = case.profile(), case.strengths()
    front = profile.pareto(a, b)
    want = oracles.pareto(profile.evaluate(a, at), profile.evaluate(b, at))
    assert set(zip(front.values_a.tolist(), front.values_b.tolist(), strict=True)) == want
    assert len(front) == len(want)
    np.testing.assert_array_equal(profile.evaluate(a, front.strengths), front.values_a)
    np.testing.assert_array_equal(profile.evaluate(b, front.strengths), front.values_b)
    assert (np.diff(front.values_a) < 0).all()
    assert (np.diff(front.values_b) > 0).all()


@given(cases())
def test_curve_is_the_metric_as_a_step_function(case):
    profile, (low, high) = case.profile(), case.bounds
    for name in oracles.METRICS:
        strengths, values = profile.curve(name)
        assert strengths[0] == low
        assert strengths[-1] <= high
        assert (np.diff(strengths) > 0).all()
        assert (np.diff(values) != 0).all()
        np.testing.assert_array_equal(profile.evaluate(name, strengths), values)
        before = np.nextafter(strengths[1:], -np.inf)
        np.testing.assert_array_equal(profile.evaluate(name, before), values[:-1])
        assert profile.evaluate(name, high) == values[-1]


def test_evaluate_gives_what_it_was_given(rng):
    profile = random_case(rng).profile()
    assert isinstance(profile.evaluate("accuracy", 1), float)
    assert isinstance(profile.evaluate("accuracy", np.float64(1)), float)
    assert profile.evaluate("accuracy", [0, 1]).shape == (2,)
    assert profile.evaluate("accuracy", np.zeros((2, 3))).shape == (2, 3)
    assert profile.evaluate("accuracy", []).shape == (0,)


def test_the_alias_is_the_metric(rng):
    profile = random_case(rng).profile()
    best = profile.best("balanced_accuracy")
    assert profile.best("mean_accuracy") == profile.best("macro_recall") == best


def test_repr_tells_what_it_is(rng):
    case = random_case(rng, 20, 3)
    profile = case.profile()
    n = profile.n_switches
    assert repr(profile) == (f"StrengthProfile(20 samples, 3 classes, {n} switches, bounds=(0, 2))")
    assert repr(case.profile(resolution=0.5)).endswith("bounds=(0, 2), resolution=0.5)")


# ----------------------------------------------------------------------------------- words


@pytest.mark.parametrize("strengths", [-0.1, 2.1, [0.0, 3.0], np.nan, [[np.inf]]])
def test_outside_the_bounds_is_refused(rng, strengths):
    profile = random_case(rng).profile()
    with pytest.raises(OptionError, match="within the bounds of the profile, 0 to 2") as caught:
        profile.evaluate("accuracy", strengths)
    assert "wider `bounds`" in str(caught.value)


def test_counts_outside_the_bounds_are_refused(rng):
    with pytest.raises(OptionError, match=r"Got 2\.5"):
        random_case(rng).profile().counts(2.5)


@pytest.mark.parametrize(
    "metric, sentence",
    [
        ("balanced_acuracy", "Did you mean 'balanced_accuracy'"),
        ("roc_auc", "must be decided by hard labels"),
        ("AUROC", "must be decided by hard labels"),
        ("recall[9]", "must name a class that exists, 0 to 2"),
        ("recal[1]", "Did you mean 'recall'"),
        ("recall[2]", "no sample of class 2"),
        (3, "must be one metric"),
    ],
)
def test_metrics_that_cannot_be_tuned(metric, sentence):
    profile = StrengthProfile.from_scores(np.zeros((2, 3)), [0, 1], source_prior=[0.5, 0.25, 0.25])
    for use in (profile.best, profile.curve):
        with pytest.raises(ValueError, match="must") as caught:
            use(metric)
        assert sentence in str(caught.value)


def test_small_and_large_sets_have_the_same_bins(rng, monkeypatch):
    # Of small sets all switches are binned at once, of large ones some rows' after the others'.
    scores, labels = rng.normal(size=(500, 4)), rng.integers(4, size=500)
    options = {"source_prior": [0.4, 0.3, 0.2, 0.1], "resolution": 0.01}
    small = StrengthProfile.from_scores(scores, labels, **options)
    for name, value in (("HOST_BLOCK", 64), ("GROUPS_PER_PART", 2)):
        monkeypatch.setattr(passes, name, value)
    monkeypatch.setattr(profile_module, "PART_SCORES", 128)
    large = StrengthProfile.from_scores(scores, labels, **options)
    for name, column in small._switches.arrays().items():
        np.testing.assert_array_equal(large._switches.arrays()[name], column)
    np.testing.assert_array_equal(large._counts, small._counts)


def test_weights_beside_which_a_class_disappears_are_refused(rng):
    scores, labels = rng.normal(size=(50, 3)), np.arange(50) % 3
    weight = np.ones(50)
    weight[0] = 1e17
    profile = StrengthProfile.from_scores(
        scores, labels, source_prior=[0.5, 0.3, 0.2], sample_weight=weight
    )
    with pytest.raises(LabelsError, match="`sample_weight` must give every class with labels"):
        profile.best("macro_precision")


@pytest.mark.parametrize("metric", ["gmean", "hmean", "worst_recall"])
def test_a_class_that_lost_its_hits_makes_means_0_whatever_the_weights(metric):
    for seed in range(40):
        rng = np.random.default_rng(seed)
        scores, labels = rng.normal(size=(12, 3)), np.arange(12) % 3
        profile = StrengthProfile.from_scores(
            scores,
            labels,
            source_prior=[0.8, 0.15, 0.05],
            sample_weight=rng.random(12) + 0.1,
            bounds=(0.0, 8.0),
        )
        plain = StrengthProfile.from_scores(
            scores, labels, source_prior=[0.8, 0.15, 0.05], bounds=(0.0, 8.0)
        )
        at = np.linspace(0, 8, 50)
        zero = [bool((plain.counts(x).true_positive == 0).any()) for x in at]
        assert (profile.evaluate(metric, at) == 0).tolist() == zero


def test_a_group_without_labels_is_refused(rng):
    profile = StrengthProfile.from_scores(
        rng.normal(size=(9, 4)), np.arange(9) % 2, source_prior=[0.4, 0.3, 0.2, 0.1]
    )
    rare = find_metric("recall[rare]", n_classes=4, class_groups={"rare": [2, 3]})
    with pytest.raises(OptionError, match=r"'recall\[rare\]', and no sample of classes 2, 3"):
        profile.best(rare)
