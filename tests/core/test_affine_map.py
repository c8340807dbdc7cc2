from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from tests.core.backends import EXACT

from reprior.core.affine_map import Tilt, refuse_tilt, tilt_at_once
from reprior.core.arrays import namespace
from reprior.exceptions import ScoresError

XP = namespace()


def make_tilt(shift, **options):
    return Tilt(np.asarray(shift, dtype=np.float64), **options)


def at_once(z, tilt, *, kind="logits", axis=1, log=True, xp=XP):
    return tilt_at_once(z, tilt, kind=kind, axis=axis, xp=xp, log=log, tolerance=1e-3)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("log", [True, False])
def test_the_formula_is_the_softmax_of_tempered_and_shifted_scores(axis, log, rng):
    z = rng.normal(size=(3, 4, 5))
    shift = rng.normal(size=z.shape[axis])
    found = at_once(z, make_tilt(shift, temperature=0.7), axis=axis, log=log)
    tempered = np.moveaxis(np.moveaxis(z, axis, -1) / 0.7 + shift, -1, axis)
    oracle = scipy.special.log_softmax if log else scipy.special.softmax
    np.testing.assert_allclose(found, oracle(tempered, axis=axis), rtol=EXACT, atol=EXACT)


def test_probabilities_take_their_logarithm():
    found = at_once(np.array([[0.25, 0.75]]), make_tilt([0, 0]), kind="probs", log=False)
    np.testing.assert_allclose(found, [[0.25, 0.75]], rtol=EXACT)


def test_a_row_without_a_posterior_gives_none_unless_it_is_traced():
    tilt = make_tilt([-np.inf, 0.0])
    z = np.array([[1.0, -np.inf]], dtype=np.float32)
    with np.errstate(invalid="ignore"):
        assert at_once(z, tilt) is None
    traced = jax.jit(lambda a: at_once(a, tilt, xp=namespace(a)))(jnp.asarray(z))
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
        make_tilt([-np.inf, 0]),
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
    kind = "probs" if "probs" in case else "logits"
    with pytest.raises(ScoresError) as caught:
        refuse_tilt(np.array(scores), tilt, kind=kind, axis=1, tolerance=1e-3)
    assert words in str(caught.value)
