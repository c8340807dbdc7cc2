"""The face of the adapter: its names, and what is loaded when."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import reprior.torch

PROBE = """
import json, sys
import reprior.torch
print(json.dumps([name in sys.modules for name in ("torch", "lightning", "tqdm", "sklearn")]))
"""


@pytest.mark.parametrize("name", reprior.torch.__all__)
def test_name_resolves(name):
    assert getattr(reprior.torch, name).__module__.startswith("reprior.torch.")


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'rebalance_all'"):
        _ = reprior.torch.rebalance_all


@pytest.mark.heavy
def test_lightning_is_loaded_with_the_callback_only():
    result = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=True)
    torch_there, lightning_there, *_ = json.loads(result.stdout)
    assert torch_there
    assert not lightning_there


def test_without_torch_a_sentence_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import reprior.torch"
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "pip install 'reprior[torch]'" in result.stderr
