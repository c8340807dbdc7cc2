from __future__ import annotations

import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.backends import BACKENDS, EPS, EXACT, OPERATIONS, library_of, priors

from reprior import OptionError, RepriorError, ScoresError, fuse
from reprior.core import RULES, to_numpy


@st.composite
def posteriors(draw):
    """Draw one to four posteriors (N, K)."""
    n_models, n, n_classes = (
        draw(st.integers(1, 4)),
        draw(st.integers(1, 4)),
        draw(st.integers(2, 5)),
    )
    return [np.stack([draw(priors(n_classes)) for _ in range(n)]) for _ in range(n_models)]


def by_hand(parts, rule):
    """The three rules in probability space."""
    stack = np.stack(parts)
    mass = {
        "noisy_or": 1 - np.prod(1 - stack, axis=0),
        "mean": stack.mean(axis=0),
        "product": np.prod(stack, axis=0),
    }[rule]
    return mass / mass.sum(axis=-1, keepdims=True)


# ---------------------------------------------------------------------------------- oracles


@given(posteriors(), st.sampled_from(RULES))
def test_the_rules_in_probability_space(parts, rule):
    np.testing.assert_allclose(fuse(parts, rule=rule), by_hand(parts, rule), rtol=1e-9)


def test_noisy_or_of_tiny_probabilities_is_exact():
    """1 − (1 − p)² of p = 1e-9 is 0 in float32 arithmetic; here it is as exact as p."""
    p = np.array([[1e-9, 1.0 - 1e-9]], dtype=np.float32)
    found = fuse([p, p])
    tiny, rest = Fraction(float(p[0, 0])), Fraction(float(p[0, 1]))
    mass = [1 - (1 - tiny) ** 2, 1 - (1 - rest) ** 2]
    assert found[0, 0] == pytest.approx(float(mass[0] / sum(mass)), rel=8 * EPS["float32"])


def test_product_of_many_models_does_not_underflow():
    parts = [np.array([[0.6, 0.4]])] * 3000
    found = fuse(parts, rule="product")
    assert found[0, 0] == 1.0
    assert found[0, 1] == pytest.approx(math.exp(3000 * math.log(0.4 / 0.6)), rel=1e-9)


# ------------------------------------------------------------------------------- identities


@given(posteriors(), st.sampled_from(RULES))
def test_the_order_of_the_models_does_not_matter(parts, rule):
    np.testing.assert_allclose(fuse(parts, rule=rule), fuse(parts[::-1], rule=rule), rtol=1e-9)


@given(posteriors(), st.sampled_from(RULES))
def test_fusing_one_model_changes_nothing(parts, rule):
    np.testing.assert_allclose(fuse(parts[:1], rule=rule), parts[0], rtol=EXACT)


@given(posteriors(), st.sampled_from(RULES))
def test_the_result_is_a_distribution(parts, rule):
    np.testing.assert_allclose(fuse(parts, rule=rule).sum(axis=-1), 1.0, rtol=EXACT)


@given(posteriors())
def test_a_uniform_posterior_has_no_say_in_the_product(parts):
    flat = np.full_like(parts[0], 1 / parts[0].shape[1])
    np.testing.assert_allclose(
        fuse([*parts, flat], rule="product"), fuse(parts, rule="product"), rtol=1e-9
    )


def test_names_and_sequences_are_alike(rng):
    a, b = rng.dirichlet(np.ones(3), size=(2, 5))
    np.testing.assert_array_equal(fuse({"rgb": a, "depth": b}), fuse((a, b)))


def test_certainty_and_exclusion():
    sure, open_ = np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])
    np.testing.assert_allclose(fuse([sure, open_]), [[2 / 3, 1 / 3]])
    np.testing.assert_array_equal(fuse([sure, open_], rule="product"), [[1.0, 0.0]])
    np.testing.assert_array_equal(fuse([sure, sure]), sure)


@pytest.mark.parametrize("rule", RULES)
def test_any_class_axis_and_single_scores(rule, rng):
    parts = list(rng.dirichlet(np.ones(2), size=(2, 3, 4)))
    expected = fuse(parts, rule=rule)
    moved = fuse([np.moveaxis(p, -1, 1) for p in parts], rule=rule, class_axis=1)
    np.testing.assert_allclose(np.moveaxis(moved, 1, -1), expected, rtol=EXACT)
    single = fuse([p[..., 1:] for p in parts], rule=rule)
    assert single.shape == (3, 4, 1)
    np.testing.assert_allclose(single, expected[..., 1:], rtol=1e-9)
    one_sample = fuse([p[0, 0] for p in parts], rule=rule)
    np.testing.assert_allclose(one_sample, expected[0, 0], rtol=EXACT)


# ----------------------------------------------------------------------------------- parity


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("rule", RULES)
def test_every_library_agrees_with_float64(backend, rule, rng):
    parts = [backend.make(p) for p in rng.dirichlet(np.ones(4), size=(3, 6))]
    found = fuse(parts, rule=rule)
    assert library_of(found) == backend.library
    assert found.dtype == parts[0].dtype
    wide = [to_numpy(p).astype(np.float64) for p in parts]
    wide = [p / p.sum(axis=-1, keepdims=True) for p in wide]
    compute = "float64" if backend.dtype == "float64" else "float32"
    np.testing.assert_allclose(
        to_numpy(found).astype(np.float64),
        by_hand(wide, rule),
        atol=EPS[backend.dtype] + OPERATIONS * EPS[compute],
    )


def test_mixed_and_integer_dtypes():
    half, double = np.array([[0.25, 0.75]], dtype=np.float16), np.array([[0.5, 0.5]])
    assert fuse([half, double]).dtype == np.float64
    assert fuse([np.array([[1, 0]]), np.array([[0, 1]])]).tolist() == [[0.5, 0.5]]
    assert fuse([[[0.25, 0.75]], [[0.75, 0.25]]]).tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize("rule", RULES)
def test_jit_and_gradients(rule, rng):
    parts = list(rng.dirichlet(np.ones(3), size=(2, 4)))
    traced = jax.jit(lambda a, b: fuse([a, b], rule=rule))(*map(jnp.asarray, parts))
    np.testing.assert_allclose(np.asarray(traced), fuse(parts, rule=rule), atol=1e-6)
    tensors = [torch.tensor(p, requires_grad=True) for p in parts]
    assert torch.autograd.gradcheck(lambda a, b: fuse([a, b], rule=rule), tensors)


def test_nothing_is_mutated():
    for rule, single in itertools.product(RULES, (False, True)):
        p = np.array([[0.25]] if single else [[0.25, 0.7501]])
        before = p.copy()
        fuse([p, p], rule=rule)
        np.testing.assert_array_equal(p, before)


# ------------------------------------------------------------------------------------ words

P = np.array([[0.25, 0.75], [0.5, 0.5]])

WORDS = {
    "rule": (
        lambda: fuse([P, P], rule="noisyor"),
        OptionError,
        "`rule` must be one of 'noisy_or', 'mean', 'product'. Got 'noisyor'. Did you mean "
        "'noisy_or'?",
    ),
    "shapes": (
        lambda: fuse({"rgb": P, "depth": P[:1]}),
        ScoresError,
        "`posteriors` must have one shape. Got (2, 2) for posteriors['rgb'] and (1, 2) for "
        "posteriors['depth'].",
    ),
    "none": (lambda: fuse([]), ScoresError, "`posteriors` must hold at least one posterior."),
    "an array": (
        lambda: fuse(P),
        ScoresError,
        "`posteriors` must be a mapping or a list of posteriors. Got ndarray.",
    ),
    "text": (lambda: fuse("ab"), ScoresError, "must be a mapping or a list"),
    "libraries": (
        lambda: fuse([P, torch.tensor(P)]),
        RepriorError,
        "must come from one array library. Got numpy and torch.",
    ),
    "logits": (
        lambda: fuse([P, P * 8 - 4]),
        ScoresError,
        "`posteriors[1]` must not be negative. Got posteriors[1][0, 0]=-2. Take their softmax",
    ),
    "sum": (
        lambda: fuse({"rgb": P, "depth": P * 0.5}),
        ScoresError,
        "Got posteriors['depth'][0, :] with sum 0.5.",
    ),
    "single above one": (
        lambda: fuse([np.array([[0.5]]), np.array([[1.5]])]),
        ScoresError,
        "`posteriors[1]` must be a probability. Got posteriors[1][0, 0]=1.5.",
    ),
    "nothing in common": (
        lambda: fuse([np.eye(2), np.array([[0.5, 0.5], [1.0, 0.0]])], rule="product"),
        ScoresError,
        "Got posteriors[…][1, :], where every class has probability 0 in one of them. Pass "
        "rule='noisy_or' or 'mean'.",
    ),
    "axis": (lambda: fuse([P], class_axis=3), OptionError, "`class_axis` must be an axis"),
    "empty": (
        lambda: fuse([np.empty((0, 2))]),
        ScoresError,
        "`posteriors[0]` must hold at least one sample.",
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_error_sentences(case):
    call, error, words = WORDS[case]
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
    assert isinstance(caught.value, RepriorError)
