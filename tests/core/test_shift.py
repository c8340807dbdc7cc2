"""The target prior of unlabelled scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit, logsumexp, softmax
from tests.core.backends import EPS, WIDE_BACKENDS

import reprior as rp
from reprior.core import shift

CLOSE = 3e-5
"""Where the likelihood is flat, scipy stops within its own tolerance of the gradient."""

LIKELIHOOD = 1e-9
"""By how much the likelihood of EM's end may be below that of scipy's: both stop early."""


def drawn(seed, n=400, n_classes=3, separation=2.0):
    """Return scores of the true densities, the source prior, and what the labels follow."""
    rng = np.random.default_rng(seed)
    source, target = rng.dirichlet(np.full(n_classes, 3.0), 2)
    labels = rng.choice(n_classes, n, p=target)
    means = separation * rng.normal(size=(n_classes, 2))
    x = means[labels] + rng.normal(size=(n, 2))
    scores = -0.5 * ((x[:, None] - means) ** 2).sum(axis=-1) + np.log(source)
    return scores, source, target, np.bincount(labels, minlength=n_classes) / n


def likelihood(prior, scores, source):
    with np.errstate(divide="ignore"):
        mixture = log_softmax(scores, axis=1) - np.log(source) + np.log(prior)
    return float(logsumexp(mixture, axis=1).mean())


def brute_force(scores, source):
    """Maximise the likelihood over the simplex, by softmax of free numbers."""

    def loss(free):
        return -likelihood(softmax(free), scores, source)

    found = minimize(loss, np.log(source), method="BFGS", options={"gtol": 1e-8, "maxiter": 5000})
    return softmax(found.x)


@given(st.integers(0, 500), st.integers(2, 4), st.sampled_from([0.7, 1.5, 4.0]))
def test_it_is_the_maximum_of_the_likelihood(seed, n_classes, separation):
    scores, source, _, _ = drawn(seed, 60, n_classes, separation)
    found = rp.estimate_target_prior(scores, source_prior=source)
    best = brute_force(scores, source)
    assert likelihood(found, scores, source) >= likelihood(best, scores, source) - LIKELIHOOD
    # Concave: no direction of the simplex leads up, whatever another optimiser found.
    ratio = np.exp(log_softmax(scores, axis=1) - np.log(source))
    gradient = (ratio / (ratio @ found)[:, None]).mean(axis=0)
    assert gradient.max() - 1 <= 1e-5
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize("seed", range(5))
def test_the_mix_is_found(seed):
    scores, source, _, mix = drawn(seed, 20_000, 4, 3.0)
    found = rp.estimate_target_prior(scores, source_prior=source)
    np.testing.assert_allclose(found, mix, atol=0.02)
    assert found.dtype == np.float64
    assert found.shape == (4,)


def test_plain_em_comes_to_the_same():
    scores, source, _, _ = drawn(1, 300, 3, 2.0)
    posterior, prior = softmax(scores, axis=1), source
    for _ in range(3000):
        mixed = posterior * prior / source
        prior = (mixed / mixed.sum(axis=1, keepdims=True)).mean(axis=0)
    found = rp.estimate_target_prior(scores, source_prior=source)
    np.testing.assert_allclose(found, prior, atol=1e-7)


def test_an_informative_model_just_counts():
    scores = 100.0 * np.eye(3)[[0, 0, 0, 1, 2, 2]]
    found = rp.estimate_target_prior(scores, source_prior=[0.2, 0.5, 0.3])
    np.testing.assert_allclose(found, [1 / 2, 1 / 6, 1 / 3])


def test_a_model_that_knows_nothing_keeps_the_source_prior():
    source = np.array([0.2, 0.5, 0.3])
    scores = np.tile(np.log(source), (7, 1))
    found = rp.estimate_target_prior(scores, source_prior=source)
    np.testing.assert_allclose(found, source, atol=1e-12)


def test_a_class_that_is_not_there_gets_nothing():
    scores, source, _, _ = drawn(2, 500, 3, 6.0)
    scores = scores[scores.argmax(axis=1) != 0]
    assert rp.estimate_target_prior(scores, source_prior=source)[0] < 1e-6


def test_scores_far_apart_do_not_overflow():
    scores = np.array([[2000.0, 0.0], [0.0, 3000.0], [-np.inf, 0.0], [0.0, 0.0]])
    found = rp.estimate_target_prior(scores, source_prior=[0.5, 0.5])
    np.testing.assert_allclose(found, [1 / 3, 2 / 3], atol=1e-9)


@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_every_library_kind_and_layout(backend, kind):
    scores, source, _, _ = drawn(3, 48, 3, 2.0)
    known = rp.estimate_target_prior(scores, source_prior=source)
    form = {"logits": lambda z: z, "probs": lambda z: softmax(z, axis=1),
            "log_probs": lambda z: log_softmax(z, axis=1)}[kind]  # fmt: skip
    dense = np.moveaxis(form(scores).reshape(4, 6, 2, 3), -1, 1)
    given_scores = backend.make(dense)
    found = rp.estimate_target_prior(given_scores, source_prior=source, kind=kind, class_axis=1)
    np.testing.assert_allclose(found, known, atol=1000 * EPS[backend.dtype] + 1e-7)
    assert isinstance(found, np.ndarray)


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_single_scores_of_two_classes(kind):
    scores, source, _, _ = drawn(4, 100, 2, 2.0)
    z = scores[:, 1] - scores[:, 0]
    single = {"logits": z, "probs": expit(z), "log_probs": np.log(expit(z))}[kind]
    known = rp.estimate_target_prior(scores, source_prior=source)
    for shape in [(100,), (100, 1)]:
        found = rp.estimate_target_prior(single.reshape(shape), source_prior=source, kind=kind)
        np.testing.assert_allclose(found, known, atol=1e-8)


def test_one_sample_of_many_classes():
    found = rp.estimate_target_prior([5.0, 0.0, 0.0], source_prior=[0.4, 0.3, 0.3])
    np.testing.assert_allclose(found, [1, 0, 0], atol=1e-6)


def test_nothing_is_mutated():
    scores, source, _, _ = drawn(0)
    before = scores.copy()
    rp.estimate_target_prior(scores, source_prior=source)
    np.testing.assert_array_equal(scores, before)


def test_where_it_does_not_come_to_rest_it_says_so(monkeypatch):
    scores, source, _, _ = drawn(5, 300, 4, 0.5)
    monkeypatch.setattr(shift, "MAX_ITERATIONS", 3)
    with pytest.warns(rp.RepriorWarning, match="has not come to rest after 3 steps") as caught:
        rp.estimate_target_prior(scores, source_prior=source)
    assert caught[0].filename == __file__


def test_single_scores_that_look_like_probabilities():
    p = np.linspace(0.1, 0.9, 30)
    with pytest.warns(rp.RepriorWarning, match="second class"):
        rp.estimate_target_prior(p, source_prior=[0.5, 0.5])
    assert logit(0.5) == 0.0


def test_the_estimate_is_a_target_prior():
    scores, source, _, mix = drawn(6, 2000, 3, 2.5)
    target = rp.estimate_target_prior(scores, source_prior=source)
    posterior = rp.rebalance(scores, source, target_prior=target)
    np.testing.assert_allclose(posterior.mean(axis=0), target, atol=1e-7)
    np.testing.assert_allclose(target, mix, atol=0.05)


Z = [[1.0, 2.0], [2.0, 0.5]]


@pytest.mark.parametrize(
    "scores, options, error, words",
    [
        (Z, {"method": "bbse"}, rp.OptionError, "`method` must be 'em'. Got 'bbse'"),
        (Z, {"validation": (Z, [0, 1])}, rp.OptionError, "needs no labels. Got tuple"),
        (Z, {"kind": "logit"}, rp.OptionError, "Did you mean 'logits'"),
        (Z, {"source_prior": [0.5, 0.0]}, rp.PriorError, r"source_prior\[1\]=0"),
        (Z, {"source_prior": [3, 4]}, rp.PriorError, "prior_from_counts"),
        (Z, {"source_prior": [0.2, 0.3, 0.5]}, rp.ScoresError, "one entry per class"),
        ([[1.0, np.nan]], {}, rp.ScoresError, r"scores\[0, 1\]=nan"),
        ([[0.3, 0.3]], {"kind": "probs"}, rp.ScoresError, "must sum to 1"),
        (np.empty((0, 2)), {}, rp.ScoresError, "at least one sample"),
        (Z, {"class_axis": 3}, rp.OptionError, "`class_axis` must be an axis"),
    ],
)
def test_words(scores, options, error, words):
    with pytest.raises(error, match=words):
        rp.estimate_target_prior(scores, **{"source_prior": [0.5, 0.5], **options})


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_single_scores_on_a_first_axis(kind):
    p = np.random.default_rng(3).beta(2, 5, size=200)
    scores = {"logits": np.log(p) - np.log1p(-p), "probs": p, "log_probs": np.log(p)}[kind]
    options = {"source_prior": [0.6, 0.4], "kind": kind}
    expected = rp.estimate_target_prior(scores, **options)
    assert np.allclose(rp.estimate_target_prior(scores[None], class_axis=0, **options), expected)
    assert np.allclose(rp.estimate_target_prior(scores[:, None], class_axis=1, **options), expected)
