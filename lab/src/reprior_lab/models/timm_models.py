"""Backbones of timm by name: ResNet-50, Inception v3 and a thousand others."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor, nn

from reprior.exceptions import OptionError
from reprior_lab.models.classifier import Body
from reprior_lab.models.registry import unknown_model
from reprior_lab.models.torchvision_operators import import_torchvision

__all__ = ["timm_body", "timm_names"]


class _Features(nn.Module):
    """A timm model up to its feature map."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return cast("Tensor", self.model.forward_features(x))


class _Pooled(nn.Module):
    """A last block, followed by the timm model's own pooling."""

    def __init__(self, block: nn.Module, model: Any) -> None:
        super().__init__()
        self.block = block
        # In a list, so that the model is not registered as a submodule a second time.
        self._model = [model]

    def forward(self, x: Tensor) -> Tensor:
        return cast("Tensor", self._model[0].forward_head(self.block(x), pre_logits=True))


def timm_body(name: str, n_channels: int = 3, *, split: bool = False) -> Body:
    """Return a timm model without its head, untrained.

    Parameters
    ----------
    name : str
        A name of ``timm.list_models()``.
    n_channels : int, default 3
        Channels of the images.
    split : bool, default False
        Whether to separate the last block, as BBN needs. Only for residual networks with a
        ``layer4``.
    """
    timm = _timm()
    if name not in timm.list_models():
        raise unknown_model(name, timm.list_models())
    model = timm.create_model(name, pretrained=False, num_classes=0, in_chans=n_channels)
    last: nn.Module = nn.Identity()
    if split:
        if not isinstance(getattr(model, "layer4", None), nn.Sequential):
            raise OptionError(
                argument="model",
                rule="must be a residual network for the schedule 'bbn', which "
                "doubles its last block",
                got=repr(name),
                remedy="Take resnet50, or another schedule.",
            )
        last, model.layer4[-1] = model.layer4[-1], nn.Identity()
    return Body(_Features(model), _Pooled(last, model), int(model.num_features))


def timm_names() -> list[str]:
    """Return the names of timm's networks, about a thousand."""
    return [str(name) for name in _timm().list_models()]


def _timm() -> Any:
    import_torchvision()
    import timm

    return timm
