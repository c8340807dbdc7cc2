"""The bootstrap of blocks: a replicate is the sum of whole blocks, each some number of times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tuning.shared import assert_same_counts, random_case

from reprior.exceptions import OptionError, ProfileMismatchError
from reprior.profile.profile import StrengthProfile
from reprior.tuning.block_bootstrap import _Blocks, bootstrap_profiles
from reprior.tuning.selection import select
from reprior.tuning.uncertainty import uncertainty

N_BLOCKS = 12


def blocks_of(case, **options):
    return [case.rows(slice(i, None, N_BLOCKS)).profile(**options) for i in range(N_BLOCKS)]


@settings(max_examples=30)
@given(
    st.integers(0, 5),
    st.lists(st.integers(0, 3), min_size=N_BLOCKS, max_size=N_BLOCKS),
    st.booleans(),
    st.booleans(),
)
def test_a_replicate_is_the_profile_of_repeated_samples(seed, times, heavy, binned):
    case = random_case(np.random.default_rng(seed), 60, 3, weighted=heavy)
    options = {"resolution": 0.05 if binned else None}
    found = _Blocks(tuple(blocks_of(case, **options))).profile(np.array(times))
    where = np.repeat(np.arange(60), [times[i % N_BLOCKS] for i in range(60)])
    if not where.size:
        assert found.n_samples == 0
        return
    want = case.rows(where).profile(**options)
    assert (found.n_samples, found.n_switches) == (want.n_samples, want.n_switches)
    for strength in (0.0, 0.5, 1.0, 2.0):
        a, b = found.counts(strength), want.counts(strength)
        np.testing.assert_allclose(a.true_positive, b.true_positive, rtol=1e-12)
        np.testing.assert_allclose(a.predicted, b.predicted, rtol=1e-12)


def test_the_whole_is_the_sum_of_the_blocks(rng):
    case = random_case(rng, 120, 3)
    bootstrap = bootstrap_profiles(blocks_of(case), n_replicates=30)
    assert_same_counts(bootstrap.profile.baseline, case.profile().baseline)
    assert bootstrap.profile.best("accuracy") == case.profile().best("accuracy")


def test_replicates_are_drawn_by_the_seed(rng):
    blocks = blocks_of(random_case(rng, 240, 3))
    one, same, other = (
        bootstrap_profiles(blocks, n_replicates=40, random_state=seed).replicates("accuracy")
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.values, same.values)
    assert (one.values != other.values).any()


def test_the_spread_is_that_of_blocks_not_of_samples(rng):
    """Blocks that are copies of few samples have the standard error of as few samples."""
    case = random_case(rng, 20, 3)
    blocks = [
        StrengthProfile.from_scores(
            np.repeat(case.scores[[i]], 50, axis=0), np.repeat(case.labels[i], 50),
            source_prior=case.source,
        )
        for i in range(20)
    ]  # fmt: skip
    error = bootstrap_profiles(blocks, n_replicates=400).standard_error("accuracy", 1.0)
    right = np.array([block.evaluate("accuracy", 1.0) for block in blocks])
    assert error == pytest.approx(right.std() / np.sqrt(20), rel=0.15)  # not of 1000 samples


def test_intervals_can_be_made_of_it(rng):
    found = uncertainty(
        bootstrap_profiles(blocks_of(random_case(rng, 600, 3)), n_replicates=100), "accuracy"
    )
    assert found.value_interval[0] <= found.value <= found.value_interval[1]


def test_words(rng):
    blocks = blocks_of(random_case(rng, 60, 3))
    with pytest.raises(OptionError, match=r"at least 10, one per block\. Got 3"):
        bootstrap_profiles(blocks[:3])
    with pytest.raises(ProfileMismatchError, match="equal resolution to be drawn from together"):
        bootstrap_profiles([*blocks[:-1], blocks[-1].binned(0.1)])


def test_there_are_no_scores_to_ask_for(rng):
    bootstrap = bootstrap_profiles(blocks_of(random_case(rng, 60, 3)), n_replicates=20)
    with pytest.raises(OptionError, match="`reading` must be asked of a bootstrap of samples"):
        _ = bootstrap.reading
    with pytest.raises(OptionError, match="Got one of blocks, which are known by their profiles"):
        select(bootstrap, "accuracy", "balanced_log_loss")
    assert select(bootstrap.profile, "accuracy", "smooth").strength >= 0.0
