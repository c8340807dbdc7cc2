"""Blocks and threads change nothing, nor do kernels; everything is read once."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fusions import PRIOR, RULES, K, fused_by_hand

from reprior import EntropyReference
from reprior.core import image_entropy, kernels, threads
from reprior.fusion import blocks as module
from reprior.fusion.blocks import Batch, Moments, Tally, merged
from reprior.fusion.fused import NoPosteriorError, Recipe, References

W = -np.log(PRIOR * K)
KNOWN = {"rgb": (0.3, 0.05), "depth": (0.5, 0.1)}


def batch_of(arrays, *, passes=False, references=True, **options):
    known = tuple(References(EntropyReference(*KNOWN[name])) for name in KNOWN)
    recipe = Recipe(
        names=tuple(KNOWN),
        references=known if references else (References(),) * 2,
        slopes=W,
        rule=options.pop("rule", "noisy_or"),
        order=options.pop("order", "rebalance_first"),
        flatten_by=options.pop("by", "image"),
        kind="logits",
        passes=passes,
    )
    return Batch(tuple(arrays), (1e-3, 1e-3), recipe, **options)


def posterior(batch, strengths=(0.4, 0.7), *, log=False):
    out = np.empty(batch.shape)
    batch.posterior(strengths, out, log=log)
    return out


@pytest.fixture(params=["whole", "blocks", "threads", "arrays"])
def cut(request, monkeypatch):
    """Large blocks, tiny blocks, tiny blocks shared among threads, and those in array code."""
    if request.param != "whole":
        monkeypatch.setattr(module, "BLOCK_SCORES", 4 * 5)
    if request.param == "threads":
        monkeypatch.setattr(threads, "SCORES_PER_THREAD", 1)
        monkeypatch.setenv("REPRIOR_NUM_THREADS", "3")
    if request.param == "arrays":
        monkeypatch.setattr(kernels, "native", None)
    return request.param


@pytest.mark.parametrize("pixels", [1, 3, 70])
@pytest.mark.parametrize("by", ["image", "pixel"])
@pytest.mark.parametrize("rule", RULES)
def test_any_cut_gives_the_posterior_by_hand(rng, cut, pixels, by, rule):
    arrays = 2 * rng.standard_normal((2, 7, K, pixels))
    batch = batch_of(arrays, by=by, rule=rule)
    expected = fused_by_hand(
        dict(zip(KNOWN, arrays, strict=True)),
        slopes=W,
        references=KNOWN,
        rule=rule,
        by=by,
        strengths={"rgb": 0.4, "depth": 0.7},
    )
    np.testing.assert_allclose(posterior(batch), expected, rtol=1e-9)
    np.testing.assert_allclose(np.exp(posterior(batch, log=True)), expected, rtol=1e-9)
    index = np.empty((7, pixels), np.int64)
    batch.decisions((0.4, 0.7), index, np.float64)
    np.testing.assert_array_equal(index, expected.argmax(axis=1))


@pytest.mark.parametrize("pixels", [1, 3, 70])
@pytest.mark.parametrize("some", [False, True])
def test_a_tally_counts_the_decisions(rng, cut, pixels, some):
    arrays, labels = 2 * rng.standard_normal((2, 7, K, pixels)), rng.integers(0, K, (7, pixels))
    weights, keep = rng.random((7, pixels)), rng.random((7, pixels)) < 0.7
    images = np.array([0, 2, 3, 6]) if some else None
    if some:
        keep[[1, 4, 5]] = False
    batch = batch_of(arrays, images=images)
    settings = [(0.0, 0.0), (0.5, 0.5), (0.5, 1.5)]
    tally = batch.tally(settings, labels, weights, keep, np.float64)
    for i, setting in enumerate(settings):
        found = posterior(replace(batch, images=None), setting).argmax(axis=1)
        for k in range(K):
            said = (found == k) & keep
            right = said & (labels == k)
            assert tally.counts[:, i, k].tolist() == [right.sum(), said.sum()]
            np.testing.assert_allclose(
                tally.sums[:, i, k], [weights[right].sum(), weights[said].sum()]
            )


@pytest.mark.parametrize("pixels", [1, 3, 70])
def test_moments_are_of_image_means_or_of_pixels_that_count(rng, cut, pixels):
    arrays, keep = 2 * rng.standard_normal((2, 7, K, pixels)), rng.random((7, pixels)) < 0.6
    keep[0, 0] = True
    for m, (entropy, information) in enumerate(batch_of(arrays).moments(keep)):
        per_image = image_entropy(arrays[m], class_axis=1)
        assert entropy.n == 7
        assert entropy.mean == pytest.approx(per_image.mean(), rel=1e-12)
        assert entropy.std == pytest.approx(per_image.std(), rel=1e-9)
        assert information is None
    for m, (entropy, _) in enumerate(batch_of(arrays, by="pixel").moments(keep)):
        rows = np.moveaxis(arrays[m], 1, -1)[keep]
        assert entropy.n == keep.sum()
        assert entropy.std == pytest.approx(image_entropy(rows).std(), rel=1e-9)


@pytest.mark.parametrize("order", ["rebalance_first", "flatten_first"])
@pytest.mark.parametrize("by", ["image", "pixel"])
@pytest.mark.parametrize("n_modalities", [1, 2])
def test_lines_have_the_arg_max_of_the_product_at_any_strength(rng, cut, order, by, n_modalities):
    arrays = 2 * rng.standard_normal((2, 7, K, 3))
    batch = batch_of(arrays, rule="product", order=order, by=by)
    if n_modalities == 1:
        one = batch.recipe.only(["rgb"])
        batch = replace(batch, arrays=batch.arrays[:1], tolerances=(1e-3,), recipe=one)
    parts = list(batch.lines(4 * K * 3))
    assert np.concatenate([np.arange(7)[images] for images, _ in parts]).tolist() == [*range(7)]
    z = np.concatenate([scores for _, scores in parts])
    for strength in np.linspace(-1, 3, 17):
        found = posterior(batch, (strength,) * n_modalities)
        lines = z + strength * W[:, None]
        top = np.take_along_axis(lines, found.argmax(axis=1)[:, None], axis=1)
        np.testing.assert_allclose(top, lines.max(axis=1, keepdims=True), atol=1e-9)


def test_bad_scores_come_out_of_a_thread(rng, cut):
    arrays = rng.standard_normal((2, 7, K, 3))
    arrays[1, 6, 0, 0] = np.nan
    with pytest.raises(NoPosteriorError) as caught:
        posterior(batch_of(arrays))
    assert caught.value.modality == 1


def test_axes_that_no_view_can_join(rng):
    arrays = 2 * rng.standard_normal((2, 7, 3, K, 4))
    moved = [np.moveaxis(z, 2, 1) for z in arrays]
    batch = batch_of(moved)
    out = np.empty((7, 3, K, 4))
    batch.posterior((0.4, 0.7), np.moveaxis(out, 2, 1), log=False)
    joined = batch_of([np.ascontiguousarray(z) for z in moved])
    np.testing.assert_allclose(np.moveaxis(out, 2, 1), posterior(joined), rtol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_nothing_but_the_result_is_as_large_as_the_scores(rng, rule, monkeypatch):
    """Extra memory does not grow with the number of images."""
    monkeypatch.setattr(module, "BLOCK_SCORES", 1 << 12)
    monkeypatch.setenv("REPRIOR_NUM_THREADS", "1")  # each has memory of its own
    peaks = []
    for n in (8, 32):
        arrays = rng.standard_normal((2, n, K, 64, 64), dtype=np.float32)
        batch, out = batch_of(arrays, rule=rule), np.empty((n, K, 64, 64), np.float32)
        tracemalloc.start()
        batch.posterior((0.4, 0.7), out, log=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < arrays[0, :8].nbytes
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize("by", ["image", "pixel"])
def test_the_same_bits_for_any_number_of_threads(rng, by, monkeypatch):
    arrays, labels = 2 * rng.standard_normal((2, 40, K, 9)), rng.integers(0, K, (40, 9))
    monkeypatch.setattr(module, "BLOCK_SCORES", 4 * 9 * 3)
    monkeypatch.setattr(threads, "SCORES_PER_THREAD", 1)
    batch, keep, found = batch_of(arrays, by=by), np.ones((40, 9), bool), []
    weights = rng.random((40, 9))
    for n in (1, 2, 5):
        monkeypatch.setenv("REPRIOR_NUM_THREADS", str(n))
        tally = batch.tally([(0.2, 0.9)], labels, weights, keep, np.float64)
        entropies = [entropy for entropy, _ in batch.moments()]
        found.append((posterior(batch), *tally, np.array(entropies)))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


numbers = st.lists(st.floats(-100, 100), min_size=1, max_size=20).map(np.array)


@given(st.lists(numbers, min_size=1, max_size=4))
def test_moments_of_parts_are_those_of_the_whole(parts):
    found, whole = merged(Moments.of(part) for part in parts), np.concatenate(parts)
    assert found.n == whole.size
    assert found.mean == pytest.approx(whole.mean(), abs=1e-11)
    assert found.std == pytest.approx(whole.std(), abs=1e-6)  # the root of a rounding is larger


def test_parts_without_numbers_are_left_out():
    one = Moments.of(np.array([1.0, 3.0]))
    assert merged([None, one, None]) == one == (2, 2.0, 2.0)
    assert one.std == 1.0
    assert merged([None]) is None


@pytest.mark.parametrize("weighted", [False, True])
def test_tallies_count_as_loops_do(weighted):
    rng = np.random.default_rng(0)
    y, found = rng.integers(0, 3, (2, 50)), rng.integers(0, 3, (2, 50))
    v = rng.random((2, 50)) if weighted else [None, None]
    parts = []
    for part in range(2):
        tally = Tally.empty(2, 3, weighted)
        tally.add(0, y[part], found[part], v[part])
        tally.add(1, y[part], y[part], v[part])
        parts.append(tally)
    total = parts[0].merged(parts[1])
    for k in range(3):
        assert total.counts[0, 0, k] == ((y == k) & (found == k)).sum()
        assert total.counts[1, 0, k] == (found == k).sum()
        assert total.counts[0, 1, k] == total.counts[1, 1, k] == (y == k).sum()
        if weighted:
            assert total.sums[0, 0, k] == pytest.approx(v[(y == k) & (found == k)].sum())
            assert total.sums[1, 0, k] == pytest.approx(v[found == k].sum())
    assert (total.sums is not None) == weighted
