"""Train one linear layer on features with mini-batches of SGD, resumable after every epoch.

The losses, learning rates, orders of samples and checkpoints are those of
:func:`reprior.experiments.train`. Only the loop is its own: one matrix product a step, where the
work around the network would take longer than the network.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from reprior.exceptions import OptionError
from reprior.experiments.config import RunConfig
from reprior.experiments.inaturalist_stand_in import FeatureSamples
from reprior.experiments.models.classifier import make_head
from reprior.experiments.training.batches import ORDER, WEIGHTS
from reprior.experiments.training.checkpoints import (
    FIRST_STAGE,
    Checkpoint,
    checkpoint_path,
    newest,
    prune,
    read_checkpoint,
    write_checkpoint,
)
from reprior.experiments.training.recipes import LOSSES, make_loss
from reprior.experiments.training.samplers import draw_epoch, generator_of
from reprior.experiments.training.schedules import learning_rate

__all__ = ["LinearFit", "fit_linear", "linear_scores"]

Array: TypeAlias = np.ndarray[Any, Any]

#: Samples that are scored at once.
BATCH = 512


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A trained layer, and "epoch" (from 1), "lr" and "train_loss" of each epoch."""

    head: nn.Module
    history: list[dict[str, Any]]


def fit_linear(
    config: RunConfig,
    samples: FeatureSamples,
    checkpoints: Path,
    *,
    identity: dict[str, Any],
    base: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> LinearFit:
    """Train a linear layer, a cosine one for LDAM, and return it.

    Parameters
    ----------
    config : RunConfig
        Loss, schedule ("plain" or "drw"), learning rates, epochs, batch size, seed.
    samples : FeatureSamples
        What to train on.
    checkpoints : path
        The folder of the state after each epoch. A state that is there is gone on with.
    identity : dict
        What the result depends on. A checkpoint of another identity is refused.
    base : path, optional
        The checkpoints of a run that differs in nothing but the schedule: DRW takes its first
        epochs over.
    progress : callable, optional
        Called with the number of training samples done, of all epochs.
    """
    state = _beginning(config, checkpoints, base, identity)
    head = _layer(config, samples)
    optimizer = torch.optim.SGD(
        head.parameters(), lr=config.lr, momentum=config.momentum, nesterov=config.nesterov,
        weight_decay=config.weight_decay,
    )  # fmt: skip
    history: list[dict[str, Any]] = []
    if state is not None:
        head.load_state_dict(state.model)
        optimizer.load_state_dict(state.optimizer)
        history = list(state.history)
    fit = LinearFit(head, history)
    for epoch in range(len(history), config.epochs):
        loss = _epoch(config, samples, fit, optimizer, epoch, progress)
        history.append({"epoch": epoch + 1, "lr": optimizer.param_groups[0]["lr"], **loss})
        _keep(config, checkpoints, identity, fit, optimizer)
    return fit


def linear_scores(config: RunConfig, head: nn.Module, features: Array) -> Array:
    """Return the logits of features as float32 (N, K); of LDAM the scaled cosines."""
    scale = config.scale if LOSSES[config.loss].head == "cosine" else 1.0
    found: Array | None = None
    with torch.inference_mode():
        for at in range(0, len(features), BATCH):
            some = (scale * head(torch.from_numpy(features[at : at + BATCH]))).numpy()
            if found is None:  # filled in place: a second copy would be as large as all scores
                found = np.empty((len(features), some.shape[1]), np.float32)
            found[at : at + BATCH] = some
    if found is None:
        raise OptionError("`features` must have a sample to score. Got none.")
    return found


def _beginning(
    config: RunConfig, checkpoints: Path, base: Path | None, identity: dict[str, Any]
) -> Checkpoint | None:
    """Return the state to go on from: the run's own, the end of its base's first stage, or none."""
    state = newest(checkpoints) if checkpoints.is_dir() else None
    where, ours = checkpoints, identity
    if state is None and base is not None and (base / FIRST_STAGE).exists():
        state, where = read_checkpoint(base / FIRST_STAGE), base
        ours = {k: v for k, v in identity.items() if k != "deferred_epoch"} | {"schedule": "plain"}
    if state is not None and state.identity != ours:
        raise OptionError(
            f"Checkpoints must be of a run of the same settings to go on with. Got those in "
            f"{str(where)!r}, which are of others. Take another folder."
        )
    if where == base and state is not None and state.epochs_done != config.deferred_epoch:
        return None  # of a version that deferred by other epochs
    return state


def _layer(config: RunConfig, samples: FeatureSamples) -> nn.Module:
    kind = LOSSES[config.loss].head
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator_of(config.seed, 0, WEIGHTS).initial_seed())
        head = make_head(kind, samples.train_features.shape[1], samples.class_counts.size)
    if kind == "linear":  # a convex problem: rare classes need not unlearn a random beginning
        for parameter in head.parameters():
            nn.init.zeros_(parameter)
    return head


def _epoch(
    config: RunConfig,
    samples: FeatureSamples,
    fit: LinearFit,
    optimizer: torch.optim.Optimizer,
    epoch: int,
    progress: Callable[[int], None] | None,
) -> dict[str, float]:
    """Go through all samples once, and return their mean loss."""
    deferred = config.schedule == "drw" and epoch >= config.deferred_epoch
    criterion = make_loss(config, samples.class_counts, deferred=deferred)
    features = torch.from_numpy(samples.train_features)
    labels = torch.from_numpy(samples.train_labels)
    order = torch.from_numpy(
        draw_epoch("plain", samples.train_labels, generator_of(config.seed, epoch, ORDER))
    )
    n, size, total = len(labels), config.batch_size, torch.zeros((), dtype=torch.float64)
    steps = math.ceil(n / size)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, epoch, step, steps)
        index = order[step * size : (step + 1) * size]
        optimizer.zero_grad()
        loss = criterion(fit.head(features[index]), labels[index])
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(index)
        if progress is not None:
            progress(epoch * n + step * size + len(index))
    return {"train_loss": _finite(float(total) / n, config, epoch)}


def _finite(loss: float, config: RunConfig, epoch: int) -> float:
    if not math.isfinite(loss):
        raise OptionError(
            f"`lr` must be low enough for the loss to stay finite. Got {config.lr:g}, and a loss "
            f"of {loss} in epoch {epoch + 1}. Pass a lower lr."
        )
    return loss


def _keep(
    config: RunConfig,
    folder: Path,
    identity: dict[str, Any],
    fit: LinearFit,
    optimizer: torch.optim.Optimizer,
) -> None:
    done = len(fit.history)
    state = Checkpoint(done, identity, fit.head.state_dict(), optimizer.state_dict(), fit.history)
    if done == config.deferred_epoch and config.schedule == "plain":
        write_checkpoint(folder / FIRST_STAGE, state)
    write_checkpoint(checkpoint_path(folder, done), state)
    prune(folder)
