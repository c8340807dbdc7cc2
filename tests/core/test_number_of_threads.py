"""Weighted results have the same bits for any number of threads, from kernels and array code."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reprior as rp
from reprior.core import WeightedRows, log_loss_moments, log_loss_sums, posterior_sums, threads


def profile(scores, labels, weights, prior):
    made = rp.StrengthProfile.from_scores(scores, labels, source_prior=prior, sample_weight=weights)
    counts = made.counts(0.7)
    return counts.true_positive, counts.predicted, counts.support, made.curve("accuracy")[1]


def temperature(scores, labels, weights, prior):
    return rp.fit_temperature(scores, labels, sample_weight=weights).temperature


def log_loss(scores, labels, weights, prior):
    fit = rp.fit_log_loss(scores, labels, source_prior=prior, sample_weight=weights)
    return fit.temperature, fit.strength, fit.log_loss


def scaling(scores, labels, weights, prior):
    fit = rp.fit_scaling(
        scores, labels, source_prior=prior, sample_weight=weights, scaling="vector"
    )
    return fit.scale, fit.bias


def biases(scores, labels, weights, prior):
    fit = rp.tune_per_class(
        scores[:20_000], labels[:20_000], sample_weight=weights[:20_000], source_prior=prior
    )
    return fit.biases, fit.value


def reliability(scores, labels, weights, prior):
    posterior = rp.rebalance(scores, prior)
    made = rp.metrics.Reliability.from_posterior(posterior, labels, weight=weights)
    return made.confidence, made.hits, made.class_confidence, made.class_hits


def target_prior(scores, labels, weights, prior):
    half = len(labels) // 2
    validation = (scores[:half], labels[:half])
    return [
        rp.estimate_target_prior(
            scores[half:], source_prior=prior, method=method, validation=validation
        )
        for method in ("em", "bbse", "bbse_soft")
    ]


RESULTS = [profile, temperature, log_loss, scaling, biases, reliability, target_prior]


@cache
def problem():
    """Scores for many threads, weights that round when they are added, and a source prior."""
    rng = np.random.default_rng(7)
    n, n_classes = 120_000, 10
    labels = rng.integers(n_classes, size=n)
    prior = 0.6 ** np.arange(n_classes)
    scores = rng.normal(size=(n, n_classes)) + 2 * np.eye(n_classes)[labels] + np.log(prior)
    return scores.astype(np.float32), labels, rng.random(n), prior / prior.sum()


def numbers(result):
    """Return the numbers of a result, one after the other."""
    parts = result if isinstance(result, (list, tuple)) else [result]
    return np.concatenate([np.ravel(part) for part in parts])


@pytest.fixture
def results_by_threads(monkeypatch):
    """Return a function that calls another one with 1, 2, 3 and 4 threads, each in a new pool."""

    def results(work):
        for n_threads in "1234":
            with monkeypatch.context() as patch:
                patch.setenv("REPRIOR_NUM_THREADS", n_threads)
                patch.setattr(threads, "_pool", cache(threads._pool.__wrapped__))
                yield numbers(work())
                threads._pool().shutdown()

    return results


@pytest.mark.parametrize("result", RESULTS)
def test_weighted_results(result, results_by_threads):
    first, *others = results_by_threads(lambda: result(*problem()))
    for other in others:
        np.testing.assert_array_equal(other, first)


@pytest.mark.parametrize("result", [profile, temperature, log_loss, scaling, reliability])
def test_weighted_results_of_array_code(result, results_by_threads, without_native):
    scores, labels, weights, prior = problem()
    some = (scores[:60_000], labels[:60_000], weights[:60_000], prior)
    first, *others = results_by_threads(lambda: result(*some))
    for other in others:
        np.testing.assert_array_equal(other, first)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 400),
    st.integers(2, 30),
    st.sampled_from(["f2", "f4", "f8"]),
    st.sampled_from([1, 7, 64]),
)
@settings(max_examples=30)
def test_log_losses_of_any_shape(seed, n, n_classes, dtype, rows):
    """Blocks of ``rows`` rows: many, one, or a last one that is not full."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, n_classes)).astype(dtype)
    labels, weights = rng.integers(n_classes, size=n), rng.random(n)
    data = WeightedRows.of_rows(scores, labels, weights / weights.sum())
    scale, bias, slopes = rng.normal(size=(3, n_classes))

    def sums():
        of_classes = posterior_sums(data, scale, bias)
        return log_loss_moments(data, 0.7, bias, slopes), *of_classes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "SCORES_PER_THREAD", 1)
        patch.setattr(log_loss_sums, "KERNEL_ROWS", rows)
        patch.setattr(log_loss_sums, "KERNEL_SCORES", 1)
        results = []
        for n_threads in "1234":
            patch.setenv("REPRIOR_NUM_THREADS", n_threads)
            results.append(numbers(sums()))
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])
    np.testing.assert_allclose(results[0], numbers(sums()), rtol=1e-9, atol=1e-12)
