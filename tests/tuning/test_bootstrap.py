"""Replicates of a profile."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from tests.tuning.shared import ROUNDING, random_case

import reprior as rp
from reprior.profile.profile import StrengthProfile
from reprior.tuning import bootstrap as bootstrap_module
from reprior.tuning.bootstrap import CHUNK, GRID, StrengthBootstrap

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
    assert found.reading.bounds == (0.0, 2.0)
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
