"""Residual networks for small images, ResNet-8 to ResNet-56."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it

from reprior.core import check_choice
from reprior_lab.models.classifier import Body

__all__ = ["RESNETS", "BasicBlock", "resnet_body"]


@dataclass(frozen=True)
class _Plan:
    """Blocks per stage (a depth of 6 n + 2), channels of the three stages, the first stride."""

    blocks: int
    widths: tuple[int, int, int] = (16, 32, 64)
    stride: int = 1


#: "resnet8-wide" halves the image in its first layer and has 1.5 times the channels: half the
#: arithmetic of "resnet8", and better after the same number of epochs.
RESNETS = {
    "resnet8": _Plan(1),
    "resnet8-wide": _Plan(1, (24, 48, 96), 2),
    "resnet14": _Plan(2),
    "resnet20": _Plan(3),
    "resnet32": _Plan(5),
    "resnet56": _Plan(9),
}


class BasicBlock(nn.Module):
    """Two 3 × 3 convolutions around a shortcut without weights (option A of the reference).

    If the block halves the image, the shortcut takes every other pixel and fills the new channels
    with zeros.
    """

    def __init__(self, n_in: int, n_out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(n_out)
        self.stride, self.more = stride, n_out - n_in

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output, of ``n_out`` channels."""
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        if self.more or self.stride > 1:
            half = self.more // 2
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, self.more - half))
        return F.relu(out + x, inplace=True)


class _Stem(nn.Module):
    def __init__(self, n_channels: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(n_channels, n_out, 3, stride, 1, bias=False)
        self.bn = nn.BatchNorm2d(n_out)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)), inplace=True)


class _Last(nn.Module):
    """The last block, and the mean over the image."""

    def __init__(self, block: BasicBlock) -> None:
        super().__init__()
        self.block = block

    def forward(self, x: Tensor) -> Tensor:
        return cast("Tensor", self.block(x)).mean(dim=(2, 3))


def resnet_body(name: str, n_channels: int = 3) -> Body:
    """Return a residual network without its head: 16, 32 and 64 channels, 64 features.

    "resnet8-wide" has 24, 48 and 96 channels and halves the image in its first layer. All
    convolutions start Kaiming-normal. Images may have any size of at least 4 × 4.

    References
    ----------
    .. [1] He, Zhang, Ren, Sun. "Deep Residual Learning for Image Recognition", CVPR 2016:
       Section 4.2.

    Examples
    --------
    >>> import torch
    >>> body = resnet_body("resnet32")
    >>> body(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 64])
    """
    check_choice("model", name, RESNETS)
    plan = RESNETS[name]
    blocks: list[BasicBlock] = []
    n_in = plan.widths[0]
    for stage, width in enumerate(plan.widths):
        for i in range(plan.blocks):
            blocks.append(BasicBlock(n_in, width, 2 if stage and not i else 1))
            n_in = width
    stem = _Stem(n_channels, plan.widths[0], plan.stride)
    body = Body(nn.Sequential(stem, *blocks[:-1]), _Last(blocks[-1]), n_in)
    for module in body.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
    return body
