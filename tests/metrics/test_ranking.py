from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import top_k_accuracy_score
from tests.metrics.shared import LIBRARIES, ROUNDING, random_samples, scored_samples

from reprior.exceptions import LabelsError, OptionError, RepriorError, ScoresError
from reprior.metrics import score_blocks, top_k_accuracy


def slow_top_k(scores, labels, k) -> float:
    """Sort every row, larger scores first and equal ones by index."""
    hits = 0
    for row, label in zip(scores, labels, strict=True):
        ranked = sorted(range(len(row)), key=lambda j, row=row: (-row[j], j))
        hits += int(label in ranked[:k])
    return hits / len(labels)


# ------------------------------------------------------------------------------------ oracles


@given(scored_samples(), st.integers(1, 6))
def test_equals_a_sort_with_ties(samples, k):
    scores, labels, _ = samples
    k = 1 + k % scores.shape[1]
    assert top_k_accuracy(scores, labels, k=k) == pytest.approx(
        slow_top_k(scores, labels, k), rel=ROUNDING
    )


@pytest.mark.parametrize("k", [1, 2, 5, 9])
@pytest.mark.parametrize("seed", range(3))
def test_equals_scikit_learn_without_ties(k, seed):
    rng = np.random.default_rng(seed)
    scores, labels = random_samples(rng, n=300, n_classes=10)
    weight = rng.uniform(size=300)
    expected = top_k_accuracy_score(labels, scores, k=k, sample_weight=weight)
    value = top_k_accuracy(scores, labels, k=k, sample_weight=weight)
    assert value == pytest.approx(expected, rel=ROUNDING)


# --------------------------------------------------------------------------------- identities


@given(scored_samples())
def test_top_1_is_the_accuracy_of_the_arg_max(samples):
    scores, labels, _ = samples
    assert top_k_accuracy(scores, labels, k=1) == np.mean(scores.argmax(axis=1) == labels)


@given(scored_samples())
def test_it_grows_to_1(samples):
    scores, labels, _ = samples
    values = [top_k_accuracy(scores, labels, k=k + 1) for k in range(scores.shape[1])]
    assert values == sorted(values)
    assert values[-1] == 1.0


@given(scored_samples())
def test_weight_is_repetition(samples):
    scores, labels, weight = samples
    assert top_k_accuracy(scores, labels, k=2, sample_weight=weight) == top_k_accuracy(
        np.repeat(scores, weight, axis=0), np.repeat(labels, weight), k=2
    )


def test_permuting_classes_changes_nothing_without_ties():
    rng = np.random.default_rng(0)
    scores, labels = random_samples(rng)
    order = rng.permutation(4)
    moved = scores[:, np.argsort(order)]
    assert top_k_accuracy(moved, order[labels], k=2) == top_k_accuracy(scores, labels, k=2)


def test_ignored_samples_are_left_out():
    scores = np.array([[3.0, 1.0, 2.0], [3.0, 1.0, 2.0], [3.0, 1.0, 2.0]])
    assert top_k_accuracy(scores, [2, 255, 1], k=2, ignore_index=255) == 0.5


@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_any_class_axis(axis):
    scores, labels = random_samples(np.random.default_rng(0), n=24)
    cube = np.moveaxis(scores.reshape(2, 3, 4, 4), -1, axis)
    assert top_k_accuracy(cube, labels.reshape(2, 3, 4), k=2, class_axis=axis) == top_k_accuracy(
        scores, labels, k=2
    )


def test_impossible_classes_come_last():
    assert top_k_accuracy([[0.0, -np.inf, -np.inf]], [1], k=2) == 1.0
    assert top_k_accuracy([[0.0, -np.inf, -np.inf]], [2], k=2) == 0.0


def test_blocks_do_not_show(monkeypatch):
    scores, labels = random_samples(np.random.default_rng(0))
    whole = top_k_accuracy(scores, labels, k=2)
    monkeypatch.setattr(score_blocks, "BLOCK_SIZE", 12)
    assert top_k_accuracy(scores, labels, k=2) == whole


# ------------------------------------------------------------------------------------- parity


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library(library, dtype):
    if library == "jax" and dtype == "float64":
        pytest.skip("JAX has no float64 unless asked for")
    if library == "array_api_strict" and dtype == "float16":
        pytest.skip("the standard has no float16")
    array = LIBRARIES[library]
    scores, labels = random_samples(np.random.default_rng(0))
    scores, labels = scores.astype(dtype), labels.astype(np.int32)
    expected = slow_top_k(scores.tolist(), labels, 2)
    value = top_k_accuracy(array(scores), array(labels), k=2)
    assert type(value) is float
    assert value == pytest.approx(expected, rel=ROUNDING)


def test_bfloat16():
    scores, labels = random_samples(np.random.default_rng(0))
    rounded = torch.as_tensor(scores).to(torch.bfloat16)
    expected = slow_top_k(rounded.tolist(), labels, 2)
    value = top_k_accuracy(rounded, torch.as_tensor(labels), k=2)
    assert value == pytest.approx(expected, rel=ROUNDING)


# -------------------------------------------------------------------------------------- words


GOOD = np.array([[3.0, 1.0, 2.0], [0.0, 1.0, 2.0]])


@pytest.mark.parametrize(
    "scores, labels, options, error, sentence",
    [
        (GOOD, [0, 1], {"k": 0}, OptionError, r"`k` must be .* from 1 to .* 3\. Got 0\."),
        (GOOD, [0, 1], {}, OptionError, r"number of classes, 3\. Got 5\. Pass a smaller k"),
        (GOOD, [0, 1], {"k": 1.0}, OptionError, r"`k` must be an integer .* Got 1\.0\."),
        (GOOD, [0, 1], {"k": True}, OptionError, r"`k` must be an integer .* Got True\."),
        (GOOD * np.nan, [0, 1], {"k": 1}, ScoresError, r"NaN or \+inf\. Got scores\[0, 0\]=nan"),
        ([[-np.inf] * 3], [0], {"k": 1}, ScoresError, r"finite score in every row"),
        ([0.1, 0.2], [0, 1], {"k": 1}, ScoresError, r"one score per class\. Got shape \(2,\)"),
        (GOOD[:, :1], [0, 1], {"k": 1}, ScoresError, r"one score per sample\. Pass both"),
        (GOOD, [0, 3], {"k": 1}, LabelsError, r"Got labels\[1\]=3\."),
        (GOOD, torch.tensor([0, 1]), {"k": 1}, RepriorError, r"Got numpy and torch\."),
    ],
)
def test_bad_input_is_refused(scores, labels, options, error, sentence):
    with pytest.raises(error, match=sentence):
        top_k_accuracy(scores, labels, **options)
