"""Networks by name."""

from __future__ import annotations

from torch import nn

from reprior.exceptions import MissingDependencyError, OptionError
from reprior.experiments.model_names import OWN
from reprior.experiments.models.bbn import BilateralBranch
from reprior.experiments.models.classifier import Body, Classifier
from reprior.experiments.models.resnet import RESNETS, resnet_body
from reprior.experiments.models.timm_models import timm_body
from reprior.experiments.models.toy_net import toy_body

__all__ = ["build_model"]

#: For samples that are feature vectors.
FLAT = "toy"


def build_model(
    name: str,
    n_classes: int,
    n_channels: int = 3,
    *,
    flat: bool = False,
    head: str = "linear",
    branches: int = 1,
) -> nn.Module:
    """Return an untrained network, from the global random generator of PyTorch.

    Parameters
    ----------
    name : str
        "toy", "resnet8", "resnet14", "resnet20", "resnet32", "resnet56", or a name of timm.
    n_classes : int
        K.
    n_channels : int, default 3
        Channels of the images, or features.
    flat : bool, default False
        Whether samples are feature vectors; "toy" takes these and no images.
    head : {"linear", "cosine"}, default "linear"
        The last layer.
    branches : {1, 2}, default 1
        2 for :class:`~reprior.experiments.models.bbn.BilateralBranch`.

    Examples
    --------
    >>> model = build_model("resnet32", 10)
    >>> sum(weights.numel() for weights in model.parameters())
    464154
    """
    if flat != (name == FLAT):
        takes = "images" if flat else "feature vectors"
        raise OptionError(
            f"`model` must suit the data. Got {name!r}, which takes {takes}. Take "
            f"{'toy' if flat else 'resnet8'}."
        )
    if branches == 2 and head != "linear":
        raise OptionError(
            f"`head` must be 'linear' with two branches. Got {head!r}. BBN is trained with "
            f"cross-entropy."
        )
    body = _body(name, n_channels, split=branches == 2)
    if branches == 2:
        return BilateralBranch(body, n_classes)
    return Classifier(body, n_classes, head)


def _body(name: str, n_channels: int, *, split: bool) -> Body:
    if name == FLAT:
        return toy_body(n_channels)
    if name in RESNETS:
        return resnet_body(name, n_channels)
    try:
        return timm_body(name, n_channels, split=split)
    except MissingDependencyError as error:
        raise MissingDependencyError(
            f"`model` must be one of {', '.join(OWN)}, or one of timm. Got {name!r}. {error}"
        ) from error
