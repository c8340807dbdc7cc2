"""Which networks Tables 4 and 5 need, and what is asked of each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reprior.experiments.cells import refuse_settings
from reprior.experiments.synthia.settings import NetworkSettings

__all__ = ["LABELS", "NETWORKS", "PLANNED", "home_of", "rgb_networks", "rgbd_networks"]

#: The folder of the networks in that of a reproduction: both tables share the network of RGB.
NETWORKS = "networks"

#: Settings that the tables and options say.
PLANNED = ("loss", "modality", "seed")

#: Losses of Table 4 in its order, and how they are printed.
LABELS = {
    "ce": "CE",
    "median_ce": "CE, median frequency",
    "max_ce": "CE, max frequency",
    "ldam": "LDAM",
    "focal": "Focal",
}


def rgb_networks(
    *, protocol: str = "compact", seed: int = 0, settings: Mapping[str, Any] | None = None
) -> tuple[NetworkSettings, ...]:
    """Return the networks of Table 4: one for each loss.

    Parameters
    ----------
    protocol : {"compact", "paper"}
        What is not said otherwise.
    seed : int, default 0
        Of everything random.
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
    """Return where a network is kept.

    Examples
    --------
    >>> home_of(Path("out"), NetworkSettings()).parent.as_posix()
    'out/networks'
    """
    return folder / NETWORKS / settings.id


def _network(
    protocol: str, seed: int, settings: Mapping[str, Any] | None, modality: str, loss: str
) -> NetworkSettings:
    own = dict(settings or {})
    refuse_settings(own, PLANNED)
    return NetworkSettings.resolve(protocol, seed=seed, modality=modality, loss=loss, **own)
