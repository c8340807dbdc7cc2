"""Check and list training devices; import Lightning."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from collections.abc import Iterator
from typing import Any

import torch

from reprior.exceptions import Argument, OptionError, RepriorError, Setting, quoted
from reprior_lab.models.torchvision_operators import import_torchvision

__all__ = [
    "check_devices",
    "check_precision",
    "devices_there",
    "import_lightning",
    "list_devices",
    "trainer_device",
]

#: Strings that `devices` may be: all GPUs, or a list of their numbers.
_LISTED = re.compile(r"auto|-1|\d+(,\d+)+,?|\d+,")


def check_devices(accelerator: str, devices: int | str) -> None:
    """Raise an error if `devices` is malformed, or exceeds the CPU's cores.

    Examples
    --------
    >>> check_devices("cpu", 1)
    >>> check_devices("cpu", "abc")
    Traceback (most recent call last):
    ...
    reprior.exceptions.OptionError: `devices` must be a number of devices, indices such as 0,1, or
    auto. Got 'abc'. Pass devices=1.
    """
    number = isinstance(devices, int) and not isinstance(devices, bool)
    listed = isinstance(devices, str) and _LISTED.fullmatch(devices)
    if not listed and not (number and (int(devices) >= 1 or devices == -1)):
        raise OptionError(
            argument="devices",
            rule="must be a number of devices, indices such as 0,1, or auto",
            got=repr(devices),
            remedy=["Pass ", Setting("devices", 1), "."],
        )
    cores = os.cpu_count() or 1
    if number and int(devices) > cores and _on_the_cpu(accelerator):
        raise OptionError(
            argument="devices",
            rule=f"must be at most the CPU's {cores} cores: each device is a separate process",
            got=str(devices),
            remedy=["Pass ", Setting("devices", 1), ", which uses all cores too."],
        )


def _on_the_cpu(accelerator: str) -> bool:
    if accelerator == "auto":
        return not torch.cuda.is_available() and not torch.backends.mps.is_available()
    return accelerator == "cpu"


def check_precision(accelerator: str, precision: str) -> None:
    """Raise an error for float16 on the CPU: Lightning would silently use bfloat16 instead.

    Examples
    --------
    >>> check_precision("cpu", "bf16-mixed")
    >>> check_precision("cpu", "16-mixed")
    Traceback (most recent call last):
    ...
    reprior.exceptions.OptionError: `precision` must be '32-true' or 'bf16-mixed' on the CPU. Got
    '16-mixed', which needs a GPU.
    """
    if precision == "16-mixed" and _on_the_cpu(accelerator):
        raise OptionError(
            argument="precision",
            rule="must be '32-true' or 'bf16-mixed' on the CPU",
            got=f"{precision!r}, which needs a GPU",
        )


def list_devices(devices: int | str) -> tuple[str, ...]:
    """Return the names of the requested devices, one for each process.

    Parameters
    ----------
    devices : int or str
        The number of devices, indices such as "0,1", or "auto": all GPUs, or one device if there
        are none. On the CPU each device is a process.

    Examples
    --------
    >>> import torch
    >>> list_devices("auto") if not torch.cuda.is_available() else ("cpu",)
    ('cpu',)
    """
    if isinstance(devices, str) and devices.isdigit():
        devices = int(devices)
    check_devices("auto", devices)
    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if devices in ("auto", -1, "-1"):
        numbers = list(range(n_gpus or 1))
    elif isinstance(devices, str):
        numbers = [int(number) for number in devices.split(",") if number]
    else:
        numbers = list(range(devices))
    if n_gpus:
        _check_available(numbers, n_gpus, devices)
        return tuple(f"cuda:{number}" for number in numbers)
    if torch.backends.mps.is_available():
        _check_available(numbers, 1, devices)
        return ("mps",)
    check_devices("cpu", len(numbers))
    return ("cpu",) * len(numbers)


def _check_available(numbers: list[int], n_available: int, devices: int | str) -> None:
    if max(numbers) >= n_available or len(set(numbers)) < len(numbers):
        raise OptionError(
            argument="devices",
            rule=f"must be devices of this machine, which has {n_available}, each once",
            got=repr(devices),
            remedy=["Pass ", Setting("devices", "auto"), " for all."],
        )


def trainer_device(device: str | None) -> tuple[str, int | str]:
    """Return Lightning's accelerator and devices for one device of this machine.

    Examples
    --------
    >>> trainer_device("cuda:1"), trainer_device("cpu"), trainer_device(None)
    (('gpu', '1,'), ('cpu', 1), ('auto', 1))
    """
    if device is None:
        return "auto", 1
    kind, _, number = device.partition(":")
    return ("gpu", f"{number or 0},") if kind == "cuda" else (kind, 1)


@contextlib.contextmanager
def devices_there(accelerator: str, devices: int | str) -> Iterator[None]:
    """Convert Lightning's errors about devices into an `OptionError`."""
    exceptions = import_lightning("lightning.pytorch.utilities.exceptions")
    check_devices(accelerator, devices)
    try:
        yield
    except RepriorError:  # is a ValueError too, but needs no conversion
        raise
    except (exceptions.MisconfigurationException, TypeError, ValueError) as error:
        raise OptionError(
            [
                Argument("accelerator"),
                " and ",
                Argument("devices"),
                f" must exist on this machine. Got {accelerator!r} and {devices!r}: "
                f"{quoted(error)}. Pass ",
                Setting("accelerator", "cpu"),
                ", or 'auto'.",
            ]
        ) from error


def import_lightning(module: str = "lightning.pytorch") -> Any:
    """Import a module of Lightning, even if torchvision was built for another PyTorch version.

    Lightning imports torchmetrics, which imports torchvision. If the import of torchvision
    fails, theirs fail too.

    Examples
    --------
    >>> import_lightning().__name__
    'lightning.pytorch'
    """
    import_torchvision()
    return importlib.import_module(module)
