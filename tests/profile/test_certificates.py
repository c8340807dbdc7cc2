"""Promised constraints: brute force, exact enumeration, simulations with a known truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import reprior as rp
from reprior.exceptions import InfeasibleError, OptionError
from reprior.metrics import CountMetric
from reprior.profile import Constraint, paired_p_values

GRID = np.arange(201) / 100
SOURCE = np.array([0.6, 0.25, 0.1, 0.05])


def drawn(n, seed=0, source=SOURCE, signal=2.0):
    rng = np.random.default_rng(seed)
    K = source.size
    labels = rng.choice(K, n, p=source)
    scores = rng.normal(size=(n, K)) + signal * np.eye(K)[labels] + np.log(source)
    return scores, labels


def predictions(scores, grid=GRID, source=SOURCE):
    w = -np.log(source.size) - np.log(source)
    return np.stack([np.argmax(scores + strength * w, axis=1) for strength in grid])


def first_passes(p, order, level):
    """The fixed sequence, one test after the other."""
    passed = np.zeros(p.size, bool)
    for i in order:
        if p[i] > level:
            break
        passed[i] = True
    return passed


UP, DOWN = range(GRID.size), range(GRID.size - 1, -1, -1)


def both(p, level=0.05):
    return first_passes(p, UP, level / 2) | first_passes(p, DOWN, level / 2)


def oracle(name, bound, predicted, labels):
    """Which strengths pass, with the p-values of SciPy and one loop per strength."""
    p = []
    for row in predicted:
        kind, _, k = name.rstrip("]").partition("[")
        if kind == "accuracy":
            right, of = np.sum(row == labels), labels.size
        elif kind == "worst_recall":
            each = [stats.binom.sf(np.sum(row[labels == j] == j) - 1, np.sum(labels == j), bound)
                    for j in range(4)]  # fmt: skip
            p.append(each)
            continue
        else:
            mine, said = labels == int(k), row == int(k)
            both_of = np.sum(mine & said)
            right, of = {
                "recall": (both_of, mine.sum()),
                "precision": (both_of, said.sum()),
                "specificity": (np.sum(~mine & ~said), np.sum(~mine)),
                "iou": (both_of, np.sum(mine | said)),
                "f1": (both_of, np.sum(mine | said)),
            }[kind]
        limit = bound / (2 - bound) if kind == "f1" else bound
        p.append(stats.binom.sf(right - 1, of, limit) if of else 1.0)
    p = np.array(p)
    if name == "worst_recall":  # the slopes of classes 0 and 1 are below the mean slope
        losing = first_passes(p[:, :2].max(axis=1), UP, 0.025)
        return losing & first_passes(p[:, 2:].max(axis=1), DOWN, 0.025)
    falls = name in ("recall[0]", "recall[1]", "precision[2]", "precision[3]", "specificity[3]")
    return first_passes(p, UP, 0.05) if falls else both(p)


@pytest.mark.parametrize(
    "name, bound",
    [
        ("accuracy", 0.7), ("recall[0]", 0.8), ("recall[1]", 0.6), ("recall[3]", 0.5),
        ("precision[0]", 0.75), ("precision[3]", 0.3), ("specificity[3]", 0.85),
        ("specificity[0]", 0.6), ("iou[1]", 0.35), ("f1[1]", 0.5), ("worst_recall", 0.45),
    ],
)  # fmt: skip
def test_the_best_of_the_strengths_that_pass(name, bound):
    scores, labels = drawn(3_000)
    predicted = predictions(scores)
    passed = oracle(name, bound, predicted, labels)
    assert passed.any()
    recalls = np.array(
        [[np.mean(row[labels == k] == k) for k in range(4)] for row in predicted]
    ).mean(axis=1)
    profile = rp.StrengthProfile.from_scores(scores, labels, source_prior=SOURCE)
    best = profile.best("balanced_accuracy", subject_to=f"{name} >= {bound}", certify=0.95)
    assert best.certified
    assert best.value == pytest.approx(recalls[passed].max(), abs=1e-14)
    point = round(best.strength * 100)
    assert best.strength == point / 100
    assert passed[point]
    assert recalls[point] == pytest.approx(best.value, abs=1e-14)
    low, high = (round(100 * end) for end in best.interval)
    assert passed[low : high + 1].all()
    assert low <= point <= high


@pytest.mark.parametrize("name, k", [("accuracy", None), ("recall[0]", 0), ("specificity[3]", 3)])
@pytest.mark.parametrize("factor, offset", [(1.0, 0.04), (0.95, 0.0), (0.98, 0.02)])
def test_losses_to_the_baseline_are_counted_sample_by_sample(name, k, factor, offset):
    # Class 0 only loses samples, class 3 only gains: no sample changes twice.
    scores, labels = drawn(3_000, seed=1)
    predicted = predictions(scores)
    mine = np.ones(labels.size, bool) if k is None else labels == k
    right = predicted == labels
    if k == 3:
        mine, right = labels != 3, predicted != 3
    before, after = right[0][mine], right[:, mine]
    gains, losses = (after & ~before).sum(axis=1), (~after & before).sum(axis=1)
    if k is None:  # some change twice, and count as a gain and a loss more
        twice = [((right[: i + 1].any(axis=0)) & ~right[0] & ~right[i]).sum() for i in range(201)]
        gains, losses = gains + twice, losses + twice
    spent, excess = 0.0, offset
    if factor < 1:
        n = before.size
        excess += (1 - factor) * stats.beta.ppf(0.0125, before.sum(), n - before.sum() + 1)
        spent += 0.0125
    w = stats.binom.ppf(0.0125, before.size, excess)
    w += stats.binom.cdf(w, before.size, excess) <= 0.0125
    p = []
    for g, loss in zip(gains, losses, strict=True):
        if loss < w:
            p.append(spent + 0.0125)
        elif 2 * g < g + loss - w + 1:
            p.append(1.0)
        else:
            p.append(spent + 0.0125 + stats.binom.sf(g - 1, g + loss - w, 0.5))
    p[0] = 0.0
    passed = first_passes(np.array(p), UP, 0.05)
    assert 3 < passed.sum() < 201
    profile = rp.StrengthProfile.from_scores(scores, labels, source_prior=SOURCE)
    rule = f"{name} >= {factor} * baseline - {offset}"
    # The strength of the largest share of the rarest class is the largest that passes.
    best = profile.best("recall[3]", subject_to=rule, certify=0.95)
    assert round(100 * best.interval[1]) == np.flatnonzero(passed)[-1]


@pytest.mark.parametrize("c", [0.0, 0.02, 0.1, 0.3])
def test_paired_tests_reject_seldom_where_the_constraint_is_broken(c):
    """All outcomes of 40 samples, with the worst truth that breaks the constraint."""
    n, level = 40, 0.1
    rule = Constraint("", "accuracy", ">=", 1.0, -c)
    gains, losses = (v.ravel() for v in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
    possible = gains + losses <= n
    gains, losses = gains[possible], losses[possible]
    rejects = paired_p_values(gains, losses, n, n, rule, level) <= level
    for q in (0.0, 0.01, 0.05, 0.2, (1 - c) / 2):
        rates = np.array([q, q + c, max(0.0, 1 - 2 * q - c)])
        outcomes = np.stack([gains, losses, n - gains - losses], axis=1)
        chance = stats.multinomial.pmf(outcomes, n, rates / rates.sum())
        assert chance[rejects].sum() <= level


@given(
    gains=st.integers(0, 200), losses=st.integers(0, 200), c=st.floats(0, 0.3),
    n=st.integers(400, 2_000),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_changes_that_are_undone_only_make_it_harder(gains, losses, c, n):
    rule = Constraint("", "accuracy", ">=", 1.0, -c)
    pairs = np.arange(5)
    p = paired_p_values(gains + pairs, losses + pairs, n, n, rule, 0.05)
    rejected = p <= 0.05
    assert (rejected[:-1] >= rejected[1:]).all()
    assert (np.diff(p[rejected]) >= -1e-12).all()


@pytest.mark.parametrize(
    "rule, metric",
    [
        ("recall[0] >= 0.85", "recall[2]"), ("worst_recall >= 0.55", "recall[2]"),
        ("accuracy >= 0.74", "recall[2]"), ("accuracy >= baseline - 0.03", "recall[2]"),
        ("recall[0] >= baseline - 0.05", "recall[2]"), ("precision[2] >= 0.4", "recall[2]"),
    ],
)  # fmt: skip
def test_promises_are_kept(rule, metric):
    """Tuned on 1,000 draws from a population of 40,000, in which the truth is known."""
    source = np.array([0.7, 0.2, 0.1])
    scores, labels = drawn(40_000, seed=3, source=source)
    truth = rp.StrengthProfile.from_scores(scores, labels, source_prior=source)
    limit = Constraint.parse(rule)
    name = limit.metric
    threshold = limit.threshold(truth.evaluate(name, 0.0))
    rng = np.random.default_rng(4)
    broken = broken_uncertified = 0
    n = 100
    for _ in range(n):
        some = rng.integers(labels.size, size=1_000)
        profile = rp.StrengthProfile.from_scores(scores[some], labels[some], source_prior=source)
        try:
            best = profile.best(metric, subject_to=rule, certify=0.9)
            broken += truth.evaluate(name, best.strength) < threshold
            best = profile.best(metric, subject_to=rule)
            broken_uncertified += truth.evaluate(name, best.strength) < threshold
        except InfeasibleError:
            continue
    assert stats.binom.sf(broken - 1, n, 0.1) > 0.01
    assert broken_uncertified > 0.1 * n  # else the constraint does not bind


def test_two_classes():
    source = np.array([0.8, 0.2])
    scores, labels = drawn(4_000, seed=5, source=source)
    profile = rp.StrengthProfile.from_scores(scores, labels, source_prior=source)
    best = profile.best("accuracy", subject_to="worst_recall >= 0.75", certify=0.95)
    counts = profile.counts(best.strength)
    recalls = counts.true_positive / counts.support
    p = stats.binom.sf(counts.true_positive - 1, counts.support, 0.75)
    assert best.certified
    assert p.max() <= 0.025
    assert recalls.min() > 0.75


def test_limits_from_above_and_of_negative_strengths():
    scores, labels = drawn(3_000, seed=6)
    profile = rp.StrengthProfile.from_scores(
        scores, labels, source_prior=SOURCE, bounds=(-1.0, 1.0)
    )
    best = profile.best("balanced_accuracy", subject_to="recall[3] <= 0.6", certify=0.95)
    counts = profile.counts(best.strength)
    assert stats.binom.cdf(counts.true_positive[3], counts.support[3], 0.6) <= 0.025
    # Below 0 the frequent class wins samples back: a switch is undone there.
    best = profile.best("recall[0]", subject_to="recall[3] >= baseline - 0.1", certify=0.95)
    assert -1 < best.strength < 0
    before, after = (profile.counts(s).true_positive[3] for s in (0.0, best.strength))
    assert 0 < before - after < 0.1 * profile.baseline.support[3]
    upper = profile.best("recall[3]", subject_to="recall[0] >= baseline - 0.1", certify=0.95)
    assert 0 < upper.strength < 1


def test_bounds_that_end_at_the_safest_strength_take_the_whole_level():
    scores, labels = drawn(3_000, seed=7)
    profile = rp.StrengthProfile.from_scores(
        scores, labels, source_prior=SOURCE, bounds=(-1.0, 0.0)
    )
    best = profile.best("recall[0]", subject_to="recall[3] >= 0.1", certify=0.95)
    grid = -np.arange(101) / 100
    hits = [np.sum(row[labels == 3] == 3) for row in predictions(scores, grid=grid)]
    p = stats.binom.sf(np.array(hits) - 1, np.sum(labels == 3), 0.1)
    passed = grid[first_passes(p, range(grid.size), 0.05)]
    split = grid[first_passes(p, range(grid.size), 0.025)]
    assert 0 < split.size < passed.size < grid.size
    assert best.strength == passed.min()  # the frequent class wins back samples below 0


def test_only_the_model_itself_where_nothing_else_can_be_promised():
    scores, labels = drawn(200)
    profile = rp.StrengthProfile.from_scores(scores, labels, source_prior=SOURCE)
    best = profile.best("recall[3]", subject_to="accuracy >= baseline - 0.001", certify=0.95)
    assert (best.strength, best.certified) == (0.0, True)


def test_bins_give_the_same_promises():
    scores, labels = drawn(3_000)
    exact = rp.StrengthProfile.from_scores(scores, labels, source_prior=SOURCE)
    for rule in ("recall[0] >= 0.8", "precision[3] >= 0.3", "worst_recall >= 0.45"):
        asked = {"subject_to": rule, "certify": 0.95}
        best = exact.best("balanced_accuracy", **asked)
        for resolution in (0.01, 0.001, 1e-4, 0.01 / 3):
            binned = exact.binned(resolution).best("balanced_accuracy", **asked)
            assert binned.strength == pytest.approx(best.strength)
            assert binned.value == best.value


@pytest.mark.parametrize("bounds", [(0.0, 2.0), (-1.0, 0.0), (-1.0, 2.0)])
def test_precision_of_a_class_that_the_model_never_predicts(bounds):
    """Strengths at which nothing is predicted as the class leave the order of the tests."""
    scores, labels = drawn(4_000, signal=6.0)
    margin = scores[:, 3] - scores[:, :3].max(axis=1)
    scores[:, 3] -= margin.max() + 0.5  # at strength 0 never the largest
    profile = rp.StrengthProfile.from_scores(scores, labels, source_prior=SOURCE, bounds=bounds)
    rule = "precision[3] >= 0.5"
    if bounds[1] == 0:
        with pytest.raises(InfeasibleError, match="at most 0 samples predicted as class 3"):
            profile.best("recall[3]", subject_to=rule, certify=0.95)
        return
    grid = np.arange(round(bounds[0] * 100), 201) / 100
    predicted = np.array([profile.counts(strength).predicted[3] for strength in grid])
    assert predicted[0] == 0
    right = np.array([profile.counts(strength).true_positive[3] for strength in grid])
    p = np.where(predicted > 0, stats.binom.sf(right - 1, predicted, 0.5), 1.0)
    order, halves = (np.flatnonzero(0.5**predicted <= level) for level in (0.05, 0.025))
    expected = first_passes(p, order, 0.05)
    if bounds[0] < 0.0:
        expected = first_passes(p, halves, 0.025) | first_passes(p, halves[::-1], 0.025)
    best = profile.best("recall[3]", subject_to=rule, certify=0.95)
    assert best.certified
    assert expected[round((best.strength - bounds[0]) * 100)]
    values = profile.evaluate("recall[3]", grid)
    assert best.value == values[expected].max() > 0


# ------------------------------------------------------------------------------------- refusals


def refused(rule, certify=0.95, n=400, **options):
    scores, labels = drawn(n)
    profile = rp.StrengthProfile.from_scores(scores, labels, source_prior=SOURCE, **options)
    with pytest.raises(OptionError) as caught:
        profile.best("balanced_accuracy", subject_to=rule, certify=certify)
    return str(caught.value)


@pytest.mark.parametrize("certify", [0, 1, 1.5, -0.1, "0.95", True, float("nan")])
def test_probabilities_outside_0_to_1_are_refused(certify):
    assert "`certify` must be" in refused("recall[0] >= 0.1", certify)


def test_the_level_of_the_test_in_place_of_the_probability_is_refused():
    sentence = refused("recall[0] >= 0.1", 0.05)
    assert sentence.startswith("`certify` must be at least 0.5: it is the probability that the")
    assert sentence.endswith("Got 0.05. Pass 0.95.")


@pytest.mark.parametrize(
    "rule, reason",
    [
        ("balanced_accuracy >= 0.3", "a mean over classes and no share of samples"),
        ("mean_iou >= 0.1", "a mean over classes and no share of samples"),
        ("gmean >= 0.1", "a mean over classes and no share of samples"),
        ("weighted_f1 >= 0.1", "a mean over classes and no share of samples"),
        ("mcc >= 0.1", "depends on all counts at once"),
        ("cohen_kappa >= 0.1", "depends on all counts at once"),
        ("fbeta(2)[1] >= 0.1", "no share of samples, nor a function of one"),
        ("worst_recall <= 0.9", "a promise that some class is bad"),
        ("precision[1] >= baseline - 0.2", "cannot be compared one by one"),
        ("worst_recall >= baseline - 0.2", "cannot be compared one by one"),
        ("accuracy <= baseline + 0.1", "the uncorrected model itself must keep it"),
        ("recall[0] >= 1.1 * baseline - 0.5", "the uncorrected model itself must keep it"),
    ],
)
def test_what_cannot_be_promised_is_refused_with_the_reason(rule, reason):
    sentence = refused(rule)
    assert sentence.startswith("`subject_to` must be of metrics that `certify` can test")
    assert reason in sentence
    assert sentence.endswith("Or leave `certify` out.")


def test_data_that_no_test_is_about_are_refused():
    weight = np.full(400, 0.5)
    assert "each once" in refused("recall[0] >= 0.1", sample_weight=weight)
    for weight in (np.ones(400), np.tile([0.5, 1.5], 200)):
        assert "each once" in refused("recall[0] >= 0.1", sample_weight=weight)
    even = np.repeat(np.arange(200), 2)
    assert "pixels of an image" in refused("recall[0] >= 0.1", image_ids=even)
    assert "must be given with `subject_to`" in refused(None)
    assert "must contain 0" in refused("accuracy >= baseline - 0.1", bounds=(0.5, 1.5))
    target = [0.5, 0.5, 0, 0]
    low = np.nextafter(0, 1)
    rule = "accuracy >= baseline - 0.1"
    assert "rules a class out" in refused(rule, bounds=(low, 2.0), target_prior=target)
    assert "must divide 0.01" in refused("recall[0] >= 0.1", resolution=0.003)
    assert "must be left out to compare" in refused(rule, resolution=0.001)
    assert "a multiple of 0.01" in refused("recall[0] >= 0.1", bounds=(0.502, 0.507))


@pytest.mark.parametrize("resolution", [None, 0.01])
def test_pixels_of_images_are_refused(resolution):
    scores, labels = drawn(400)
    maps = scores.reshape(4, 10, 10, 4).transpose(0, 3, 1, 2)
    profile = rp.StrengthProfile.from_scores(
        maps, labels.reshape(4, 10, 10), source_prior=SOURCE, class_axis=1, resolution=resolution
    )
    for each in (profile, profile.binned(0.01), profile + profile):
        with pytest.raises(OptionError, match="pixels of an image are not drawn independently"):
            each.best("accuracy", subject_to="accuracy >= 0.1", certify=0.95)


def test_the_recall_of_a_class_without_labels_is_not_promised():
    scores, labels = drawn(2_000)
    rest = labels != 2
    profile = rp.StrengthProfile.from_scores(scores[rest], labels[rest], source_prior=SOURCE)
    with pytest.raises(OptionError, match="no label of class 2"):
        profile.best("accuracy", subject_to="worst_recall >= 0.1", certify=0.95)
    assert profile.best("accuracy", subject_to="recall[0] >= 0.1", certify=0.95).certified


def test_classes_that_are_ruled_out_do_not_count():
    scores, labels = drawn(2_000)
    profile = rp.StrengthProfile.from_scores(
        scores, labels, source_prior=SOURCE, target_prior=[0.4, 0.4, 0.2, 0.0],
        bounds=(np.nextafter(0, 1), 2.0),
    )  # fmt: skip
    best = profile.best("recall[2]", subject_to="worst_recall >= 0.4", certify=0.95)
    assert best.strength >= 0.01


def infeasible(rule, n=400, seed=0, **options):
    scores, labels = drawn(n, seed)
    profile = rp.StrengthProfile.from_scores(scores, labels, source_prior=SOURCE, **options)
    with pytest.raises(InfeasibleError) as caught:
        profile.best("balanced_accuracy", subject_to=rule, certify=0.95)
    return caught.value


def test_the_labels_that_are_needed():
    error = infeasible("recall[3] >= 0.9")
    support = np.bincount(drawn(400)[1])[3]
    assert error.labels_needed > support
    assert f"{support} labels of class 3" in str(error)
    assert f"Use about {error.labels_needed:,} labels of class 3" in str(error)
    scores, labels = drawn(4 * 400 * error.labels_needed // support, seed=7)
    more = rp.StrengthProfile.from_scores(scores, labels, source_prior=SOURCE)
    assert more.best("accuracy", subject_to="recall[3] >= 0.9", certify=0.95).certified
    whole = infeasible("accuracy >= 0.8")
    assert whole.labels_needed > 400
    assert "labels, loosen" in str(whole)


def test_what_no_strength_satisfies_on_the_labels_is_refused_by_the_test():
    """Few labels hide nothing of it: that biases might satisfy it is no remedy for a promise."""
    error = infeasible("recall[3] >= 0.999")
    assert "must be possible to promise with" in str(error)
    assert "per_class" not in str(error)
    apart = infeasible(["recall[0] >= 0.95", "recall[3] >= 0.95"])
    assert "must be possible to promise with" in str(apart)


def test_no_number_of_labels_helps_where_the_ends_break_the_constraint():
    error = infeasible("iou[1] >= 0.7", n=3_000)
    assert error.labels_needed is None
    assert "No number of labels helps there" in str(error)


def test_constraints_that_pass_only_apart():
    error = infeasible(["recall[0] >= 0.83", "recall[3] >= 0.79"], n=2_000, seed=1)
    assert "though not with the others at one strength" in str(error)
    assert error.labels_needed > 50


def test_a_metric_of_coefficients_is_recognised():
    scores, labels = drawn(2_000)
    profile = rp.StrengthProfile.from_scores(scores, labels, source_prior=SOURCE)
    own = CountMetric("hits", support=1, average="one", of_class=0)
    rule = Constraint("hits >= 0.8", own, ">=", 0.0, 0.8)
    named = profile.best("recall[3]", subject_to="recall[0] >= 0.8", certify=0.95)
    assert profile.best("recall[3]", subject_to=rule, certify=0.95) == named
