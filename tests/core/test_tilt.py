from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from tests.core.backends import EXACT

from reprior.core.arrays import namespace
from reprior.core.tilt import Tilt, refuse_tilt, tilt_at_once
from reprior.exceptions import ScoresError

XP = namespace()


def make_tilt(shift, *, kind="logits", temperature=1.0, log=True, dtype=np.float64):
    return Tilt(
        shift=np.asarray(shift, dtype=np.float64),
        temperature=temperature,
        kind=kind,
        log=log,
        dtype=dtype,
        sum_tolerance=1e-3,
    )


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("log", [True, False])
def test_the_formula_is_the_softmax_of_tempered_and_shifted_scores(axis, log, rng):
    z = rng.normal(size=(3, 4, 5))
    shift = rng.normal(size=z.shape[axis])
    found = tilt_at_once(z, make_tilt(shift, temperature=0.7, log=log), axis=axis, xp=XP)
    tempered = np.moveaxis(np.moveaxis(z, axis, -1) / 0.7 + shift, -1, axis)
    oracle = scipy.special.log_softmax if log else scipy.special.softmax
    np.testing.assert_allclose(found, oracle(tempered, axis=axis), rtol=EXACT, atol=EXACT)


def test_probabilities_take_their_logarithm():
    found = tilt_at_once(
        np.array([[0.25, 0.75]]), make_tilt([0, 0], kind="probs", log=False), axis=1, xp=XP
    )
    np.testing.assert_allclose(found, [[0.25, 0.75]], rtol=EXACT)


def test_a_row_without_a_posterior_gives_none_unless_it_is_traced():
    tilt = make_tilt([-np.inf, 0.0], dtype=np.float32)
    z = np.array([[1.0, -np.inf]], dtype=np.float32)
    with np.errstate(invalid="ignore"):
        assert tilt_at_once(z, tilt, axis=1, xp=XP) is None
    traced = jax.jit(lambda a: tilt_at_once(a, tilt, axis=1, xp=namespace(a)))(jnp.asarray(z))
    assert np.isnan(np.asarray(traced)).all()


WORDS = {
    "bad score": (
        [[1.0, np.nan]],
        make_tilt([0, 0]),
        "Got scores[0, 1]=nan.",
    ),
    "mass removed": (
        [[0.0, 0.0], [1.0, -np.inf]],
        make_tilt([-np.inf, 0]),
        "`scores` must leave some class of positive `target_prior` possible in every row. "
        "Got scores[1, :], whose every possible class has target prior 0. Give one of them",
    ),
    "mass removed from probs": (
        [[0.5, 0.5], [1.0, 0.0]],
        make_tilt([-np.inf, 0], kind="probs"),
        "Got scores[1, :], whose every possible class has target prior 0.",
    ),
    "overflow": (
        [[1e308, 0.0]],
        make_tilt([0, 0], temperature=0.1),
        "`scores` must stay finite when divided by the temperature. Got scores up to 1e+308 and "
        "temperature=0.1.",
    ),
}


@pytest.mark.parametrize("case", WORDS)
def test_words(case):
    scores, tilt, words = WORDS[case]
    with pytest.raises(ScoresError) as caught:
        refuse_tilt(np.array(scores), tilt, axis=1)
    assert words in str(caught.value)
