"""The score of biases per class on samples that were not used for tuning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.support import oracles
from tests.tuning.bias_cases import ROUNDING, arrays_only, random_biases
from tests.tuning.shared import assert_same_counts, cases, checked, random_case

import reprior as rp
from reprior import ClassCounts, tune_per_class
from reprior.calibrator.encoding import read_terms
from reprior.calibrator.options import full_problem
from reprior.exceptions import InfeasibleError, LabelsError, OptionError, ScoresError
from reprior.metrics import find_metric
from reprior.profile import Constraint, StrengthProfile
from reprior.tuning import (
    SHRINKAGES,
    fold_counts,
    label_numbers,
    nested_biases,
    per_class,
    select,
    shrunk,
    start_strength,
    stratified_folds,
    tune_biases,
)


def tuned(case, metric="macro_f1", **options):
    settings = {
        "source_prior": case.source,
        "target_prior": case.target,
        "bounds": case.bounds,
        "sample_weight": case.weights,
        "metric": metric,
    }
    return tune_per_class(case.scores, case.labels, **(settings | options))


def value_at(case, metric, biases):
    predictions = (np.asarray(case.scores, np.float64) + biases).argmax(axis=1)
    return rp.metrics.evaluate(
        metric,
        case.labels,
        predictions,
        n_classes=case.source.size,
        sample_weight=case.weights,
    )


# ------------------------------------------------------------------- without regularisation


@settings(max_examples=100)
@given(cases(), st.sampled_from(oracles.METRICS))
def test_never_below_the_best_strength_on_its_own_objective(case, metric):
    found = tuned(case, metric, shrinkage=0)
    profile = case.profile()
    assert found.strength == start_strength(profile, metric, [])
    assert found.value >= profile.best(metric).value - ROUNDING
    assert found.value == pytest.approx(value_at(case, metric, found.biases), abs=ROUNDING)
    assert found.history[0] == found.start_value
    assert found.history[-1] == found.value
    assert (np.diff(found.history) > 0).all()
    assert found.converged


@given(cases(), st.sampled_from(oracles.METRICS))
def test_nor_with_it(case, metric):
    found = tuned(case, metric, n_folds=2)
    assert found.value >= case.profile().best(metric).value - ROUNDING
    assert found.value == pytest.approx(value_at(case, metric, found.biases), abs=ROUNDING)


def test_two_classes_end_where_the_strength_does(rng):
    # One number decides two classes, whether it is called a strength or a bias.
    case = random_case(rng, 300, 2)
    found = tuned(case, "balanced_accuracy", shrinkage=0)
    best = case.profile().best("balanced_accuracy")
    assert found.value == best.value
    np.testing.assert_array_equal(found.biases, best.strength * case.slopes)


def test_it_is_better_where_the_prior_is_wrong(rng):
    case = random_case(rng, 3000, 5)
    shifted = case.scores + np.array([0.0, 2.0, -2.0, 1.0, -1.0])
    case = type(case)(shifted, case.labels, case.source, case.target)
    found = tuned(case, "balanced_accuracy")
    assert found.value > found.start_value + 0.05
    assert found.shrinkage < np.inf


@pytest.mark.parametrize("weighted", [False, True])
def test_array_code_finds_the_same(rng, weighted):
    case = random_case(rng, 400, 6, weighted=weighted)
    if weighted:  # of integers, whose sums do not round
        case = type(case)(
            case.scores, case.labels, case.source, case.target, weights=np.ceil(case.weights)
        )
    compiled = tuned(case)
    with arrays_only():
        arrays = tuned(case)
    np.testing.assert_array_equal(compiled.biases, arrays.biases)
    assert compiled.validated == arrays.validated
    assert (compiled.value, compiled.shrinkage) == (arrays.value, arrays.shrinkage)


# ------------------------------------------------------------------------------ regularised


def test_the_shrinkage_is_the_best_of_the_cross_validated_ones(rng):
    case = random_case(rng, 400, 5)
    found = tuned(case)
    assert tuple(found.validated) == SHRINKAGES
    best = max(found.validated.values())
    assert found.shrinkage == max(k for k, v in found.validated.items() if v == best)
    raw = tuned(case, shrinkage=0)
    labels = np.bincount(case.labels, minlength=5)
    want = shrunk(raw.start, raw.biases, labels, found.shrinkage)
    np.testing.assert_array_equal(found.biases, want)
    np.testing.assert_array_equal(found.history, raw.history)


def test_the_seed_deals_the_folds(rng):
    case = random_case(rng, 200, 4)
    assert tuned(case, seed=1).validated == tuned(case, seed=1).validated
    assert tuned(case, seed=1).validated != tuned(case, seed=2).validated


@pytest.mark.parametrize("shrinkage", [0, 1, 10.0, 1e9, np.inf])
def test_a_given_shrinkage_is_taken(rng, shrinkage):
    case = random_case(rng, 300, 4)
    found = tuned(case, shrinkage=shrinkage)
    assert found.shrinkage == shrinkage
    assert found.validated == {}
    if shrinkage > 1e6:
        np.testing.assert_allclose(found.biases, found.start, atol=1e-6)
        assert found.value == found.start_value


def test_a_shrinkage_that_is_worse_than_the_start_is_not_taken(rng):
    for seed in range(200):
        case = random_case(np.random.default_rng(seed), 12, 4)
        found = tuned(case, "accuracy", shrinkage=5.0)
        raw = tuned(case, "accuracy", shrinkage=0)
        labels = np.bincount(case.labels, minlength=4)
        half_way = value_at(case, "accuracy", shrunk(raw.start, raw.biases, labels, 5.0))
        if half_way < found.start_value - ROUNDING:
            assert found.shrinkage == np.inf
            assert found.value == found.start_value
            return
    pytest.fail("no such case among 200")


def test_a_class_without_labels_stays_unless_the_raw_maximum_is_asked_for(rng):
    case = random_case(rng, 200, 4)
    labels = np.where(case.labels == 3, 0, case.labels)
    case = type(case)(case.scores + np.array([0, 0, 0, 3.0]), labels, case.source, case.target)
    for shrinkage in ("cv", 10.0):
        found = tuned(case, "mean_iou", shrinkage=shrinkage)
        assert found.biases[3] == found.start[3]
    raw = tuned(case, "mean_iou", shrinkage=0)
    assert raw.biases[3] < raw.start[3]


def test_a_part_of_many_samples_is_cross_validated(rng, monkeypatch):
    case = random_case(rng, 300, 4)
    whole = tuned(case)
    monkeypatch.setattr(per_class, "CROSS_VALIDATED", 100)
    part = tuned(case)
    np.testing.assert_array_equal(part.history, whole.history)
    assert part.validated != whole.validated


def images_with_offsets(rng, n_images=8, n_pixels=60):
    """Images whose every pixel is shifted alike: pixels of one image tell of one another."""
    labels = rng.integers(3, size=(n_images, n_pixels))
    scores = 1.5 * np.eye(3)[labels] + rng.normal(size=(n_images, n_pixels, 3))
    return scores + 2.0 * rng.normal(size=(n_images, 1, 3)), labels


def test_images_stay_whole_in_the_folds_of_the_shrinkage(rng, monkeypatch):
    scores, labels = images_with_offsets(rng)
    labels[0, ::2] = 255
    image_of = {tuple(z): i for i, image in enumerate(scores) for z in image}
    seen = []

    def spied(data, folds, tuned):
        own = np.array([image_of[tuple(z)] for z in data.rows])
        seen.extend(len(set(folds[own == i].tolist())) for i in range(len(scores)))
        return fold_counts(data, folds, tuned)

    monkeypatch.setattr(per_class, "fold_counts", spied)
    options = {"source_prior": [0.5, 0.3, 0.2], "ignore_index": 255, "metric": "macro_f1"}
    whole = tune_per_class(scores, labels, **options)
    monkeypatch.setattr(per_class, "CROSS_VALIDATED", 200)  # and of a part of the pixels too
    tune_per_class(scores, labels, **options)
    assert seen == [1] * 16
    # Dealt out by pixel, biases seem to hold for others that do not.
    flat = tune_per_class(scores.reshape(-1, 3), labels.reshape(-1), **options)
    assert max(flat.validated.values()) > max(whole.validated.values())


def test_one_image_cannot_be_cross_validated(rng):
    scores, labels = images_with_offsets(rng, n_images=1)
    found = tune_per_class(scores, labels, source_prior=[0.5, 0.3, 0.2])
    assert (found.shrinkage, found.validated) == (np.inf, {})
    given = tune_per_class(scores, labels, source_prior=[0.5, 0.3, 0.2], shrinkage=10.0)
    assert given.value > found.value


def test_one_sample_cannot_be_cross_validated():
    found = tune_per_class(np.array([[0.0, 1.0, 2.0]]), [1], source_prior=[0.5, 0.3, 0.2])
    assert found.shrinkage == np.inf
    assert found.validated == {}


def test_a_class_asked_for_by_name_may_be_missing_in_a_fold(rng):
    case = random_case(rng, 60, 3)
    labels = np.where(case.labels == 2, 0, case.labels)
    labels[7] = 2
    case = type(case)(case.scores, labels, case.source, case.target)
    found = tuned(case, "accuracy", subject_to="recall[2] >= 1")
    assert value_at(case, "recall[2]", found.biases) == 1.0


# ------------------------------------------------------------------------------ constraints


def test_constraints_hold_at_the_biases(rng):
    case = random_case(rng, 500, 5)
    rules = ["accuracy >= baseline - 0.02", "recall[4] >= 0.6"]
    found = tuned(case, "balanced_accuracy", subject_to=rules)
    baseline = value_at(case, "accuracy", np.zeros(5))
    assert value_at(case, "accuracy", found.biases) >= baseline - 0.02 - ROUNDING
    assert value_at(case, "recall[4]", found.biases) >= 0.6 - ROUNDING
    assert found.value >= case.profile().best("balanced_accuracy", subject_to=rules).value


def test_biases_may_satisfy_what_no_strength_does(rng):
    case = random_case(rng, 400, 4)
    profile = case.profile()
    tops = [profile.best(f"recall[{k}]").value for k in range(4)]
    middle = profile.evaluate("recall[1]", 1.0)
    rules = [f"recall[1] >= {middle + 0.15}", f"recall[3] >= {tops[3] - 0.1}"]
    with pytest.raises(InfeasibleError):
        profile.best("accuracy", subject_to=rules)
    found = tuned(case, "accuracy", subject_to=rules)
    assert found.history[0] < 0 < found.value
    assert found.start_value == pytest.approx(value_at(case, "accuracy", found.start))
    for rule in rules:
        name, _, threshold = rule.split()
        assert value_at(case, name, found.biases) >= float(threshold) - ROUNDING


def test_one_image_keeps_its_constraints():
    scores, labels = images_with_offsets(np.random.default_rng(5), n_images=1, n_pixels=300)
    rules = [f"recall[{k}] >= 0.55" for k in range(3)]
    options = {"source_prior": [0.5, 0.3, 0.2], "subject_to": rules}
    found = tune_per_class(scores, labels, **options)
    assert found.history[0] < 0  # no strength keeps them

    def recalls(biases):
        predicted = (scores[0] + biases).argmax(axis=1)
        return [(predicted[labels[0] == k] == k).mean() for k in range(3)]

    assert min(recalls(found.biases)) >= 0.55
    assert found.value == pytest.approx(np.mean(recalls(found.biases)), abs=ROUNDING)
    # As near to the start as keeps them: a step nearer would not.
    raw = tune_per_class(scores, labels, **options, shrinkage=0)
    further = SHRINKAGES[SHRINKAGES.index(found.shrinkage) + 1]
    nearer = shrunk(raw.start, raw.biases, np.bincount(labels[0]), further)
    assert min(recalls(nearer)) < 0.55


RECALL, PRECISION, IOU, F1 = range(4)


def on_a_grid(scores, labels, step=0.2, reach=8.0):
    """Recall, precision, IoU and F1 of three classes, (4, 3, M), at a grid of biases."""
    grid = np.arange(-reach, reach, step)
    found = []
    for bias in grid:
        rest = np.maximum(scores[:, 0], scores[:, 1] + bias)
        first = (scores[:, 1] + bias > scores[:, 0]).astype(int)
        last = grid[:, None] > rest - scores[:, 2]
        predicted = np.where(last, 2, first)
        for row in predicted:
            found.append(np.bincount(3 * labels + row, minlength=9).reshape(3, 3))
    matrix = np.array(found, float)
    hits, support = np.diagonal(matrix, axis1=1, axis2=2).T, matrix.sum(axis=2).T
    guessed = matrix.sum(axis=1).T
    precision = hits / np.maximum(guessed, 1)
    return np.array(
        [
            hits / support,
            precision,
            hits / (support + guessed - hits),
            2 * hits / (support + guessed),
        ]
    )


def drawn_problem(seed):
    """Scores of a wrong prior, and limits that some drawn biases keep."""
    rng = np.random.default_rng(seed)
    prior = np.array([0.8, 0.15, 0.05])
    labels = rng.choice(3, 400, p=prior)
    scores = 1.2 * rng.normal(size=(400, 3)) + 2 * np.eye(3)[labels] + np.log(prior)
    scores += rng.normal(size=3) * 1.5
    predicted = (scores + 1.5 * rng.normal(size=3)).argmax(axis=1)
    names = ["recall[2]", "precision[2]", "recall[1]"][: 1 + seed % 3]
    values = [rp.metrics.evaluate(name, labels, predicted, n_classes=3) - 1e-3 for name in names]
    if seed % 5 == 0:
        names, values = ["recall[2]"], [0.9]
    return scores, labels, prior, list(zip(names, values, strict=True))


@pytest.mark.parametrize("seed", [3, 5, 20, 28, 32, 35, 51, 60])
def test_under_constraints_biases_are_as_good_as_the_best_of_a_grid(seed):
    """Feasible wherever the grid is, and never more than 0.005 below it."""
    scores, labels, prior, limits = drawn_problem(seed)
    metric, row = (("mean_iou", IOU), ("macro_f1", F1))[seed % 2]
    values = on_a_grid(scores, labels)
    rows = {"recall": RECALL, "precision": PRECISION}
    allowed = np.ones(values.shape[2], bool)
    for name, limit in limits:
        ratio, _, label = name.rstrip("]").partition("[")
        allowed &= values[rows[ratio], int(label)] >= limit
    rules = [f"{name} >= {limit}" for name, limit in limits]
    found = tune_per_class(
        scores, labels, source_prior=prior, metric=metric, subject_to=rules, shrinkage=0
    )
    assert allowed.any()
    assert found.value >= values[row].mean(axis=0)[allowed].max() - 0.005
    predicted = (scores + found.biases).argmax(axis=1)
    for name, limit in limits:
        assert rp.metrics.evaluate(name, labels, predicted, n_classes=3) >= limit
    assert found.value == pytest.approx(rp.metrics.evaluate(metric, labels, predicted, n_classes=3))
    assert (np.diff(found.history) > 0).all()


def test_three_constraints_that_one_start_does_not_satisfy():
    rng = np.random.default_rng(51)
    prior = np.array([0.8, 0.15, 0.05])
    labels = rng.choice(3, 400, p=prior)
    scores = 1.2 * rng.normal(size=(400, 3)) + 2 * np.eye(3)[labels] + np.log(prior)
    scores += rng.normal(size=3) * 1.5
    rules = ["recall[2] >= 0.294", "precision[2] >= 0.714", "recall[1] >= 0.366"]
    found = tune_per_class(scores, labels, source_prior=prior, metric="macro_f1", subject_to=rules)
    assert found.value > 0


def test_starts_are_drawn_where_the_others_fail(monkeypatch, rng):
    case = random_case(rng, 60)
    tried = []
    ascent = per_class._Work.ascent

    def counted(self, *args, **options):
        tried.append(options.get("begin"))
        return ascent(self, *args, **options)

    monkeypatch.setattr(per_class._Work, "ascent", counted)
    with pytest.raises(InfeasibleError, match="no biases were found"):
        tuned(case, subject_to="accuracy >= 0.999", shrinkage=0)
    assert sum(begin is not None for begin in tried) == 1 + per_class.DRAWN_STARTS


def test_what_no_biases_satisfy_is_answered_with_the_nearest(rng):
    case = random_case(rng, 200, 3)
    with pytest.raises(InfeasibleError, match="no biases were found to satisfy") as caught:
        tuned(case, "accuracy", subject_to=["accuracy >= 1.5", "recall[0] >= 0"])
    error = caught.value
    best = value_at(case, "accuracy", error.biases)
    assert error.shortfall == pytest.approx(1.5 - best)
    assert f"miss 'accuracy >= 1.5' by {1.5 - best:.3g}. Loosen" in str(error)
    assert error.strength == pytest.approx(case.profile().best("accuracy").strength)


def test_names_of_classes_are_resolved_by_the_caller(rng):
    case = random_case(rng, 200, 3)
    names = ["road", "sky", "traffic light"]
    given = checked(case.scores, case.labels, source_prior=case.source)
    rule = Constraint.parse("recall[traffic light] >= 0.8").resolved(n_classes=3, classes=names)
    metric = find_metric("accuracy", n_classes=3)
    found = tune_biases(*given, 1.0, metric=metric, constraints=[rule])
    assert value_at(case, "recall[2]", found.biases) >= 0.8 - ROUNDING
    assert found.strength == 1.0


def test_folds_begin_where_the_rule_says(rng):
    case = random_case(rng, 300, 4)
    given = checked(case.scores, case.labels, source_prior=case.source)
    metric = find_metric("accuracy", n_classes=4)
    raw, careful = (
        tune_biases(*given, 1.0, metric=metric, rule=rule).validated for rule in ("max", "one_se")
    )
    folds = stratified_folds(case.labels, 5, np.random.default_rng(0))
    predicted = np.empty_like(case.labels)
    for k in range(5):
        rest = case.rows(folds != k)
        strength = select(rest.profile(), "accuracy", "one_se").strength
        test = case.rows(folds == k)
        predicted[folds == k] = (test.scores + strength * case.slopes).argmax(axis=1)
    assert careful[np.inf] == pytest.approx((predicted == case.labels).mean(), abs=ROUNDING)
    assert careful != raw


# ------------------------------------------------------------------------------------ input


def test_any_layout_kind_and_left_out_samples(rng):
    case = random_case(rng, 240, 4)
    want = tuned(case, shrinkage=0)
    options = {"source_prior": case.source, "metric": "macro_f1", "shrinkage": 0}
    images = case.scores.reshape(10, 24, 4)
    marked = np.where(np.arange(240) % 5 == 0, 255, case.labels).reshape(10, 24)
    kept = np.arange(240) % 5 != 0
    less = tuned(case.rows(kept), shrinkage=0)
    for scores, axis in ((images, -1), (np.moveaxis(images, -1, 1), 1)):
        found = tune_per_class(scores, case.labels.reshape(10, 24), class_axis=axis, **options)
        np.testing.assert_array_equal(found.biases, want.biases)
        found = tune_per_class(scores, marked, class_axis=axis, ignore_index=255, **options)
        np.testing.assert_array_equal(found.biases, less.biases)
    probs = rp.rebalance(case.scores, case.source, strength=0.0)
    for kind, scores in (("probs", probs), ("log_probs", np.log(probs))):
        found = tune_per_class(scores, case.labels, kind=kind, **options)
        assert found.value == pytest.approx(want.value, abs=0.01)


def test_one_score_for_two_classes(rng):
    case = random_case(rng, 200, 2)
    single = case.scores[:, 1] - case.scores[:, 0]
    found = tune_per_class(single, case.labels, source_prior=case.source, shrinkage=0)
    want = tuned(case, "balanced_accuracy", shrinkage=0)
    assert found.value == want.value


def test_a_target_prior_of_0_keeps_its_class_out(rng):
    case = random_case(rng, 200, 4)
    labels = np.where(case.labels == 2, 0, case.labels)
    target = np.array([0.4, 0.3, 0.0, 0.3])
    found = tune_per_class(case.scores, labels, source_prior=case.source, target_prior=target)
    assert found.biases[2] == -np.inf
    assert np.isfinite(np.delete(found.biases, 2)).all()


def test_at_strength_0_a_class_of_target_prior_0_does_not_move(rng):
    case = random_case(rng, 60, 3)
    given = checked(
        case.scores, case.labels, source_prior=case.source, target_prior=[0.5, 0.5, 0.0]
    )
    metric = find_metric("accuracy", n_classes=3)
    found = tune_biases(*given, 0.0, metric=metric, shrinkage=0)
    assert found.start.tolist() == [0.0, 0.0, 0.0]
    assert found.biases[2] == 0.0


def test_rounds_can_be_limited(rng):
    case = random_case(rng, 500, 6)
    short, full = tuned(case, shrinkage=0, max_cycles=1), tuned(case, shrinkage=0)
    assert (short.n_cycles, short.converged) == (1, False)
    assert full.converged
    assert short.history.tolist() == full.history[: short.history.size].tolist()


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"shrinkage": -1}, OptionError, "`shrinkage` must be a finite number of at least 0"),
        ({"shrinkage": "auto"}, OptionError, "Or pass 'cv', or inf."),
        ({"shrinkage": np.nan}, OptionError, "`shrinkage` must be a finite number"),
        ({"n_folds": 1}, OptionError, "`n_folds` must be an integer of at least 2. Got 1."),
        ({"n_folds": 2.5}, OptionError, "`n_folds` must be an integer of at least 2. Got 2.5."),
        ({"max_cycles": 0}, OptionError, "`max_cycles` must be an integer of at least 1. Got 0."),
        ({"max_cycles": True}, OptionError, "`max_cycles` must be an integer"),
        ({"metric": "auroc"}, OptionError, "must be decided by hard labels"),
        ({"metric": "recall[9]"}, LabelsError, "must name a class that exists"),
        ({"subject_to": "accuracy > 0.5"}, OptionError, "must read like 'mean_iou >= baseline"),
        ({"subject_to": "recall[9] >= 0.5"}, LabelsError, "must name a class that exists"),
    ],
)
def test_wrong_options_are_refused(rng, options, error, words):
    with pytest.raises(error) as caught:
        tuned(random_case(rng, 20, 3), **options)
    assert words in str(caught.value)


def test_wrong_scores_are_refused(rng):
    case = random_case(rng, 20, 3)
    case.scores[7, 1] = np.nan
    with pytest.raises(ScoresError, match=r"NaN or \+inf. Got scores\[7, 1\]"):
        tuned(case)


def test_a_second_start_may_find_better_biases_under_constraints():
    rng, p, n_classes = np.random.default_rng(38), np.array([0.6, 0.25, 0.1, 0.05]), 4
    n = int(rng.integers(40, 160))
    labels = rng.choice(n_classes, n, p=p)
    labels[:n_classes] = range(n_classes)
    scores = 1.2 * rng.normal(size=(n, n_classes)) + 2 * np.eye(n_classes)[labels] + np.log(p)
    scores += rng.normal(size=n_classes) * 1.5
    kept = (scores + rng.normal(size=n_classes) * 2).argmax(axis=1)  # satisfies what is asked for
    limits = []
    for k in (3, 2):
        limits.append(f"recall[{k}] >= {np.mean(kept[labels == k] == k) - 0.001:.6f}")
        limits.append(f"precision[{k}] >= {np.mean(labels[kept == k] == k) - 0.001:.6f}")
    found = tune_per_class(
        scores, labels, source_prior=p, metric="mean_iou", subject_to=limits, shrinkage=0
    )
    predicted = (scores + found.biases).argmax(axis=1)
    for limit in limits:
        name, bound = limit.split(" >= ")
        assert rp.metrics.evaluate(name, labels, predicted, n_classes=4) >= float(bound)
    assert found.value == rp.metrics.evaluate("mean_iou", labels, predicted, n_classes=4)
    assert found.value > rp.metrics.evaluate("mean_iou", labels, kept, n_classes=4)


NUMBERS = hnp.arrays(np.float64, 4, elements=st.floats(-3, 3))
LABELS = hnp.arrays(np.int64, 4, elements=st.integers(0, 50))


def differences(biases):
    return biases[:, None] - biases


@given(NUMBERS, NUMBERS, LABELS)
def test_none_leaves_the_biases_and_all_returns_to_the_start(start, biases, labels):
    np.testing.assert_array_equal(shrunk(start, biases, labels, 0.0), biases)
    np.testing.assert_array_equal(shrunk(start, biases, labels, np.inf), start)


@given(NUMBERS, NUMBERS, LABELS, st.floats(0.1, 100), st.floats(-5, 5))
def test_a_constant_added_to_all_biases_changes_nothing(start, biases, labels, shrinkage, more):
    a, b = (shrunk(start, x, labels, shrinkage) for x in (biases, biases + more))
    np.testing.assert_allclose(differences(a), differences(b), atol=1e-12)


@given(NUMBERS, NUMBERS, LABELS, st.floats(0.1, 100))
def test_every_class_goes_its_share_of_the_way(start, biases, labels, shrinkage):
    moved = shrunk(start, biases, labels, shrinkage) - start
    share = labels / (labels + shrinkage)
    assert moved[labels == 0].tolist() == [0.0] * np.count_nonzero(labels == 0)
    # Differences of what each class would have gone are those of the tuned biases.
    there = labels > 0
    gone = moved[there] / share[there]
    np.testing.assert_allclose(differences(gone), differences((biases - start)[there]), atol=1e-9)
    assert moved.sum() == pytest.approx(0.0, abs=1e-9)


def test_equal_numbers_of_labels_shrink_alike():
    start, biases = np.array([0.0, 1.0]), np.array([0.5, 3.5])
    got = shrunk(start, biases, np.array([30, 30]), 10.0)
    np.testing.assert_allclose(got[1] - got[0], 1.0 + 0.75 * 2.0)


def test_a_class_out_of_play_stays_there_and_does_not_count():
    start = np.array([0.0, -np.inf, 1.0])
    biases = np.array([1.0, -np.inf, 4.0])
    got = shrunk(start, biases, np.array([9, 9, 9]), 9.0)
    assert got[1] == -np.inf
    np.testing.assert_allclose(got[[0, 2]], [0.5 * -1, 1.0 + 0.5 * 1])


def test_no_labels_at_all_is_the_start():
    start, biases = np.zeros(2), np.array([1.0, 2.0])
    np.testing.assert_array_equal(shrunk(start, biases, np.zeros(2), 3.0), start)


def test_labels_are_counted_by_weight(rng):
    case = random_biases(rng, 50, 4, absent=1)
    want = np.bincount(case.labels, minlength=4)
    np.testing.assert_array_equal(label_numbers(case.data), want)
    same = type(case)(case.scores, case.labels, case.start, np.full(50, 2.5))
    np.testing.assert_allclose(label_numbers(same.data), want)
    uneven = np.where(np.arange(50) == np.flatnonzero(case.labels == 0)[0], 1e6, 1.0)
    one = type(case)(case.scores, case.labels, case.start, uneven)
    assert label_numbers(one.data)[0] == pytest.approx(1.0, abs=1e-4)


def test_held_out_counts_are_of_biases_tuned_without_them(rng):
    case = random_biases(rng, 60, 3)
    data, folds = case.data, np.arange(60) % 3

    def tuned(rest):
        assert rest.n_samples == 40
        return np.zeros(3), np.bincount(rest.labels, minlength=3) / 10.0

    got = fold_counts(data, folds, tuned)
    assert len(got) == len(SHRINKAGES)
    for shrinkage, counts in zip(SHRINKAGES, got, strict=True):
        predictions = np.empty(60, np.int64)
        for fold in range(3):
            labels = np.bincount(case.labels[folds != fold], minlength=3)
            biases = shrunk(np.zeros(3), labels / 10.0, labels, shrinkage)
            test = folds == fold
            predictions[test] = (case.scores[test] + biases).argmax(axis=1)
        want = ClassCounts.from_predictions(case.labels, predictions, n_classes=3)
        assert_same_counts(counts, want)


PRIOR = np.array([0.6, 0.3, 0.1])
BOUNDS = (0.0, 2.0)


def case(n=240, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    logits = rng.normal(size=(n, 3)) + 1.5 * np.eye(3)[labels] + np.log(PRIOR) + [0.0, 0.8, -0.5]
    return logits, labels


def nested(logits, labels, folds, weight=None, ignore=None, **options):
    calibrator = rp.PosteriorCalibrator(PRIOR, tune="per_class", **options)
    problem = full_problem(calibrator, read_terms(calibrator, None))
    samples, priors = checked(
        logits,
        labels,
        weight,
        source_prior=PRIOR,
        target_prior=problem.target_prior,
        bounds=BOUNDS,
        ignore_index=ignore,
    )
    profile = StrengthProfile.of(samples, priors)
    best = profile.best(problem.metric)
    return nested_biases(samples, priors, folds, problem, best=best, profile=profile)


@pytest.mark.parametrize("weighted", [False, True])
def test_each_fold_is_predicted_by_what_was_tuned_without_it(weighted):
    logits, labels = case()
    folds = np.arange(labels.size) % 3
    weight = np.random.default_rng(1).integers(1, 4, labels.size) * 1.0 if weighted else None
    found = nested(logits, labels, folds, weight, metric="macro_f1")
    predicted = np.empty_like(labels)
    for k in range(3):
        rest = folds != k
        part = None if weight is None else weight[rest]
        tuned = rp.tune_per_class(
            logits[rest], labels[rest], source_prior=PRIOR, metric="macro_f1", sample_weight=part
        )
        assert found.strengths[k] == tuned.strength
        predicted[~rest] = (logits[~rest] + tuned.biases).argmax(1)
        own = None if weight is None else weight[~rest]
        assert found.scores[k] == pytest.approx(
            rp.metrics.evaluate(
                "macro_f1", labels[~rest], predicted[~rest], n_classes=3, sample_weight=own
            )
        )
    expected = rp.metrics.evaluate("macro_f1", labels, predicted, sample_weight=weight)
    assert found.score == pytest.approx(expected)
    plain = rp.metrics.evaluate("macro_f1", labels, logits.argmax(1), sample_weight=weight)
    assert found.baseline_score == pytest.approx(plain)


def test_ignored_samples_are_in_no_fold():
    logits, labels = case(80)
    marked = labels.copy()
    marked[::5] = 9
    kept = marked != 9
    folds = np.arange(labels.size) % 2
    a = nested(logits, marked, folds, ignore=9)
    b = nested(logits[kept], labels[kept], folds[kept])
    assert (a.score, a.strengths) == (b.score, b.strengths)


def test_biases_begin_where_no_strength_is_feasible():
    logits, labels = case(120)
    rule = ["recall[0] >= 0.72", "recall[1] >= 0.72", "recall[2] >= 0.55"]
    folds = np.arange(labels.size) % 2
    with pytest.raises(InfeasibleError):
        rp.PosteriorCalibrator(PRIOR, subject_to=rule).fit(logits, labels)
    assert nested(logits, labels, folds, subject_to=rule).score > 0.6


def test_without_slopes_the_biases_begin_at_0():
    logits, labels = case(120)
    found = nested(logits, labels, np.arange(labels.size) % 2, target_prior=PRIOR)
    assert found.strengths == (1.0, 1.0)
    assert found.gain > 0


def test_one_fold_leaves_nothing_to_tune_on():
    logits, labels = case(30)
    with pytest.raises(OptionError, match=r"at least two folds with samples\. Got 1"):
        nested(logits, labels, np.zeros(30, int))
