"""Whether a folded network decides and reports as the calibrator does."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reprior.core.binary import is_single_score
from reprior.exceptions import RepriorError, ScoresError
from reprior.torch.batches import call, evaluating, scores_in
from reprior.torch.heads import output_axis

__all__ = ["check_parity"]

#: By how much two ways to the same posterior may differ in a dtype: rounding of logits of some
#: tens, summed over some thousand features in another order.
TOLERANCES = {
    torch.float64: 1e-9,
    torch.float32: 1e-5,
    torch.float16: 2e-2,
    torch.bfloat16: 1e-1,
}


def check_parity(
    model: nn.Module,
    folded: nn.Module,
    calibrator: Any,
    layer: nn.Module,
    bare: bool,
    inputs: Any,
    tolerance: float | None,
) -> None:
    """Run both on ``inputs`` and refuse a copy that is not the calibrator after the original.

    A bare layer gives logits whatever the calibrator was fitted on; a network gives what the
    calibrator was fitted on.
    """
    with evaluating(model), evaluating(folded), torch.no_grad():
        before, after = scores_in(call(model, inputs)), scores_in(call(folded, inputs))
    allowed = TOLERANCES.get(before.dtype, 1e-5) if tolerance is None else tolerance
    kind = "logits" if bare else calibrator.kind
    n_classes = calibrator.source_prior_.size
    axis = _class_axis(before, n_classes, output_axis(layer), calibrator.class_axis)
    scale, bias = calibrator.as_affine()
    wanted = _posterior(before, kind, axis, scale, bias)
    got = _posterior(after, kind, axis, 1.0, np.zeros(n_classes))
    off = np.abs(wanted - got)
    worst = float(np.nan_to_num(off, nan=np.inf).max(initial=0.0))
    if worst > allowed:
        raise RepriorError(
            f"The folded module must give the calibrator's posteriors on `inputs`, to within "
            f"{allowed:g}. Got a difference of {worst:.3g}. Either something behind the layer "
            f"changes the scores, so that Rebalance.from_calibrator(calibrator) must stand behind "
            f"that; or the outputs are not the {kind} that the calibrator was fitted on; or the "
            f"dtype is coarse: then pass a larger `tolerance`."
        )
    _check_labels(wanted, got, allowed)


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
    scores: Tensor, kind: str, axis: int, scale: float, bias: np.ndarray[Any, Any]
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
    return torch.softmax(z * scale + torch.tensor(bias), dim=-1).numpy()


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
