"""The kernels of posteriors and decisions against the array code, at every instruction set."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.backends import EPS, OPERATIONS

from reprior import ScoresError
from reprior.core import (
    AffineMap,
    affine_map,
    array_decisions,
    array_posterior,
    kernels,
    namespace,
    sum_tolerance,
    threads,
)

BFLOAT = np.dtype(jnp.bfloat16)
DTYPES = [np.dtype("f2"), BFLOAT, np.dtype("f4"), np.dtype("f8")]
KINDS = ["logits", "probs", "log_probs"]
MANY = [1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000]
COMPUTED = {"float16": "float32", "bfloat16": "float32"}


@pytest.fixture(autouse=True, params=kernels.native.levels())
def level(request):
    """Use every instruction set that this processor has."""
    before = kernels.native.level()
    kernels.native.set_level(request.param)
    yield request.param
    kernels.native.set_level(before)


def native_of(z, affine, kind, axis, log=None):
    """Return what the kernels give: posteriors, or decisions where ``log`` is None."""
    options = {"kind": kind, "axis": axis, "tolerance": sum_tolerance(z.dtype, kind, z.shape[axis])}
    view = kernels.host_view(z)
    if log is None:
        return affine_map.kernel_decisions(view, affine.scale, affine.shift, **options)
    found = affine_map.kernel_posterior(view, affine.scale, affine.shift, log=log, **options)
    return None if found is None else found.view(z.dtype)


def oracle_of(z, affine, kind, axis, log=None):
    """Return what the array code gives of float64 scores, or None."""
    options = {"kind": kind, "axis": axis, "xp": namespace()}
    options["tolerance"] = sum_tolerance(z.dtype, kind, z.shape[axis])
    wide = np.ascontiguousarray(z).astype(np.float64)
    with np.errstate(all="ignore"):
        try:
            if log is None:
                return array_decisions(wide, affine, **options)
            return array_posterior(wide, affine, log=log, **options)
        except ScoresError:
            return None


def assert_equal(z, affine, kind, axis):
    """Hold both kinds of posterior and the decisions equal to the oracle."""
    for log in (True, False):
        found, wanted = native_of(z, affine, kind, axis, log), oracle_of(z, affine, kind, axis, log)
        assert (found is None) == (wanted is None)
        if wanted is None:
            assert native_of(z, affine, kind, axis) is None
            return
        assert found.shape == z.shape
        assert found.dtype == z.dtype
        computed = EPS[COMPUTED.get(z.dtype.name, z.dtype.name)]
        with np.errstate(over="ignore"):
            rounded = wanted.astype(z.dtype).astype(np.float64)
        away = np.isinf(rounded)
        found = found.astype(np.float64)
        np.testing.assert_array_equal(found[away], rounded[away])
        least = float(np.finfo(np.float16).smallest_subnormal) if z.dtype == np.float16 else 0.0
        near = OPERATIONS * computed + EPS[z.dtype.name]
        np.testing.assert_allclose(
            found[~away], rounded[~away], rtol=near, atol=OPERATIONS * computed + least
        )
    decided = native_of(z, affine, kind, axis)
    best = oracle_of(z, affine, kind, axis, True)
    # The oracle's choice, except among classes that differ by rounding alone.
    at = np.take_along_axis(best, np.expand_dims(decided, axis), axis)
    scale = 1.0 + np.abs(best[np.isfinite(best)]).max(initial=0.0)
    assert (best.max(axis=axis, keepdims=True) - at <= 8 * EPS["float64"] * scale).all()


def scores_of(rng, shape, axis, kind, dtype, spread=3.0):
    z = rng.normal(size=shape) * spread
    if kind != "logits":
        z -= np.log(np.exp(z).sum(axis=axis, keepdims=True))
        z = np.exp(z) if kind == "probs" else z
    return z.astype(dtype)


def map_of(rng, n_classes, scaled=False):
    shift = rng.normal(size=n_classes)
    return (
        AffineMap(shift, scales=rng.uniform(-1, 2, n_classes)) if scaled else AffineMap(shift, 1.3)
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_classes(dtype, kind, rng):
    for n_classes in MANY:
        for scaled in (False, True):
            z = scores_of(rng, (37, n_classes), 1, kind, dtype)
            assert_equal(z, map_of(rng, n_classes, scaled), kind, 1)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_shape_axis_and_layout(data):
    shape = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=5).map(tuple))
    axis = data.draw(st.integers(0, len(shape) - 1))
    kind = data.draw(st.sampled_from(KINDS))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    z = scores_of(rng, shape, axis, kind, data.draw(st.sampled_from(DTYPES)))
    turned = data.draw(st.permutations(range(z.ndim)))
    laid_out = np.transpose(np.ascontiguousarray(np.transpose(z, turned)), np.argsort(turned))
    if data.draw(st.booleans()):
        laid_out = np.repeat(laid_out, 2, axis=0)[::2]
    if data.draw(st.booleans()):
        laid_out = laid_out[::-1].copy()[::-1]
    assert_equal(laid_out, map_of(rng, shape[axis]), kind, axis)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_memory_that_is_read_only_or_not_aligned(dtype, rng):
    z = scores_of(rng, (31, 5), 1, "logits", dtype)
    affine = map_of(rng, 5)
    read_only = np.frombuffer(z.tobytes(), z.dtype).reshape(z.shape)
    room = np.empty(z.nbytes + 1, np.uint8)
    room[1:] = np.frombuffer(z.tobytes(), np.uint8)
    shifted = room[1:].view(z.dtype).reshape(z.shape)
    assert not shifted.flags.aligned
    for given_z in (read_only, shifted):
        assert_equal(given_z, affine, "logits", 1)
        np.testing.assert_array_equal(
            native_of(given_z, affine, "logits", 1, False), native_of(z, affine, "logits", 1, False)
        )


@pytest.mark.parametrize("shape", [(0, 5), (1, 5), (0, 0, 5), (2, 5, 0)])
def test_no_sample_and_one(shape, rng):
    axis = shape.index(5)
    z = scores_of(rng, shape, axis, "logits", np.dtype("f4"))
    affine = map_of(rng, 5)
    found = native_of(z, affine, "logits", axis, False)
    assert found.shape == shape
    assert native_of(z, affine, "logits", axis).shape == tuple(np.delete(shape, axis))
    if z.size:
        assert_equal(z, affine, "logits", axis)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_score_anywhere(dtype, kind, rng):
    for n_classes, bad in itertools.product([1, 2, 8, 9, 40], [np.nan, np.inf, -np.inf, -0.5, 1.5]):
        affine = map_of(rng, n_classes)
        for row, k in ((0, 0), (20, n_classes // 2), (32, n_classes - 1)):
            z = scores_of(rng, (33, n_classes), 1, kind, dtype)
            z[row, k] = bad
            assert_equal(z, affine, kind, 1)
            assert_equal(np.asfortranarray(z), affine, kind, 1)
        wrong = {"logits": not np.isfinite(bad) and (bad != -np.inf or n_classes == 1)}
        wrong["probs"] = wrong["log_probs"] = True
        if kind != "log_probs" or bad not in (-0.5, -np.inf):  # the row may still sum to about 1
            assert (native_of(z, affine, kind, 1) is None) == wrong[kind]


def test_impossible_classes_and_those_ruled_out():
    z = np.array([[0.0, -np.inf, 1.0], [-np.inf, 2.0, -np.inf]])
    affine = AffineMap(np.array([0.0, 0.0, -np.inf]))
    found = native_of(z, affine, "logits", 1, False)
    np.testing.assert_array_equal(found, [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert native_of(z, AffineMap(np.array([0.0, -np.inf, 0.0])), "logits", 1, False) is None


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", KINDS)
def test_denormals(dtype, kind):
    least = np.finfo(dtype).smallest_subnormal
    if kind == "probs":
        z = np.array([[1.0, least, 5 * least], [least, 0.0, 1.0]], dtype)
    else:
        far = -np.log(1 / float(np.finfo(dtype).smallest_normal)) - 3.0
        z = np.array([[0.0, far, far - 5.0], [0.0, -float(least), -800.0]], dtype)
        z[1] -= 0.0 if kind == "logits" else np.log(2.0)
    affine = AffineMap(np.zeros(3))
    assert_equal(z, affine, kind, 1)
    found, wanted = (f(z, affine, kind, 1, False) for f in (native_of, oracle_of))
    np.testing.assert_allclose(found, wanted.astype(dtype), rtol=1e-6, atol=2 * float(least))


def test_ties_go_to_the_lowest_class():
    z = np.zeros((3, 40), np.float32)
    z[1, [7, 8, 39]] = 1.0
    z[2, [15, 16]] = 2.0
    assert native_of(z, AffineMap(np.zeros(40)), "logits", 1).tolist() == [0, 7, 15]


def test_16_bit_scores_are_decided_before_rounding():
    z = np.array([[10.0, 10.0, 0.0]], np.float16)
    affine = AffineMap(np.array([0.0, 1e-4, 0.0]))
    posterior = native_of(z, affine, "logits", 1, False)
    assert posterior[0, 0] == posterior[0, 1]
    assert native_of(z, affine, "logits", 1).tolist() == [1]


@pytest.mark.parametrize("n_threads", ["1", "3"])
def test_every_sample_is_done_once_whatever_the_blocks(n_threads, rng, monkeypatch):
    z = scores_of(rng, (3, 14, 5, 7), 1, "logits", np.dtype("f4"))
    affine = map_of(rng, 14)
    whole = [native_of(z, affine, "logits", 1, log) for log in (True, False, None)]
    monkeypatch.setenv("REPRIOR_NUM_THREADS", n_threads)
    monkeypatch.setattr(threads, "SCORES_PER_THREAD", 50)
    monkeypatch.setattr(affine_map, "BLOCK_SCORES", 100)
    for log, wanted in zip((True, False, None), whole, strict=True):
        np.testing.assert_array_equal(native_of(z, affine, "logits", 1, log), wanted)
    z[2, 3, 4, 6] = np.nan
    assert native_of(z, affine, "logits", 1) is None


def test_maps_keep_their_layout(rng):
    z = scores_of(rng, (2, 3, 4, 5), 1, "logits", np.dtype("f4"))
    for given_z in (z, np.asfortranarray(z), np.moveaxis(z, 1, -1)):
        axis = 1 if given_z.shape == z.shape else 3
        affine = map_of(rng, given_z.shape[axis])
        assert_equal(given_z, affine, "logits", axis)
    assert native_of(z, map_of(rng, 3), "logits", 1, False).flags.c_contiguous
    rows = np.asfortranarray(z.reshape(40, 3))
    assert native_of(rows, map_of(rng, 3), "logits", 1, False).flags.f_contiguous


def test_the_same_bits_at_every_level(level, rng):
    z = scores_of(rng, (50, 21), 1, "logits", np.dtype("f4"), spread=40.0)
    p = scores_of(rng, (50, 21), 1, "probs", np.dtype("f8"), spread=40.0)
    affine = map_of(rng, 21)
    here = [
        native_of(*case) for case in ((z, affine, "logits", 1, True), (p, affine, "probs", 1, True))
    ]
    kernels.native.set_level("baseline")
    there = [
        native_of(*case) for case in ((z, affine, "logits", 1, True), (p, affine, "probs", 1, True))
    ]
    for one, other in zip(here, there, strict=True):
        assert one.tobytes() == other.tobytes()


def test_what_does_not_fit_is_refused(rng):
    z, ones = np.zeros((1, 4, 3)), np.ones(3)
    call = kernels.native.posterior
    good = (z, 0, 1e-3, ones, ones, False, 0, 4, np.empty_like(z))
    assert call(*good)
    for place, value in (
        (1, 3),
        (3, np.ones(2)),
        (4, np.ones(4)),
        (6, -1),
        (7, 5),
        (6, 5),
        (8, np.empty((1, 5, 3))),
        (8, np.empty((1, 4, 2))),
        (8, np.empty((1, 4, 3), np.float32)),
    ):
        with pytest.raises((ValueError, TypeError)):
            call(*good[:place], value, *good[place + 1 :])
    frozen = np.empty_like(z)
    frozen.flags.writeable = False
    with pytest.raises(TypeError):
        call(*good[:8], frozen)
    with pytest.raises(TypeError):
        call(np.zeros((1, 4, 3), np.int64), *good[1:])
    with pytest.raises(ValueError, match="one number per sample"):
        kernels.native.decisions(z, 0, 1e-3, ones, ones, 0, 4, np.empty(3, np.int64))
