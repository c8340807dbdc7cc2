from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.support.backends import EPS, EXACT, OPERATIONS, WIDE_BACKENDS, library_of, priors

from reprior import ScoresError, log_rebalance, rebalance
from reprior.core import binary, namespace, to_numpy

XP = namespace()

STORED = 1e-9
"""Relative; 1 − p of a stored p is exact to 1e-16, which a prior ratio of 1000 can multiply, and
more where the posterior is small."""

SHIFTED = 1e-10
"""Relative; adding 7 to scores of 1e-16 rounds them at 1e-15."""

SCORES = hnp.arrays(np.float64, st.integers(1, 6), elements=st.floats(-30, 30))


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


# ------------------------------------------------------------------------------- identities


@given(SCORES, priors(2), st.floats(-1, 3), st.floats(0.2, 5))
def test_one_score_is_two_columns(z, source, strength, temperature):
    options = {"strength": strength, "temperature": temperature}
    columns = np.stack([np.full_like(z, -7.0), z - 7.0], axis=1)  # shifting both changes nothing
    expected = rebalance(columns, source, **options)[:, 1]
    one = rebalance(z, source, **options)
    assert one.shape == z.shape
    np.testing.assert_allclose(one, expected, rtol=SHIFTED)
    np.testing.assert_allclose(rebalance(z[:, None], source, **options)[:, 0], one, rtol=EXACT)
    np.testing.assert_allclose(np.exp(log_rebalance(z, source, **options)), one, rtol=SHIFTED)


@given(SCORES, priors(2))
def test_kinds_agree(z, source):
    expected = rebalance(z, source)
    np.testing.assert_allclose(rebalance(sigmoid(z), source, kind="probs"), expected, rtol=STORED)
    log_p = -np.log1p(np.exp(-z))
    np.testing.assert_allclose(rebalance(log_p, source, kind="log_probs"), expected, rtol=STORED)


@given(SCORES)
def test_expanded_log_probabilities_are_exact_at_both_ends(z):
    log_p = -np.logaddexp(0, -z)
    columns = binary.expand(log_p, "log_probs", xp=XP)
    far = z < 0  # log(1 − p) is tiny, and as exact as p is
    np.testing.assert_allclose(columns[far, 0], -np.logaddexp(0, z)[far], rtol=1e-12)
    np.testing.assert_allclose(np.exp(columns).sum(axis=1), 1.0, rtol=EXACT)


def test_certain_scores_stay_certain():
    np.testing.assert_array_equal(rebalance(np.array([0.0, 1.0]), [0.9, 0.1], kind="probs"), [0, 1])
    certain = rebalance(np.array([-np.inf, 0.0]), [0.9, 0.1], kind="log_probs")
    np.testing.assert_array_equal(certain, [0, 1])


def test_segmentation_masks_of_one_channel(rng):
    z = rng.normal(size=(2, 1, 3, 4))
    one = rebalance(z, [0.8, 0.2], class_axis=1)
    two = rebalance(np.concatenate([0 * z, z], axis=1), [0.8, 0.2], class_axis=1)
    assert one.shape == z.shape
    np.testing.assert_allclose(one, two[:, 1:], rtol=EXACT)


def test_vectors_are_binary_for_two_classes_and_one_sample_for_more():
    z = np.array([2.0, 3.0])
    np.testing.assert_allclose(rebalance(z, [0.5, 0.5]), sigmoid(z), rtol=EXACT)
    assert rebalance(np.array([2.0, 3.0, 4.0]), [0.2, 0.3, 0.5]).sum() == pytest.approx(1.0)
    assert binary.is_single_score((2,), 2)
    assert not binary.is_single_score((3,), 3)
    assert not binary.is_single_score((5, 1), 3)
    assert binary.is_single_score((5, 1, 2), 2, class_axis=1)


def test_all_ones_as_logits_bring_no_warning():
    """[0, 1] would look like a row of probabilities, but nobody gave it."""
    rebalance(np.ones(3), [0.9, 0.1])
    binary.log_columns(np.ones((3, 1)), "logits", axis=1, xp=XP)


def test_log_columns():
    two = binary.log_columns(np.array([[0.25], [0.5]]), "probs", axis=1, xp=XP)
    np.testing.assert_allclose(two, np.log([[0.75, 0.25], [0.5, 0.5]]), rtol=EXACT)
    three = binary.log_columns(np.array([[0.25, 0.5, 0.25]]), "probs", axis=1, xp=XP)
    np.testing.assert_allclose(three, np.log([[0.25, 0.5, 0.25]]), rtol=EXACT)


# ----------------------------------------------------------------------------------- parity


@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
@pytest.mark.parametrize("shape", [(6,), (6, 1)], ids=str)
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_every_library_agrees_with_numpy(backend, shape, kind, rng):
    z = rng.normal(size=shape)
    given_scores = {"logits": z, "probs": sigmoid(z), "log_probs": np.log(sigmoid(z))}[kind]
    scores = backend.make(given_scores)
    found = rebalance(scores, [0.8, 0.2], kind=kind)
    assert library_of(found) == backend.library
    assert found.dtype == scores.dtype
    assert tuple(found.shape) == shape
    np.testing.assert_allclose(
        to_numpy(found),
        rebalance(given_scores, [0.8, 0.2], kind=kind),
        rtol=OPERATIONS * EPS[backend.dtype],
    )


def test_under_jit_nothing_is_checked():
    traced = jax.jit(lambda p: rebalance(p, [0.5, 0.5], kind="probs"))
    np.testing.assert_allclose(np.asarray(traced(jnp.asarray([0.25]))), [0.25], rtol=1e-6)


# ------------------------------------------------------------------------------------ words

WORDS = {
    "NaN": ([1.0, np.nan], "logits", "Got scores[1]=nan."),
    "infinite": ([[1.0], [-np.inf]], "logits", "`scores` must be finite where there is one score"),
    "above one": ([0.5, 1.5], "probs", "`scores` must be a probability. Got scores[1]=1.5. Drop"),
    "negative": ([-0.5, 0.5], "probs", "Got scores[0]=-0.5."),
    "log above zero": (
        [-0.5, 0.5],
        "log_probs",
        "`scores` must be a log-probability (at most 0). Got scores[1]=0.5.",
    ),
    "NaN log": ([np.nan], "log_probs", "Got scores[0]=nan."),
}


@pytest.mark.parametrize("case", WORDS)
def test_error_sentences(case):
    scores, kind, words = WORDS[case]
    with pytest.raises(ScoresError) as caught:
        rebalance(np.array(scores), [0.9, 0.1], kind=kind)
    assert words in str(caught.value)


def test_the_wrong_axis_is_named():
    with pytest.raises(ScoresError) as caught:
        binary.resolve_class_axis((4, 3, 8), 3, -1)
    words = "Got 8 on axis -1 of shape (4, 3, 8), and 3 classes in the prior. Pass class_axis=1."
    assert words in str(caught.value)
    with pytest.raises(ScoresError, match="Check the order and number of classes"):
        binary.resolve_class_axis((4, 5), 3, -1)
