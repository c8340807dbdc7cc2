"""Replicates of a profile."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tuning.shared import ROUNDING, assert_same_counts, random_case

import reprior as rp
from reprior import StrengthBootstrap, uncertainty
from reprior.exceptions import OptionError, ProfileMismatchError
from reprior.profile import StrengthProfile
from reprior.tuning import bootstrap as bootstrap_module
from reprior.tuning import bootstrap_profiles, select
from reprior.tuning.bootstrap import CHUNK, GRID, _Blocks

METRICS = ("balanced_accuracy", "macro_f1")


def bootstrap_of(case, **options):
    settings = {
        "source_prior": case.source, "target_prior": case.target, "bounds": case.bounds,
        "sample_weight": case.weights, "n_replicates": 40,
    }  # fmt: skip
    return StrengthBootstrap.from_scores(case.scores, case.labels, **(settings | options))


def columns(found):
    return found.values, found.baseline, found.best_strength, found.best_value, found.best_interval


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_replicate_is_the_profile_of_weighted_samples(rng, metric, weighted):
    # With a group for each sample the units are the samples, and the weights can be drawn again.
    case = random_case(rng, 120, 4, weighted=weighted)
    found = bootstrap_of(case, groups=np.arange(120), n_replicates=CHUNK + 5)
    replicates = found.replicates(metric)
    at = 0
    for seed, n in zip(found._seeds, (CHUNK, 5), strict=True):
        for times in np.random.default_rng(seed).poisson(1.0, (n, 120)):
            weight = times if case.weights is None else times * case.weights
            want = case.profile(sample_weight=weight.astype(float))
            best = want.best(metric)
            np.testing.assert_allclose(
                replicates.values[at], want.evaluate(metric, replicates.strengths),
                rtol=0, atol=ROUNDING,
            )  # fmt: skip
            base = want.evaluate(metric, 0.0)
            np.testing.assert_allclose(
                [replicates.best_value[at], replicates.baseline[at]], [best.value, base]
            )
            if not weighted:  # equal values are ties only where weights are whole numbers
                assert replicates.best_strength[at] == best.strength
                assert tuple(replicates.best_interval[at]) == best.interval
            at += 1
    assert len(replicates) == at


@pytest.mark.parametrize("metric", METRICS)
def test_kernels_and_array_code_give_replicates_are_equal_to_the_bit(rng, metric, request):
    case = random_case(rng, 300, 6)
    native = bootstrap_of(case).replicates(metric)
    request.getfixturevalue("without_native")
    arrays = bootstrap_of(case).replicates(metric)
    for a, b in zip(columns(native), columns(arrays), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("groups", [None, np.arange(60) // 2])
def test_threads_and_drawing_ahead_give_the_same(rng, monkeypatch, groups):
    case = random_case(rng, 60, 3)
    prior = [0.5, 0.3, 0.2]

    def replicates(worth):
        monkeypatch.setattr(bootstrap_module, "WORTH_SHARING", worth)
        made = StrengthBootstrap.from_scores(
            case.scores, case.labels, source_prior=prior, groups=groups, n_replicates=3 * CHUNK + 1
        )
        return made.replicates("accuracy")

    shared, ahead = replicates(0), replicates(1 << 40)
    for name in ("values", "baseline", "best_strength", "best_value", "best_interval"):
        np.testing.assert_array_equal(getattr(shared, name), getattr(ahead, name))


def test_the_seed_decides_everything(rng):
    case = random_case(rng, 150, 3)
    first, same, other, drawn = (
        bootstrap_of(case, random_state=state).replicates("accuracy").values
        for state in (1, 1, 2, np.random.default_rng(1))
    )
    np.testing.assert_array_equal(first, same)
    np.testing.assert_array_equal(first, drawn)
    assert (first != other).any()


def test_more_replicates_begin_with_the_same(rng):
    case = random_case(rng, 100, 3)
    few = bootstrap_of(case, n_replicates=20).replicates("accuracy").values
    many = bootstrap_of(case, n_replicates=2 * CHUNK).replicates("accuracy").values
    np.testing.assert_array_equal(few, many[:20])


def test_a_metric_is_drawn_once(rng):
    found = bootstrap_of(random_case(rng, 50, 3))
    assert found.replicates("mean_accuracy") is found.replicates("balanced_accuracy")


def test_the_standard_error_of_a_share_is_the_binomial_one(rng):
    # Accuracy is a mean of 0s and 1s: √(p(1 − p) / n), whatever the number of samples drawn.
    case = random_case(rng, 2000, 3)
    found = bootstrap_of(case, n_replicates=400)
    at = np.array([0.0, 0.5, 1.3])
    p = found.profile.evaluate("accuracy", at)
    error = found.standard_error("accuracy", at)
    np.testing.assert_allclose(error, np.sqrt(p * (1 - p) / 2000), rtol=0.15)
    assert found.standard_error("accuracy", 0.5) == error[1]


def test_groups_are_drawn_together(rng):
    # Each sample four times: as groups they are worth a quarter, one by one they look like all.
    case = random_case(rng, 200, 3)
    fourfold = case.rows(np.tile(np.arange(200), 4))
    alone = bootstrap_of(case, n_replicates=300).standard_error("accuracy", 0.5)
    together = bootstrap_of(fourfold, groups=np.tile(np.arange(200), 4), n_replicates=300)
    apart = bootstrap_of(fourfold, n_replicates=300)
    assert together.standard_error("accuracy", 0.5) == pytest.approx(alone, rel=0.15)
    assert apart.standard_error("accuracy", 0.5) == pytest.approx(alone / 2, rel=0.15)


def test_dask_arrays_are_loaded(rng):
    case = random_case(rng, 60, 3)
    lazy = StrengthBootstrap.from_scores(
        da.from_array(case.scores, chunks=(20, 3)), da.from_array(case.labels, chunks=20),
        source_prior=case.source, n_replicates=40,
    )  # fmt: skip
    want = bootstrap_of(case).replicates("accuracy").values
    np.testing.assert_array_equal(lazy.replicates("accuracy").values, want)


def test_the_profile_is_that_of_the_samples(rng):
    case = random_case(rng, 90, 4)
    found = bootstrap_of(case)
    for a, b in zip(found.profile.curve("macro_f1"), case.profile().curve("macro_f1"), strict=True):
        np.testing.assert_array_equal(a, b)
    assert isinstance(found.profile, StrengthProfile)
    assert found.priors.bounds == (0.0, 2.0)
    assert found.replicates("macro_f1").strengths.shape == (GRID,)


def test_replicates_without_the_class_are_left_out(rng):
    case = random_case(rng, 40, 3)
    case.labels[:] = np.where(np.arange(40) == 0, 2, case.labels % 2)
    kept = len(bootstrap_of(case, n_replicates=200).replicates("recall[2]"))
    assert 90 < kept < 160  # one sample of it: drawn with probability 1 − 1/e


def test_labels_that_are_too_few_to_draw_from(rng):
    case = random_case(rng, 40, 3)
    case.labels[:] = np.where(np.arange(40) == 0, 2, case.labels % 2)
    with pytest.raises(rp.LabelsError) as caught:
        bootstrap_of(case, n_replicates=20).replicates("recall[2]")
    assert "recall[2] is defined in " in str(caught.value)
    assert str(caught.value).endswith("of 20 replicates. Add labelled samples.")


@pytest.mark.parametrize("n_replicates", [19, 100.0, True, "many"])
def test_replicates_must_be_enough(rng, n_replicates):
    with pytest.raises(rp.OptionError) as caught:
        bootstrap_of(random_case(rng, 20, 3), n_replicates=n_replicates)
    assert str(caught.value) == (
        f"`n_replicates` must be a whole number of at least 20. Got {n_replicates!r}. Pass 1000 "
        f"for intervals, 200 for standard errors."
    )


def test_a_strength_outside_the_bounds_has_no_error(rng):
    with pytest.raises(rp.OptionError, match="within the bounds of the profile, 0 to 2"):
        bootstrap_of(random_case(rng, 30, 3)).standard_error("accuracy", 2.5)


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
    with pytest.raises(OptionError, match="`samples` must be asked of a bootstrap of samples"):
        _ = bootstrap.samples
    with pytest.raises(OptionError, match="Got one of blocks, which are known by their profiles"):
        select(bootstrap, "accuracy", "balanced_log_loss")
    assert select(bootstrap.profile, "accuracy", "smooth").strength >= 0.0
