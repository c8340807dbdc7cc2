"""Learning rates as functions of epoch and step, without a state to save."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

__all__ = ["RateSettings", "learning_rate"]

#: A one-cycle schedule starts at this share of its peak.
START = 0.04


class RateSettings(Protocol):
    """The settings of a run that learning rates depend on."""

    @property
    def lr(self) -> float:
        """The highest rate."""

    @property
    def lr_schedule(self) -> str:
        """One of "one_cycle", "steps", "cosine"."""

    @property
    def warmup(self) -> float:
        """Share of the epochs in which the rate rises."""

    @property
    def milestones(self) -> Sequence[float]:
        """Shares of the epochs after which the rate is multiplied by a decay."""

    @property
    def decays(self) -> Sequence[float]:
        """By what."""

    @property
    def epochs(self) -> int:
        """Of the run."""


def learning_rate(config: RateSettings, epoch: int, step: int, steps: int) -> float:
    r"""Return the learning rate of a step.

    "steps": in epoch t, counted from 0, of W epochs of warm-up, lr · (t + 1) / W; then lr, and
    after each milestone lr times its factor. "cosine": the same warm-up, then

    .. math:: \mathrm{lr} · \frac{1}{2} \bigl(1 + \cos(π u)\bigr)

    where u goes from 0 to 1 over the rest of the run. "one_cycle": by the step, not the epoch,
    from 4 % of lr up to lr in a straight line over the warm-up, then down along the same cosine.

    Parameters
    ----------
    config : RateSettings
        lr, lr_schedule, warmup, milestones, decays, epochs.
    epoch, step : int
        Counted from 0.
    steps : int
        Steps of an epoch.

    Examples
    --------
    >>> from reprior_lab import RunConfig
    >>> config = RunConfig.resolve("paper", data="cifar10")
    >>> [learning_rate(config, epoch, 0, 97) for epoch in (0, 4, 159, 160, 180)]
    [0.02, 0.1, 0.1, 0.001, 1e-05]
    """
    if config.lr_schedule == "one_cycle":
        place = (epoch * steps + step) / (config.epochs * steps)
        if place < config.warmup:
            return config.lr * (START + (1.0 - START) * place / config.warmup)
        return config.lr * _falling((place - config.warmup) / (1.0 - config.warmup))
    warm = round(config.warmup * config.epochs)
    if epoch < warm:
        return config.lr * (epoch + 1) / warm
    if config.lr_schedule == "cosine":
        return config.lr * _falling((epoch - warm) / (config.epochs - warm))
    factor = 1.0
    for milestone, decay in zip(config.milestones, config.decays, strict=True):
        if epoch >= round(milestone * config.epochs):
            factor = decay
    return config.lr * factor


def _falling(place: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * place))
