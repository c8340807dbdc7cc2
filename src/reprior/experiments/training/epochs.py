"""What happens at the end of an epoch: measure, keep the state, say so."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprior.experiments.data.images import ImageData
from reprior.experiments.training.checkpoints import (
    FIRST_STAGE,
    Checkpoint,
    checkpoint_path,
    prune,
    write_checkpoint,
)
from reprior.experiments.training.lightning_library import require_lightning
from reprior.experiments.training.recipes import LOSSES
from reprior.experiments.training.runfile import RunFile
from reprior.experiments.training.scores import measured, score

if TYPE_CHECKING:
    from lightning.pytorch import Callback
else:
    Callback = require_lightning().Callback

__all__ = ["EpochEnd"]


class EpochEnd(Callback):
    """Keeps a run's files up to date.

    The metrics of all epochs are in the checkpoint, which is written first: a run that is killed
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
        """Write the run file, so that the folder says what it is from the first moment."""
        self._write(trainer)

    def on_train_batch_end(
        self, _trainer: Any, pl_module: Any, _outputs: Any, _batch: Any, batch_idx: int
    ) -> None:
        """Tell how far it is."""
        if self._progress is not None:
            done = min((batch_idx + 1) * self.run.config.batch_size, self._n_samples)
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
        folder, config = self.folder / "checkpoints", self.run.config
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
