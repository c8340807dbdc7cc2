"""BBN against its definition."""

from __future__ import annotations

import pytest
import torch

from reprior_lab.models.bbn import BilateralBranch, mixing
from reprior_lab.models.registry import build_model
from reprior_lab.models.resnet import resnet_body


@pytest.fixture
def model():
    torch.manual_seed(0)
    return BilateralBranch(resnet_body("resnet8"), 10).eval()


def test_alpha_is_its_definition():
    for epoch in range(1, 201):  # counted from 1, as printed
        assert mixing(epoch - 1, 200) == pytest.approx(1 - ((epoch - 1) / 200) ** 2)
    assert mixing(0, 15) == 1.0
    assert mixing(14, 15) > 0.0


def test_the_mix_is_its_definition(model):
    one, other = torch.randn(2, 4, 3, 32, 32)
    alpha = 0.3
    first = model.conventional(model.trunk(one))
    second = model.rebalancing(model.trunk(other))
    weight, bias = model.head.weight, model.head.bias
    expected = 2 * alpha * first @ weight[:, :64].T + 2 * (1 - alpha) * second @ weight[:, 64:].T
    torch.testing.assert_close(model.mixed(one, other, alpha), expected + bias)


def test_applied_it_is_the_mix_of_one_batch_by_halves(model):
    x = torch.randn(4, 3, 32, 32)
    torch.testing.assert_close(model(x), model.mixed(x, x, 0.5))


def test_all_but_the_last_block_is_shared(model):
    whole = build_model("resnet8", 10)
    n = sum(weights.numel() for weights in model.parameters())
    block = sum(weights.numel() for weights in whole.body.last.parameters())
    shared = sum(weights.numel() for weights in whole.parameters())
    assert n == shared + block + 64 * 10  # a second block, and a wider linear layer


def test_the_branches_begin_apart(model):
    one, other = model.conventional.block.conv1.weight, model.rebalancing.block.conv1.weight
    assert not torch.equal(one, other)
    assert one.shape == other.shape
