"""Losses by name: the head each needs, and the class prior the network learns from it.

This module does not import PyTorch, so that configurations can be read and checked without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from reprior import prior_from_counts
from reprior.core import check_choice
from reprior.exceptions import OptionError

if TYPE_CHECKING:
    from torch import nn

    from reprior_lab.config import RunConfig

__all__ = [
    "LOSSES",
    "LossInputs",
    "LossRecipe",
    "LossSettings",
    "class_weights",
    "effective_prior",
    "loss_weights",
    "make_loss",
    "register_loss",
]

Vector: TypeAlias = np.ndarray[Any, Any]


class LossSettings(Protocol):
    """The settings of a run that a loss depends on."""

    @property
    def loss(self) -> str:
        """One of ``LOSSES``."""

    @property
    def beta(self) -> float:
        """β of the effective number of samples."""

    @property
    def gamma(self) -> float:
        """Of Focal."""

    @property
    def focal_reduction(self) -> str:
        """How the focal loss averages: "mean" or "plain_mean"."""

    @property
    def max_margin(self) -> float:
        """Of LDAM."""

    @property
    def scale(self) -> float:
        """Of LDAM."""


@dataclass(frozen=True, eq=False)
class LossInputs:
    """Arguments of a loss: training counts (K,), class weights (K,) or None, settings."""

    class_counts: Vector
    weight: Any
    config: LossSettings


@dataclass(frozen=True)
class LossRecipe:
    """How to build a loss.

    Parameters
    ----------
    build : callable
        From :class:`LossInputs` to a module that maps (scores, labels) to a number.
    head : {"linear", "cosine"}, default "linear"
        The last layer it needs.
    weights : {None, "effective", "median", "max"}, default None
        Class weights from the first epoch on.
    uniform : bool, default False
        Whether the loss itself removes the training prior.
    """

    build: Callable[[LossInputs], nn.Module]
    head: str = "linear"
    weights: str | None = None
    uniform: bool = False


def _cross_entropy(given: LossInputs) -> nn.Module:
    from torch import nn

    return nn.CrossEntropyLoss(weight=given.weight)


def _focal(given: LossInputs) -> nn.Module:
    from reprior.torch.losses import FocalLoss

    config = given.config
    return FocalLoss(config.gamma, given.weight, reduction=config.focal_reduction)


def _ldam(given: LossInputs) -> nn.Module:
    from reprior.torch.losses import LDAMLoss

    config = given.config
    return LDAMLoss(given.class_counts, config.max_margin, config.scale, weight=given.weight)


def _logit_adjusted(given: LossInputs) -> nn.Module:
    from reprior.torch.losses import LogitAdjustedLoss

    return LogitAdjustedLoss(prior_from_counts(given.class_counts), weight=given.weight)


LOSSES: dict[str, LossRecipe] = {
    "ce": LossRecipe(_cross_entropy),
    "focal": LossRecipe(_focal),
    "ldam": LossRecipe(_ldam, head="cosine"),
    "cb_ce": LossRecipe(_cross_entropy, weights="effective"),
    "cb_focal": LossRecipe(_focal, weights="effective"),
    "median_ce": LossRecipe(_cross_entropy, weights="median"),
    "max_ce": LossRecipe(_cross_entropy, weights="max"),
    "logit_adjusted": LossRecipe(_logit_adjusted, uniform=True),
}


def register_loss(
    name: str,
    build: Callable[[LossInputs], nn.Module],
    *,
    head: str = "linear",
    weights: str | None = None,
    uniform: bool = False,
) -> None:
    """Register a loss by name, so that a run can be configured with it.

    Parameters
    ----------
    name : str
        Its name in a configuration.
    build, head, weights, uniform
        As in :class:`LossRecipe`.

    Examples
    --------
    >>> from torch import nn
    >>> from reprior_lab import RunConfig
    >>> register_loss("smooth", lambda given: nn.CrossEntropyLoss(label_smoothing=0.1))
    >>> RunConfig.resolve(data="digits", loss="smooth").loss
    'smooth'
    >>> _ = LOSSES.pop("smooth")
    """
    check_choice("head", head, ("linear", "cosine"))
    if weights is not None:
        check_choice("weights", weights, ("effective", "median", "max"))
    if not name or name in LOSSES:
        raise OptionError(
            argument="name",
            rule="must be new",
            got=repr(name),
            remedy="Take another.",
        )
    LOSSES[name] = LossRecipe(build, head, weights, uniform)


def class_weights(kind: str, counts: Vector, beta: float) -> Any:
    """Return class weights by name, as a tensor (K,)."""
    from reprior.torch.losses import effective_number_weights, frequency_weights

    check_choice("weights", kind, ("effective", "median", "max"))
    if kind == "effective":
        return effective_number_weights(counts, beta)
    return frequency_weights(counts, kind)


def make_loss(config: LossSettings, counts: Vector, *, deferred: bool = False) -> nn.Module:
    """Return the loss of a run; for DRW, that of its second stage if ``deferred``.

    Examples
    --------
    >>> import numpy as np
    >>> from reprior_lab import RunConfig
    >>> config = RunConfig.resolve(data="digits", loss="focal", schedule="drw")
    >>> counts = np.array([100, 10])
    >>> make_loss(config, counts).weight, make_loss(config, counts, deferred=True).weight
    (None, tensor([0.1826, 1.8174]))
    """
    recipe = LOSSES[config.loss]
    kind = "effective" if deferred else recipe.weights
    weight = None if kind is None else class_weights(kind, counts, config.beta)
    return _as_module(config.loss, recipe.build(LossInputs(counts, weight, config)))


def _as_module(name: str, made: Any) -> nn.Module:
    """Return a loss as a module; wrap a plain function."""
    from torch import nn

    if isinstance(made, nn.Module):
        return made
    if not callable(made):
        raise OptionError(
            f"The loss {name!r} must be made by a function that returns a loss.",
            got=type(made).__name__,
            remedy="Register for example `lambda given: nn.CrossEntropyLoss()`.",
        )

    class Function(nn.Module):
        def forward(self, scores: Any, labels: Any) -> Any:
            return made(scores, labels)

    return Function()


def loss_weights(config: LossSettings, counts: Vector, *, deferred: bool = False) -> Vector:
    """Return the class weights that a loss implies, (K,).

    The prior that a network learns with the loss is ∝ counts · weights.

    Examples
    --------
    >>> from reprior_lab import RunConfig
    >>> loss_weights(RunConfig.resolve(data="digits", loss="max_ce"), np.array([40, 10]))
    array([1., 4.])
    """
    recipe = LOSSES[config.loss]
    weights: Vector = np.ones(len(counts))
    kind = recipe.weights or ("effective" if deferred else None)
    if kind is not None:
        weights = class_weights(kind, counts, config.beta).double().numpy()
    return weights / counts if recipe.uniform else weights


def effective_prior(config: RunConfig, counts: Any) -> Vector:
    r"""Return the class prior that the trained network has learnt, as far as it is known.

    .. math:: P_s ∝ n_k v_k r_k

    where n are the training counts, v the weights of the loss (for DRW: of its last epochs) and
    r the ratio of the sampler's share of a class to its share of the data. The prior is uniform
    for over- and under-sampling, SMOTE and ADASYN, for the logit-adjusted loss, and for BBN, whose
    two branches learn n and 1/n with equal weight. The margins of LDAM are not considered.

    Examples
    --------
    >>> from reprior_lab import RunConfig
    >>> config = RunConfig.resolve(data="digits", sampler="reversed")
    >>> effective_prior(config, [300, 100])
    array([0.25, 0.75])
    """
    counts = np.asarray(counts, np.float64)
    weights = loss_weights(config, counts, deferred=config.schedule == "drw")
    if config.sampler == "reversed":
        weights = weights / counts**2
    elif config.sampler != "plain":
        weights = weights / counts
    if config.schedule == "bbn":
        weights = weights / counts
    prior: Vector = prior_from_counts(counts, weights=weights)
    return prior
