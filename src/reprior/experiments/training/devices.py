"""Which devices a run is trained on: refused in words before anything is started."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

import torch

from reprior.exceptions import OptionError, RepriorError
from reprior.experiments.training.lightning_library import require_lightning

__all__ = ["check_devices", "devices_there"]

#: All of them, or their numbers.
_LISTED = re.compile(r"auto|-1|\d+(,\d+)+,?|\d+,")


def check_devices(accelerator: str, devices: int | str) -> None:
    """Refuse what is no number of devices, and more processes than the CPU has cores.

    Examples
    --------
    >>> check_devices("cpu", 1)
    >>> check_devices("cpu", "abc")
    Traceback (most recent call last):
    ...
    reprior.exceptions.OptionError: `devices` must be how many, their numbers such as 0,1, or auto.
    Got 'abc'. Pass devices=1.
    """
    number = isinstance(devices, int) and not isinstance(devices, bool)
    listed = isinstance(devices, str) and _LISTED.fullmatch(devices)
    if not listed and not (number and (int(devices) >= 1 or devices == -1)):
        raise OptionError(
            f"`devices` must be how many, their numbers such as 0,1, or auto. Got {devices!r}. "
            f"Pass devices=1."
        )
    cores = os.cpu_count() or 1
    if number and int(devices) > cores and _on_the_cpu(accelerator):
        raise OptionError(
            f"`devices` must be at most the CPU's {cores} cores: each is a process of its own. Got "
            f"{devices}. Pass devices=1, which uses all cores too."
        )


def _on_the_cpu(accelerator: str) -> bool:
    if accelerator == "auto":
        return not torch.cuda.is_available() and not torch.backends.mps.is_available()
    return accelerator == "cpu"


@contextlib.contextmanager
def devices_there(accelerator: str, devices: int | str) -> Iterator[None]:
    """Put Lightning's refusal of a device into a sentence."""
    trouble = require_lightning("lightning.pytorch.utilities.exceptions").MisconfigurationException
    check_devices(accelerator, devices)
    try:
        yield
    except RepriorError:  # a ValueError too, and a sentence already
        raise
    except (trouble, TypeError, ValueError) as error:
        raise OptionError(
            f"`accelerator` and `devices` must be ones of this machine. Got {accelerator!r} and "
            f"{devices!r}: {' '.join(str(error).split())} Pass accelerator='cpu', or 'auto'."
        ) from error
