from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.support.backends import EXACT, WIDE_BACKENDS, library_of, priors

from reprior import (
    LabelsError,
    OptionError,
    PriorError,
    RepriorError,
    RepriorWarning,
    prior_from_counts,
    prior_from_labels,
)
from reprior.core import as_prior, as_target_prior, slopes

COUNTS = hnp.arrays(np.int64, st.integers(2, 8), elements=st.integers(1, 10**9))


# ------------------------------------------------------------------------------- mappings


def test_a_counter_of_labels_is_in_the_order_of_the_classes():
    labels = [2, 2, 2, 2, 0, 0, 0, 1]
    expected = np.bincount(labels) / 8
    np.testing.assert_allclose(prior_from_counts(Counter(labels)), expected)
    np.testing.assert_allclose(prior_from_counts(Counter(np.array(labels))), expected)
    weighted = prior_from_counts(Counter(labels), weights=[1 / 3, 1, 1 / 4])
    np.testing.assert_allclose(weighted, np.full(3, 1 / 3))
    np.testing.assert_allclose(prior_from_counts(Counter(["a", "b", "b", "b"])), [0.25, 0.75])


@pytest.mark.parametrize("counts", [{2: 5, 1: 3}, {10: 5, 0: 3}, Counter("bba")])
def test_a_mapping_in_no_order_is_refused(counts):
    with pytest.raises(PriorError, match=r"order of the classes\. Got .*\[counts\[c\] for c"):
        prior_from_counts(counts)


def test_counts_passed_as_labels_are_recognised():
    with pytest.raises(PriorError, match=r"pass prior_from_counts\(labels\)"):
        prior_from_labels([900, 90, 10])


# ------------------------------------------------------------------------------- identities


@given(COUNTS)
def test_counts_become_shares(counts):
    prior = prior_from_counts(counts)
    assert prior.dtype == np.float64
    np.testing.assert_allclose(prior, counts / counts.sum(), rtol=EXACT)
    assert math.isclose(prior.sum(), 1.0, rel_tol=EXACT)


@given(COUNTS)
def test_inverse_frequency_weights_give_a_uniform_effective_prior(counts):
    prior = prior_from_counts(counts, weights=counts.sum() / counts)
    np.testing.assert_allclose(prior, 1 / counts.size, rtol=EXACT)


@given(COUNTS, st.floats(1e-6, 1e6))
def test_scale_of_counts_and_weights_does_not_matter(counts, scale):
    weights = np.arange(1.0, counts.size + 1)
    np.testing.assert_allclose(
        prior_from_counts(counts * scale, weights=weights * scale),
        prior_from_counts(counts, weights=weights),
        rtol=EXACT,
    )


def test_smoothing_comes_before_weighting():
    prior = prior_from_counts([3, 0], weights=[1, 8], smoothing=1)
    np.testing.assert_allclose(prior, np.array([4 * 1, 1 * 8]) / 12, rtol=EXACT)


def test_mappings_keep_their_order():
    prior = prior_from_counts({"b": 3, "a": 1}, weights={"a": 3, "b": 1})
    np.testing.assert_allclose(prior, [0.5, 0.5])
    np.testing.assert_allclose(prior_from_counts({"b": 3, "a": 1}), [0.75, 0.25])
    np.testing.assert_allclose(prior_from_counts({"b": 3, "a": 1}, weights=[1, 3]), [0.5, 0.5])


def test_counts_near_overflow_are_fine():
    np.testing.assert_allclose(prior_from_counts([1e308, 1e308, 1e308]), 1 / 3)


@given(hnp.arrays(np.int64, st.integers(1, 50), elements=st.integers(0, 3)), st.floats(0.1, 5))
def test_labels_are_counted(labels, smoothing):
    counts = np.array([(labels == k).sum() for k in range(4)])
    np.testing.assert_allclose(
        prior_from_labels(labels, n_classes=4, smoothing=smoothing),
        prior_from_counts(counts, smoothing=smoothing),
        rtol=EXACT,
    )


def test_labels_with_weights_and_ignored_ones():
    labels = np.array([[0, 1, 255], [1, 0, 255]])
    weight = np.array([[1.0, 3.0, 9.0], [3.0, 1.0, 9.0]])
    prior = prior_from_labels(labels, sample_weight=weight, ignore_index=255)
    np.testing.assert_allclose(prior, [0.25, 0.75])
    np.testing.assert_allclose(prior_from_labels([True, False, True, True]), [0.25, 0.75])


@given(st.data())
def test_a_prior_is_left_as_it_is(data):
    prior = data.draw(priors(5))
    before = prior.copy()
    np.testing.assert_allclose(as_prior(prior, name="source_prior"), prior, rtol=EXACT)
    np.testing.assert_array_equal(prior, before)


def test_small_misses_of_the_sum_are_corrected():
    exact = as_prior([0.5, 0.5 + 9e-7], name="source_prior")
    assert math.isclose(exact.sum(), 1.0, rel_tol=EXACT)


def test_a_float32_prior_of_thousands_of_classes_passes(rng):
    prior = rng.pareto(1.0, size=8142).astype(np.float32) + np.float32(1e-3)
    as_prior(prior / prior.sum(), name="source_prior", n_classes=8142)


def test_target_priors():
    np.testing.assert_array_equal(as_target_prior("uniform", n_classes=4), [0.25] * 4)
    np.testing.assert_array_equal(as_target_prior([0.0, 1.0], n_classes=2), [0.0, 1.0])
    by_name = as_target_prior({"b": 0.75, "a": 0.25}, n_classes=2, classes=["a", "b"])
    np.testing.assert_array_equal(by_name, [0.25, 0.75])


def test_slopes_are_log_ratios():
    w = slopes(np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.75, 0.0]))
    np.testing.assert_allclose(w, [-math.log(2), math.log(3), -math.inf])


# ----------------------------------------------------------------------------------- parity


@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
def test_libraries(backend):
    tolerance = 1e-7 if backend.library == "jax" else EXACT  # JAX has no float64 by default
    counts = backend.make([6.0, 3.0, 1.0])
    prior = prior_from_counts(counts)
    assert library_of(prior) == backend.library
    np.testing.assert_allclose(np.asarray(as_prior(prior, name="p")), [0.6, 0.3, 0.1], atol=1e-7)
    labels = backend.make_integers([0, 0, 0, 1])
    prior = prior_from_labels(labels)
    assert library_of(prior) == backend.library
    np.testing.assert_allclose(as_prior(prior, name="p"), [0.75, 0.25], atol=tolerance)


# ------------------------------------------------------------------------------------ words

WORDS = {
    "zero count": (
        lambda: prior_from_counts([5, 0, 3]),
        PriorError,
        "`counts` must have at least one sample of every class. Got counts[1]=0. "
        "Drop the class, or pass smoothing=1.",
    ),
    "negative count": (lambda: prior_from_counts([5, -1]), PriorError, "Got counts[1]=-1."),
    "NaN count": (lambda: prior_from_counts([5, np.nan]), PriorError, "Got counts[1]=nan."),
    "infinite count": (lambda: prior_from_counts([np.inf, 1]), PriorError, "Got counts[0]=inf."),
    "one class": (
        lambda: prior_from_counts([5]),
        PriorError,
        "`counts` must cover at least two classes. Got 1.",
    ),
    "no counts": (lambda: prior_from_counts([]), PriorError, "at least two classes. Got 0."),
    "counts of two axes": (
        lambda: prior_from_counts([[1, 2]]),
        PriorError,
        "`counts` must have shape (K,). Got shape (1, 2).",
    ),
    "counts no numbers": (
        lambda: prior_from_counts(["a", "b"]),
        PriorError,
        "`counts` must be numbers.",
    ),
    "negative smoothing": (
        lambda: prior_from_counts([1, 2], smoothing=-1),
        OptionError,
        "`smoothing` must be a finite number of at least 0. Got -1.",
    ),
    "weights length": (
        lambda: prior_from_counts([1, 2], weights=[1, 2, 3]),
        PriorError,
        "`weights` must have one value per class. Got 3 weights for 2 counts.",
    ),
    "weight zero": (
        lambda: prior_from_counts([1, 2], weights=[1, 0]),
        PriorError,
        "`weights` must be positive for every class. Got weights[1]=0.",
    ),
    "weights named, counts not": (
        lambda: prior_from_counts([1, 2], weights={"a": 1, "b": 2}),
        PriorError,
        "`weights` must be in the order of `counts`.",
    ),
    "weights of other classes": (
        lambda: prior_from_counts({"a": 1, "b": 2}, weights={"a": 1, "c": 2}),
        PriorError,
        "Got no value for 'b'. The classes are 'a', 'b'.",
    ),
    "absent label": (
        lambda: prior_from_labels([0, 2, 2]),
        PriorError,
        "`labels` must have at least one sample of every class. Got no sample of class 1. "
        "Drop the class, or pass smoothing=1.",
    ),
    "label above n_classes": (
        lambda: prior_from_labels([0, 1, 5], n_classes=2),
        LabelsError,
        "Got labels[2]=5.",
    ),
    "float labels": (lambda: prior_from_labels([0.0, 1.0]), LabelsError, "Got dtype float64."),
    "all ignored": (
        lambda: prior_from_labels([9, 9], ignore_index=9),
        LabelsError,
        "Got 2 samples, none of them kept. Check `ignore_index`.",
    ),
    "no labels": (
        lambda: prior_from_labels(np.empty(0, int)),
        LabelsError,
        "`labels` must contain at least one sample",
    ),
    "n_classes": (
        lambda: prior_from_labels([0, 1], n_classes=1),
        OptionError,
        "`n_classes` must be an integer of at least 2. Got 1.",
    ),
    "n_classes no integer": (
        lambda: prior_from_labels([0, 1], n_classes=2.5),
        OptionError,
        "Got 2.5.",
    ),
    "weights of labels": (
        lambda: prior_from_labels([0, 1], sample_weight=[1, -1]),
        LabelsError,
        "Got sample_weight[1]=-1.",
    ),
    "prior zero": (
        lambda: as_prior([0.5, 0.25, 0.25, 0], name="source_prior"),
        PriorError,
        "`source_prior` must be positive for every class. Got source_prior[3]=0. "
        "Drop the class, or pass smoothing=1.",
    ),
    "prior negative": (
        lambda: as_prior([1.5, -0.5], name="source_prior"),
        PriorError,
        "`source_prior` must not be negative. Got source_prior[1]=-0.5.",
    ),
    "prior NaN": (
        lambda: as_prior([np.nan, 1.0], name="source_prior"),
        PriorError,
        "Got source_prior[0]=nan.",
    ),
    "prior length": (
        lambda: as_prior([0.5, 0.5], name="source_prior", n_classes=3),
        PriorError,
        "`source_prior` must have one value per class. Got 2 values for 3 classes.",
    ),
    "prior of one class": (lambda: as_prior([1.0], name="p"), PriorError, "at least two classes"),
    "prior sum": (
        lambda: as_prior([0.5, 0.4], name="source_prior"),
        PriorError,
        "`source_prior` must sum to 1. Got a sum of 0.9. Pass prior_from_counts(source_prior).",
    ),
    "counts as prior": (
        lambda: as_prior([500, 20], name="source_prior"),
        PriorError,
        "Got a sum of 520. These look like counts. Pass prior_from_counts(source_prior).",
    ),
    "prior named, classes unknown": (
        lambda: as_prior({"a": 0.5, "b": 0.5}, name="source_prior"),
        PriorError,
        "Got a mapping, and no classes to order it by.",
    ),
    "prior of an unknown class": (
        lambda: as_prior({"a": 0.5, "b": 0.3, "c": 0.2}, name="p", classes=["a", "b"]),
        PriorError,
        "Got a value for 'c'.",
    ),
    "target name": (
        lambda: as_target_prior("unifrom", n_classes=3),
        OptionError,
        "`target_prior` must be 'uniform'. Got 'unifrom'. Did you mean 'uniform'? Or pass one "
        "probability per class.",
    ),
    "target estimate": (
        lambda: as_target_prior("estimate", n_classes=3),
        OptionError,
        "`target_prior` must be 'uniform'. Got 'estimate'. Or pass one probability per class. A "
        "mix that nobody knows is estimated by estimate_target_prior from unlabelled scores; of "
        "scikit-learn's, RebalancedClassifierCV.predict takes 'estimate'.",
    ),
    "target length": (
        lambda: as_target_prior([0.5, 0.5], n_classes=3),
        PriorError,
        "`target_prior` must have one value per class.",
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_error_sentences(case):
    call, error, words = WORDS[case]
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
    assert isinstance(caught.value, RepriorError)


def test_slopes_that_differ_by_rounding_alone_are_one():
    source, target = np.array([1.5, 1.0, 6.5]) / 9, np.array([3.0, 2.0, 8.0]) / 13
    plain = np.log(target) - np.log(source)
    assert 0 < abs(plain[0] - plain[1]) < 1e-15  # 2.0769…: the same ratio, divided differently
    w = slopes(source, target)
    assert w[0] == w[1]
    np.testing.assert_allclose(w, plain, rtol=0, atol=1e-13)
    with_zero = slopes(np.append(source, 1.0) / 2, np.append(target, 0.0))
    assert with_zero[0] == with_zero[1]
    assert with_zero[3] == -np.inf


@pytest.mark.parametrize("read", [as_prior, prior_from_counts])
@pytest.mark.parametrize(
    "index, got", [([2, 1, 0], "2, 1, 0"), (["b", "a", "c"], "'b', 'a', 'c'"), ([0, "a", 1], "0")]
)
def test_a_series_in_another_order_is_refused(read, index, got):
    values = pd.Series([0.5, 0.3, 0.2], index=index)
    options = {"name": "counts"} if read is as_prior else {}
    with pytest.raises(PriorError) as caught:
        read(values, **options)
    assert f"`counts` must be in the order of the classes. Got a Series indexed by {got}" in str(
        caught.value
    )
    assert "Pass counts.sort_index(), or counts.reindex(classes).to_numpy()" in str(caught.value)


def test_value_counts_in_the_order_of_the_classes():
    labels = pd.Series([1, 1, 1, 0, 2, 2])
    with pytest.raises(PriorError, match="indexed by 1, 2, 0"):
        prior_from_counts(labels.value_counts())
    found = prior_from_counts(labels.value_counts().sort_index())
    np.testing.assert_allclose(found, [1 / 6, 3 / 6, 2 / 6])
    with pytest.raises(PriorError, match="`weights` must be in the order"):
        prior_from_counts([1, 2], weights=pd.Series([1.0, 2.0], index=[1, 0]))


@pytest.mark.parametrize("lowest", [0, 1])
def test_labels_in_the_place_of_counts_are_recognised(lowest, rng):
    labels = lowest + np.concatenate([np.arange(60), rng.integers(60, size=5940)])
    ignored = np.append(labels, 255)
    for values in (labels.astype(float), ignored, pd.Series(ignored)):
        with pytest.warns(RepriorWarning, match="which look like labels"):
            prior_from_counts(values, smoothing=1)
    with pytest.warns(RepriorWarning, match="which look like labels") as caught:
        prior_from_counts(labels, smoothing=1)
    shown = "labels" if lowest == 0 else "labels - 1"
    assert str(caught[0].message) == (
        "`counts` must be the number of training samples of each class. Got 6000 integers that "
        f"repeat all numbers from {lowest} to {lowest + 59}, which look like labels. If they are "
        f"labels, pass prior_from_labels({shown})."
    )


def test_labels_with_class_0_in_the_place_of_counts_are_refused(rng):
    with pytest.raises(PriorError, match=r"If they are labels, pass prior_from_labels\(labels\)"):
        prior_from_counts(np.tile([0, 1, 2], 200))


@given(st.integers(0, 10**6), st.floats(1.2, 3.0), st.integers(100, 9000))
def test_counts_of_long_tails_are_no_labels(seed, exponent, n_classes):
    """Many classes of few samples each, in any order, as of iNaturalist 2018: 2 to 1,000."""
    rng = np.random.default_rng(seed)
    counts = 2 + rng.zipf(exponent, size=n_classes).clip(max=1000)
    prior_from_counts(counts)
    prior_from_counts(np.full(n_classes, 3))
    prior_from_counts(1 + np.arange(n_classes))


def test_labels_from_1_say_so():
    with pytest.raises(PriorError, match=r"Got no sample of class 0\..* Of labels from 1 to 3"):
        prior_from_labels([1, 2, 3, 3])


def test_a_mapping_without_classes_is_refused_with_a_remedy():
    with pytest.raises(PriorError, match="Pass a list of values, in the order of the scores' col"):
        as_prior({"a": 0.5, "b": 0.5}, name="source_prior")


# ------------------------------------------------------------------------------ class names

PETS = ["dog", "cat", "cat", "eel", "cat"]


@pytest.mark.parametrize(
    "labels",
    [PETS, tuple(PETS), np.array(PETS), np.array(PETS, dtype=object), pd.Series(PETS),
     pd.Series(PETS, dtype="category"), pl.Series(PETS), np.array([PETS])],
    ids=["list", "tuple", "str", "object", "pandas", "category", "polars", "2d"],
)  # fmt: skip
def test_labels_may_be_names(labels):
    np.testing.assert_allclose(prior_from_labels(labels), [0.6, 0.2, 0.2])
    np.testing.assert_allclose(
        prior_from_labels(labels, classes=["eel", "dog", "cat"]), [0.2, 0.2, 0.6]
    )
    np.testing.assert_allclose(
        prior_from_labels(labels, classes=["cat", "dog", "eel", "fox"], smoothing=1),
        np.array([4, 2, 2, 1]) / 9,
    )
    np.testing.assert_allclose(prior_from_labels(labels, 2, ignore_index="eel"), [0.75, 0.25])


def test_names_with_weights():
    weight = [1.0, 1.0, 1.0, 2.0, 0.0]
    np.testing.assert_allclose(prior_from_labels(PETS, sample_weight=weight), [0.4, 0.2, 0.4])


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"classes": ["cat", "dog"]}, LabelsError, r"Got labels\[3\]='eel'. The classes are"),
        ({"classes": ["cat", "cat", "eel", "dog"]}, OptionError, "must name every class once"),
        ({"n_classes": 4}, OptionError, "3 different names and n_classes=4"),
        ({"classes": ["cat", "dog", "eel", "fox"]}, PriorError, "pass smoothing=1"),
    ],
)
def test_names_that_do_not_fit(options, error, words):
    with pytest.raises(error, match=words):
        prior_from_labels(PETS, **options)


def test_a_missing_name_is_no_class():
    with pytest.raises(LabelsError, match="must be integers"):
        prior_from_labels(np.array(["cat", None, "dog"], dtype=object))
