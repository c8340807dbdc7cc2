"""An exported fusion is one ONNX graph that fuses as NumPy does; one that does not is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.support.fusions import PRIOR, K, made, modalities
from torch import nn

import reprior as rp
from reprior.torch import ModalityFusion, export_fusion
from reprior.torch import export as own
from reprior.torch.export import Exported

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

#: The exporter of PyTorch takes seconds to import, and as long for each graph.
exports = pytest.mark.heavy

KNOWN = {"rgb": (0.3, 0.05), "depth": (0.5, 0.1)}
FREE = {0: "batch", 2: "height", 3: "width"}

#: Posteriors of float32 by two routes, a convolution included.
SINGLE = 1e-5


def fusion_of(**options):
    strengths = {"rgb": 0.7, "depth": 0.3}
    return made(PRIOR, KNOWN, strengths, **{"class_axis": 1, **options})


def networks():
    """Two small ones that decode what they encode, so that any size of image goes through."""
    torch.manual_seed(0)
    return {
        name: nn.Sequential(
            nn.Conv2d(channels, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.5),
            nn.Conv2d(6, K, 1),
        )
        for name, channels in (("rgb", 3), ("depth", 1))
    }  # fmt: skip


def images(n, height, width, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: 3 * torch.randn(n, channels, height, width, generator=generator)
        for name, channels in (("rgb", 3), ("depth", 1))
    }


def run(path, inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_outputs()] == ["log_posterior"]
    feed = {name: z.numpy() for name, z in inputs.items()}
    assert [each.name for each in session.get_inputs()] == list(feed)
    return np.exp(session.run(None, feed)[0].astype(np.float64))


def wanted(fusion, nets, inputs):
    for net in nets.values():
        net.eval()
    with torch.no_grad():
        scores = {name: nets[name](z).double().numpy() for name, z in inputs.items()}
    return fusion.predict_proba(scores)


@exports
def test_two_networks_in_one_graph(tmp_path):
    fusion, nets = fusion_of(), networks()
    module = ModalityFusion(fusion, nets).train()
    path = tmp_path / "fusion.onnx"
    made_ = export_fusion(module, images(3, 8, 10), path, dynamic_axes=FREE)
    assert module.training  # as it was
    assert made_ == Exported((str(path),), ("rgb", "depth"), 3 * 80 + 80, made_.posterior_error)
    assert made_.posterior_error < SINGLE
    assert [each.name for each in tmp_path.iterdir()] == ["fusion.onnx"]
    for n, height, width in ((3, 8, 10), (1, 12, 6), (5, 7, 9)):
        inputs = images(n, height, width, seed=n)
        expected = wanted(fusion, nets, inputs)
        np.testing.assert_allclose(run(path, inputs), expected, rtol=0, atol=SINGLE)


@pytest.fixture(scope="module")
def of_scores():
    """A fusion of scores, a batch for it, and what the exporter makes of them, once."""
    scores = {n: 0.5 * z for n, z in modalities(np.random.default_rng(0), n=4)[0].items()}
    tensors = {n: torch.tensor(z, dtype=torch.float32) for n, z in scores.items()}
    fusion = fusion_of(rule="product", order="flatten_first", flatten_by="pixel")
    module = ModalityFusion(fusion)
    with torch.no_grad():
        program = own._exported(module, tensors, {n: {0: "batch"} for n in tensors})
    return fusion, module, tensors, program


@pytest.fixture
def exported_once(of_scores, monkeypatch):
    monkeypatch.setattr(own, "_exported", lambda *_: of_scores[-1])
    return of_scores[:-1]


def agrees(path, fusion, tensors):
    two = {n: z[:2] for n, z in tensors.items()}
    expected = fusion.predict_proba({n: z.double().numpy() for n, z in two.items()})
    np.testing.assert_allclose(run(path, two), expected, rtol=0, atol=SINGLE)


@exports
def test_scores_as_inputs(tmp_path, exported_once):
    fusion, module, tensors = exported_once
    made_ = export_fusion(module, tensors, tmp_path / "fusion.onnx")
    assert made_.posterior_error < SINGLE
    agrees(tmp_path / "fusion.onnx", fusion, tensors)
    bare = export_fusion(module, tensors, tmp_path / "fusion.onnx", verify=False)
    assert (bare.samples, bare.posterior_error) == (None, None)


@exports
def test_large_weights_have_a_file_of_their_own(tmp_path, exported_once, monkeypatch):
    monkeypatch.setattr(own, "LARGE", 0)
    fusion, module, tensors = exported_once
    made_ = export_fusion(module, tensors, tmp_path / "fusion.onnx")
    assert made_.paths == tuple(str(tmp_path / n) for n in ("fusion.onnx", "fusion.onnx.data"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["fusion.onnx", "fusion.onnx.data"]
    agrees(tmp_path / "fusion.onnx", fusion, tensors)


@exports
def test_what_disagrees_is_refused_and_nothing_is_left(tmp_path, exported_once, monkeypatch):
    """The oracle is another fusion: as if the graph were wrong."""
    _, module, tensors = exported_once
    honest = own._by_numpy
    monkeypatch.setattr(own, "_by_numpy", lambda *given: honest(*given)[:, ::-1])
    path = tmp_path / "fusion.onnx"
    path.write_bytes(b"the old one")
    with pytest.raises(rp.FoldError, match=r"to within 1e-05\. Got a difference of .* written"):
        export_fusion(module, tensors, path)
    assert path.read_bytes() == b"the old one"
    assert [each.name for each in tmp_path.iterdir()] == ["fusion.onnx"]
    export_fusion(module, tensors, path, tolerance=1.0)
    assert path.read_bytes() != b"the old one"


@pytest.mark.parametrize(
    "found, words",
    [(np.zeros((2, 3)), r"of shape \(2, 2\)\. Got \(2, 3\)"), (np.full((2, 2), np.nan), "of inf")],
)
def test_other_shapes_and_no_numbers_are_refused(found, words):
    with pytest.raises(rp.FoldError, match=words):
        own._difference(np.full((2, 2), 0.5), found, 1e-5)


@exports
def test_a_graph_that_holds_an_axis_is_refused():
    class Held(nn.Module):
        def forward(self, x):
            return x.reshape(2, K)

    module = ModalityFusion(fusion_of(), {n: Held() for n in KNOWN}).eval()
    scores = {n: torch.randn(2, K) for n in KNOWN}
    with pytest.raises(rp.FoldError, match=r"must go through torch\.onnx\.export"):
        export_fusion(module, scores, "never.onnx")


def test_a_fixed_length_in_a_graph_is_refused():
    """Whatever an exporter makes of an axis that is not free after all."""
    helper = pytest.importorskip("onnx.helper")
    scores = {"rgb": torch.randn(2, K)}
    free, held = (helper.make_tensor_value_info("rgb", 1, [n, K]) for n in ("batch", 2))
    own._refuse_held([free], scores, {"rgb": {0: "batch"}})
    with pytest.raises(rp.FoldError, match=r"axis 0 \('batch'\) of 'rgb', .* holds at 2"):
        own._refuse_held([held], scores, {"rgb": {0: "batch"}})


@pytest.mark.parametrize("names, got", [(["rgb", "depth.1"], "'rgb', 'depth.1'"), ([], "none")])
def test_inputs_that_the_exporter_renamed_are_refused(names, got):
    helper = pytest.importorskip("onnx.helper")
    scores = {n: torch.randn(2, K) for n in KNOWN}
    values = [helper.make_tensor_value_info(name, 1, ["batch", K]) for name in names]
    with pytest.raises(rp.FoldError, match=rf"every modality, 'rgb', 'depth'\. Got {got}: the"):
        own._refuse_held(values, scores, {n: {0: "batch"} for n in scores})


@exports
class TestDtypesWithoutNumpy:
    def test_of_inputs(self, tmp_path, exported_once):
        """Nothing is exported first; without a comparison it is."""
        _, module, tensors = exported_once
        coarse = {n: z.bfloat16() for n, z in tensors.items()}
        path = tmp_path / "fusion.onnx"
        words = r"`inputs` must be of a dtype that NumPy has, .* Got bfloat16 for 'rgb'\. Pass"
        with pytest.raises(rp.ScoresError, match=words):
            export_fusion(module, coarse, path)
        assert not path.exists()
        assert export_fusion(module, coarse, path, verify=False).samples is None
        assert path.exists()

    def test_of_what_networks_give(self, tmp_path, exported_once, monkeypatch):
        """The graph does not matter here: the scores are looked at before it is run."""
        _, module, tensors = exported_once
        given = {n: z.bfloat16() for n, z in tensors.items()}
        monkeypatch.setattr(ModalityFusion, "_scores", lambda *_: given)
        words = r"What the networks give must be of a dtype that NumPy has, .* Got bfloat16"
        with pytest.raises(rp.ScoresError, match=words):
            export_fusion(module, tensors, tmp_path / "fusion.onnx")
        assert not list(tmp_path.iterdir())


class TestWords:
    scores = {n: torch.randn(2, K) for n in KNOWN}  # noqa: RUF012 - not written to

    def refused(self, error, words, module=None, inputs=None, **options):
        module = ModalityFusion(fusion_of()) if module is None else module
        inputs = self.scores if inputs is None else inputs
        with pytest.raises(error, match=words):
            export_fusion(module, inputs, "never.onnx", **options)

    def test_module(self):
        self.refused(
            rp.OptionError, r"reprior\.torch\.ModalityFusion\. Got Linear", nn.Linear(1, 1)
        )

    def test_inputs(self):
        numbers = {n: z.numpy() for n, z in self.scores.items()}
        self.refused(rp.ScoresError, r"`inputs\['rgb'\]` must be a tensor", inputs=numbers)
        self.refused(rp.ScoresError, r"Got none for 'depth'", inputs={"rgb": self.scores["rgb"]})

    def test_a_modality_called_as_the_output(self):
        known = {"rgb": (0.3, 0.05), "log_posterior": (0.5, 0.1)}
        module = ModalityFusion(made(PRIOR, known, dict.fromkeys(known, 0.5), class_axis=1))
        self.refused(
            rp.OptionError, r"must not be called 'log_posterior', .* Got 'rgb', 'log_posterior'\.",
            module, {n: torch.randn(2, K) for n in known},
        )  # fmt: skip

    @pytest.mark.parametrize("axes", [None, {0: "batch"}])
    def test_one_sample(self, axes):
        one = {n: z[:1] for n, z in self.scores.items()}
        self.refused(
            rp.OptionError, r"at least two entries .* Got axis 0 and shape \(1, 4\) for 'rgb'",
            inputs=one, dynamic_axes=axes,
        )  # fmt: skip

    def test_axes(self):
        self.refused(rp.OptionError, r"Got axis 2 and shape \(2, 4\)", dynamic_axes={2: "height"})
        self.refused(rp.OptionError, r"Got 'lidar'", dynamic_axes={"lidar": {0: "batch"}})


@pytest.mark.parametrize(
    "options, networks_there, axis",
    [({}, False, 0), ({"class_axis": 0}, False, 1), ({"class_axis": 0}, True, 0)],
)
def test_where_the_samples_are(options, networks_there, axis):
    nets = {n: nn.Identity() for n in KNOWN} if networks_there else None
    assert own._batch_axis(ModalityFusion(fusion_of(**options), nets)) == axis


def test_the_reason_is_at_the_bottom_of_a_chain():
    error = RuntimeError("failed")
    error.__cause__ = TypeError("no such\n  operator.")
    assert own._reason(error) == "no such operator."
    assert own._reason(ValueError()) == "ValueError."
