from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk
from tests.metrics.shared import ROUNDING, predicted_samples

from reprior.exceptions import LabelsError, OptionError, RepriorError
from reprior.metrics import (
    COUNT_METRICS,
    METRIC_NAMES,
    ClassCounts,
    CountMetric,
    evaluate,
    find_metric,
)


def sklearn_macro(function):
    """Return the oracle: scikit-learn's macro average over the classes seen."""

    def oracle(labels, predictions, weight):
        seen = np.union1d(labels, predictions)
        return function(
            labels,
            predictions,
            labels=seen,
            average="macro",
            sample_weight=weight,
            zero_division=0,
        )

    return oracle


def sklearn_balanced(labels, predictions, weight):
    with warnings.catch_warnings():
        # scikit-learn says that some predicted classes have no labels: that is what we test.
        warnings.simplefilter("ignore")
        return sk.balanced_accuracy_score(labels, predictions, sample_weight=weight)


def sklearn_average(function, average, **options):
    """Return the oracle: an average of scikit-learn's."""

    def oracle(labels, predictions, weight):
        return function(
            labels,
            predictions,
            average=average,
            sample_weight=weight,
            zero_division=0,
            **options,
        )

    return oracle


def recalls(labels, predictions, weight):
    """Return the recalls of the classes that have labels."""
    present = np.unique(
        np.asarray(labels)[np.asarray(weight) > 0] if weight is not None else labels
    )
    return sk.recall_score(
        labels, predictions, labels=present, average=None, sample_weight=weight, zero_division=0
    )


def mean_of_recalls(mean):
    return lambda labels, predictions, weight: mean(recalls(labels, predictions, weight))


def geometric(values):
    return 0.0 if 0 in values else math.exp(np.mean(np.log(values)))


def harmonic(values):
    return 0.0 if 0 in values else 1 / np.mean(1 / values)


def sklearn_agreement(function):
    def oracle(labels, predictions, weight):
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            # scikit-learn warns of a single class, where the coefficient is not defined: 0 for us.
            warnings.simplefilter("ignore")
            return np.nan_to_num(function(labels, predictions, sample_weight=weight))

    return oracle


ORACLES = {
    "accuracy": lambda y, p, w: sk.accuracy_score(y, p, sample_weight=w),
    "balanced_accuracy": sklearn_balanced,
    "macro_recall": sklearn_balanced,
    "mean_accuracy": sklearn_balanced,
    "mean_iou": sklearn_macro(sk.jaccard_score),
    "macro_precision": sklearn_macro(sk.precision_score),
    "macro_f1": sklearn_macro(sk.f1_score),
    "macro_fbeta(2)": sklearn_average(sk.fbeta_score, "macro", beta=2),
    "weighted_fbeta(0.5)": sklearn_average(sk.fbeta_score, "weighted", beta=0.5),
    "mcc": sklearn_agreement(sk.matthews_corrcoef),
    "cohen_kappa": sklearn_agreement(sk.cohen_kappa_score),
    "gmean": mean_of_recalls(geometric),
    "hmean": mean_of_recalls(harmonic),
    "worst_recall": mean_of_recalls(min),
    "weighted_f1": sklearn_average(sk.f1_score, "weighted"),
    "weighted_precision": sklearn_average(sk.precision_score, "weighted"),
    "weighted_iou": sklearn_average(sk.jaccard_score, "weighted"),
    "matthews_corrcoef": sklearn_agreement(sk.matthews_corrcoef),
    **{
        f"{name}_{average}": sklearn_average(function, average)
        for name, function in {
            "f1": sk.f1_score,
            "precision": sk.precision_score,
            "recall": sk.recall_score,
            "jaccard": sk.jaccard_score,
        }.items()
        for average in ("macro", "weighted", "micro")
    },
}


def specificity(true, predicted, *, labels, sample_weight, **_):
    """Return the recall of all classes but one."""
    others = (np.asarray(each) != labels[0] for each in (true, predicted))
    return sk.recall_score(*others, sample_weight=sample_weight, zero_division=0)


ONE_CLASS = {
    "recall": sk.recall_score,
    "precision": sk.precision_score,
    "iou": sk.jaccard_score,
    "f1": sk.f1_score,
    "fbeta(2)": lambda y, p, **options: sk.fbeta_score(y, p, beta=2, **options),
    "specificity": specificity,
}


def count(samples) -> ClassCounts:
    n_classes, labels, predictions, weight = samples
    return ClassCounts.from_predictions(
        labels, predictions, n_classes=n_classes, sample_weight=weight
    )


def value(name: str, counts: ClassCounts) -> float:
    return find_metric(name, n_classes=counts.n_classes)(counts)


# ------------------------------------------------------------------------------------ oracles


def test_every_metric_has_an_oracle():
    assert {*ORACLES, "informedness"} >= set(METRIC_NAMES)


@given(samples=predicted_samples())
def test_informedness_rescales_balanced_accuracy(samples):
    n_classes = samples[0]
    expected = (n_classes * sklearn_balanced(*samples[1:]) - 1) / (n_classes - 1)
    assert value("informedness", count(samples)) == pytest.approx(expected, abs=ROUNDING)


@pytest.mark.parametrize("name", ORACLES)
@given(samples=predicted_samples())
def test_equals_scikit_learn(name, samples):
    assert value(name, count(samples)) == pytest.approx(ORACLES[name](*samples[1:]), rel=ROUNDING)


@pytest.mark.parametrize("name", ONE_CLASS)
@given(samples=predicted_samples(), k=st.integers(0, 6))
def test_one_class_equals_scikit_learn(name, samples, k):
    k %= samples[0]
    expected = ONE_CLASS[name](
        samples[1],
        samples[2],
        labels=[k],
        average="macro",
        sample_weight=samples[3],
        zero_division=0,
    )
    assert value(f"{name}[{k}]", count(samples)) == pytest.approx(expected, rel=ROUNDING)


def test_a_metric_of_ones_own_equals_scikit_learn():
    f2 = CountMetric("macro_f2", gain=5, support=4, predicted=1)
    rng = np.random.default_rng(0)
    labels, predictions = rng.integers(3, size=(2, 50))
    expected = sk.fbeta_score(labels, predictions, beta=2, average="macro")
    assert f2(count((3, labels, predictions, None))) == pytest.approx(expected, rel=ROUNDING)


# --------------------------------------------------------------------------------- identities


@pytest.mark.parametrize("name", COUNT_METRICS)
@given(samples=predicted_samples(), random=st.randoms(use_true_random=False))
def test_permuting_classes_changes_nothing(name, samples, random):
    n_classes, labels, predictions, weight = samples
    order = np.array(random.sample(range(n_classes), n_classes))
    moved = (n_classes, order[labels], order[predictions], weight)
    assert value(name, count(moved)) == pytest.approx(value(name, count(samples)), rel=ROUNDING)


@pytest.mark.parametrize("name", COUNT_METRICS)
@given(samples=predicted_samples())
def test_value_is_between_0_and_1(name, samples):
    assert 0.0 <= value(name, count(samples)) <= 1.0


@pytest.mark.parametrize("name", COUNT_METRICS)
@given(samples=predicted_samples())
def test_right_predictions_score_1(name, samples):
    n_classes, labels, _, weight = samples
    assert value(name, count((n_classes, labels, labels, weight))) == pytest.approx(1.0)


@pytest.mark.parametrize("name", [name for name in COUNT_METRICS if name != "accuracy"])
@given(samples=predicted_samples())
def test_value_is_the_mean_of_per_class(name, samples):
    counts = count(samples)
    per_class = COUNT_METRICS[name].per_class(counts)
    assert value(name, counts) == pytest.approx(np.nanmean(per_class), rel=ROUNDING)


# ------------------------------------------------------ conventions: classes that are not there


ABSENT = ClassCounts.from_predictions([0, 0, 1, 1], [0, 2, 1, 1], n_classes=4)
"""Class 2 is predicted but has no labels; class 3 is neither labelled nor predicted."""


@pytest.mark.parametrize(
    "name, per_class",
    [
        ("balanced_accuracy", [0.5, 1.0, math.nan, math.nan]),
        ("macro_recall", [0.5, 1.0, math.nan, math.nan]),
        ("accuracy", [0.5, 1.0, math.nan, math.nan]),
        ("mean_iou", [0.5, 1.0, 0.0, math.nan]),
        ("macro_precision", [1.0, 1.0, 0.0, math.nan]),
        ("macro_f1", [2 / 3, 1.0, 0.0, math.nan]),
    ],
)
def test_absent_classes(name, per_class):
    np.testing.assert_allclose(COUNT_METRICS[name].per_class(ABSENT), per_class, rtol=ROUNDING)
    assert value(name, ABSENT) == pytest.approx(np.nanmean(per_class), rel=ROUNDING)


def test_a_ghost_of_a_class_is_left_out():
    zero = np.array([0, 1])
    ghost = ClassCounts(
        np.array([0.0, 2.0]), np.array([1e-17, 2.0]), np.array([1e-17, 2.0]), zero, zero
    )
    assert value("mean_iou", ghost) == value("balanced_accuracy", ghost) == 1.0


@pytest.mark.parametrize("name", COUNT_METRICS)
def test_no_samples_have_no_value(name):
    nothing = np.zeros(3, dtype=int)
    assert math.isnan(value(name, ClassCounts(nothing, nothing, nothing)))


# --------------------------------------------------------------------------------------- names


def test_alias():
    assert find_metric("mean_accuracy", n_classes=2) is COUNT_METRICS["balanced_accuracy"]


def test_a_metric_is_found_as_it_is():
    metric = CountMetric("mine", predicted=1)
    assert find_metric(metric, n_classes=2) is metric


@pytest.mark.parametrize(
    "name, classes, k",
    [
        ("recall[1]", None, 1),
        ("iou[ 1 ]", None, 1),
        ("f1[dog]", ["cat", "dog"], 1),
        ("precision[3]", [7, 3], 1),
        ("recall[a b]", ["a b", "c"], 0),
    ],
)
def test_one_class_by_index_or_name(name, classes, k):
    metric = find_metric(name, n_classes=2, classes=classes)
    assert (metric.of_class, metric.name, metric.average) == (k, name, "one")


# --------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    "metric, classes, error, sentence",
    [
        ("acuracy", None, OptionError, r"Got 'acuracy'\. Did you mean 'accuracy'\?"),
        ("mIoU", None, OptionError, r"`metric` must be one of 'accuracy', .* Got 'mIoU'\."),
        ("Mean_IoU", None, OptionError, r"Did you mean 'mean_iou'\?"),
        (None, None, OptionError, r"`metric` must be one metric: .* Got None\."),
        (
            "roc_auc",
            None,
            OptionError,
            r"decided by hard labels\. Got 'roc_auc', which ranks samples .* no prediction to "
            r"count\. Pass one of 'accuracy'",
        ),
        ("logloss", None, OptionError, r"Got 'logloss', a metric of .*metric='log_loss' to a Post"),
        ("nll", None, OptionError, r"Pass metric='log_loss' to a PosteriorCalibrator"),
        ("brier", None, OptionError, r"Got 'brier', a metric of probabilities"),
        ("ece", None, OptionError, r"Got 'ece', a metric of probabilities"),
        ("mIoU", None, OptionError, r"such as 'recall\[2\]'\. .* also takes metric='log_loss'"),
        ("recall", None, OptionError, r"Name the class, as in 'recall\[2\]'"),
        ("AUC", None, OptionError, r"decided by hard labels\. Got 'AUC'"),
        ("AUROC", None, OptionError, r"decided by hard labels\. Got 'AUROC'"),
        ("roc_auc_ovr_weighted", None, OptionError, r"decided by hard labels\."),
        ("average_precision", None, OptionError, r"decided by hard labels\."),
        ("recal[1]", None, OptionError, r"Got 'recal'\. Did you mean 'recall'\?"),
        (
            "recall[unknown]",
            None,
            LabelsError,
            r"must name a class that exists, 0 to 2\. Got 'unknown'\. Write the class as it is "
            r"in `classes`, or its index where there are no names\.",
        ),
        ("recall[3]", None, LabelsError, r"exists, 0 to 2\. Got '3'\."),
        ("recall[-1]", None, LabelsError, r"exists, 0 to 2\. Got '-1'\."),
        (
            "recall[cow]",
            ["cat", "dog", "rat"],
            LabelsError,
            r"exists, one of 'cat', 'dog', 'rat'\. Got 'cow'\. Write the class as it is in",
        ),
        (
            CountMetric("mine", support=1, average="one", of_class=3),
            ["cat", "dog", "rat"],
            LabelsError,
            r"exists, 0 to 2\. Got '3'\.",
        ),
    ],
)
def test_bad_metric_is_refused(metric, classes, error, sentence):
    with pytest.raises(error, match=sentence) as caught:
        find_metric(metric, n_classes=3, classes=classes)
    assert isinstance(caught.value, RepriorError)


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"average": "labeled"}, r"`average` must be one of .* Did you mean 'labelled'\?"),
        ({"average": "one"}, r"Got average='one' and of_class=None\. Pass both or neither\."),
        ({"of_class": 1}, r"Got average='seen' and of_class=1\. Pass both or neither\."),
    ],
)
def test_a_metric_that_cannot_be_is_refused(options, sentence):
    with pytest.raises(OptionError, match=sentence):
        CountMetric("mine", support=1, **options)


def test_evaluate_counts_and_scores_in_one_call():
    labels, predictions = [0, 0, 2, 255], [0, 1, 2, 0]
    assert evaluate("accuracy", labels, predictions, ignore_index=255) == pytest.approx(2 / 3)
    assert evaluate("balanced_accuracy", labels, predictions, ignore_index=255) == 0.75
    assert evaluate("recall[0]", [0, 0], [0, 1], n_classes=4) == 0.5
    assert evaluate("accuracy", [0, 1], [0, 0], sample_weight=[3.0, 1.0]) == 0.75


@pytest.mark.parametrize(
    "form",
    [
        {"gain": 0, "support": 1},
        {"gain": -1, "support": 1},
        {"support": -1, "predicted": 2},
        {"support": 1, "predicted": -1},
        {"support": 1, "true_positive": -1},
        {},
    ],
)
def test_a_ratio_that_has_no_bound_is_refused(form):
    with pytest.raises(OptionError, match="positive sum of support"):
        CountMetric("odd", **form)


def test_log_loss_is_answered_with_what_to_do():
    with pytest.raises(OptionError, match=r"metric of probabilities.*temperature='fit'"):
        find_metric("log_loss", n_classes=3)


@pytest.mark.parametrize("values", [["a", "b"], [0.5, 1.0]])
def test_evaluate_of_names_or_floats_says_what_is_wrong(values):
    with pytest.raises(LabelsError, match="must be integers"):
        evaluate("accuracy", values, [0, 1])
    with pytest.raises(LabelsError, match="`predictions` must be integers"):
        evaluate("accuracy", [0, 1], values)


@pytest.mark.parametrize("beta", ["1e200", "1e7", "0", "-1", "inf", "nan", "two", ""])
def test_a_beta_that_weighs_nothing_is_refused(beta):
    with pytest.raises(OptionError, match="above 0 and at most 1e\\+06"):
        find_metric(f"macro_fbeta({beta})", n_classes=3)


@pytest.mark.timeout(30)  # two repeats that share the spaces took hours
@pytest.mark.parametrize(
    "metric",
    ["recall[" + " " * 50_000 + "x", "fbeta(" + " " * 50_000 + "x", "a" + " " * 50_000 + "x"],
)
def test_a_name_of_many_spaces_is_refused_at_once(metric):
    with pytest.raises(OptionError, match="`metric` must be one of"):
        find_metric(metric, n_classes=3)


def test_spaces_inside_of_a_name_do_not_matter():
    spaced = find_metric(" fbeta ( 2 ) [ cat ]".strip(), n_classes=2, classes=["dog", "cat"])
    assert (spaced.of_class, spaced.predicted) == (
        1,
        find_metric("fbeta(2)[cat]", n_classes=2, classes=["dog", "cat"]).predicted,
    )


def test_an_index_of_very_many_digits_is_no_class():
    with pytest.raises(LabelsError, match="must name a class that exists, 0 to 2"):
        find_metric(f"recall[{'9' * 5_000}]", n_classes=3)
