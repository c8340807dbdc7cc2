"""Frames and class names become arrays and indices."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import reprior as rp
from reprior.calibrator.encoding import (
    as_classes,
    as_mapping,
    encode,
    encode_labels,
    is_range,
    score_array,
)

NAMES = ["ant", "bee", "cow"]
PRIOR = [0.5, 0.3, 0.2]


def read(scores, labels, weight=None, **options):
    """The samples, and the classes with their priors."""
    source, terms = encode(rp.PosteriorCalibrator(PRIOR, **options), scores, labels, weight)
    return source.samples, terms


@pytest.fixture
def scores():
    return np.random.default_rng(0).standard_normal((4, 3))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_are_put_in_the_order_of_the_classes(scores, frame):
    shuffled = frame({name: scores[:, NAMES.index(name)] for name in ["cow", "ant", "bee"]})
    samples, _ = read(shuffled, ["ant", "cow", "bee", "bee"], classes=NAMES)
    np.testing.assert_array_equal(samples.scores, scores)
    np.testing.assert_array_equal(samples.labels, [0, 2, 1, 1])


def test_columns_name_the_classes_where_labels_are_names(scores):
    frame = pd.DataFrame(scores, columns=["cow", "ant", "bee"])
    samples, terms = read(frame, pd.Series(["ant", "cow", "bee", "bee"]))
    assert terms.names.tolist() == ["cow", "ant", "bee"]
    np.testing.assert_array_equal(samples.labels, [1, 0, 2, 2])
    np.testing.assert_array_equal(samples.scores, scores)


def test_columns_with_other_names_are_taken_as_they_stand(scores):
    frame = pd.DataFrame(scores, columns=["score_0", "score_1", "score_2"])
    samples, terms = read(frame, pl.Series([0, 2, 1, 1]), weight=pd.Series([1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_array_equal(samples.scores, scores)
    np.testing.assert_array_equal(samples.weights, [1, 2, 3, 4])
    assert terms.names is None


@pytest.mark.filterwarnings("ignore::reprior.RepriorWarning")
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(
    "columns, words",
    [
        (["cow", "ant", "bird"], r"Got 'bird', which is no class, among 'cow', 'ant', 'bird'"),
        (["id", "ant", "bee", "cow"], "Got 'id', which is no class"),
        (["ant", "bee"], "Got no 'cow'"),
    ],
)
def test_columns_of_which_some_are_classes_are_refused(scores, frame, columns, words):
    given = frame(dict.fromkeys(columns, scores[:, 0]))
    with pytest.raises(rp.ScoresError, match=words):
        score_array(given, as_classes(NAMES))
    calibrator = rp.PosteriorCalibrator(PRIOR, classes=NAMES)
    calibrator.fit(np.eye(3), NAMES)
    with pytest.raises(rp.ScoresError, match=words):
        calibrator.predict(given)


def test_columns_that_are_indices_are_put_in_their_order(scores):
    frame = pd.DataFrame(scores, columns=[0, 1, 2])[[2, 0, 1]]
    np.testing.assert_array_equal(read(frame, [0, 2, 1, 1])[0].scores, scores)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
@pytest.mark.parametrize("classes", [None, NAMES])
def test_missing_names_are_refused_in_a_sentence(scores, missing, classes):
    words = r"`labels` must name a class for every sample. Got labels\[2\]=.*missing. Drop such"
    with pytest.raises(rp.LabelsError, match=words):
        read(scores, pd.Series(["ant", "bee", missing, "cow"], dtype=object), classes=classes)


def test_the_remedy_for_missing_names_exists(scores):
    with pytest.warns(rp.RepriorWarning, match="in sorted order, 'ant', 'bee', 'cow'"):
        samples, terms = read(
            scores, ["ant", "bee", "unlabelled", "cow"], ignore_index="unlabelled"
        )
    assert terms.names.tolist() == NAMES
    assert samples.labels.tolist() == [0, 1, -1, 2]
    assert samples.ignore_index == -1


def test_numbers_among_names_are_refused_in_a_sentence(scores):
    with pytest.raises(rp.LabelsError, match=r"all names or all class indices. Got labels\[3\]=7"):
        read(scores, pd.Series(["ant", "bee", "cow", 7]))


@pytest.mark.parametrize("kind", [dict, pd.Series])
def test_a_prior_by_name_is_put_in_the_order_of_the_classes(scores, kind):
    prior = kind({"cow": 0.5, "ant": 0.3, "bee": 0.2})
    calibrator = rp.PosteriorCalibrator(
        prior, target_prior=kind({"cow": 0, "bee": 0.9, "ant": 0.1})
    )
    with pytest.warns(rp.RepriorWarning, match="in sorted order, 'ant', 'bee', 'cow'"):
        source, terms = encode(calibrator, scores, ["ant", "cow", "bee", "ant"], None)
    samples = source.samples
    assert terms.names.tolist() == NAMES
    np.testing.assert_array_equal(terms.source_prior, [0.3, 0.2, 0.5])
    np.testing.assert_array_equal(terms.target_prior, [0.1, 0.9, 0.0])
    np.testing.assert_array_equal(samples.labels, [0, 2, 1, 0])
    columns = ["bee", "cow", "ant"]
    _, framed = encode(calibrator, pd.DataFrame(scores, columns=columns), ["ant"] * 4, None)
    assert framed.names.tolist() == columns
    np.testing.assert_array_equal(framed.source_prior, [0.2, 0.5, 0.3])


def test_a_prior_without_names_stays_as_it_is():
    for prior in ([0.5, 0.5], (0.5, 0.5), np.array([0.5, 0.5]), "uniform", pl.Series([0.5, 0.5])):
        assert as_mapping(prior) is prior


@pytest.mark.parametrize("labels", [["ant", "bee", "cow", "ant"], np.array(["ant"] * 4)])
def test_names_go_with_tensors(scores, labels):
    samples, _ = read(torch.tensor(scores), labels, classes=NAMES)
    assert samples.labels.tolist() == [NAMES.index(name) for name in labels]
    several, _ = read(torch.tensor(scores), torch.tensor([10, 30, 20, 10]), classes=[10, 20, 30])
    assert several.labels.tolist() == [0, 2, 1, 0]


def test_integer_classes_other_than_indices():
    labels, ignored = encode_labels([10, 30, -5, 20], as_classes([10, 20, 30]), -5)
    np.testing.assert_array_equal(labels, [0, 2, -1, 1])
    assert ignored == -1


def test_index_classes_change_nothing():
    assert is_range(np.arange(4))
    assert not is_range(np.array([1, 0]))
    assert not is_range(np.array(["0", "1"]))
    labels = [0, 1, 255]
    assert encode_labels(labels, np.arange(2), 255) == (labels, 255)
    assert encode_labels(labels, None, None) == (labels, None)


def test_dense_labels_keep_their_shape():
    labels, _ = encode_labels(np.array([["a", "b"], ["b", "b"]]), as_classes(["a", "b"]), None)
    np.testing.assert_array_equal(labels, [[0, 1], [1, 1]])


def test_classes_of_mixed_types_stay_what_they_are():
    assert as_classes(["a", 1]).tolist() == ["a", 1]


@pytest.mark.parametrize(
    "labels, options, words",
    [
        (["ant", "bee", "cow", "dog"], {"classes": NAMES}, r"labels\[3\]='dog'"),
        (["ant", "bee", "ant", "bee"], {}, r"3 different classes.*Got 2.*classes="),
        ([0, 1, 2, 0], {"classes": ["a", "b"]}, "3 different classes"),
        ([0, 1, 2, 0], {"classes": ["a", "a", "b"]}, "3 different classes"),
    ],
)
def test_words(scores, labels, options, words):
    with pytest.raises(rp.RepriorError, match=words):
        read(scores, labels, **options)


def test_a_frame_with_text_in_it_is_refused():
    with pytest.raises(rp.ScoresError, match="Select the columns of scores"):
        score_array(pd.DataFrame({"a": [1.0], "b": ["x"]}), None)


@pytest.mark.parametrize("missing", [float("nan"), None])
def test_what_is_missing_in_a_list_of_names_is_no_name(scores, missing):
    with pytest.raises(rp.LabelsError, match=r"labels\[1\]=(nan|None), which is missing"):
        read(scores, ["ant", missing, "bee", "bee"])
