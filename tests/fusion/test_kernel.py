"""The mathematics of one block, against SciPy and exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from reprior.core.flatten import EntropyReference
from reprior.core.fuse import RULES, fuse
from reprior.fusion.kernel import SHORT_ROW, Kernel, NoPosteriorError
from reprior.fusion.recipe import Recipe, References

#: Two float64 routes to the same number.
EXACT = 1e-12
EPS32 = float(np.finfo(np.float32).eps)


def kernel(axis=1, *, dtype=np.float64, kind="logits", passes=False, size=4096, **options):
    recipe = Recipe(
        names=("a", "b"),
        references=(References(EntropyReference(1.0, 0.0)),) * 2,
        slopes=np.zeros(3),
        rule=options.pop("rule", "noisy_or"),
        order=options.pop("order", "rebalance_first"),
        flatten_by="image",
        kind=kind,
        passes=passes,
    )
    return Kernel(recipe, axis=axis, size=size, dtype=dtype, tolerances=(1e-3, 1e-3))


@pytest.fixture(params=[0, 1])
def axis(request):
    return request.param


@pytest.fixture(params=[3, SHORT_ROW + 5])
def block(request, axis, rng):
    shape = (2, request.param, 7) if axis else (request.param, 2, 7)
    return 3 * rng.standard_normal(shape)


def test_softmax_is_scipys(block, axis):
    k = kernel(axis)
    out = np.empty_like(block)
    np.testing.assert_allclose(
        k.softmax(block, out, 0, log=False), scipy.special.softmax(block, axis=axis), rtol=EXACT
    )
    np.testing.assert_allclose(
        k.softmax(block, out, 0, log=True), scipy.special.log_softmax(block, axis=axis), rtol=EXACT
    )
    again = block.copy()
    k.softmax(again, again, 0, log=False)
    np.testing.assert_allclose(again, scipy.special.softmax(block, axis=axis), rtol=EXACT)


def test_entropy_is_scipys(block, axis):
    p = scipy.special.softmax(block, axis=axis)
    expected = scipy.stats.entropy(p, axis=axis)
    np.testing.assert_allclose(kernel(axis).doubt(0, block).entropy, expected, rtol=1e-10)
    for kind, rows in (("probs", p), ("log_probs", np.log(p))):
        found = kernel(axis, kind=kind).doubt(0, rows)
        np.testing.assert_allclose(found.entropy, expected, rtol=1e-10)
        assert found.information is None


def test_impossible_classes_have_no_entropy():
    rows = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])[:, :, None]
    with np.errstate(all="ignore"):
        found = kernel(kind="probs").doubt(0, rows).entropy
    np.testing.assert_allclose(found[:, 0], [np.log(2), 0.0], atol=1e-15)


def test_mutual_information(rng, axis):
    rows = 2 * rng.standard_normal((5, *((2, 3, 7) if axis else (3, 2, 7))))
    p = scipy.special.softmax(rows, axis=axis + 1)
    whole = scipy.stats.entropy(p.mean(axis=0), axis=axis)
    each = scipy.stats.entropy(p, axis=axis + 1).mean(axis=0)
    found = kernel(axis, passes=True).doubt(0, rows)
    np.testing.assert_allclose(found.entropy, whole, rtol=1e-10)
    np.testing.assert_allclose(found.information, whole - each, rtol=1e-8)
    assert (found.information > 0).all()
    log_mean = kernel(axis, passes=True).log_scores(0, rows)
    np.testing.assert_allclose(np.exp(log_mean), p.mean(axis=0), rtol=EXACT)


def test_the_two_orders(rng):
    z, d, shift = rng.standard_normal((1, 3, 4)), np.full((1, 1, 1), 0.25), np.ones((3, 1))
    out = np.empty_like(z)
    paper = kernel(order="flatten_first").tempered(z, d, shift, out).copy()
    ours = kernel(order="rebalance_first").tempered(z, d, shift, out).copy()
    np.testing.assert_allclose(paper, 0.25 * z + 1, rtol=EXACT)
    np.testing.assert_allclose(ours, 0.25 * (z + 1), rtol=EXACT)
    for order in ("flatten_first", "rebalance_first"):
        k = kernel(order=order)
        np.testing.assert_array_equal(k.tempered(z, None, shift, out), z + 1)
        np.testing.assert_array_equal(k.tempered(z, d, None, out), 0.25 * z)
        assert k.tempered(z, None, None, out) is z


@given(st.integers(1, 4), st.sampled_from(RULES), st.integers(0, 10**6))
def test_the_rules_are_those_of_fuse(n_modalities, rule, seed):
    z = 4 * np.random.default_rng(seed).standard_normal((n_modalities, 2, 3, 5))
    p = scipy.special.softmax(z, axis=2)
    expected = fuse(list(p), rule=rule, class_axis=1)
    k, out = kernel(rule=rule), np.empty(z.shape[1:])
    parts = list(z if rule == "product" else p)
    np.testing.assert_allclose(k.fused(parts, out), expected, rtol=1e-9)
    log = k.fused_log(list(np.log(p)), np.empty(z.shape[1:]))
    np.testing.assert_allclose(log, np.log(expected), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(parts[0], (z if rule == "product" else p)[0])


def test_noisy_or_of_tiny_probabilities_is_exact():
    p = np.array([1e-9, 1.0 - 1e-9], dtype=np.float32).reshape(1, 2, 1)
    found = kernel(dtype=np.float32).fused([p, p], np.empty_like(p))
    tiny, rest = Fraction(float(p[0, 0, 0])), Fraction(float(p[0, 1, 0]))
    mass = [1 - (1 - tiny) ** 2, 1 - (1 - rest) ** 2]
    assert found[0, 0, 0] == pytest.approx(float(mass[0] / sum(mass)), rel=8 * EPS32)


@pytest.mark.parametrize("rule", ["noisy_or", "mean"])
def test_log_posteriors_are_exact_where_probabilities_underflow(rule):
    log_p = np.array([-2000.0, np.log1p(-0.0)]).reshape(1, 2, 1)
    parts = [log_p, log_p - [[[1.0], [0.0]]]]
    with np.errstate(divide="ignore"):
        found = kernel(rule=rule).fused_log(parts, np.empty((1, 2, 1)))
    both = np.logaddexp(-2000.0, -2001.0)
    expected = both - np.log(2) if rule == "mean" else both
    assert found[0, 0, 0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_scores_are_told_by_their_modality(bad, block, axis):
    rows = block.copy()
    rows[0, 0, 0] = bad
    for work in (
        lambda: kernel(axis).doubt(1, rows),
        lambda: kernel(axis).softmax(rows, np.empty_like(rows), 1, log=False),
    ):
        with pytest.raises(NoPosteriorError) as caught, np.errstate(all="ignore"):
            work()
        assert caught.value.modality == 1


@pytest.mark.parametrize("kind, row", [("probs", [0.5, 0.6, 0.2]), ("probs", [-0.5, 1.0, 0.5]),
                                       ("log_probs", [0.0, 0.0, -1.0]),
                                       ("probs", [np.nan, 0.5, 0.5])])  # fmt: skip
def test_rows_that_are_no_distribution(kind, row):
    with pytest.raises(NoPosteriorError) as caught, np.errstate(all="ignore"):
        kernel(kind=kind).log_scores(0, np.array(row).reshape(1, 3, 1))
    assert caught.value.modality == 0


def test_buffers_are_used_again():
    k = kernel(size=12)
    first = k.buffer("x", (1, 3, 4))
    assert np.shares_memory(first, k.buffer("x", (1, 3, 2)))
    assert not np.shares_memory(first, k.buffer("y", (1, 3, 4)))


def test_logits_of_the_compute_dtype_are_not_copied(block, axis):
    assert kernel(axis).log_scores(0, block) is block
    half = block.astype(np.float16)
    assert kernel(axis, dtype=np.float32).log_scores(0, half).dtype == np.float32
