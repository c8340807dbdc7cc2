from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, log_softmax, softmax
from tests.support.backends import BACKENDS, EPS, EXACT, library_of, problems

import reprior as rp
from reprior import OptionError, RepriorError, ScoresError
from reprior.core import (
    AffineMap,
    affine_posterior,
    array_posterior,
    namespace,
    refuse_rows,
    to_numpy,
)

XP = namespace()


def make_map(shift, **options):
    return AffineMap(np.asarray(shift, dtype=np.float64), **options)


def by_array_code(z, affine, *, kind="logits", axis=1, log=True, xp=XP):
    return array_posterior(z, affine, kind=kind, axis=axis, xp=xp, log=log, tolerance=1e-3)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("log", [True, False])
def test_the_formula_is_the_softmax_of_tempered_and_shifted_scores(axis, log, rng):
    z = rng.normal(size=(3, 4, 5))
    shift = rng.normal(size=z.shape[axis])
    found = by_array_code(z, make_map(shift, temperature=0.7), axis=axis, log=log)
    tempered = np.moveaxis(np.moveaxis(z, axis, -1) / 0.7 + shift, -1, axis)
    oracle = scipy.special.log_softmax if log else scipy.special.softmax
    np.testing.assert_allclose(found, oracle(tempered, axis=axis), rtol=EXACT, atol=EXACT)


def test_probabilities_take_their_logarithm():
    found = by_array_code(np.array([[0.25, 0.75]]), make_map([0, 0]), kind="probs", log=False)
    np.testing.assert_allclose(found, [[0.25, 0.75]], rtol=EXACT)


def test_a_row_without_a_posterior_gives_none_unless_it_is_traced():
    affine = make_map([-np.inf, 0.0])
    z = np.array([[1.0, -np.inf]], dtype=np.float32)
    with np.errstate(invalid="ignore"):
        assert by_array_code(z, affine) is None
    traced = jax.jit(lambda a: by_array_code(a, affine, xp=namespace(a)))(jnp.asarray(z))
    assert np.isnan(np.asarray(traced)).all()


WORDS = {
    "bad score": (
        [[1.0, np.nan]],
        make_map([0, 0]),
        "Got scores[0, 1]=nan.",
    ),
    "mass removed": (
        [[0.0, 0.0], [1.0, -np.inf]],
        make_map([-np.inf, 0]),
        "`scores` must leave some class of positive `target_prior` possible in every row. "
        "Got scores[1, :], whose every possible class has target prior 0. Give one of them",
    ),
    "mass removed from probs": (
        [[0.5, 0.5], [1.0, 0.0]],
        make_map([-np.inf, 0]),
        "Got scores[1, :], whose every possible class has target prior 0.",
    ),
    "overflow": (
        [[1e308, 0.0]],
        make_map([0, 0], temperature=0.1),
        "`scores` must stay finite when divided by the temperature. Got scores up to 1e+308 and "
        "temperature=0.1.",
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_error_sentences(case):
    scores, affine, words = WORDS[case]
    kind = "probs" if "probs" in case else "logits"
    with pytest.raises(ScoresError) as caught:
        refuse_rows(np.array(scores), affine, kind=kind, axis=1, tolerance=1e-3)
    assert words in str(caught.value)


SCALE, BIAS = np.array([0.5, 1.0, 2.0]), np.array([-1.0, 0.0, 3.0])


@given(st.integers(0, 10**6))
def test_it_is_its_definition(seed):
    rng = np.random.default_rng(seed)
    z, a, b = 5 * rng.normal(size=(7, 4)), rng.normal(size=4), rng.normal(size=4)
    np.testing.assert_allclose(affine_posterior(z, a, b), softmax(a * z + b, axis=1), atol=EXACT)
    found = affine_posterior(z, a, b, log=True)
    np.testing.assert_allclose(found, log_softmax(a * z + b, axis=1), atol=1e-10)


@given(problems(), st.floats(0.1, 10), st.floats(-1, 3))
def test_rebalance_is_one_of_them(problem, temperature, strength):
    z, source, target = problem
    bias = strength * (np.log(target) - np.log(source))
    expected = rp.rebalance(
        z, source, target_prior=target, strength=strength, temperature=temperature
    )
    np.testing.assert_allclose(affine_posterior(z, 1 / temperature, bias), expected, atol=1e-10)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("log", [False, True])
def test_array_libraries_agree(backend, log, rng):
    z = 2 * rng.normal(size=(6, 3))
    given_ = backend.make(z)
    found = affine_posterior(given_, SCALE, BIAS, log=log)
    assert library_of(found) == library_of(given_)
    assert found.dtype == given_.dtype
    exact = softmax(SCALE * to_numpy(given_).astype(float) + BIAS, axis=1)
    host = to_numpy(found).astype(float)
    tolerance = 64 * EPS[backend.dtype]
    np.testing.assert_allclose(
        host, np.log(exact) if log else exact, atol=tolerance, rtol=tolerance
    )


def test_integers_give_float64():
    found = affine_posterior(np.array([[1, 2, 3]]), SCALE, BIAS)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, softmax(SCALE * [[1, 2, 3]] + BIAS, axis=1))


def test_what_is_too_small_for_float16_is_minus_infinity():
    found = affine_posterior(np.array([[0.0, 2.0]], np.float16), 1.0, [0.0, -1e6], log=True)
    assert found.dtype == np.float16
    assert found.tolist() == [[0.0, -np.inf]]


def test_classes_on_another_axis(rng):
    z = rng.normal(size=(2, 3, 4, 5))
    found = affine_posterior(z, SCALE, BIAS, class_axis=1)
    rows = np.moveaxis(z, 1, -1)
    np.testing.assert_allclose(np.moveaxis(found, 1, -1), softmax(SCALE * rows + BIAS, axis=-1))


@pytest.mark.parametrize("shape", [(5,), (5, 1)])
@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_one_score_for_two_classes(shape, kind, rng):
    margin = rng.normal(size=shape) - 2.0
    scores = margin if kind == "logits" else expit(margin)
    found = affine_posterior(scores, 0.5, [1.0, 0.0], kind=kind)
    assert found.shape == shape
    np.testing.assert_allclose(found, expit(0.5 * margin - 1.0))


@pytest.mark.parametrize("kind", ["probs", "log_probs"])
def test_an_impossible_class_stays_so_whatever_its_scale(kind):
    p = np.array([[0.0, 0.5, 0.5], [0.2, 0.8, 0.0]])
    with np.errstate(divide="ignore"):
        scores = p if kind == "probs" else np.log(p)
    found = affine_posterior(scores, [0.0, 1.0, -2.0], [9.0, 0.0, 1.0], kind=kind)
    np.testing.assert_array_equal(found[p == 0], 0.0)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_a_bias_of_minus_infinity_takes_a_class_away(rng):
    z = rng.normal(size=(5, 3))
    found = affine_posterior(z, SCALE, [0.0, -np.inf, 0.0])
    np.testing.assert_array_equal(found[:, 1], 0.0)
    np.testing.assert_allclose(found[:, [0, 2]], softmax((SCALE * z)[:, [0, 2]], axis=1))


def test_nothing_is_mutated_and_scores_may_be_read_only(rng):
    z = rng.normal(size=(4, 3))
    before = z.copy()
    z.flags.writeable = False
    affine_posterior(z, SCALE, BIAS)
    np.testing.assert_array_equal(z, before)


def test_it_can_be_traced(rng):
    z = jnp.asarray(rng.normal(size=(4, 3)))
    traced = jax.jit(lambda x: affine_posterior(x, SCALE, BIAS))(z)
    np.testing.assert_allclose(traced, affine_posterior(z, SCALE, BIAS), atol=1e-6)


@pytest.mark.parametrize(
    "scores, scale, bias, error, words",
    [
        (np.zeros((2, 3)), [1.0, 2.0], BIAS, OptionError, r"`scale` must be one number, or one"),
        (np.zeros((2, 3)), "one", BIAS, OptionError, r"`scale` must be .* Got dtype <U3"),
        (np.zeros((2, 3)), 1.0, 0.0, OptionError, r"`bias` must be one number per class\."),
        (np.zeros((2, 3)), np.nan, BIAS, OptionError, r"`scale` must be finite\. Got scale=nan"),
        (
            np.zeros((2, 3)), [1.0, -np.inf, 1.0], BIAS, OptionError,
            r"`scale` must be finite\. Got scale\[1\]=-inf",
        ),
        (
            np.zeros((2, 3)), 1.0, [0.0, np.inf, 0.0], OptionError,
            r"`bias` must be finite or −inf\. Got bias\[1\]=inf",
        ),
        (
            np.zeros((2, 3)), 1.0, [-np.inf] * 3, ScoresError,
            r"some class whose bias is finite possible in every row.* Got .*0",
        ),
        (np.array([[1e308, 0.0, 0.0]]), 1e3, BIAS, ScoresError, "stay finite when scaled"),
    ],
)  # fmt: skip
def test_errors_about_scales_and_biases(scores, scale, bias, error, words):
    with np.errstate(over="ignore"), pytest.raises(error, match=words) as caught:
        affine_posterior(scores, scale, bias)
    assert isinstance(caught.value, RepriorError)
