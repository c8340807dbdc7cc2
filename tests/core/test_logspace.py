from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st
from tests.support.backends import BACKENDS, EPS, EXACT, OPERATIONS, WIDE_BACKENDS, logits

from reprior import RepriorWarning, ScoresError, rebalance
from reprior.core import dtype_name, logspace, namespace, to_numpy
from reprior.exceptions import render

XP = namespace()


# ---------------------------------------------------------------------------------- oracles


@given(logits(size=700.0), st.sampled_from([0, 1, -1]))
def test_log_softmax_and_logsumexp_are_scipys(z, axis):
    np.testing.assert_allclose(
        logspace.log_softmax(z, axis=axis, xp=XP),
        scipy.special.log_softmax(z, axis=axis),
        rtol=EXACT,
        atol=EXACT,
    )
    for keepdims in (True, False):
        np.testing.assert_allclose(
            logspace.logsumexp(z, axis=axis, xp=XP, keepdims=keepdims),
            scipy.special.logsumexp(z, axis=axis, keepdims=keepdims),
            rtol=EXACT,
        )


def test_logsumexp_of_nothing_is_minus_infinity():
    with np.errstate(divide="ignore"):
        total = logspace.logsumexp(np.full((1, 3), -np.inf), axis=-1, xp=XP)
    np.testing.assert_array_equal(total, [-np.inf])


def test_sums_of_many_float32_terms_are_accumulated_in_float64():
    z = np.zeros((1, 10_000_000), dtype=np.float32)
    np.testing.assert_allclose(
        logspace.logsumexp(z, axis=-1, xp=XP), np.log(1e7), rtol=EPS["float32"]
    )


# ------------------------------------------------------------------------------- log_scores


def test_logits_are_left_alone():
    z = np.array([[3.0, -np.inf, 2.0]])
    assert logspace.log_scores(z, "logits", axis=-1, xp=XP) is z
    half = logspace.log_scores(z.astype(np.float16), "logits", axis=-1, xp=XP)
    assert half.dtype == np.float32


def test_zero_probability_is_minus_infinity_without_a_warning():
    log_p = logspace.log_scores(np.array([[1.0, 0.0], [0.5, 0.5]]), "probs", axis=-1, xp=XP)
    half = np.log(0.5)
    np.testing.assert_array_equal(log_p, [[0.0, -np.inf], [half, half]])


@pytest.mark.parametrize("kind", ["probs", "log_probs"])
def test_rows_that_miss_one_a_little_are_renormalised(kind):
    p = np.array([[0.3, 0.7009], [0.2, 0.7991]])
    given_scores = p if kind == "probs" else np.log(p)
    log_p = logspace.log_scores(given_scores, kind, axis=1, xp=XP)
    np.testing.assert_allclose(np.exp(log_p), p / p.sum(axis=1, keepdims=True), rtol=EXACT)


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_every_library_agrees_with_numpy(backend, kind, rng):
    z = scipy.special.log_softmax(rng.normal(size=(7, 5)) * 2, axis=-1)
    scores = backend.make({"logits": z + 3, "probs": np.exp(z), "log_probs": z}[kind])
    found = logspace.log_scores(scores, kind, axis=-1, xp=namespace(scores))
    wide = to_numpy(scores).astype(np.float64)
    if kind != "logits":
        wide = np.log(wide) if kind == "probs" else wide
        wide -= scipy.special.logsumexp(wide, axis=-1, keepdims=True)
    compute = "float64" if backend.dtype == "float64" else "float32"
    assert dtype_name(found.dtype) == compute
    np.testing.assert_allclose(to_numpy(found), wide, rtol=0, atol=OPERATIONS * 8 * EPS[compute])


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
@pytest.mark.parametrize("kind", ["probs", "log_probs"])
def test_rounding_to_the_dtype_is_never_an_error(backend, kind, rng):
    """A softmax computed exactly and stored in 16 bits may miss 1 by more than 1e-3."""
    z = scipy.special.log_softmax(rng.normal(size=(2000, 30)), axis=-1)
    scores = backend.make(np.exp(z) if kind == "probs" else z)
    logspace.log_scores(scores, kind, axis=-1, xp=namespace(scores))


@pytest.mark.parametrize("backend", WIDE_BACKENDS, ids=str)
def test_probabilities_sum_to_one(backend):
    p = backend.make([[0.3, 0.7005], [0.25, 0.75]])
    found = logspace.probabilities(p, axis=-1, xp=namespace(p))
    np.testing.assert_allclose(to_numpy(found).sum(axis=-1), 1.0, atol=2 * EPS[backend.dtype])


def test_checks_are_skipped_under_jit():
    def log(p, kind):
        return logspace.log_scores(p, kind, axis=-1, xp=namespace(p))

    traced = jax.jit(log, static_argnums=1)
    assert np.isnan(np.asarray(traced(jnp.asarray([[np.nan, 1.0]]), "logits"))).any()
    np.testing.assert_allclose(
        np.exp(np.asarray(traced(jnp.asarray([[0.5, 1.5]]), "probs"))),
        [[0.25, 0.75]],
        rtol=8 * EPS["float32"],
    )


# --------------------------------------------------------------------------------- warnings


def test_probabilities_declared_as_logits_bring_a_warning():
    p = np.array([[0.25, 0.75], [0.5, 0.5]])
    with pytest.warns(RepriorWarning, match="kind='probs'"):
        logspace.log_scores(p, "logits", axis=-1, xp=XP)


def test_the_warning_looks_at_every_row_and_along_the_class_axis():
    mostly = np.array([[0.25, 0.75], [0.5, 1.5]])
    logspace.log_scores(mostly, "logits", axis=-1, xp=XP)
    columns = np.array([[0.25, 0.5], [0.75, 0.5]])
    logspace.log_scores(columns, "logits", axis=1, xp=XP)
    with pytest.warns(RepriorWarning):
        logspace.log_scores(columns, "logits", axis=0, xp=XP)


# ------------------------------------------------------------------------------------ words

P = [[0.5, 0.5], [0.25, 0.75]]

WORDS = {
    "NaN": (
        [[1, 2], [3, np.nan]],
        "logits",
        "`scores` must not contain NaN or +inf. Got scores[1, 1]=nan. Drop the sample",
    ),
    "infinity": ([[1, np.inf], [3, 4]], "logits", "Got scores[0, 1]=inf."),
    "NaN in probs": ([[0.5, 0.5], [np.nan, 1]], "probs", "Got scores[1, 0]=nan."),
    "NaN in log_probs": ([[0.0, np.nan]], "log_probs", "Got scores[0, 1]=nan."),
    "row of minus infinity": (
        [[1, 2], [-np.inf, -np.inf]],
        "logits",
        "`scores` must have a finite score in every row. Got scores[1, :]",
    ),
    "row of zeros": (
        [[0.5, 0.5], [0, 0]],
        "probs",
        "Got scores[1, :] with probability 0 for every",
    ),
    "negative": (
        [[0.5, 0.5], [1.25, -0.25]],
        "probs",
        "`scores` must not be negative under kind='probs'. Got scores[1, 1]=-0.25. "
        "Pass kind='logits'",
    ),
    "above one": (
        [[0.5, 1.5]],
        "probs",
        "`scores` must be at most 1 under kind='probs'. Got scores[0, 1]=1.5.",
    ),
    "log above zero": (
        [[0.5, -1.5]],
        "log_probs",
        "`scores` must be at most 0 under kind='log_probs'. Got scores[0, 0]=0.5.",
    ),
    "sum": (
        [[0.5, 0.5], [0.5, 0.4]],
        "probs",
        "`scores` must sum to 1 over the class axis under kind='probs', within 0.001. "
        "Got scores[1, :] with sum 0.9. Normalise the rows",
    ),
    "sum of log_probs": ([[-1.0, -1.0]], "log_probs", "Got scores[0, :] with sum 0.735759."),
    "empty": (
        np.empty((0, 3)),
        "logits",
        "`scores` must hold at least one sample. Got shape (0, 3)",
    ),
    "scalar": (3.0, "logits", "`scores` must hold at least one sample. Got shape ()."),
    "complex": ([[1j, 2]], "logits", "`scores` must be real numbers. Got dtype complex128."),
    "boolean": ([[True, False]], "probs", "`scores` must be real numbers. Got dtype bool."),
    "text": ([["a", "b"]], "logits", "`scores` must be real numbers."),
}


@pytest.mark.parametrize("case", WORDS)
def test_error_sentences(case):
    scores, kind, words = WORDS[case]
    with pytest.raises(ScoresError) as caught:
        logspace.log_scores(np.asarray(scores), kind, axis=-1, xp=XP)
    assert words in str(caught.value)


def test_scores_that_are_good_are_not_refused():
    logspace.refuse_scores(np.array(P), "probs", axis=-1)
    logspace.refuse_scores(np.array(P), "logits", axis=-1)


def test_a_row_at_the_edge_of_the_tolerance_is_named():
    """The check sums float32 exponentials, the sentence float64 ones: they must not disagree."""
    edge = np.linspace(0.99e-3, 1.01e-3, 2001)
    log_p = np.log(np.stack([np.full_like(edge, 0.5), 0.5 + edge], axis=1)).astype(np.float32)

    def sentence(row):
        try:
            rebalance(row[None], [0.5, 0.5], kind="log_probs")
        except ScoresError as error:
            return str(error)
        return None

    sentences = [sentence(row) for row in log_p]
    assert sentences[0] is None
    assert all("must sum to 1" in found for found in sentences if found)
    assert sentences[-1]


def test_rows_are_named_by_their_class_axis():
    assert render(logspace.row_element((3, 5), 3, 1)) == "scores[3, :, 5]"


def test_single_scores_that_look_like_probabilities_bring_a_warning():
    with pytest.warns(RepriorWarning, match="pass kind='probs'"):
        rebalance(np.linspace(0, 1, 20), [0.9, 0.1])
    rebalance(np.linspace(0, 1, 19), [0.9, 0.1])  # too few to tell
    rebalance(np.linspace(-0.1, 1, 20), [0.9, 0.1])
