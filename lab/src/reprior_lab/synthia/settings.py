"""The settings of segmentation networks, and the networks of Tables 4 and 5."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from reprior.core import check_choice, check_finite_number
from reprior.exceptions import Argument, OptionError, Setting
from reprior_lab.reproduction import refuse_settings
from reprior_lab.settings import check_known, check_whole_number, declared
from reprior_lab.training.recipes import LOSSES

__all__ = [
    "AUGMENTATIONS",
    "CAMERAS",
    "DEEPLAB",
    "DEPTH_CODES",
    "FIRST_RECIPE",
    "LABELS",
    "MODALITIES",
    "NETWORKS",
    "NORMALIZATIONS",
    "PLANNED",
    "PROTOCOLS",
    "RECIPE",
    "SMALL_MODELS",
    "STRIDE",
    "NetworkSettings",
    "check_network",
    "home_of",
    "rgb_networks",
    "rgbd_networks",
]

MODALITIES = ("rgb", "depth")

#: Codes of depth: the logarithm of metres; the logarithm in the colours of the map JET; or metres
#: as a grey of eight bits, in these colours.
DEPTH_CODES = ("log", "jet", "jet8")

#: Augmentations of training frames, see :func:`~reprior_lab.synthia.batches.random_part`.
AUGMENTATIONS = ("full", "flip", "none")

#: Sources of the means and deviations that colours are normalised by.
NORMALIZATIONS = ("imagenet", "synthia")

#: Sides and views of SYNTHIA-Sequences by name.
CAMERAS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "front": (("Stereo_Left",), ("Omni_F",)),
    "all": (("Stereo_Left", "Stereo_Right"), ("Omni_B", "Omni_F", "Omni_L", "Omni_R")),
}

#: Networks of this library, and the prefix of DeepLab v3+'s names, which end with an encoder.
SMALL_MODELS, DEEPLAB = ("small", "tiny"), "deeplabv3plus-"

#: The version of everything that determines a network and its scores but is no setting: the widths
#: and dilations of its layers, the augmentation, the stride of the scores. It increases with any
#: change; a network of another recipe is not resumed. Run files without it are of the first one.
RECIPE = FIRST_RECIPE = 2

#: Pixels between scores, in both directions; these pixels are tuned and judged on.
STRIDE = 2

#: Settings that the first run files lack. Files and ids omit them at their defaults, so that both
#: stay the same.
_LATER = ("augment", "normalization", "pretrained", "cameras", "size", "test_every")

#: Differences of the paper's protocol, the authors' public code, from the defaults. Departures from
#: that code are in :data:`reprior_lab.departures.DEPARTURES`.
PROTOCOLS: dict[str, dict[str, Any]] = {
    "compact": {},
    "paper": {
        "model": "deeplabv3plus-resnet101",
        "depth_code": "jet8",
        "augment": "none",
        "normalization": "synthia",
        "cameras": "all",
        "size": (384, 768),
        "test_every": 5,
        "crop": (384, 768),
        "steps": 500_000,
        "batch_size": 4,
        "lr": 1e-5,
        "lr_schedule": "steps",
        "warmup": 0.0,
        "weight_decay": 0.0,
    },
}

#: The folder of the networks in the output folder: both tables share the network of RGB.
NETWORKS = "networks"

#: Settings that the tables and options determine.
PLANNED = ("loss", "modality", "seed")

#: Losses of Table 4 in its order, and their printed names.
LABELS = {
    "ce": "CE",
    "median_ce": "CE, median frequency",
    "max_ce": "CE, max frequency",
    "ldam": "LDAM",
    "focal": "Focal",
}


@dataclass(frozen=True, kw_only=True)
class NetworkSettings:
    """The settings of one network.

    The defaults, the protocol "compact", are for one core of a laptop: almost whole frames of
    135 × 240 pixels, 24 passes over them, scored at every second pixel each way. Whole frames
    rather than small parts, because a wall or a kerb is recognised by its place in the street.
    It replaced an earlier protocol, with parts of 96 × 192 and a decoder without convolutions at
    half the resolution, whose scores on the held-out and test frames were known. Its own settings
    were set once, beforehand: there was no search, on held-out frames or on others.

    Parameters
    ----------
    modality : {"rgb", "depth"}, default "rgb"
        The input.
    loss : str, default "ce"
        One of ``LOSSES`` of :mod:`reprior_lab.training.recipes`, per pixel.
    model : str, default "small"
        See :func:`~reprior_lab.synthia.networks.build_network`.
    depth_code : {"log", "jet", "jet8"}, default "log"
        The code of depth: "jet" colours its logarithm, "jet8" the upper eight of the sixteen bits
        in SYNTHIA-Sequences.
    crop : (int, int)
        Height and width of training parts.
    steps, batch_size : int
        Number of batches, and of parts in each. DeepLab v3+ needs at least two parts in a batch.
    lr, lr_schedule, warmup, weight_decay
        Settings of AdamW. "one_cycle" rises over the share ``warmup`` of the steps and falls along
        a cosine; "steps" stays at ``lr``.
    seed : int, default 0
        The seed of all random numbers.
    beta, gamma, max_margin, scale
        Parameters of the effective number, of the focal loss, and of LDAM.
    augment : {"full", "flip", "none"}, default "full"
        Augmentation of parts: "full" zooms, changes the light and mirrors, "flip" mirrors, "none"
        leaves them unchanged.
    normalization : {"imagenet", "synthia"}, default "imagenet"
        Means and deviations of colours, and of depth in colours.
    pretrained : bool, default False
        Whether the encoder of DeepLab v3+ starts from weights of ImageNet, which are downloaded.
    cameras : {"front", "all"}, default "front"
        Cameras of SYNTHIA-Sequences: the left one that looks ahead, or all eight.
    size : (int, int), optional
        Height and width that frames are scaled to. By default those of SYNTHIA-SF are not scaled,
        and those of SYNTHIA-Sequences become 384 × 768.
    test_every : int, default 1
        For SYNTHIA-Sequences, the interval between frames of an unseen condition to judge on.

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
    augment: str = "full"
    normalization: str = "imagenet"
    pretrained: bool = False
    cameras: str = "front"
    size: tuple[int, int] | None = None
    test_every: int = 1

    def __post_init__(self) -> None:
        check_choice("modality", self.modality, MODALITIES)
        check_choice("loss", self.loss, LOSSES)
        check_choice("depth_code", self.depth_code, DEPTH_CODES)
        check_choice("lr_schedule", self.lr_schedule, ("one_cycle", "steps"))
        check_choice("augment", self.augment, AUGMENTATIONS)
        check_choice("normalization", self.normalization, NORMALIZATIONS)
        check_choice("cameras", self.cameras, CAMERAS)
        check_network(self.model)
        for name in ("lr", "scale"):
            check_finite_number(name, getattr(self, name), positive=True)
        for name in ("warmup", "weight_decay", "beta", "gamma", "max_margin"):
            check_finite_number(name, getattr(self, name), minimum=0.0)
        for name, least in {"steps": 1, "batch_size": 1, "seed": 0, "test_every": 1}.items():
            check_whole_number(name, getattr(self, name), least)
        for name in ("crop", "size"):
            self._check_sides(name, getattr(self, name))
        if self.warmup >= 1.0:
            raise OptionError(argument="warmup", rule="must be below 1", got=f"{self.warmup:g}")
        if self.batch_size < self.least_batch:
            raise OptionError(
                argument="batch_size",
                rule=f"must be at least {self.least_batch} for {self.model!r}, which "
                "normalises a pooled feature over the batch",
                got=str(self.batch_size),
                remedy=[
                    "Take a larger batch, and a smaller ",
                    Argument("crop"),
                    " if memory is short.",
                ],
            )
        if self.pretrained and self.model in SMALL_MODELS:
            raise OptionError(
                argument="pretrained",
                rule=f"must be false for {self.model!r}, of which there are no such weights",
                got="true",
                remedy=["Take for example ", Setting("model", f"{DEEPLAB}resnet101"), "."],
            )

    def _check_sides(self, name: str, sides: Any) -> None:
        if sides is None and name == "size":
            return
        object.__setattr__(self, name, tuple(sides))
        if len(sides) != 2:
            raise OptionError(
                argument=name, rule="must be a height and a width", got=repr(tuple(sides))
            )
        for value in sides:
            check_whole_number(name, value, 8)

    @classmethod
    def resolve(cls, protocol: str = "compact", **differing: Any) -> NetworkSettings:
        """Return the settings of a protocol with some changed.

        Examples
        --------
        >>> NetworkSettings.resolve("paper", modality="depth").model
        'deeplabv3plus-resnet101'
        """
        check_choice("protocol", protocol, PROTOCOLS)
        return cls.from_dict(PROTOCOLS[protocol] | differing)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> NetworkSettings:
        """Return settings from a mapping; missing ones have their defaults."""
        check_known(cls, document, "network")
        return cls(**declared(cls, document))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, ready for JSON.

        Settings that the first run files lack are omitted at their defaults.
        """
        defaults = {field.name: field.default for field in fields(self)}
        return {
            key: value
            for key, value in self.all_settings().items()
            if key not in _LATER or value != defaults[key]
        }

    def all_settings(self) -> dict[str, Any]:
        """Return all settings, those at their defaults too, ready for JSON.

        Examples
        --------
        >>> settings = NetworkSettings(cameras="all")
        >>> sorted({*settings.all_settings()} - {*settings.to_dict()})
        ['augment', 'normalization', 'pretrained', 'size', 'test_every']
        """
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
        }

    def differing(self, **changes: Any) -> NetworkSettings:
        """Return the settings with other values of some."""
        check_known(type(self), changes, "network")
        return replace(self, **declared(type(self), changes))

    @property
    def id(self) -> str:
        """A short name: the main settings, and a hash of all that the result depends on."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{self.modality}-{self.loss}-{self.model}-s{self.seed}-{digest}"

    @property
    def head(self) -> str:
        """The last layer that the loss needs."""
        return LOSSES[self.loss].head

    @property
    def least_batch(self) -> int:
        """The least number of parts in a training batch.

        DeepLab v3+ pools its features to one number per channel and normalises it over the batch,
        which needs two.
        """
        return 2 if self.model.startswith(DEEPLAB) else 1

    @property
    def logit_scale(self) -> float:
        """The factor from the network's output to logits."""
        return self.scale if self.head == "cosine" else 1.0

    @property
    def focal_reduction(self) -> str:
        """Always "mean": segmentation has no other."""
        return "mean"

    # Learning rates count in epochs: a run is one long epoch.
    @property
    def epochs(self) -> int:
        """Always 1: the length of a run is given in steps."""
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
    """Refuse an unknown name of a segmentation network.

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
            argument="model",
            rule=f"must be one of {', '.join(map(repr, SMALL_MODELS))} or '{DEEPLAB}ENCODER'",
            got=repr(name),
            remedy=f"Take for example '{DEEPLAB}resnet101'.",
        )


def rgb_networks(
    *, protocol: str = "compact", seed: int = 0, settings: Mapping[str, Any] | None = None
) -> tuple[NetworkSettings, ...]:
    """Return the networks of Table 4: one for each loss.

    Parameters
    ----------
    protocol : {"compact", "paper"}
        The defaults of all settings.
    seed : int, default 0
        The seed of all random numbers.
    settings : mapping, optional
        Settings of all networks that differ from the protocol.

    Examples
    --------
    >>> [network.loss for network in rgb_networks()]
    ['ce', 'median_ce', 'max_ce', 'ldam', 'focal']
    """
    return tuple(_network(protocol, seed, settings, "rgb", loss) for loss in LABELS)


def rgbd_networks(
    *, protocol: str = "compact", seed: int = 0, settings: Mapping[str, Any] | None = None
) -> tuple[NetworkSettings, NetworkSettings]:
    """Return the networks of Table 5: RGB and depth, both trained with cross-entropy.

    Examples
    --------
    >>> rgbd_networks()[0] == rgb_networks()[0]
    True
    """
    rgb, depth = (
        _network(protocol, seed, settings, modality, "ce") for modality in ("rgb", "depth")
    )
    return rgb, depth


def home_of(folder: Path, settings: NetworkSettings) -> Path:
    """Return the folder of a network.

    Examples
    --------
    >>> home_of(Path("out"), NetworkSettings()).parent.as_posix()
    'out/networks'
    """
    return folder / NETWORKS / settings.id


def _network(
    protocol: str, seed: int, settings: Mapping[str, Any] | None, modality: str, loss: str
) -> NetworkSettings:
    changed = dict(settings or {})
    refuse_settings(changed, PLANNED)
    return NetworkSettings.resolve(protocol, seed=seed, modality=modality, loss=loss, **changed)
