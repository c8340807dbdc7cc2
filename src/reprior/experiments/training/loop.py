"""Train: from a configuration to a run folder, resumable at any moment."""

from __future__ import annotations

import contextlib
import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from reprior.exceptions import OptionError, RepriorWarning
from reprior.experiments.config import RunConfig
from reprior.experiments.data.images import ImageData
from reprior.experiments.data.registry import open_data
from reprior.experiments.models.registry import build_model
from reprior.experiments.training.batches import WEIGHTS, Batches
from reprior.experiments.training.checkpoints import (
    FIRST_STAGE,
    Checkpoint,
    newest,
    newest_path,
    read_checkpoint,
)
from reprior.experiments.training.devices import devices_there
from reprior.experiments.training.epochs import EpochEnd
from reprior.experiments.training.lightning_library import require_lightning
from reprior.experiments.training.loggers import make_logger
from reprior.experiments.training.module import TrainingModule
from reprior.experiments.training.recipes import LOSSES, effective_prior
from reprior.experiments.training.runfile import (
    COUNTS,
    EFFECTIVE_PRIOR,
    RUN_FILE,
    RunFile,
    installed_versions,
    write_json,
)
from reprior.experiments.training.samplers import SYNTHETIC, generator_of, synthesised
from reprior.experiments.training.scores import measured, write_scores

__all__ = ["open_for", "train"]

CHECKPOINTS = "checkpoints"


def train(
    config: RunConfig,
    folder: str | os.PathLike[str],
    *,
    resume: bool = False,
    base: str | os.PathLike[str] | None = None,
    data: ImageData | None = None,
    progress: Callable[[int], None] | None = None,
    logger: str | None = None,
    accelerator: str = "auto",
    devices: int | str = "auto",
) -> RunFile:
    """Train a network and write its run folder.

    The folder gets ``run.json`` (settings, versions, metrics of each epoch, result),
    ``counts.json`` (training samples of each class), ``effective-prior.json`` (the prior that loss,
    schedule and sampler leave in the network), ``validation.npz`` and ``test.npz`` (score files)
    and ``checkpoints/``. A run that was stopped at any moment goes on from the end of its last
    epoch; on the CPU, with as many threads, its result is the same to the bit.

    Parameters
    ----------
    config : RunConfig
        What to train.
    folder : path
        Where the run is kept.
    resume : bool, default False
        Whether to go on with what the folder has. A finished run is returned as it is. Without
        it, a folder that has a run is an error.
    base : path, optional
        The folder of a run that has the same first stage: of DRW, the same without it. Its epochs
        before the deferral are taken over and not trained again. Without it, or where it has no
        such checkpoint, they are.
    data : ImageData, optional
        The data, where they are open already. By default they are opened as the settings say.
    progress : callable, optional
        Called with the number of training samples done, of all epochs.
    logger : {"csv", "tensorboard", "mlflow"}, optional
        Metrics of each epoch, as Lightning logs them, into the folder.
    accelerator, devices
        As in ``lightning.pytorch.Trainer``.

    Examples
    --------
    >>> config = RunConfig.resolve(data="digits", imbalance="exp", ratio=20, epochs=2)
    >>> run = train(config, getfixture("tmp_path") / "run", accelerator="cpu")
    >>> run.finished, len(run.epochs), sum(run.class_counts)
    (True, 2, 383)
    """
    folder = Path(folder)
    before = _earlier(folder, config, resume=resume)
    if before is not None and before.finished:
        return before
    data = data or open_for(config)
    counts = data.class_counts
    if config.sampler in SYNTHETIC:
        data = _with_synthetic(data, config)
    run = RunFile(
        config,
        class_counts=tuple(counts.tolist()),
        effective_prior=tuple(effective_prior(config, counts).tolist()),
        seconds=before.seconds if before is not None else 0.0,
        versions=installed_versions(torch.get_num_threads()),
    )
    state = newest(folder / CHECKPOINTS) if resume else None
    if state is not None:
        _check_same(config.identity, state.identity, folder)
    elif base is not None:
        state = _shared(Path(base), config)
    # Model and devices may be refused: the folder is made after that.
    model = _network(config, data, state)
    if state is None or state.epochs_done < config.epochs:
        trainer = _trainer(config, folder, state, logger, accelerator, devices)
        (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        run = _fit(trainer, run, folder, model, data, counts, state, progress)
        if not trainer.is_global_zero:  # of several processes one writes
            return run
    else:
        run = run.updated(epochs=tuple(state.history))
    return _finish(run, folder, model, data)


def _earlier(folder: Path, config: RunConfig, *, resume: bool) -> RunFile | None:
    """Return the run that a folder has, if it is the same and may be gone on with."""
    there = (folder / RUN_FILE).exists()
    if not resume and (there or newest_path(folder / CHECKPOINTS) is not None):
        raise OptionError(
            f"`folder` must have no run yet. Got {str(folder)!r}, which has one. Pass resume=True "
            f"to go on with it, or another folder."
        )
    if not there:
        return None
    before = RunFile.read(folder)
    _check_same(config.identity, before.config.identity, folder)
    return before


def _check_same(ours: dict[str, Any], theirs: dict[str, Any], folder: Path) -> None:
    """Refuse to go on with a run of other settings."""
    for key in sorted({*ours, *theirs}):
        if ours.get(key) != theirs.get(key):
            raise OptionError(
                f"`folder` must have a run of the same settings to go on with. Got "
                f"{str(folder)!r}, where {key} is {theirs.get(key)!r} and not {ours.get(key)!r}. "
                f"Take another folder."
            )


def open_for(config: RunConfig) -> ImageData:
    """Return the data of a run.

    Examples
    --------
    >>> int(open_for(RunConfig.resolve(data="digits", imbalance="step", ratio=2)).class_counts[9])
    57
    """
    return open_data(
        config.data,
        config.root,
        imbalance=config.imbalance,
        ratio=config.ratio,
        image_size=config.image_size,
    )


def _with_synthetic(data: ImageData, config: RunConfig) -> ImageData:
    made = synthesised(config.sampler, data.train_images, data.train_labels, config.seed)
    return replace(data, train_images=made[0], train_labels=made[1])


def _shared(base: Path, config: RunConfig) -> Checkpoint | None:
    """Return the end of another run's first stage, where it is the same as ours."""
    path = base / CHECKPOINTS / FIRST_STAGE
    if not (base / RUN_FILE).exists():
        raise OptionError(
            f"`base` must be the folder of a run. Got {str(base)!r}, which has none. Leave it out "
            f"to train the first stage too."
        )
    if not path.exists():
        return None
    state = read_checkpoint(path)
    ours, theirs = config.first_stage, state.identity
    for key in sorted({*ours, *theirs} - {"schedule", "deferred_epoch"}):
        if ours.get(key) != theirs.get(key):
            raise OptionError(
                f"`base` must be a run that differs in nothing but the schedule. Got "
                f"{str(base)!r}, where {key} is {theirs.get(key)!r} and not {ours.get(key)!r}. "
                f"Leave it out to train the first stage too."
            )
    if config.schedule != "drw":
        raise OptionError(
            f"`base` must be given for the schedule 'drw', which shares its first epochs. Got the "
            f"schedule {config.schedule!r}. Pass schedule='drw', or leave the base out."
        )
    return state if state.epochs_done == config.deferred_epoch else None


def _network(config: RunConfig, data: ImageData, state: Checkpoint | None) -> nn.Module:
    """Return the network, as it starts from the seed or as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator_of(config.seed, 0, WEIGHTS).initial_seed())
        model = build_model(
            config.model,
            data.n_classes,
            data.n_channels,
            flat=data.flat,
            head=LOSSES[config.loss].head,
            branches=2 if config.schedule == "bbn" else 1,
        )
    if state is not None:
        model.load_state_dict(state.model)
    return model if data.flat else model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs leave this form out


def _trainer(
    config: RunConfig,
    folder: Path,
    state: Checkpoint | None,
    logger: str | None,
    accelerator: str,
    devices: int | str,
) -> Any:
    pl = require_lightning()
    with _quiet(), devices_there(accelerator, devices):
        return pl.Trainer(
            max_epochs=config.epochs - (state.epochs_done if state is not None else 0),
            accelerator=accelerator,
            devices=devices,
            logger=make_logger(logger, folder, config.id),
            default_root_dir=folder,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
        )


def _fit(
    trainer: Any,
    run: RunFile,
    folder: Path,
    model: nn.Module,
    data: ImageData,
    counts: Any,
    state: Checkpoint | None,
    progress: Callable[[int], None] | None,
) -> RunFile:
    """Train the epochs that are left, and return the run with their metrics."""
    config, done = run.config, state.epochs_done if state is not None else 0
    batches = Batches(
        data, config, lambda: module.epoch, rank=trainer.global_rank, world=trainer.world_size
    )
    module = TrainingModule(
        config, model, counts, len(batches),
        epochs_done=done, optimizer_state=None if state is None else state.optimizer,
    )  # fmt: skip
    history = [] if state is None else list(state.history)
    ending = EpochEnd(run, folder, data, history, progress, batches.n_samples)
    trainer.callbacks.append(ending)
    started = time.monotonic()
    with _quiet(), _seeds_kept():
        try:
            trainer.fit(module, batches)
        except SystemExit as leaving:
            if trainer.interrupted and leaving.code == 1:  # how Lightning answers Ctrl-C
                raise KeyboardInterrupt from None
            raise
    return ending.run.updated(seconds=round(run.seconds + time.monotonic() - started, 3))


def _finish(run: RunFile, folder: Path, model: nn.Module, data: ImageData) -> RunFile:
    """Score, measure and close the run."""
    config = run.config
    scale = config.scale if LOSSES[config.loss].head == "cosine" else 1.0
    scores = write_scores(folder, model, data, scale=scale)
    names = [str(name) for name in data.class_names]
    for path, values in (
        (COUNTS, [int(n) for n in run.class_counts]),
        (EFFECTIVE_PRIOR, list(run.effective_prior)),
    ):
        # Names that do not tell classes apart cannot be keys.
        unique = len(set(names)) == len(names)
        write_json(folder / path, dict(zip(names, values, strict=True)) if unique else values)
    run = run.updated(status="finished", result=measured(*scores.whole()))
    run.write(folder)
    return run


@contextlib.contextmanager
def _seeds_kept() -> Iterator[None]:
    """Leave PyTorch's global random numbers to the caller as they were."""
    state = torch.random.get_rng_state()
    try:
        yield
    finally:
        torch.random.set_rng_state(state)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Lightning's notes and hints to itself: errors and our own warnings are shown."""
    logs = [logging.getLogger(name) for name in ("lightning.pytorch", "pytorch_lightning")]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"(pytorch_)?lightning")
            warnings.filterwarnings("ignore", message=r".*treespec|.*LeafSpec")
            warnings.filterwarnings("always", category=RepriorWarning)
            yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
