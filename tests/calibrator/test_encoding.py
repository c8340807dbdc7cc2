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


def data(scores, labels, weight=None, **options):
    return encode(rp.PosteriorCalibrator(PRIOR, **options), scores, labels, weight)


@pytest.fixture
def scores():
    return np.random.default_rng(0).standard_normal((4, 3))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_are_put_in_the_order_of_the_classes(scores, frame):
    shuffled = frame({name: scores[:, NAMES.index(name)] for name in ["cow", "ant", "bee"]})
    read = data(shuffled, ["ant", "cow", "bee", "bee"], classes=NAMES)
    np.testing.assert_array_equal(read.data.scores, scores)
    np.testing.assert_array_equal(read.data.labels, [0, 2, 1, 1])


def test_columns_name_the_classes_where_labels_are_names(scores):
    frame = pd.DataFrame(scores, columns=["cow", "ant", "bee"])
    read = data(frame, pd.Series(["ant", "cow", "bee", "bee"]))
    assert read.names == ["cow", "ant", "bee"]
    np.testing.assert_array_equal(read.data.labels, [1, 0, 2, 2])
    np.testing.assert_array_equal(read.data.scores, scores)


def test_columns_with_other_names_are_taken_as_they_stand(scores):
    frame = pd.DataFrame(scores, columns=["score_0", "score_1", "score_2"])
    read = data(frame, pl.Series([0, 2, 1, 1]), weight=pd.Series([1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_array_equal(read.data.scores, scores)
    np.testing.assert_array_equal(read.data.weight, [1, 2, 3, 4])
    assert read.names is None


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
    np.testing.assert_array_equal(data(frame, [0, 2, 1, 1]).data.scores, scores)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
@pytest.mark.parametrize("classes", [None, NAMES])
def test_missing_names_are_refused_in_a_sentence(scores, missing, classes):
    words = r"`labels` must name a class for every sample. Got labels\[2\]=.*missing. Drop such"
    with pytest.raises(rp.LabelsError, match=words):
        data(scores, pd.Series(["ant", "bee", missing, "cow"], dtype=object), classes=classes)


def test_the_remedy_for_missing_names_exists(scores):
    read = data(scores, ["ant", "bee", "unlabelled", "cow"], ignore_index="unlabelled")
    assert read.names == NAMES
    assert read.data.labels.tolist() == [0, 1, -1, 2]
    assert read.data.ignore_index == -1


def test_numbers_among_names_are_refused_in_a_sentence(scores):
    with pytest.raises(rp.LabelsError, match=r"all names or all class indices. Got labels\[3\]=7"):
        data(scores, pd.Series(["ant", "bee", "cow", 7]))


def test_names_are_sorted_where_nothing_orders_them(scores):
    read = data(scores, np.array(["cow", "ant", "bee", "ant"]))
    assert read.names == NAMES


@pytest.mark.parametrize("kind", [dict, pd.Series])
def test_a_prior_by_name_is_put_in_the_order_of_the_classes(scores, kind):
    prior = kind({"cow": 0.5, "ant": 0.3, "bee": 0.2})
    calibrator = rp.PosteriorCalibrator(
        prior, target_prior=kind({"cow": 0, "bee": 0.9, "ant": 0.1})
    )
    read = encode(calibrator, scores, ["ant", "cow", "bee", "ant"], None)
    assert read.names == NAMES
    np.testing.assert_array_equal(read.data.source_prior, [0.3, 0.2, 0.5])
    np.testing.assert_array_equal(read.data.target_prior, [0.1, 0.9, 0.0])
    np.testing.assert_array_equal(read.data.labels, [0, 2, 1, 0])
    columns = ["bee", "cow", "ant"]
    framed = encode(calibrator, pd.DataFrame(scores, columns=columns), ["ant"] * 4, None)
    assert framed.names == columns
    np.testing.assert_array_equal(framed.data.source_prior, [0.2, 0.5, 0.3])


def test_a_prior_without_names_stays_as_it_is():
    for prior in ([0.5, 0.5], (0.5, 0.5), np.array([0.5, 0.5]), "uniform", pl.Series([0.5, 0.5])):
        assert as_mapping(prior) is prior


@pytest.mark.parametrize("labels", [["ant", "bee", "cow", "ant"], np.array(["ant"] * 4)])
def test_names_go_with_tensors(scores, labels):
    read = data(torch.tensor(scores), labels, classes=NAMES)
    assert isinstance(read.data.labels, torch.Tensor)
    several = data(torch.tensor(scores), torch.tensor([10, 30, 20, 10]), classes=[10, 20, 30])
    assert several.data.labels.tolist() == [0, 2, 1, 0]


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
        data(scores, labels, **options)


def test_a_frame_with_text_in_it_is_refused():
    with pytest.raises(rp.ScoresError, match="Select the columns of scores"):
        score_array(pd.DataFrame({"a": [1.0], "b": ["x"]}), None)


def test_importance_makes_the_mix_of_the_labels_that_of_the_target():
    labels = np.array([0] * 6 + [1] * 3 + [2] * 1 + [9] * 2)
    scores = np.zeros((12, 3))
    target = np.array([0.2, 0.3, 0.5])
    read = data(scores, labels, ignore_index=9, target_prior=target).data
    weight = read.importance(None)[labels != 9]
    mix = np.bincount(labels[:10], weight) / weight.sum()
    np.testing.assert_allclose(mix, target)
    given = read.importance(np.array([0.6, 0.3, 0.1]))[:10]
    np.testing.assert_allclose(given / given.sum(), weight / weight.sum())


@pytest.mark.parametrize("missing", [float("nan"), None])
def test_what_is_missing_in_a_list_of_names_is_no_name(scores, missing):
    with pytest.raises(rp.LabelsError, match=r"labels\[1\]=(nan|None), which is missing"):
        data(scores, ["ant", missing, "bee", "bee"])
