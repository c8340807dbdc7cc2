"""fit_from_loader equals a fit on all scores at once, whatever batches and outputs look like."""

from __future__ import annotations

import logging
import sys
import weakref
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.support.torch_networks import PRIOR, logits_and_labels, network
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import reprior as rp
from reprior.torch import fit_from_loader

N = 120


class Images(nn.Module):
    """Logits (N, 3, H, W) of images (N, 3, H, W): a 1×1 convolution that changes little."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.conv = nn.Conv2d(3, 3, 1)
        with torch.no_grad():
            self.conv.weight.copy_(torch.eye(3)[..., None, None])
            self.conv.bias.zero_()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.conv(self.norm(images))


@dataclass
class HuggingFace:
    logits: torch.Tensor


def rows(n: int = N) -> tuple[torch.Tensor, torch.Tensor]:
    scores, labels = logits_and_labels(n)
    return scores.float(), labels


def loader(*tensors: torch.Tensor, batch_size: int = 32) -> DataLoader:
    return DataLoader(TensorDataset(*tensors), batch_size=batch_size)


def fit(model, batches, **options) -> rp.PosteriorCalibrator:
    return fit_from_loader(model, batches, **{"source_prior": PRIOR, "progress": False, **options})


def same(got: rp.PosteriorCalibrator, scores, labels, weight=None, **options) -> None:
    wanted = rp.PosteriorCalibrator(PRIOR, **{"class_axis": 1, **options})
    wanted.fit(scores.detach(), labels, weight)
    assert got.strength_ == wanted.strength_
    assert got.strength_interval_ == wanted.strength_interval_
    assert got.best_score_ == wanted.best_score_
    assert (got.kind, got.class_axis) == ("logits", 1)


identity = nn.Identity()


class TestEquals:
    def test_rows(self):
        x, y = rows()
        cal = fit(identity, loader(x, y))
        same(cal, x, y)
        assert cal.profile_.n_samples == N

    @pytest.mark.parametrize("metric", ["mean_iou", "accuracy"])
    def test_pixels_with_some_ignored(self, metric):
        images, labels = logits_and_labels(10, 6, 7)
        labels[:, 0] = 255
        labels[3] = 255
        model = Images().eval()
        options = {"metric": metric, "ignore_index": 255}
        cal = fit(model, loader(images.float(), labels, batch_size=3), **options)
        same(cal, model(images.float()), labels, **options)

    def test_a_batch_of_ignored_samples(self):
        x, y = rows()
        y[:32] = -100
        same(fit(identity, loader(x, y), ignore_index=-100), x[32:], y[32:])

    def test_masks_with_an_axis_for_their_one_channel(self):
        images, labels = logits_and_labels(4, 5, 6)
        same(fit(identity, loader(images, labels[:, None], batch_size=2)), images, labels)

    def test_weights(self):
        x, y = rows()
        weight = (torch.arange(N) % 3).double()
        same(fit(identity, loader(x, y, weight)), x, y, weight)

    def test_a_mask(self):
        x, y = rows()
        mask = torch.arange(N) % 4 > 0
        same(fit(identity, loader(x, y, mask)), x, y, mask.double())

    def test_a_temperature_too(self):
        x, y = rows()
        got = fit(identity, loader(x, y), temperature="fit")
        wanted = rp.PosteriorCalibrator(PRIOR, temperature="fit").fit(x, y)
        assert got.temperature_ == pytest.approx(wanted.temperature_, rel=1e-6)

    @pytest.mark.parametrize(
        "options",
        [{"metric": "log_loss"}, {"separate": True, "selection": "smooth"}],
        ids=str,
    )
    def test_probabilities_too(self, options):
        x, y = rows()
        got = fit(identity, loader(x, y), **options)
        wanted = rp.PosteriorCalibrator(PRIOR, **options).fit(x, y)
        torch.testing.assert_close(got.predict_proba(x), wanted.predict_proba(x), rtol=0, atol=1e-6)
        assert torch.equal(got.predict(x), wanted.predict(x))

    def test_class_names(self):
        x, y = rows()
        cal = fit(identity, loader(x, y), classes=[0, 1, 2], target_prior=[0.2, 0.3, 0.5])
        assert cal.classes_.tolist() == [0, 1, 2]
        np.testing.assert_allclose(cal.target_prior_, [0.2, 0.3, 0.5])

    def test_one_score_of_two_classes(self):
        x, y = torch.randn(60, 1, generator=torch.manual_seed(0)), torch.arange(60) % 2
        x = x + y[:, None]
        got = fit(identity, loader(x, y), source_prior=[0.8, 0.2])
        wanted = rp.PosteriorCalibrator([0.8, 0.2], class_axis=1).fit(x, y)
        assert got.strength_ == wanted.strength_
        again = fit(identity, loader(x, y[:, None]), source_prior=[0.8, 0.2])
        assert again.strength_ == wanted.strength_

    def test_mixed_precision(self):
        torch.manual_seed(0)
        model, x, y = network().eval(), torch.randn(N, 4), torch.arange(N) % 3
        got = fit(model, loader(x, y, batch_size=N), autocast_dtype=torch.bfloat16)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            scores = model(x)
        assert scores.dtype == torch.bfloat16
        same(got, scores, y)


class TestBatches:
    x, y = rows()

    def mappings(self, **names):
        pieces = zip(self.x.split(40), self.y.split(40), strict=True)
        return [{names.get("x", "image"): a, names.get("y", "labels"): b} for a, b in pieces]

    def test_mappings(self):
        same(fit(identity, self.mappings()), self.x, self.y)
        same(fit(identity, self.mappings(y="target")), self.x, self.y)

    def test_keys(self):
        batches = [{**batch, "name": ["a"] * 40} for batch in self.mappings(x="a", y="b")]
        same(fit(identity, batches, input_key="a", label_key="b"), self.x, self.y)
        weighted = [{**batch, "w": torch.ones(40)} for batch in self.mappings()]
        same(fit(identity, weighted, weight_key="w"), self.x, self.y, torch.ones(N))

    def test_several_inputs_go_by_name(self):
        batches = [{**batch, "shift": torch.zeros(1)} for batch in self.mappings()]

        def model(image, shift):
            return image + shift

        same(fit(model, batches), self.x, self.y)

    def test_several_inputs_in_a_tuple(self):
        batches = [((a, 0.0), b) for a, b in loader(self.x, self.y)]
        same(fit(torch.add, batches), self.x, self.y)

    def test_a_function(self):
        batches = [SimpleNamespace(x=a, y=b) for a, b in loader(self.x, self.y)]
        same(fit(identity, batches, unpack=lambda batch: (batch.x, batch.y)), self.x, self.y)

    def test_lists_as_labels(self):
        same(fit(identity, [(self.x, self.y.tolist())]), self.x, self.y)

    def test_a_generator_can_be_read_once(self):
        same(fit(identity, iter(loader(self.x, self.y))), self.x, self.y)


class TestOutputs:
    x, y = rows()

    @pytest.mark.parametrize(
        "wrap, key",
        [
            (lambda z: {"out": z, "aux": -z}, None),
            (lambda z: {"logits": z, "loss": 0.0}, None),
            (HuggingFace, None),
            (lambda z: (z,), None),
            (lambda z: {"main": z, "aux": -z}, "main"),
            (lambda z: SimpleNamespace(main=z), "main"),
            (lambda z: (-z, z), lambda output: output[1]),
            (lambda z: (z, -z), 0),
            (lambda z: [-z, z], -1),
        ],
    )
    def test_forms(self, wrap, key):
        same(fit(wrap, loader(self.x, self.y), output_key=key), self.x, self.y)


class TestModalities:
    def test_each_has_a_calibrator(self):
        x, y = rows()
        z = logits_and_labels(N, seed=5)[0].float()
        batches = [({"rgb": a, "depth": b}, c) for a, b, c in loader(x, z, y)]
        cals = fit({"rgb": identity, "depth": nn.Identity()}, batches)
        assert list(cals) == ["rgb", "depth"]
        same(cals["rgb"], x, y)
        same(cals["depth"], z, y)

    def test_an_input_is_missing(self):
        x, y = rows()
        with pytest.raises(rp.OptionError, match="Got 'rgb', and a model for 'depth'"):
            fit({"depth": identity}, [({"rgb": x}, y)])
        with pytest.raises(rp.OptionError, match=r"must give inputs by modality\. Got Tensor"):
            fit({"depth": identity}, [(x, y)])


class TestManners:
    def test_every_part_is_in_its_own_mode_again(self):
        model = Images().train()
        model.norm.eval()
        images, labels = logits_and_labels(4, 5, 6)
        running = model.norm.running_mean.clone()
        fit(model, loader(images.float(), labels))
        assert [model.training, model.norm.training, model.conv.training] == [True, False, True]
        assert torch.equal(model.norm.running_mean, running)

    def test_after_an_error_too(self):
        x, y = rows()
        model, seen = nn.Sequential(nn.Dropout(0.5)).train(), []
        model.register_forward_hook(lambda module, *_: seen.append(module.training))
        y[-1] = 7
        with pytest.raises(rp.LabelsError, match="ignore_index=7"):
            fit(model, loader(x, y))
        assert model.training
        assert model[0].training
        assert seen == [False] * 4

    def test_scores_are_let_go(self):
        x, y = rows()
        alive: list[weakref.ref] = []

        def model(inputs: torch.Tensor) -> torch.Tensor:
            scores = inputs.clone()
            alive.append(weakref.ref(scores))
            return scores

        counts = []

        def batches():
            for batch in loader(x, y, batch_size=10):
                counts.append(sum(ref() is not None for ref in alive))
                yield batch

        fit(model, batches())
        assert len(counts) == 12
        assert max(counts) <= 1

    def test_no_graph_is_built(self):
        seen = []
        model = nn.Linear(3, 3)
        nn.init.eye_(model.weight)
        model.register_forward_hook(lambda _module, _inputs, out: seen.append(out.requires_grad))
        fit(model, loader(*rows()))
        assert seen == [False] * 4

    def test_a_best_strength_at_the_bound_is_looked_for_further_up(self):
        x, y = rows()
        with pytest.warns(rp.RepriorWarning, match="searching up to"):
            got = fit(identity, loader(x, y), bounds=(0.0, 0.05))
        with pytest.warns(rp.RepriorWarning, match="searching up to"):
            same(got, x, y, bounds=(0.0, 0.05))

    def test_very_many_samples_of_many_classes_go_into_coarse_bins(self, monkeypatch):
        x, y = rows()
        monkeypatch.setattr("reprior.torch.loader.MANY_SAMPLES", N - 1)
        exact = fit(identity, loader(x, y))
        assert exact.profile_.resolution is None
        monkeypatch.setattr("reprior.torch.loader.MOST_CELLS", 1000)
        cal = fit(identity, loader(x, y))
        assert cal.profile_.resolution == 1e-3
        assert cal.strength_ == pytest.approx(exact.strength_, abs=2e-3)
        assert fit(identity, loader(x, y), resolution=None).profile_.resolution is None

    def test_a_loader_without_a_length(self):
        x, y = rows()

        class Stream(IterableDataset):
            def __iter__(self):
                return iter(TensorDataset(x, y))

        same(fit(identity, DataLoader(Stream(), batch_size=32)), x, y)

    def test_the_loader_is_begun_once(self):
        x, y = rows()
        begun = []

        class Counting(list):
            def __iter__(self):
                begun.append(True)
                return super().__iter__()

        same(fit(identity, Counting(loader(x, y))), x, y)
        assert len(begun) == 1

    def test_workers_that_persist_are_not_begun_anew(self):
        # In a real one each sample of the first batches would be counted twice.
        x, y = rows()

        class Persistent(list):
            def __iter__(self):
                self.next = 0
                return _Reader(self)

        same(fit(identity, Persistent(loader(x, y))), x, y)

    def test_scores_are_let_go_before_the_next_batch(self):
        x, y = rows()
        alive: list[weakref.ref[torch.Tensor]] = []

        def model(inputs: torch.Tensor) -> torch.Tensor:
            assert all(scores() is None for scores in alive)
            scores = inputs.clone()
            alive.append(weakref.ref(scores))
            return scores

        fit(model, loader(x, y))
        assert len(alive) == 4

    def test_a_generator_cannot_be_searched_again(self):
        x, y = rows()
        with pytest.warns(rp.RepriorWarning):
            got = fit(identity, iter(loader(x, y)), bounds=(0.0, 0.05))
        assert got.strength_ <= 0.05

    def test_the_bar(self, capsys):
        fit(identity, loader(*rows()), progress=True)
        assert "reprior" in capsys.readouterr().err

    def test_no_bar_without_tqdm(self, monkeypatch, caplog):
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
        with caplog.at_level(logging.INFO, "reprior"):
            fit(identity, loader(*rows()), progress=True)
        assert "install tqdm" in caplog.text

    def test_a_device_by_name(self):
        x, y = rows()
        same(fit(nn.Sequential(Images())[0:0], loader(x, y), device="cpu"), x, y)


class _Reader:
    """Batches of a list that remembers for all of its readers where they are."""

    def __init__(self, batches) -> None:
        self.batches = batches

    def __iter__(self):
        return self

    def __next__(self):
        if self.batches.next == len(self.batches):
            raise StopIteration
        self.batches.next += 1
        return self.batches[self.batches.next - 1]


class TestWords:
    x, y = rows()

    def refused(self, match, model, batches, error=rp.OptionError, **options):
        with pytest.raises(error, match=match):
            fit(model, batches, **options)

    def test_nothing_to_read(self):
        self.refused("at least one sample. Got none. Check", identity, [], rp.LabelsError)

    def test_nothing_counts(self):
        batch = (self.x, torch.full((N,), 255))
        self.refused("Got 120 samples, none", identity, [batch], rp.LabelsError, ignore_index=255)

    def test_no_labels(self):
        self.refused("Got a Tensor. Pass unpack", identity, [self.x])
        self.refused("`unpack` must return", identity, [(1, 2)], unpack=lambda batch: 3)
        self.refused("none of these among 'a'. Pass label_key", identity, [{"a": self.x}])
        both = {"x": self.x, "label": self.y, "target": self.y}
        self.refused("several of these among", identity, [both])
        self.refused("Got 'c', and keys", identity, [both], label_key="c")

    def test_whole_numbers_as_the_third_entry(self):
        batch = (self.x, self.y, torch.arange(1, N + 1))
        self.refused("Got int64, which may be indices", identity, [batch])
        self.refused("Got int64, which may be", identity, [(self.x, self.y, [3] * N)])
        same(fit(identity, [batch], unpack=lambda batch: batch[:2]), self.x, self.y)
        same(fit(identity, [batch], unpack=tuple), self.x, self.y, batch[2])

    def test_labels_and_weights_that_are_no_numbers(self):
        self.refused("`labels` of a batch must be numbers", identity, [(self.x, ["cat"] * N)])
        self.refused("`weight` of a batch", identity, [(self.x, self.y, ["a.png"] * N)])

    def test_no_network_no_loader_no_dtype(self):
        batches = [(self.x, self.y)]
        self.refused("`model` must be a network.* Got NoneType", None, batches)
        self.refused("`model` must be .* Got an empty mapping", {}, batches)
        self.refused("`loader` must give batches. Got int", identity, 5)
        self.refused("`bounds` must be two numbers", identity, batches, bounds=2)
        self.refused("Got 'bf16'. Pass", identity, batches, autocast_dtype="bf16")

    def test_outputs_that_are_not_clear(self):
        self.refused("Got a tuple of 2. Pass output_key", lambda x: (x, x), [(self.x, self.y)])
        self.refused(
            "keys 'a', 'b'. Pass output_key", lambda x: {"a": x, "b": x}, [(self.x, self.y)]
        )
        self.refused(
            "`output_key` must be a name.* Got 'c'", lambda x: {"a": x}, [(self.x, self.y)],
            output_key="c",
        )  # fmt: skip

        self.refused(
            "of which 2 may be the scores: 'logits', 'out'. Pass output_key",
            lambda x: {"out": x, "logits": x}, [(self.x, self.y)],
        )  # fmt: skip
        self.refused("Got 2, and a tuple of 2", lambda x: (x, x), [(self.x, self.y)], output_key=2)

    def test_entries_that_the_model_does_not_take(self):
        batch = {"a": self.x, "b": self.y, "id": self.y}
        self.refused(
            "keys 'a', 'id', which Identity does not take. Pass input_key=", nn.Identity(),
            [batch], label_key="b",
        )  # fmt: skip

    def test_model_and_loader_in_each_others_place(self):
        batches = loader(self.x, self.y)
        self.refused(r"Got a network, Sequential\. .*\(model, loader", batches, nn.Sequential())

    def test_floating_labels(self):
        self.refused(
            r"Cast them, after .*labels\.long\(\) in PyTorch", identity, [(self.x, self.y.float())],
            rp.LabelsError,
        )  # fmt: skip

    def test_a_temperature_that_is_no_number(self):
        self.refused("Got True. Or pass 'fit'", identity, [(self.x, self.y)], temperature=True)

    def test_another_device(self):
        self.refused(
            r"Got meta, and a model on cpu. Call model.to\('meta'\)", nn.Linear(3, 3),
            [(self.x, self.y)], device="meta",
        )  # fmt: skip

    def test_a_score_that_is_no_number_is_named(self):
        x = self.x.clone()
        x[70, 1] = float("nan")
        self.refused(r"scores\[70, 1\]=nan", identity, loader(x, self.y), rp.ScoresError)

    def test_the_wrong_axis(self):
        self.refused("Pass class_axis=2", identity, [(self.x[:, None], self.y)], rp.ScoresError)

    def test_the_prior_is_asked_for(self):
        with pytest.raises(TypeError, match="source_prior"):
            fit_from_loader(identity, [])
