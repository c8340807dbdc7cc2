"""Networks of realistic size, written out: a ResNet-50 and a small encoder-decoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def convolution(n_in: int, n_out: int, size: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(n_in, n_out, size, stride, size // 2, bias=False), nn.BatchNorm2d(n_out)
    )


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions around a shortcut."""

    def __init__(self, n_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            convolution(n_in, width, 1), nn.ReLU(inplace=True),
            convolution(width, width, 3, stride), nn.ReLU(inplace=True),
            convolution(width, 4 * width, 1),
        )  # fmt: skip
        same = n_in == 4 * width and stride == 1
        self.shortcut = nn.Identity() if same else convolution(n_in, 4 * width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNet50(nn.Module):
    """25.6 million weights, 4.1 billion multiplications per image of 224 × 224."""

    def __init__(self, n_classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        n_in = 64
        for width, depth in ((64, 3), (128, 4), (256, 6), (512, 3)):
            for i in range(depth):
                layers.append(Bottleneck(n_in, width, 2 if i == 0 and width > 64 else 1))
                n_in = 4 * width
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(n_in, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.body(x))


class Segmenter(nn.Module):
    """Encoder and decoder with a shortcut, 14 classes: 1.7 billion multiplications per image."""

    def __init__(self, n_classes: int = 14, width: int = 32) -> None:
        super().__init__()

        def stage(n_in: int, n_out: int, stride: int) -> nn.Sequential:
            return nn.Sequential(
                convolution(n_in, n_out, 3, stride), nn.ReLU(),
                convolution(n_out, n_out, 3), nn.ReLU(),
            )  # fmt: skip

        self.first = stage(3, width, 1)
        self.down = nn.Sequential(stage(width, 2 * width, 2), stage(2 * width, 4 * width, 2))
        self.up = nn.Upsample(scale_factor=4, mode="bilinear", align_corners=False)
        self.join = stage(5 * width, width, 1)
        self.head = nn.Conv2d(width, n_classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        near = self.first(x)
        return self.head(self.join(torch.cat([near, self.up(self.down(near))], dim=1)))
