from __future__ import annotations

import warnings
from math import prod

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tuning.shared import rows_of

import reprior as rp
from reprior.core import class_importance, importance_weights, namespace
from reprior.exceptions import LabelsError, RepriorWarning, ScoresError
from reprior.profile import ProbabilityDetector, Samples, StrengthProfile


def collected(rows, n_scores):
    """Read all blocks and put the samples together again."""
    blocks = [rows.read(index) for index in rows.blocks(n_scores)]
    scores = np.concatenate([np.asarray(block.scores) for block in blocks])
    return scores, np.concatenate([block.labels for block in blocks])


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.integers(2, 4),
    st.integers(1, 40),
)
def test_blocks_are_every_sample_once_in_order(shape, n_classes, n_scores):
    size = prod(shape)
    scores = np.arange(size * n_classes, dtype=float).reshape(*shape, n_classes)
    labels = (np.arange(size) % n_classes).reshape(shape)
    rows = rows_of(scores, labels)
    found, found_labels = collected(rows, n_scores)
    np.testing.assert_array_equal(found, scores.reshape(-1, n_classes))
    np.testing.assert_array_equal(found_labels, labels.reshape(-1))
    assert rows.n_scores == scores.size


@pytest.mark.parametrize("n_scores", [6, 24, 60, 1000])
def test_blocks_have_whole_rows_of_about_the_size_asked_for(n_scores):
    rows = rows_of(np.zeros((5, 4, 7, 3)), np.zeros((5, 4, 7)))
    sizes = [rows.read(index).scores.shape for index in rows.blocks(n_scores)]
    assert all(n_classes == 3 for _, n_classes in sizes)
    assert max(n for n, _ in sizes) <= max(1, n_scores // 3)
    assert sum(n for n, _ in sizes) == 5 * 4 * 7


def test_ignored_and_weightless_samples_are_left_out():
    scores = np.arange(8.0).reshape(4, 2)
    rows = rows_of(scores, [0, 9, 1, 0], [1.0, 1.0, 0.0, 2.0], ignore_index=9)
    (index,) = rows.blocks(100)
    block = rows.read(index)
    np.testing.assert_array_equal(block.scores, scores[[0, 3]])
    assert block.labels.tolist() == [0, 0]
    assert block.weights.tolist() == [1.0, 2.0]
    assert rows.left_out().tolist() == [False, True, True, False]
    assert rows_of(scores, [0, 1, 1, 0]).left_out() is None


@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_a_block_with_nothing_to_count_is_not_looked_at(kind):
    scores = np.full((3, 2), np.nan)
    rows = rows_of(scores, [9, 9, 9], ignore_index=9, kind=kind)
    block = rows.read(rows.blocks(100)[0])
    assert block.labels.size == 0


@pytest.mark.parametrize(
    "given_dtype, read_dtype", [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("i4", "f8")]
)
def test_logits_are_read_in_their_own_precision(given_dtype, read_dtype):
    rows = rows_of(np.ones((2, 2), given_dtype), [0, 1])
    assert rows.read(rows.blocks(100)[0]).scores.dtype == read_dtype


@pytest.mark.parametrize("kind", ["probs", "log_probs"])
def test_probabilities_are_read_as_float64_logarithms(kind):
    probs = np.array([[0.25, 0.75], [1.0, 0.0]], np.float32)
    with np.errstate(divide="ignore"):
        rows = rows_of(probs if kind == "probs" else np.log(probs), [0, 1], kind=kind)
    found = rows.read(rows.blocks(100)[0]).scores
    assert found.dtype == np.float64
    np.testing.assert_allclose(np.exp(found), probs, atol=1e-7)


def test_array_api_strict_scores_stay_what_they_are():
    scores = array_api_strict.reshape(array_api_strict.arange(24.0), (2, 3, 4))
    labels = np.array([[0, 9, 1], [2, 3, 9]])
    rows = rows_of(scores, labels, xp=namespace(scores), ignore_index=9)
    for n_scores in (4, 8, 100):
        blocks = [rows.read(index) for index in rows.blocks(n_scores)]
        assert all(namespace(block.scores) is namespace(scores) for block in blocks)
        assert sum(block.labels.size for block in blocks) == 4


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_the_first_bad_score_is_named_as_the_user_has_it(kind, value):
    good = {"logits": 0.0, "probs": 1 / 3, "log_probs": np.log(1 / 3)}[kind]
    scores = np.full((4, 3), good)
    scores[1] = value  # ignored
    scores[2, 1] = value
    rows = rows_of(scores, [0, 9, 1, 2], kind=kind, ignore_index=9, class_axis=0)
    with pytest.raises(ScoresError, match=r"must not contain NaN or \+inf. Got scores\[1, 2\]"):
        rows.read(rows.blocks(100)[0])


def test_a_row_that_no_target_class_can_take_is_named():
    scores = np.array([[0.0, 0.0, 0.0], [1.0, -np.inf, -np.inf]])
    rows = rows_of(scores, [0, 0])
    with pytest.raises(ScoresError, match=r"Got scores\[1, :\], whose every possible class"):
        rows.refuse(np.array([False, True, True]))


def test_a_single_sample_is_named_without_an_axis_of_samples():
    rows = rows_of(np.array([[0.0, np.nan, 1.0]]), [0], class_axis=0, one_sample=True)
    with pytest.raises(ScoresError, match=r"Got scores\[1\]=nan"):
        rows.refuse()
    rows = rows_of(
        np.array([[0.0, -np.inf]]),
        [0],
        class_axis=0,
        one_sample=True,
    )
    with pytest.raises(ScoresError, match=r"Got scores\[:\], whose every possible class"):
        rows.refuse(np.array([False, True]))


@pytest.mark.parametrize("label_prior", [None, np.array([0.2, 0.3, 0.5])])
@pytest.mark.parametrize("weighted", [False, True])
def test_importance_makes_the_mix_of_the_labels_that_of_the_target(rng, label_prior, weighted):
    labels = rng.integers(-1, 3, size=50)  # -1 is ignored
    weights = rng.random(50) if weighted else None
    target = np.array([0.5, 0.25, 0.25])
    samples = Samples.of(
        rng.normal(size=(50, 3)), labels, weights, n_classes=3, ignore_index=-1, part=True
    )
    counted = labels >= 0
    given = (np.ones(50) if weights is None else weights)[counted]
    support = np.bincount(labels[counted], given, minlength=3)
    expected = importance_weights(
        labels[counted], given, target_prior=target, label_prior=label_prior
    )
    ratio = class_importance(support, target_prior=target, label_prior=label_prior)
    importance = samples.importance(ratio)
    assert (importance[~counted] == 0.0).all()
    importance = importance[counted]
    np.testing.assert_allclose(importance / importance.sum(), expected / expected.sum())
    if label_prior is None:
        mix = np.bincount(labels[counted], importance) / importance.sum()
        np.testing.assert_allclose(mix, target)


# ------------------------------------------------------------------------ likely mistakes

Y = np.arange(60) % 3
Z = np.random.default_rng(0).normal(size=(60, 3))
TWO_WAYS = [
    lambda scores, labels, prior, **options: StrengthProfile.from_scores(
        scores, labels, source_prior=prior, **options
    ),
    lambda scores, labels, prior, **options: rp.PosteriorCalibrator(prior, **options).fit(
        scores, labels
    ),
]
PRIOR = [0.5, 0.3, 0.2]


@pytest.mark.parametrize("use", TWO_WAYS, ids=["profile", "calibrator"])
@pytest.mark.parametrize(
    "scores, labels, prior",
    [
        (Y, Z, PRIOR),
        (Y.astype(float), Z, PRIOR),
        (Y, (10 * Z).astype(int), PRIOR),
        (Y % 2, Z[:, :2], [0.8, 0.2]),
        (Y % 2, Z[:, 0], [0.8, 0.2]),
        ((Y % 2).astype(float), Z[:, 0], [0.8, 0.2]),
        (pd.Series(Y), pd.DataFrame(Z), PRIOR),
    ],
)
def test_scores_and_labels_in_the_wrong_order(use, scores, labels, prior):
    with pytest.raises(ScoresError, match=r"must come before `labels`\. Got integers of"):
        use(scores, labels, prior)


@pytest.mark.parametrize("use", TWO_WAYS, ids=["profile", "calibrator"])
def test_predicted_labels_in_the_place_of_scores(use):
    for wrong in (Y, Y.astype(float)):
        with pytest.raises(ScoresError, match="for every sample, not the predicted label"):
            use(wrong, Y, PRIOR)
    images = Y.reshape(15, 2, 2)
    with pytest.raises(ScoresError, match=r"integers of the labels' shape, \(15, 2, 2\)"):
        use(images, images, PRIOR, class_axis=1)


@pytest.mark.parametrize("use", TWO_WAYS, ids=["profile", "calibrator"])
@pytest.mark.parametrize("dtype", ["i8", "f4", "f8"])
def test_one_hot_predictions_declared_as_logits(use, dtype):
    for scores, prior, words in (
        (np.eye(3, dtype=dtype)[Y], PRIOR, "every row is a single 1 among 0s"),
        ((Y % 2).astype(dtype), [0.8, 0.2], "every one of them is 0 or 1"),
    ):
        with pytest.warns(RepriorWarning, match=f"look like predicted labels: {words}") as caught:
            use(scores, Y % len(prior), prior)
        assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("use", TWO_WAYS, ids=["profile", "calibrator"])
def test_one_hot_predictions_declared_as_probabilities(use):
    eye = np.eye(3)[Y]
    with pytest.warns(RepriorWarning, match="look like predicted labels: every row is a single 1"):
        use(eye, Y, PRIOR, kind="probs")
    eye[-1] = [0.9, 0.1, 0.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        use(eye, Y, PRIOR, kind="probs")


def test_one_hot_predictions_in_every_part():
    eye = np.eye(3)
    for parts, words in (
        ([eye, eye[::-1]], "predicted labels"),
        ([eye, np.full((3, 3), 1 / 3)], "every row lies in"),
    ):
        detector, other = ProbabilityDetector(), ProbabilityDetector()
        for each, scores in zip((detector, other), parts, strict=True):
            each.add(Samples.of(scores, np.arange(3), n_classes=3, part=True))
        detector.merge(other)
        with pytest.warns(RepriorWarning, match=words):
            detector.warn()


@pytest.mark.parametrize("use", TWO_WAYS, ids=["profile", "calibrator"])
def test_features_in_the_place_of_scores(use):
    features = np.random.default_rng(0).normal(size=(60, 20))
    with pytest.raises(ScoresError, match="these are the model's outputs, not the features"):
        use(features, Y, PRIOR)


def test_integer_scores_and_missing_labels_are_no_mistake_of_order():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Samples.of(Y - 5, Y % 2, n_classes=2)
        Samples.of(np.arange(180).reshape(60, 3), Y, n_classes=3)
    for bad in (np.nan, np.inf):
        with pytest.raises(LabelsError, match="`labels` must be integers"):
            Samples.of(Y - 5, np.where(Y == 0, bad, Y % 2), n_classes=2)
