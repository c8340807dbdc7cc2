"""Score files of a run: what the network says of images it did not learn from."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from reprior.exceptions import FileFormatError
from reprior.files import atomic_write
from reprior.metrics import COUNT_METRICS, ClassCounts
from reprior_lab.data.images import ImageData
from reprior_lab.training.batches import normalised

__all__ = ["RunScores", "halves", "measured", "read_scores", "score", "write_scores"]

Array: TypeAlias = np.ndarray[Any, Any]

#: Images that are scored at once.
BATCH = 500

VALIDATION, TEST = "validation.npz", "test.npz"

#: Top-5 is worth looking at with more classes than this.
FEW_CLASSES = 10


@dataclass(frozen=True, eq=False)
class RunScores:
    """Logits (N, K) and labels (N,) of two parts: one to tune on, one to judge on.

    Where the data set has no validation part of its own, the two are halves of its test part, and
    ``halved`` is true: all images are then :meth:`whole`.
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
    """Return the logits of images as float32 (N, K): ``scale`` times what the network gives."""
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
    found = {name: COUNT_METRICS[name](counts) for name in ("accuracy", "balanced_accuracy")}
    if n_classes > FEW_CLASSES:
        own = scores[np.arange(len(labels)), labels]
        found["top5_accuracy"] = float(np.mean((scores > own[:, None]).sum(axis=1) < 5))
    return found


def halves(labels: Array) -> tuple[Array, Array]:
    """Split samples into two halves with as many of each class: by turns, so always the same.

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
    """Score what the network did not learn from, and write ``validation.npz`` and ``test.npz``."""
    test, labels = score(model, data.test_images, data, scale=scale), data.test_labels
    if data.validation_images is None or data.validation_labels is None:
        first, second = halves(labels)
        found = RunScores(test[first], labels[first], test[second], labels[second], True)
    else:
        own = score(model, data.validation_images, data, scale=scale)
        found = RunScores(own, data.validation_labels, test, labels, False)
    names = np.array([str(name) for name in data.class_names])
    for file, scores, known in (
        (VALIDATION, found.validation_scores, found.validation_labels),
        (TEST, found.test_scores, found.test_labels),
    ):
        with atomic_write(folder / file) as out:
            np.savez_compressed(
                out, scores=scores, labels=known, class_names=names, kind=np.array("logits"),
                halved=np.array(found.halved),
            )  # fmt: skip
    return found


def read_scores(folder: str | os.PathLike[str]) -> RunScores:
    """Return the scores that a finished run has written."""
    parts: list[Any] = []
    halved = False
    for file in (VALIDATION, TEST):
        path = Path(folder) / file
        try:
            # Opened here: NumPy leaves a file open that turns out to be no archive.
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as found:
                parts += [found["scores"], found["labels"]]
                halved = bool(found["halved"])
        except FileNotFoundError:
            raise
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise FileFormatError(
                f"Score files of a run must have scores, labels and halved. Got {path}: {error}. "
                f"Run it again with resume."
            ) from error
    return RunScores(parts[0], parts[1], parts[2], parts[3], halved)
