"""Train a network from a configuration into a run folder; resumable at any moment."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from reprior.core import check_choice
from reprior.exceptions import (
    MissingDependencyError,
    OptionError,
    RepriorError,
    RepriorWarning,
    Setting,
)
from reprior_lab.config import LOGGERS, RunConfig
from reprior_lab.data.images import ImageData
from reprior_lab.data.registry import open_data
from reprior_lab.models.bbn import mixing
from reprior_lab.models.registry import build_model
from reprior_lab.training.batches import (
    NETWORK,
    SYNTHETIC,
    WEIGHTS,
    Batches,
    generator_of,
    random_state_kept,
    synthesised,
)
from reprior_lab.training.checkpoints import (
    CHECKPOINTS,
    FIRST_STAGE,
    Checkpoint,
    check_same_settings,
    checkpoint_path,
    newest,
    newest_path,
    prune,
    read_checkpoint,
    restore,
    write_checkpoint,
)
from reprior_lab.training.devices import check_precision, devices_there, import_lightning
from reprior_lab.training.recipes import LOSSES, effective_prior, make_loss
from reprior_lab.training.runfile import (
    COUNTS,
    EFFECTIVE_PRIOR,
    RUN_FILE,
    RunFile,
    installed_versions,
    write_json,
)
from reprior_lab.training.schedules import learning_rate
from reprior_lab.training.scores import measured, score, write_scores

__all__ = [
    "EpochEnd",
    "TrainingModule",
    "make_logger",
    "open_for",
    "train",
    "train_on_several",
]

if TYPE_CHECKING:
    from lightning.pytorch import Callback, LightningModule
else:
    Callback = import_lightning().Callback
    LightningModule = import_lightning().LightningModule

#: Seconds between two checks of the processes' progress.
LOOKED_EVERY = 1.0

#: The prefix of the command's error sentences.
COMPLAINT = "Error: "

#: The key in a run file's versions of the number of devices, if there were several.
DEVICES = "devices"


class TrainingModule(LightningModule):
    """A network with its loss, its learning rates and the two stages of DRW.

    Parameters
    ----------
    config : RunConfig
        The settings.
    model : Module
        The network.
    class_counts : ndarray of shape (K,)
        Training samples of each class.
    steps : int
        Steps of an epoch.
    share : callable, optional
        From the index of a part of a batch to the factor of its loss, see
        :meth:`~reprior_lab.training.batches.Batches.share`. Needed to accumulate gradients.
    epochs_done : int, default 0
        The epoch to resume from.
    optimizer_state : dict, optional
        The optimiser's state at that epoch.
    """

    def __init__(
        self,
        config: RunConfig,
        model: nn.Module,
        class_counts: Any,
        steps: int,
        *,
        share: Callable[[int], float] | None = None,
        epochs_done: int = 0,
        optimizer_state: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.config, self.model, self.steps = config, model, steps
        self._share = share
        self.epochs_done, self._optimizer_state = epochs_done, optimizer_state
        first = make_loss(config, class_counts)
        later = (
            make_loss(config, class_counts, deferred=True) if config.schedule == "drw" else first
        )
        # In a tuple, so that they are not part of the module's state: DRW resumes from a run
        # without class weights.
        self._losses = (first, later)
        self._measured: list[Tensor] = []

    @property
    def epoch(self) -> int:
        """The epoch of the run, from 0: Lightning counts from where the run was resumed."""
        return self.epochs_done + int(self.current_epoch)

    @property
    def rate(self) -> float:
        """The learning rate now."""
        return float(self._groups()[0]["lr"])

    def _groups(self) -> Any:
        return self.trainer.optimizers[0].param_groups

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return SGD, with its state if the run is resumed."""
        config = self.config
        optimizer = torch.optim.SGD(
            self.model.parameters(),
            lr=config.lr,
            momentum=config.momentum,
            nesterov=config.nesterov and config.momentum > 0,
            weight_decay=config.weight_decay,
        )
        if self._optimizer_state is not None:
            restore(optimizer, self._optimizer_state)
        return optimizer

    def on_fit_start(self) -> None:
        """Move the losses to the network's device."""
        first, later = self._losses
        self._losses = (first.to(self.device), later.to(self.device))

    def on_train_epoch_start(self) -> None:
        """Reset the sums, and seed the network's own random numbers (dropout) by the epoch."""
        self._measured = []
        purpose = NETWORK + 100 * int(self.global_rank)
        torch.manual_seed(generator_of(self.config.seed, self.epoch, purpose).initial_seed())

    def on_train_batch_start(self, _batch: Any, batch_idx: int) -> None:
        """Set the learning rate of the step."""
        step = batch_idx // self.config.accumulate
        rate = learning_rate(self.config, self.epoch, step, self.steps)
        for group in self._groups():
            group["lr"] = rate

    def training_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> Tensor:
        """Return the loss of a batch, or of a part of one."""
        loss, scores = self._step(batch)
        labels = batch[1]
        with torch.no_grad():
            n = labels.numel()
            right = (scores.argmax(dim=1) == labels).sum()
            # Summed at the end of the epoch: some devices (Apple's) have no float64, and copying
            # each number to the CPU would make a GPU wait for every step.
            self._measured.append(
                torch.stack([loss.detach().float() * n, right, torch.full_like(right, n)])
            )
        if self._share is None or self.config.accumulate == 1:
            return loss
        return loss * self._share(batch_idx)

    def _step(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        if self.config.schedule != "bbn":
            inputs, labels = batch
            later = self.config.schedule == "drw" and self.epoch >= self.config.deferred_epoch
            scores = self.model(inputs)
            return self._losses[later](scores, labels), scores
        conventional, labels, reversed_, reversed_labels = batch
        alpha, criterion = mixing(self.epoch, self.config.epochs), self._losses[0]
        mixed: Any = self.model.mixed
        scores = mixed(conventional, reversed_, alpha)
        loss = alpha * criterion(scores, labels)
        return loss + (1.0 - alpha) * criterion(scores, reversed_labels), scores

    def epoch_sums(self) -> Tensor:
        """Return loss · n, the number of correct samples, and n, summed in float64 on the CPU."""
        sums = torch.zeros(3, dtype=torch.float64)
        for each in torch.stack(self._measured).cpu():  # in order, so that bits do not change
            sums += each
        return sums

    def epoch_metrics(self) -> dict[str, float]:
        """Return mean loss and accuracy of the epoch's training batches; refuse a loss of NaN."""
        # Over all processes, so that a NaN in one stops all.
        sums = self.epoch_sums()
        if self.trainer.world_size > 1:
            sums = self.trainer.strategy.reduce(sums.to(self.device), reduce_op="sum")
        total, right, n = sums.tolist()
        if not math.isfinite(total):
            raise OptionError(
                argument="lr",
                rule="must be low enough for the loss to stay finite",
                got=f"{self.config.lr:g}, and a loss of {total / n} in epoch {self.epoch + 1}",
                remedy="Pass a lower lr.",
            )
        return {"train_loss": total / n, "train_accuracy": right / n}


class EpochEnd(Callback):
    """Keeps a run's files up to date.

    The checkpoint, which is written first, has the metrics of all epochs: a run that is killed
    between the two files loses none.
    """

    def __init__(
        self,
        run: RunFile,
        folder: Path,
        data: ImageData,
        history: list[dict[str, Any]],
        progress: Callable[[int], None] | None,
        n_samples: int,
    ) -> None:
        self.run, self.folder, self.data, self.history = run, folder, data, history
        self._progress, self._n_samples = progress, n_samples
        self._started, self._seconds = time.monotonic(), run.seconds

    def on_train_start(self, trainer: Any, _pl_module: Any) -> None:
        """Write the run file at the start, so that the folder is identified from the beginning."""
        self._write(trainer)

    def on_train_batch_end(
        self, _trainer: Any, pl_module: Any, _outputs: Any, _batch: Any, batch_idx: int
    ) -> None:
        """Tell how far it is."""
        if self._progress is not None:
            size = self.run.config.batch_size // self.run.config.accumulate
            done = min((batch_idx + 1) * size, self._n_samples)
            self._progress(pl_module.epoch * self._n_samples + done)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Measure, write the checkpoint, then the run file, and log."""
        config, done = self.run.config, pl_module.epoch + 1
        metrics = {"epoch": done, "lr": pl_module.rate, **pl_module.epoch_metrics()}
        if done % config.evaluate_every == 0 or done == config.epochs:
            scale = config.scale if LOSSES[config.loss].head == "cosine" else 1.0
            scores = score(pl_module.model, self.data.test_images, self.data, scale=scale)
            metrics |= measured(scores, self.data.test_labels)
        self.history.append(metrics)
        if trainer.is_global_zero:
            self._keep(trainer, pl_module, done)
        self._write(trainer)
        for logger in trainer.loggers:
            logger.log_metrics({k: float(v) for k, v in metrics.items()}, step=done)
            logger.save()

    def _keep(self, trainer: Any, pl_module: Any, done: int) -> None:
        folder, config = self.folder / CHECKPOINTS, self.run.config
        optimizer = trainer.optimizers[0].state_dict()
        model = pl_module.model.state_dict()
        state = Checkpoint(done, config.identity, model, optimizer, self.history)
        if done == config.deferred_epoch and config.schedule in ("plain", "drw"):
            write_checkpoint(folder / FIRST_STAGE, state)
        write_checkpoint(checkpoint_path(folder, done), state)
        prune(folder)

    def _write(self, trainer: Any) -> None:
        seconds = self._seconds + time.monotonic() - self._started
        self.run = self.run.updated(epochs=tuple(self.history), seconds=round(seconds, 3))
        if trainer.is_global_zero:
            self.run.write(self.folder)


def make_logger(name: str | None, folder: Path, run: str) -> Any:
    """Return the logger that writes into a run's folder, or False for none.

    Examples
    --------
    >>> from pathlib import Path
    >>> make_logger(None, Path("run"), "digits-ce")
    False
    """
    if name is None:
        return False
    check_choice("logger", name, LOGGERS)
    loggers = import_lightning("lightning.pytorch.loggers")
    if name == "csv":
        return loggers.CSVLogger(folder, name="log", version="")
    if name == "tensorboard":
        _look_for("tensorboard")
        return loggers.TensorBoardLogger(folder, name="tensorboard", version="")
    _look_for("mlflow")
    uri = (folder / "mlflow").resolve().as_uri()
    return loggers.MLFlowLogger(experiment_name="reprior", run_name=run, tracking_uri=uri)


def _look_for(name: str) -> None:
    """Raise an error that says what to install: loggers are not part of an extra."""
    if find_spec(name) is None:
        raise MissingDependencyError(
            f"For the logger {name!r}, {name} must be installed. It is not. Run: pip install {name}"
        )


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
    ``counts.json`` (training samples of each class), ``effective-prior.json`` (the prior that the
    network has learnt from loss, schedule and sampler), ``validation.npz`` and ``test.npz`` (score
    files) and ``checkpoints/``. A run that was stopped resumes from its last finished epoch; on
    the CPU, with the same number of threads, its result is the same to the bit.

    Parameters
    ----------
    config : RunConfig
        The settings.
    folder : path
        The run folder.
    resume : bool, default False
        Whether to resume the run in the folder. A finished run is returned as it is. Without
        ``resume``, a folder that has a run is an error.
    base : path, optional
        The folder of a run with the same first stage: for DRW, the same run without it. Its epochs
        before the deferral are reused. Without it, or if it has no such checkpoint, they are
        trained.
    data : ImageData, optional
        The data, if they are already open. By default they are opened by the settings.
    progress : callable, optional
        Called with the number of training samples done, of all epochs.
    logger : {"csv", "tensorboard", "mlflow"}, optional
        Metrics of each epoch, as Lightning logs them, into the folder.
    accelerator, devices
        As in ``lightning.pytorch.Trainer``. With several devices Lightning runs the calling script
        once for each of them; only the first process writes, and returns a finished run. The
        result depends on their number, which the run file records and a resumed run must match.

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
        check_same_settings(config.identity, state.identity, folder)
    elif base is not None:
        state = _shared(Path(base), config)
    # Model and devices may be refused, so the folder is created after them.
    model = _network(config, data, state)
    if state is None or state.epochs_done < config.epochs:
        trainer = _trainer(config, folder, state, logger, accelerator, devices)
        _check_as_many_devices(before, trainer.world_size)
        if trainer.world_size > 1:
            run = run.updated(versions={**run.versions, DEVICES: str(trainer.world_size)})
        (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
        run = _fit(trainer, run, folder, model, data, counts, state, progress)
        if not trainer.is_global_zero:  # only one of several processes writes
            return run
    else:
        run = run.updated(epochs=tuple(state.history))
    return _finish(run, folder, model, data)


def train_on_several(
    config: RunConfig,
    folder: Path,
    devices: Sequence[str],
    *,
    n_samples: int,
    base: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> RunFile:
    """Train a network on several devices, or resume it, by a separate command.

    Lightning starts the processes of all devices but the first by running the current command
    again. The caller's command does more than train this network, so ``reprior train`` is run.

    Parameters
    ----------
    config : RunConfig
        The settings.
    folder : path
        The run folder.
    devices : sequence of str
        See :func:`~reprior_lab.training.devices.list_devices`.
    n_samples : int
        Training samples of an epoch, for the progress bar.
    base : path, optional
        As in :func:`train`.
    progress : callable, optional
        Called with the number of training samples done, after each epoch.
    """
    command = _command(config, folder, devices, base)
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(  # noqa: S603 - our own command
            command, stdout=subprocess.DEVNULL, stderr=errors
        ) as process:
            try:
                while (code := _waited(process)) is None:
                    if progress is not None and (folder / RUN_FILE).exists():
                        progress(len(RunFile.read(folder).epochs) * n_samples)
            except BaseException:
                process.terminate()
                raise
        errors.seek(0)
        lines = errors.read().decode(errors="replace").strip().splitlines()
    if code:
        raise RepriorError(f"Training on {len(devices)} devices failed: {_failure(lines, code)}")
    return RunFile.read(folder)


def _failure(lines: Sequence[str], code: int) -> str:
    """Return why the command failed, from its stderr."""
    sentences = [line for line in lines if line.startswith(COMPLAINT)]
    if sentences:
        return sentences[0].removeprefix(COMPLAINT)
    if any(line.startswith("Traceback ") for line in lines):
        return f"a process ended with a traceback, of which the last line is {lines[-1]!r}."
    last = f" after {lines[-1]!r}" if lines else ""
    return f"a process ended with code {code}{last}."


def _waited(process: subprocess.Popen[bytes]) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(LOOKED_EVERY)
    return None


def _command(
    config: RunConfig, folder: Path, devices: Sequence[str], base: Path | None
) -> list[str]:
    """Return the command that trains a network on several devices."""
    kind = devices[0].partition(":")[0]
    numbers = ",".join(each.partition(":")[2] for each in devices)
    where = ["gpu", numbers] if kind == "cuda" else [kind, str(len(devices))]
    given = config.to_dict()
    options = {"--data": given.pop("data"), "--protocol": given.pop("protocol")}
    options |= {"--accelerator": where[0], "--devices": where[1], "--output": str(folder)}
    if given["root"] is not None:
        options["--root"] = given["root"]
    if base is not None:
        options["--base"] = str(base)
    del given["root"]
    settings = [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]
    return [
        sys.executable,
        "-m",
        "reprior",
        "train",
        "--resume",
        "--quiet",
        *(word for option in options.items() for word in option),
        *(word for setting in settings for word in ("--set", setting)),
    ]


def _earlier(folder: Path, config: RunConfig, *, resume: bool) -> RunFile | None:
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
    before = RunFile.read(folder)
    check_same_settings(config.identity, before.config.identity, folder)
    return before


def _check_as_many_devices(before: RunFile | None, n_devices: int) -> None:
    """Refuse to resume on another number of devices: the result would equal neither run's."""
    n_started = 1 if before is None else int(before.versions.get(DEVICES, "1"))
    if before is not None and before.epochs and n_started != n_devices:
        raise OptionError(
            argument="devices",
            rule=f"must be as many as the run was started with, {n_started}: each has "
            "its own batches and batch normalisation",
            got=str(n_devices),
            remedy=["Pass ", Setting("devices", n_started), ", or another folder."],
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
    """Return the end of another run's first stage, if it is the same as this run's."""
    path = base / CHECKPOINTS / FIRST_STAGE
    if not (base / RUN_FILE).exists():
        raise OptionError(
            argument="base",
            rule="must be the folder of a run",
            got=f"{str(base)!r}, which has none",
            remedy="Leave it out to train the first stage too.",
        )
    if not path.exists():
        return None
    state = read_checkpoint(path)
    ours, theirs = config.first_stage, state.identity
    for key in sorted({*ours, *theirs} - {"schedule", "deferred_epoch"}):
        if ours.get(key) != theirs.get(key):
            raise OptionError(
                argument="base",
                rule="must be a run that differs in nothing but the schedule",
                got=f"{str(base)!r}, where {key} is {theirs.get(key)!r} and not {ours.get(key)!r}",
                remedy="Leave it out to train the first stage too.",
            )
    if config.schedule != "drw":
        raise OptionError(
            argument="base",
            rule="must be given for the schedule 'drw', which shares its first epochs",
            got=f"the schedule {config.schedule!r}",
            remedy=["Pass ", Setting("schedule", "drw"), ", or leave the base out."],
        )
    return state if state.epochs_done == config.deferred_epoch else None


def _network(config: RunConfig, data: ImageData, state: Checkpoint | None) -> nn.Module:
    """Return the network, initialised by the seed or restored from the checkpoint."""
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
        restore(model, state.model)
    return model if data.flat else model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stubs leave this form out


def _trainer(
    config: RunConfig,
    folder: Path,
    state: Checkpoint | None,
    logger: str | None,
    accelerator: str,
    devices: int | str,
) -> Any:
    pl = import_lightning()
    check_precision(accelerator, config.precision)
    with _quiet(), devices_there(accelerator, devices):
        return pl.Trainer(
            max_epochs=config.epochs - (state.epochs_done if state is not None else 0),
            accelerator=accelerator,
            devices=devices,
            precision=config.precision,
            accumulate_grad_batches=config.accumulate,
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
    """Train the remaining epochs, and return the run with their metrics."""
    config, done = run.config, state.epochs_done if state is not None else 0
    batches = Batches(
        data, config, lambda: module.epoch, rank=trainer.global_rank, world=trainer.world_size
    )
    module = TrainingModule(
        config,
        model,
        counts,
        batches.steps,
        share=batches.share,
        epochs_done=done,
        optimizer_state=None if state is None else state.optimizer,
    )
    history = [] if state is None else list(state.history)
    ending = EpochEnd(run, folder, data, history, progress, batches.n_samples)
    trainer.callbacks.append(ending)
    started = time.monotonic()
    with _quiet(), random_state_kept():
        try:
            trainer.fit(module, batches)
        except SystemExit as leaving:
            if trainer.interrupted and leaving.code == 1:  # how Lightning answers Ctrl-C
                raise KeyboardInterrupt from None
            raise
    return ending.run.updated(seconds=round(run.seconds + time.monotonic() - started, 3))


def _finish(run: RunFile, folder: Path, model: nn.Module, data: ImageData) -> RunFile:
    """Write the scores and the results, and mark the run as finished."""
    config = run.config
    scale = config.scale if LOSSES[config.loss].head == "cosine" else 1.0
    scores = write_scores(folder, model, data, scale=scale)
    names = [str(name) for name in data.class_names]
    for path, values in (
        (COUNTS, [int(n) for n in run.class_counts]),
        (EFFECTIVE_PRIOR, list(run.effective_prior)),
    ):
        # Ambiguous class names cannot be keys.
        unique = len(set(names)) == len(names)
        write_json(folder / path, dict(zip(names, values, strict=True)) if unique else values)
    run = run.updated(status="finished", result=measured(*scores.whole()))
    run.write(folder)
    return run


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence Lightning's notes and hints; errors and this library's warnings are shown."""
    names = ("lightning.pytorch", "lightning.fabric", "pytorch_lightning")
    logs = [logging.getLogger(name) for name in names]
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
