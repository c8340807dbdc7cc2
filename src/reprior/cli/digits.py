"""The demo's data and model: digits made long-tailed, and a classifier that learns from them.

scikit-learn's handwritten digits come with about 180 images of each digit. The training set keeps
100 images of digit 0, fewer of each digit after it, and 2 of digit 9. A logistic regression learns
from it, and then hardly ever says "9".
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior.calibrator import PosteriorCalibrator
from reprior.core.prior import prior_from_counts
from reprior.exceptions import require
from reprior.metrics.count_metrics import COUNT_METRICS
from reprior.metrics.counts import ClassCounts
from reprior.metrics.groups import group_metric, shot_groups

__all__ = ["CONSTRAINT", "GROUPS", "Part", "Scored", "compare", "long_tailed_digits", "train"]

Vector: TypeAlias = np.ndarray[Any, Any]
Column: TypeAlias = dict[str, float]

N_CLASSES = 10
LARGEST, RATIO = 100, 50  # images of digit 0 in training; how many times fewer of digit 9
TUNING, TEST = 24, 50  # images of each digit
GROUPS = (10, 40)  # fewer than the first: few; more than the second: many

CONSTRAINT = "accuracy >= baseline - 0.01"


class Part(NamedTuple):
    """Some of the images, (N, 64), and the digits they show, (N,)."""

    images: Vector
    labels: Vector


class Scored(NamedTuple):
    """What is left of the model: training counts, (K,), and scores and labels of two parts."""

    train_counts: Vector
    tuning_scores: Vector
    tuning_labels: Vector
    test_scores: Vector
    test_labels: Vector


def long_tailed_digits(seed: int = 0) -> tuple[Part, Part, Part]:
    """Split the digits into long-tailed training, balanced tuning and balanced test images.

    Examples
    --------
    >>> training, tuning, test = long_tailed_digits()
    >>> training.labels.size, tuning.labels.size, test.labels.size
    (280, 240, 500)
    """
    datasets = require("sklearn.datasets", extra="sklearn", purpose="For the demo")
    images, labels = datasets.load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    tail = np.rint(LARGEST * RATIO ** (-np.arange(N_CLASSES) / (N_CLASSES - 1))).astype(int)
    training, tuning, test = [], [], []
    for digit, n_training in enumerate(tail):
        order = rng.permutation(np.flatnonzero(labels == digit))
        training.append(order[:n_training])
        tuning.append(order[LARGEST : LARGEST + TUNING])
        test.append(order[LARGEST + TUNING : LARGEST + TUNING + TEST])
    parts = map(np.concatenate, (training, tuning, test))
    first, second, third = (Part(images[index] / 16, labels[index]) for index in parts)
    return first, second, third


def train(seed: int = 0) -> Scored:
    """Train a logistic regression and score the tuning and the test images.

    Examples
    --------
    >>> train().train_counts
    array([100,  65,  42,  27,  18,  11,   7,   5,   3,   2])
    """
    linear = require("sklearn.linear_model", extra="sklearn", purpose="For the demo")
    training, tuning, test = long_tailed_digits(seed)
    model = linear.LogisticRegression(max_iter=1000).fit(training.images, training.labels)
    return Scored(
        np.bincount(training.labels),
        model.decision_function(tuning.images),
        tuning.labels,
        model.decision_function(test.images),
        test.labels,
    )


def compare(seed: int = 0) -> dict[str, Column]:
    """Return the table of the README: the model, corrected, and corrected for most nines.

    Examples
    --------
    >>> table = compare()
    >>> {name: round(column["balanced accuracy"], 2) for name, column in table.items()}
    {'before': 0.76, 'after': 0.88, 'most 9s': 0.9}
    """
    scored = train(seed)
    source_prior = prior_from_counts(scored.train_counts)
    tuned = PosteriorCalibrator(source_prior, metric="balanced_accuracy")
    tuned.fit(scored.tuning_scores, scored.tuning_labels)

    # With these weights the balanced tuning images stand for the training mix, so that the
    # constraint is about accuracy there. One weight per class changes no class's recall.
    most_nines = PosteriorCalibrator(source_prior, metric="recall[9]", subject_to=CONSTRAINT)
    most_nines.fit(
        scored.tuning_scores,
        scored.tuning_labels,
        sample_weight=source_prior[scored.tuning_labels],
    )
    decisions = {
        "before": scored.test_scores.argmax(axis=1),
        "after": tuned.predict(scored.test_scores),
        "most 9s": most_nines.predict(scored.test_scores),
    }
    return {name: _judge(scored, made) for name, made in decisions.items()}


def _judge(scored: Scored, predictions: Vector) -> Column:
    """Return a column of the table, from labels and predictions alone."""
    labels, train_counts = scored.test_labels, scored.train_counts
    counts = ClassCounts.from_predictions(labels, predictions, n_classes=N_CLASSES)
    recall = COUNT_METRICS["macro_recall"].per_class(counts)
    mean = group_metric(counts, shot_groups(train_counts, thresholds=GROUPS), "macro_recall")
    mix = train_counts[labels] / train_counts.sum()
    return {
        "balanced accuracy": COUNT_METRICS["balanced_accuracy"](counts),
        "macro F1": COUNT_METRICS["macro_f1"](counts),
        "mean IoU": COUNT_METRICS["mean_iou"](counts),
        "recall: digits with > 40 training images": mean["many"],
        "        digits with 10 to 40": mean["medium"],
        "        digits with < 10": mean["few"],
        "        digit 9, with 2": float(recall[9]),
        "        worst digit": float(recall.min()),
        "accuracy, digits as often as in training": float(
            np.average(predictions == labels, weights=mix)
        ),
    }
