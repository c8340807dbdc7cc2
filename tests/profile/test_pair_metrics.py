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
from reprior.metrics import find_metric, from_confusion
from reprior.profile import Priors, StrengthProfile

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
