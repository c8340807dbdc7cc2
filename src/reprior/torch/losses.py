"""Losses and class weights for imbalanced classes, as the paper's baselines use them."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it

from reprior.core.arrays import to_numpy
from reprior.core.checks import check_choice, check_finite_number
from reprior.core.prior import as_prior
from reprior.exceptions import OptionError, PriorError

__all__ = [
    "IGNORE_INDEX",
    "CosineLinear",
    "FocalLoss",
    "LDAMLoss",
    "LogitAdjustedLoss",
    "effective_number_weights",
    "frequency_weights",
]

REDUCTIONS = ("mean", "sum", "none")

#: The label of ignored samples, as in torch.
IGNORE_INDEX = -100


class _ClassLoss(nn.Module):
    """The options that every loss shares with ``torch.nn.CrossEntropyLoss``."""

    weight: Tensor | None
    reductions: tuple[str, ...] = REDUCTIONS

    def __init__(self, weight: Any, ignore_index: int, reduction: str) -> None:
        super().__init__()
        check_choice("reduction", reduction, self.reductions)
        given = None if weight is None else torch.as_tensor(weight, dtype=torch.get_default_dtype())
        self.register_buffer("weight", given)
        self.ignore_index = ignore_index
        self.reduction = reduction

    def _cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        weight = None if self.weight is None else self.weight.to(logits.dtype)
        return F.cross_entropy(
            logits, labels, weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class FocalLoss(_ClassLoss):
    r"""Focal loss over the softmax: cross-entropy that down-weights samples already right.

    .. math:: \ell = -v_y\,(1 - p_y)^{γ} \log p_y

    where p is the softmax of the logits (class weights do not enter it), y the label, γ the focus
    and v the class weights. γ = 0 is cross-entropy. Over the N samples of a batch that are not
    ignored, the two means are

    .. math:: \frac{\sum_i \ell_i}{\sum_i v_{y_i}} \text{ (mean)}, \qquad
        \frac{1}{N} \sum_i \ell_i \text{ (plain_mean)}

    ``torch.nn.CrossEntropyLoss`` uses the first, the public code of [2]_ the second. Without
    class weights they are equal. With weights, the plain mean is smaller on batches of classes
    with small weights, so steps at a given learning rate are shorter.

    Parameters
    ----------
    gamma : float, default 1
        γ ≥ 0.
    weight : array-like of shape (K,), optional
        v.
    ignore_index : int, default -100
        The label of ignored samples.
    reduction : {"mean", "plain_mean", "sum", "none"}, default "mean"
        How the losses of the samples are combined.

    References
    ----------
    .. [1] Lin, Goyal, Girshick, He, Dollár. "Focal Loss for Dense Object Detection", ICCV 2017:
       Eq. 5.
    .. [2] Cao, Wei, Gaidon, Arechiga, Ma. "Learning Imbalanced Datasets with
       Label-Distribution-Aware Margin Loss", NeurIPS 2019: the code, LDAM-DRW, ``losses.py``.

    Examples
    --------
    >>> import torch
    >>> from reprior.torch.losses import FocalLoss
    >>> logits, labels = torch.zeros(2, 2), torch.tensor([0, 0])
    >>> round(FocalLoss(gamma=1.0)(logits, labels).item(), 4)  # half of log 2
    0.3466
    >>> weight = [0.5, 1.5]
    >>> means = (FocalLoss(1.0, weight, reduction=each) for each in ("mean", "plain_mean"))
    >>> [round(loss(logits, labels).item(), 4) for loss in means]
    [0.3466, 0.1733]
    """

    reductions = (*REDUCTIONS, "plain_mean")

    def __init__(
        self,
        gamma: float = 1.0,
        weight: Any = None,
        *,
        ignore_index: int = IGNORE_INDEX,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        self.gamma = check_finite_number("gamma", gamma, minimum=0.0)

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of logits (N, K, …) and class indices (N, …)."""
        log_p = F.log_softmax(logits, dim=1)
        # One number per sample, exactly 0 for ignored ones.
        log_own = -F.nll_loss(log_p, labels, ignore_index=self.ignore_index, reduction="none")
        # For γ < 1 the power has no derivative at 0, where the loss is 0 for every γ.
        rest = (-torch.expm1(log_own)).clamp_min(torch.finfo(log_own.dtype).tiny)
        losses = -(rest**self.gamma) * log_own
        kept = (labels != self.ignore_index).to(losses.dtype)
        n_kept = kept.sum()
        if self.weight is not None:
            index = labels.where(labels != self.ignore_index, torch.zeros_like(labels))
            kept = kept * self.weight.to(losses.dtype)[index]
        losses = losses * kept
        if self.reduction == "none":
            return losses
        if self.reduction == "plain_mean":
            return losses.sum() / n_kept
        return losses.sum() / kept.sum() if self.reduction == "mean" else losses.sum()


class LDAMLoss(_ClassLoss):
    r"""Label-distribution-aware margin loss: cross-entropy with larger margins for rare classes.

    .. math:: \ell = -v_y \log \mathrm{softmax}\bigl(s\,(c - m_y\,e_y)\bigr)_y, \qquad
        m_k ∝ n_k^{-1/4}

    where c are the *unscaled* cosines of a :class:`CosineLinear`, y the label, e_y its unit
    vector, n the training counts, m the margins, s the scale and v class weights. The largest
    margin is ``max_margin``. A class without training samples gets the largest.

    Parameters
    ----------
    class_counts : array-like of shape (K,)
        n.
    max_margin : float, default 0.5
        The margin of the rarest class.
    scale : float, default 30
        s. Use ``scale * cosines`` as logits when the network is applied.
    weight : array-like of shape (K,), optional
        v.
    ignore_index : int, default -100
        The label of ignored samples.
    reduction : {"mean", "sum", "none"}, default "mean"
        How the losses of the samples are combined.

    Attributes
    ----------
    margins : Tensor of shape (K,)
        m.

    References
    ----------
    .. [1] Cao, Wei, Gaidon, Arechiga, Ma. "Learning Imbalanced Datasets with
       Label-Distribution-Aware Margin Loss", NeurIPS 2019: Eqs. 10 and 13.

    Examples
    --------
    >>> from reprior.torch.losses import LDAMLoss
    >>> LDAMLoss([1600, 100, 0]).margins
    tensor([0.2500, 0.5000, 0.5000])
    """

    margins: Tensor

    def __init__(
        self,
        class_counts: Any,
        max_margin: float = 0.5,
        scale: float = 30.0,
        *,
        weight: Any = None,
        ignore_index: int = IGNORE_INDEX,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        counts = _counts(class_counts, allow_zero=True)
        counts = np.where(counts > 0, counts, counts[counts > 0].min())
        margins = counts**-0.25
        margins *= check_finite_number("max_margin", max_margin, minimum=0.0) / margins.max()
        self.register_buffer("margins", torch.tensor(margins, dtype=torch.get_default_dtype()))
        self.scale = check_finite_number("scale", scale, positive=True)

    def forward(self, cosines: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of unscaled cosines (N, K, …) and class indices (N, …)."""
        index = labels.where(labels != self.ignore_index, torch.zeros_like(labels))
        margins = self.margins.to(cosines.dtype)[index].unsqueeze(1)
        lowered = cosines.scatter_add(1, index.unsqueeze(1), -margins)
        return self._cross_entropy(self.scale * lowered, labels)


class LogitAdjustedLoss(_ClassLoss):
    r"""Cross-entropy of logits with the training prior added: the correction during training.

    .. math:: \ell = -v_y \log \mathrm{softmax}(z + λ \log P_s)_y

    where z are the logits, y the label, P_s the training prior, λ the strength and v class
    weights. A network trained this way predicts for the uniform prior: leave its logits as they
    are, or correct them with P_s as the target prior to predict for the training prior.

    Parameters
    ----------
    source_prior : array-like of shape (K,)
        P_s, see :func:`reprior.prior_from_counts`.
    strength : float, default 1
        λ (τ in the reference).
    weight : array-like of shape (K,), optional
        v.
    ignore_index : int, default -100
        The label of ignored samples.
    reduction : {"mean", "sum", "none"}, default "mean"
        How the losses of the samples are combined.

    References
    ----------
    .. [1] Menon, Jayasumana, Rawat, Jain, Veit, Kumar. "Long-tail Learning via Logit Adjustment",
       ICLR 2021: Eq. 10.

    Examples
    --------
    >>> import torch
    >>> from reprior.torch.losses import LogitAdjustedLoss
    >>> loss = LogitAdjustedLoss([0.8, 0.2])(torch.zeros(1, 2), torch.tensor([1]))
    >>> round(loss.item(), 4)  # −log 0.2
    1.6094
    """

    adjustment: Tensor

    def __init__(
        self,
        source_prior: Any,
        strength: float = 1.0,
        *,
        weight: Any = None,
        ignore_index: int = IGNORE_INDEX,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        shift = check_finite_number("strength", strength) * np.log(
            as_prior(source_prior, name="source_prior")
        )
        self.register_buffer("adjustment", torch.tensor(shift, dtype=torch.get_default_dtype()))

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of logits (N, K, …) and class indices (N, …)."""
        shift = self.adjustment.to(logits.dtype).reshape([-1] + [1] * (logits.ndim - 2))
        return self._cross_entropy(logits + shift, labels)


class CosineLinear(nn.Module):
    r"""A classifier layer that returns cosines: features and weights are normalised.

    .. math:: c_k(x) = \frac{⟨w_k, x⟩}{‖w_k‖\,‖x‖}

    where x are the features and w_k the weights of class k.

    Parameters
    ----------
    in_features, out_features : int
        Features and classes.

    Examples
    --------
    >>> import torch
    >>> from reprior.torch.losses import CosineLinear
    >>> cosines = CosineLinear(8, 3)(torch.randn(5, 8))
    >>> bool((cosines.abs() <= 1 + 1e-6).all())
    True
    """

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = nn.Parameter(F.normalize(torch.randn(out_features, in_features), dim=1))

    def forward(self, features: Tensor) -> Tensor:
        """Return the cosines (…, out_features) of features (…, in_features)."""
        return F.linear(F.normalize(features, dim=-1), F.normalize(self.weight, dim=-1))

    def extra_repr(self) -> str:
        """Return what ``print(model)`` shows."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


def effective_number_weights(class_counts: Any, beta: float = 0.9999) -> Tensor:
    r"""Return class-balanced weights by the effective number of samples, which sum to K.

    .. math:: v_k ∝ \frac{1 - β}{1 - β^{n_k}}

    where n_k is the training count of class k. β = 0 gives equal weights, β → 1 inverse
    frequencies.

    References
    ----------
    .. [1] Cui, Jia, Lin, Song, Belongie. "Class-Balanced Loss Based on Effective Number of
       Samples", CVPR 2019: Eq. 5.

    Examples
    --------
    >>> from reprior.torch.losses import effective_number_weights
    >>> effective_number_weights([1000, 10], beta=0.999)
    tensor([0.0310, 1.9690])
    """
    counts = _counts(class_counts)
    beta = check_finite_number("beta", beta, minimum=0.0)
    if beta >= 1.0:
        raise OptionError(
            argument="beta",
            rule="must be below 1",
            got=f"{beta:g}",
            remedy="Pass 0.9999, or take inverse frequencies by frequency_weights.",
        )
    if beta == 0.0:
        return torch.ones(counts.size)
    # 1 − β^n without loss of digits where β is close to 1.
    weights = (1.0 - beta) / -np.expm1(counts * math.log(beta))
    return _tensor(weights * (counts.size / weights.sum()))


def frequency_weights(class_counts: Any, reference: str = "median") -> Tensor:
    r"""Return inverse-frequency weights: the median, or the largest, count over each class's.

    .. math:: v_k = \mathrm{median}(n) / n_k \quad\text{or}\quad \max(n) / n_k

    where n_k is the training count of class k. Under a weighted mean the two are the same loss.

    Examples
    --------
    >>> from reprior.torch.losses import frequency_weights
    >>> frequency_weights([800, 40, 10])
    tensor([0.0500, 1.0000, 4.0000])
    >>> frequency_weights([800, 40, 10], "max")
    tensor([ 1., 20., 80.])
    """
    check_choice("reference", reference, ["median", "max"])
    counts = _counts(class_counts)
    top = np.median(counts) if reference == "median" else counts.max()
    return _tensor(top / counts)


def _counts(class_counts: Any, *, allow_zero: bool = False) -> np.ndarray[Any, Any]:
    host = to_numpy(class_counts)
    if host.ndim != 1 or host.dtype.kind not in "iuf" or host.size < 2:
        raise PriorError(
            argument="class_counts",
            rule="must be one number per class, of at least two classes",
            got=f"dtype {host.dtype} and shape {host.shape}",
            remedy="Pass the training counts.",
        )
    counts = cast("np.ndarray[Any, Any]", host.astype(np.float64))
    bad = ~np.isfinite(counts) | (counts < 0) | ((counts == 0) & (not allow_zero))
    if bad.any() or not counts.any():
        where = int(np.argmax(bad))
        rule = "finite and not negative, and not all 0" if allow_zero else "finite and above 0"
        raise PriorError(
            argument="class_counts",
            rule=f"must be {rule}",
            got=f"class_counts[{where}]={counts[where]:g}",
            remedy="Drop a class that has no training sample.",
        )
    return counts


def _tensor(values: np.ndarray[Any, Any]) -> Tensor:
    return torch.tensor(values, dtype=torch.get_default_dtype())
