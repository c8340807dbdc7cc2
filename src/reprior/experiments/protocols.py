"""Training protocols, as data: what a run is when nothing else is said.

``paper`` is the recipe of the compared methods' public code, which the paper's tables stand on.
``compact`` is for a laptop: the same methods with a small ResNet and a one-cycle schedule, some
two minutes a run on two cores; a step imbalance has twice the images and gets half the epochs. It
was chosen among five by the error of cross-entropy on CIFAR-10 exp-100. Epochs of a step, and of
the deferral of weights, are shares of all epochs, so that a run of another length keeps the shape
of its schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from reprior.core.checks import check_choice

__all__ = ["PROTOCOLS", "protocol_defaults"]

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
}

PROTOCOLS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"compact": MappingProxyType(_COMPACT), "paper": MappingProxyType(_PAPER)}
)

#: What a schedule, a data set or an imbalance changes in a protocol.
_EXCEPTIONS: dict[tuple[str, str], dict[str, Any]] = {
    ("compact", "step"): {"epochs": 10},
    ("paper", "bbn"): {
        "nesterov": True,
        "milestones": (0.6, 0.8),
        "decays": (0.01, 0.0001),
    },
    ("paper", "inaturalist2018"): {
        "model": "resnet50",
        "epochs": 90,
        "weight_decay": 1e-4,
        "batch_size": 256,
    },
}

#: The toy sets have a network and a length of their own: full convergence takes seconds.
_TOY: dict[str, Any] = {"model": "toy", "epochs": 30, "lr": 0.1, "weight_decay": 0.0}


def protocol_defaults(
    protocol: str, *, data: str, schedule: str, imbalance: str = "none"
) -> dict[str, Any]:
    """Return what a protocol says for a data set, its imbalance and a schedule.

    Examples
    --------
    >>> protocol_defaults("paper", data="cifar10", schedule="bbn")["milestones"]
    (0.6, 0.8)
    """
    check_choice("protocol", protocol, PROTOCOLS)
    found = dict(PROTOCOLS[protocol])
    for key in (schedule, data, imbalance):
        found |= _EXCEPTIONS.get((protocol, key), {})
    return found | (_TOY if data in ("moons", "circles") else {})
