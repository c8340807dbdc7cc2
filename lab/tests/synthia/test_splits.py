"""Blocks of frames to tune on, chosen by brute force here too."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprior.exceptions import LabelsError, OptionError
from reprior_lab.synthia.data import absences, hold_out, places_of


def brute_force(pixels, share, length, n_blocks, gap):
    """The least sum over all placements that leave every class in the training part."""
    n = len(pixels)
    best = None
    for starts in itertools.combinations(range(n - length + 1), n_blocks):
        held = np.zeros(n, bool)
        near = np.zeros(n, bool)
        for start in starts:
            held[start : start + length] = True
            near[max(0, start - gap) : start + length + gap] = True
        if any(b - a < length + 2 * gap for a, b in itertools.pairwise(starts)):
            continue
        there = pixels.sum(axis=0) > 0
        if (pixels[~near].sum(axis=0)[there] == 0).any():
            continue
        frames = (pixels > 0)[:, there]
        f = frames[held].sum(axis=0) / frames.sum(axis=0)
        p = pixels[held][:, there].sum(axis=0) / pixels[:, there].sum(axis=0)
        value = ((f - share) ** 2 + (p - share) ** 2).sum()
        if best is None or value < best[0] - 1e-9:
            best = (value, held, near)
    return best


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(8, 20),
    n_blocks=st.integers(1, 2),
    gap=st.integers(0, 2),
)
def test_no_placement_is_better(seed, n, n_blocks, gap):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(1, 50, (n, 4)) * (rng.random((n, 4)) < [1.0, 0.5, 0.3, 0.0])
    share = 0.25
    length = max(1, round(share * n / n_blocks))
    expected = brute_force(pixels, share, length, n_blocks, gap)
    if expected is None:
        with pytest.raises(OptionError, match="must leave every class in the training part"):
            hold_out(pixels, share=share, n_blocks=n_blocks, gap=gap)
        return
    split = hold_out(pixels, share=share, n_blocks=n_blocks, gap=gap)
    _, held, near = expected
    assert np.array_equal(split.held_out, np.flatnonzero(held))
    assert np.array_equal(split.train, np.flatnonzero(~near))
    assert np.array_equal(split.left_out, np.flatnonzero(near & ~held))


def test_frames_of_one_place_stay_together():
    names = [f"{i:04d}" for i in [*range(20), *range(100, 119)]]
    places = places_of(names)
    pixels = np.random.default_rng(0).integers(1, 9, (39, 3))
    split = hold_out(pixels, share=0.2, n_blocks=2, gap=1, places=places)
    parts = [set(places[index]) for index in (split.train, split.held_out, split.left_out)]
    assert not parts[0] & parts[1]
    assert not parts[1] & parts[2]
    assert len(parts[1]) == 4
    assert sorted(np.concatenate([split.train, split.held_out, split.left_out])) == list(range(39))


def test_a_class_of_few_places_is_never_taken_out_of_training():
    pixels = np.ones((30, 2), int)
    pixels[:, 1] = 0
    pixels[12:14, 1] = 5
    split = hold_out(pixels, share=0.3, n_blocks=1, gap=0)
    assert pixels[split.train, 1].sum() > 0


def test_a_long_drive_is_searched_too():
    pixels = np.random.default_rng(1).integers(0, 5, (3000, 4))
    split = hold_out(pixels, share=0.2, n_blocks=3, gap=5)
    assert abs(len(split.held_out) / 3000 - 0.2) < 0.01
    assert len(split.left_out) == 30 or split.held_out[0] < 5 or split.held_out[-1] > 2994


def test_a_new_drive_begins_where_numbers_jump_or_names_change():
    assert places_of(["a7", "a8", "a10", "b11", "b12"]).tolist() == [0, 1, 0, 0, 1]
    with pytest.raises(LabelsError, match=r"must end in a number .* Got 'first'"):
        places_of(["first"])


def test_absences_name_class_and_part():
    pixels = np.array([[1, 0, 0], [1, 1, 0]])
    found = absences(pixels, ["a", "b", "c"], training=np.array([0, 1]), test=np.array([0]))
    assert found == (
        "Absent from the 2 frames of training: c.",
        "Absent from the 1 frames of test: b, c.",
    )


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"share": 1.0}, OptionError, "`share` must be below 1"),
        ({"share": 0.0}, OptionError, "`share` must be a finite number above 0"),
        ({"n_blocks": 0}, OptionError, "`n_blocks` must be a whole number of at least 1"),
        ({"gap": -1}, OptionError, "`gap` must be a whole number of at least 0"),
        ({"places": [0, 1]}, LabelsError, r"`pixels` must be \(N, K\) and `places` \(N,\)"),
    ],
)
def test_bad_options(options, error, words):
    with pytest.raises(error, match=words):
        hold_out(np.ones((9, 2), int), **options)
