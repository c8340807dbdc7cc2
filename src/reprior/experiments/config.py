"""What a run is: every choice that its result depends on, and nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from reprior.core.checks import check_choice, check_finite_number
from reprior.exceptions import OptionError
from reprior.experiments.data.imbalance import IMBALANCES
from reprior.experiments.data.registry import data_names
from reprior.experiments.protocols import protocol_defaults
from reprior.experiments.setting_values import check_known, declared, keys_of
from reprior.experiments.training.recipes import LOSSES

__all__ = ["LR_SCHEDULES", "SAMPLERS", "SCHEDULES", "RunConfig"]

SCHEDULES = ("plain", "drw", "bbn")
SAMPLERS = ("plain", "over", "under", "reversed", "smote", "adasyn")
LR_SCHEDULES = ("one_cycle", "steps", "cosine")

#: Of an imbalance whose ratio is not given.
DEFAULT_RATIO = 100.0

#: Fields that a result does not depend on: where the data lie, what a preset was called, and how
#: often the network was looked at on its way.
_BESIDE_THE_POINT = ("root", "protocol", "evaluate_every")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The resolved configuration of one training run.

    Make one by :meth:`resolve`, which takes a protocol and what differs from it.

    Parameters
    ----------
    data : str
        The data set, see :func:`reprior.experiments.data.open_data`.
    root : str, optional
        Its folder.
    imbalance, ratio
        What its training part is made into.
    loss : str
        One of ``LOSSES``: "ce", "focal", "ldam", "cb_ce", "cb_focal", "median_ce", "max_ce",
        "logit_adjusted", and what was registered.
    schedule : {"plain", "drw", "bbn"}
        "drw" weighs classes by their effective number from ``defer`` on; "bbn" is the
        bilateral-branch network.
    sampler : {"plain", "over", "under", "reversed", "smote", "adasyn"}
        How the samples of an epoch are drawn.
    model, protocol, seed, epochs, batch_size, lr, momentum, nesterov, weight_decay
        As their names say. ``batch_size`` is that of all devices together.
    lr_schedule : {"one_cycle", "steps", "cosine"}
        See :mod:`reprior.experiments.training.schedules`.
    warmup, milestones, decays
        Share of the epochs that the rate rises in; shares after which it is multiplied by what.
    defer : float
        Share of the epochs after which DRW weighs classes: in the last epoch at least.
    beta, gamma, max_margin, scale
        Of the effective number, of Focal, and of LDAM.
    image_size : int, optional
        Side that images of many sizes are scaled to.
    evaluate_every : int
        Epochs between two looks at the test part; the last epoch is always looked at.
    """

    data: str
    root: str | None
    imbalance: str
    ratio: float
    loss: str
    schedule: str
    sampler: str
    model: str
    protocol: str
    seed: int
    epochs: int
    batch_size: int
    lr: float
    momentum: float
    nesterov: bool
    weight_decay: float
    lr_schedule: str
    warmup: float
    milestones: tuple[float, ...]
    decays: tuple[float, ...]
    defer: float
    beta: float
    gamma: float
    max_margin: float
    scale: float
    image_size: int | None
    evaluate_every: int

    def __post_init__(self) -> None:
        check_choice("data", self.data, data_names())
        check_choice("imbalance", self.imbalance, IMBALANCES)
        check_choice("loss", self.loss, LOSSES)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("sampler", self.sampler, SAMPLERS)
        check_choice("lr_schedule", self.lr_schedule, LR_SCHEDULES)
        self._check_numbers()
        self._check_together()

    @classmethod
    def resolve(cls, protocol: str = "compact", **differing: Any) -> RunConfig:
        """Return a protocol's configuration with what differs from it.

        Examples
        --------
        >>> config = RunConfig.resolve("paper", data="cifar10", imbalance="exp", loss="ldam")
        >>> config.model, config.epochs, config.ratio
        ('resnet32', 200, 100.0)
        >>> RunConfig.resolve(data="cifar10", epoch=3)
        Traceback (most recent call last):
        ...
        reprior.exceptions.OptionError: A run must have known settings. Got 'epoch'. Did you mean
        'epochs'?
        """
        check_known(cls, differing, "run")
        given = {key: value for key, value in differing.items() if value is not None}
        if "root" in given:
            given["root"] = str(given["root"])
        start: dict[str, Any] = {
            "data": "digits", "root": None, "imbalance": "none", "loss": "ce",
            "schedule": "plain", "sampler": "plain", "seed": 0, "image_size": None,
        } | given  # fmt: skip
        defaults = protocol_defaults(
            protocol,
            data=start["data"],
            schedule=start["schedule"],
            imbalance=start["imbalance"],
        )
        ratio = 1.0 if start["imbalance"] == "none" else DEFAULT_RATIO
        whole = {"ratio": ratio, "protocol": protocol} | defaults | start
        return cls(**declared(cls, whole))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> RunConfig:
        """Return the configuration that :meth:`to_dict` wrote.

        Examples
        --------
        >>> config = RunConfig.resolve(data="digits")
        >>> RunConfig.from_dict(config.to_dict()) == config
        True
        """
        check_known(cls, document, "run")
        missing = sorted(set(keys_of(cls)) - set(document))
        if missing:
            raise OptionError(
                f"A run must have all settings. Got none for {missing[0]!r}. Make the "
                f"configuration by RunConfig.resolve."
            )
        return cls(**declared(cls, document))

    def to_dict(self) -> dict[str, Any]:
        """Return all settings, ready for JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    def differing(self, **changes: Any) -> RunConfig:
        """Return the configuration with other values of some settings.

        Examples
        --------
        >>> RunConfig.resolve(data="digits").differing(seed=7).seed
        7
        """
        check_known(type(self), changes, "run")
        return replace(self, **declared(type(self), changes))

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that the result depends on."""
        found = {k: v for k, v in self.to_dict().items() if k not in _BESIDE_THE_POINT}
        if self.data == "folder":
            found["folder"] = Path(self.root or "").name
        if self.schedule == "drw" and self.deferred_epoch != round(self.defer * self.epochs):
            # Versions that left such a run without a deferred epoch called it by another id.
            found["deferred_epoch"] = self.deferred_epoch
        return found

    @property
    def first_stage(self) -> dict[str, Any]:
        """The settings that the epochs before the deferral depend on: DRW and its base agree."""
        if self.schedule != "drw":
            return self.identity
        return replace(self, schedule="plain").identity

    @property
    def id(self) -> str:
        """A short name of the run: what it is, and a hash of all that it depends on.

        Examples
        --------
        >>> RunConfig.resolve(data="cifar10", imbalance="exp", loss="ldam", schedule="drw").id
        'cifar10-exp100-ldam-drw-resnet8-wide-s0-...'
        """
        text = json.dumps(self.identity, sort_keys=True, separators=(",", ":"))
        words = [
            Path(self.root or "").name if self.data == "folder" else self.data,
            *([] if self.imbalance == "none" else [f"{self.imbalance}{self.ratio:g}"]),
            self.loss,
            *(word for word in (self.schedule, self.sampler) if word != "plain"),
            self.model.replace("/", "_"),
            f"s{self.seed}",
            hashlib.sha256(text.encode()).hexdigest()[:8],
        ]
        return "-".join(words)

    @property
    def deferred_epoch(self) -> int:
        """The first epoch, from 0, that DRW weighs classes in: at the latest the last.

        Examples
        --------
        >>> config = RunConfig.resolve(data="digits", schedule="drw")
        >>> config.deferred_epoch, config.differing(epochs=2).deferred_epoch
        (16, 1)
        """
        return min(round(self.defer * self.epochs), self.epochs - 1)

    def _check_numbers(self) -> None:
        check_finite_number("ratio", self.ratio, minimum=1.0)
        for name in ("lr", "scale"):
            check_finite_number(name, getattr(self, name), positive=True)
        for name in ("momentum", "weight_decay", "warmup", "defer", "beta", "gamma", "max_margin"):
            check_finite_number(name, getattr(self, name), minimum=0.0)
        for name, least in {"epochs": 1, "batch_size": 1, "evaluate_every": 1, "seed": 0}.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise OptionError(
                    f"`{name}` must be a whole number of at least {least}. Got {value!r}."
                )
        if self.image_size is not None and self.image_size < 1:
            raise OptionError(
                f"`image_size` must be the side of an image in pixels. Got {self.image_size}. Pass "
                f"for example image_size=224."
            )
        for name in ("warmup", "defer", "momentum", "beta"):
            if getattr(self, name) >= 1.0:
                raise OptionError(f"`{name}` must be below 1. Got {getattr(self, name):g}.")

    def _check_together(self) -> None:
        for milestone in self.milestones:
            if not 0.0 <= milestone < 1.0:
                raise OptionError(
                    f"`milestones` must be shares of the epochs, from 0 to below 1. Got "
                    f"{milestone:g}. Pass for example milestones=(0.8, 0.9)."
                )
        if len(self.milestones) != len(self.decays):
            raise OptionError(
                f"`decays` must have a factor for each of the {len(self.milestones)} milestones. "
                f"Got {len(self.decays)}. Pass as many of both."
            )
        if self.imbalance == "none" and self.ratio != 1.0:
            raise OptionError(
                f"`ratio` must be 1 without an imbalance. Got {self.ratio:g}. Pass "
                f"imbalance='exp' or imbalance='step' too."
            )
        if self.schedule == "drw" and LOSSES[self.loss].weights is not None:
            raise OptionError(
                f"`loss` must be one without class weights for the schedule 'drw', which defers "
                f"them. Got {self.loss!r}. Take 'ce', 'focal' or 'ldam'."
            )
        if self.schedule == "drw" and self.epochs < 2:
            raise OptionError(
                "`epochs` must be at least 2 for the schedule 'drw', which weighs classes in the "
                "last ones only. Got 1. Train for 2 or more, or without 'drw'."
            )
        if self.schedule == "bbn" and (self.loss != "ce" or self.sampler != "plain"):
            raise OptionError(
                f"`loss` and `sampler` must be 'ce' and 'plain' for the schedule 'bbn', which has "
                f"samplers of its own. Got {self.loss!r} and {self.sampler!r}. Leave both out."
            )
