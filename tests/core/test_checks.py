from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reprior import LabelsError, OptionError, RepriorError, ScoresError
from reprior.core import checks
from reprior.exceptions import Argument


def test_good_arguments_pass():
    checks.check_kind("probs")
    assert checks.check_finite_number("strength", np.float32(0.5)) == 0.5
    assert checks.check_bounds((0, 2)) == (0.0, 2.0)
    assert checks.check_bounds(np.array([-1.0, 1.0])) == (-1.0, 1.0)
    assert checks.check_class_axis((4, 3), -1) == 1
    assert checks.check_class_axis((4, 3), np.int64(0)) == 0
    checks.check_labels(np.array([0, 1, 2]), n_classes=3, shape=(3,))
    checks.check_labels(torch.tensor([[0, 1]]), n_classes=2, shape=(1, 2))
    checks.check_labels([0, 255, 1], n_classes=2, shape=(3,), ignore_index=255)
    checks.check_labels(np.array([True, False]), n_classes=2, shape=(2,))
    checks.check_sample_weight([0, 1, 2.5], (3,))


@given(st.data())
def test_labels_of_any_width_and_sign(data):
    dtype = data.draw(st.sampled_from(["i1", "i2", "i8", ">i4", "u1", "u8"]))
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    any_label = st.integers(low, high) | st.integers(max(low, -3), min(high, 300))
    values = data.draw(st.lists(any_label, min_size=1, max_size=5))
    n_classes = data.draw(st.integers(2, 300))
    labels = np.array(values, dtype)
    bad = [i for i, value in enumerate(values) if not 0 <= value < n_classes]
    if not bad:
        checks.check_labels(labels, n_classes=n_classes, shape=labels.shape)
        return
    with pytest.raises(LabelsError, match=rf"labels\[{bad[0]}\]={values[bad[0]]}\."):
        checks.check_labels(labels, n_classes=n_classes, shape=labels.shape)


def labels(values, n_classes=3, **options):
    values = np.asarray(values)
    return lambda: checks.check_labels(
        values, **{"n_classes": n_classes, "shape": values.shape, **options}
    )


WORDS = {
    "nearest name": (
        lambda: checks.check_kind("logit"),
        OptionError,
        "`kind` must be one of 'logits', 'probs', 'log_probs'. Got 'logit'. Did you mean 'logits'?",
    ),
    "capitals": (lambda: checks.check_kind("Probs"), OptionError, "Did you mean 'probs'?"),
    "far name": (
        lambda: checks.check_kind("banana"),
        OptionError,
        "`kind` must be one of 'logits', 'probs', 'log_probs'. Got 'banana'.",
    ),
    "no name": (lambda: checks.check_kind(3), OptionError, "Got 3."),
    "own error and hint": (
        lambda: checks.check_choice("a", "b", ["c"], error=ScoresError, hint="See d."),
        ScoresError,
        "`a` must be 'c'. Got 'b'. See d.",
    ),
    "NaN": (
        lambda: checks.check_finite_number("strength", np.nan),
        OptionError,
        "`strength` must be a finite number. Got nan.",
    ),
    "text number": (
        lambda: checks.check_finite_number("strength", "1"),
        OptionError,
        "`strength` must be a finite number. Got '1'.",
    ),
    "boolean number": (
        lambda: checks.check_finite_number("temperature", True, positive=True, hint="Or None."),
        OptionError,
        "`temperature` must be a finite number above 0. Got True. Or None.",
    ),
    "boolean scalar": (
        lambda: checks.check_finite_number("strength", np.bool_(False)),
        OptionError,
        "`strength` must be a finite number. Got",
    ),
    "labels floating tensor": (
        lambda: checks.check_labels(torch.tensor([0.0, 1.0]), n_classes=2, shape=(2,)),
        LabelsError,
        "Cast them, after checking for NaN: labels.astype(int), or labels.long() in PyTorch.",
    ),
    "no number": (
        lambda: checks.check_finite_number("strength", None),
        OptionError,
        "`strength` must be a finite number. Got None.",
    ),
    "not positive": (
        lambda: checks.check_finite_number("temperature", 0, positive=True),
        OptionError,
        "`temperature` must be a finite number above 0. Got 0.",
    ),
    "below minimum": (
        lambda: checks.check_finite_number("smoothing", -1, minimum=0.0),
        OptionError,
        "`smoothing` must be a finite number of at least 0. Got -1.",
    ),
    "bounds reversed": (
        lambda: checks.check_bounds((2.0, 0.0)),
        OptionError,
        "Got (2, 0): bounds reversed. Pass bounds=(0, 2).",
    ),
    "bounds empty": (lambda: checks.check_bounds((1, 1)), OptionError, "an empty range"),
    "bounds no pair": (
        lambda: checks.check_bounds((1, 2, 3)),
        OptionError,
        "`bounds` must be two numbers (low, high). Got (1, 2, 3). Pass for example",
    ),
    "bounds no sequence": (lambda: checks.check_bounds(2.0), OptionError, "must be two numbers"),
    "bounds text": (lambda: checks.check_bounds("02"), OptionError, "must be two numbers"),
    "bounds infinite": (
        lambda: checks.check_bounds((0, np.inf)),
        OptionError,
        "`bounds[1]` must be a finite number. Got inf.",
    ),
    "axis outside": (
        lambda: checks.check_class_axis((4, 3), 2),
        OptionError,
        "`class_axis` must be an axis of the scores. Got 2 for scores of shape (4, 3). "
        "Pass an integer from -2 to 1.",
    ),
    "axis no integer": (lambda: checks.check_class_axis((4, 3), 1.0), OptionError, "Got 1.0"),
    "axis boolean": (lambda: checks.check_class_axis((4, 3), True), OptionError, "Got True"),
    "label too high": (
        labels([0, 2, 3]),
        LabelsError,
        "`labels` must be class indices from 0 to 2. Got labels[2]=3. Map the labels to 0…2, "
        "or pass ignore_index=3",
    ),
    "label negative": (labels([[0, 1], [-1, 2]]), LabelsError, "Got labels[1, 0]=-1"),
    "label beside ignored": (
        labels([255, 7], ignore_index=255),
        LabelsError,
        "Got labels[1]=7",
    ),
    "labels float": (
        labels([0.0, 1.0]),
        LabelsError,
        "`labels` must be integers (class indices). Got dtype float64. Cast them",
    ),
    "labels names": (labels(["cat", "dog"]), LabelsError, "Replace class names by their indices"),
    "labels boolean": (labels([True, False]), LabelsError, "Booleans name two classes only"),
    "labels shape": (
        labels([0, 1], shape=(3,)),
        LabelsError,
        "`labels` must have one entry per sample. Got shape (2,) for samples of shape (3,).",
    ),
    "labels empty": (labels(np.empty(0, int)), LabelsError, "`labels` must not be empty"),
    "weights shape": (
        lambda: checks.check_sample_weight([1.0], (2,)),
        LabelsError,
        "`sample_weight` must have one entry per sample. Got shape (1,)",
    ),
    "weights negative": (
        lambda: checks.check_sample_weight([1.0, -2.0], (2,)),
        LabelsError,
        "`sample_weight` must be finite and not negative. Got sample_weight[1]=-2.",
    ),
    "weights NaN": (
        lambda: checks.check_sample_weight([np.nan, 1], (2,)),
        LabelsError,
        "Got sample_weight[0]=nan.",
    ),
    "weights zero": (
        lambda: checks.check_sample_weight([0, 0], (2,)),
        LabelsError,
        "must be positive for at least one sample. Got zeros only.",
    ),
    "weights whose sum overflows": (
        lambda: checks.check_sample_weight(np.full(3, 1e308), (3,)),
        LabelsError,
        "`sample_weight` must sum to at most 1e+150: larger sums overflow. Got a sum of inf. "
        "Divide all weights by the largest.",
    ),
    "weights whose squares overflow": (
        lambda: checks.check_sample_weight([1.0, 2e150], (2,)),
        LabelsError,
        "Got a sum of 2e+150.",
    ),
    "labels missing": (
        labels([0.0, np.nan, 1.0]),
        LabelsError,
        "`labels` must be integers (class indices). Got labels[1]=nan. Drop the samples without "
        "a label, from the scores too.",
    ),
    "labels missing in a table": (
        labels(np.array([0, 1, None], object)),
        LabelsError,
        "Got labels[2]=None. Drop the samples",
    ),
    "labels missing in a table of pandas": (
        labels(np.array([0, pd.NA, 1], object)),
        LabelsError,
        "Got labels[1]=<NA>. Drop the samples",
    ),
    "labels from 1": (
        labels([1, 3, 2, 3]),
        LabelsError,
        "`labels` must be class indices from 0 to 2. Got labels[1]=3. They are from 1 to 3: if "
        "they count from 1, subtract 1. Map the labels to 0…2, or pass ignore_index=3",
    ),
    "labels from 1 beside ignored": (
        labels([0, 1, 3, 0], ignore_index=0),
        LabelsError,
        "if they count from 1, subtract 1 from all that are not ignored. Map the labels",
    ),
    "weights names": (
        lambda: checks.check_sample_weight(["a", "b"], (2,)),
        LabelsError,
        "`sample_weight` must be numbers.",
    ),
}


def test_weights_of_half_precision_may_be_many():
    checks.check_sample_weight(np.ones(100_000, np.float16), (100_000,))


@pytest.mark.parametrize("case", WORDS)
def test_error_sentences(case):
    call, error, words = WORDS[case]
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)
    assert isinstance(caught.value, RepriorError)


def test_the_first_index_is_that_of_the_first_true():
    mask = np.zeros((2, 3), dtype=bool)
    mask[1, 2] = True
    assert checks.first_index(mask) == (1, 2)


def test_parts_of_an_argument_are_named_as_python_indexes_them():
    with pytest.raises(OptionError, match=r"^`bounds\[1\]` must be a finite number\. Got 'a'\."):
        checks.check_bounds((0.0, "a"), name=Argument("bounds"))
    with pytest.raises(LabelsError, match=r"^`y\['a'\]` must be .* Got y\['a'\]\[1\]=2000000\."):
        checks.check_labels([0, 2_000_000], n_classes=2, shape=(2,), name=Argument("y", ("'a'",)))


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, bool])
def test_integers_within_the_classes(dtype):
    assert checks.within_classes(np.array([], dtype), 2)
    assert checks.within_classes(np.array([0, 1, 1], dtype), 2)
    assert not checks.within_classes(np.array([0, 1], dtype), 1)
    if np.dtype(dtype).kind == "i":
        assert not checks.within_classes(np.array([1, -1], dtype), 2)
        assert not checks.within_classes(np.array([1, -1], dtype), 300)
