"""Bootstrap replicates of an estimated target prior."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tests.support.label_shift import world

import reprior as rp
from reprior.core.shift import (
    METHODS,
    Likelihood,
    Refits,
    ReplicateSolver,
    Resample,
    SoftPredictions,
    bootstrap,
    em_replicates,
    maximum_likelihood,
    predict,
)


def problem(seed=0, n=200, n_labels=150, separation=2.5):
    rng = np.random.default_rng(seed)
    here = world(rng, 3, separation)
    scores, _ = here.draw(rng, n, here.target)
    return here, scores, here.validation(rng, n_labels)


def report(scores, here, validation, method, **options):
    options = {"n_replicates": 60, **options}
    return rp.estimate_target_prior_report(
        scores,
        source_prior=here.source,
        method=method,
        validation=None if method == "em" else validation,
        **options,
    )


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_replicates(method):
    here, scores, validation = problem()
    a, b, c = (
        report(scores, here, validation, method, random_state=seed)
        for seed in (7, np.random.default_rng(7), 8)
    )
    np.testing.assert_array_equal(a.replicates, b.replicates)
    assert not np.array_equal(a.replicates, c.replicates)
    assert a.replicates.shape == (60, 3)
    np.testing.assert_allclose(a.replicates.sum(axis=1), 1)
    assert (a.replicates >= 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_how_replicates_are_grouped_makes_no_difference(method, monkeypatch):
    here, scores, validation = problem()
    whole = report(scores, here, validation, method, n_replicates=11)
    monkeypatch.setattr(bootstrap, "GROUP_ITEMS", 8 * 9 * 11 if method != "em" else 800)
    np.testing.assert_allclose(  # four replicates at a time, or sums over blocks of samples
        report(scores, here, validation, method, n_replicates=11).replicates,
        whole.replicates,
        atol=1e-9,
    )


def test_of_very_many_classes_replicates_are_by_em(monkeypatch):
    here, scores, validation = problem()
    known = report(scores, here, validation, "em").replicates
    monkeypatch.setattr(bootstrap, "MAX_CLASSES", 2)
    told = []
    found = report(scores, here, validation, "em", progress=told.append).replicates
    np.testing.assert_allclose(found, known, atol=1e-5)
    assert told == [60]


@pytest.mark.parametrize("method", ["bbse", "bbse_soft"])
def test_replicates_are_estimates_of_resampled_samples(method):
    # Against the definition: draw, estimate, look at the spread of many.
    here, scores, (seen, labels) = problem(1)
    found = report(scores, here, (seen, labels), method, n_replicates=400).replicates
    rng = np.random.default_rng(0)
    slow = []
    for _ in range(400):
        target = scores[rng.integers(len(scores), size=len(scores))]
        again = np.concatenate(
            [rng.choice(np.flatnonzero(labels == k), (labels == k).sum()) for k in range(3)]
        )
        slow.append(
            rp.estimate_target_prior(
                target,
                source_prior=here.source,
                method=method,
                validation=(seen[again], labels[again]),
            )
        )
    # Both spreads are known to 1/√800 = 3.5 %, their means to a twentieth of the spread.
    spread = np.std(slow, axis=0)
    np.testing.assert_allclose(found.std(axis=0), spread, rtol=0.2)
    np.testing.assert_allclose(found.mean(axis=0), np.mean(slow, axis=0), atol=0.3 * spread.max())


@pytest.mark.parametrize(
    "method", [pytest.param("em", marks=pytest.mark.heavy), "bbse", "bbse_soft"]
)
def test_intervals_cover_the_truth_as_often_as_stated(method):
    # Each time the truth is drawn again. With a coverage of 90 %, 96 to 119 of 120 intervals hold
    # it, except with a probability below 0.001; that allows for the few per cent that EM misses.
    rng = np.random.default_rng(5)
    here = world(rng, 2, 1.5)._replace(
        source=np.array([0.7, 0.3]), means=np.array([[0.0, 0.0], [2.0, 0.0]])
    )
    held = 0
    for _ in range(120):
        target = rng.dirichlet([4.0, 4.0])
        scores, _ = here.draw(rng, 150, target)
        found = report(
            scores, here, here.validation(rng, 300), method, n_replicates=120, random_state=rng
        )
        low, high = found.intervals[1]
        held += low <= target[1] <= high
    assert 96 <= held <= 119


def test_more_confidence_is_wider_and_more_data_narrower():
    here, scores, validation = problem(2, 2000)
    wide = report(scores, here, validation, "em", confidence=0.99)
    narrow = report(scores, here, validation, "em", confidence=0.5)
    assert (np.diff(wide.intervals) > np.diff(narrow.intervals)).all()
    few = report(scores[:100], here, validation, "em", confidence=0.5)
    assert np.diff(few.intervals).mean() > 2 * np.diff(narrow.intervals).mean()


def test_a_class_whose_estimate_is_0_may_be_above_0_in_replicates():
    rng = np.random.default_rng(3)
    here = world(rng)._replace(
        means=np.array([[0.0, 0.0], [1.0, 0.0], [6.0, 0.0]]), source=np.full(3, 1 / 3)
    )
    scores, _ = here.draw(rng, 60, np.array([0.97, 0.0, 0.03]))
    likelihood = Likelihood(scores, here.source)
    estimate = np.array([0.97, 0.0, 0.03])
    found = bootstrap.em_replicates(likelihood, estimate, here.source, 100, rng)
    again = bootstrap.em_replicates(likelihood, here.source, here.source, 100, rng)
    assert 0.01 < again[:, 1].mean() < 0.1  # what the samples say
    np.testing.assert_allclose(found[:, 1].mean(), again[:, 1].mean(), atol=0.03)


def test_soft_predictions_are_multiplied_out_a_class_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.arange(60) % 3)
    found = predict(rng.normal(size=(60, 3)), soft=True)
    expected = [found.probabilities()[labels == k] for k in range(3)]
    sizes, whole = [], SoftPredictions.probabilities
    monkeypatch.setattr(
        SoftPredictions, "probabilities", lambda self: sizes.append(len(self)) or whole(self)
    )
    means = bootstrap._resampled_class_means(found, labels, 7, np.random.default_rng(1))
    assert sizes == [20, 20, 20]
    again = np.random.default_rng(1)
    for k in range(3):
        column = bootstrap._row_means(expected[k], 7, again)
        np.testing.assert_array_equal(means[:, :, k], column)


SAME = 1e-6
"""Steps of both end where the estimate of all further steps is below 1e-8."""


def em_problem(seed, n, n_classes, separation):
    rng = np.random.default_rng(seed)
    here = world(rng, n_classes, separation)
    likelihood = Likelihood(here.draw(rng, n, here.target)[0], here.source)
    return likelihood, maximum_likelihood(likelihood, here.source).priors[0], here.source, rng


def drawn(rng, n):
    return np.bincount(rng.integers(n, size=n), minlength=n).astype(np.uint8)


def by_em(ratio, counts, source):
    """EM to its end in plain NumPy, without any skill: the oracle."""
    rows, weights = ratio[counts > 0].astype(np.float64), counts[counts > 0] / counts.sum()
    prior = source
    for _ in range(200_000):
        joint = rows * prior
        after = weights @ (joint / joint.sum(axis=1, keepdims=True))
        # Where the log-likelihood rises along no class by more than this, it is at its top.
        slopes = weights @ (rows / joint.sum(axis=1, keepdims=True))
        if slopes.max() <= 1.0 + 1e-10 and np.abs(after - prior).max() <= 1e-13:
            break
        prior = after
    return prior


CASES = [(60, 3, 2.0), (500, 4, 4.0), (60, 6, 1.0), (800, 8, 2.0)]


@pytest.mark.parametrize("n, n_classes, separation", CASES)
def test_a_replicate_is_where_em_ends(n, n_classes, separation):
    likelihood, estimate, source, rng = em_problem(0, n, n_classes, separation)
    solve = ReplicateSolver(likelihood, estimate, source)
    for _ in range(4):
        counts = drawn(rng, n)
        found = solve(Resample(likelihood.ratio, counts))
        expected = by_em(likelihood.ratio, counts, source)
        np.testing.assert_allclose(found, expected, atol=SAME)
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1)


def test_replicates_move_classes_to_0_and_away_from_it():
    likelihood, estimate, source, rng = em_problem(0, 60, 6, 1.0)
    found = em_replicates(likelihood, estimate, source, 40, rng)
    gone = estimate < 1e-6
    assert gone.any()
    assert (found[:, gone] > 0.01).any()
    assert (found[:, ~gone] == 0).any()


@pytest.mark.parametrize("why", ["too many", "impossible"])
def test_damped_steps_agree_where_steps_do_not_converge(monkeypatch, why):
    likelihood, estimate, source, rng = em_problem(1, 60, 4, 1.5)
    if why == "impossible":  # the likelihood of some sample is 0 where the steps begin
        likelihood.ratio[0] = [0.0, 0.0, 0.0, 1.0]
        estimate = np.array([0.5, 0.5, 0.0, 0.0])
        monkeypatch.setattr(bootstrap, "derivatives", lambda *_: (None, np.eye(4)))
    else:
        monkeypatch.setattr(bootstrap, "NEWTON_MAX_STEPS", 1)
    counts = drawn(rng, 60)
    found = ReplicateSolver(likelihood, estimate, source)(Resample(likelihood.ratio, counts))
    np.testing.assert_allclose(found, by_em(likelihood.ratio, counts, source), atol=SAME)


def test_a_start_far_away_gives_the_same():
    rng = np.random.default_rng(3)
    here = world(rng)._replace(
        means=np.array([[0.0, 0.0], [1.0, 0.0], [6.0, 0.0]]), source=np.full(3, 1 / 3)
    )
    likelihood = Likelihood(here.draw(rng, 60, np.array([0.97, 0.0, 0.03]))[0], here.source)
    solve = ReplicateSolver(likelihood, here.source, here.source)
    for _ in range(40):
        counts = drawn(rng, 60)
        found = solve(Resample(likelihood.ratio, counts))
        expected = by_em(likelihood.ratio, counts, here.source)
        np.testing.assert_allclose(found, expected, atol=SAME)


def test_an_infinite_curvature_is_not_used(monkeypatch):
    likelihood, estimate, source, rng = em_problem(0, 30, 4, 0.7)
    solve = ReplicateSolver(likelihood, estimate, source)
    monkeypatch.setattr(bootstrap, "COST_OF_CURVATURE", -1.0)
    counts = drawn(rng, 30)
    expected = by_em(likelihood.ratio, counts, source)
    np.testing.assert_allclose(solve(Resample(likelihood.ratio, counts)), expected, atol=SAME)
    monkeypatch.setattr(bootstrap, "_curvature", lambda *_: np.full((4, 4), np.inf))
    np.testing.assert_allclose(solve(Resample(likelihood.ratio, counts)), expected, atol=SAME)


def test_indistinguishable_classes():
    likelihood, _, _, rng = em_problem(2, 200, 3, 2.0)
    ratio = likelihood.ratio[:, [0, 1, 2, 2]]
    source = np.full(4, 0.25)
    twice = Likelihood.from_ratio(ratio)
    estimate = maximum_likelihood(twice, source).priors[0]
    counts = drawn(rng, 200)
    found = ReplicateSolver(twice, estimate, source)(Resample(ratio, counts))
    expected = by_em(ratio, counts, source)
    np.testing.assert_allclose(
        [*found[:2], found[2:].sum()], [*expected[:2], expected[2:].sum()], atol=SAME
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_calibration_per_replicate(dtype):
    likelihood, estimate, source, rng = em_problem(3, 300, 4, 2.0)
    likelihood.ratio = likelihood.ratio.astype(dtype)
    seen = Refits(np.array([0.8, 1.3]), rng.normal(scale=0.5, size=(2, 4)))
    told = []
    found = em_replicates(
        likelihood, estimate, source, 2, np.random.default_rng(7), refits=seen, progress=told.append
    )
    again = np.random.default_rng(7)
    for i in range(2):
        counts = drawn(again, 300)
        own = likelihood.ratio.astype(float) ** seen.scales[i] * np.exp(seen.biases[i])
        np.testing.assert_allclose(found[i], by_em(own, counts, source), atol=20 * SAME)
    assert told == [1, 2]


@pytest.mark.heavy
def test_replicates_of_a_large_sample_take_seconds():
    rng = np.random.default_rng(0)
    n, k = 420_000, 10
    source = np.geomspace(1, 0.01, k)
    source /= source.sum()
    labels = rng.integers(k, size=n)
    timid = 0.4 * (2 * rng.normal(size=(n, k)) + 4 * np.eye(k)[labels] + np.log(source))
    likelihood = Likelihood(timid.astype(np.float32), source)
    start = time.process_time()
    estimate = maximum_likelihood(likelihood, source).priors[0]
    em_replicates(likelihood, estimate, source, 200, rng)
    assert time.process_time() - start < 20
