"""Networks by name. Listing the names does not import PyTorch."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from reprior.exceptions import OptionError

if TYPE_CHECKING:
    from torch import nn

    from reprior_lab.models.classifier import Body

__all__ = ["OWN", "build_model", "check_model", "unknown_model"]

#: Networks of this library: the first for feature vectors, the others for small images.
OWN = ("toy", "resnet8", "resnet8-wide", "resnet14", "resnet20", "resnet32", "resnet56")

#: How many names are suggested.
NEAREST = 3

#: The network for feature vectors.
FLAT = "toy"


def check_model(name: str) -> None:
    """Raise an error if a name is not a network of this library or of timm.

    Examples
    --------
    >>> check_model("resnet32")
    """
    if name in OWN:
        return
    from reprior_lab.models.timm_models import timm_names

    known = timm_names()
    if name not in known:
        raise unknown_model(name, known)


def unknown_model(name: str, known: list[str]) -> OptionError:
    """Return the error for an unknown name, with this library's names and the closest ones.

    Examples
    --------
    >>> str(unknown_model("resnet8-wise", ["resnet50"])).partition("timm. ")[2][:52]
    "Got 'resnet8-wise'. Did you mean 'resnet8-wide' or '"
    """
    near = difflib.get_close_matches(name, [*OWN, *known], n=NEAREST)
    hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    return OptionError(
        argument="model",
        rule=f"must be one of {', '.join(OWN)}, or a network of timm",
        got=repr(name),
        remedy=f"{hint}timm.list_models() lists all of timm's names.",
    )


def build_model(
    name: str,
    n_classes: int,
    n_channels: int = 3,
    *,
    flat: bool = False,
    head: str = "linear",
    branches: int = 1,
) -> nn.Module:
    """Return an untrained network, initialised by PyTorch's global random generator.

    Parameters
    ----------
    name : str
        "toy", "resnet8", "resnet14", "resnet20", "resnet32", "resnet56", or a name in timm.
    n_classes : int
        K.
    n_channels : int, default 3
        Channels of the images, or features.
    flat : bool, default False
        Whether samples are feature vectors; "toy" takes only these.
    head : {"linear", "cosine"}, default "linear"
        The last layer.
    branches : {1, 2}, default 1
        2 for :class:`~reprior_lab.models.bbn.BilateralBranch`.

    Examples
    --------
    >>> model = build_model("resnet32", 10)
    >>> sum(weights.numel() for weights in model.parameters())
    464154
    """
    from reprior_lab.models.bbn import BilateralBranch
    from reprior_lab.models.classifier import Classifier

    if flat != (name == FLAT):
        takes = "images" if flat else "feature vectors"
        raise OptionError(
            argument="model",
            rule="must suit the data",
            got=f"{name!r}, which takes {takes}",
            remedy=f"Take {'toy' if flat else 'resnet8'}.",
        )
    if branches == 2 and head != "linear":
        raise OptionError(
            argument="head",
            rule="must be 'linear' with two branches",
            got=repr(head),
            remedy="BBN is trained with cross-entropy.",
        )
    body = _body(name, n_channels, split=branches == 2)
    if branches == 2:
        return BilateralBranch(body, n_classes)
    return Classifier(body, n_classes, head)


def _body(name: str, n_channels: int, *, split: bool) -> Body:
    from reprior_lab.models.classifier import toy_body
    from reprior_lab.models.resnet import RESNETS, resnet_body
    from reprior_lab.models.timm_models import timm_body

    if name == FLAT:
        return toy_body(n_channels)
    if name in RESNETS:
        return resnet_body(name, n_channels)
    return timm_body(name, n_channels, split=split)
