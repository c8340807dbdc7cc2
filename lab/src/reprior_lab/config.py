"""The configuration of a run: all settings that its result depends on, and their protocols.

``paper`` is the recipe of the compared methods' public code, on which the paper's tables are
based. ``compact`` is for a laptop: the same methods with a small ResNet and a one-cycle schedule,
about two minutes per run on two cores; a step imbalance has twice the images and half the epochs.
It was chosen among five by the error of cross-entropy on CIFAR-10 exp-100. Milestones, and the
deferral of weights, are shares of all epochs, so that a run of another length keeps the shape of
its schedule.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from reprior.core import check_choice, check_finite_number
from reprior.exceptions import Argument, OptionError, Setting
from reprior_lab.data.imbalance import IMBALANCES
from reprior_lab.data.registry import data_names
from reprior_lab.settings import check_known, check_whole_number, declared, keys_of
from reprior_lab.training.recipes import LOSSES

__all__ = [
    "FOCAL_REDUCTIONS",
    "LR_SCHEDULES",
    "METHODS",
    "PRECISIONS",
    "PROTOCOLS",
    "SAMPLERS",
    "SCHEDULES",
    "RunConfig",
    "protocol_defaults",
]

#: The compared methods: rows of the tables, in order. The last is a later method that is not in
#: the paper.
METHODS: dict[str, dict[str, Any]] = {
    "ce": {"loss": "ce"},
    "focal": {"loss": "focal"},
    "ldam": {"loss": "ldam"},
    "cb_ce": {"loss": "cb_ce"},
    "cb_focal": {"loss": "cb_focal"},
    "ce-drw": {"loss": "ce", "schedule": "drw"},
    "focal-drw": {"loss": "focal", "schedule": "drw"},
    "ldam-drw": {"loss": "ldam", "schedule": "drw"},
    "bbn": {"loss": "ce", "schedule": "bbn"},
    "logit_adjusted": {"loss": "logit_adjusted"},
}

SCHEDULES = ("plain", "drw", "bbn")
SAMPLERS = ("plain", "over", "under", "reversed", "smote", "adasyn")
LR_SCHEDULES = ("one_cycle", "steps", "cosine")
PRECISIONS = ("32-true", "16-mixed", "bf16-mixed")
FOCAL_REDUCTIONS = ("mean", "plain_mean")
LOGGERS = ("csv", "tensorboard", "mlflow")

#: The default ratio of an imbalance.
DEFAULT_RATIO = 100.0

#: Fields that a result does not depend on: the data folder, the protocol's name, and how often
#: the network was evaluated during training.
_NOT_IDENTITY = ("root", "protocol", "evaluate_every")

#: Settings that run files of earlier versions lack, with the values they were trained with. At
#: these values they are not part of the identity, so that ids do not change.
_ADDED: dict[str, Any] = {"precision": "32-true", "accumulate": 1, "focal_reduction": "mean"}

#: Losses that ``focal_reduction`` is for.
_FOCAL = ("focal", "cb_focal")

_COMMON: dict[str, Any] = {
    "batch_size": 128,
    "momentum": 0.9,
    "defer": 0.8,
    "beta": 0.9999,
    "gamma": 1.0,
    "max_margin": 0.5,
    "scale": 30.0,
}

_COMPACT: dict[str, Any] = {
    **_COMMON,
    "model": "resnet8-wide",
    "epochs": 20,
    "batch_size": 64,
    "lr": 0.1,
    "nesterov": True,
    "weight_decay": 5e-4,
    "lr_schedule": "one_cycle",
    "warmup": 0.2,
    "milestones": (),
    "decays": (),
    "evaluate_every": 10,
}

_PAPER: dict[str, Any] = {
    **_COMMON,
    "model": "resnet32",
    "epochs": 200,
    "lr": 0.1,
    "nesterov": False,
    "weight_decay": 2e-4,
    "lr_schedule": "steps",
    "warmup": 0.025,  # 5 epochs of 200
    "milestones": (0.8, 0.9),
    "decays": (0.01, 0.0001),
    "evaluate_every": 1,
    "focal_reduction": "plain_mean",
}

PROTOCOLS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"compact": MappingProxyType(_COMPACT), "paper": MappingProxyType(_PAPER)}
)

#: Changes of a protocol by schedule, data set or imbalance. iNaturalist follows the ResNet-50 of
#: the class-balanced loss's code, BBN on it BBN's own code: see :mod:`reprior_lab.departures`.
_EXCEPTIONS: dict[tuple[str, ...], dict[str, Any]] = {
    ("compact", "step"): {"epochs": 10},
    ("paper", "bbn"): {
        "nesterov": True,
        "milestones": (0.6, 0.8),
        "decays": (0.01, 0.0001),
    },
    ("paper", "inaturalist2018"): {
        "model": "resnet50",
        "epochs": 90,
        "nesterov": True,
        "weight_decay": 1e-4,
        "batch_size": 256,
        "warmup": 5 / 90,
        "milestones": (30 / 90, 60 / 90, 80 / 90),
        "decays": (0.1, 0.01, 0.001),
    },
    ("paper", "inaturalist2018", "bbn"): {
        "epochs": 180,
        "lr": 0.05,
        "batch_size": 128,
        "warmup": 0.0,
        "milestones": (120 / 180, 160 / 180),
        "decays": (0.1, 0.01),
    },
}

#: The toy sets have their own network and number of epochs: full convergence takes seconds.
_TOY: dict[str, Any] = {"model": "toy", "epochs": 30, "lr": 0.1, "weight_decay": 0.0}


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """The resolved configuration of one training run.

    Create one with :meth:`resolve`, from a protocol and the settings that differ from it.

    Parameters
    ----------
    data : str
        The data set, see :func:`reprior_lab.data.open_data`.
    root : str, optional
        The folder of the data set.
    imbalance, ratio
        The imbalance of the training part.
    loss : str
        One of ``LOSSES``: "ce", "focal", "ldam", "cb_ce", "cb_focal", "median_ce", "max_ce",
        "logit_adjusted", and registered ones.
    schedule : {"plain", "drw", "bbn"}
        "drw" weights classes by their effective number from ``defer`` on; "bbn" is the
        bilateral-branch network.
    sampler : {"plain", "over", "under", "reversed", "smote", "adasyn"}
        How the samples of an epoch are drawn.
    model, protocol, seed, epochs, batch_size, lr, momentum, nesterov, weight_decay
        The usual meanings. ``batch_size`` is that of all devices together.
    lr_schedule : {"one_cycle", "steps", "cosine"}
        See :mod:`reprior_lab.training.schedules`.
    warmup, milestones, decays
        Share of the epochs in which the rate rises; shares after which it is multiplied, and
        the factors.
    defer : float
        Share of the epochs after which DRW weights classes: at the latest in the last epoch.
    beta, gamma, max_margin, scale
        Parameters of the effective number, of the focal loss, and of LDAM.
    image_size : int, optional
        Side length that images are scaled to.
    evaluate_every : int
        Number of epochs between evaluations of the test part; the last epoch is always evaluated.
    precision : {"32-true", "16-mixed", "bf16-mixed"}, default "32-true"
        The precision of the network's arithmetic, as in ``lightning.pytorch.Trainer``. The loss
        scale of "16-mixed" is reset when a run is resumed.
    accumulate : int, default 1
        Parts of a batch whose gradients are summed before a step: a forward pass has
        ``batch_size / accumulate`` samples of all devices together. Batch normalisation and
        weighted means are then those of a part, so that results differ.
    focal_reduction : {"mean", "plain_mean"}, default "mean"
        The reduction of the focal loss, see :class:`~reprior.torch.losses.FocalLoss`.
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
    precision: str = "32-true"
    accumulate: int = 1
    focal_reduction: str = "mean"

    def __post_init__(self) -> None:
        check_choice("data", self.data, data_names())
        check_choice("imbalance", self.imbalance, IMBALANCES)
        check_choice("loss", self.loss, LOSSES)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("sampler", self.sampler, SAMPLERS)
        check_choice("lr_schedule", self.lr_schedule, LR_SCHEDULES)
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("focal_reduction", self.focal_reduction, FOCAL_REDUCTIONS)
        self._check_numbers()
        self._check_together()

    @classmethod
    def resolve(cls, protocol: str = "compact", **differing: Any) -> RunConfig:
        """Return a protocol's configuration with some settings changed.

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
            "data": "digits",
            "root": None,
            "imbalance": "none",
            "loss": "ce",
            "schedule": "plain",
            "sampler": "plain",
            "seed": 0,
            "image_size": None,
        } | given
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
        """Return the configuration that :meth:`to_dict` wrote, in this version or an earlier one.

        Examples
        --------
        >>> config = RunConfig.resolve(data="digits")
        >>> RunConfig.from_dict(config.to_dict()) == config
        True
        """
        check_known(cls, document, "run")
        missing = sorted(set(keys_of(cls)) - set(document) - set(_ADDED))
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
        identity = {k: v for k, v in self.to_dict().items() if k not in _NOT_IDENTITY}
        for key, value in _ADDED.items():
            if identity[key] == value or (key == "focal_reduction" and self.loss not in _FOCAL):
                del identity[key]
        if self.data == "folder":
            identity["folder"] = Path(self.root or "").name
        if self.schedule == "drw" and self.deferred_epoch != round(self.defer * self.epochs):
            # Earlier versions trained such a run without a deferred epoch, under another id.
            identity["deferred_epoch"] = self.deferred_epoch
        return identity

    @property
    def first_stage(self) -> dict[str, Any]:
        """The settings of the epochs before the deferral, which DRW and its base share."""
        if self.schedule != "drw":
            return self.identity
        return replace(self, schedule="plain").identity

    @property
    def id(self) -> str:
        """A short name of the run: its main settings, and a hash of all that it depends on.

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
        """The first epoch, from 0, in which DRW weights classes: at the latest the last.

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
        for name, least in {
            "epochs": 1,
            "batch_size": 1,
            "evaluate_every": 1,
            "seed": 0,
            "accumulate": 1,
        }.items():
            check_whole_number(name, getattr(self, name), least)
        if self.image_size is not None and self.image_size < 1:
            raise OptionError(
                argument="image_size",
                rule="must be the side of an image in pixels",
                got=str(self.image_size),
                remedy=["Pass for example ", Setting("image_size", 224), "."],
            )
        for name in ("warmup", "defer", "momentum", "beta"):
            if getattr(self, name) >= 1.0:
                raise OptionError(
                    argument=name, rule="must be below 1", got=f"{getattr(self, name):g}"
                )

    def _check_together(self) -> None:
        if self.batch_size % self.accumulate:
            raise OptionError(
                argument="accumulate",
                rule=f"must divide the batch size, {self.batch_size}, into equal parts",
                got=str(self.accumulate),
                remedy=["Pass for example ", Setting("accumulate", 1), "."],
            )
        for milestone in self.milestones:
            if not 0.0 <= milestone < 1.0:
                raise OptionError(
                    argument="milestones",
                    rule="must be shares of the epochs, from 0 to below 1",
                    got=f"{milestone:g}",
                    remedy=["Pass for example ", Setting("milestones", (0.8, 0.9)), "."],
                )
        if len(self.milestones) != len(self.decays):
            raise OptionError(
                argument="decays",
                rule=f"must have a factor for each of the {len(self.milestones)} milestones",
                got=str(len(self.decays)),
                remedy="Pass as many of both.",
            )
        if self.imbalance == "none" and self.ratio != 1.0:
            raise OptionError(
                argument="ratio",
                rule="must be 1 without an imbalance",
                got=f"{self.ratio:g}",
                remedy=[
                    "Pass ",
                    Setting("imbalance", "exp"),
                    " or ",
                    Setting("imbalance", "step"),
                    " too.",
                ],
            )
        if self.schedule == "drw" and LOSSES[self.loss].weights is not None:
            raise OptionError(
                argument="loss",
                rule="must be one without class weights for the schedule 'drw', which defers them",
                got=repr(self.loss),
                remedy="Take 'ce', 'focal' or 'ldam'.",
            )
        if self.schedule == "drw" and self.epochs < 2:
            raise OptionError(
                argument="epochs",
                rule="must be at least 2 for the schedule 'drw', which weighs "
                "classes in the last ones only",
                got="1",
                remedy="Train for 2 or more, or without 'drw'.",
            )
        if self.schedule == "bbn" and (self.loss != "ce" or self.sampler != "plain"):
            raise OptionError(
                [
                    Argument("loss"),
                    " and ",
                    Argument("sampler"),
                    " must be 'ce' and 'plain' for the schedule 'bbn', which has "
                    "samplers of its own.",
                ],
                got=f"{self.loss!r} and {self.sampler!r}",
                remedy="Leave both out.",
            )


def protocol_defaults(
    protocol: str, *, data: str, schedule: str, imbalance: str = "none"
) -> dict[str, Any]:
    """Return a protocol's settings for a data set, its imbalance and a schedule.

    Examples
    --------
    >>> protocol_defaults("paper", data="cifar10", schedule="bbn")["milestones"]
    (0.6, 0.8)
    """
    check_choice("protocol", protocol, PROTOCOLS)
    defaults = dict(PROTOCOLS[protocol])
    for key in ((schedule,), (data,), (data, schedule), (imbalance,)):
        defaults |= _EXCEPTIONS.get((protocol, *key), {})
    return defaults | (_TOY if data in ("moons", "circles") else {})
