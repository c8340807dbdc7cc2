"""Metrics of pairs and of images: equal to predicting again at every strength."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from tests.support.oracles import predictions
from tests.tuning.shared import ROUNDING, cases, exact_cases, rows_of

import reprior as rp
from reprior.core import kernels
from reprior.exceptions import LabelsError, OptionError
from reprior.metrics import find_metric, from_confusion
from reprior.profile import Priors, StrengthProfile, merged

COSTS = np.random.default_rng(7).integers(-5, 40, (7, 7)) / 10
"""Of seven classes: not symmetric, with gains, with right decisions that cost something."""


def mean_cost(labels, predictions, weights, images, k):
    return np.average(COSTS[labels, predictions], weights=weights)


def kappa(scheme):
    def oracle(labels, predictions, weights, images, k):
        with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.nan_to_num(
                cohen_kappa_score(
                    labels,
                    predictions,
                    labels=np.arange(k),
                    weights=scheme,
                    sample_weight=weights,
                ),
                posinf=0.0,
                neginf=0.0,
            )

    return oracle


def per_image(ratio, classes=None):
    """Return the oracle: image by image and class by class."""

    def oracle(labels, predictions, weights, images, k):
        weights = np.ones(len(labels)) if weights is None else weights
        means = []
        for c in range(k) if classes is None else classes:
            values = []
            for image in np.unique(images):
                its = images == image
                tp = weights[its & (labels == c) & (predictions == c)].sum()
                fp = weights[its & (labels != c) & (predictions == c)].sum()
                fn = weights[its & (labels == c) & (predictions != c)].sum()
                if (its & ((labels == c) | (predictions == c))).any():
                    values.append(ratio(tp, fp, fn))
            if values:
                means.append(np.mean(values))
        return np.mean(means)

    return oracle


def dice(tp, fp, fn):
    return 2 * tp / (2 * tp + fp + fn)


def iou(tp, fp, fn):
    return tp / (tp + fp + fn)


def right_by_label(matrices):
    """Return the geometric mean of the (smoothed) recalls: no ratio of linear forms."""
    recalls = (matrices.diagonal(axis1=1, axis2=2) + 1.0) / (matrices.sum(axis=2) + 2.0)
    return np.exp(np.log(recalls).mean(axis=1))


def by_matrix(labels, predictions, weights, images, k):
    matrix = np.zeros((1, k, k))
    np.add.at(matrix[0], (labels, predictions), 1.0 if weights is None else weights)
    return right_by_label(matrix)[0]


def metrics_of(k):
    """Return every metric of pairs or images of k classes, with its oracle."""
    some = {"some": [0, k - 1]}
    named = {
        "cohen_kappa(linear)": kappa("linear"),
        "cohen_kappa(quadratic)": kappa("quadratic"),
        "mean_dice_per_image": per_image(dice),
        "mean_iou_per_image": per_image(iou),
        "mean_dice_per_image[some]": per_image(dice, [0, k - 1]),
        "mean_iou_per_image[1]": per_image(iou, [1]),
    }
    found = [
        (find_metric(name, n_classes=k, class_groups=some), oracle)
        for name, oracle in named.items()
    ]
    cost = rp.Cost(COSTS[:k, :k])
    return [*found, (cost, mean_cost), (from_confusion(right_by_label), by_matrix)]


@st.composite
def with_images(draw, of):
    """Draw a case, and an image for every sample."""
    case = draw(of)
    n = len(case.labels)
    return case, np.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))


def profiled(case, images):
    """Return the profile of an exact case, by its own slopes."""
    k = len(case.slopes)
    prior = np.full(k, 1 / k)
    rows = rows_of(np.asarray(case.scores), case.labels, case.weights, images=images)
    priors = Priors(prior, prior, np.asarray(case.slopes, np.float64), case.bounds)
    return StrengthProfile.of(rows, priors)


@pytest.mark.parametrize("native", [True, False])
@settings(max_examples=20)
@given(drawn=with_images(exact_cases()))
def test_every_metric_equals_predicting_again(native, drawn):
    case, images = drawn
    k = len(case.slopes)
    labels = np.asarray(case.labels)
    with pytest.MonkeyPatch.context() as patch:
        if not native:
            patch.setattr(kernels, "native", None)
        profile = profiled(case, images)
        for metric, oracle in metrics_of(k):
            if not metric.has_labels(profile.baseline.labelled):
                continue
            strengths = case.strengths()
            decided = predictions(case.scores, case.slopes, strengths)
            want = [oracle(labels, each, case.weights, images, k) for each in decided]
            np.testing.assert_allclose(
                profile.evaluate(metric, strengths),
                want,
                rtol=0,
                atol=ROUNDING,
                err_msg=metric.name,
            )
            best = profile.best(metric)
            top = max(want) if metric.greater_is_better else min(want)
            assert best.value == pytest.approx(top, abs=ROUNDING)
            (decided,) = predictions(case.scores, case.slopes, best.strength)
            at_best = oracle(labels, decided, case.weights, images, k)
            assert at_best == pytest.approx(top, abs=ROUNDING)


@settings(max_examples=20)
@given(drawn=with_images(cases(weighted=True)))
def test_weights_weigh_in_every_metric(drawn):
    case, images = drawn
    profile = case.profile(image_ids=images)
    for metric, oracle in metrics_of(profile.n_classes):
        if not metric.has_labels(profile.baseline.labelled):
            continue
        strengths, values = profile.curve(metric)
        ends = np.append(strengths[1:], case.bounds[1])
        inside = np.flatnonzero(ends - strengths > 1e-6)
        for i in inside[:: max(1, inside.size // 10)]:
            at = (strengths[i] + ends[i]) / 2
            counts = profile.counts(at)
            (decided,) = predictions(case.scores, case.slopes, at)
            kept = [np.asarray(each) for each in (case.labels, decided, case.weights, images)]
            want = oracle(*kept, profile.n_classes)
            assert values[i] == pytest.approx(want, abs=ROUNDING)
            assert metric(counts) == pytest.approx(want, abs=ROUNDING)


# ------------------------------------------------------------------ profiles that add and are kept


def labelled(rng, n=300, k=4):
    """Return scores, labels, a prior and the images of the samples."""
    prior = np.array([0.6, 0.2, 0.15, 0.05])[:k]
    prior = prior / prior.sum()
    labels = rng.choice(k, n, p=prior)
    scores = 2.0 * np.eye(k)[labels] + rng.normal(size=(n, k)) + np.log(prior)
    return scores, labels, prior, np.arange(n) // 30


def all_metrics(k=4):
    return [metric for metric, _ in metrics_of(k)]


@pytest.mark.parametrize("bounds", [(0.0, 2.0), (-1.0, 1.0), (0.5, 2.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_profiles_of_parts_add_and_subtract(rng, bounds, weighted):
    scores, labels, prior, images = labelled(rng)
    weights = rng.uniform(0.5, 2.0, labels.size) if weighted else None

    def profile(part):
        return StrengthProfile.from_scores(
            scores[part],
            labels[part],
            source_prior=prior,
            bounds=bounds,
            image_ids=images[part],
            sample_weight=None if weights is None else weights[part],
        )

    first, second = slice(0, 110), slice(110, None)  # an image is divided
    whole, left, right = profile(slice(None)), profile(first), profile(second)
    strengths = np.linspace(*bounds, 40)
    for metric in all_metrics():
        want = whole.evaluate(metric, strengths)
        np.testing.assert_allclose((left + right).evaluate(metric, strengths), want, atol=ROUNDING)
        assert metric((left + right).baseline) == pytest.approx(metric(whole.baseline))
        found = (whole - right).evaluate(metric, strengths)
        np.testing.assert_allclose(found, left.evaluate(metric, strengths), atol=ROUNDING)
    other = StrengthProfile.from_scores(
        scores[second],
        labels[second],
        source_prior=prior,
        bounds=bounds,
        image_ids=images[second] + 1000,
        sample_weight=None if weights is None else weights[second],
    )
    # Of images that the larger profile does not have, only labels and predictions are known.
    assert (whole - other).best("cohen_kappa(linear)").value == pytest.approx(
        left.best("cohen_kappa(linear)").value
    )
    with pytest.raises(LabelsError, match="`image_ids` must say of which image every sample is"):
        (whole - other).best("mean_dice_per_image")


@pytest.mark.parametrize("bounds", [(0.0, 2.0), (-1.0, 1.0)])
def test_profiles_keep_pairs_and_images_in_files(rng, tmp_path, bounds):
    scores, labels, prior, images = labelled(rng)
    profile = StrengthProfile.from_scores(
        scores, labels, source_prior=prior, bounds=bounds, image_ids=images
    )
    profile.save(tmp_path / "profile.npz")
    for loaded in (
        StrengthProfile.load(tmp_path / "profile.npz"),
        StrengthProfile.from_bytes(profile.to_bytes()),
    ):
        for metric in all_metrics():
            assert loaded.best(metric) == profile.best(metric)


def test_every_entry_of_maps_is_an_image(rng):
    scores, labels, prior, images = labelled(rng)
    rows = StrengthProfile.from_scores(scores, labels, source_prior=prior, image_ids=images)
    maps = StrengthProfile.from_scores(
        scores.reshape(10, 5, 6, 4).transpose(0, 3, 1, 2),
        labels.reshape(10, 5, 6),
        source_prior=prior,
        class_axis=1,
    )
    for metric in all_metrics():
        assert maps.best(metric) == rows.best(metric)


@pytest.mark.parametrize("bounds", [(0.0, 2.0), (0.5, 1.5)])
def test_images_without_ids_stay_apart_in_a_sum(rng, bounds, tmp_path):
    scores, labels, prior, _ = labelled(rng)
    maps, of_maps = scores.reshape(10, 30, 4), labels.reshape(10, 30)

    def profile(part, ids=None):
        return StrengthProfile.from_scores(
            maps[part], of_maps[part], source_prior=prior, bounds=bounds, image_ids=ids
        )

    whole, parts = profile(slice(None)), [slice(0, 3), slice(3, 4), slice(4, 10)]
    first, second, third = (profile(part) for part in parts)
    first.save(tmp_path / "first.npz")
    loaded = StrengthProfile.load(tmp_path / "first.npz")
    for total in (
        first + second + third,
        first + (second + third),
        loaded + second + StrengthProfile.from_bytes(third.to_bytes()),
        merged([first, second, third]),
    ):
        for metric in all_metrics():
            assert total.best(metric) == whole.best(metric)
            assert metric(total.baseline) == pytest.approx(metric(whole.baseline))
    # It is not known whether numbers that were given are those that were not.
    mixed = first + profile(slice(3, 10), np.arange(3, 10))
    assert mixed.best("cohen_kappa(linear)") == whole.best("cohen_kappa(linear)")
    less = whole - third
    assert less.best("cohen_kappa(linear)") == (first + second).best("cohen_kappa(linear)")
    for unknown in (mixed, less):
        with pytest.raises(LabelsError, match="`image_ids` must say of which image every sample"):
            unknown.best("mean_dice_per_image")


def test_bins_refuse_metrics_of_pairs_in_words(rng):
    scores, labels, prior, _ = labelled(rng)
    binned = StrengthProfile.from_scores(scores, labels, source_prior=prior, resolution=0.01)
    for metric in (rp.Cost(COSTS[:4, :4]), "cohen_kappa(quadratic)", "mean_dice_per_image"):
        with pytest.raises(OptionError, match="and one that is binned"):
            binned.best(metric)
    exact = StrengthProfile.from_scores(scores, labels, source_prior=prior)
    with pytest.raises(OptionError, match="for a profile without"):
        exact._like(pairs=None).best("cohen_kappa(linear)")
    with pytest.raises(LabelsError, match="samples without images"):
        exact.best("mean_dice_per_image")


def test_a_file_with_other_pairs_than_counts_is_refused(rng, tmp_path):
    scores, labels, prior, images = labelled(rng, 60)
    profile = StrengthProfile.from_scores(scores, labels, source_prior=prior, image_ids=images)
    pairs = profile._pairs.start
    changed = [
        pairs.plus(pairs),
        type(pairs)(pairs.label, pairs.predicted, pairs.count, None, pairs.image + 5),
        pairs.without_images(),
        type(pairs)(pairs.label, pairs.predicted, pairs.count[:-1], None, pairs.image),
    ]
    for each in changed:
        content = profile._like(pairs=type(profile._pairs)(each, each)).to_bytes()
        with pytest.raises(rp.FileFormatError, match="must have"):
            StrengthProfile.from_bytes(content)


# ---------------------------------------------------------------- choices under and by such metrics


def test_constraints_and_fronts_by_costs(rng):
    scores, labels, prior, _ = labelled(rng)
    cost = rp.Cost(COSTS[:4, :4])
    profile = StrengthProfile.from_scores(scores, labels, source_prior=prior)
    least = profile.best(cost)
    limit = (least.value + profile.evaluate(cost, 0.0)) / 2
    limited = profile.best("accuracy", subject_to=(cost, f"<= {limit}"))
    assert profile.evaluate(cost, limited.strength) <= limit
    assert profile.best(cost, subject_to=f"cost <= {limit}") == least
    assert profile.best(cost, subject_to=[(cost, "<= baseline")]) == least
    front = profile.pareto(cost, "accuracy")
    assert front.values_a[0] == least.value
    assert (np.diff(front.values_a) > 0).all()
    assert (np.diff(front.values_b) > 0).all()


def test_a_function_beyond_the_limit_is_evaluated_on_a_grid(rng, monkeypatch):
    from reprior.profile import sweep

    scores, labels, prior, _ = labelled(rng)
    profile = StrengthProfile.from_scores(scores, labels, source_prior=prior)
    exact = profile.best(from_confusion(right_by_label, "exact"))
    monkeypatch.setattr(sweep, "MOST_NUMBERS", 16 * profile.n_switches // 2)
    with pytest.warns(rp.RepriorWarning, match="it is only evaluated on a grid of 0.0"):
        coarse = profile.best(from_confusion(right_by_label, "coarse"))
    assert coarse.value == pytest.approx(exact.value, abs=0.02)


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0], ids=["all pairs", "either", "few pairs"])
@pytest.mark.parametrize("weighted", [False, True])
def test_matrices_of_a_block_follow_those_of_the_last(rng, weighted, share, monkeypatch):
    from reprior.profile import sweep

    k = 9
    prior = rp.prior_from_counts(np.arange(1, k + 1) ** 2)
    labels = rng.integers(0, k, 200)
    scores = np.round(2.0 * np.eye(k)[labels] + rng.normal(size=(200, k)), 1) + np.log(prior)
    weights = rng.uniform(0.5, 2.0, labels.size) if weighted else None
    monkeypatch.setattr(sweep, "MANY_PAIRS", share)
    monkeypatch.setattr(sweep, "NUMBERS_AT_ONCE", 5 * k**2)
    profile = StrengthProfile.from_scores(scores, labels, source_prior=prior, sample_weight=weights)
    metric = from_confusion(right_by_label)
    strengths, values = profile.curve(metric)
    assert strengths.size > 50
    for at, value in zip(strengths, values, strict=True):
        assert metric(profile.counts(at)) == pytest.approx(value, abs=ROUNDING)
    wide = np.flatnonzero(np.diff(strengths) > 1e-9)  # beside ties but for rounding
    middles = (strengths[wide] + strengths[wide + 1]) / 2
    decided = (scores[None] - middles[:, None, None] * (np.log(prior) + np.log(k))).argmax(axis=2)
    want = [by_matrix(labels, each, weights, None, k) for each in decided]
    np.testing.assert_allclose(values[wide], want, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("metric", [0, 1, 2, 6, 7])
@pytest.mark.parametrize("native", [True, False])
def test_biases_are_never_worse_than_the_strength(rng, metric, native, monkeypatch):
    if not native:
        monkeypatch.setattr(kernels, "native", None)
    scores, labels, prior, images = labelled(rng, 120)
    tuned, oracle = metrics_of(4)[metric]
    found = rp.tune_per_class(
        scores, labels, source_prior=prior, metric=tuned, image_ids=images, shrinkage=0
    )
    decided = np.argmax(scores + found.biases, axis=1)
    assert found.value == pytest.approx(oracle(labels, decided, None, images, 4), abs=ROUNDING)
    assert tuned.utility(found.value) >= tuned.utility(found.start_value)
    assert (np.diff(found.history) * tuned.utility(1.0) > 0).all()
    for k in range(4):  # no other bias of one class is better
        for bias in np.linspace(-6, 6, 61):
            other = found.biases.copy()
            other[k] += bias
            value = oracle(labels, np.argmax(scores + other, axis=1), None, images, 4)
            assert tuned.utility(value) <= tuned.utility(found.value) + ROUNDING


def test_biases_under_a_limit_of_costs(rng):
    scores, labels, prior, _ = labelled(rng, 120)
    cost = rp.Cost(COSTS[:4, :4])
    options = {"source_prior": prior, "seed": 0}
    least = rp.tune_per_class(scores, labels, metric=cost, **options)
    found = rp.tune_per_class(
        scores, labels, metric="accuracy", subject_to=(cost, f"<= {least.start_value}"), **options
    )
    decided = np.argmax(scores + found.biases, axis=1)
    assert COSTS[labels, decided].mean() <= least.start_value + ROUNDING


def test_folds_and_replicates_of_such_metrics(rng):
    scores, labels, prior, _ = labelled(rng, 240)
    maps, of_maps = scores.reshape(24, 10, 4), labels.reshape(24, 10)
    cost = rp.Cost(COSTS[:4, :4])
    found = rp.cross_validate(maps, of_maps, source_prior=prior, metric=cost)
    assert not found.greater_is_better
    assert found.gain == found.baseline_score - found.score
    assert found.optimism == found.score - found.best.value
    per_image = rp.cross_validate(maps, of_maps, source_prior=prior, metric="mean_iou_per_image")
    assert 0 < per_image.score <= 1
    bootstrap = rp.StrengthBootstrap.from_scores(maps, of_maps, source_prior=prior, n_replicates=40)
    sure = rp.uncertainty(bootstrap, cost, subject_to="cost <= baseline")
    assert sure.value_interval[0] <= sure.value <= sure.value_interval[1]
    assert sure.gain == pytest.approx(bootstrap.profile.evaluate(cost, 0.0) - sure.value)
    smooth = rp.uncertainty(bootstrap, cost, rule="smooth")
    assert smooth.gain <= sure.gain + ROUNDING
    with pytest.raises(OptionError, match="they repeat samples, not images"):
        bootstrap.replicates("mean_iou_per_image")


def test_blocks_that_are_repeated_keep_their_pairs(rng):
    from reprior.tuning import bootstrap_profiles

    scores, labels, prior, _ = labelled(rng, 240)
    blocks = [
        StrengthProfile.from_scores(scores[i::12], labels[i::12], source_prior=prior)
        for i in range(12)
    ]
    bootstrap = bootstrap_profiles(blocks, n_replicates=25)
    assert bootstrap.standard_error(rp.Cost(COSTS[:4, :4]), 1.0) > 0
