"""Which networks there are, known without PyTorch: settings are checked where nothing is trained.

The networks themselves are in :mod:`reprior.experiments.models`.
"""

from __future__ import annotations

import difflib
from contextlib import suppress

from reprior.exceptions import MissingDependencyError, OptionError

__all__ = ["OWN", "check_model", "unknown_model"]

#: Networks of this library: for feature vectors the first, for small images the others.
OWN = ("toy", "resnet8", "resnet8-wide", "resnet14", "resnet20", "resnet32", "resnet56")

#: How many names are suggested.
NEAREST = 3


def check_model(name: str) -> None:
    """Refuse the name of a network that neither this library nor timm has.

    Where timm is not installed, other names than our own are let through: whoever builds the
    network says what is missing.

    Examples
    --------
    >>> check_model("resnet32")
    """
    if name in OWN:
        return
    with suppress(MissingDependencyError):
        from reprior.experiments.models.timm_models import timm_names

        known = timm_names(f"For the model {name!r}")
        if name not in known:
            raise unknown_model(name, known)


def unknown_model(name: str, known: list[str]) -> OptionError:
    """Return the error that answers a name, with our own names and the nearest few of all.

    Examples
    --------
    >>> str(unknown_model("resnet8-wise", ["resnet50"])).partition("timm. ")[2][:52]
    "Got 'resnet8-wise'. Did you mean 'resnet8-wide' or '"
    """
    near = difflib.get_close_matches(name, [*OWN, *known], n=NEAREST)
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    return OptionError(
        f"`model` must be one of {', '.join(OWN)}, or a network of timm. Got {name!r}. {hint}"
        f"timm.list_models() has all its names."
    )
