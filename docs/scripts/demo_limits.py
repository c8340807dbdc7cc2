"""Where the correction does not help: ``python -m docs.scripts.demo_limits`` from the root.

The numbers of "When it will not help" in README.md: the demo's digits, seeds 0 to 19.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import reprior as rp
from reprior.cli.demo import Scored, train

SEEDS = range(20)
RAREST = 9


def balanced_training(seed: int) -> tuple[float, float]:
    """Balanced accuracy of a model whose training classes are equally frequent."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(labels.size)
    training, tuning, test = np.split(order[:1020], [280, 520])
    model = LogisticRegression(max_iter=1000).fit(images[training] / 16, labels[training])
    calibrator = rp.PosteriorCalibrator(rp.prior_from_labels(labels[training], 10))
    calibrator.fit(model.decision_function(images[tuning] / 16), labels[tuning])
    scores = model.decision_function(images[test] / 16)
    return tuple(
        rp.metrics.evaluate("balanced_accuracy", labels[test], predicted)
        for predicted in (scores.argmax(axis=1), calibrator.predict(scores))
    )


def same_mix(scored: Scored) -> tuple[float, float]:
    """Accuracy in the training mix, tuned for it."""
    prior = rp.prior_from_counts(scored.train_counts)
    calibrator = rp.PosteriorCalibrator(prior, metric="accuracy")
    weight = prior[scored.tuning_labels]
    calibrator.fit(scored.tuning_scores, scored.tuning_labels, sample_weight=weight)
    decisions = (scored.test_scores.argmax(axis=1), calibrator.predict(scored.test_scores))
    mix = prior[scored.test_labels]
    return tuple(np.average(made == scored.test_labels, weights=mix) for made in decisions)


def no_information(scored: Scored, seed: int) -> tuple[float, float]:
    """Recall and precision of the rarest digit after, its scores shuffled among the images."""
    rng = np.random.default_rng(seed)
    tuning, test = scored.tuning_scores.copy(), scored.test_scores.copy()
    for scores in (tuning, test):
        scores[:, RAREST] = rng.permutation(scores[:, RAREST])
    calibrator = rp.PosteriorCalibrator(rp.prior_from_counts(scored.train_counts))
    predicted = calibrator.fit(tuning, scored.tuning_labels).predict(test)
    right = (predicted == RAREST) & (scored.test_labels == RAREST)
    return (
        right.sum() / (scored.test_labels == RAREST).sum(),
        right.sum() / max((predicted == RAREST).sum(), 1),
    )


def main() -> None:
    warnings.simplefilter("ignore", rp.RepriorWarning)
    rows = []
    for seed in SEEDS:
        scored = train(seed)
        rows.append([*balanced_training(seed), *same_mix(scored), *no_information(scored, seed)])
    table = np.array(rows)
    mean = table.mean(axis=0)
    for name, i in (("balanced training, balanced accuracy", 0), ("same mix, accuracy", 2)):
        change = table[:, i + 1] - table[:, i]
        print(f"{name}: {mean[i]:.3f} -> {mean[i + 1]:.3f}, changes {change.min():+.3f} to "
              f"{change.max():+.3f}")  # fmt: skip
    print(f"shuffled scores of digit {RAREST}: recall {mean[4]:.3f}, precision {mean[5]:.3f}")


if __name__ == "__main__":
    main()
