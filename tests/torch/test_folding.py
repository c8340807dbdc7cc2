"""fold_into gives the calibrator's decisions and posteriors; unfold gives the weights back."""

from __future__ import annotations

import copy
import io
from typing import NamedTuple

import numpy as np
import pytest
import torch
from tests.support.torch_networks import EXACT, PRIOR, fitted, logits_and_labels, network
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.data import DataLoader, TensorDataset

import reprior as rp
from reprior.torch import Rebalance, fold_into, unfold
from reprior.torch.losses import CosineLinear

HEADS = {
    "linear": (lambda bias: nn.Linear(6, 3, bias=bias), (9, 6), -1),
    "linear of tokens": (lambda bias: nn.Linear(6, 3, bias=bias), (2, 5, 6), -1),
    "conv1d": (lambda bias: nn.Conv1d(6, 3, 1, bias=bias), (2, 6, 7), 1),
    "conv2d": (lambda bias: nn.Conv2d(6, 3, 3, padding=1, bias=bias), (2, 6, 4, 5), 1),
    "grouped": (lambda bias: nn.Conv2d(6, 3, 1, groups=3, bias=bias), (2, 6, 4, 5), 1),
    "conv3d": (lambda bias: nn.Conv3d(6, 3, 1, bias=bias), (2, 6, 2, 3, 4), 1),
    "transposed": (lambda bias: nn.ConvTranspose2d(6, 3, 2, stride=2, bias=bias), (2, 6, 4, 5), 1),
}
CALIBRATORS = {
    "tempered": fitted(),
    "plain": fitted(temperature=None),
    "biases": fitted(tune="per_class"),
    "vector": fitted(metric="log_loss", temperature="vector"),
}


@pytest.fixture(params=HEADS)
def case(request):
    make, shape, axis = HEADS[request.param]
    torch.manual_seed(0)
    return make, torch.randn(shape, dtype=torch.float64), axis


@pytest.mark.parametrize("cal", CALIBRATORS.values(), ids=CALIBRATORS)
@pytest.mark.parametrize("bias", [True, False])
def test_folds_and_unfolds(case, bias, cal):
    make, inputs, axis = case
    head = make(bias).double()
    state = copy.deepcopy(head.state_dict())
    folded = fold_into(head, cal, inputs=inputs)
    wanted = Rebalance.from_calibrator(cal, class_axis=axis)(head(inputs))
    got = folded(inputs).log_softmax(axis)
    torch.testing.assert_close(got, wanted, rtol=0, atol=EXACT)
    assert torch.equal(folded(inputs).argmax(axis), wanted.argmax(axis))
    assert type(folded) is type(head)
    assert folded is not head
    back = unfold(folded)
    for module in (head, back):  # one was never touched, the other is as it was
        assert module.state_dict().keys() == state.keys()
        assert all(torch.equal(module.state_dict()[name], state[name]) for name in state)
    assert (back.bias is None) == (not bias)


def test_a_layer_within_a_network():
    model, x = network().train(), torch.randn(30, 4, generator=torch.manual_seed(1))
    cal = fitted()
    folded = fold_into(model, cal, head="3", inputs=x)
    assert folded.training
    assert model[2].training
    model.eval()
    folded.eval()
    got = folded(x).softmax(1)
    np.testing.assert_allclose(
        got.detach(), cal.predict_proba(model(x).detach().numpy()), rtol=0, atol=1e-6
    )
    assert folded.state_dict().keys() == model.state_dict().keys()
    assert all(
        torch.equal(a, b)
        for a, b in zip(unfold(folded).parameters(), model.parameters(), strict=True)
    )


def test_one_output_of_two_classes():
    torch.manual_seed(0)
    head, x = nn.Linear(5, 1).double(), torch.randn(60, 5, dtype=torch.float64)
    z = head(x).detach()
    y = torch.arange(60) % 2
    cal = rp.PosteriorCalibrator([0.8, 0.2], temperature=1.3, class_axis=1).fit(z, y)
    folded = fold_into(head, cal, inputs=x)
    got = folded(x).sigmoid()
    np.testing.assert_allclose(got.detach(), cal.predict_proba(z), rtol=0, atol=EXACT)


def test_a_class_of_target_prior_0():
    cal = fitted().retarget([0.5, 0.5, 0.0])
    head, x = nn.Linear(4, 3), torch.randn(8, 4)
    posterior = fold_into(head, cal, inputs=x)(x).softmax(1)
    assert (posterior[:, 2] == 0).all()
    assert torch.isfinite(posterior).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    torch.manual_seed(0)
    head, x = nn.Linear(16, 3).to(dtype), torch.randn(40, 16).to(dtype)
    folded = fold_into(head, fitted(), inputs=x)
    assert folded.weight.dtype == folded.bias.dtype == dtype
    assert torch.equal(unfold(folded).weight, head.weight)


def test_a_tied_embedding_keeps_its_weights():
    model = nn.ModuleDict({"embed": nn.Embedding(3, 4), "head": nn.Linear(4, 3, bias=False)})
    model["head"].weight = model["embed"].weight
    with pytest.warns(rp.RepriorWarning, match=r"tied to another's \(embed.weight, head.weight\)"):
        folded = fold_into(model, fitted(), head="head")
    assert torch.equal(folded["embed"].weight, model["embed"].weight)
    assert not torch.equal(folded["head"].weight, model["embed"].weight)


def test_a_tied_embedding_stays_tied_where_only_the_bias_changes():
    model = nn.ModuleDict({"embed": nn.Embedding(3, 4), "head": nn.Linear(4, 3, bias=False)})
    model["head"].weight = model["embed"].weight
    folded = fold_into(model, fitted(temperature=None), head="head")
    assert folded["head"].weight is folded["embed"].weight


def test_a_state_dict_there_and_back_leaves_it_unfoldable():
    head = nn.Conv2d(4, 3, 1, groups=1)
    folded = fold_into(head, fitted())
    folded.load_state_dict(copy.deepcopy(folded.state_dict()))
    again = unfold(folded)
    assert torch.equal(again.weight, head.weight)
    assert torch.equal(again.bias, head.bias)


@pytest.mark.parametrize(
    "head",
    [
        nn.Conv2d(6, 3, 3, groups=3),
        nn.ConvTranspose2d(6, 3, 2, stride=2, groups=3, bias=False),
        nn.ConvTranspose1d(6, 3, 2),
    ],
)
def test_groups_and_transposed_convolutions(head):
    x = torch.randn(2, 6, *[5] * len(head.kernel_size))
    cal = fitted()
    folded = fold_into(head, cal, inputs=x)
    wanted = cal.predict_proba(head(x).detach().movedim(1, -1))
    torch.testing.assert_close(folded(x).softmax(1).movedim(1, -1), wanted, rtol=0, atol=1e-5)
    assert torch.equal(unfold(folded).weight, head.weight)


def test_behind_data_parallel():
    model = nn.DataParallel(network())
    folded = fold_into(model, fitted(), head="module.3", inputs=torch.randn(5, 4))
    assert torch.equal(unfold(folded).module[3].weight, model.module[3].weight)


def test_frozen_stays_frozen():
    folded = fold_into(nn.Linear(4, 3, bias=False).requires_grad_(False), fitted())
    assert not folded.weight.requires_grad
    assert not folded.bias.requires_grad


def test_copies_casts_and_files_can_be_unfolded():
    head = nn.Linear(4, 3)
    folded = fold_into(head, fitted())
    assert torch.equal(unfold(copy.deepcopy(folded)).weight, head.weight)
    assert torch.equal(unfold(copy.deepcopy(folded).double()).weight, head.weight.double())
    file = io.BytesIO()
    torch.save(folded, file)
    file.seek(0)
    assert torch.equal(unfold(torch.load(file, weights_only=False)).weight, head.weight)


def test_the_state_dict_fits_the_plain_architecture():
    folded, plain = fold_into(network(), fitted(), head="3"), network(seed=1)
    plain.load_state_dict(folded.state_dict())
    x = torch.randn(5, 4)
    assert torch.equal(plain.eval()(x), folded.eval()(x))


@pytest.mark.heavy
def test_exports():
    folded, x = fold_into(network(), fitted(), head="3").eval(), torch.randn(5, 4)
    program = torch.export.export(folded, (x,))
    torch.testing.assert_close(program.module()(x), folded(x))


class TestKinds:
    x = torch.randn(50, 4, generator=torch.manual_seed(0))

    def calibrator(self, kind: str) -> rp.PosteriorCalibrator:
        scores, labels = logits_and_labels(300)
        scores = scores.softmax(1) if kind == "probs" else scores.log_softmax(1)
        return rp.PosteriorCalibrator(PRIOR, kind=kind, temperature=1.4).fit(scores, labels)

    def test_probabilities_need_a_word(self):
        with pytest.raises(rp.OptionError, match=r"on probabilities\..*probs_are_softmax=True"):
            fold_into(network(), self.calibrator("probs"), head="3")

    @pytest.mark.parametrize(
        "kind, last", [("probs", nn.Softmax(1)), ("log_probs", nn.LogSoftmax(1))]
    )
    def test_the_softmax_of_this_layer(self, kind, last):
        model, cal = nn.Sequential(network(), last).double().eval(), self.calibrator(kind)
        x = self.x.double()
        folded = fold_into(model, cal, head="0.3", inputs=x, probs_are_softmax=True)
        got = folded(x) if kind == "probs" else folded(x).exp()
        wanted = cal.predict_proba(model(x).detach())
        np.testing.assert_allclose(got.detach(), wanted, rtol=0, atol=1e-9)

    def test_the_bare_layer(self):
        head = nn.Linear(4, 3)
        folded = fold_into(head, self.calibrator("probs"), inputs=self.x, probs_are_softmax=True)
        wanted = self.calibrator("probs").predict_proba(head(self.x).softmax(1).detach())
        np.testing.assert_allclose(folded(self.x).softmax(1).detach(), wanted, rtol=0, atol=1e-6)

    @pytest.mark.parametrize("kind", ["probs", "log_probs"])
    def test_a_network_of_logits_whose_softmax_was_tuned_on(self, kind):
        model, cal = network().double().eval(), self.calibrator(kind)
        x = self.x.double()
        folded = fold_into(model, cal, head="3", inputs=x, probs_are_softmax=True)
        scores = model(x).softmax(1) if kind == "probs" else model(x).log_softmax(1)
        got, wanted = folded(x).softmax(1), cal.predict_proba(scores.detach())
        np.testing.assert_allclose(got.detach(), wanted, rtol=0, atol=1e-9)

    def test_one_logit_whose_sigmoid_was_tuned_on(self):
        torch.manual_seed(0)
        model, x = nn.Sequential(nn.Linear(4, 1)).double(), self.x.double()
        with torch.no_grad():
            model[0].weight.mul_(0.01)
            model[0].bias.fill_(0.5)  # between 0 and 1, as probabilities are
        p = model(x).sigmoid().detach()
        cal = rp.PosteriorCalibrator([0.2, 0.8], kind="probs", temperature=1.3)
        cal.fit(p, (p[:, 0] > p.median()).long())
        folded = fold_into(model, cal, head="0", inputs=x, probs_are_softmax=True)
        np.testing.assert_allclose(
            folded(x).sigmoid().detach(), cal.predict_proba(p), rtol=0, atol=1e-9
        )

    def test_probabilities_of_something_else_are_still_refused(self):
        model = nn.Sequential(network(), nn.Softmax(1), nn.Softmax(1)).double().eval()
        with pytest.raises(rp.RepriorError, match="are not the probs or logits that"):
            fold_into(
                model, self.calibrator("probs"), head="0.3", inputs=self.x.double(),
                probs_are_softmax=True,
            )  # fmt: skip

    def test_a_skorch_network(self):
        skorch = pytest.importorskip("skorch", reason="skorch is not installed")
        torch.manual_seed(0)
        scores, labels = logits_and_labels(200)
        x = torch.cat([scores, scores[:, :1] ** 2], dim=1).float()
        train = (labels == 0) | (torch.arange(200) % 4 == 0)
        net = skorch.NeuralNetClassifier(
            network(), criterion=nn.CrossEntropyLoss, lr=0.1, max_epochs=20, train_split=None,
            verbose=0,
        ).fit(x[train].numpy(), labels[train].numpy())  # fmt: skip
        probs = net.predict_proba(x.numpy())
        prior = rp.prior_from_counts(np.bincount(labels[train]))
        cal = rp.PosteriorCalibrator(prior, kind="probs").fit(probs, labels.numpy())
        assert cal.strength_ > 0.1
        folded = fold_into(net.module_, cal, head="3", inputs=x, probs_are_softmax=True).eval()
        got = folded(x).softmax(1).detach()
        np.testing.assert_allclose(got, cal.predict_proba(probs), rtol=0, atol=1e-5)


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 30 * self.fc(x)


class Output(NamedTuple):
    logits: torch.Tensor


class Named(Scaled):
    def forward(self, x: torch.Tensor) -> Output:
        return Output(self.fc(x))


def test_outputs_with_a_name_and_inputs_by_name():
    folded = fold_into(Named(), fitted(), head="fc", inputs={"x": torch.randn(4, 4)})
    assert isinstance(folded(torch.zeros(1, 4)), Output)


class Pair(Scaled):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, self.fc(x)


@pytest.mark.parametrize("key", [1, -1, lambda output: output[1]])
def test_outputs_that_are_a_tuple(key):
    model, x = Pair(), torch.randn(4, 4)
    folded = fold_into(model, fitted(), head="fc", inputs=x, output_key=key)
    assert not torch.equal(folded(x)[1], model(x)[1])
    with pytest.raises(rp.OptionError, match=r"Got a tuple of 2\. Pass output_key=a name or pos"):
        fold_into(model, fitted(), head="fc", inputs=x)
    with pytest.raises(rp.OptionError, match=r"`output_key` must be .* Got 2, and a tuple of 2"):
        fold_into(model, fitted(), head="fc", inputs=x, output_key=2)


class Own(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


class TestWords:
    cal = fitted()

    def refused(self, match: str, model: nn.Module, cal=None, error=rp.OptionError, **options):
        with pytest.raises(error, match=match):
            fold_into(model, self.cal if cal is None else cal, **options)

    def test_wrong_width(self):
        self.refused("Linear of 5 outputs, and a calibrator of 3 classes", nn.Linear(4, 5))

    def test_a_network_without_a_name(self):
        self.refused(r"Pass head='3', the one layer of 3 outputs", network())

    def test_two_candidates(self):
        model = nn.ModuleDict({"a": nn.Linear(4, 3), "b": nn.Linear(4, 3)})
        self.refused(r"Pass head=… with one of 'a', 'b'", model)

    def test_no_candidate(self):
        self.refused(r"No layer has 3 outputs; '0' has 5", nn.Sequential(nn.Linear(4, 5)))
        self.refused("It has no Linear or Conv layer", nn.Sequential(nn.ReLU()))

    def test_an_unknown_name(self):
        self.refused(r"Got 'fc'\. Pass head='3'", network(), head="fc")

    def test_another_layer(self):
        self.refused("must be a Linear or Conv layer. Got ReLU", network(), head="1")

    @pytest.mark.parametrize("head", [None, "0"])
    def test_cosines(self, head):
        layer = CosineLinear(4, 3)
        self.refused(
            "a scale would vanish.*Put Rebalance.from_calibrator",
            layer if head is None else nn.Sequential(layer),
            head=head,
        )

    def test_weight_norm(self):
        self.refused("normalised away. Remove that", parametrizations.weight_norm(nn.Linear(4, 3)))

    def test_a_forward_of_its_own(self):
        self.refused("Got Own, which has a forward of its own", Own(4, 3))

    def test_lazy(self):
        self.refused("has not seen an input yet", nn.LazyLinear(3))

    def test_twice(self):
        self.refused(r"fold_into\(unfold\(model\)", fold_into(nn.Linear(4, 3), self.cal))

    def test_a_network_that_is_folded_elsewhere(self):
        model = nn.Sequential(fold_into(nn.Linear(4, 3), self.cal), nn.Linear(3, 3))
        self.refused(r"a layer \('0'\) that has a corr.*several heads", model, head="1")

    def test_a_network_that_has_the_layer(self):
        model = nn.Sequential(nn.Linear(4, 3), Rebalance.from_calibrator(self.cal))
        self.refused(r"Got a Rebalance in it \('1'\).* made twice", model, head="0")

    @pytest.mark.parametrize(
        "inputs, match",
        [
            (np.zeros((2, 4)), r"Got a NumPy array of float64\. Pass torch\.as_tensor"),
            ((np.zeros((2, 4)),), "Got a NumPy array of float64"),
            ((torch.zeros(2, 4), torch.zeros(2)), r"Got a tuple of 2.*without labels"),
            ({"image": torch.zeros(2, 4)}, "keys 'image', which Sequential does not take"),
            (DataLoader(TensorDataset(torch.zeros(2, 4))), r"Got DataLoader\. .*next\(iter"),
            (iter([torch.zeros(2, 4)]), "Got list_iterator"),
        ],
    )
    def test_inputs_that_are_no_batch(self, inputs, match):
        self.refused("`inputs` must be what the model takes.*" + match, network(), head="3",
                     inputs=inputs)  # fmt: skip

    def test_an_error_of_the_network_is_its_own(self):
        class Broken(Scaled):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return len(3)

        with pytest.raises(TypeError, match="has no len"):
            fold_into(Broken(), self.cal, head="fc", inputs=torch.zeros(2, 4))

    def test_flattening_depends_on_its_input(self):
        reference = rp.EntropyReference(0.5, 0.1)
        self.refused("no fixed scale and bias can stand for it", nn.Linear(4, 3), cal=reference)

    def test_something_behind_the_layer(self):
        x = torch.randn(20, 4, generator=torch.manual_seed(0))
        self.refused(
            "Either something behind the layer changes the scores", Scaled(), head="fc", inputs=x,
            error=rp.RepriorError,
        )  # fmt: skip

    def test_outputs_of_another_shape(self):
        model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 7))
        self.refused(
            "must lead to one score per class", model, head="0", inputs=torch.randn(5, 4),
            error=rp.ScoresError,
        )  # fmt: skip

    def test_no_module(self):
        with pytest.raises(rp.OptionError, match=r"must be a torch\.nn\.Module\. Got function"):
            fold_into(lambda x: x, fitted())
        with pytest.raises(rp.OptionError, match=r"must come from fold_into\. Got a NoneType"):
            unfold(None)

    @pytest.mark.parametrize("name", ["", 3])
    def test_a_name_that_is_none(self, name):
        with pytest.raises(rp.OptionError, match=r"name of a layer.* Got .* Pass head='3'"):
            fold_into(network(), fitted(), head=name)

    def test_unfold_what_was_not_folded(self):
        with pytest.raises(rp.OptionError, match="must come from fold_into"):
            unfold(network())

    @pytest.mark.parametrize("name", ["weight", "bias"])
    def test_unfold_what_was_trained(self, name):
        folded = fold_into(nn.Linear(4, 3), self.cal)
        with torch.no_grad():
            getattr(folded, name).add_(0.01)
        with pytest.raises(rp.OptionError, match="it was trained or loaded since"):
            unfold(folded)

    @pytest.mark.parametrize("temperature", [None, 1.7])
    def test_unfold_other_weights(self, temperature):
        folded = fold_into(nn.Linear(4, 3), fitted(temperature=temperature))
        with torch.no_grad():
            folded.weight.mul_(1.5)
        with pytest.raises(rp.OptionError, match="pass forget=True"):
            unfold(folded)


class TestAWayOut:
    @pytest.mark.parametrize("temperature", [None, 1.7])
    def test_the_original_weights_loaded_back(self, temperature):
        head, cal = nn.Linear(4, 3), fitted(temperature=temperature)
        folded = fold_into(head, cal)
        folded.load_state_dict(head.state_dict())
        plain = unfold(folded)
        assert torch.equal(plain.weight, head.weight)
        assert torch.equal(plain.bias, head.bias)
        assert torch.equal(fold_into(plain, cal).bias, fold_into(head, cal).bias)

    def test_any_weights_loaded(self):
        other, cal = nn.Linear(4, 3), fitted()
        folded = fold_into(nn.Linear(4, 3), cal)
        folded.load_state_dict(other.state_dict())
        plain = unfold(folded, forget=True)
        assert torch.equal(plain.weight, other.weight)
        assert torch.equal(fold_into(plain, cal).bias, fold_into(other, cal).bias)


@pytest.mark.parametrize("which", ["decision", "probability"])
def test_two_maps_are_folded_one_at_a_time(which):
    cal, head = fitted(separate=True, temperature="bcts"), nn.Linear(6, 3).double()
    inputs = torch.randn(20, 6, dtype=torch.float64)
    for refused in (lambda: fold_into(head, cal), lambda: Rebalance.from_calibrator(cal)):
        with pytest.raises(rp.OptionError, match="`map` must say which is meant"):
            refused()
    folded = fold_into(head, cal, inputs=inputs, map=which)
    wanted = cal.predict_proba(head(inputs), map=which)
    torch.testing.assert_close(folded(inputs).softmax(1), wanted, rtol=0, atol=EXACT)
    layer = Rebalance.from_calibrator(cal, map=which)
    torch.testing.assert_close(layer(head(inputs)).exp(), wanted, rtol=0, atol=EXACT)


def test_a_scale_per_class_needs_logits():
    z, y = logits_and_labels(300)
    cal = rp.PosteriorCalibrator(PRIOR, metric="log_loss", temperature="vector", kind="log_probs")
    cal.fit(z.log_softmax(1), y)
    with pytest.raises(rp.OptionError, match=r"must be fitted on logits where it has a scale per"):
        fold_into(nn.Linear(6, 3), cal)
    layer = Rebalance.from_calibrator(cal)
    wanted = cal.predict_log_proba(z.log_softmax(1))
    torch.testing.assert_close(layer(z.log_softmax(1)), wanted, rtol=0, atol=EXACT)
    assert "scale=[" in repr(layer)
    gone = torch.tensor([[0.0, -torch.inf, 0.0]], dtype=torch.float64)
    assert layer(gone)[0, 1] == -torch.inf


@pytest.mark.parametrize("groups", [1, 3])
def test_a_scale_per_class_of_transposed_convolutions(groups):
    cal = CALIBRATORS["vector"]
    head = nn.ConvTranspose2d(6, 3, 2, stride=2, groups=groups).double()
    inputs = torch.randn(2, 6, 4, 5, dtype=torch.float64)
    folded = fold_into(head, cal, inputs=inputs)
    assert torch.equal(unfold(folded).weight, head.weight)


def test_a_scale_per_class_of_one_score():
    z, y = logits_and_labels(300, n_classes=2)
    margin = z[:, 1] - z[:, 0]
    options = {"metric": "log_loss", "temperature": "vector", "bounds": (0.0, 8.0)}
    cal = rp.PosteriorCalibrator([0.7, 0.3], **options).fit(margin, y)
    head = nn.Linear(4, 1).double()
    inputs = torch.randn(30, 4, dtype=torch.float64)
    folded = fold_into(head, cal, inputs=inputs)
    wanted = cal.predict_proba(head(inputs))
    torch.testing.assert_close(folded(inputs).sigmoid(), wanted, rtol=0, atol=EXACT)
