"""Buffers keep their values on the way to a device or dtype, and when that fails."""

from __future__ import annotations

import pytest
import torch
from tests.fusion.shared import PRIOR, made
from torch import nn

from reprior.torch import ModalityFusion, Rebalance
from reprior.torch.buffers import exact_buffers


def rebalance():
    return Rebalance([0.7, 0.2, 0.1], strength=1 / 3)


def fusion():
    known = {"rgb": (0.3, 0.05), "depth": (0.5, 0.1)}
    return ModalityFusion(made(PRIOR, known, {"rgb": 0.7, "depth": 0.3}))


def values(module):
    return {name: buffer.clone() for name, buffer in module.named_buffers()}


def unchanged(module, before):
    found = dict(module.named_buffers())
    assert found.keys() == before.keys()
    for name, value in before.items():
        assert found[name].dtype == torch.float64
        assert torch.equal(found[name], value)


@pytest.mark.parametrize("make", [rebalance, fusion])
class TestModules:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    def test_a_cast_rounds_nothing(self, make, dtype):
        module = make()
        before = values(module)
        unchanged(module.to(dtype), before)

    def test_a_failure_leaves_them_as_they_were(self, make):
        """As where a device has no memory left: some were moved, some were not."""
        module = make()
        before, seen = values(module), []

        def fails(tensor):
            seen.append(tensor.dtype)
            if len(seen) == 2:
                raise RuntimeError("out of memory")
            return tensor.half()

        with pytest.raises(RuntimeError, match="out of memory"):
            module._apply(fails)
        assert seen == [torch.float32] * 2
        unchanged(module, before)


def test_a_buffer_that_is_none_stays_so():
    module = nn.Module()
    module.register_buffer("here", torch.ones(2, dtype=torch.float64) / 3)
    module.register_buffer("absent", None)
    with exact_buffers(module):
        module.half()
    assert module.absent is None
    assert torch.equal(module.here, torch.ones(2, dtype=torch.float64) / 3)


def test_what_has_no_values_gets_none():
    module = nn.Module()
    module.register_buffer("here", torch.ones(2, dtype=torch.float64))
    with exact_buffers(module):
        module.to("meta")
    assert module.here.is_meta
