"""The prior correction written into the weights of a network's last layer, and taken out again."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from reprior.exceptions import OptionError, RepriorWarning
from reprior.torch.affine import Affine, affine_of
from reprior.torch.heads import find_head, width
from reprior.torch.parity import check_parity

__all__ = ["fold_into", "unfold"]

ModuleT = TypeVar("ModuleT", bound=nn.Module)

#: The attribute of a folded layer that remembers what it was.
RECORD = "reprior_fold"


@dataclass(frozen=True, eq=False)
class Fold:
    """What was folded into a layer, and the tensors that were there before."""

    scale: float
    bias: np.ndarray[Any, Any]
    weight_before: Tensor | None
    """None where the scale is 1 and the weight was left alone."""
    bias_before: Tensor | None
    """None where the layer had no bias."""
    dtype: torch.dtype


def fold_into(
    model: ModuleT,
    calibrator: Any,
    *,
    head: str | None = None,
    inputs: Any = None,
    tolerance: float | None = None,
    probs_are_softmax: bool = False,
) -> ModuleT:
    r"""Return a copy of a layer or network with the prior correction in the layer's weights.

    .. math:: W' = W / T, \qquad b' = b / T + λ\,w / T

    where W and b are weight and bias of the layer that gives the scores, T the calibrator's
    temperature, λ its strength and w = log P_t − log P_s. The copy's scores are the corrected
    ones: their softmax is the calibrator's posterior and their arg max its decision, at the cost
    of the original.

    Parameters
    ----------
    model : torch.nn.Module
        The last layer itself: a Linear, Conv1d, Conv2d, Conv3d or ConvTranspose layer, with or
        without bias; or a network, and ``head`` says which layer it is. Of two classes one score
        will do.
    calibrator : PosteriorCalibrator
        Fitted on this network's scores.
    head : str, optional
        The dotted name of the layer within ``model``, such as ``"fc"`` or ``"classifier.3"``.
    inputs : Tensor, tuple or dict, optional
        A batch for ``model``. The copy is run on it, and refused unless its labels and posteriors
        are those of the calibrator applied to the original's outputs.
    tolerance : float, optional
        By how much posteriors may differ on ``inputs``. By default what rounding in the outputs'
        dtype does: 1e-5 for float32.
    probs_are_softmax : bool, default False
        For a calibrator fitted on ``kind="probs"``: says that these probabilities are the softmax
        (of one output: the sigmoid) of this layer's outputs and nothing else. Their logarithms
        then are the logits less a constant per sample, and the same scale and bias hold.
        Log-probabilities are taken to be the log-softmax.

    Returns
    -------
    torch.nn.Module
        A new module of the same type; ``model`` is not touched. Its state dict has the same keys
        and loads into the plain architecture; where the layer had no bias, into that with
        ``bias=True``. A class of target prior 0 has the bias −inf. :func:`unfold` takes the
        correction out again.

    Examples
    --------
    >>> import torch
    >>> import reprior as rp
    >>> from reprior.torch import fold_into
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> z, y = torch.tensor([[2.0, 0.0], [0.4, 0.0], [0.0, 1.0]]), torch.tensor([0, 1, 1])
    >>> cal = rp.PosteriorCalibrator([0.8, 0.2]).fit(z, y)  # rather on network(x)
    >>> x = torch.randn(50, 4)
    >>> folded = fold_into(network, cal, head="2", inputs=x)
    >>> torch.equal(folded(x).argmax(1), cal.predict(network(x)))
    True
    """
    affine = _affine(calibrator, probs_are_softmax)
    layer = find_head(model, head, affine.bias.size)
    if hasattr(layer, RECORD):
        raise OptionError(
            "`model` must not be folded already. Got a layer that has a correction in its "
            "weights. Take it out first: fold_into(unfold(model), calibrator)."
        )
    folded = copy.deepcopy(model)
    target = folded if head is None else folded.get_submodule(head)
    _warn_if_tied(folded, target, affine.scale)
    _write(target, affine)
    if inputs is not None:
        check_parity(model, folded, calibrator, layer, head is None, inputs, tolerance)
    return folded


def unfold(folded: ModuleT) -> ModuleT:
    """Return a copy of what :func:`fold_into` gave, with the weights as they were, bit by bit.

    The weights of before travel with the module when it is copied, moved or pickled, not in its
    state dict.

    Examples
    --------
    >>> import torch
    >>> import reprior as rp
    >>> from reprior.torch import fold_into, unfold
    >>> layer = torch.nn.Linear(3, 2)
    >>> z, y = torch.tensor([[2.0, 0.0], [0.4, 0.0], [0.0, 1.0]]), torch.tensor([0, 1, 1])
    >>> cal = rp.PosteriorCalibrator([0.8, 0.2], temperature=1.7).fit(z, y)
    >>> torch.equal(unfold(fold_into(layer, cal)).weight, layer.weight)
    True
    """
    plain = copy.deepcopy(folded)
    layers = [module for module in _modules(plain) if hasattr(module, RECORD)]
    if not layers:
        raise OptionError(
            f"`folded` must come from fold_into. Got a {type(folded).__name__} without a folded "
            f"layer. The weights of before are not part of a state dict: load those of the "
            f"original network."
        )
    for layer in layers:
        _restore(layer, getattr(layer, RECORD))
    return plain


def _modules(model: Any) -> list[nn.Module]:
    """All parts of a network; none of anything else."""
    return list(model.modules()) if isinstance(model, nn.Module) else []


def _affine(calibrator: Any, probs_are_softmax: bool) -> Affine:
    affine = affine_of(calibrator)
    if affine.kind == "probs" and not probs_are_softmax:
        raise OptionError(
            "`calibrator` must be fitted on what the layer gives, its logits. Got one fitted on "
            "probabilities. Fit it on the logits with kind='logits'; or, if the probabilities are "
            "the plain softmax of this layer's outputs, pass probs_are_softmax=True."
        )
    return affine


def _warn_if_tied(network: nn.Module, layer: nn.Module, scale: float) -> None:
    """Say that a weight shared with another layer is shared no more once it is scaled."""
    named = network.named_parameters(remove_duplicate=False)
    ties = [name for name, weight in named if weight is layer.weight]
    if scale != 1.0 and len(ties) > 1:
        warnings.warn(
            f"The layer's weight is tied to another's ({', '.join(ties)}). In the folded network "
            f"it is not: loading its state dict into a network that ties them again would undo "
            f"one of the two. Untie them there, or fold a calibrator without temperature, which "
            f"changes the bias only.",
            RepriorWarning,
            stacklevel=3,
        )


def _write(layer: nn.Module, affine: Affine) -> None:
    shift = affine.bias
    if width(layer) == 1:
        shift = shift[1:] - shift[:1]
    weight, bias = _parameters(layer)
    changed = affine.scale != 1.0
    record = Fold(
        scale=affine.scale,
        bias=shift,
        weight_before=weight.detach().clone() if changed else None,
        bias_before=None if bias is None else bias.detach().clone(),
        dtype=weight.dtype,
    )
    # New parameters, never new values in old ones: a tied embedding keeps what it had.
    if changed:
        layer.weight = nn.Parameter(_scaled(weight.detach(), record), weight.requires_grad)
    trained = weight.requires_grad if bias is None else bias.requires_grad
    layer.bias = nn.Parameter(_shifted(bias, weight, record), trained)
    object.__setattr__(layer, RECORD, record)


def _scaled(weight: Tensor, record: Fold) -> Tensor:
    return (weight.double() * record.scale).to(weight.dtype)


def _shifted(bias: Tensor | None, weight: Tensor, record: Fold) -> Tensor:
    shift = torch.tensor(record.bias, dtype=torch.float64, device=weight.device)
    if bias is not None:
        shift = shift + bias.detach().double() * record.scale
    return shift.to(weight.dtype)


def _restore(layer: nn.Module, record: Fold) -> None:
    weight, bias = _parameters(layer)

    def here(before: Tensor) -> Tensor:
        return before.to(device=weight.device, dtype=weight.dtype)

    old_weight = weight if record.weight_before is None else here(record.weight_before)
    old_bias = None if record.bias_before is None else here(record.bias_before)
    again = weight if record.weight_before is None else _scaled(old_weight, record)
    shifted = _shifted(old_bias, weight, record)
    if bias is None or not all(
        _same(one.detach(), other.detach(), record.dtype)
        for one, other in ((again, weight), (shifted, bias))
    ):
        raise OptionError(
            "`folded` must have the weights that fold_into gave it. Got others: it was trained, or "
            "loaded, since. Train the original network, and fold the correction in afterwards."
        )
    if record.weight_before is not None:
        layer.weight = nn.Parameter(old_weight, weight.requires_grad)
    plain = None if old_bias is None else nn.Parameter(old_bias, bias.requires_grad)
    layer.register_parameter("bias", plain)
    object.__delattr__(layer, RECORD)


def _same(one: Tensor, other: Tensor, dtype: torch.dtype) -> bool:
    """Equal; or, in a module that was cast since, equal up to the rounding of that."""
    if other.dtype == dtype:
        return torch.equal(one, other)
    step = 4 * max(torch.finfo(other.dtype).eps, torch.finfo(dtype).eps)
    return torch.allclose(one.double(), other.double(), rtol=step, atol=step)


def _parameters(layer: nn.Module) -> tuple[nn.Parameter, nn.Parameter | None]:
    """Weight and bias, by the names that Linear and Conv layers share."""
    weight, bias = layer._parameters["weight"], layer._parameters["bias"]
    assert weight is not None  # noqa: S101 - every Linear and Conv has one, and heads were checked
    return weight, bias
