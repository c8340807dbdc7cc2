"""Segmentation networks by name: a small one for the CPU, and DeepLab v3+."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it

from reprior.core import check_choice
from reprior.torch.losses import CosineLinear
from reprior_lab.models.torchvision_operators import import_torchvision
from reprior_lab.synthia.settings import DEEPLAB, check_network

__all__ = ["SMALL", "CosineHead", "SmallDeepLab", "build_network", "finer"]

#: Widths of the small networks by name: of the stages at 1/2, 1/4 and 1/8, and of ASPP's branches.
SMALL = {"small": (24, 32, 64, 32), "tiny": (8, 12, 16, 8)}

#: Dilations of ASPP's branches, in pixels of 1/8: a quarter to all of an input of 96 rows.
DILATIONS = (2, 4, 8)


def _convolution(n_in: int, n_out: int, size: int = 3, stride: int = 1, dilation: int = 1) -> Any:
    padding = dilation * (size // 2)
    return nn.Sequential(
        nn.Conv2d(n_in, n_out, size, stride, padding, dilation, bias=False),
        nn.BatchNorm2d(n_out),
        nn.ReLU(inplace=True),
    )


class _Residual(nn.Module):
    """Two 3 × 3 convolutions around a shortcut."""

    def __init__(self, n_in: int, n_out: int, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.first = _convolution(n_in, n_out, 3, stride, dilation)
        self.second = nn.Sequential(
            nn.Conv2d(n_out, n_out, 3, 1, dilation, dilation, bias=False), nn.BatchNorm2d(n_out)
        )
        self.shortcut = (
            nn.Identity()
            if stride == 1 and n_in == n_out
            else nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out))
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(self.first(x)) + self.shortcut(x), inplace=True)


class _ASPP(nn.Module):
    """Context at several ranges: a point, three dilations, the whole image."""

    def __init__(self, n_in: int, n_branch: int, n_out: int, dropout: float) -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            [_convolution(n_in, n_branch, 1)]
            + [_convolution(n_in, n_branch, 3, dilation=d) for d in DILATIONS]
        )
        # Without a norm, which would have too few values: one pixel of few images.
        self.whole = nn.Sequential(nn.Conv2d(n_in, n_branch, 1), nn.ReLU(inplace=True))
        n_all = n_branch * (len(DILATIONS) + 2)
        self.joined = nn.Sequential(_convolution(n_all, n_out, 1), nn.Dropout2d(dropout))

    def forward(self, x: Tensor) -> Tensor:
        context = self.whole(x.mean(dim=(2, 3), keepdim=True)).expand(-1, -1, *x.shape[-2:])
        parts = [branch(x) for branch in self.branches]
        return cast("Tensor", self.joined(torch.cat([*parts, context], dim=1)))


class CosineHead(nn.Module):
    """A :class:`~reprior.torch.losses.CosineLinear` at every pixel, for LDAM."""

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.layer = CosineLinear(n_features, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the cosines (N, K, H, W) of features (N, C, H, W)."""
        return cast("Tensor", self.layer(x.movedim(1, -1))).movedim(-1, 1)


class SmallDeepLab(nn.Module):
    """A DeepLab v3+ for the CPU: dilated residual encoder, ASPP, decoder with two skips.

    Squares of 2 × 2 pixels become channels, so that objects one pixel wide, such as distant poles,
    are not lost at half the resolution. The encoder goes down to 1/8 of the input and is dilated
    from there; ASPP has the dilations 2, 4 and 8; the decoder joins the features at 1/4 and at
    1/2. Scores have half the input's resolution: their pixel (i, j) is pixel (2 i, 2 j) of the
    input.

    Parameters
    ----------
    n_classes : int
        K.
    n_channels : int, default 3
        Of the input.
    widths : sequence of four int
        See :data:`SMALL`.
    head : {"linear", "cosine"}, default "linear"
        The last layer.
    dropout : float, default 0.1
        The dropout rate of whole channels behind ASPP.

    Attributes
    ----------
    stride : int
        Pixels of the input from one score to the next: 2.

    References
    ----------
    .. [1] Chen, Zhu, Papandreou, Schroff, Adam. "Encoder-Decoder with Atrous Separable
       Convolution for Semantic Image Segmentation", ECCV 2018.

    Examples
    --------
    >>> network = SmallDeepLab(14)
    >>> network(torch.zeros(2, 3, 96, 192)).shape
    torch.Size([2, 14, 48, 96])
    """

    stride = 2

    def __init__(
        self,
        n_classes: int,
        n_channels: int = 3,
        widths: tuple[int, int, int, int] = SMALL["small"],
        *,
        head: str = "linear",
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        check_choice("head", head, ("linear", "cosine"))
        half, quarter, eighth, branch = widths
        self.stem = _convolution(self.stride**2 * n_channels, half)
        self.quarter = nn.Sequential(_Residual(half, quarter, 2), _Residual(quarter, quarter))
        self.eighth = nn.Sequential(
            _Residual(quarter, eighth, 2), _Residual(eighth, eighth, dilation=2)
        )
        self.aspp = _ASPP(eighth, branch, eighth, dropout)
        self.deep_to_quarter = nn.Conv2d(eighth, quarter, 1)
        self.middle = _convolution(quarter, quarter)
        self.quarter_to_half = nn.Conv2d(quarter, half, 1)
        self.last = _convolution(half, half)
        self.head: nn.Module = (
            CosineHead(half, n_classes) if head == "cosine" else nn.Conv2d(half, n_classes, 1)
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d) and module.bias is None:
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores (N, K, H/2, W/2), halves rounded up."""
        height, width = x.shape[-2:]
        even = F.pad(x, (0, width % self.stride, 0, height % self.stride), mode="replicate")
        half = self.stem(F.pixel_unshuffle(even, self.stride))
        quarter = self.quarter(half)
        deep = self.aspp(self.eighth(quarter))
        # Added, not concatenated: wider convolutions at these sizes would be half of all work.
        deep = self.middle(finer(self.deep_to_quarter(deep), quarter.shape[-2:]) + quarter)
        fine = self.last(finer(self.quarter_to_half(deep), half.shape[-2:]) + half)
        return cast("Tensor", self.head(fine))


def finer(x: Tensor, size: Sequence[int]) -> Tensor:
    """Return an image of twice the resolution, cut to ``size``: pixel i becomes pixel 2 i.

    A convolution of stride 2 is centred on every second pixel, so this puts its output back in
    place. The usual interpolation would move it by half a pixel.

    Examples
    --------
    >>> finer(torch.tensor([[[[0.0, 2.0]]]]), (1, 4)).flatten().tolist()
    [0.0, 1.0, 2.0, 2.0]
    """
    height, width = x.shape[-2:]
    padded = F.pad(x, (0, 1, 0, 1), mode="replicate")
    odd_size = (2 * height + 1, 2 * width + 1)
    scaled = F.interpolate(padded, size=odd_size, mode="bilinear", align_corners=True)
    return scaled[..., : size[0], : size[1]]


class _Padded(nn.Module):
    """Pads inputs of any size for a network that needs multiples of its stride."""

    stride = 1

    def __init__(self, network: nn.Module, multiple: int) -> None:
        super().__init__()
        self.network, self.multiple = network, multiple

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        more = (0, -width % self.multiple, 0, -height % self.multiple)
        scores = self.network(F.pad(x, more, mode="replicate"))
        return cast("Tensor", scores)[..., :height, :width]


def build_network(
    name: str,
    n_classes: int,
    n_channels: int = 3,
    *,
    head: str = "linear",
    pretrained: bool = False,
) -> nn.Module:
    """Return an untrained network, initialised by PyTorch's global random generator.

    Parameters
    ----------
    name : str
        "small", about a quarter of a million weights; "tiny", for trials; or
        "deeplabv3plus-ENCODER" with an encoder of segmentation-models-pytorch, such as
        "deeplabv3plus-resnet101", at output stride 16 with the dilations 6, 12 and 18.
    n_classes : int
        K.
    n_channels : int, default 3
        Of the input.
    head : {"linear", "cosine"}, default "linear"
        The last layer.
    pretrained : bool, default False
        Whether the encoder of DeepLab v3+ starts from weights of ImageNet, which are downloaded.
        Otherwise nothing is downloaded.

    Returns
    -------
    Module
        From (N, C, H, W) to scores (N, K, h, w), where h and w are H and W over its attribute
        ``stride``, rounded up.

    Examples
    --------
    >>> network = build_network("small", 14, 1)
    >>> sum(weights.numel() for weights in network.parameters())
    256054
    """
    check_choice("head", head, ("linear", "cosine"))
    check_network(name)
    if name in SMALL:
        return SmallDeepLab(n_classes, n_channels, SMALL[name], head=head)
    weights = "imagenet" if pretrained else None
    return _deeplab(name.removeprefix(DEEPLAB), weights, n_classes, n_channels, head)


def _deeplab(
    encoder: str, weights: str | None, n_classes: int, n_channels: int, head: str
) -> nn.Module:
    import_torchvision()
    import segmentation_models_pytorch as smp

    known = smp.encoders.get_encoder_names()
    check_choice("encoder", encoder, known, hint="Or 'tu-NAME' with a model of timm.")
    network = smp.DeepLabV3Plus(
        encoder,
        encoder_weights=weights,
        encoder_output_stride=16,
        decoder_atrous_rates=(6, 12, 18),
        in_channels=n_channels,
        classes=n_classes,
    )
    if head == "cosine":
        layer = network.segmentation_head[0]
        network.segmentation_head[0] = CosineHead(layer.in_channels, n_classes)
    return _Padded(network, 16)
