"""Reliability in bins that add."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import reprior as rp
from reprior.metrics import (
    Reliability,
    classwise_calibration_error,
    expected_calibration_error,
    reliability_curve,
)
from reprior.metrics.calibration import bin_of, equal_width
from reprior.metrics.reliability import _equal_width_bin

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
