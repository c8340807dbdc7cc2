from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.support.backends import BACKENDS, EPS, EXACT, OPERATIONS, library_of, logits

from reprior import (
    EntropyReference,
    OptionError,
    RepriorError,
    RepriorWarning,
    ScoresError,
    flatten,
)
from reprior.core import entropy, flattening_factor, image_entropy, namespace, to_numpy

XP = namespace()


def uno_factor(probs, mean, std):
    """UNO's δ for (N, K, H, W) probabilities, as its authors compute it."""
    per_pixel = -(probs * np.log(np.clip(probs, 1e-9, None))).sum(axis=1)
    per_image = per_pixel.reshape(len(probs), -1).mean(axis=1)
    return mean / (mean + np.maximum(0.0, per_image - mean - std))


# ---------------------------------------------------------------------------------- oracles


@given(logits())
def test_entropy_is_scipys(z):
    log_p = scipy.special.log_softmax(z, axis=-1)
    np.testing.assert_allclose(
        entropy(log_p, axis=-1, xp=XP), scipy.stats.entropy(np.exp(log_p), axis=-1), atol=EXACT
    )


def test_zero_times_log_zero_is_zero():
    np.testing.assert_array_equal(entropy(np.array([[0.0, -np.inf]]), axis=-1, xp=XP), [0.0])


def test_the_factor_is_unos(rng):
    z = rng.normal(size=(8, 5, 6, 7)) * rng.uniform(0.2, 4, size=(8, 1, 1, 1))
    reference = EntropyReference(mean=0.6, std=0.1)
    expected = uno_factor(scipy.special.softmax(z, axis=1), 0.6, 0.1)
    assert 0 < expected.min() < expected.max() == 1.0
    found = flattening_factor(z, reference, class_axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-6)  # their clip at 1e-9
    np.testing.assert_allclose(
        flatten(z, reference, class_axis=1), z * found[:, None, None, None], rtol=EXACT
    )


def test_the_reference_holds_population_statistics_of_image_means(rng):
    z = rng.normal(size=(9, 4, 3, 2))
    p = scipy.special.softmax(z, axis=1)
    per_image = scipy.stats.entropy(p, axis=1).mean(axis=(1, 2))
    reference = EntropyReference.fit(z, class_axis=1)
    assert reference.mean == pytest.approx(per_image.mean(), rel=EXACT)
    assert reference.std == pytest.approx(per_image.std(ddof=0), rel=1e-9)
    for scores, kind in ((p, "probs"), (np.log(p), "log_probs")):
        same = EntropyReference.fit(scores, kind=kind, class_axis=1)
        assert same.mean == pytest.approx(reference.mean, rel=EXACT)
    with pytest.raises(dataclasses.FrozenInstanceError):
        reference.mean = 1.0


# ------------------------------------------------------------------------------- identities


@given(logits(), st.floats(0.05, 2), st.floats(0, 1))
def test_the_factor_is_in_its_range_and_never_changes_the_arg_max(z, mean, std):
    reference = EntropyReference(mean, std)
    delta = flattening_factor(z, reference)
    assert ((delta > 0) & (delta <= 1)).all()
    np.testing.assert_array_equal(delta[image_entropy(z) <= mean + std], 1.0)
    flat = flatten(z, reference)
    assert (image_entropy(flat) >= image_entropy(z) - EXACT).all()
    winners = np.take_along_axis(flat, z.argmax(axis=1)[:, None], axis=1)[:, 0]
    np.testing.assert_array_equal(winners, flat.max(axis=1))


@given(logits())
def test_the_surer_the_image_the_larger_the_factor(z):
    reference = EntropyReference(0.1, 0.01)
    hotter = flattening_factor(z / 2, reference)
    assert (hotter <= flattening_factor(z, reference) + EXACT).all()


@pytest.mark.parametrize("kind", ["probs", "log_probs"])
def test_of_probabilities_the_log_posterior_is_scaled(kind, rng):
    log_p = scipy.special.log_softmax(rng.normal(size=(6, 3)), axis=1)
    reference = EntropyReference(0.2, 0.1)
    scores = np.exp(log_p) if kind == "probs" else log_p
    delta = flattening_factor(scores, reference, kind=kind)
    found = flatten(scores, reference, kind=kind)
    np.testing.assert_allclose(found, log_p * delta[:, None], rtol=1e-9)


def test_impossible_classes_stay_impossible():
    p = np.array([[0.0, 0.5, 0.5]])
    assert flatten(p, EntropyReference(0.1, 0.0), kind="probs")[0, 0] == -np.inf


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_one_score_per_image_stays_one_logit(kind, rng):
    z = rng.normal(size=(5, 1))
    p = scipy.special.expit(z)
    scores = {"logits": z, "probs": p, "log_probs": np.log(p)}[kind]
    reference = EntropyReference(0.2, 0.1)
    found = flatten(scores, reference, kind=kind)
    two = flatten(np.concatenate([0 * z, z], axis=1), reference)
    assert found.shape == (5, 1)
    np.testing.assert_allclose(found[:, 0], two[:, 1], rtol=1e-9)


def test_classes_on_the_first_axis(rng):
    z = rng.normal(size=(4, 6))
    reference = EntropyReference(0.3, 0.1)
    np.testing.assert_allclose(
        flatten(z.T, reference, class_axis=0), flatten(z, reference).T, rtol=EXACT
    )


# ----------------------------------------------------------------------------------- parity


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_every_library_agrees_with_float64(backend, rng):
    scores = backend.make(rng.normal(size=(5, 4, 3, 2)) * 2)
    reference = EntropyReference(0.4, 0.05)
    found = flatten(scores, reference, class_axis=1)
    assert library_of(found) == backend.library
    assert found.dtype == scores.dtype
    wide = to_numpy(scores).astype(np.float64)
    compute = "float64" if backend.dtype == "float64" else "float32"
    np.testing.assert_allclose(
        to_numpy(found).astype(np.float64),
        flatten(wide, reference, class_axis=1),
        rtol=EPS[backend.dtype] + OPERATIONS * EPS[compute],
    )
    fitted = EntropyReference.fit(scores, class_axis=1)
    assert fitted.mean == pytest.approx(
        EntropyReference.fit(wide, class_axis=1).mean, rel=OPERATIONS * EPS[compute]
    )


def test_gradients_flow():
    scores = torch.tensor([[1.0, 0.2, -1.0], [3.0, 0.1, 2.0]], dtype=torch.float64)
    scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda s: flatten(s, EntropyReference(0.3, 0.1)), scores)


def test_nothing_is_mutated():
    z = np.array([[2.0, 3.0]])
    flatten(z, EntropyReference(0.1, 0.1))
    np.testing.assert_array_equal(z, [[2.0, 3.0]])
    assert flatten(np.array([[2, 3]]), EntropyReference(0.1, 0.1)).dtype == np.float64


# ------------------------------------------------------------------------------------ words

R = EntropyReference(0.5, 0.1)

WORDS = {
    "no entropy": (
        lambda: EntropyReference.fit(np.eye(3), kind="probs"),
        OptionError,
        "`mean` must be a finite number above 0. Got 0.0. Where every validation posterior is "
        "0 or 1 there is no entropy to refer to",
    ),
    "negative std": (lambda: EntropyReference(0.5, -1), OptionError, "`std` must be a finite"),
    "no reference": (
        lambda: flatten(np.array([[2.0, 3.0]]), 0.5),
        OptionError,
        "`reference` must be an EntropyReference. Got float. Pass EntropyReference.fit(",
    ),
    "vector": (
        lambda: flatten(np.array([2.0, 3.0]), R),
        ScoresError,
        "`scores` must have an axis of images and one of classes. Got shape (2,). Pass shape "
        "(1, K)",
    ),
    "axis": (lambda: flatten(np.ones((2, 3)), R, class_axis=5), OptionError, "`class_axis`"),
    "kind": (lambda: flatten(np.ones((2, 3)), R, kind="p"), OptionError, "`kind` must be one of"),
    "NaN": (lambda: flatten(np.full((1, 2), np.nan), R), ScoresError, "Got scores[0, 0]=nan."),
}


@pytest.mark.parametrize("case", WORDS)
def test_error_sentences(case):
    call, error, words = WORDS[case]
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
    assert isinstance(caught.value, RepriorError)


def test_probabilities_declared_as_logits_bring_one_warning():
    with pytest.warns(RepriorWarning) as caught:
        flatten(np.array([[0.2, 0.8]]), R)
    assert len(caught) == 1
