"""Score files of a run: the network's scores of images it was not trained on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from reprior.exceptions import FileFormatError
from reprior.files import atomic_write, read_arrays
from reprior.metrics import COUNT_METRICS, ClassCounts
from reprior_lab.data.images import ImageData
from reprior_lab.training.batches import normalised

__all__ = ["RunScores", "halves", "measured", "read_scores", "score", "write_scores"]

Array: TypeAlias = np.ndarray[Any, Any]

#: How many images are scored at once.
BATCH = 500

VALIDATION, TEST = "validation.npz", "test.npz"

#: Top-5 accuracy is reported for more classes than this.
FEW_CLASSES = 10


@dataclass(frozen=True, eq=False)
class RunScores:
    """Logits (N, K) and labels (N,) of two parts: one to tune on, one to judge on.

    If the data set has no validation part, the two are halves of its test part, and ``halved`` is
    true: :meth:`whole` then returns all images.
    """

    validation_scores: Array
    validation_labels: Array
    test_scores: Array
    test_labels: Array
    halved: bool

    def whole(self) -> tuple[Array, Array]:
        """Return scores and labels of all test images: of both halves, or of the test part."""
        if not self.halved:
            return self.test_scores, self.test_labels
        scores = np.concatenate([self.validation_scores, self.test_scores])
        return scores, np.concatenate([self.validation_labels, self.test_labels])


def score(model: nn.Module, images: Any, data: ImageData, *, scale: float = 1.0) -> Array:
    """Return the logits of images as float32 (N, K): ``scale`` times the network's output."""
    training = model.training
    device = next(model.parameters()).device
    model.eval()
    parts: list[Array] = []
    with torch.inference_mode():
        for start in range(0, len(images), BATCH):
            index = np.arange(start, min(start + BATCH, len(images)))
            some = images[index] if isinstance(images, np.ndarray) else images.take(index)
            inputs = normalised(some, data.mean, data.std, device)
            parts.append((scale * model(inputs)).float().cpu().numpy())
    model.train(training)
    return np.concatenate(parts)


def measured(scores: Array, labels: Array) -> dict[str, float]:
    """Return accuracy and balanced accuracy of scores; with many classes, top-5 accuracy too.

    Examples
    --------
    >>> measured(np.eye(3)[[0, 0, 2]], np.array([0, 1, 2]))
    {'accuracy': 0.6666666666666666, 'balanced_accuracy': 0.6666666666666666}
    """
    n_classes = scores.shape[1]
    counts = ClassCounts.from_predictions(labels, scores.argmax(axis=1), n_classes=n_classes)
    metrics = {name: COUNT_METRICS[name](counts) for name in ("accuracy", "balanced_accuracy")}
    if n_classes > FEW_CLASSES:
        label_scores = scores[np.arange(len(labels)), labels]
        metrics["top5_accuracy"] = float(np.mean((scores > label_scores[:, None]).sum(axis=1) < 5))
    return metrics


def halves(labels: Array) -> tuple[Array, Array]:
    """Split samples into two halves with equally many of each class: alternating, without chance.

    Examples
    --------
    >>> halves(np.array([0, 0, 1, 0, 1, 0]))
    (array([0, 2, 3]), array([1, 4, 5]))
    """
    turn = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        # An odd one out goes to the first half in even classes, to the second in odd ones.
        turn[own] = (np.arange(own.size) + label) % 2 if own.size % 2 else np.arange(own.size) % 2
    return np.flatnonzero(turn == 0), np.flatnonzero(turn == 1)


def write_scores(
    folder: Path, model: nn.Module, data: ImageData, *, scale: float = 1.0
) -> RunScores:
    """Score the validation and test parts, and write ``validation.npz`` and ``test.npz``."""
    test, labels = score(model, data.test_images, data, scale=scale), data.test_labels
    if data.validation_images is None or data.validation_labels is None:
        first, second = halves(labels)
        found = RunScores(test[first], labels[first], test[second], labels[second], True)
    else:
        validation = score(model, data.validation_images, data, scale=scale)
        found = RunScores(validation, data.validation_labels, test, labels, False)
    names = np.array([str(name) for name in data.class_names])
    for file, scores, known in (
        (VALIDATION, found.validation_scores, found.validation_labels),
        (TEST, found.test_scores, found.test_labels),
    ):
        with atomic_write(folder / file) as out:
            np.savez_compressed(
                out,
                scores=scores,
                labels=known,
                class_names=names,
                kind=np.array("logits"),
                halved=np.array(found.halved),
            )
    return found


def read_scores(folder: str | os.PathLike[str]) -> RunScores:
    """Return the scores of a finished run."""
    parts: list[Any] = []
    halved = False
    for file in (VALIDATION, TEST):
        path = Path(folder) / file
        try:
            arrays = read_arrays(path)
            parts += [arrays["scores"], arrays["labels"]]
            halved = bool(arrays["halved"])
        except FileNotFoundError:
            raise
        except (OSError, ValueError, KeyError) as error:
            raise FileFormatError(
                f"Score files of a run must have scores, labels and halved. Got {path}: {error}. "
                f"Run it again with resume."
            ) from error
    return RunScores(parts[0], parts[1], parts[2], parts[3], halved)
