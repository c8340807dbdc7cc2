"""The three-layer network of the toy sets."""

from __future__ import annotations

from torch import nn

from reprior.experiments.models.classifier import Body

__all__ = ["WIDTH", "toy_body"]

WIDTH = 64


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
