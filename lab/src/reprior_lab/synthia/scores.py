"""Score files: a network's scores of frames, one file for each condition."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from reprior.exceptions import OptionError
from reprior.files import atomic_write
from reprior.metrics import COUNT_METRICS, ClassCounts
from reprior_lab.synthia.batches import batch_of
from reprior_lab.synthia.frames import IGNORED, Frame, FrameSource
from reprior_lab.synthia.networks import finer
from reprior_lab.synthia.runs import reading_scores, score_path
from reprior_lab.synthia.settings import STRIDE, NetworkSettings

__all__ = [
    "ConditionScores",
    "measured",
    "measured_predictions",
    "predict_scores",
    "read_scores",
    "score_path",
    "write_scores",
]

Array: TypeAlias = np.ndarray[Any, Any]

#: How many frames are scored at once.
BATCH = 8


@dataclass(frozen=True, eq=False)
class ConditionScores:
    """Scores of one network under one condition.

    Parameters
    ----------
    scores : float16 (N, K, h, w)
        Logits of every second pixel of the frames in both directions.
    labels : uint8 (N, h, w)
        Class indices of the same pixels; 255 marks pixels without a class.
    names : sequence of str
        The names of the frames.
    """

    scores: Array
    labels: Array
    names: tuple[str, ...]


def predict_scores(
    network: nn.Module, frames: Sequence[Frame], settings: NetworkSettings, *, stride: int = STRIDE
) -> tuple[Array, Array]:
    """Return logits float32 (N, K, h, w) of every ``stride``-th pixel, and its labels.

    If ``stride`` is not a multiple of the network's own stride, scores are first interpolated to
    the resolution of the frames.
    """
    network_stride = int(getattr(network, "stride", 1))
    device = next(network.parameters()).device
    training = network.training
    network.eval()
    with torch.inference_mode():
        inputs, _ = batch_of(list(frames), settings)
        scores = network(inputs.to(device))
        if stride % network_stride:
            scores, network_stride = finer(scores, inputs.shape[-2:]), 1
        scores = scores[..., :: stride // network_stride, :: stride // network_stride]
        logits = (settings.logit_scale * scores).float().cpu().numpy()
    network.train(training)
    labels = np.stack([frame.labels[::stride, ::stride] for frame in frames])
    return logits, labels


def write_scores(
    network: nn.Module,
    settings: NetworkSettings,
    classes: Sequence[str],
    conditions: Mapping[str, FrameSource],
    folder: str | os.PathLike[str],
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[Path, ...]:
    """Score the frames of each condition and write ``scores/CONDITION.npz``.

    The arrays are ``scores`` (float16 logits), ``labels``, ``names``, ``class_names`` and
    ``kind``. Scores are written as they are computed, so memory holds only a few frames. The
    existing file of a condition is kept.

    Parameters
    ----------
    network, settings
        The network and its settings.
    classes : sequence of str
        Names of the classes.
    conditions : mapping of str to FrameSource
        The frames under each condition.
    folder : path
        The run folder.
    progress : callable, optional
        Called with the condition, the number of finished frames and the total.
    """
    written = []
    for condition, frames in conditions.items():
        path = score_path(folder, condition)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, network, settings, classes, condition, frames, progress)
        written.append(path)
    return tuple(written)


def _write(
    path: Path,
    network: nn.Module,
    settings: NetworkSettings,
    classes: Sequence[str],
    condition: str,
    frames: FrameSource,
    progress: Callable[[str, int, int], None] | None,
) -> None:
    if not len(frames):
        raise OptionError(
            f"Every condition must have frames. Got none for {condition!r}. Leave it out."
        )
    labels: list[Array] = []
    names: list[str] = []
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        with archive.open("scores.npy", "w", force_zip64=True) as member:
            for start in range(0, len(frames), BATCH):
                batch = [frames[i] for i in range(start, min(start + BATCH, len(frames)))]
                scores, batch_labels = predict_scores(network, batch, settings)
                if not start:
                    shape = (len(frames), *scores.shape[1:])
                    header = {"descr": "<f2", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(member, header)
                member.write(scores.astype("<f2").tobytes())
                labels.append(batch_labels)
                names += [frame.name for frame in batch]
                if progress is not None:
                    progress(condition, start + len(batch), len(frames))
        arrays = {
            "labels": np.concatenate(labels),
            "names": np.array(names),
            "class_names": np.array(classes),
            "kind": np.array("logits"),
        }
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, values, allow_pickle=False)


def read_scores(folder: str | os.PathLike[str], condition: str) -> ConditionScores:
    """Return the scores of a network under a condition."""
    path = score_path(folder, condition)
    with (
        reading_scores(path),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as archive,
    ):
        names = tuple(str(name) for name in archive["names"])
        return ConditionScores(archive["scores"], archive["labels"], names)


def measured(scores: Array, labels: Array) -> dict[str, float]:
    """Return accuracy, balanced accuracy and mean IoU of scores (N, K, …) and labels (N, …).

    Examples
    --------
    >>> scores = np.array([[[2.0, 0.0, 1.0], [1.0, 3.0, 0.0]]])  # one frame, two classes
    >>> measured(scores, np.array([[0, 1, 255]], np.uint8))["mean_iou"]
    1.0
    """
    return measured_predictions(scores.argmax(axis=1), labels, scores.shape[1])


def measured_predictions(predicted: Array, labels: Array, n_classes: int) -> dict[str, float]:
    """Return the metrics of :func:`measured` of predicted classes and labels (N, …)."""
    kept = labels != IGNORED
    counts = ClassCounts.from_predictions(
        labels[kept].astype(np.int64), predicted[kept].astype(np.int64), n_classes=n_classes
    )
    wanted = ("accuracy", "balanced_accuracy", "mean_iou")
    return {name: COUNT_METRICS[name](counts) for name in wanted}
