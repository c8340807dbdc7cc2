"""Devices by number and name: which there are, which one a process gets, and which floats."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from lab.tests.support.noted_devices import noted
from lab.tests.support.small_runs import one_thread, tiny

from reprior.exceptions import OptionError
from reprior_lab import RunConfig, open_data, train
from reprior_lab.reproduction import train_at_once
from reprior_lab.training import loop
from reprior_lab.training.devices import list_devices, trainer_device
from reprior_lab.training.loop import TrainingModule

#: Gradients of parts are summed in another order: float32 of a short run on a small network.
SUMMED_IN_PARTS = 1e-4


@pytest.fixture
def gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)


@pytest.fixture
def cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(
    "given, wanted",
    [
        ("auto", ("cuda:0", "cuda:1", "cuda:2")),
        ("-1", ("cuda:0", "cuda:1", "cuda:2")),
        ("2", ("cuda:0", "cuda:1")),
        (1, ("cuda:0",)),
        ("0,2", ("cuda:0", "cuda:2")),
        ("1,", ("cuda:1",)),
    ],
)
def test_gpus_are_listed(given, wanted):
    assert list_devices(given) == wanted


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("given", ["4", "0,3", "1,1", "0", "abc"])
def test_gpus_that_are_not_there_are_refused(given):
    with pytest.raises(OptionError, match="`devices` must be"):
        list_devices(given)


@pytest.mark.usefixtures("cpu")
def test_devices_of_the_cpu_are_processes():
    assert list_devices("auto") == ("cpu",)
    assert list_devices("2") == list_devices("0,1") == ("cpu", "cpu")
    with pytest.raises(OptionError, match="at most the CPU's 2 cores"):
        list_devices("3")


@pytest.mark.parametrize(
    "name, wanted",
    [("cuda:1", ("gpu", "1,")), ("cuda", ("gpu", "0,")), ("mps", ("mps", 1)), ("cpu", ("cpu", 1))],
)
def test_a_process_gets_one_device(name, wanted):
    assert trainer_device(name) == wanted


@pytest.mark.heavy
def test_jobs_take_turns_at_the_devices(tmp_path):
    chains = [[SimpleNamespace(name=f"cell{i}")] for i in range(4)]
    train_at_once(tmp_path, chains, 2, None, run=noted, devices=("cuda:0", "cuda:1"))
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert (found["cell0"], found["cell1"]) == ("cuda:0", "cuda:1")
    assert set(found) == {"cell0", "cell1", "cell2", "cell3"}
    assert set(found.values()) == {"cuda:0", "cuda:1"}


def test_no_float64_lives_on_the_device():
    """Apple's devices have none: what a step leaves there is float32, sums are on the CPU."""
    config, data = tiny(), open_data("digits", imbalance="exp", ratio=20)
    module = TrainingModule(config, loop._network(config, data, None), data.class_counts, 5)
    module.on_fit_start()
    images = torch.zeros(4, 1, 8, 8)
    for i in range(3):
        module.training_step((images, torch.tensor([0, 1, 2, 3])), i)
    kept = [value for value in vars(module).values() if isinstance(value, torch.Tensor)]
    kept += [*module.parameters(), *module.buffers(), *module._measured]
    kept += [each for loss in module._losses for each in loss.buffers()]
    assert torch.float64 not in {each.dtype for each in kept}
    sums = module.epoch_sums()
    assert (sums.dtype, sums.device.type, sums[2].item()) == (torch.float64, "cpu", 12.0)


@pytest.mark.parametrize("accumulate", [2, 4])
def test_parts_of_a_batch_make_the_same_step(tmp_path, accumulate):
    """Without batch normalisation; 2,777 samples make a last batch of fewer, uneven parts."""
    config = RunConfig.resolve(data="moons", epochs=2, batch_size=64)
    with one_thread():
        whole = train(config, tmp_path / "whole", accelerator="cpu")
        parts = config.differing(accumulate=accumulate)
        run = train(parts, tmp_path / "parts", accelerator="cpu")
    assert parts.id != config.id
    for one, other in zip(whole.epochs, run.epochs, strict=True):
        assert other["lr"] == one["lr"]
        assert other["train_loss"] == pytest.approx(one["train_loss"], rel=SUMMED_IN_PARTS)


def test_bfloat16_trains_and_is_another_run(tmp_path):
    config = tiny(epochs=1, precision="bf16-mixed")
    assert config.id != tiny(epochs=1).id
    assert train(config, tmp_path, accelerator="cpu").finished


def test_half_precision_needs_a_gpu(tmp_path):
    with pytest.raises(OptionError, match="`precision` must be '32-true' or 'bf16-mixed'"):
        train(tiny(precision="16-mixed"), tmp_path / "run", accelerator="cpu")
    assert not (tmp_path / "run").exists()
