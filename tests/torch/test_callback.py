"""RebalanceCallback: what it tunes, logs and writes in a real training run."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from tests.support.child_processes import started
from tests.support.torch_networks import PRIOR, logits_and_labels, network
from torch import distributed, nn
from torch.utils.data import DataLoader, TensorDataset

import reprior as rp
from reprior.engines import OnlineFit
from reprior.torch import RebalanceCallback
from reprior.torch.callback import merged

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{words}")
    for words in (
        ".*does not have many workers",
        ".*The number of training batches",
        ".*`isinstance\\(treespec, LeafSpec\\)`",
        ".*treespec",
        ".*litlogger",
        ".*Trying to infer the `batch_size`",
        ".*checkpoint directory .* exists",
        "The best strength l",  # of a network that has learnt little
        "No strength from",
    )
]


class Model(pl.LightningModule):
    """Returns what a test tells it to from its validation step."""

    def __init__(self, returned=lambda logits, batch: {"logits": logits}) -> None:
        super().__init__()
        self.network = network()
        self.returned = returned
        self.seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self.network(batch[0]), batch[1])

    def on_validation_epoch_start(self) -> None:
        self.seen = []

    def validation_step(self, batch: Any, _: int) -> Any:
        logits = self.network(batch[0])
        self.seen.append((logits.detach().clone(), batch[1]))
        return self.returned(logits, batch)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def data(n: int = 90) -> DataLoader:
    scores, labels = logits_and_labels(n)
    inputs = torch.cat([scores, scores[:, :1] ** 2], dim=1).float()
    return DataLoader(TensorDataset(inputs, labels), batch_size=30)


def trainer(folder: Path, *callbacks: Any, **options: Any) -> pl.Trainer:
    options = {"max_epochs": 2, "logger": False, **options}
    return pl.Trainer(
        default_root_dir=folder, callbacks=list(callbacks), accelerator="cpu", devices=1,
        enable_progress_bar=False, enable_model_summary=False, **options,
    )  # fmt: skip


def callback(**options: Any) -> RebalanceCallback:
    return RebalanceCallback(PRIOR, **{"bounds": (0.0, 8.0), **options})


def checkpoint(folder: Path, **options: Any) -> pl.callbacks.ModelCheckpoint:
    return pl.callbacks.ModelCheckpoint(folder / "saved", **options)


def test_tunes_logs_and_saves(tmp_path):
    ours, model = callback(temperature="fit"), Model()
    run = trainer(tmp_path, ours, checkpoint(tmp_path, save_top_k=-1, save_last=True))
    run.fit(model, data(), data())
    scores, labels = (torch.cat(parts) for parts in zip(*model.seen, strict=True))
    wanted = rp.PosteriorCalibrator(PRIOR, bounds=(0.0, 8.0), temperature="fit").fit(scores, labels)
    assert ours.calibrator_.strength_ == wanted.strength_
    assert ours.calibrator_.profile_.n_samples == 90
    logged = {name: float(value) for name, value in run.callback_metrics.items()}
    assert logged["rebalance/strength"] == pytest.approx(wanted.strength_)
    assert logged["rebalance/temperature"] == pytest.approx(ours.calibrator_.temperature_)
    assert logged["rebalance/balanced_accuracy_after"] == pytest.approx(wanted.best_score_)
    before = (scores.argmax(1) == labels).double().mean()
    assert logged["rebalance/accuracy_before"] == pytest.approx(float(before))
    saved = tmp_path / "saved"
    names = {path.name for path in saved.iterdir()}
    assert "calibrator.json" in names
    for path in saved.glob("*.ckpt"):
        assert f"{path.stem}.calibrator.json" in names
    assert rp.load(saved / "last.calibrator.json").strength_ == wanted.strength_


def test_each_checkpoint_has_its_own_and_loses_it_with_itself(tmp_path):
    ours = callback()
    kept = checkpoint(tmp_path, save_top_k=1, monitor="rebalance/strength", mode="max")
    run = trainer(tmp_path, ours, kept, max_epochs=3)
    run.fit(Model(), data(), data())
    saved = tmp_path / "saved"
    (best,) = saved.glob("*.ckpt")
    beside = list(saved.glob("*.calibrator.json"))
    assert [path.name for path in beside] == [f"{best.stem}.calibrator.json"]
    assert rp.load(beside[0]).strength_ == pytest.approx(float(kept.best_model_score), rel=1e-6)


def test_the_checkpoint_has_it_inside(tmp_path):
    ours = callback()
    run = trainer(tmp_path, ours, checkpoint(tmp_path, save_last=True), max_epochs=1)
    run.fit(Model(), data(), data())
    content = torch.load(tmp_path / "saved" / "last.ckpt", weights_only=True)
    other = callback()
    other.load_state_dict(content["callbacks"][ours.state_key])
    assert other.calibrator_.strength_ == ours.calibrator_.strength_
    assert callback().state_dict() == {}


def test_the_sanity_check_is_not_counted(tmp_path):
    ours = callback(save=False)
    run = trainer(tmp_path, ours, limit_train_batches=1, max_epochs=0, num_sanity_val_steps=2)
    run.fit(Model(), data(), data())
    assert ours.calibrator_ is None
    run = trainer(tmp_path, ours, enable_checkpointing=False, num_sanity_val_steps=2, max_epochs=1)
    run.fit(Model(), data(), data())
    assert ours.calibrator_.profile_.n_samples == 90
    assert not list(tmp_path.rglob("*.json"))


@pytest.mark.parametrize(
    "returned, unpack",
    [
        (lambda logits, batch: logits, None),
        (lambda logits, batch: {"logits": logits, "labels": batch[1], "loss": 0.0}, None),
        (lambda logits, batch: {"z": logits}, lambda out, batch: (out["z"], batch[1])),
        (
            lambda logits, batch: {"z": logits},
            lambda out, batch: (out["z"], batch[1], torch.ones(30)),
        ),
    ],
)
def test_forms_of_the_validation_step(tmp_path, returned, unpack):
    ours, model = callback(unpack=unpack, dirpath=tmp_path / "here"), Model(returned)
    trainer(tmp_path, ours, enable_checkpointing=False).validate(model, data(), verbose=False)
    scores, labels = (torch.cat(parts) for parts in zip(*model.seen, strict=True))
    wanted = rp.PosteriorCalibrator(PRIOR, bounds=(0.0, 8.0)).fit(scores, labels)
    assert ours.calibrator_.strength_ == wanted.strength_
    assert rp.load(tmp_path / "here" / "calibrator.json").strength_ == wanted.strength_


class Pixels(Model):
    """Logits (N, 3, 2, 1), labels (N, 1, 2, 1) and a mask, all in what the step returns."""

    def validation_step(self, batch: Any, _: int) -> Any:
        logits = self.network(batch[0])
        logits = torch.stack([logits, logits.flip(1)], dim=2)[..., None]
        labels = torch.stack([batch[1], batch[1]], dim=1)[:, None, :, None]
        weight = torch.tensor([True, False])[:, None].expand(labels.shape)
        return {"logits": logits, "labels": labels, "weight": weight}


def test_masks_and_labels_with_a_class_axis(tmp_path):
    ours, model = callback(save=False), Pixels()
    run = trainer(tmp_path, ours, enable_checkpointing=False)
    run.validate(model, data(), verbose=False)
    with torch.no_grad():
        inputs, labels = data().dataset.tensors
        logits = model.eval().network(inputs)  # validation is over: it would be training again
    wanted = rp.PosteriorCalibrator(PRIOR, bounds=(0.0, 8.0)).fit(logits, labels)
    assert ours.calibrator_.profile_.n_samples == 90
    assert ours.calibrator_.strength_ == wanted.strength_


def test_of_several_loaders_the_first_counts(tmp_path):
    ours, model = callback(save=False), Model()
    model.validation_step = lambda batch, _, dataloader_idx=0: {"logits": model.network(batch[0])}
    run = trainer(tmp_path, ours, enable_checkpointing=False, accumulate_grad_batches=2)
    run.fit(model, data(), [data(60), data(90)])
    assert ours.calibrator_.profile_.n_samples == 60


def test_ignored_labels_and_a_batch_of_nothing_else(tmp_path):
    inputs, labels = data().dataset.tensors
    labels = labels.clone()
    labels[:30] = 255
    batches = DataLoader(TensorDataset(inputs, labels), batch_size=30)
    ours = callback(ignore_index=255, save=False)
    trainer(tmp_path, ours, enable_checkpointing=False).validate(Model(), batches, verbose=False)
    assert ours.calibrator_.profile_.n_samples == 60


class TestAnEpochWithoutASolution:
    def run(self, folder: Path, ours: RebalanceCallback, loader: DataLoader, **options: Any):
        run = trainer(folder, ours, **options)
        with pytest.warns(rp.RepriorWarning, match="No calibrator for this epoch"):
            run.fit(Model(), data(), loader)
        return {name: float(value) for name, value in run.callback_metrics.items()}

    def test_logs_the_uncorrected_model_and_a_checkpoint_can_watch_it(self, tmp_path):
        ours = callback(subject_to="accuracy >= 1.1")
        monitor = "rebalance/balanced_accuracy_after"
        kept = checkpoint(tmp_path, monitor=monitor, mode="max", save_last=True)
        saved = tmp_path / "saved"
        saved.mkdir()
        (saved / "calibrator.json").write_text("{}")
        (saved / "last.calibrator.json").write_text("{}")
        run = trainer(tmp_path, ours, kept)
        with pytest.warns(rp.RepriorWarning, match=r"after, and calibrator\.json of an earlier"):
            run.fit(Model(), data(), data())
        logged = {name: float(value) for name, value in run.callback_metrics.items()}
        assert ours.calibrator_ is None
        assert (logged["rebalance/strength"], logged["rebalance/temperature"]) == (0.0, 1.0)
        for name in ("accuracy", "balanced_accuracy"):
            assert logged[f"rebalance/{name}_after"] == logged[f"rebalance/{name}_before"] > 0
        assert Path(kept.best_model_path).is_file()
        assert not list(saved.glob("*.json"))

    def test_nothing_to_count_is_nan(self, tmp_path):
        inputs, labels = data().dataset.tensors
        nothing = DataLoader(TensorDataset(inputs, torch.full_like(labels, 255)), batch_size=30)
        ours = callback(ignore_index=255, save=False)
        logged = self.run(tmp_path, ours, nothing, enable_checkpointing=False)
        assert np.isnan(logged["rebalance/accuracy_before"])
        assert np.isnan(logged["rebalance/accuracy_after"])


class TestTwo:
    def test_each_has_its_names(self, tmp_path):
        one, other = callback(), callback(metric="recall[2]", name="rare")
        run = trainer(tmp_path, one, other, checkpoint(tmp_path, save_last=True), max_epochs=1)
        run.fit(Model(), data(), data())
        assert {"rebalance/strength", "rare/strength", "rare/recall[2]_after"} <= set(
            run.callback_metrics
        )
        saved = tmp_path / "saved"
        for ours, name in ((one, "calibrator.json"), (other, "calibrator.rare.json")):
            for path in (saved / name, saved / f"last.{name}"):
                assert rp.load(path).strength_ == ours.calibrator_.strength_
        content = torch.load(saved / "last.ckpt", weights_only=True)["callbacks"]
        strengths = [content[each.state_key]["calibrator"]["strength"] for each in (one, other)]
        assert strengths == [one.calibrator_.strength_, other.calibrator_.strength_]

    def test_one_name_for_both(self, tmp_path):
        run = trainer(tmp_path, callback(), callback(metric="accuracy"), enable_checkpointing=False)
        with pytest.raises(rp.OptionError, match=r"Got 'rebalance' twice\. Pass for example name="):
            run.validate(Model(), data(), verbose=False)


def test_a_resumed_run_leaves_each_checkpoint_its_own(tmp_path):
    options = {"save_top_k": -1, "save_last": True}
    first = trainer(tmp_path, callback(), checkpoint(tmp_path, **options), max_epochs=2)
    first.fit(Model(), data(), data())
    saved = tmp_path / "saved"
    before = {path.name: path.read_text() for path in saved.glob("epoch*.json")}
    again = trainer(tmp_path, callback(), checkpoint(tmp_path, **options), max_epochs=3)
    again.fit(Model(), data(), data(), ckpt_path=saved / "last.ckpt", weights_only=False)
    after = {path.name: path.read_text() for path in saved.glob("epoch*.json")}
    assert len(before) == 2
    assert len(after) == 3
    assert {name: after[name] for name in before} == before


@pytest.mark.parametrize(
    "options, match",
    [
        ({"metric": "balanced_acuracy"}, "Did you mean 'balanced_accuracy'"),
        ({"metrics": ("acuracy",)}, "Did you mean 'accuracy'"),
        ({"metrics": "accuracy"}, r"Pass for example metrics=\['accuracy'\]"),
        ({"metrics": ("recall[3]",)}, "must name a class that exists, 0 to 2"),
        ({"target_prior": [0.5, 0.2, 0.1]}, "target_prior"),
        ({"target_prior": [0.5, 0.5]}, "target_prior"),
        ({"bounds": (2.0, 0.0)}, "bounds reversed"),
        ({"subject_to": "accuracy => 0.5"}, "subject_to"),
        ({"temperature": True}, "`temperature` must be .* Got True"),
        ({"kind": "logit"}, "Did you mean 'logits'"),
        ({"class_axis": 1.0}, r"`class_axis` must be an integer\. Got 1\.0"),
        ({"classes": ["a", "b"]}, "`classes` must name 3"),
        ({"unpack": 0}, "`unpack` must be a function"),
        ({"name": "a/b"}, "`name` must be letters"),
    ],
)
def test_options_are_checked_before_training(options, match):
    with pytest.raises(rp.RepriorError, match=match):
        callback(**options)


@pytest.mark.parametrize(
    "prior, axis, match",
    [([0.5, 0.5], 1, "2 classes in the prior"), (PRIOR, 0, r"Pass class_axis=1")],
)
def test_the_sanity_check_finds_a_wrong_number_or_axis_of_classes(tmp_path, prior, axis, match):
    ours, model = RebalanceCallback(prior, class_axis=axis, save=False), Model()
    run = trainer(tmp_path, ours, enable_checkpointing=False, num_sanity_val_steps=1)
    with pytest.raises(rp.ScoresError, match=match):
        run.fit(model, data(), data())
    assert ours.calibrator_ is None
    assert run.global_step == 0


@pytest.mark.parametrize(
    "returned, got",
    [
        (lambda logits, batch: None, "Got NoneType"),
        (lambda logits, batch: {"loss": logits.mean()}, r"Got the keys \['loss'\]"),
        (lambda logits, batch: logits.mean(), "Got Tensor"),
    ],
)
def test_logits_are_asked_for(tmp_path, returned, got):
    run = trainer(tmp_path, callback(), enable_checkpointing=False)
    with pytest.raises(rp.OptionError, match=rf"must return its logits.*{got}\. Return \{{'loss'"):
        run.validate(Model(returned), data(), verbose=False)


@pytest.mark.parametrize("options", [{"metric": "log_loss"}, {"separate": True}], ids=str)
def test_fits_of_probabilities_are_logged(tmp_path, options):
    ours, model = callback(**options), Model()
    run = trainer(tmp_path, ours)
    run.fit(model, data(), data())
    scores, labels = (torch.cat(parts) for parts in zip(*model.seen, strict=True))
    wanted = rp.PosteriorCalibrator(PRIOR, bounds=(0.0, 8.0), **options).fit(scores, labels)
    logged = {name: float(value) for name, value in run.callback_metrics.items()}
    assert logged["rebalance/log_loss_before"] == pytest.approx(wanted.log_loss_[0], rel=1e-4)
    assert logged["rebalance/log_loss_after"] == pytest.approx(wanted.log_loss_[1], rel=1e-4)
    assert "rebalance/balanced_accuracy_after" in logged
    saved = rp.load(next(tmp_path.rglob("calibrator.json")))
    torch.testing.assert_close(
        saved.predict_proba(scores), wanted.predict_proba(scores), rtol=0, atol=1e-4
    )


def test_what_needs_all_scores_is_refused_before_the_training():
    with pytest.raises(rp.OptionError, match="must not need all scores at once"):
        callback(selection="balanced_log_loss")


def online(part: slice) -> OnlineFit:
    scores, labels = logits_and_labels(100)
    fit = OnlineFit(rp.PosteriorCalibrator(PRIOR))
    fit.update(scores[part], labels[part])
    return fit


def wanted() -> rp.PosteriorCalibrator:
    scores, labels = logits_and_labels(100)
    return rp.PosteriorCalibrator(PRIOR).fit(scores, labels)


def test_one_process_keeps_what_it_has():
    fit = online(slice(None))
    assert merged(fit) is fit


def test_the_parts_of_all_ranks(monkeypatch):
    parts = [online(slice(0, 30)), online(slice(30, 100))]

    def gather(results: list, own: OnlineFit) -> None:
        assert own is parts[1]
        results[:] = parts

    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(distributed, "all_gather_object", gather)
    cal = merged(parts[1]).finish()
    assert cal.strength_ == wanted().strength_
    assert cal.profile_.n_samples == 100


RANK = """
import json, sys
import conftest  # a torchvision that can be imported
from torch import distributed
from reprior.torch.callback import merged
from tests.torch.test_callback import online
rank, file = int(sys.argv[1]), sys.argv[2]
distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
cal = merged(online(slice(0, 30) if rank == 0 else slice(30, 100))).finish()
print(json.dumps([cal.strength_, cal.best_score_, cal.profile_.n_samples]))
distributed.destroy_process_group()
"""


@pytest.mark.heavy
@pytest.mark.skipif(not distributed.is_gloo_available(), reason="torch was built without gloo")
def test_two_real_processes(tmp_path):
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    environment["PYTHONPATH"] = os.pathsep.join([os.getcwd(), environment.get("PYTHONPATH", "")])
    commands = [[sys.executable, "-c", RANK, str(rank), str(tmp_path / "meet")] for rank in (0, 1)]
    with ExitStack() as stack:
        ranks = [
            stack.enter_context(started(command, stdout=subprocess.PIPE, env=environment))
            for command in commands
        ]
        results = [json.loads(rank.communicate()[0]) for rank in ranks]
    expected = wanted()
    assert results == 2 * [[expected.strength_, expected.best_score_, 100]]


def test_a_fit_travels_between_processes():
    fit = pickle.loads(pickle.dumps(online(slice(0, 40))))  # as all_gather_object does
    fit.merge(online(slice(40, 100)))
    assert fit.finish().strength_ == wanted().strength_
