"""Train a segmentation network: from settings and frames to a run folder, resumable."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reprior.core.prior import prior_from_counts
from reprior.exceptions import OptionError
from reprior.experiments.synthia.batches import NETWORK, WEIGHTS, batches
from reprior.experiments.synthia.data import SegmentationData
from reprior.experiments.synthia.inputs import n_channels
from reprior.experiments.synthia.networks import build_network
from reprior.experiments.synthia.runs import NetworkRun
from reprior.experiments.synthia.scores import BATCH, measured, predict_scores
from reprior.experiments.synthia.settings import FIRST_RECIPE, NetworkSettings
from reprior.experiments.training.checkpoints import (
    Checkpoint,
    checkpoint_path,
    newest,
    newest_path,
    prune,
    write_checkpoint,
)
from reprior.experiments.training.recipes import loss_weights, make_loss
from reprior.experiments.training.runfile import RUN_FILE, installed_versions, write_json
from reprior.experiments.training.samplers import generator_of
from reprior.experiments.training.schedules import learning_rate
from reprior.torch.losses import IGNORED

__all__ = ["load_network", "train_network"]

CHECKPOINTS, COUNTS = "checkpoints", "counts.json"


def train_network(
    data: SegmentationData,
    settings: NetworkSettings,
    folder: str | os.PathLike[str],
    *,
    resume: bool = False,
    progress: Callable[[int, int], None] | None = None,
    device: str = "auto",
) -> NetworkRun:
    """Train a network and write its run folder.

    The folder gets ``run.json``, ``counts.json`` (training pixels of each class) and
    ``checkpoints/``, one for each pass over the frames. A run that was stopped at any moment goes
    on from the last; on the CPU, with as many threads, its result is the same to the bit. Scores
    are written by :func:`~reprior.experiments.synthia.scores.write_scores`.

    Parameters
    ----------
    data : SegmentationData
        The frames. The test part is not looked at.
    settings : NetworkSettings
        What to train.
    folder : path
        Where the run is kept.
    resume : bool, default False
        Whether to go on with what the folder has. A finished run is returned as it is. Without
        it, a folder that has a run is an error.
    progress : callable, optional
        Told how many steps are done, and of how many.
    device : str, default "auto"
        As PyTorch names it; "auto" is a GPU where there is one.
    """
    folder = Path(folder)
    run = _new_run(data, settings)
    before = _earlier(folder, run, resume=resume)
    if before is not None and before.finished:
        return before
    (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    run = run.updated(seconds=0.0 if before is None else before.seconds)
    run.write(folder)
    counts = [int(n) for n in run.class_counts]
    write_json(folder / COUNTS, dict(zip(data.classes, counts, strict=True)))
    state = newest(folder / CHECKPOINTS) if resume else None
    if state is not None:
        _check_same(run.identity, {"recipe": FIRST_RECIPE, **state.identity}, folder)
    with _seeds_kept():
        network = _network(run, state).to(_device(device))
        run = _Loop(run, network, data, folder, state).fit(progress)
    run = run.updated(status="finished", result=_result(network, data, settings))
    run.write(folder)
    return run


def load_network(folder: str | os.PathLike[str], *, device: str = "auto") -> nn.Module:
    """Return the network of a finished run, ready to be scored."""
    run = NetworkRun.read(folder)
    state = newest(Path(folder) / CHECKPOINTS) if run.finished else None
    if state is None:
        raise OptionError(
            f"`folder` must have a finished run with its last checkpoint. Got {str(folder)!r}. "
            f"Train it with resume=True."
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


def _earlier(folder: Path, run: NetworkRun, *, resume: bool) -> NetworkRun | None:
    """Return the run that a folder has, if it is the same and may be gone on with."""
    there = (folder / RUN_FILE).exists()
    if not resume and (there or newest_path(folder / CHECKPOINTS) is not None):
        raise OptionError(
            f"`folder` must have no run yet. Got {str(folder)!r}, which has one. Pass resume=True "
            f"to go on with it, or another folder."
        )
    if not there:
        return None
    before = NetworkRun.read(folder)
    _check_same(run.identity, before.identity, folder)
    return before


def _check_same(ours: dict[str, Any], theirs: dict[str, Any], folder: Path) -> None:
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key):
            raise OptionError(
                f"`folder` must have a run of the same settings to go on with. Got "
                f"{str(folder)!r}, where {key} is {theirs.get(key)!r} and not {ours.get(key)!r}. "
                f"Take another folder."
            )


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def _network(run: NetworkRun, state: Checkpoint | None) -> nn.Module:
    """Return the network, as it starts from the seed or as it was."""
    settings = run.settings
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator_of(settings.seed, 0, WEIGHTS).initial_seed())
        network = build_network(
            settings.model,
            len(run.classes),
            n_channels(settings.modality, settings.depth_code),
            head=settings.head,
        )
    if state is not None:
        network.load_state_dict(state.model)
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
            self.optimizer.load_state_dict(state.optimizer)
        self.steps = math.ceil(len(data.train) / self.settings.batch_size)

    def fit(self, progress: Callable[[int, int], None] | None) -> NetworkRun:
        """Train what is left, and return the run with its history."""
        started, before = time.monotonic(), self.run.seconds
        for epoch in range(len(self.history), math.ceil(self.settings.steps / self.steps)):
            # The network's own random numbers (dropout) depend on the epoch alone.
            torch.manual_seed(generator_of(self.settings.seed, epoch, NETWORK).initial_seed())
            self.history.append(self._epoch(epoch, progress))
            done = len(self.history)
            state = Checkpoint(
                done, self.run.identity, self.network.state_dict(), self.optimizer.state_dict(),
                self.history,
            )  # fmt: skip
            write_checkpoint(checkpoint_path(self.folder / CHECKPOINTS, done), state)
            prune(self.folder / CHECKPOINTS)
            seconds = round(before + time.monotonic() - started, 3)
            self.run = self.run.updated(epochs=tuple(self.history), seconds=seconds)
            self.run.write(self.folder)
        return self.run.updated(epochs=tuple(self.history))

    def _epoch(self, epoch: int, progress: Callable[[int, int], None] | None) -> dict[str, Any]:
        self.network.train()
        sums, settings = torch.zeros(3, dtype=torch.float64, device=self.device), self.settings
        step, rate = epoch * self.steps, 0.0
        for inputs, labels in batches(self.data.train, settings, epoch):
            if step == settings.steps:
                break
            rate = learning_rate(settings, 0, step, settings.steps)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            sums += self._step(inputs.to(self.device), labels.to(self.device))
            step += 1
            if progress is not None:
                progress(step, settings.steps)
        total, right, n = sums.tolist()
        if not math.isfinite(total):
            raise OptionError(
                f"`lr` must be low enough for the loss to stay finite. Got {settings.lr:g}, and "
                f"a loss of {total} in epoch {epoch + 1}. Pass a lower lr."
            )
        return {
            "epoch": epoch + 1, "step": step, "lr": rate,
            "train_loss": total / n, "train_accuracy": right / n,
        }  # fmt: skip

    def _step(self, inputs: Tensor, labels: Tensor) -> Tensor:
        """Take a step, and return loss times pixels, right pixels, pixels."""
        stride: Any = getattr(self.network, "stride", 1)
        labels = labels[:, ::stride, ::stride]
        scores = self.network(inputs)
        loss = self.criterion(scores, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            n = (labels != IGNORED).sum()
            right = (scores.argmax(dim=1) == labels).sum()
            return torch.stack([loss.double() * n, right, n])


def _optimizer(network: nn.Module, settings: NetworkSettings) -> torch.optim.Optimizer:
    """AdamW; norms and biases are not decayed."""
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
    frames = data.validation
    parts = [
        predict_scores(
            network, [frames[i] for i in range(s, min(s + BATCH, len(frames)))], settings
        )
        for s in range(0, len(frames), BATCH)
    ]
    scores, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
    return measured(scores, labels)


@contextlib.contextmanager
def _seeds_kept() -> Iterator[None]:
    """Leave PyTorch's global random numbers to the caller as they were."""
    state = torch.random.get_rng_state()
    try:
        yield
    finally:
        torch.random.set_rng_state(state)
