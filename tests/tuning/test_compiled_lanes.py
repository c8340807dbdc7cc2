"""Questions to a whole row at once, against NumPy."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from reprior.tuning.compiled_lanes import lanes_for, near_lines, row_ends

CLASSES = pytest.mark.parametrize("n_classes", [1, 2, 3, 4, 5, 16, 17, 63, 64, 100, 128])
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@njit
def ends(scores, i, shift, own, most, lanes):
    n = np.uintp(scores.shape[1])
    return row_ends(scores, np.uintp(i) * n, n, shift, own, most, lanes)


@njit
def near(scores, i, slope, x, least, lanes):
    n = np.uintp(scores.shape[1])
    return near_lines(scores, np.uintp(i) * n, n, slope, x, least, lanes)


def padded(values, lanes):
    found = np.full(max(len(lanes), values.size), 1e30, values.dtype)  # of no class
    found[: values.size] = values
    return found


def draw(rng, n_classes, dtype):
    """Rows of few values, so with ties; behind each there are better ones."""
    scores = rng.integers(-3, 4, (20, n_classes)).astype(dtype)
    scores[:, : n_classes // 2][rng.random((20, n_classes // 2)) < 0.2] = -np.inf
    spare = np.full((130, n_classes), 100, dtype)
    return np.concatenate([scores, spare]), scores


@CLASSES
@DTYPES
def test_ends(rng, n_classes, dtype):
    lanes, (roomy, scores) = lanes_for(n_classes), draw(rng, n_classes, dtype)
    shift = rng.integers(-2, 3, n_classes).astype(dtype)
    own, most = dtype(0.125), dtype(2.0)
    for i, z in enumerate(scores):
        first, peak, best, n_near = ends(roomy, i, padded(shift, lanes), own, most, lanes)
        line = z + shift
        level = line.max() - own * (abs(line.max()) + most)
        assert (first, peak, best) == (z.argmax(), z.max(), line.argmax())
        assert n_near == (~(line < level)).sum()


@CLASSES
@DTYPES
def test_lines_at_the_level_are_near(rng, n_classes, dtype):
    lanes, (roomy, scores) = lanes_for(n_classes), draw(rng, n_classes, dtype)
    slope = rng.integers(-2, 3, n_classes).astype(dtype)
    for i, z in enumerate(scores):
        for least in (-2.0, 0.0, 1.5):
            found = near(roomy, i, padded(slope, lanes), dtype(0.5), dtype(least), lanes)
            assert found == (~(z + dtype(0.5) * slope < least)).sum()


@DTYPES
@pytest.mark.parametrize("nan", [np.nan, -np.nan])
def test_a_row_with_nan_is_never_decided(dtype, nan):
    lanes = lanes_for(5)
    for place in range(5):
        scores = np.zeros((9, 5), dtype)
        scores[0, place] = nan
        scores[0, (place + 1) % 5] = 9
        shift = padded(np.zeros(5, dtype), lanes)
        _, peak, _, n_near = ends(scores, 0, shift, dtype(0), dtype(1), lanes)
        assert n_near > 1 or not np.isfinite(peak)


def test_zeros_of_either_sign_are_equal():
    scores = np.array([[-1.0, -0.0, 0.0], [0.0, 0.0, 0.0]])
    assert ends(scores, 0, np.zeros(4), 0.0, 1.0, lanes_for(3))[0] == 1


def test_only_rows_that_are_one_piece_are_taken():
    turned = np.asfortranarray(np.zeros((9, 5)))
    with pytest.raises(TypingError):
        ends(turned, 0, np.zeros(8), 0.0, 1.0, lanes_for(5))
    with pytest.raises(TypingError):
        near(turned, 0, np.zeros(8), 0.0, 1.0, lanes_for(5))


BOUNDS_CHECKED = textwrap.dedent("""
    import numpy as np
    import reprior as rp
    from reprior.tuning import compiled  # from here on every pass is compiled

    rng = np.random.default_rng(0)
    for n_classes in (3, 14):
        for bad in (None, np.nan, -np.nan, np.inf):
            for bounds in ((-1, 0), (0, 2), (-1, 1.5), (0.5, 3)):
                scores = rng.normal(size=(300, n_classes))
                if bad is not None:
                    scores[7, 1] = bad
                labels = rng.integers(n_classes, size=300)
                prior = rp.prior_from_counts(np.arange(1, n_classes + 1))
                try:
                    rp.StrengthProfile.from_scores(
                        scores, labels, source_prior=prior, bounds=bounds
                    )
                    assert bad is None, "taken"
                except rp.ScoresError as error:
                    assert "[7, 1]" in str(error), error
    assert compiled.count_rows.signatures
    print("done")
""")


def test_nothing_is_read_beyond_an_array(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", BOUNDS_CHECKED], capture_output=True, text=True, check=False
    )
    assert done.stdout == "done\n", done.stderr
