"""The blocked NumPy path equals the formula in the array API, whatever the layout."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.backends import EPS, OPERATIONS

from reprior.core import blocks
from reprior.core.arrays import namespace
from reprior.core.blocks import tilt_blocks
from reprior.core.tilt import Tilt, tilt_at_once

XP = namespace()


def make_tilt(n_classes, *, log=True, kind="logits", temperature=1.3, dtype=np.float64):
    shift = np.linspace(-1.0, 1.0, n_classes)
    return Tilt(
        shift=shift, temperature=temperature, kind=kind, log=log, dtype=dtype, sum_tolerance=1e-3
    )


def check_equal(z, tilt, axis):
    whole = tilt_at_once(np.ascontiguousarray(z), tilt, axis=axis, xp=XP)
    parts = tilt_blocks(z, tilt, axis=axis)
    assert parts.shape == z.shape
    np.testing.assert_allclose(
        parts, whole, rtol=0, atol=OPERATIONS * 8 * EPS[np.dtype(tilt.dtype).name]
    )


@settings(max_examples=150)
@given(st.data())
def test_blocks_equal_the_whole_for_any_shape_axis_and_block_size(data):
    shape = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple))
    axis = data.draw(st.integers(0, len(shape) - 1))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    kind = data.draw(st.sampled_from(["logits", "probs", "log_probs"]))
    log = data.draw(st.booleans())
    z = np.random.default_rng(data.draw(st.integers(0, 99))).normal(size=shape) * 3
    if kind != "logits":
        z -= np.log(np.exp(z).sum(axis=axis, keepdims=True))
        z = np.exp(z) if kind == "probs" else z
    tilt = make_tilt(shape[axis], log=log, kind=kind, dtype=dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", data.draw(st.sampled_from([1, 64, 256, 1 << 19])))
        patch.setattr(blocks, "SHORT_ROW", data.draw(st.sampled_from([0, 24])))
        patch.setattr(blocks, "SHORT_RUN", data.draw(st.sampled_from([0, 64])))
        check_equal(z.astype(dtype), tilt, axis)


LAYOUTS = {
    "C order": lambda z: z,
    "Fortran order": np.asfortranarray,
    "strided": lambda z: np.repeat(z, 2, axis=0)[::2],
    "reversed": lambda z: z[::-1].copy()[::-1],
    "read only": lambda z: np.frombuffer(z.tobytes(), dtype=z.dtype).reshape(z.shape),
    "big endian": lambda z: z.astype(">f8"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_memory_layouts(layout, axis, rng):
    z = LAYOUTS[layout](rng.normal(size=(30, 28, 26)))
    check_equal(z, make_tilt(z.shape[axis]), axis)


def test_fortran_order_comes_out_as_it_went_in(rng):
    out = tilt_blocks(np.asfortranarray(rng.normal(size=(50, 3))), make_tilt(3), axis=1)
    assert out.flags.f_contiguous


@pytest.mark.parametrize(
    "shape, axis",
    [((400, 40), 1), ((400, 4), 1), ((4, 8, 200), 1)],
    ids=["rows", "turned", "planes"],
)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("log", [True, False])
def test_a_bad_score_anywhere_is_noticed(shape, axis, bad, log, rng, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 4096)
    for index in itertools.product(*((0, length // 2, length - 1) for length in shape)):
        z = rng.normal(size=shape)
        z[index] = bad
        assert tilt_blocks(z, make_tilt(shape[axis], log=log), axis=axis) is None
        if z.ndim == 2:
            assert tilt_blocks(np.asfortranarray(z), make_tilt(shape[1]), axis=1) is None


@pytest.mark.parametrize("row", [[0.5, 0.6], [-0.5, 1.5], [np.nan, 1.0]], ids=str)
def test_rows_that_are_no_distribution_are_noticed(row):
    z = np.full((300, 2), 0.5)
    z[299] = row
    assert tilt_blocks(z, make_tilt(2, kind="probs"), axis=1) is None
    with np.errstate(invalid="ignore"):
        assert tilt_blocks(np.log(z), make_tilt(2, kind="log_probs"), axis=1) is None


@pytest.mark.parametrize("n_classes", [14, 100])
def test_no_temporary_is_larger_than_a_block(n_classes):
    z = np.ones((2_000_000 // n_classes, n_classes), dtype=np.float32)
    tilt = make_tilt(n_classes, dtype=np.float32)
    tilt_blocks(z, tilt, axis=1)
    tracemalloc.start()
    tilt_blocks(z, tilt, axis=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < z.nbytes + 4 * blocks.BLOCK_BYTES  # the result, two buffers, and the row sums
