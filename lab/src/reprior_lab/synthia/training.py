"""Train a segmentation network: from settings and frames to a run folder, resumable."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from reprior import prior_from_counts
from reprior.exceptions import OptionError, Setting
from reprior.torch.losses import IGNORE_INDEX
from reprior_lab.synthia.batches import NETWORK, WEIGHTS, batches, n_batches, n_channels
from reprior_lab.synthia.data import SegmentationData
from reprior_lab.synthia.networks import build_network
from reprior_lab.synthia.runs import NetworkRun
from reprior_lab.synthia.scores import BATCH, measured_predictions, predict_scores
from reprior_lab.synthia.settings import FIRST_RECIPE, NetworkSettings
from reprior_lab.training.batches import generator_of, random_state_kept
from reprior_lab.training.checkpoints import (
    CHECKPOINTS,
    Checkpoint,
    check_same_settings,
    checkpoint_path,
    newest,
    newest_path,
    prune,
    restore,
    write_checkpoint,
)
from reprior_lab.training.recipes import loss_weights, make_loss
from reprior_lab.training.runfile import COUNTS, RUN_FILE, installed_versions, write_json
from reprior_lab.training.schedules import learning_rate

__all__ = ["load_network", "train_network"]

#: The loss of a step, its number of correct pixels, and its number of pixels; on the device.
Step: TypeAlias = tuple[Tensor, Tensor, Tensor]


def train_network(
    data: SegmentationData,
    settings: NetworkSettings,
    folder: str | os.PathLike[str],
    *,
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
    device: str | None = None,
) -> NetworkRun:
    """Train a network and write its run folder.

    Writes ``run.json``, ``counts.json`` (training pixels of each class) and, after each epoch, a
    checkpoint in ``checkpoints/``. A stopped run resumes from the last checkpoint; on the CPU, with
    the same number of threads, its result is bit-identical. Scores are written by
    :func:`~reprior_lab.synthia.scores.write_scores`.

    Parameters
    ----------
    data : SegmentationData
        The frames. The test part is not used.
    settings : NetworkSettings
        The settings of the network.
    folder : path
        The run folder.
    resume : bool, default False
        Whether to resume the run in the folder. A finished run is returned unchanged. Without
        ``resume``, a folder that already has a run raises an error.
    progress : callable, optional
        Called with the number of finished steps and the total.
    device : str, optional
        PyTorch's name of a device, for example "cuda:1". By default, or with "auto", a GPU if
        there is one.
    """
    folder = Path(folder)
    run = _new_run(data, settings)
    previous_run = _previous_run(folder, run, resume=resume)
    if previous_run is not None and previous_run.finished:
        return previous_run
    (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    run = run.updated(seconds=0.0 if previous_run is None else previous_run.seconds)
    run.write(folder)
    counts = [int(n) for n in run.class_counts]
    write_json(folder / COUNTS, dict(zip(data.classes, counts, strict=True)))
    state = newest(folder / CHECKPOINTS) if resume else None
    if state is not None:
        check_same_settings(run.identity, {"recipe": FIRST_RECIPE, **state.identity}, folder)
    with random_state_kept():
        network = _network(run, state).to(_device(device))
        run = _Loop(run, network, data, folder, state).fit(progress)
    run = run.updated(status="finished", result=_result(network, data, settings))
    run.write(folder)
    return run


def load_network(folder: str | os.PathLike[str], *, device: str | None = None) -> nn.Module:
    """Return the network of a finished run, in evaluation mode."""
    run = NetworkRun.read(folder)
    state = newest(Path(folder) / CHECKPOINTS) if run.finished else None
    if state is None:
        raise OptionError(
            argument="folder",
            rule="must have a finished run with its last checkpoint",
            got=repr(str(folder)),
            remedy=["Train it with ", Setting("resume", True), "."],
        )
    return _network(run, state).to(_device(device)).eval()


def _new_run(data: SegmentationData, settings: NetworkSettings) -> NetworkRun:
    counts = np.asarray(data.class_counts)
    weights = loss_weights(settings, counts)
    return NetworkRun(
        settings,
        data=data.digest,
        classes=data.classes,
        class_counts=tuple(counts.tolist()),
        effective_prior=tuple(prior_from_counts(counts, weights=weights).tolist()),
        n_train=len(data.train),
        versions=installed_versions(torch.get_num_threads()),
        notes=data.notes,
    )


def _previous_run(folder: Path, run: NetworkRun, *, resume: bool) -> NetworkRun | None:
    """Return the run in a folder, if it has the same settings and may be resumed."""
    exists = (folder / RUN_FILE).exists()
    if not resume and (exists or newest_path(folder / CHECKPOINTS) is not None):
        raise OptionError(
            argument="folder",
            rule="must have no run yet",
            got=f"{str(folder)!r}, which has one",
            remedy=["Pass ", Setting("resume", True), " to resume it, or another folder."],
        )
    if not exists:
        return None
    previous_run = NetworkRun.read(folder)
    check_same_settings(run.identity, previous_run.identity, folder)
    return previous_run


def _device(name: str | None) -> torch.device:
    if name is None or name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def _network(run: NetworkRun, state: Checkpoint | None) -> nn.Module:
    """Return the network, initialised by the seed or restored from the checkpoint."""
    settings = run.settings
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator_of(settings.seed, 0, WEIGHTS).initial_seed())
        network = build_network(
            settings.model,
            len(run.classes),
            n_channels(settings.modality, settings.depth_code),
            head=settings.head,
            pretrained=settings.pretrained and state is None,
        )
    if state is not None:
        restore(network, state.model)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]  # torch's stubs leave this form out


class _Loop:
    """The epochs of a run."""

    def __init__(
        self,
        run: NetworkRun,
        network: nn.Module,
        data: SegmentationData,
        folder: Path,
        state: Checkpoint | None,
    ) -> None:
        self.run, self.network, self.data, self.folder = run, network, data, folder
        self.settings = run.settings
        self.device = next(network.parameters()).device
        self.criterion = make_loss(self.settings, np.asarray(run.class_counts)).to(self.device)
        self.optimizer = _optimizer(network, self.settings)
        self.history = [] if state is None else list(state.history)
        if state is not None:
            restore(self.optimizer, state.optimizer)
        self.steps = n_batches(len(data.train), self.settings)

    def fit(self, progress: Callable[[int, int], None] | None) -> NetworkRun:
        """Train the remaining epochs, and return the run with its history."""
        started, before = time.monotonic(), self.run.seconds
        for epoch in range(len(self.history), math.ceil(self.settings.steps / self.steps)):
            # The network's own random numbers (dropout) depend on the epoch alone.
            torch.manual_seed(generator_of(self.settings.seed, epoch, NETWORK).initial_seed())
            self.history.append(self._epoch(epoch, progress))
            done = len(self.history)
            state = Checkpoint(
                done,
                self.run.identity,
                self.network.state_dict(),
                self.optimizer.state_dict(),
                self.history,
            )
            write_checkpoint(checkpoint_path(self.folder / CHECKPOINTS, done), state)
            prune(self.folder / CHECKPOINTS)
            seconds = round(before + time.monotonic() - started, 3)
            self.run = self.run.updated(epochs=tuple(self.history), seconds=seconds)
            self.run.write(self.folder)
        return self.run.updated(epochs=tuple(self.history))

    def _epoch(self, epoch: int, progress: Callable[[int, int], None] | None) -> dict[str, Any]:
        self.network.train()
        settings, step_results = self.settings, []
        step, rate = epoch * self.steps, 0.0
        for inputs, labels in batches(self.data.train, settings, epoch):
            if step == settings.steps:
                break
            rate = learning_rate(settings, 0, step, settings.steps)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            step_results.append(self._step(inputs.to(self.device), labels.to(self.device)))
            step += 1
            if progress is not None:
                progress(step, settings.steps)
        total, n_correct, n = summed(step_results)
        if not math.isfinite(total):
            raise OptionError(
                argument="lr",
                rule="must be low enough for the loss to stay finite",
                got=f"{settings.lr:g}, and a loss of {total} in epoch {epoch + 1}",
                remedy="Pass a lower lr.",
            )
        return {
            "epoch": epoch + 1,
            "step": step,
            "lr": rate,
            "train_loss": total / n,
            "train_accuracy": n_correct / n,
        }

    def _step(self, inputs: Tensor, labels: Tensor) -> Step:
        """Take an optimizer step and return its loss, correct pixels and pixels."""
        stride: Any = getattr(self.network, "stride", 1)
        labels = labels[:, ::stride, ::stride]
        scores = self.network(inputs)
        loss = self.criterion(scores, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            n = (labels != IGNORE_INDEX).sum()
            n_correct = (scores.argmax(dim=1) == labels).sum()
            return loss.detach(), n_correct, n


def summed(steps: Sequence[Step]) -> tuple[float, int, int]:
    """Return the sums over all steps of (loss × pixels), correct pixels and pixels.

    Sums are in double precision on the CPU: some devices (Apple's) do not support it. The numbers
    of all steps are copied from the device together, so that it does not wait after each step.

    Examples
    --------
    >>> half, one, four = torch.tensor(0.5), torch.tensor(1), torch.tensor(4)
    >>> summed([(half, one, four), (half, four, four)])
    (4.0, 5, 8)
    """
    losses, correct, pixels = (torch.stack(each).tolist() for each in zip(*steps, strict=True))
    total = 0.0
    for loss, n in zip(losses, pixels, strict=True):
        total += loss * n
    return total, sum(correct), sum(pixels)


def _optimizer(network: nn.Module, settings: NetworkSettings) -> torch.optim.Optimizer:
    """Return AdamW without weight decay on norms and biases."""
    decayed = [p for p in network.parameters() if p.ndim > 1]
    rest = [p for p in network.parameters() if p.ndim <= 1]
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": rest, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.lr)


def _result(
    network: nn.Module, data: SegmentationData, settings: NetworkSettings
) -> dict[str, float]:
    frames, predicted, labels = data.validation, [], []
    for start in range(0, len(frames), BATCH):
        batch = [frames[i] for i in range(start, min(start + BATCH, len(frames)))]
        scores, batch_labels = predict_scores(network, batch, settings)
        # The scores of thousands of frames do not fit into memory; their predicted classes do.
        predicted.append(scores.argmax(axis=1).astype(np.uint8))
        labels.append(batch_labels)
    return measured_predictions(
        np.concatenate(predicted), np.concatenate(labels), len(data.classes)
    )
