"""Metrics of probabilities, and the reliability bins that add."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk
from tests.metrics.shared import (
    LIBRARIES,
    ROUNDING,
    ROUNDING_32,
    random_samples,
    scored_samples,
    softmax,
)

import reprior as rp
from reprior.exceptions import (
    LabelsError,
    OptionError,
    RepriorError,
    RepriorWarning,
    ScoresError,
)
from reprior.metrics import (
    Reliability,
    brier_score,
    classwise_calibration_error,
    expected_calibration_error,
    log_loss,
    reliability_curve,
    score_blocks,
)
from reprior.metrics.calibration import _equal_width_bin, bin_of, equal_width

METRICS = [log_loss, brier_score, expected_calibration_error, classwise_calibration_error]

CANCELLATION = 1e-13
"""Absolute; a calibration error that is 0 is a difference of sums of numbers up to 1."""

each_metric = pytest.mark.parametrize("metric", METRICS, ids=[m.__name__ for m in METRICS])


def close(expected: float) -> object:
    return pytest.approx(expected, rel=ROUNDING, abs=CANCELLATION)


# ---------------------------------------------------------------------- oracles, slow and plain


def in_bin(value: float, b: int, n_bins: int) -> bool:
    edges = np.linspace(0, 1, n_bins + 1)
    return (value > edges[b] or b == 0) and value <= edges[b + 1]


def slow_ece(probs, labels, weight, n_bins) -> float:
    """Guo et al. 2017, Eq. 3, word for word."""
    error, n = 0.0, sum(weight)
    for b in range(n_bins):
        members = [i for i, row in enumerate(probs) if in_bin(max(row), b, n_bins)]
        mass = sum(weight[i] for i in members)
        if mass:
            right = sum(weight[i] for i in members if np.argmax(probs[i]) == labels[i])
            sure = sum(weight[i] * max(probs[i]) for i in members)
            error += mass / n * abs(right / mass - sure / mass)
    return error


def slow_classwise(probs, labels, weight, n_bins) -> float:
    """Kull et al. 2019, the definition of classwise-ECE, word for word."""
    n, n_classes = sum(weight), len(probs[0])
    error = 0.0
    for k in range(n_classes):
        for b in range(n_bins):
            members = [i for i, row in enumerate(probs) if in_bin(row[k], b, n_bins)]
            mass = sum(weight[i] for i in members)
            if mass:
                actual = sum(weight[i] for i in members if labels[i] == k) / mass
                mean = sum(weight[i] * probs[i][k] for i in members) / mass
                error += mass / n * abs(actual - mean) / n_classes
    return error


def slow_equal_mass(probs, labels, weight, n_bins) -> float:
    """Give every sample, and all as sure as it, the bin in which their last one is."""
    sure = [max(row) for row in probs]
    n = sum(weight)
    bins: dict[int, list[int]] = {}
    for i, c in enumerate(sure):
        before = sum(w for w, other in zip(weight, sure, strict=True) if other < c)
        # The first quantile q·n/B that is not passed by what lies below.
        b = next(q for q in range(1, n_bins + 1) if before * n_bins < q * n)
        bins.setdefault(b, []).append(i)
    error = 0.0
    for members in bins.values():
        right = sum(weight[i] for i in members if np.argmax(probs[i]) == labels[i])
        error += abs(right - sum(weight[i] * sure[i] for i in members)) / n
    return error


bins = st.integers(1, 20)


@given(scored_samples(), bins)
def test_ece_equals_the_slow_oracle(samples, n_bins):
    logits, labels, weight = samples
    probs = softmax(logits)
    found = expected_calibration_error(probs, labels, sample_weight=weight, n_bins=n_bins)
    assert found == close(slow_ece(probs, labels, weight, n_bins))


@given(scored_samples(), bins)
def test_equal_mass_ece_equals_the_slow_oracle(samples, n_bins):
    logits, labels, weight = samples
    probs = softmax(logits)
    found = expected_calibration_error(
        probs, labels, sample_weight=weight, n_bins=n_bins, binning="equal_mass"
    )
    assert found == close(slow_equal_mass(probs, labels, weight, n_bins))


@given(scored_samples(), bins)
def test_classwise_equals_the_slow_oracle(samples, n_bins):
    logits, labels, weight = samples
    probs = softmax(logits)
    found = classwise_calibration_error(probs, labels, sample_weight=weight, n_bins=n_bins)
    assert found == close(slow_classwise(probs, labels, weight, n_bins))


@given(scored_samples())
def test_log_loss_equals_scikit_learn(samples):
    logits, labels, weight = samples
    probs = softmax(logits)
    expected = sk.log_loss(labels, probs, sample_weight=weight, labels=np.arange(logits.shape[1]))
    assert log_loss(logits + 9.0, labels, kind="logits", sample_weight=weight) == close(expected)
    assert log_loss(probs, labels, sample_weight=weight) == close(expected)


@given(scored_samples(min_classes=3))
def test_brier_equals_scikit_learn(samples):
    logits, labels, weight = samples
    probs, classes = softmax(logits), np.arange(logits.shape[1])
    expected = sk.brier_score_loss(labels, probs, sample_weight=weight, labels=classes)
    assert brier_score(probs, labels, sample_weight=weight) == close(expected)
    assert brier_score(probs, labels, sample_weight=weight, scale_by_half=True) == close(
        expected / 2
    )


def test_brier_of_two_classes_equals_scikit_learn():
    logits, labels = random_samples(np.random.default_rng(0), n_classes=2)
    probs = softmax(logits)
    expected = sk.brier_score_loss(labels, probs[:, 1])
    assert brier_score(probs, labels) == close(expected)
    assert brier_score(probs[:, 1], labels) == close(expected)
    assert brier_score(probs, labels, scale_by_half=False) == close(2 * expected)


# --------------------------------------------------------------------------------- identities


@each_metric
@given(samples=scored_samples())
def test_weight_is_repetition(metric, samples):
    logits, labels, weight = samples
    repeated = metric(
        softmax(np.repeat(logits, weight, axis=0)), np.repeat(labels, weight), kind="probs"
    )
    assert metric(softmax(logits), labels, sample_weight=weight) == close(repeated)


@given(scored_samples(), bins)
def test_weight_is_repetition_for_equal_mass(samples, n_bins):
    logits, labels, weight = samples
    probs = softmax(logits)
    options = {"n_bins": n_bins, "binning": "equal_mass"}
    weighted = reliability_curve(probs, labels, sample_weight=weight, **options)
    repeated = reliability_curve(
        np.repeat(probs, weight, axis=0), np.repeat(labels, weight), **options
    )
    np.testing.assert_array_equal(weighted.edges, repeated.edges)
    np.testing.assert_array_equal(weighted.count, repeated.count)


@each_metric
@given(seed=st.integers(0, 2**32 - 1))
def test_permuting_classes_changes_nothing(metric, seed):
    rng = np.random.default_rng(seed)
    logits, labels = random_samples(rng, n=40, n_classes=5)
    probs, order = softmax(logits), rng.permutation(5)
    assert metric(probs[:, np.argsort(order)], order[labels]) == close(metric(probs, labels))


@each_metric
@given(seed=st.integers(0, 2**32 - 1))
def test_permuting_samples_changes_nothing(metric, seed):
    rng = np.random.default_rng(seed)
    logits, labels = random_samples(rng, n=40)
    probs, order = softmax(logits), rng.permutation(40)
    assert metric(probs[order], labels[order]) == close(metric(probs, labels))


@each_metric
def test_perfect_probabilities_cost_nothing(metric):
    labels = np.arange(12) % 3
    assert metric(np.eye(3)[labels], labels) == 0.0


@each_metric
def test_kinds_agree(metric):
    logits, labels = random_samples(np.random.default_rng(0))
    probs = softmax(logits)
    expected = metric(probs, labels)
    assert metric(logits, labels, kind="logits") == close(expected)
    assert metric(np.log(probs), labels, kind="log_probs") == close(expected)


@each_metric
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_one_score_per_sample(metric, shape):
    logits, labels = random_samples(np.random.default_rng(0), n_classes=2)
    probs = softmax(logits)
    expected = metric(probs, labels)
    assert metric(probs[:, 1].reshape(shape), labels) == close(expected)
    margin = (logits[:, 1] - logits[:, 0]).reshape(shape)
    assert metric(margin, labels, kind="logits") == close(expected)
    assert metric(np.log(probs[:, 1]).reshape(shape), labels, kind="log_probs") == close(expected)


@each_metric
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_any_class_axis(metric, axis):
    logits, labels = random_samples(np.random.default_rng(0), n=24)
    probs = softmax(logits)
    cube = np.moveaxis(probs.reshape(4, 6, 4), -1, axis)
    assert metric(cube, labels.reshape(4, 6), class_axis=axis) == close(metric(probs, labels))


@each_metric
def test_ignored_and_weightless_samples_are_left_out(metric):
    logits, labels = random_samples(np.random.default_rng(0))
    probs, marked = softmax(logits), labels.copy()
    marked[::3] = -1
    weight = np.ones(200)
    weight[1::3] = 0.0
    found = metric(probs, marked, ignore_index=-1, sample_weight=weight)
    assert found == close(metric(probs[2::3], labels[2::3]))


@each_metric
def test_blocks_do_not_show(metric, monkeypatch):
    logits, labels = random_samples(np.random.default_rng(0))
    whole = metric(logits, labels, kind="logits")
    monkeypatch.setattr(score_blocks, "BLOCK_SIZE", 12)
    assert metric(logits, labels, kind="logits") == close(whole)


@each_metric
def test_nothing_is_changed(metric):
    logits, labels = random_samples(np.random.default_rng(0))
    probs = softmax(logits)
    before = probs.copy()
    metric(probs, labels)
    np.testing.assert_array_equal(probs, before)


# ------------------------------------------------------------------------------------- honesty


def test_a_true_class_of_probability_0_costs_infinity():
    assert log_loss([[1.0, 0.0], [0.5, 0.5]], [1, 0]) == math.inf
    assert log_loss([[0.0, -math.inf]], [1], kind="logits") == math.inf
    assert log_loss([[0.0, -math.inf]], [1], kind="log_probs") == math.inf
    assert log_loss([1.0], [0]) == math.inf


def test_but_not_where_it_has_no_weight():
    assert log_loss([[1.0, 0.0], [0.5, 0.5]], [1, 0], sample_weight=[0, 1]) == math.log(2)


def test_tiny_probabilities_are_not_clipped():
    assert log_loss([[0.0, -1000.0]], [1], kind="logits") == 1000.0


def test_brier_of_nearly_perfect_probabilities_keeps_its_digits():
    assert brier_score([1e-12], [0]) == pytest.approx(1e-24, rel=1e-9)


def test_rows_that_nearly_sum_to_1_are_renormalised():
    probs = np.array([[0.5, 0.25, 0.2505]])
    assert log_loss(probs, [0]) == close(-math.log(0.5 / 1.0005))
    assert brier_score(probs, [0]) == close(brier_score(probs / probs.sum(), [0]))


@pytest.mark.parametrize("n_bins", [10, 20, 50, 100])
def test_probabilities_on_an_edge_stay_there(n_bins):
    """Forests of 100 trees vote in hundredths: 0.7 belongs to (0.6, 0.7], always."""
    top = np.arange(51, 100) / 100.0
    probs = np.stack([top, (1.0 - top) / 2, (1.0 - top) / 2], axis=1)
    curve = reliability_curve(probs, np.zeros(49, dtype=int), n_bins=n_bins)
    edges = np.arange(n_bins + 1) * (100 // n_bins)
    hundredths = np.arange(51, 100)
    expected = [((hundredths > a) & (hundredths <= b)).sum() for a, b in itertools.pairwise(edges)]
    assert curve.count.tolist() == expected


def test_an_absent_class_counts_in_the_classwise_error():
    # Class 2 has no labels and gets 0.2 on average; classes 0 and 1 miss by 0.1 each.
    probs = np.array([[0.4, 0.4, 0.2], [0.4, 0.4, 0.2]])
    assert classwise_calibration_error(probs, [0, 1]) == close((0.1 + 0.1 + 0.2) / 3)


# --------------------------------------------------------------------------- reliability curve


@pytest.mark.parametrize("binning", ["equal_width", "equal_mass"])
def test_the_curve_holds_every_sample(binning):
    logits, labels = random_samples(np.random.default_rng(0))
    probs = softmax(logits)
    curve = reliability_curve(probs, labels, n_bins=7, binning=binning)
    assert curve.edges.shape == (8,)
    assert (curve.edges[0], curve.edges[-1]) == (0.0, 1.0)
    assert curve.count.sum() == 200
    full = curve.count > 0
    total = (curve.count * curve.accuracy)[full].sum()
    assert total == close((probs.argmax(axis=1) == labels).sum())
    assert (curve.confidence[full] > curve.edges[:-1][full]).all()
    assert (curve.confidence[full] <= curve.edges[1:][full]).all()
    expected = expected_calibration_error(probs, labels, n_bins=7, binning=binning)
    assert curve.expected_calibration_error == expected


def test_empty_bins_are_nan():
    curve = reliability_curve([[0.9, 0.1]], [0], n_bins=4)
    assert np.isnan(curve.accuracy).tolist() == [True, True, True, False]
    assert np.isnan(curve.confidence).tolist() == [True, True, True, False]


def test_equal_mass_bins_have_equal_mass():
    top = np.linspace(0.5, 0.99, 60)
    curve = reliability_curve(top, np.ones(60, dtype=int), n_bins=6, binning="equal_mass")
    assert curve.count.tolist() == [10.0] * 6


def test_equally_sure_samples_share_a_bin():
    top = np.array([0.6] * 5 + [0.9])
    curve = reliability_curve(top, np.ones(6, dtype=int), n_bins=3, binning="equal_mass")
    assert curve.count.tolist() == [5.0, 0.0, 1.0]


# -------------------------------------------------------------------------------------- parity


@each_metric
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library(metric, kind, library):
    array = LIBRARIES[library]
    logits, labels = random_samples(np.random.default_rng(0))
    scores = {"logits": logits, "probs": softmax(logits), "log_probs": np.log(softmax(logits))}
    single = scores[kind].astype(np.float32)
    labels, weight = labels.astype(np.int32), np.linspace(0.5, 2, 200, dtype=np.float32)
    expected = metric(single, labels, kind=kind, sample_weight=weight)
    found = metric(array(single), array(labels), kind=kind, sample_weight=array(weight))
    assert type(found) is float
    assert found == expected
    wide = metric(scores[kind], labels, kind=kind, sample_weight=weight)
    assert found == pytest.approx(wide, rel=50 * ROUNDING_32)


@each_metric
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bits_are_computed_in_32(metric, dtype):
    logits, labels = random_samples(np.random.default_rng(0))
    rounded = torch.as_tensor(logits).to(dtype)
    found = metric(rounded, torch.as_tensor(labels), kind="logits")
    expected = metric(rounded.to(torch.float64), torch.as_tensor(labels), kind="logits")
    assert found == pytest.approx(expected, rel=50 * ROUNDING_32)


def test_rows_of_16_bit_probabilities_are_accepted():
    logits, labels = random_samples(np.random.default_rng(0), n_classes=50)
    probs = torch.as_tensor(softmax(logits)).to(torch.bfloat16)
    assert log_loss(probs, torch.as_tensor(labels)) == pytest.approx(
        log_loss(softmax(logits), labels), rel=1e-2
    )


@each_metric
def test_gradients_are_no_hindrance(metric):
    logits, labels = random_samples(np.random.default_rng(0))
    tensor = torch.tensor(logits, requires_grad=True)
    expected = metric(logits, labels, kind="logits")
    assert metric(tensor, torch.as_tensor(labels), kind="logits") == expected


def test_integer_logits_and_lists():
    expected = math.log1p(math.exp(-1.0))
    assert log_loss([[3, 2]], [0], kind="logits") == close(expected)


# --------------------------------------------------------------------------------------- words


PROBS = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])


@each_metric
@pytest.mark.parametrize(
    "scores, labels, options, error, sentence",
    [
        (PROBS, [0, 1], {"kind": "prob"}, OptionError, r"Did you mean 'probs'\?"),
        (PROBS / 2, [0, 1], {}, ScoresError, r"sum to 1 .* Got scores\[0, :\] with sum 0\.5\."),
        (PROBS - 0.2, [0, 1], {}, ScoresError, r"not be negative .* Got scores\[1, 0\]=-0\.1\."),
        (PROBS * np.nan, [0, 1], {}, ScoresError, r"NaN or \+inf\. Got scores\[0, 0\]=nan\."),
        (PROBS * np.inf, [0, 1], {"kind": "logits"}, ScoresError, r"Got scores\[0, 0\]=inf\."),
        (PROBS, [0, 3], {}, LabelsError, r"from 0 to 2\. Got labels\[1\]=3\."),
        (PROBS, [0.0, 1.0], {}, LabelsError, r"`labels` must be integers"),
        (PROBS, [0, 1, 2], {}, LabelsError, r"one entry per sample\. Got shape \(3,\)"),
        (PROBS, [0, 1], {"class_axis": 2}, OptionError, r"`class_axis` must be an axis"),
        (PROBS, [0, 1], {"class_axis": 0}, LabelsError, r"Check `class_axis`"),
        (PROBS[:0], [], {}, ScoresError, r"at least one sample"),
        (PROBS, [9, 9], {"ignore_index": 9}, LabelsError, r"none of them kept\. Check `ignore_"),
        (PROBS, [0, 1], {"sample_weight": [1, -1]}, LabelsError, r"Got sample_weight\[1\]=-1\."),
        (PROBS, torch.tensor([0, 1]), {}, RepriorError, r"Got numpy and torch\."),
        (np.array([0.5, 1.5]), [0, 1], {}, ScoresError, r"probability\. Got scores\[1\]=1\.5\."),
    ],
)
def test_bad_input_is_refused(metric, scores, labels, options, error, sentence):
    with pytest.raises(error, match=sentence):
        metric(scores, labels, **options)


@pytest.mark.parametrize("n_bins", [0, -1, 1.5, True, "many"])
@pytest.mark.parametrize(
    "function", [expected_calibration_error, classwise_calibration_error, reliability_curve]
)
def test_bad_number_of_bins_is_refused(function, n_bins):
    with pytest.raises(OptionError, match=r"`n_bins` must be an integer of at least 1\. Got"):
        function(PROBS, [0, 1], n_bins=n_bins)


def test_bad_options_are_refused():
    with pytest.raises(OptionError, match=r"Got 'equal_mas'\. Did you mean 'equal_mass'\?"):
        reliability_curve(PROBS, [0, 1], binning="equal_mas")
    with pytest.raises(OptionError, match=r"must be 'auto'\. Got 'yes'\. Or pass True or False\."):
        brier_score(PROBS, [0, 1], scale_by_half="yes")


@pytest.mark.parametrize("function", [*METRICS, reliability_curve], ids=lambda f: f.__name__)
def test_probabilities_called_logits_bring_one_warning_at_the_call(function):
    with pytest.warns(RepriorWarning, match="pass kind='probs'") as caught:
        function(PROBS, [0, 1], kind="logits")
    assert [warning.filename for warning in caught] == [__file__]


SUMS = 1e-12
"""The same terms summed in another order."""


def drawn(seed, n=40, n_classes=4):
    rng = np.random.default_rng(seed)
    posterior = rng.dirichlet(np.full(n_classes, 0.5), n).round(2)
    posterior /= posterior.sum(axis=1, keepdims=True)
    return posterior, rng.integers(n_classes, size=n), rng.integers(0, 3, n).astype(float)


@given(st.integers(0, 200), st.integers(1, 39), st.integers(1, 20), st.booleans())
def test_parts_add_to_the_errors_of_the_whole(seed, cut, bins, heavy):
    posterior, labels, weight = drawn(seed)
    weight[[0, -1]] = 1.0
    weight = weight if heavy else None
    parts = [
        Reliability.from_posterior(
            posterior[part], labels[part], None if weight is None else weight[part], bins=bins
        )
        for part in (slice(0, cut), slice(cut, None))
    ]
    found = parts[0] + parts[1]
    options = {"sample_weight": weight, "n_bins": bins}
    np.testing.assert_allclose(
        [found.ece, found.classwise_ece],
        [
            expected_calibration_error(posterior, labels, **options),
            classwise_calibration_error(posterior, labels, **options),
        ],
        rtol=SUMS,
        atol=SUMS,
    )
    curve, known = found.curve(), reliability_curve(posterior, labels, **options)
    for name in ("edges", "confidence", "accuracy", "count"):
        np.testing.assert_allclose(getattr(curve, name), getattr(known, name), atol=SUMS)


def test_the_curve_of_one_class_is_that_of_two():
    posterior, labels, _ = drawn(3)
    curve = Reliability.from_posterior(posterior, labels, bins=5).curve(2)
    inside = (posterior[:, 2] > 0.2) & (posterior[:, 2] <= 0.4)
    assert curve.count[1] == inside.sum() > 0
    assert curve.confidence[1] == pytest.approx(posterior[inside, 2].mean())
    assert curve.accuracy[1] == pytest.approx((labels[inside] == 2).mean())
    assert curve.count.sum() == len(labels)


def test_any_layout_and_library():
    posterior, labels, weight = drawn(4, n=24)
    known = Reliability.from_posterior(posterior, labels, weight)
    dense = np.moveaxis(posterior.reshape(4, 2, 3, 4), -1, 1)
    ignored = np.where(weight == 0, 9, labels).reshape(4, 2, 3)
    found = Reliability.from_posterior(
        torch.as_tensor(dense),
        torch.as_tensor(ignored),
        torch.as_tensor(weight.reshape(4, 2, 3)),
        class_axis=1,
        ignore_index=9,
    )
    assert found.ece == pytest.approx(known.ece)
    single = Reliability.from_posterior([0.2, 0.9], [0, 1])
    assert (single.n_classes, single.bins) == (2, 15)
    assert single.ece == pytest.approx(0.15)


def test_nothing_is_nan():
    empty = Reliability.empty(3, bins=4)
    assert np.isnan([empty.ece, empty.classwise_ece]).all()
    assert np.isnan(empty.curve().accuracy).all()


def test_words():
    posterior, labels, _ = drawn(0)
    found = Reliability.from_posterior(posterior, labels)
    with pytest.raises(rp.ProfileMismatchError, match="4 and 4 classes, 15 and 3 bins"):
        _ = found + Reliability.empty(4, bins=3)
    with pytest.raises(TypeError):
        _ = found + 1
    with pytest.raises(rp.OptionError, match=r"from 0 to 3. Got 4"):
        found.curve(4)
    with pytest.raises(rp.OptionError, match=r"`bins` must be an integer of at least 1. Got 0"):
        Reliability.from_posterior(posterior, labels, bins=0)
    with pytest.raises(rp.ScoresError, match="must sum to 1"):
        Reliability.from_posterior(posterior / 2, labels)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("bins", [1, 2, 3, 7, 10, 15, 49, 100])
def test_bins_found_by_rounding_are_those_found_by_searching(dtype, bins):
    edges = equal_width(bins)
    near = [np.nextafter(edges.astype(dtype), to, dtype=dtype) for to in (0, 1)]
    values = np.concatenate([edges.astype(dtype), *near, np.linspace(0, 1, 997, dtype=dtype)])
    np.testing.assert_array_equal(_equal_width_bin(values, edges), bin_of(values, edges))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("bins", [1, 7, 15])
@pytest.mark.parametrize("heavy", [False, True])
def test_sums_of_kernels_are_those_of_arrays(request, dtype, bins, heavy):
    posterior, labels, weight = drawn(3, n=3000, n_classes=5)
    posterior = posterior.astype(dtype)
    posterior[::7] = np.eye(5, dtype=dtype)[labels[::7]]  # on the outermost edges
    weights = weight + 0.3 if heavy else np.ones(labels.size)
    found = [Reliability.of_rows(posterior, labels, weights, bins)]
    request.getfixturevalue("without_native")
    found.append(Reliability.of_rows(posterior, labels, weights, bins))
    for name in vars(found[0]):
        np.testing.assert_array_equal(*(getattr(each, name) for each in found), err_msg=name)


def test_rows_of_16_bits_are_normalised():
    posterior, labels, _ = drawn(5)
    short = posterior.astype(np.float16)
    found = Reliability.of_rows(short, labels, np.ones(labels.size))
    assert found.ece == Reliability.from_posterior(short, labels).ece
