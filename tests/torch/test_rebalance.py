"""Rebalance equals log_rebalance, and behaves as a layer does."""

from __future__ import annotations

import copy
import io
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.support.fusions import made
from tests.support.torch_networks import CLOSE, EXACT, PRIOR, fitted, logits_and_labels
from torch import nn

import reprior as rp
from reprior.torch import ModalityFusion, Rebalance
from reprior.torch.rebalance import exact_buffers

OPTIONS = {"strength": 0.8, "temperature": 1.6}


def oracle(scores: torch.Tensor, prior=PRIOR, **options) -> np.ndarray:
    return rp.log_rebalance(scores.double().numpy(), prior, **options)


@pytest.mark.parametrize("class_axis", [0, 1, 2, -1])
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_equals_the_core_on_every_axis(kind, class_axis):
    scores = torch.randn(4, 5, 6, 3, dtype=torch.float64, generator=torch.manual_seed(0))
    scores = {"logits": scores, "probs": scores.softmax(-1), "log_probs": scores.log_softmax(-1)}[
        kind
    ].movedim(-1, class_axis)
    options = {"kind": kind, "class_axis": class_axis, "target_prior": [0.5, 0.3, 0.2], **OPTIONS}
    got = Rebalance(PRIOR, **options)(scores)
    assert got.shape == scores.shape
    np.testing.assert_allclose(got, oracle(scores, **options), rtol=0, atol=EXACT)


@pytest.mark.parametrize("shape, class_axis", [((7,), -1), ((7, 1), 1), ((7, 1, 4), 1)])
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_one_score_of_two_classes(kind, shape, class_axis):
    scores = 3 * torch.randn(shape, dtype=torch.float64, generator=torch.manual_seed(1))
    scores = {
        "logits": scores, "probs": scores.sigmoid(), "log_probs": nn.functional.logsigmoid(scores),
    }[kind]  # fmt: skip
    options = {"kind": kind, "class_axis": class_axis, **OPTIONS}
    got = Rebalance([0.9, 0.1], **options)(scores)
    assert got.shape == scores.shape
    np.testing.assert_allclose(got, oracle(scores, [0.9, 0.1], **options), rtol=0, atol=EXACT)


def test_one_score_of_two_classes_on_the_first_axis():
    scores = torch.randn(1, 7, dtype=torch.float64, generator=torch.manual_seed(1))
    got = Rebalance([0.9, 0.1], class_axis=0)(scores)
    np.testing.assert_allclose(got[0], oracle(scores[0], [0.9, 0.1]), rtol=0, atol=EXACT)


@pytest.mark.parametrize("dtype", CLOSE)
def test_every_dtype_comes_back_as_it_was(dtype):
    scores = logits_and_labels(20)[0].to(dtype)
    got = Rebalance(PRIOR, **OPTIONS)(scores)
    assert got.dtype == dtype
    np.testing.assert_allclose(got.double(), oracle(scores, **OPTIONS), rtol=0, atol=CLOSE[dtype])


def test_integers_become_float64():
    scores = torch.tensor([[3, 1, 0]])
    got = Rebalance(PRIOR)(scores)
    assert got.dtype == torch.float64
    np.testing.assert_allclose(got, oracle(scores), rtol=0, atol=EXACT)


def test_a_class_of_target_prior_0_is_impossible():
    got = Rebalance(PRIOR, target_prior=[0.5, 0.5, 0.0])(torch.zeros(2, 3))
    assert torch.isneginf(got[:, 2]).all()
    assert torch.isfinite(got[:, :2]).all()
    free = Rebalance(PRIOR, target_prior=[0.5, 0.5, 0.0], strength=0.0)(torch.zeros(2, 3))
    np.testing.assert_allclose(free.exp(), np.full((2, 3), 1 / 3), rtol=1e-6)


@pytest.mark.parametrize("kind", ["logits", "log_probs"])
def test_is_the_calibrator(kind):
    scores, labels = logits_and_labels(200)
    if kind == "log_probs":
        scores = scores.log_softmax(1)
    cal = rp.PosteriorCalibrator(PRIOR, kind=kind, temperature="fit").fit(scores, labels)
    layer = Rebalance.from_calibrator(cal)
    np.testing.assert_allclose(layer(scores), cal.predict_log_proba(scores), rtol=0, atol=EXACT)
    assert torch.equal(layer(scores).argmax(1), cal.predict(scores))
    assert (layer.kind, layer.class_axis) == (kind, -1)


def test_the_network_may_have_its_classes_elsewhere():
    pixels = logits_and_labels(2, 4, 5)[0]
    layer = Rebalance.from_calibrator(fitted(), class_axis=1)
    got = layer(pixels).movedim(1, -1)
    np.testing.assert_allclose(
        got, fitted().predict_log_proba(pixels.movedim(1, -1).numpy()), rtol=0, atol=EXACT
    )


def test_buffers_no_parameters():
    layer = Rebalance(PRIOR)
    assert list(layer.parameters()) == []
    assert {name for name, _ in layer.named_buffers()} == {"scale", "bias"}


def test_gradients_flow_to_the_scores():
    scores = logits_and_labels(5)[0].requires_grad_()
    assert torch.autograd.gradcheck(Rebalance(PRIOR, **OPTIONS), scores)
    masked = Rebalance(PRIOR, target_prior=[0.5, 0.5, 0.0])
    nn.functional.nll_loss(masked(scores), torch.tensor([0, 1, 0, 1, 0])).backward()
    assert torch.isfinite(scores.grad).all()


class TestState:
    def test_round_trip(self):
        layer, other = Rebalance(PRIOR, **OPTIONS), Rebalance([1 / 3] * 3)
        file = io.BytesIO()
        torch.save(layer.state_dict(), file)
        file.seek(0)
        other.load_state_dict(torch.load(file, weights_only=True))
        assert torch.equal(other.bias, layer.bias)
        assert torch.equal(other.scale, layer.scale)

    def test_all_of_it_is_tensors(self):
        state = nn.Sequential(Rebalance(PRIOR)).state_dict()
        assert set(state) == {"0.scale", "0.bias", "0._extra_state"}
        assert all(isinstance(value, torch.Tensor) for value in state.values())

    @pytest.mark.parametrize("other", [{"kind": "probs"}, {"class_axis": 1}])
    def test_another_kind_or_axis_is_refused_and_nothing_is_loaded(self, other):
        layer = Rebalance(PRIOR)
        before = layer.bias.clone()
        with pytest.raises(rp.OptionError, match="Make the module with these before loading"):
            layer.load_state_dict(Rebalance([0.2, 0.3, 0.5], **other).state_dict())
        assert torch.equal(layer.bias, before)

    def test_another_number_of_classes_is_refused(self):
        with pytest.raises(RuntimeError, match="size mismatch"):
            Rebalance(PRIOR).load_state_dict(Rebalance([0.5, 0.5]).state_dict())

    def test_a_copy_is_of_its_own(self):
        layer = Rebalance(PRIOR, **OPTIONS)
        other = copy.deepcopy(layer)
        assert repr(other) == repr(layer)
        other.bias.zero_()
        assert layer.bias.abs().sum() > 0

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    def test_casting_the_network_rounds_nothing(self, dtype):
        layer = Rebalance(PRIOR, **OPTIONS)
        before = layer.bias.clone()
        model = nn.Sequential(nn.Linear(4, 3), layer).to(dtype)
        assert torch.equal(layer.bias, before)
        assert model[0].weight.dtype == dtype
        assert model(torch.ones(2, 4, dtype=dtype)).dtype == dtype

    def test_follows_a_device(self):
        layer = Rebalance(PRIOR).to("meta")
        assert layer.bias.device.type == layer.scale.device.type == "meta"
        back = layer.to_empty(device="cpu")
        back.load_state_dict(Rebalance(PRIOR).state_dict())
        np.testing.assert_allclose(back(torch.zeros(1, 3)), oracle(torch.zeros(1, 3)), atol=1e-6)


class TestSurroundings:
    scores = logits_and_labels(6)[0].float()
    layer = Rebalance(PRIOR, **OPTIONS)
    wanted = oracle(scores, **OPTIONS)

    def close(self, got: torch.Tensor, atol: float = CLOSE[torch.float32]) -> None:
        np.testing.assert_allclose(got.double().detach(), self.wanted, rtol=0, atol=atol)

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_autocast(self, dtype):
        with torch.autocast("cpu", dtype=dtype):
            self.close(self.layer(self.scores))
            low = self.layer(self.scores.to(dtype))
        assert low.dtype == dtype
        self.close(low, CLOSE[dtype])

    @pytest.mark.heavy
    def test_compile_without_a_break(self):
        compiled = torch.compile(self.layer, fullgraph=True, backend="eager", dynamic=True)
        self.close(compiled(self.scores))
        assert compiled(self.scores[:2]).shape == (2, 3)

    @pytest.mark.heavy
    def test_export_with_a_dynamic_batch(self):
        batch = torch.export.Dim("batch", min=2, max=64)
        program = torch.export.export(self.layer, (self.scores,), dynamic_shapes=({0: batch},))
        self.close(program.module()(self.scores))
        assert program.module()(self.scores[:3]).shape == (3, 3)

    @pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
    @pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning")
    def test_trace(self):
        traced = torch.jit.trace(self.layer, self.scores)
        self.close(traced(self.scores))
        assert traced(self.scores[:2]).shape == (2, 3)

    @pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
    @pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning")
    def test_trace_of_one_score(self):
        layer, scores = Rebalance([0.9, 0.1]), torch.randn(5, 1)
        traced = torch.jit.trace(layer, scores)
        assert torch.equal(traced(scores[:2]), layer(scores[:2]))

    def test_data_parallel(self):
        self.close(nn.DataParallel(self.layer)(self.scores))

    def test_vmap(self):
        self.close(torch.func.vmap(self.layer)(self.scores))


class TestWords:
    def test_wrong_number_of_classes(self):
        with pytest.raises(rp.ScoresError, match=r"Got 3 on axis -1 .* Pass class_axis=1"):
            Rebalance([0.25] * 4)(torch.zeros(2, 4, 3))

    @pytest.mark.parametrize(
        "options, error, words",
        [
            ({"kind": "logit"}, rp.OptionError, "Did you mean 'logits'"),
            ({"class_axis": 1.0}, rp.OptionError, "`class_axis` must be an integer. Got 1.0"),
            ({"temperature": 0.0}, rp.OptionError, "`temperature` must be a finite number above 0"),
            ({"strength": "much"}, rp.OptionError, "`strength` must be a finite number"),
            ({"target_prior": [0.5, 0.5]}, rp.PriorError, "`target_prior` must have one value per"),
        ],
    )
    def test_options(self, options, error, words):
        with pytest.raises(error, match=words):
            Rebalance(PRIOR, **options)

    def test_a_prior_that_is_none(self):
        with pytest.raises(rp.PriorError, match="must sum to 1"):
            Rebalance([70, 20, 10])

    def test_no_calibrator(self):
        with pytest.raises(rp.OptionError, match=r"must be a fitted PosteriorCalibrator\. Got int"):
            Rebalance.from_calibrator(3)

    def test_not_fitted(self):
        with pytest.raises(rp.NotFittedError):
            Rebalance.from_calibrator(rp.PosteriorCalibrator(PRIOR))

    def test_a_flattening_depends_on_its_input(self):
        with pytest.raises(rp.OptionError, match="EntropyReference, whose flattening depends"):
            Rebalance.from_calibrator(rp.EntropyReference(0.5, 0.1))


def test_a_calibrators_strength_is_divided_by_its_temperature():
    cal, scores = fitted(), logits_and_labels(50)[0]
    right = Rebalance.from_calibrator(cal)(scores)
    by_hand = Rebalance(
        PRIOR, strength=cal.strength_ / cal.temperature_, temperature=cal.temperature_
    )(scores)
    as_they_are = Rebalance(PRIOR, strength=cal.strength_, temperature=cal.temperature_)(scores)
    np.testing.assert_allclose(by_hand, right, rtol=0, atol=EXACT)
    assert not torch.allclose(as_they_are, right, atol=1e-3)


def test_what_is_printed():
    assert repr(Rebalance([0.5, 0.5], temperature=2.0)) == (
        "Rebalance(2 classes, temperature=2, bias=[-0.6931, -0.6931], kind='logits', class_axis=-1)"
    )
    assert ", …]" in repr(Rebalance([0.1] * 10))
    assert "bias" not in repr(Rebalance(PRIOR).to("meta"))


@pytest.mark.parametrize(
    "scores, match",
    [
        ({"out": 0, "aux": 1}, r"Got a dict with keys 'out', 'aux'\. Pass .*output\['logits'\]"),
        ((torch.zeros(1, 3), 0), r"Got a tuple of 2\. Pass .*output\[0\]"),
        (np.zeros((1, 3)), r"Got ndarray\. Pass torch\.as_tensor"),
        ([[0.0, 1.0, 2.0]], r"Got list\. Pass torch\.as_tensor"),
        (SimpleNamespace(logits=torch.zeros(1, 3)), r"Pass its scores, output\.logits"),
    ],
)
def test_no_tensor(scores, match):
    with pytest.raises(rp.ScoresError, match=match):
        Rebalance(PRIOR)(scores)


@pytest.mark.parametrize("option", ["strength", "temperature"])
def test_booleans_are_no_numbers(option):
    with pytest.raises(rp.OptionError, match=f"`{option}` must be .* Got True"):
        Rebalance(PRIOR, **{option: True})


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
