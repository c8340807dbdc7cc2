"""Whether a folded network decides and reports as the calibrator does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from reprior.core.binary import is_single_score
from reprior.exceptions import OptionError, RepriorError, ScoresError
from reprior.torch.batches import call, evaluating, scores_in
from reprior.torch.heads import output_axis

__all__ = ["Check", "check_parity"]

#: By how much two ways to the same posterior may differ in a dtype: rounding of logits of some
#: tens, summed over some thousand features in another order.
TOLERANCES = {
    torch.float64: 1e-9,
    torch.float32: 1e-5,
    torch.float16: 2e-2,
    torch.bfloat16: 1e-1,
}


#: The rule and the remedy for inputs that the model has no place for.
_RULE = "`inputs` must be what the model takes"
_REMEDY = "Pass one batch of the model's inputs alone, as tensors and without labels."


class Check(NamedTuple):
    """What a folded network is judged by."""

    inputs: Any
    tolerance: float | None
    output_key: Any
    bare: bool
    """Whether it is the layer alone, which gives logits whatever the calibrator was fitted on."""


def check_parity(
    model: nn.Module, folded: nn.Module, calibrator: Any, layer: nn.Module, check: Check
) -> None:
    """Run both on the inputs and refuse a copy that is not the calibrator after the original.

    A network gives what the calibrator was fitted on; or the logits of it, where that was their
    softmax, taken outside.
    """
    _check_inputs(check.inputs)
    with evaluating(model), evaluating(folded), torch.no_grad():
        before, after = (
            scores_in(call(each, check.inputs, (_RULE, _REMEDY)), check.output_key)
            for each in (model, folded)
        )
    default = TOLERANCES.get(before.dtype, 1e-5)
    allowed = default if check.tolerance is None else check.tolerance
    axis = _class_axis(
        before, calibrator.source_prior_.size, output_axis(layer), calibrator.class_axis
    )
    kinds = ["logits"] if check.bare else list(dict.fromkeys([calibrator.kind, "logits"]))
    worst, wanted, got = min(
        (_difference(before, after, kind, axis, calibrator) for kind in kinds),
        key=lambda found: found[0],
    )
    if worst > allowed:
        raise RepriorError(
            f"The folded module must give the calibrator's posteriors on `inputs`, to within "
            f"{allowed:g}. Got a difference of {worst:.3g}. Either something behind the layer "
            f"changes the scores, so that Rebalance.from_calibrator(calibrator) must stand behind "
            f"that; or the outputs are not the {' or '.join(kinds)} that the calibrator was fitted "
            f"on; or the dtype is coarse: then pass a larger `tolerance`."
        )
    _check_labels(wanted, got, allowed)


def _check_inputs(inputs: Any) -> None:
    """Refuse what is no batch of tensors: the model's own complaint would be hard to read."""
    plain = isinstance(inputs, Mapping | tuple | list)
    parts = list(inputs.values() if isinstance(inputs, Mapping) else inputs) if plain else [inputs]
    arrays = [each for each in parts if isinstance(each, np.ndarray)]
    if arrays:
        raise OptionError(
            f"{_RULE}, as tensors. Got a NumPy array of {arrays[0].dtype}. Pass "
            f"torch.as_tensor(inputs), in the dtype of the model's weights."
        )
    if not plain and not isinstance(inputs, Tensor) and hasattr(inputs, "__iter__"):
        raise OptionError(
            f"{_RULE}, one batch of it. Got {type(inputs).__name__}. Pass a batch's inputs "
            f"without its labels, such as next(iter(loader))[0]."
        )


def _difference(
    before: Tensor, after: Tensor, kind: str, axis: int, calibrator: Any
) -> tuple[float, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The largest difference of posteriors, and both."""
    scale, bias = calibrator.as_affine()
    wanted = _posterior(before, kind, axis, scale, bias)
    got = _posterior(after, kind, axis, 1.0, np.zeros(bias.size))
    off = np.abs(wanted - got)
    return float(np.nan_to_num(off, nan=np.inf).max(initial=0.0)), wanted, got


def _check_labels(wanted: np.ndarray[Any, Any], got: np.ndarray[Any, Any], allowed: float) -> None:
    """Labels must agree wherever the first two classes are further apart than rounding."""
    top = np.sort(wanted, axis=-1)
    clear = top[..., -1] - top[..., -2] > 2 * allowed
    differ = clear & (wanted.argmax(-1) != got.argmax(-1))
    if differ.any():
        raise RepriorError(
            f"The folded module must decide as the calibrator does on `inputs`. Got another label "
            f"for {int(differ.sum())} of {differ.size} samples. Put "
            f"Rebalance.from_calibrator(calibrator) behind the network instead."
        )


def _posterior(
    scores: Tensor, kind: str, axis: int, scale: Any, bias: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """The posterior of all K classes, on the last axis, in float64."""
    z = scores.detach().cpu().double()
    single = is_single_score(z.shape, bias.size, axis)
    if single and z.ndim == 1:
        z, axis = z[:, None], 1
    z = torch.movedim(z, axis, -1)
    if single:
        other = {"logits": 0 * z, "probs": 1 - z, "log_probs": torch.log1p(-z.exp())}[kind]
        z = torch.cat([other, z], dim=-1)
    if kind == "probs":
        z = z.log()
    return torch.softmax(
        z * torch.as_tensor(scale, dtype=z.dtype) + torch.tensor(bias), dim=-1
    ).numpy()


def _class_axis(scores: Tensor, n_classes: int, *candidates: int) -> int:
    """Where the network's output has the classes: as its last layer, or the tuning data."""
    for axis in (*candidates, -1, 1):
        if -scores.ndim <= axis < scores.ndim:
            length = scores.shape[axis]
            if length == n_classes or is_single_score(scores.shape, n_classes, axis):
                return axis
    raise ScoresError(
        f"`inputs` must lead to one score per class. Got outputs of shape {tuple(scores.shape)}, "
        f"and {n_classes} classes. Fold into the layer alone, and pass its own inputs."
    )
