"""A network in two parts: a body that computes features, and a head that computes scores."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from reprior.core import check_choice
from reprior.torch.losses import CosineLinear

__all__ = ["HEADS", "WIDTH", "Body", "Classifier", "make_head", "toy_body"]

HEADS = ("linear", "cosine")

WIDTH = 64


class Body(nn.Module):
    """A network without its head: from inputs to features (N, n_features).

    ``trunk`` is everything before the last block, ``last`` the last block and the pooling: a
    network with two branches has one trunk and two last blocks.
    """

    def __init__(self, trunk: nn.Module, last: nn.Module, n_features: int) -> None:
        super().__init__()
        self.trunk, self.last, self.n_features = trunk, last, n_features

    def forward(self, x: Tensor) -> Tensor:
        """Return the features."""
        return cast("Tensor", self.last(self.trunk(x)))


class Classifier(nn.Module):
    """A body and a head.

    Parameters
    ----------
    body : Body
        From inputs to features.
    n_classes : int
        K.
    head : {"linear", "cosine"}, default "linear"
        "cosine" returns unscaled cosines, the input of :class:`~reprior.torch.losses.LDAMLoss`.
    """

    def __init__(self, body: Body, n_classes: int, head: str = "linear") -> None:
        super().__init__()
        self.body, self.head = body, make_head(head, body.n_features, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores (N, K)."""
        return cast("Tensor", self.head(self.body(x)))


def make_head(kind: str, n_features: int, n_classes: int) -> nn.Module:
    """Return the last layer, with Kaiming-normal weights as in the reference.

    Examples
    --------
    >>> make_head("cosine", 64, 10)
    CosineLinear(in_features=64, out_features=10)
    """
    check_choice("head", kind, HEADS)
    if kind == "cosine":
        return CosineLinear(n_features, n_classes)
    layer = nn.Linear(n_features, n_classes)
    nn.init.kaiming_normal_(layer.weight)
    return layer


def toy_body(n_features: int = 2, width: int = WIDTH) -> Body:
    """Return two hidden layers; with the head, three fully connected layers.

    Examples
    --------
    >>> import torch
    >>> toy_body(2)(torch.zeros(5, 2)).shape
    torch.Size([5, 64])
    """
    trunk = nn.Sequential(nn.Linear(n_features, width), nn.ReLU())
    return Body(trunk, nn.Sequential(nn.Linear(width, width), nn.ReLU()), width)
