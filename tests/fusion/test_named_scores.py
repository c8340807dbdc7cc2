"""{name: scores}: names, shapes and views."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reprior.exceptions import ScoresError
from reprior.fusion.named_scores import images_axis, named_scores, read_inputs

Z = np.zeros((5, 3, 2, 4))


def read(scores, **options):
    options = {"n_classes": 3, "kind": "logits", "class_axis": 1, "passes": False, **options}
    return read_inputs(scores, **options)


def test_modalities_come_in_the_order_of_the_fit():
    given = {"depth": 1, "rgb": 2}
    assert list(named_scores(given)) == ["depth", "rgb"]
    assert list(named_scores(given, ("rgb", "depth"))) == ["rgb", "depth"]


def test_what_is_missing_is_left_out_only_where_that_is_allowed():
    for given in ({"rgb": 1}, {"rgb": 1, "depth": None}):
        assert named_scores(given, ("rgb", "depth"), missing="leave_out") == {"rgb": 1}
        with pytest.raises(ScoresError, match="Got none for 'depth'"):
            named_scores(given, ("rgb", "depth"))
    for given in ({}, {"rgb": None}):
        with pytest.raises(ScoresError, match="at least one modality"):
            named_scores(given, ("rgb", "depth"), missing="leave_out")
    with pytest.raises(ScoresError, match=r"were fitted, 'rgb'. Got 'lidar'"):
        named_scores({"rgb": 1, "lidar": None}, ("rgb",), missing="leave_out")


@pytest.mark.parametrize(
    "axis, shape", [(1, (5, 3, 2, 4)), (0, (3, 5, 2, 4)), (-1, (5, 2, 4, 3)), (2, (5, 2, 3, 4))]
)
def test_views_have_images_and_classes_first(axis, shape):
    z = np.arange(120.0).reshape(shape)
    inputs = read({"a": z}, class_axis=axis)
    (view,) = inputs.images_first()
    assert view.shape == (5, 3, 2, 4)
    assert np.shares_memory(view, z)
    assert inputs.labels_shape == (5, 2, 4)
    np.testing.assert_array_equal(inputs.as_given(view), z)
    np.testing.assert_array_equal(inputs.view(z), view)
    assert images_axis(inputs.axis) == (1 if axis == 0 else 0)


def test_passes_come_first():
    inputs = read({"a": np.zeros((7, 5, 3, 2)), "b": np.zeros((2, 5, 3, 2))}, passes=True)
    assert [z.shape for z in inputs.images_first()] == [(7, 5, 3, 2), (2, 5, 3, 2)]
    assert (inputs.shape, inputs.labels_shape) == ((5, 3, 2), (5, 2))
    last = read({"a": np.zeros((7, 5, 2, 3))}, passes=True, class_axis=-1)
    assert last.images_first()[0].shape == (7, 5, 3, 2)


@pytest.mark.parametrize("shape", [(6,), (6, 1)])
def test_single_scores_become_two_columns(shape):
    inputs = read({"a": np.arange(6.0).reshape(shape)}, n_classes=2, class_axis=-1)
    assert inputs.single
    assert inputs.columns_shape == (6, 2)
    assert inputs.labels_shape == (6,)
    np.testing.assert_array_equal(inputs.arrays["a"][:, 1], np.arange(6.0))


def test_the_dtype_of_the_result():
    half, single = Z.astype(np.float16), Z.astype(np.float32)
    assert read({"a": half, "b": half}).dtype == np.float16
    assert read({"a": half, "b": single}).dtype == np.float32
    assert read({"a": Z.astype(int)}).dtype == np.float64
    assert read({"a": torch.tensor(half)}).dtype == np.float16


def test_probabilities_called_logits_are_noticed():
    p = np.full((4, 3), 1 / 3)
    assert read({"a": p}, class_axis=-1).look_like_probabilities()
    assert read({"a": p + 1, "b": p}, class_axis=-1).look_like_probabilities()
    assert not read({"a": p + 1}, class_axis=-1).look_like_probabilities()
    later = np.concatenate([p, p + 1])
    assert not read({"a": later}, class_axis=-1).look_like_probabilities()
    assert not read({"a": p}, class_axis=-1, kind="probs").look_like_probabilities()
