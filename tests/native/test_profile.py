"""The profile kernel against the array code and brute force, at every instruction set."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tuning.shared import BOUNDS, cases, exact_cases, random_case, rows_of, switch_multiset

from reprior import ScoresError
from reprior.core import kernels
from reprior.profile import AFTER_ZERO, passes


@pytest.fixture(autouse=True, params=kernels.native.levels())
def level(request):
    """Use every instruction set that this processor has."""
    before = kernels.native.level()
    kernels.native.set_level(request.param)
    yield request.param
    kernels.native.set_level(before)


@pytest.fixture
def rng():
    """Return random numbers that are the same in every run."""
    return np.random.default_rng(20201206)


def both(scores, labels, slopes, bounds, weights=None):
    """Return what the kernel finds, and what the array code finds."""
    scores, slopes = np.asarray(scores), np.asarray(slopes, np.float64)
    rows = rows_of(scores, labels, weights)
    native = passes.run_pass(rows, slopes, bounds)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "native", None)
        arrays = passes.run_pass(rows, slopes, bounds)
    return native, arrays


def assert_equal(native, arrays):
    """Bit for bit: counts, and switches as multisets; weighted sums to their rounding."""
    (counts, sums, switches, *_), (counts_too, sums_too, switches_too, *_) = native, arrays
    np.testing.assert_array_equal(counts, counts_too)
    assert switch_multiset(switches) == switch_multiset(switches_too)
    assert (sums is None) == (sums_too is None)
    if sums is not None:
        np.testing.assert_allclose(sums, sums_too, rtol=1e-13)


LEVELS_SHARE_A_FIXTURE = [HealthCheck.function_scoped_fixture]


@settings(max_examples=100, suppress_health_check=LEVELS_SHARE_A_FIXTURE)
@given(exact_cases())
def test_equals_the_array_pass_with_ties(case):
    assert_equal(*both(case.scores, case.labels, case.slopes, case.bounds))


@settings(max_examples=50, suppress_health_check=LEVELS_SHARE_A_FIXTURE)
@given(cases(zeros=False))
def test_equals_the_array_pass_with_weights(case):
    assert_equal(*both(case.scores, case.labels, case.slopes, case.bounds, case.weights))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_equals_the_array_pass_for_any_number_of_classes(rng, dtype):
    for n_classes in [1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 256, 257, 1000]:
        for bounds in BOUNDS:
            case = random_case(rng, 40, n_classes, dtype=dtype)
            assert_equal(*both(case.scores, case.labels, case.slopes, bounds))


@pytest.mark.parametrize("n_classes", [130, 300])
@pytest.mark.parametrize("bounds", BOUNDS)
def test_equals_the_array_pass_with_ties_across_blocks_of_classes(rng, n_classes, bounds):
    scores = rng.integers(-2, 3, (60, n_classes)) * 0.75
    scores[rng.random(scores.shape) < 0.2] = -np.inf
    scores[:, -1] = 0.0
    slopes = rng.integers(-2, 3, n_classes)
    labels = rng.integers(n_classes, size=60)
    assert_equal(*both(scores.astype("f4"), labels, slopes, bounds))


def test_the_first_and_the_last_class_of_a_block_can_win(rng):
    for place in (0, 127, 128, 255, 256, 299):
        scores = np.full((1, 300), -5.0, np.float32)
        scores[0, place] = 1.0
        (counts, *_), arrays = both(scores, [place], rng.normal(size=300), (0.0, 0.5))
        assert counts[passes.Table.TRUE_POSITIVE, place] == 1
        np.testing.assert_array_equal(counts, arrays[0])


@settings(max_examples=50, suppress_health_check=LEVELS_SHARE_A_FIXTURE)
@given(st.integers(0, 2**32 - 1))
def test_equals_the_array_pass_in_near_ties(seed):
    rng = np.random.default_rng(seed)
    n_classes = int(rng.choice([3, 12, 140]))
    slopes = rng.uniform(-3, 3, n_classes)
    dtype = rng.choice(["f4", "f8"])
    scores = (10 - slopes + np.zeros((15, 1))).astype(dtype)
    scores += (rng.integers(-2, 3, scores.shape) * np.spacing(scores)).astype(dtype)
    bounds = BOUNDS[rng.integers(len(BOUNDS))]
    assert_equal(*both(scores, rng.integers(n_classes, size=15), slopes, bounds))


def test_equals_the_array_pass_where_every_row_switches_often(rng):
    # Tangents of a parabola: every class wins somewhere, so the buffer of switches runs full.
    slopes = np.linspace(0, 4, 30)
    scores = np.tile(-(slopes**2) / 4, (200, 1)) + rng.normal(scale=1e-3, size=(200, 30))
    native, arrays = both(scores, rng.integers(30, size=200), slopes, (0.0, 2.0))
    assert len(native[2]) > 20 * 200
    assert_equal(native, arrays)


@pytest.mark.parametrize("layout", ["fortran", "strided", "reversed", "big-endian", "int"])
def test_any_memory_layout(rng, layout):
    case = random_case(rng, 50, 6)
    scores = np.round(case.scores * 4)
    wide = np.zeros((100, 12))
    wide[::2, ::2] = scores
    laid_out = {
        "fortran": np.asfortranarray(scores),
        "strided": wide[::2, ::2],
        "reversed": scores[::-1].copy()[::-1],
        "big-endian": scores.astype(">f4"),
        "int": scores.astype(int),
    }[layout]
    want = passes.run_pass(rows_of(scores, case.labels), case.slopes, (0.0, 2.0))
    assert_equal(*both(laid_out, case.labels, case.slopes, (0.0, 2.0)))
    assert_equal(passes.run_pass(rows_of(laid_out, case.labels), case.slopes, (0.0, 2.0)), want)


def test_rows_do_not_see_the_next_one(rng):
    for n_classes, n_rows in itertools.product([2, 5, 14, 100], [1, 2, 3, 50]):
        # What is in the next row is better than anything in this one.
        scores = np.arange(n_rows)[:, None] * 100.0 + rng.normal(size=(n_rows, n_classes))
        labels, slopes = rng.integers(n_classes, size=n_rows), rng.normal(size=n_classes)
        assert_equal(*both(scores.astype("f4"), labels, slopes, (0.0, 2.0)))


# Shorter than a vector, one block of classes, several.
SIZES = [3, 14, 31, 32, 100, 128, 129, 300]


@pytest.mark.parametrize("bounds", [(0.0, 2.0), (-1.0, 0.0), (0.5, 3.0)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_nan_of_either_sign_and_infinity_are_refused_at_any_place(rng, bounds, dtype):
    for n_classes, bad in itertools.product(SIZES, [np.nan, -np.nan, np.inf]):
        case = random_case(rng, 20, n_classes, dtype=dtype)
        for place in {0, 1, n_classes // 2, n_classes - 1}:
            scores = case.scores.copy()
            scores[13, place] = bad
            with pytest.raises(ScoresError, match=rf"NaN or \+inf. Got scores\[13, {place}\]"):
                passes.run_pass(rows_of(scores, case.labels), case.slopes, bounds)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_zeros_of_either_sign_are_equal(rng, dtype):
    for n_classes in SIZES:
        # The larger of the two as bits, 0.0, must not win over an earlier -0.0.
        scores = rng.choice(np.array([0.0, -0.0, -1.0], dtype), (60, n_classes))
        scores[:, rng.integers(n_classes)] = 0.0
        slopes = rng.integers(-1, 2, n_classes)
        for bounds in BOUNDS:
            native, arrays = both(scores, rng.integers(n_classes, size=60), slopes, bounds)
            assert_equal(native, arrays)
            want = np.bincount(scores.argmax(axis=1), minlength=n_classes)
            np.testing.assert_array_equal(native[0][passes.Table.PREDICTED_AT_0], want)


@pytest.mark.parametrize("size", [1e-42, 1e-30, 1.0, 1e30, 1.7e38])
def test_float32_scores_of_any_size(rng, size):
    for n_classes in SIZES:
        # Products of the smallest ones are no normal float32, in which rows are screened first.
        scores = (rng.uniform(-2, 2, (40, n_classes)) * size).astype("f4")
        labels = rng.integers(n_classes, size=40)
        for scale in (1.0, min(size, 1e30)):
            slopes = rng.normal(size=n_classes) * scale
            for bounds in BOUNDS:
                assert_equal(*both(scores, labels, slopes, bounds))


@pytest.mark.parametrize("bounds", [(0.0, 2.0), (0.5, 3.0), (AFTER_ZERO, 1.0)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_classes_that_are_ruled_out_win_at_zero_alone(rng, bounds, dtype):
    for n_classes in [2, 14, 40]:
        case = random_case(rng, 60, n_classes, dtype=dtype)
        scores = np.round(case.scores * 2) / 2
        slopes = case.slopes.copy()
        slopes[: n_classes // 2] = -np.inf
        assert_equal(*both(scores.astype(dtype), case.labels, slopes, bounds))


@pytest.mark.parametrize("shape", [(0, 5), (3, 5, 7), (4, 3, 5, 6), (2, 2, 2, 17, 3)])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_class_axis_anywhere_without_a_copy(rng, shape, dtype):
    n_classes = shape[1]
    maps = rng.normal(size=shape).astype(dtype)
    view = np.moveaxis(maps, 1, -1)
    slopes = rng.normal(size=n_classes)
    labels = rng.integers(n_classes, size=view.shape[:-1])
    labels[rng.random(labels.shape) < 0.2] = -1
    strided = kernels.strided_rows(view)
    assert maps.size == 0 or len(shape) > 4 or np.shares_memory(strided, maps)
    found = profiled(strided, labels.reshape(-1), slopes)
    rows = np.ascontiguousarray(view).reshape(-1, n_classes)
    kept = labels.reshape(-1) >= 0
    assert_same(found, profiled(rows[kept][None], labels.reshape(-1)[kept], slopes))


def test_bfloat16_and_tensors_are_read_where_they_are(rng):
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(rng.normal(size=(1, 50, 20))).to(torch.bfloat16)
    labels, slopes = rng.integers(20, size=50), rng.normal(size=20)
    want = profiled(tensor.to(torch.float32).numpy(), labels, slopes)
    assert_same(profiled(tensor, labels, slopes), want)


@pytest.mark.parametrize("n_classes", [2, 5, 16, 33])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("own", ["f2", "f4", "f8"])
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (0.25, 2.0), (-1.0, 0.0)])
def test_slopes_of_each_row_agree_with_every_row_alone(rng, n_classes, dtype, own, bounds):
    n = 40
    scores = rng.integers(-3, 4, (1, n, n_classes)).astype(dtype)
    slopes = rng.integers(-3, 4, (n, n_classes)).astype(float)
    labels = rng.integers(n_classes, size=n)
    found = profiled(scores, labels, slopes[None].astype(own), bounds)
    ends = (scores + slopes).astype(own)
    assert_same(profiled(scores, labels, ends, bounds, to_scores=True), found)
    parts = [profiled(scores[:, i : i + 1], labels[i : i + 1], slopes[i], bounds) for i in range(n)]
    np.testing.assert_array_equal(found[0], np.sum([part[0] for part in parts], axis=0))
    np.testing.assert_array_equal(found[1], np.concatenate([part[1] for part in parts]))
    np.testing.assert_array_equal(found[2], np.concatenate([part[2] for part in parts], axis=1))
    for strength in (bounds[0] + 1e-3, 0.51 * sum(bounds), bounds[1] - 1e-3):
        want = (scores[0] + strength * slopes).argmax(axis=1)
        at = found[0][passes.Table.PREDICTED].copy()
        before = found[1] <= strength
        np.add.at(at, found[2][2][before], 1)
        np.add.at(at, found[2][1][before], -1)
        np.testing.assert_array_equal(at, np.bincount(want, minlength=n_classes))


def test_arrays_of_a_wrong_size_are_refused(rng):
    scores, labels, slopes = rng.normal(size=(1, 4, 3)), np.zeros(4, np.int64), np.zeros(3)
    with pytest.raises(ValueError, match="labels must be as many"):
        profiled(scores, labels[:3], slopes)
    with pytest.raises(ValueError, match="below the number of classes"):
        profiled(scores, labels + 3, slopes)
    with pytest.raises(ValueError, match="slopes must have shape"):
        profiled(scores, labels, np.zeros(2))
    with pytest.raises(ValueError, match="a direction must have as many scores"):
        profiled(scores, labels, scores[:, 1:])
    with pytest.raises(ValueError, match="not cross 0"):
        profiled(scores, labels, slopes, (-1.0, 1.0))


def profiled(scores, labels, slopes, bounds=(0.0, 2.0), capacity=1 << 15, to_scores=False):
    """Counts, positions and parties as the kernel itself writes them; slopes (K,) or (1, N, K)."""
    along = (slopes, None, False) if slopes.ndim == 1 else (None, slopes, to_scores)
    n_classes = scores.shape[-1]
    counts, sums = np.zeros((5, n_classes), np.int64), np.zeros((5, n_classes))
    position, parties = np.empty(capacity), np.empty((4, capacity), np.int32)
    ends = np.empty((2, scores.shape[0] * scores.shape[1]), np.int32)
    row, used = kernels.native.profile(
        scores,
        labels,
        None,
        *along,
        *bounds,
        0,
        counts,
        sums,
        position,
        parties,
        np.empty(0),
        0,
        ends,
    )
    assert row == len(labels)
    return counts, position[:used], parties[:3, :used]


def assert_same(found, want):
    for array, other in zip(found, want, strict=True):
        np.testing.assert_array_equal(array, other)
