"""Backbones of timm, where timm is installed, and the sentence where it is not."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from reprior.exceptions import OptionError
from reprior_lab.models.registry import build_model

HAS_TIMM = importlib.util.find_spec("timm") is not None
needs_timm = pytest.mark.skipif(not HAS_TIMM, reason="timm is not installed")


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name, size", [("resnet18", 64), ("inception_v3", 139)])
@pytest.mark.parametrize("head", ["linear", "cosine"])
def test_a_backbone_by_name(name, size, head):
    model = build_model(name, 12, head=head).eval()
    with torch.inference_mode():
        assert model(torch.zeros(2, 3, size, size)).shape == (2, 12)


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_bbn_of_a_residual_network_doubles_its_last_block():
    model = build_model("resnet18", 12, branches=2).eval()
    x = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(model(x), model.mixed(x, x, 0.5))
    names = {name.partition(".")[0] for name, _ in model.named_parameters()}
    assert names == {"trunk", "conventional", "rebalancing", "head"}


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_what_timm_does_not_have_is_refused():
    with pytest.raises(OptionError, match="`model` must be"):
        build_model("no_such_network", 10)
    with pytest.raises(OptionError, match="must be a residual network"):
        build_model("inception_v3", 10, branches=2)
