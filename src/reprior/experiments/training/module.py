"""The training step, as Lightning takes it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from reprior.exceptions import OptionError
from reprior.experiments.models.bbn import mixing
from reprior.experiments.training.batches import NETWORK
from reprior.experiments.training.lightning_library import require_lightning
from reprior.experiments.training.recipes import make_loss
from reprior.experiments.training.samplers import generator_of
from reprior.experiments.training.schedules import learning_rate

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule

    from reprior.experiments.config import RunConfig
else:
    LightningModule = require_lightning().LightningModule

__all__ = ["TrainingModule"]


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
    epochs_done : int, default 0
        Where to go on from.
    optimizer_state : dict, optional
        The optimiser's state there.
    """

    def __init__(
        self,
        config: RunConfig,
        model: nn.Module,
        class_counts: Any,
        steps: int,
        *,
        epochs_done: int = 0,
        optimizer_state: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.config, self.model, self.steps = config, model, steps
        self.epochs_done, self._optimizer_state = epochs_done, optimizer_state
        first = make_loss(config, class_counts)
        later = (
            make_loss(config, class_counts, deferred=True) if config.schedule == "drw" else first
        )
        # In a tuple they are no part of the module's state: DRW goes on from a run without weights.
        self._losses = (first, later)
        self._sums = torch.zeros(3, dtype=torch.float64)

    @property
    def epoch(self) -> int:
        """The epoch of the run, from 0: Lightning counts those since it was resumed."""
        return self.epochs_done + int(self.current_epoch)

    @property
    def rate(self) -> float:
        """The learning rate now."""
        return float(self._groups()[0]["lr"])

    def _groups(self) -> Any:
        return self.trainer.optimizers[0].param_groups

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return SGD, as it was where the run goes on."""
        config = self.config
        optimizer = torch.optim.SGD(
            self.model.parameters(),
            lr=config.lr,
            momentum=config.momentum,
            nesterov=config.nesterov and config.momentum > 0,
            weight_decay=config.weight_decay,
        )
        if self._optimizer_state is not None:
            optimizer.load_state_dict(self._optimizer_state)
        return optimizer

    def on_fit_start(self) -> None:
        """Take the losses to where the network is."""
        first, later = self._losses
        self._losses = (first.to(self.device), later.to(self.device))

    def on_train_epoch_start(self) -> None:
        """Begin sums anew, and the network's own random numbers (dropout) by the epoch."""
        self._sums = torch.zeros(3, dtype=torch.float64, device=self.device)
        purpose = NETWORK + 100 * int(self.global_rank)
        torch.manual_seed(generator_of(self.config.seed, self.epoch, purpose).initial_seed())

    def on_train_batch_start(self, _batch: Any, batch_idx: int) -> None:
        """Set the learning rate of the step."""
        rate = learning_rate(self.config, self.epoch, batch_idx, self.steps)
        for group in self._groups():
            group["lr"] = rate

    def training_step(self, batch: tuple[Tensor, ...], _batch_idx: int) -> Tensor:
        """Return the loss of a batch."""
        loss, scores = self._step(batch)
        labels = batch[1]
        with torch.no_grad():
            n = labels.numel()
            right = (scores.argmax(dim=1) == labels).sum()
            self._sums += torch.stack([loss.detach() * n, right, torch.full_like(right, n)])
        return loss

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

    def epoch_metrics(self) -> dict[str, float]:
        """Return mean loss and accuracy of the epoch's training batches; refuse what is no loss."""
        # Of all processes: NaN in one stops all.
        total, right, n = self.trainer.strategy.reduce(self._sums, reduce_op="sum").tolist()
        if not math.isfinite(total):
            raise OptionError(
                f"`lr` must be low enough for the loss to stay finite. Got {self.config.lr:g}, and "
                f"a loss of {total / n} in epoch {self.epoch + 1}. Pass a lower lr."
            )
        return {"train_loss": total / n, "train_accuracy": right / n}
