"""The EM algorithm: replicates side by side, and where it ends."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from tests.support.label_shift import world

from reprior.core.shift import Likelihood, em, run_em

CLOSE = 1e-8
"""EM ends where the estimate of all further steps is below 1e-9."""


def plain_em(posterior, source, counts, n=200_000):
    """Plain EM by its definition, one replicate after the other, until the prior is constant."""
    prior = source
    for _ in range(n):
        mixed = posterior * prior / source
        new = counts @ (mixed / mixed.sum(axis=1, keepdims=True)) / counts.sum()
        if np.abs(new - prior).max() < 1e-15:
            break
        prior = new
    return prior


@pytest.mark.parametrize("seed", range(4))
def test_replicates_side_by_side_are_each_alone(seed):
    rng = np.random.default_rng(seed)
    here = world(rng, 2 + seed % 3, 2.5)
    scores, _ = here.draw(rng, 60, here.target)
    counts = rng.multinomial(60, np.full(60, 1 / 60), size=5).astype(np.uint8)
    likelihood = Likelihood(scores, here.source)
    found = run_em(likelihood.resampled(counts), np.tile(here.source, (5, 1)))
    assert (found.remaining_change <= em.CHANGE_TOLERANCE).all()
    for row, prior in zip(counts, found.priors, strict=True):
        alone = run_em(likelihood.resampled(row[None]), here.source[None])
        np.testing.assert_allclose(prior, alone.priors[0], atol=CLOSE)
        expected = plain_em(softmax(scores, axis=1), here.source, row)
        np.testing.assert_allclose(prior, expected, atol=1e-6)  # plain EM creeps towards a 0


def test_counts_of_one_are_no_counts():
    rng = np.random.default_rng(3)
    here = world(rng, 4)
    scores, _ = here.draw(rng, 300, here.target)
    whole = run_em(Likelihood(scores, here.source), here.source[None])
    ones = Likelihood(scores, here.source, np.ones((1, 300), np.uint8))
    np.testing.assert_allclose(run_em(ones, here.source[None]).priors, whole.priors, atol=CLOSE)


def test_slow_directions_converge_too():
    # A rare class that is hard to tell: right after a step that skips ahead, all that is seen are
    # steps of the other classes. The estimate of what is to come must remember.
    rng = np.random.default_rng(18)
    source, target = rng.dirichlet(np.full(4, 3.0), 2)
    means = 2.0 * rng.normal(size=(4, 2))
    labels = rng.choice(4, 500, p=target)
    labels[:4] = np.arange(4)
    x = means[labels] + rng.normal(size=(500, 2))
    scores = -0.5 * ((x[:, None] - means) ** 2).sum(axis=-1) + np.log(source)
    found = run_em(Likelihood(scores, source), source[None])
    expected = plain_em(softmax(scores, axis=1), source, np.ones(500))
    np.testing.assert_allclose(found.priors[0], expected, atol=CLOSE)


def test_blocks_add_up(monkeypatch):
    rng = np.random.default_rng(5)
    here = world(rng)
    scores, _ = here.draw(rng, 100, here.target)
    counts = rng.multinomial(100, np.full(100, 0.01), size=3).astype(np.uint8)
    likelihood, which = Likelihood(scores, here.source, counts), np.arange(3)
    priors = rng.dirichlet(np.ones(3), 3)
    whole = likelihood(priors, which)
    monkeypatch.setattr(em, "BLOCK_ITEMS", 21)
    parts = likelihood(priors, which)
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_steps_and_passes_are_counted():
    rng = np.random.default_rng(6)
    here = world(rng, 4, 1.0)
    scores, _ = here.draw(rng, 200, here.target)
    short = run_em(Likelihood(scores, here.source), here.source[None], max_iterations=6)
    assert short.iterations.tolist() == [6]
    assert short.remaining_change[0] > em.CHANGE_TOLERANCE
    long = run_em(Likelihood(scores, here.source), here.source[None])
    assert long.iterations[0] > 6
    assert long.last_change[0] < short.last_change[0]
