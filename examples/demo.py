"""The main job on real data: a classifier trained on long-tailed digits, before and after.

scikit-learn's handwritten digits come with about 180 images of each digit. Here the training set
keeps 100 images of digit 0, fewer of each digit after it, and 2 of digit 9. A logistic regression
learns from it, and then hardly ever says "9". Its prior is re-set on validation scores, without
retraining, and the result is judged on images that neither training nor tuning has seen.

Run it with ``make demo``, or ``python examples/demo.py --seed 1`` for another split.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple, TypeAlias

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import reprior as rp

N_CLASSES = 10
LARGEST, RATIO = 100, 50  # images of digit 0 in training; how many times fewer of digit 9
TUNING, TEST = 24, 50  # images of each digit

CONSTRAINT = "accuracy >= baseline - 0.01"
EVERY_SECOND_A_NINE = np.array([1 / 18] * 9 + [1 / 2])

Column: TypeAlias = dict[str, float]


class Part(NamedTuple):
    """Some of the images, (N, 64), and the digits they show, (N,)."""

    images: np.ndarray
    labels: np.ndarray


def long_tailed_digits(seed: int) -> tuple[Part, Part, Part]:
    """Split the digits into long-tailed training, balanced tuning and balanced test images."""
    images, labels = load_digits(return_X_y=True)
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


def judge(labels: np.ndarray, predictions: np.ndarray, train_counts: np.ndarray) -> Column:
    """Return a column of the table, from labels and predictions alone."""
    counts = rp.ClassCounts.from_predictions(labels, predictions, n_classes=N_CLASSES)
    metrics = rp.metrics.COUNT_METRICS
    groups = rp.metrics.shot_groups(train_counts, thresholds=(10, 40))
    recall = metrics["macro_recall"].per_class(counts)
    mean_recall = rp.metrics.group_metric(counts, groups, "macro_recall")
    return {
        "balanced accuracy": metrics["balanced_accuracy"](counts),
        "macro F1": metrics["macro_f1"](counts),
        "mean IoU": metrics["mean_iou"](counts),
        "recall: digits with > 40 training images": mean_recall["many"],
        "        digits with 10 to 40": mean_recall["medium"],
        "        digits with < 10": mean_recall["few"],
        "        digit 9, with 2": recall[9],
        "        worst digit": recall.min(),
        "accuracy, digits as often as in training": accuracy(
            labels, predictions, mix=train_counts / train_counts.sum()
        ),
    }


def accuracy(labels: np.ndarray, predictions: np.ndarray, mix: np.ndarray) -> float:
    """Return the accuracy on balanced images, weighted so that digits are as frequent as in mix."""
    return float(np.average(predictions == labels, weights=mix[labels]))


def print_setting(training: Part, tuning: Part, test: Part) -> None:
    """Say which images do what."""
    print("Digits, made long-tailed. Training images per digit:", *np.bincount(training.labels))
    for name, part, role in (
        ("training", training, "a logistic regression learns from these"),
        ("tuning", tuning, f"{TUNING} of each digit: the strength is chosen here"),
        ("test", test, f"{TEST} of each digit: the result is judged here"),
    ):
        print(f"  {name:<10}{part.labels.size} images   {role}")


def print_table(columns: dict[str, Column]) -> None:
    """Print a line per metric and a column per way to decide."""
    print(f"{'on the test images':<43}" + "".join(f"{name:>10}" for name in columns))
    for row in columns["before"]:
        print(f"{row:<43}" + "".join(f"{values[row]:>10.3f}" for values in columns.values()))


def print_strengths(tuned: rp.PosteriorCalibrator, most_nines: rp.PosteriorCalibrator) -> None:
    """Say what was tuned, and how."""
    low, high = tuned.strength_interval_
    print(f"after    strength {tuned.strength_:.3f}, tuned for balanced accuracy: no other does")
    print(f"         better on the tuning images, all in [{low:.3f}, {high:.3f}) do as well")
    print(f"most 9s  strength {most_nines.strength_:.3f}, tuned for recall of digit 9 subject to")
    print(f"         {CONSTRAINT}, digits weighted as in training")


def main(seed: int = 0) -> dict[str, Column]:
    """Train, tune, judge and print; return the table."""
    training, tuning, test = long_tailed_digits(seed)
    print_setting(training, tuning, test)
    model = LogisticRegression(max_iter=1000).fit(training.images, training.labels)
    tuning_scores = model.decision_function(tuning.images)
    test_scores = model.decision_function(test.images)

    train_counts = np.bincount(training.labels)
    source_prior = rp.prior_from_counts(train_counts)
    tuned = rp.PosteriorCalibrator(source_prior, metric="balanced_accuracy")
    tuned.fit(tuning_scores, tuning.labels)

    # With these weights the balanced tuning images stand for the training mix, so that the
    # constraint is about accuracy there. One weight per class changes no class's recall.
    most_nines = rp.PosteriorCalibrator(source_prior, metric="recall[9]", subject_to=CONSTRAINT)
    most_nines.fit(tuning_scores, tuning.labels, sample_weight=source_prior[tuning.labels])

    decisions = {
        "before": model.predict(test.images),
        "after": tuned.predict(test_scores),
        "most 9s": most_nines.predict(test_scores),
    }
    table = {name: judge(test.labels, made, train_counts) for name, made in decisions.items()}
    print()
    print_table(table)
    print()
    print_strengths(tuned, most_nines)

    retargeted = tuned.retarget(EVERY_SECOND_A_NINE)  # the same strength, no refit
    decisions["retargeted"] = retargeted.predict(test_scores)
    print("\nAccuracy on the test images, weighted as if every second one showed a 9:")
    for name in ("before", "after", "retargeted"):
        print(f"  {name:<12}{accuracy(test.labels, decisions[name], EVERY_SECOND_A_NINE):.3f}")
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="seed of the split (default 0)")
    main(parser.parse_args().seed)
