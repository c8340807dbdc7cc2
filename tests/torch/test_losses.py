"""Losses and weights against their formulas, written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.support.torch_networks import EXACT, logits_and_labels
from torch import nn

import reprior as rp
from reprior.torch.losses import (
    CosineLinear,
    FocalLoss,
    LDAMLoss,
    LogitAdjustedLoss,
    effective_number_weights,
    frequency_weights,
)

COUNTS = [1000, 100, 10]
WEIGHT = [0.5, 1.0, 2.0]
LOSSES = {
    "focal": lambda **options: FocalLoss(2.0, **options),
    "ldam": lambda **options: LDAMLoss(COUNTS, **options),
    "adjusted": lambda **options: LogitAdjustedLoss(rp.prior_from_counts(COUNTS), **options),
}

each_loss = pytest.mark.parametrize("make", LOSSES.values(), ids=LOSSES)


def log_softmax(z: np.ndarray) -> np.ndarray:
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))


def own(table: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return table[np.arange(labels.size), labels]


def reduced(losses: np.ndarray, labels: np.ndarray, weight: list[float] | None) -> float:
    v = np.ones(labels.size) if weight is None else np.array(weight)[labels]
    return float((v * losses).sum() / v.sum())


@pytest.mark.parametrize("weight", [None, WEIGHT])
class TestFormulas:
    scores, labels = logits_and_labels(40)
    z, y = scores.numpy(), labels.numpy()

    @pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
    def test_focal(self, gamma, weight):
        log_p = own(log_softmax(self.z), self.y)
        wanted = reduced(-((1 - np.exp(log_p)) ** gamma) * log_p, self.y, weight)
        assert FocalLoss(gamma, weight)(self.scores, self.labels).item() == pytest.approx(wanted)

    def test_ldam(self, weight):
        margins = np.array(COUNTS, float) ** -0.25
        margins = 0.5 * margins / margins.max()
        cosines = np.tanh(self.z)
        lowered = cosines - margins[self.y][:, None] * np.eye(3)[self.y]
        wanted = reduced(-own(log_softmax(30 * lowered), self.y), self.y, weight)
        got = LDAMLoss(COUNTS, weight=weight)(torch.tensor(cosines), self.labels)
        assert got.item() == pytest.approx(wanted, rel=1e-5)

    def test_logit_adjusted(self, weight):
        prior = np.array(COUNTS) / sum(COUNTS)
        wanted = reduced(-own(log_softmax(self.z + 0.7 * np.log(prior)), self.y), self.y, weight)
        loss = LogitAdjustedLoss(prior, 0.7, weight=weight)
        assert loss(self.scores, self.labels).item() == pytest.approx(wanted, rel=1e-5)


class TestPlainMean:
    """``reduction="plain_mean"`` against the arithmetic of LDAM-DRW, transcribed."""

    scores, labels = logits_and_labels(40)

    def ldam_drw(self, p_of_weighted: bool) -> float:
        """Mean of (1 − p)^γ · v·ce; their p is exp(−v·ce), ours exp(−ce)."""
        ce = nn.functional.cross_entropy(self.scores, self.labels, reduction="none")
        weighted = torch.tensor(WEIGHT).double()[self.labels] * ce
        p = torch.exp(-weighted if p_of_weighted else -ce)
        return float(((1 - p) * weighted).mean())

    def test_it_is_the_mean_of_weighted_terms(self):
        loss = FocalLoss(1.0, WEIGHT, reduction="plain_mean")(self.scores, self.labels)
        assert loss.item() == pytest.approx(self.ldam_drw(p_of_weighted=False), rel=1e-12)

    def test_p_of_the_weighted_cross_entropy_is_what_differs(self):
        loss = FocalLoss(1.0, WEIGHT, reduction="plain_mean")(self.scores, self.labels)
        assert abs(loss.item() - self.ldam_drw(p_of_weighted=True)) > 0.01
        flat = FocalLoss(0.0, WEIGHT, reduction="plain_mean")(self.scores, self.labels)
        ce = nn.functional.cross_entropy(
            self.scores, self.labels, torch.tensor(WEIGHT).double(), reduction="none"
        )
        assert flat.item() == pytest.approx(ce.mean().item(), rel=1e-12)

    def test_without_weights_the_means_are_the_same_bits(self):
        means = [
            FocalLoss(1.0, reduction=each)(self.scores, self.labels)
            for each in ("mean", "plain_mean")
        ]
        assert torch.equal(*means)

    def test_samples_that_are_left_out_do_not_count(self):
        labels = self.labels.clone()
        labels[:10] = -100
        loss = FocalLoss(1.0, WEIGHT, reduction="plain_mean")
        torch.testing.assert_close(
            loss(self.scores, labels), loss(self.scores[10:], labels[10:]), rtol=1e-12, atol=0
        )


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_focal_without_focus_is_cross_entropy(weight):
    scores, labels = logits_and_labels(4, 5, 6)
    labels[0, 0] = -100
    loss = nn.CrossEntropyLoss(None if weight is None else torch.tensor(weight).double())
    torch.testing.assert_close(
        FocalLoss(0.0, weight)(scores, labels), loss(scores, labels), rtol=0, atol=EXACT
    )


@each_loss
def test_pixels_are_samples_and_ignored_ones_count_for_nothing(make):
    scores, labels = logits_and_labels(2, 3, 4)
    scores = scores.tanh()
    labels[0, 0, 0] = 255
    rows, kept = scores.movedim(1, -1).reshape(-1, 3), labels.reshape(-1)
    rows, kept = rows[kept != 255], kept[kept != 255]
    whole, by_rows = make(ignore_index=255, weight=WEIGHT)(scores, labels), make(weight=WEIGHT)
    torch.testing.assert_close(whole, by_rows(rows, kept))


@each_loss
def test_reductions(make):
    scores, labels = logits_and_labels(9)
    each = make(reduction="none")(scores.tanh(), labels)
    assert each.shape == (9,)
    torch.testing.assert_close(make(reduction="sum")(scores.tanh(), labels), each.sum())
    torch.testing.assert_close(make()(scores.tanh(), labels), each.mean())


@each_loss
def test_gradients(make):
    scores, labels = logits_and_labels(5)
    scores = (0.5 * scores.tanh()).requires_grad_()
    loss = make().double()
    assert torch.autograd.gradcheck(lambda z: loss(z, labels), scores)


def test_focal_has_gradients_where_the_network_is_certain():
    scores = torch.tensor([[200.0, 0.0]], requires_grad=True)
    FocalLoss(0.5)(scores, torch.tensor([0])).backward()
    assert torch.isfinite(scores.grad).all()


@each_loss
def test_weights_are_buffers_and_follow(make):
    loss = make(weight=WEIGHT)
    assert list(loss.parameters()) == []
    assert "weight" in loss.state_dict()
    assert loss.double().weight.dtype == torch.float64


def test_a_network_of_margins_learns():
    torch.manual_seed(0)
    scores, labels = logits_and_labels(200)
    layer, loss = CosineLinear(3, 3).double(), LDAMLoss(COUNTS)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.05)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        value = loss(layer(scores), labels)
        value.backward()
        optimiser.step()
        losses.append(value.item())
    assert losses[-1] < losses[0]


def test_cosines():
    torch.manual_seed(0)
    layer, x = CosineLinear(4, 3), torch.randn(2, 5, 4)
    wanted = torch.cosine_similarity(x[..., None, :], layer.weight, dim=-1)
    torch.testing.assert_close(layer(x), wanted)
    torch.testing.assert_close(layer(7 * x), wanted)
    assert repr(layer) == "CosineLinear(in_features=4, out_features=3)"


class TestWeights:
    def test_effective_number(self):
        n = np.array(COUNTS, float)
        v = (1 - 0.9999) / (1 - 0.9999**n)
        got = effective_number_weights(COUNTS)
        np.testing.assert_allclose(got, v / v.sum() * 3, rtol=1e-6)
        assert got.sum().item() == pytest.approx(3)

    def test_effective_number_at_its_ends(self):
        assert effective_number_weights(COUNTS, 0.0).tolist() == [1.0, 1.0, 1.0]
        inverse = effective_number_weights(COUNTS, 1 - 1e-12)
        torch.testing.assert_close(
            inverse * torch.tensor(COUNTS), inverse[0] * 1000 * torch.ones(3)
        )

    def test_frequencies_are_the_same_loss_under_a_weighted_mean(self):
        scores, labels = logits_and_labels(30)
        losses = [
            FocalLoss(1.0, frequency_weights(COUNTS, by))(scores, labels)
            for by in ("median", "max")
        ]
        torch.testing.assert_close(*losses)

    def test_tensors_are_counts_too(self):
        assert frequency_weights(torch.tensor(COUNTS)).tolist() == pytest.approx([0.1, 1.0, 10.0])


class TestMargins:
    def test_the_rarest_class_has_the_largest(self):
        margins = LDAMLoss(COUNTS, max_margin=0.4).margins
        assert margins.argmax() == 2
        assert margins[2].item() == pytest.approx(0.4)
        assert (margins[0] / margins[2]).item() == pytest.approx(0.01**0.25)

    def test_a_class_never_seen_has_it_as_well(self):
        assert LDAMLoss([16, 1, 0]).margins.tolist() == pytest.approx([0.25, 0.5, 0.5])


class TestWords:
    @pytest.mark.parametrize(
        "call, error, words",
        [
            (
                lambda: FocalLoss(-1.0),
                rp.OptionError,
                "`gamma` must be a finite number of at least 0",
            ),
            (lambda: FocalLoss(reduction="avg"), rp.OptionError, "`reduction` must be one of"),
            (lambda: LDAMLoss([0, 0]), rp.PriorError, "not all 0"),
            (lambda: LDAMLoss([3, -1]), rp.PriorError, r"Got class_counts\[1\]=-1"),
            (lambda: LDAMLoss([3, 1], scale=0), rp.OptionError, "`scale` must be"),
            (lambda: LDAMLoss(["a", "b"]), rp.PriorError, "must be one number per class"),
            (lambda: LogitAdjustedLoss([3, 1]), rp.PriorError, "must sum to 1"),
            (lambda: effective_number_weights([3, 0]), rp.PriorError, "finite and above 0"),
            (
                lambda: effective_number_weights([3, 1], 1.0),
                rp.OptionError,
                "`beta` must be below 1",
            ),
            (
                lambda: frequency_weights([3, 1], "mean"),
                rp.OptionError,
                "`reference` must be one of",
            ),
        ],
    )
    def test_sentences(self, call, error, words):
        with pytest.raises(error, match=words):
            call()
