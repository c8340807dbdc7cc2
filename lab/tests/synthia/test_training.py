"""Training: every loss runs, and a stopped run resumes to a bit-identical result."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from lab.tests.support.drives import write_drives
from lab.tests.support.small_runs import one_thread
from torch.utils._python_dispatch import TorchDispatchMode

from reprior.exceptions import OptionError, RepriorWarning
from reprior_lab.synthia import training as module
from reprior_lab.synthia.data import open_data
from reprior_lab.synthia.runs import NetworkRun
from reprior_lab.synthia.scores import measured, predict_scores
from reprior_lab.synthia.settings import NetworkSettings
from reprior_lab.synthia.training import load_network, train_network

SETTINGS = NetworkSettings(model="tiny", crop=(16, 24), steps=14, batch_size=4, lr=0.01)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return open_data(write_drives(tmp_path_factory.mktemp("drives")), gap=1)


@pytest.fixture(autouse=True)
def single_thread():
    with one_thread():
        yield


@pytest.mark.parametrize("modality", ["rgb", "depth"])
def test_a_network_learns_the_street(tmp_path, data, modality):
    told = []
    settings = SETTINGS.differing(modality=modality, steps=80, batch_size=8, lr=0.02)
    run = train_network(data, settings, tmp_path / "run", progress=lambda *a: told.append(a))
    assert run.finished
    assert run.result["accuracy"] > 0.85
    assert run.epochs[-1]["train_loss"] < 0.6 * run.epochs[0]["train_loss"]
    assert told[-1] == (80, 80)
    assert len(told) == 80
    assert NetworkRun.read(tmp_path / "run") == run
    counts = json.loads((tmp_path / "run" / "counts.json").read_text())
    assert list(counts.values()) == data.class_counts.tolist()


@pytest.mark.parametrize("loss", ["ce", "median_ce", "max_ce", "ldam", "focal"])
def test_every_loss_of_the_table_runs(tmp_path, data, loss):
    run = train_network(data, SETTINGS.differing(loss=loss, steps=3), tmp_path / loss)
    assert run.finished
    assert np.isfinite(run.epochs[0]["train_loss"])
    shares = np.asarray(data.class_counts) / np.sum(data.class_counts)
    uniform = loss in ("median_ce", "max_ce")
    expected = np.full(5, 0.2) if uniform else shares
    np.testing.assert_allclose(run.effective_prior, expected, rtol=1e-5)


def test_frequency_weights_of_either_kind_are_one_loss(tmp_path, data):
    runs = [
        train_network(data, SETTINGS.differing(loss=loss, steps=3), tmp_path / loss)
        for loss in ("median_ce", "max_ce")
    ]
    losses = [run.epochs[0]["train_loss"] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_pixels_without_a_label_teach_nothing(tmp_path, data):
    """The same network comes out whatever is painted over pixels that are ignored."""
    only = data.train.of_classes([name for name in data.classes if name != "car"])
    assert (only[0].labels == 255).any()
    inputs, labels = next(module.batches(only, SETTINGS, 0))
    assert (labels == -100).any()
    loop = module._Loop(
        module._new_run(data, SETTINGS), module.build_network("tiny", 5), data, tmp_path, None
    )
    loss, _, n = loop._step(inputs, labels)
    assert n == (labels[:, ::2, ::2] != -100).sum()
    assert torch.isfinite(loss)


class NoDoubles(TorchDispatchMode):
    """A device without double precision, as Apple's: whatever makes such a tensor fails."""

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        made = operator(*args, **(kwargs or {}))
        for each in made if isinstance(made, tuple | list) else (made,):
            if isinstance(each, torch.Tensor) and each.dtype == torch.float64:
                raise TypeError(f"{operator} makes a float64")
        return made


@pytest.mark.parametrize("loss", ["ce", "median_ce", "max_ce", "ldam", "focal"])
def test_a_device_needs_no_double_precision(tmp_path, data, loss):
    settings = SETTINGS.differing(loss=loss)
    run = module._new_run(data, settings)
    network = module.build_network("tiny", 5, head=settings.head)
    loop = module._Loop(run, network, data, tmp_path, None)
    assert {buffer.dtype for buffer in loop.criterion.buffers()} <= {torch.float32}
    with NoDoubles():
        assert loop._epoch(0, None)["step"] == 3
        predict_scores(network, [data.validation[0]], settings)
    with NoDoubles(), pytest.raises(TypeError, match="makes a float64"):
        torch.zeros(3, dtype=torch.float64)


def test_sums_are_those_of_double_precision():
    rng = np.random.default_rng(0)
    losses = rng.random(1000).astype(np.float32)
    pixels = rng.integers(1, 2**26, 1000)
    steps = [
        (torch.tensor(loss), torch.tensor(n // 2), torch.tensor(n))
        for loss, n in zip(losses, pixels, strict=True)
    ]
    total, right, n = module.summed(steps)
    assert total == sum(float(loss) * int(n) for loss, n in zip(losses, pixels, strict=True))
    assert (right, n) == ((pixels // 2).sum(), pixels.sum())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("crop", [(32, 48), (16, 16)])  # of the latter, one feature is left
def test_deeplab_goes_over_a_last_batch_of_one(tmp_path, data, crop):
    settings = NetworkSettings(
        model="deeplabv3plus-resnet18", crop=crop, steps=2, batch_size=2, augment="none"
    )
    three = data.__class__(
        data.train.subset(range(3)), data.validation, data.test, data.class_counts
    )
    run = train_network(three, settings, tmp_path, device="cpu")
    assert run.finished
    assert [epoch["step"] for epoch in run.epochs] == [1, 2]
    assert all(np.isfinite(epoch["train_loss"]) for epoch in run.epochs)


def test_stopped_at_any_moment_it_goes_on_to_the_same_bits(tmp_path, data, monkeypatch):
    whole = train_network(data, SETTINGS, tmp_path / "whole")
    step = module._Loop._step
    taken = []

    def stopping(self, *given):
        taken.append(1)
        if len(taken) in (6, 14):  # in the middle of an epoch, twice
            raise KeyboardInterrupt
        return step(self, *given)

    monkeypatch.setattr(module._Loop, "_step", stopping)
    folder = tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        train_network(data, SETTINGS, folder)
    assert not NetworkRun.read(folder).finished
    with pytest.raises(KeyboardInterrupt):
        train_network(data, SETTINGS, folder, resume=True)
    again = train_network(data, SETTINGS, folder, resume=True)
    assert again.epochs == whole.epochs
    assert again.result == whole.result
    first, second = load_network(tmp_path / "whole"), load_network(folder)
    for (name, a), b in zip(first.state_dict().items(), second.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_a_damaged_checkpoint_costs_an_epoch(tmp_path, data):
    whole = train_network(data, SETTINGS, tmp_path)
    last = max((tmp_path / "checkpoints").glob("*.ckpt"))
    last.write_bytes(b"half")
    NetworkRun.read(tmp_path).updated(status="running").write(tmp_path)
    with pytest.warns(RepriorWarning, match="resumes from the one before"):
        again = train_network(data, SETTINGS, tmp_path, resume=True)
    assert again.epochs == whole.epochs
    assert again.result == whole.result


def test_the_loaded_network_is_the_trained_one(tmp_path, data):
    run = train_network(data, SETTINGS, tmp_path)
    network = load_network(tmp_path)
    assert not network.training
    frames = [data.validation[i] for i in range(len(data.validation))]
    assert measured(*predict_scores(network, frames, SETTINGS)) == run.result


def test_a_finished_run_is_returned_as_it_is(tmp_path, data, monkeypatch):
    run = train_network(data, SETTINGS, tmp_path)
    monkeypatch.setattr(module, "_Loop", None)
    assert train_network(data, SETTINGS, tmp_path, resume=True) == run
    with pytest.raises(OptionError, match="`folder` must have no run yet"):
        train_network(data, SETTINGS, tmp_path)


def test_other_settings_or_data_are_refused(tmp_path, data):
    train_network(data, SETTINGS.differing(steps=3), tmp_path)
    with pytest.raises(OptionError, match=r"where lr is 0.01 and not 0.1. Take another folder"):
        train_network(data, SETTINGS.differing(steps=3, lr=0.1), tmp_path, resume=True)
    other = data.__class__(
        data.train.subset(range(5)), data.validation, data.test, data.class_counts
    )
    with pytest.raises(OptionError, match="where data is"):
        train_network(other, SETTINGS.differing(steps=3), tmp_path, resume=True)


def test_a_run_that_is_not_finished_is_not_loaded(tmp_path, data):
    NetworkRun(SETTINGS, classes=data.classes).write(tmp_path)
    with pytest.raises(OptionError, match="must have a finished run"):
        load_network(tmp_path)


def test_a_loss_that_is_not_finite_is_refused(tmp_path, data):
    with pytest.raises(OptionError, match="`lr` must be low enough for the loss to stay finite"):
        train_network(data, SETTINGS.differing(lr=1e30, steps=12, lr_schedule="steps"), tmp_path)


def test_the_callers_random_numbers_are_left_alone(tmp_path, data):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    train_network(data, SETTINGS.differing(steps=3), tmp_path)
    assert torch.equal(torch.rand(3), expected)
