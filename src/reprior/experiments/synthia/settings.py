"""What a segmentation network is trained with: every choice its scores depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from reprior.core.checks import check_choice, check_finite_number
from reprior.exceptions import OptionError
from reprior.experiments.setting_values import check_known, declared
from reprior.experiments.synthia.inputs import DEPTH_CODES, MODALITIES
from reprior.experiments.training.recipes import LOSSES

__all__ = [
    "DEEPLAB",
    "FIRST_RECIPE",
    "PROTOCOLS",
    "RECIPE",
    "SMALL_MODELS",
    "STRIDE",
    "NetworkSettings",
    "check_network",
]

#: Networks of this library, and how the names of DeepLab v3+ begin, an encoder behind it.
SMALL_MODELS, DEEPLAB = ("small", "tiny"), "deeplabv3plus-"

#: Which recipe this is, of all that shapes a network and its scores and is no setting: the widths
#: and dilations of its layers, how parts are zoomed and lit, the stride of the scores. It goes up
#: with any of them; a network of another recipe is not gone on with. Run files that do not say are
#: of the first that was kept.
RECIPE = FIRST_RECIPE = 2

#: Pixels from one score to the next, each way: what is tuned and judged on.
STRIDE = 2

#: What differs from the defaults in the protocol of the paper.
PROTOCOLS: dict[str, dict[str, Any]] = {
    "compact": {},
    "paper": {
        "model": "deeplabv3plus-resnet101",
        "depth_code": "jet",
        "crop": (384, 768),
        "steps": 500_000,
        "batch_size": 4,
        "lr": 1e-5,
        "lr_schedule": "steps",
        "warmup": 0.0,
        "weight_decay": 0.0,
    },
}


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """The settings of one network.

    The defaults, the protocol "compact", are for one core of a laptop: all but whole frames of
    135 × 240 pixels, 24 passes over them, scored at every second pixel each way. Whole frames
    rather than small parts, because what a wall or a kerb is shows by where in the street it is.
    It took the place of an earlier one, of parts of 96 × 192 and a decoder without convolutions at
    half the resolution, of which the scores on the held-out and the test frames were known. Its
    own settings were set once, beforehand: there was no search, on held-out frames or on others.

    Parameters
    ----------
    modality : {"rgb", "depth"}, default "rgb"
        What it sees.
    loss : str, default "ce"
        One of ``LOSSES`` of :mod:`reprior.experiments.training.recipes`, per pixel.
    model : str, default "small"
        See :func:`~reprior.experiments.synthia.networks.build_network`.
    depth_code : {"log", "jet"}, default "log"
        How depth goes in.
    crop : (int, int)
        Height and width of the parts it learns from.
    steps, batch_size : int
        How many batches, of how many parts.
    lr, lr_schedule, warmup, weight_decay
        Of AdamW. "one_cycle" rises over the share ``warmup`` of the steps and falls along a
        cosine; "steps" stays at ``lr``.
    seed : int, default 0
        Of everything random.
    beta, gamma, max_margin, scale
        Of the effective number, of Focal, and of LDAM.

    Examples
    --------
    >>> NetworkSettings(loss="focal").differing(modality="depth").id
    'depth-focal-small-s0-...'
    """

    modality: str = "rgb"
    loss: str = "ce"
    model: str = "small"
    depth_code: str = "log"
    crop: tuple[int, int] = (128, 224)
    steps: int = 1248
    batch_size: int = 4
    lr: float = 4e-3
    lr_schedule: str = "one_cycle"
    warmup: float = 0.1
    weight_decay: float = 0.01
    seed: int = 0
    beta: float = 0.9999
    gamma: float = 1.0
    max_margin: float = 0.5
    scale: float = 30.0

    def __post_init__(self) -> None:
        check_choice("modality", self.modality, MODALITIES)
        check_choice("loss", self.loss, LOSSES)
        check_choice("depth_code", self.depth_code, DEPTH_CODES)
        check_choice("lr_schedule", self.lr_schedule, ("one_cycle", "steps"))
        check_network(self.model)
        object.__setattr__(self, "crop", tuple(self.crop))
        for name in ("lr", "scale"):
            check_finite_number(name, getattr(self, name), positive=True)
        for name in ("warmup", "weight_decay", "beta", "gamma", "max_margin"):
            check_finite_number(name, getattr(self, name), minimum=0.0)
        for name, least in {"steps": 1, "batch_size": 1, "seed": 0}.items():
            _check_whole(name, getattr(self, name), least)
        if len(self.crop) != 2:
            raise OptionError(f"`crop` must be a height and a width. Got {self.crop!r}.")
        for value in self.crop:
            _check_whole("crop", value, 8)
        if self.warmup >= 1.0:
            raise OptionError(f"`warmup` must be below 1. Got {self.warmup:g}.")

    @classmethod
    def resolve(cls, protocol: str = "compact", **differing: Any) -> NetworkSettings:
        """Return the settings of a protocol with what differs from it.

        Examples
        --------
        >>> NetworkSettings.resolve("paper", modality="depth").model
        'deeplabv3plus-resnet101'
        """
        check_choice("protocol", protocol, PROTOCOLS)
        return cls.from_dict(PROTOCOLS[protocol] | differing)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> NetworkSettings:
        """Return settings from a mapping; what it leaves out is the default."""
        check_known(cls, document, "network")
        return cls(**declared(cls, document))

    def to_dict(self) -> dict[str, Any]:
        """Return all settings, ready for JSON."""
        return asdict(self) | {"crop": list(self.crop)}

    def differing(self, **changes: Any) -> NetworkSettings:
        """Return the settings with other values of some."""
        check_known(type(self), changes, "network")
        return replace(self, **declared(type(self), changes))

    @property
    def id(self) -> str:
        """A short name: what it is, and a hash of all that it depends on."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{self.modality}-{self.loss}-{self.model}-s{self.seed}-{digest}"

    @property
    def head(self) -> str:
        """The last layer that the loss needs."""
        return LOSSES[self.loss].head

    @property
    def logit_scale(self) -> float:
        """What the network's output is multiplied by to be a logit."""
        return self.scale if self.head == "cosine" else 1.0

    # For learning rates, which count in epochs, a run is one long epoch.
    @property
    def epochs(self) -> int:
        """1: the length of a run is said in steps."""
        return 1

    @property
    def milestones(self) -> tuple[float, ...]:
        """None."""
        return ()

    @property
    def decays(self) -> tuple[float, ...]:
        """None."""
        return ()


def check_network(name: str) -> None:
    """Refuse the name of a segmentation network that there is none of.

    Examples
    --------
    >>> check_network("tiny")
    >>> check_network("foo")
    Traceback (most recent call last):
    ...
    reprior.exceptions.OptionError: `model` must be one of 'small', 'tiny' or
    'deeplabv3plus-ENCODER'. Got 'foo'. Take for example 'deeplabv3plus-resnet101'.
    """
    if name not in SMALL_MODELS and not name.startswith(DEEPLAB):
        raise OptionError(
            f"`model` must be one of {', '.join(map(repr, SMALL_MODELS))} or '{DEEPLAB}ENCODER'. "
            f"Got {name!r}. Take for example '{DEEPLAB}resnet101'."
        )


def _check_whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise OptionError(f"`{name}` must be a whole number of at least {least}. Got {value!r}.")
