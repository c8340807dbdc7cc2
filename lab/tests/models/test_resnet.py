"""The residual networks: sizes as published, option-A shortcuts, and the two heads."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from reprior.exceptions import OptionError
from reprior.torch.losses import CosineLinear
from reprior_lab.models.registry import build_model
from reprior_lab.models.resnet import RESNETS, BasicBlock, resnet_body


@pytest.mark.parametrize(
    "name, millions", [("resnet20", 0.27), ("resnet32", 0.46), ("resnet56", 0.85)]
)
def test_as_many_weights_as_published(name, millions):
    n = sum(weights.numel() for weights in build_model(name, 10).parameters())
    assert round(n / 1e6, 2) == millions


@pytest.mark.parametrize("name", RESNETS)
def test_depth_is_in_the_name(name):
    body = resnet_body(name)
    convolutions = [m for m in body.modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) + 1 == int(name.removeprefix("resnet").removesuffix("-wide"))
    width = 96 if name.endswith("-wide") else 64
    assert body(torch.zeros(2, 3, 32, 32)).shape == (2, width)


def test_the_wide_one_halves_the_image_first():
    stem = resnet_body("resnet8-wide").trunk[0]
    assert stem(torch.zeros(1, 3, 32, 32)).shape == (1, 24, 16, 16)


def test_the_shortcut_takes_every_other_pixel_and_adds_zeros():
    block = BasicBlock(16, 32, stride=2).eval()
    nn.init.zeros_(block.conv2.weight)  # the shortcut alone is left
    x = torch.rand(2, 16, 8, 8)
    out = block(x)
    assert out.shape == (2, 32, 4, 4)
    assert torch.equal(out[:, 8:24], x[:, :, ::2, ::2])
    assert not out[:, :8].any()
    assert not out[:, 24:].any()


def test_one_channel_and_small_images_will_do():
    assert build_model("resnet8", 7, 1)(torch.zeros(3, 1, 8, 8)).shape == (3, 7)


def test_the_cosine_head_gives_cosines():
    model = build_model("resnet8", 5, head="cosine")
    assert isinstance(model.head, CosineLinear)
    assert model(torch.randn(4, 3, 32, 32)).abs().max() <= 1 + 1e-6


def test_seeds_decide_the_weights():
    made = []
    for _ in range(2):
        torch.manual_seed(3)
        made.append(build_model("resnet8", 10))
    one, other = (model.state_dict() for model in made)
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"name": "toy"}, "Got 'toy', which takes feature vectors"),
        ({"name": "resnet8", "flat": True}, "Got 'resnet8', which takes images"),
        ({"name": "resnet8", "head": "cosin"}, "Did you mean 'cosine'"),
        ({"name": "resnet8", "head": "cosine", "branches": 2}, "must be 'linear' with two"),
    ],
)
def test_what_does_not_fit_is_refused(options, words):
    with pytest.raises(OptionError, match=words):
        build_model(n_classes=10, **options)


def test_the_toy_network_has_three_layers():
    model = build_model("toy", 2, 2, flat=True)
    assert len([m for m in model.modules() if isinstance(m, nn.Linear)]) == 3
    assert model(torch.zeros(5, 2)).shape == (5, 2)
