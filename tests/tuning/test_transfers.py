"""Count transfers from a device to the host, with tensors that pretend to be on a device.

An :class:`OnDevice` tensor is in host memory but reports a CUDA device. Every operation that would
copy its values to the host is counted. So the array code for devices runs on a machine without a
GPU. These tests do not show that it runs on a real GPU.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pytest

import reprior as rp

torch = pytest.importorskip("torch")
from torch.overrides import TorchFunctionMode  # noqa: E402 - of an optional package

DEVICE = torch.device("cuda", 0)
HOST = torch.device("cpu")
T = torch.Tensor

#: Operations that copy to the host, and the name under which they are counted.
LEAVING = {
    T.cpu: "cpu", T.numpy: "numpy", T.item: "item", T.tolist: "tolist", T.__array__: "array",
    T.__float__: "item", T.__int__: "item", T.__bool__: "item", T.__index__: "item",
}  # fmt: skip


class OnDevice(torch.Tensor):
    """A tensor in host memory that reports a CUDA device."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if getattr(func, "__self__", None) is T.device:  # the property is read
            return DEVICE
        with torch._C.DisableTorchFunctionSubclass():
            if func in LEAVING or (func is T.to and _to_host(args, kwargs)):
                Watch.note(LEAVING.get(func, "cpu"), args[0])
                if func in (T.cpu, T.to):
                    return args[0].as_subclass(torch.Tensor)
            return _wrapped(func(*_on_host(args), **_on_host(kwargs)))


class Watch(TorchFunctionMode):
    """Put new tensors on the device if requested, and count copies to the host."""

    seen: ClassVar[Counter[str]] = Counter()
    numbers: ClassVar[Counter[str]] = Counter()

    def __enter__(self):
        Watch.seen, Watch.numbers = Counter(), Counter()
        return super().__enter__()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            return _wrapped(func(*_on_host(args), **_on_host(kwargs)))
        return func(*args, **kwargs)

    @classmethod
    def note(cls, operation, tensor):
        cls.seen[operation] += 1
        cls.numbers[operation] += tensor.numel()

    @property
    def total(self) -> int:
        return sum(self.numbers.values())


def _to_host(args, kwargs):
    return any(str(each) == "cpu" for each in (*args[1:], *kwargs.values()))


def _on_host(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: _on_host(value) for name, value in values.items()}
    if isinstance(values, tuple | list):
        return type(values)(_on_host(value) for value in values)
    return HOST if isinstance(values, torch.device) else values


def _wrapped(values: Any) -> Any:
    if isinstance(values, torch.Tensor):
        return values.as_subclass(OnDevice)
    if isinstance(values, tuple | list):  # named tuples of torch too
        return type(values)(list(map(_wrapped, values)))
    return values


N, CLASSES = 400, 40
PRIOR = 0.8 ** np.arange(CLASSES) / (0.8 ** np.arange(CLASSES)).sum()


def data():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(N, CLASSES)).astype(np.float32) + np.log(PRIOR).astype(np.float32)
    labels = rng.integers(CLASSES, size=N)
    scores[np.arange(N), labels] += 6  # most samples never change their class
    return scores, labels


def on_device(array):
    return torch.from_numpy(np.array(array)).as_subclass(OnDevice)


def test_the_fake_device_counts_copies():
    with Watch() as watch:
        scores = on_device(np.zeros((4, 3)))
        assert scores.device.type == "cuda"
        assert isinstance(scores + 1, OnDevice)
        assert torch.zeros(2, device=scores.device).device.type == "cuda"
        assert watch.total == 0
        scores.cpu()
        scores.sum().item()
        float(scores[0, 0])
    assert watch.numbers == {"cpu": 12, "item": 2}


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_a_profile_copies_counts_and_switches_to_the_host_but_no_scores(kind):
    scores, labels = data()
    if kind == "probs":
        scores = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    host = rp.StrengthProfile.from_scores(scores, labels, source_prior=PRIOR, kind=kind)
    with Watch() as watch:
        profile = rp.StrengthProfile.from_scores(
            on_device(scores), on_device(labels), source_prior=PRIOR, kind=kind
        )
    assert profile.n_switches == host.n_switches
    assert profile.best("balanced_accuracy").value == host.best("balanced_accuracy").value
    # Copied: the labels, the winners at 0 and at the lower bound, a few numbers per switch and a
    # few for checks. The scores, CLASSES times as many as the labels, stay on the device.
    assert watch.total <= 3 * N + 10 * host.n_switches + 50
    assert watch.total < scores.size / 3
    assert "tolist" not in watch.seen


def test_rebalance_copies_only_a_few_numbers_to_the_host():
    scores, _ = data()
    expected = rp.rebalance(scores, PRIOR, strength=0.7)
    with Watch() as watch:
        posterior = rp.rebalance(on_device(scores), PRIOR, strength=0.7)
        assert isinstance(posterior, OnDevice)
        assert set(watch.seen) <= {"item"}  # the checks for NaN, one number each
        assert watch.total <= 10
    np.testing.assert_allclose(
        posterior.as_subclass(torch.Tensor).numpy(), expected, rtol=1e-5, atol=1e-7
    )
