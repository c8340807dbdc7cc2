"""The module fuses as NumPy does, and behaves as a layer does."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from tests.support.fusions import ORDERS, PRIOR, RULES, K, made, modalities, problems
from torch import nn

import reprior as rp
from reprior.torch import ModalityFusion

KNOWN = {"rgb": (0.3, 0.05), "depth": (0.5, 0.1)}
OWN = {"rgb": 0.7, "depth": 0.3}

#: Log-posteriors of two float64 routes: a few dozen roundings, relative to values of some tens.
EXACT = {"rtol": 1e-12, "atol": 1e-12}

#: How far posteriors may be apart: the scores themselves are rounded to the dtype, by 2^-24,
#: 2^-11 or 2^-8 of numbers up to 10, and so is the result.
COARSE = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 8e-2}


def tensors(scores, dtype=torch.float64):
    return {name: torch.tensor(z, dtype=dtype) for name, z in scores.items()}


def fusion_of(**options):
    options = {"class_axis": 1, **options}
    known = KNOWN if options.pop("flatten", True) else None
    return made(PRIOR, known, OWN, **options)


def passes_fusion(uncertainty, rng, **options):
    """Fitted on five noisy passes of every image, and these passes."""
    scores, labels = modalities(rng, n=6)
    noisy = {n: z + rng.standard_normal((5, *z.shape)) for n, z in scores.items()}
    fusion = rp.ModalityFusion(
        PRIOR, class_axis=1, uncertainty=uncertainty, strength=0.4, **options
    ).fit(noisy, labels)
    more = {n: 0.4 * z + rng.standard_normal(z.shape) for n, z in noisy.items()}
    return fusion, more


@pytest.fixture
def rng():
    return np.random.default_rng(20201206)


ALL = list(itertools.product(RULES, ORDERS, ["image", "pixel"], [True, False]))


@pytest.mark.parametrize("rule, order, by, flatten", ALL)
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_is_numpy_for_every_option(rng, rule, order, by, flatten, kind):
    scores, _ = modalities(rng, n=4)
    scores = {n: 0.5 * z for n, z in scores.items()}  # unsure enough to be flattened
    if kind != "logits":
        scores = {n: rp.rebalance(z, PRIOR, strength=0, class_axis=1) for n, z in scores.items()}
        scores = {n: np.log(z) if kind == "log_probs" else z for n, z in scores.items()}
    fusion = fusion_of(rule=rule, order=order, flatten_by=by, flatten=flatten, kind=kind)
    got = ModalityFusion(fusion)(tensors(scores))
    np.testing.assert_allclose(got, fusion.predict_log_proba(scores), **EXACT)
    np.testing.assert_allclose(got.exp(), fusion.predict_proba(scores), **EXACT)
    assert np.array_equal(got.argmax(1), fusion.predict(scores))


@settings(max_examples=60, deadline=None)
@given(problem=problems())
def test_is_numpy_for_any_number_of_modalities_and_classes(problem):
    fusion = made(
        problem["prior"], problem["references"], problem["strengths"], class_axis=1,
        rule=problem["rule"], order=problem["order"], flatten_by=problem["by"],
    )  # fmt: skip
    got = ModalityFusion(fusion)(tensors(problem["scores"]))
    np.testing.assert_allclose(got, fusion.predict_log_proba(problem["scores"]), 1e-11, 1e-11)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1])
def test_every_axis(rng, axis):
    scores, _ = modalities(rng, n=3)
    moved = {n: np.moveaxis(0.4 * z, 1, axis) for n, z in scores.items()}
    fusion = fusion_of(class_axis=axis)
    got = ModalityFusion(fusion)(tensors(moved))
    np.testing.assert_allclose(got, fusion.predict_log_proba(moved), **EXACT)
    other = ModalityFusion(fusion_of(class_axis=1), class_axis=axis)
    assert torch.equal(other(tensors(moved)), got)


def test_rows_are_images(rng):
    scores, _ = modalities(rng, n=20, pixels=())
    scores = {n: 0.4 * z for n, z in scores.items()}
    fusion = fusion_of()
    got = ModalityFusion(fusion)(tensors(scores))
    np.testing.assert_allclose(got, fusion.predict_log_proba(scores), **EXACT)


@pytest.mark.parametrize("shape, axis", [((7,), -1), ((7, 1), 1), ((7, 1, 4), 1), ((1, 7), 0)])
@pytest.mark.parametrize("kind", ["logits", "probs", "log_probs"])
def test_one_score_of_two_classes(rng, shape, axis, kind):
    scores = {n: rng.standard_normal(shape) for n in KNOWN}
    if kind != "logits":
        scores = {n: 1 / (1 + np.exp(-z)) for n, z in scores.items()}
        scores = {n: np.log(z) if kind == "log_probs" else z for n, z in scores.items()}
    fusion = made(np.array([0.9, 0.1]), KNOWN, OWN, class_axis=axis, kind=kind)
    got = ModalityFusion(fusion)(tensors(scores))
    assert got.shape == shape
    np.testing.assert_allclose(got, fusion.predict_log_proba(scores), **EXACT)


@pytest.mark.parametrize("uncertainty", ["mutual_information", "smaller"])
@pytest.mark.parametrize("by", ["image", "pixel"])
def test_several_passes(rng, uncertainty, by):
    fusion, more = passes_fusion(uncertainty, rng, flatten_by=by)
    got = ModalityFusion(fusion)(tensors(more))
    assert got.shape == more["rgb"].shape[1:]
    # The mean over the passes, and a difference of entropies, are rounded on the way.
    np.testing.assert_allclose(got, fusion.predict_log_proba(more), 1e-10, 1e-10)


def test_several_passes_without_flattening(rng):
    fusion, more = passes_fusion("smaller", rng, flatten=False)
    got = ModalityFusion(fusion)(tensors(more))
    np.testing.assert_allclose(got, fusion.predict_log_proba(more), 1e-10, 1e-10)


@pytest.mark.parametrize("dtype", COARSE)
@pytest.mark.parametrize("rule", RULES)
def test_dtypes_come_back_as_they_were(rng, dtype, rule):
    scores, _ = modalities(rng, n=4)
    fusion = fusion_of(rule=rule)
    got = ModalityFusion(fusion)(tensors(scores, dtype))
    assert got.dtype == dtype
    np.testing.assert_allclose(
        got.double().exp(), fusion.predict_proba(scores), rtol=0, atol=COARSE[dtype]
    )


def test_of_two_dtypes_the_wider(rng):
    scores = tensors(modalities(rng, n=2)[0], torch.float16)
    got = ModalityFusion(fusion_of())({**scores, "rgb": scores["rgb"].float()})
    assert got.dtype == torch.float32


def test_integers_become_float64():
    got = ModalityFusion(fusion_of())({n: torch.tensor([[3, 1, 0, 0]]) for n in KNOWN})
    assert got.dtype == torch.float64


def test_a_sure_modality_is_not_flattened(rng):
    scores = tensors({n: 20 * z for n, z in modalities(rng, n=3)[0].items()})
    flat, plain = (ModalityFusion(fusion_of(flatten=f))(scores) for f in (True, False))
    assert torch.equal(flat, plain)


class TestImpossibleClasses:
    """Classes of target prior 0, and probabilities of 0."""

    def fusion(self, rng, **options):
        scores, labels = modalities(rng, n=8)
        target = [0.4, 0.3, 0.3, 0.0]
        fusion = rp.ModalityFusion(PRIOR, target_prior=target, class_axis=1, **options)
        return fusion.fit(scores, labels), {n: 0.3 * z for n, z in scores.items()}

    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("strength", [0.0, 0.8])
    def test_of_target_prior_0(self, rng, rule, order, strength):
        fusion, scores = self.fusion(rng, rule=rule, order=order, strength=strength)
        z = {n: t.requires_grad_() for n, t in tensors(scores).items()}
        got = ModalityFusion(fusion)(z)
        np.testing.assert_allclose(got.detach(), fusion.predict_log_proba(scores), **EXACT)
        got[:, 0].sum().backward()
        assert all(torch.isfinite(t.grad).all() for t in z.values())

    @pytest.mark.parametrize("rule", RULES)
    def test_of_probability_0(self, rng, rule):
        p = {n: rp.rebalance(z, PRIOR, strength=0, class_axis=1)
             for n, z in modalities(rng, n=3)[0].items()}  # fmt: skip
        for z in p.values():
            z[:, 1] = 0.0
            z[1, :, 0, 0] = [1.0, 0.0, 0.0, 0.0]
            z /= z.sum(axis=1, keepdims=True)
        fusion = fusion_of(rule=rule, kind="probs")
        z = {n: t.requires_grad_() for n, t in tensors(p).items()}
        got = ModalityFusion(fusion)(z)
        np.testing.assert_allclose(got.detach(), fusion.predict_log_proba(p), **EXACT)
        got[:, 0].sum().backward()
        assert all(torch.isfinite(t.grad).all() for t in z.values())


class TestWhatNumpyRefuses:
    """No value is looked at: what NumPy raises for comes through, as the docstrings say."""

    def test_no_class_is_left_by_the_product(self):
        scores = {
            "rgb": torch.tensor([[0.0, -torch.inf, -torch.inf, -torch.inf], [1.0, 0, 0, 0]]),
            "depth": torch.tensor([[-torch.inf, 0.0, 0.0, 0.0], [0.0, 1, 0, 0]]),
        }
        fusion = fusion_of(rule="product", class_axis=-1)
        with pytest.raises(rp.ScoresError):
            fusion.predict_log_proba({n: z.numpy() for n, z in scores.items()})
        got = ModalityFusion(fusion)(scores)
        assert got[0].isnan().all()
        assert got[1].isfinite().all()

    @pytest.mark.parametrize("rule", RULES)
    def test_probabilities_act_like_those_divided_by_their_sum(self, rng, rule):
        fusion = fusion_of(rule=rule, kind="probs", class_axis=-1)
        p = {n: torch.tensor(rng.dirichlet(np.ones(K), size=5)) for n in KNOWN}
        double = {n: 2 * z for n, z in p.items()}
        with pytest.raises(rp.ScoresError):
            fusion.predict_log_proba({n: z.numpy() for n, z in double.items()})
        module = ModalityFusion(fusion)
        torch.testing.assert_close(module(double), module(p), **EXACT)


class TestGradients:
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("order", ORDERS)
    def test_are_those_of_differences(self, rng, rule, order):
        z = {n: torch.tensor(0.3 * z[:, :, :2, :2], requires_grad=True)
             for n, z in modalities(rng, n=2)[0].items()}  # fmt: skip
        module = ModalityFusion(fusion_of(rule=rule, order=order))
        assert torch.autograd.gradcheck(
            lambda a, b: module({"rgb": a, "depth": b}), (z["rgb"], z["depth"])
        )

    @pytest.mark.parametrize("rule", RULES)
    def test_where_a_posterior_is_1(self, rule):
        sure = torch.tensor([[200.0, 0.0, 0.0, 0.0]], requires_grad=True)
        got = ModalityFusion(fusion_of(rule=rule))({"rgb": sure, "depth": sure})
        got.sum().backward()
        assert torch.isfinite(sure.grad).all()

    def test_networks_are_trained_through_it(self):
        module = ModalityFusion(fusion_of(class_axis=-1), networks())
        nn.functional.nll_loss(module(batch(6)), torch.tensor([0, 1, 2, 3, 0, 1])).backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())


def networks(seed: int = 0):
    torch.manual_seed(seed)
    return {"rgb": nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, K)),
            "depth": nn.Linear(1, K)}  # fmt: skip


def batch(n: int):
    generator = torch.manual_seed(1)
    return {"rgb": torch.randn(n, 3, generator=generator), "depth": torch.randn(n, 1)}


class TestNetworks:
    def test_are_run_inside(self):
        nets, x = networks(), batch(9)
        fusion = fusion_of(class_axis=-1)
        scores = {name: nets[name](x[name]) for name in x}
        inside = ModalityFusion(fusion, nets)(x)
        assert torch.equal(inside, ModalityFusion(fusion)(scores))

    def test_may_take_several_inputs_and_give_a_mapping(self):
        class Two(nn.Module):
            def forward(self, a, b):
                return {"out": a + b, "aux": a}

        x = torch.randn(3, K)
        fusion = fusion_of(class_axis=-1)
        both = {"rgb": Two(), "depth": nn.Identity()}
        module = ModalityFusion(fusion, both, output_key=None)
        got = module({"rgb": (x, x), "depth": x})
        assert torch.equal(got, ModalityFusion(fusion)({"rgb": 2 * x, "depth": x}))

    def test_output_key(self):
        x = {n: torch.randn(3, K) for n in KNOWN}
        fusion = fusion_of(class_axis=-1)
        module = ModalityFusion(fusion, {n: Pair() for n in KNOWN}, output_key=1)
        assert torch.equal(module(x), ModalityFusion(fusion)({n: 3 * z for n, z in x.items()}))

    def test_are_in_the_state_dict_by_name(self):
        module = ModalityFusion(fusion_of(class_axis=-1), networks())
        assert "networks.depth.weight" in module.state_dict()

    @pytest.mark.parametrize(
        "given, words",
        [
            ({"rgb": nn.Identity()}, r"for every modality, 'rgb', 'depth'\. Got 'rgb'\."),
            (nn.Identity(), r"must be a mapping with one network"),
            ({"rgb": nn.Identity(), "depth": 3}, r"`networks\['depth'\]` must be .* Got int"),
        ],
    )
    def test_others_are_refused(self, given, words):
        with pytest.raises(rp.OptionError, match=words):
            ModalityFusion(fusion_of(), given)

    def test_a_name_that_torch_does_not_take(self):
        fusion = made(PRIOR, {"a.b": (0.3, 0.1)}, {"a.b": 0.5})
        with pytest.raises(rp.OptionError, match=r"without dots\. Got 'a\.b'"):
            ModalityFusion(fusion, {"a.b": nn.Identity()})


class Pair(nn.Module):
    def forward(self, x):
        return x, 3 * x


class TestMissing:
    def test_is_left_out_where_that_is_allowed(self, rng):
        scores, _ = modalities(rng, n=3)
        fusion = fusion_of(missing="leave_out")
        module = ModalityFusion(fusion)
        alone = {"depth": scores["depth"]}
        wanted = fusion.predict_log_proba(alone)
        np.testing.assert_allclose(module(tensors(alone)), wanted, **EXACT)
        again = module({"rgb": None, **tensors(alone)})
        np.testing.assert_allclose(again, wanted, **EXACT)

    def test_is_refused_otherwise(self, rng):
        scores = tensors(modalities(rng, n=3)[0])
        with pytest.raises(rp.ScoresError, match=r"Got none for 'depth'\. .*missing='leave_out'"):
            ModalityFusion(fusion_of())({"rgb": scores["rgb"]})

    def test_all_cannot_be_missing(self):
        with pytest.raises(rp.ScoresError, match="Got none for 'rgb'"):
            ModalityFusion(fusion_of(missing="leave_out"))({})


class TestState:
    def test_round_trip(self, rng):
        scores = tensors(modalities(rng, n=3)[0])
        module = ModalityFusion(fusion_of())
        plain = made(PRIOR, dict.fromkeys(KNOWN, (1.0, 1.0)), dict.fromkeys(OWN, 0.0), class_axis=1)
        other = ModalityFusion(plain)
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        file.seek(0)
        other.load_state_dict(torch.load(file, weights_only=True))
        assert torch.equal(other(scores), module(scores))

    def test_all_of_it_is_tensors_and_none_is_a_parameter(self):
        module = ModalityFusion(fusion_of())
        assert list(module.parameters()) == []
        state = module.state_dict()
        assert set(state) == {
            "strengths", "slopes", "entropy_mean", "entropy_std", "_extra_state"
        }  # fmt: skip
        assert all(isinstance(value, torch.Tensor) for value in state.values())

    @pytest.mark.parametrize(
        "other", [{"rule": "mean"}, {"order": "flatten_first"}, {"flatten_by": "pixel"},
                  {"kind": "probs"}, {"class_axis": -1}],
    )  # fmt: skip
    def test_of_other_options_is_refused_and_nothing_is_loaded(self, other):
        module = ModalityFusion(fusion_of())
        before = module.strengths.clone()
        theirs = ModalityFusion(fusion_of(**other))
        theirs.strengths.zero_()
        with pytest.raises(rp.OptionError, match=f"with {next(iter(other))}="):
            module.load_state_dict(theirs.state_dict())
        assert torch.equal(module.strengths, before)

    @pytest.mark.parametrize(
        "extra",
        [
            b"",
            b"{",
            b"[]",
            b"\xff",
            b'{"rule": "mean", "rule": "noisy_or"}',
            torch.ones(2),
            torch.tensor([300]),
            "text",
        ],
    )
    def test_whose_options_are_damaged_is_refused(self, extra):
        module = ModalityFusion(fusion_of())
        if isinstance(extra, bytes):
            extra = torch.tensor(list(extra), dtype=torch.uint8)
        state = {**module.state_dict(), "_extra_state": extra}
        with pytest.raises(rp.OptionError, match="`state_dict` must have the options of a Modal"):
            module.load_state_dict(state)

    def test_of_other_modalities_is_refused(self):
        known = dict.fromkeys(("rgb", "lidar"), (0.3, 0.1))
        theirs = made(PRIOR, known, dict.fromkeys(known, 1.0), class_axis=1)
        with pytest.raises(rp.OptionError, match="with modalities="):
            ModalityFusion(fusion_of()).load_state_dict(ModalityFusion(theirs).state_dict())

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    def test_casting_rounds_no_buffer(self, dtype):
        module = ModalityFusion(fusion_of(class_axis=-1), networks())
        before = {name: b.clone() for name, b in module.named_buffers()}
        module.to(dtype)
        assert all(torch.equal(b, before[name]) for name, b in module.named_buffers())
        assert next(module.parameters()).dtype == dtype
        assert module({n: x.to(dtype) for n, x in batch(2).items()}).dtype == dtype

    def test_follows_a_device(self):
        module = ModalityFusion(fusion_of()).to("meta")
        assert {b.device.type for b in module.buffers()} == {"meta"}
        got = module({n: torch.zeros(2, K, 3, 3, device="meta") for n in KNOWN})
        assert (got.device.type, got.shape) == ("meta", (2, K, 3, 3))
        back = module.to_empty(device="cpu")
        back.load_state_dict(ModalityFusion(fusion_of()).state_dict())
        x = {n: torch.zeros(2, K, 3, 3) for n in KNOWN}
        torch.testing.assert_close(back(x), ModalityFusion(fusion_of())(x))


class TestSurroundings:
    @pytest.fixture
    def scores(self, rng):
        return tensors({n: 0.5 * z for n, z in modalities(rng, n=4)[0].items()}, torch.float32)

    @pytest.fixture
    def wanted(self, scores):
        return ModalityFusion(fusion_of())(scores)

    def test_autocast(self, scores, wanted):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.testing.assert_close(ModalityFusion(fusion_of())(scores), wanted)

    @pytest.mark.heavy
    def test_compile_without_a_break(self, scores, wanted):
        module = torch.compile(
            ModalityFusion(fusion_of()), fullgraph=True, backend="eager", dynamic=True
        )
        torch.testing.assert_close(module(scores), wanted)
        assert module({n: z[:2, :, :2] for n, z in scores.items()}).shape == (2, K, 2, 5)

    @pytest.mark.heavy
    @pytest.mark.parametrize("by", ["image", "pixel"])
    def test_export_with_a_dynamic_batch_and_size(self, scores, by):
        module = ModalityFusion(fusion_of(flatten_by=by))
        free = torch.export.Dim
        shapes = {0: free("batch", min=2), 2: free("height", min=2), 3: free("width", min=2)}
        program = torch.export.export(
            module, (scores,), dynamic_shapes=(dict.fromkeys(scores, shapes),)
        ).module()
        torch.testing.assert_close(program(scores), module(scores))
        smaller = {n: z[:2, :, :2, 1:] for n, z in scores.items()}
        torch.testing.assert_close(program(smaller), module(smaller))

    @pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
    @pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning")
    def test_trace(self, scores, wanted):
        module = ModalityFusion(fusion_of())
        traced = torch.jit.trace(module, (scores,), strict=False)
        torch.testing.assert_close(traced(scores), wanted)
        smaller = {n: z[:2, :, :2] for n, z in scores.items()}
        torch.testing.assert_close(traced(smaller), module(smaller))

    def test_data_dependent_control_flow_is_absent(self, scores):
        """Nothing comes back to the host: on the meta device there is nothing to look at."""
        module = ModalityFusion(fusion_of()).to("meta")
        assert module({n: z.to("meta") for n, z in scores.items()}).is_meta


class TestWords:
    @pytest.mark.parametrize(
        "scores, words",
        [
            (torch.zeros(2, K), r"must be a mapping from modality to scores\. Got Tensor"),
            ({"rbg": torch.zeros(2, K)}, r"that were fitted, 'rgb', 'depth'\. Got 'rbg'"),
            ({n: np.zeros((2, K)) for n in KNOWN}, r"`scores\['rgb'\]` must be a tensor\. Got nda"),
            ({"rgb": torch.zeros(2, K), "depth": torch.zeros(3, K)}, r"\(2, 4\) for 'rgb' and"),
            ({n: torch.zeros(2, 3) for n in KNOWN}, r"one entry per class .* Got 3 on axis 1"),
            ({n: torch.zeros(K) for n in KNOWN}, r"an axis of images and one of classes"),
        ],
    )
    def test_scores(self, scores, words):
        with pytest.raises(rp.ScoresError, match=words):
            ModalityFusion(fusion_of())(scores)

    def test_passes_are_missing(self, rng):
        fusion, _ = passes_fusion("smaller", rng)
        with pytest.raises(rp.ScoresError, match=r"leading axis of passes .* \(2, 4\) for 'rgb'"):
            ModalityFusion(fusion)({n: torch.zeros(2, K) for n in KNOWN})

    def test_no_fusion(self):
        with pytest.raises(rp.OptionError, match=r"fitted reprior\.ModalityFusion\. Got int"):
            ModalityFusion(3)

    def test_not_fitted(self):
        with pytest.raises(rp.NotFittedError, match="Call fit"):
            ModalityFusion(rp.ModalityFusion(PRIOR))

    def test_an_axis_that_is_none(self):
        with pytest.raises(rp.OptionError, match=r"`class_axis` must be an integer\. Got 1\.0"):
            ModalityFusion(fusion_of(), class_axis=1.0)


def test_what_is_printed():
    assert repr(ModalityFusion(fusion_of())).splitlines()[1].strip() == (
        "rgb, depth; 4 classes, rule='noisy_or', rebalance_first, kind='logits', class_axis=1"
    )
    assert "not flattened" in repr(ModalityFusion(fusion_of(flatten=False)))


def test_a_loaded_fusion(tmp_path, rng):
    scores, labels = modalities(rng)
    fusion = rp.ModalityFusion(PRIOR, class_axis=1, strengths="per_modality").fit(scores, labels)
    fusion.save(tmp_path / "fusion.json")
    got = ModalityFusion(rp.load(tmp_path / "fusion.json"))(tensors(scores))
    np.testing.assert_allclose(got, fusion.predict_log_proba(scores), **EXACT)
