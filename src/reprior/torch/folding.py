"""Fold the prior correction into the weights of a network's last layer, and unfold it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils.parametrize import is_parametrized

from reprior._warnings import warn
from reprior.core.binary import is_single_score
from reprior.exceptions import (
    Argument,
    OptionError,
    RepriorError,
    ScoresError,
    Setting,
)
from reprior.torch.loader import call, evaluating, scores_in
from reprior.torch.losses import CosineLinear
from reprior.torch.rebalance import Affine, Rebalance, affine_of

__all__ = [
    "Check",
    "check_head",
    "check_parity",
    "find_head",
    "fold_into",
    "output_axis",
    "unfold",
    "width",
]


ModuleT = TypeVar("ModuleT", bound=nn.Module)

#: The attribute of a folded layer that holds its original tensors.
RECORD = "reprior_fold"


@dataclass(frozen=True, eq=False)
class Fold:
    """What was folded into a layer, and the layer's original tensors."""

    scale: float | np.ndarray[Any, Any]
    bias: np.ndarray[Any, Any]
    weight_before: Tensor
    bias_before: Tensor | None
    """None if the layer had no bias."""
    dtype: torch.dtype


def fold_into(
    model: ModuleT,
    calibrator: Any,
    *,
    head: str | None = None,
    inputs: Any = None,
    tolerance: float | None = None,
    probs_are_softmax: bool = False,
    output_key: Any = None,
    map: str | None = None,
) -> ModuleT:
    r"""Return a copy of a layer or network with the prior correction in the layer's weights.

    .. math:: W' = W / T, \qquad b' = b / T + λ\,w / T

    where W and b are weight and bias of the layer that computes the scores, T the calibrator's
    temperature, λ its strength and w = log P_t − log P_s. The copy's scores are corrected: their
    softmax is the calibrator's posterior and their arg max its decision, at no extra cost.

    Parameters
    ----------
    model : torch.nn.Module
        The last layer itself: a Linear, Conv1d, Conv2d, Conv3d or ConvTranspose layer, with or
        without bias; or a network whose last layer ``head`` names. For two classes one score is
        enough.
    calibrator : PosteriorCalibrator
        A calibrator fitted on this network's uncorrected scores.
    head : str, optional
        The dotted name of the layer within ``model``, such as ``"fc"`` or ``"classifier.3"``.
    inputs : Tensor, tuple or dict, optional
        A batch for ``model``, without labels. The copy runs on it, and is refused unless its
        decisions and posteriors are those of the calibrator applied to the original's outputs.
    tolerance : float, optional
        By how much posteriors may differ on ``inputs``. By default rounding in the outputs' dtype:
        1e-5 for float32.
    probs_are_softmax : bool, default False
        For a calibrator fitted on ``kind="probs"``: declares that these probabilities are exactly
        the softmax (of one output: the sigmoid) of this layer's outputs. Their logarithms then
        are the logits minus a constant per sample, so scale and bias are the same.
        Log-probabilities are assumed to be the log-softmax. On ``inputs`` the network may return
        probabilities or logits.
    output_key : str, int or callable, optional
        Where the scores are in the output of ``model``, as in :func:`fit_from_loader`.
    map : {"decision", "probability"}, optional
        Which of the calibrator's maps to fold. Required if there are two (``separate=True``).

    Returns
    -------
    torch.nn.Module
        A new module of the same type; ``model`` is not changed. Its state dict has the same keys
        and loads into the plain architecture; if the layer had no bias, into that with
        ``bias=True``. A class of target prior 0 has the bias −inf. :func:`unfold` removes the
        correction.

    Notes
    -----
    A model that contains a folded layer or a :class:`Rebalance` is refused: its scores would be
    corrected twice. Only the module that ``fold_into`` returned and its copies are known to be
    folded; a plain network that loaded a folded one's state dict looks like any other.

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
    affine = _affine(calibrator, probs_are_softmax, map)
    layer = find_head(model, head, affine.bias.size)
    _refuse_corrected(model, layer)
    folded = copy.deepcopy(model)
    target = folded if head is None else folded.get_submodule(head)
    _warn_if_tied(folded, target, affine.scaled)
    _write(target, affine)
    if inputs is not None:
        check = Check(inputs, tolerance, output_key, head is None)
        check_parity(model, folded, calibrator.one_map(map), layer, check)
    return folded


def unfold(folded: ModuleT, *, forget: bool = False) -> ModuleT:
    """Return a copy of a folded module with its original weights, bit for bit.

    The original weights stay with the module when it is copied, moved or pickled; they are not in
    its state dict. Weights that have changed since, by training or loading, are refused: their
    originals are unknown. If the original weights were loaded into the folded module, they stay.

    Parameters
    ----------
    folded : torch.nn.Module
        The result of :func:`fold_into`, or a copy of it.
    forget : bool, default False
        Leave the weights as they are, and forget that they were folded: for a folded module into
        which the weights of an uncorrected network were loaded.

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
            argument="folded",
            rule="must come from fold_into",
            got=f"a {type(folded).__name__} without a folded layer",
            remedy=(
                "The weights of before are not part of a state dict: load those of the "
                "original network."
            ),
        )
    for layer in layers:
        if not forget:
            _restore(layer, getattr(layer, RECORD))
        object.__delattr__(layer, RECORD)
    return plain


def _refuse_corrected(model: nn.Module, head: nn.Module) -> None:
    """Refuse a network that is already corrected, as far as that is known."""
    for name, module in model.named_modules():
        if hasattr(module, RECORD):
            where = f" ({name!r})" if name else ""
            remedy = "Take it out first: fold_into(unfold(model), calibrator)."
            if module is not head:
                remedy += " Of a network with several heads fold each layer by itself."
            raise OptionError(
                argument="model",
                rule="must not be folded already",
                got=f"a layer{where} that has a correction in its weights",
                remedy=remedy,
            )
        if isinstance(module, Rebalance):
            raise OptionError(
                argument="model",
                rule="must not correct its scores already",
                got=(
                    f"a Rebalance in it ({name!r}): with a folded layer the correction would be "
                    "made twice"
                ),
                remedy="Fold into the network without it.",
            )


def _modules(model: Any) -> list[nn.Module]:
    """Return all submodules of a network; nothing for other objects."""
    return list(model.modules()) if isinstance(model, nn.Module) else []


def _affine(calibrator: Any, probs_are_softmax: bool, which: str | None) -> Affine:
    affine = affine_of(calibrator, which)
    if np.ndim(affine.scale) and affine.kind != "logits":
        raise OptionError(
            argument="calibrator",
            rule=[
                "must be fitted on logits where it has a scale per class (",
                Setting("temperature", "vector"),
                "), which the constant between logits and their log-softmax would change",
            ],
            got=f"one fitted on {affine.kind}",
            remedy=[
                "Fit it on the logits, or with ",
                Setting("temperature", "bcts"),
                ".",
            ],
        )
    if affine.kind == "probs" and not probs_are_softmax:
        raise OptionError(
            argument="calibrator",
            rule="must be fitted on what the layer gives, its logits",
            got="one fitted on probabilities",
            remedy=[
                "Fit it on the logits with ",
                Setting("kind", "logits"),
                ("; or, if the probabilities are the plain softmax of this layer's outputs, pass "),
                Setting("probs_are_softmax", True),
                ".",
            ],
        )
    return affine


def _warn_if_tied(network: nn.Module, layer: nn.Module, scaled: bool) -> None:
    """Warn that a weight shared with another layer is no longer shared once it is scaled."""
    named = network.named_parameters(remove_duplicate=False)
    ties = [name for name, weight in named if weight is layer.weight]
    if scaled and len(ties) > 1:
        warn(
            f"The layer's weight is tied to another's ({', '.join(ties)}). In the folded network "
            f"it is not: loading its state dict into a network that ties them again would undo "
            f"one of the two. Untie them there, or fold a calibrator without temperature, which "
            f"changes the bias only."
        )


def _write(layer: nn.Module, affine: Affine) -> None:
    shift = affine.bias
    scale = affine.scale
    if width(layer) == 1:
        shift = shift[1:] - shift[:1]
        if isinstance(scale, np.ndarray):  # the score of the first class is 0
            scale = scale[1:]
    weight, bias = _parameters(layer)
    changed = affine.scaled
    record = Fold(
        scale=scale,
        bias=shift,
        weight_before=weight.detach().clone(),
        bias_before=None if bias is None else bias.detach().clone(),
        dtype=weight.dtype,
    )
    # New parameters, never new values in old ones: a tied embedding keeps its values.
    if changed:
        layer.weight = nn.Parameter(_scaled(layer, weight.detach(), record), weight.requires_grad)
    trained = weight.requires_grad if bias is None else bias.requires_grad
    layer.bias = nn.Parameter(_shifted(bias, weight, record), trained)
    object.__setattr__(layer, RECORD, record)


def _scaled(layer: nn.Module, weight: Tensor, record: Fold) -> Tensor:
    """Return the weight with each class's part multiplied by its scale."""
    scale: Any = record.scale
    if np.ndim(scale):
        # Transposed convolutions have their outputs on the second axis, in groups.
        groups = int(getattr(layer, "groups", 1)) if getattr(layer, "transposed", False) else 0
        behind = (1,) * (weight.ndim - (2 if groups else 1))
        scale = torch.tensor(scale, dtype=torch.float64, device=weight.device)
        if groups:
            scale = scale.reshape(groups, 1, -1).expand(-1, weight.shape[0] // groups, -1)
            scale = scale.reshape(weight.shape[0], -1, *behind)
        else:
            scale = scale.reshape(-1, *behind)
    scaled: Tensor = weight.double() * scale
    return scaled.to(weight.dtype)


def _shifted(bias: Tensor | None, weight: Tensor, record: Fold) -> Tensor:
    shift = torch.tensor(record.bias, dtype=torch.float64, device=weight.device)
    if bias is not None:
        scale = torch.as_tensor(record.scale, dtype=torch.float64, device=weight.device)
        shift = shift + bias.detach().double() * scale
    return shift.to(weight.dtype)


def _restore(layer: nn.Module, record: Fold) -> None:
    weight, bias = _parameters(layer)

    def here(before: Tensor) -> Tensor:
        return before.to(device=weight.device, dtype=weight.dtype)

    def has(one: Tensor, other: Tensor | None) -> bool:
        pairs = ((one, weight), (other, bias))
        return all(_same(wanted, present, record.dtype) for wanted, present in pairs)

    old_weight = here(record.weight_before)
    old_bias = None if record.bias_before is None else here(record.bias_before)
    scaled = _scaled(layer, old_weight, record)
    if has(scaled, _shifted(old_bias, weight, record)):
        if np.any(np.asarray(record.scale) != 1.0):  # or it may be tied, and stays so
            layer.weight = nn.Parameter(old_weight, weight.requires_grad)
        frozen = bias is None or not bias.requires_grad
        plain = None if old_bias is None else nn.Parameter(old_bias, not frozen)
        layer.register_parameter("bias", plain)
    elif not has(old_weight, old_bias):
        raise OptionError(
            argument="folded",
            rule="must have the weights that fold_into gave it",
            got="other weights: it was trained or loaded since",
            remedy=[
                "If they are an uncorrected network's, pass ",
                Setting("forget", True),
                (
                    ", which leaves them as they are; if it was trained, train the original "
                    "instead, and fold afterwards."
                ),
            ],
        )


def _same(one: Tensor | None, other: Tensor | None, dtype: torch.dtype) -> bool:
    """Whether two tensors are equal, up to rounding if the module was cast since."""
    if one is None or other is None:
        return one is other
    one = one.detach()
    other = other.detach()
    if other.dtype == dtype:
        return torch.equal(one, other)
    step = 4 * max(torch.finfo(other.dtype).eps, torch.finfo(dtype).eps)
    return torch.allclose(one.double(), other.double(), rtol=step, atol=step)


def _parameters(layer: nn.Module) -> tuple[nn.Parameter, nn.Parameter | None]:
    """Return weight and bias, by the names that Linear and Conv layers share."""
    weight = layer._parameters["weight"]
    bias = layer._parameters["bias"]
    assert weight is not None  # noqa: S101 - every Linear and Conv has one, and heads were checked
    return weight, bias


_KINDS = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
)

_REMEDY = "Put Rebalance.from_calibrator(calibrator) behind it instead."


def width(head: nn.Module) -> int:
    """Return how many scores the layer computes."""
    n_outputs: Any = head.out_features if isinstance(head, nn.Linear) else head.out_channels
    return int(n_outputs)


def output_axis(head: nn.Module) -> int:
    """Return the class axis of the layer's output, counted from the end."""
    kernel: Any = () if isinstance(head, nn.Linear) else head.kernel_size
    return -1 - len(kernel)


def find_head(model: Any, name: str | None, n_classes: int) -> nn.Module:
    """Return the layer ``name`` of the model, or the model itself; refuse an unsuitable one."""
    if not isinstance(model, nn.Module):
        raise OptionError(
            argument="model",
            rule="must be a torch.nn.Module",
            got=type(model).__name__,
            remedy="Pass the last layer, or the network and head=the layer's name.",
        )
    if name is None and not isinstance(model, (*_KINDS, CosineLinear)):
        raise OptionError(
            argument="head",
            rule="must name the layer that gives the scores",
            got=(f"None, and a {type(model).__name__}, which is no Linear or Conv layer itself"),
            remedy=_suggestion(model, n_classes),
        )
    if name is None:
        head = model
    else:
        try:
            head = dict(model.named_modules(remove_duplicate=False))[name or None]
        except KeyError:
            raise OptionError(
                argument="head",
                rule="must be the name of a layer of the model",
                got=f"{name!r}",
                remedy=_suggestion(model, n_classes),
            ) from None
    check_head(head, n_classes)
    return head


def check_head(head: nn.Module, n_classes: int) -> None:
    """Refuse a layer for which no other weights give scale·z + bias."""
    kind = type(head).__name__
    if isinstance(head, CosineLinear):
        raise OptionError(
            argument="head",
            rule="must be linear in its weights",
            got=(
                f"{kind}, whose weights are normalised at every call: a scale would vanish, "
                "and cosines have no bias"
            ),
            remedy=_REMEDY,
        )
    if not isinstance(head, _KINDS):
        raise OptionError(
            argument="head",
            rule="must be a Linear or Conv layer",
            got=kind,
            remedy=_REMEDY,
        )
    base = next(each for each in _KINDS if isinstance(head, each))
    if type(head).forward is not base.forward:
        raise OptionError(
            argument="head",
            rule=f"must compute what {base.__name__} computes",
            got=f"{kind}, which has a forward of its own",
            remedy=_REMEDY,
        )
    if is_parametrized(head) or "weight" not in head._parameters:
        raise OptionError(
            argument="head",
            rule="must own its weight",
            got=(
                f"a {kind} whose weight is computed at every call, by a parametrization "
                "such as weight_norm: what is written into it would be normalised away"
            ),
            remedy=(
                "Remove that first (torch.nn.utils.parametrize.remove_parametrizations), "
                "or put Rebalance.from_calibrator(calibrator) behind it."
            ),
        )
    if isinstance(head.weight, UninitializedParameter):
        raise OptionError(
            argument="head",
            rule="must have its weights",
            got=f"a {kind} that has not seen an input yet",
            remedy="Run the model once, or load its state dict, before folding.",
        )
    _check_width(head, n_classes)


def _check_width(head: nn.Module, n_classes: int) -> None:
    n_outputs = width(head)
    if n_outputs == n_classes or (n_outputs == 1 and n_classes == 2):
        return
    raise OptionError(
        argument="head",
        rule="must have one output per class",
        got=(
            f"a {type(head).__name__} of {n_outputs} outputs, and a calibrator of "
            f"{n_classes} classes"
        ),
        remedy=(
            "Name the layer that gives the scores, or fit the calibrator on this layer's outputs."
        ),
    )


def _suggestion(model: nn.Module, n_classes: int) -> str:
    """Suggest layers that have the right number of outputs."""
    named = [(n, m) for n, m in model.named_modules() if n and isinstance(m, _KINDS)]
    fitting = [n for n, m in named if width(m) == n_classes or (width(m) == 1 and n_classes == 2)]
    if len(fitting) == 1:
        return f"Pass head={fitting[0]!r}, the one layer of {n_classes} outputs."
    if fitting:
        return f"Pass head=… with one of {', '.join(map(repr, fitting[-5:]))}."
    if named:
        last = named[-1][0]
        return f"No layer has {n_classes} outputs; {last!r} has {width(named[-1][1])}."
    return f"It has no Linear or Conv layer. {_REMEDY}"


#: By how much two computations of a posterior may differ in a dtype: rounding of logits of some
#: tens, summed over some thousand features in another order.
TOLERANCES = {
    torch.float64: 1e-9,
    torch.float32: 1e-5,
    torch.float16: 2e-2,
    torch.bfloat16: 1e-1,
}


#: Rule and remedy for inputs that do not fit the model's arguments.
_RULE = "`inputs` must be what the model takes"
_TAKES_ONE_BATCH = "Pass one batch of the model's inputs alone, as tensors and without labels."


class Check(NamedTuple):
    """How a folded network is compared with the original."""

    inputs: Any
    tolerance: float | None
    output_key: Any
    bare: bool
    """Whether it is the layer alone, which returns logits whatever the calibrator was fitted on."""


def check_parity(
    model: nn.Module, folded: nn.Module, calibrator: Any, layer: nn.Module, check: Check
) -> None:
    """Run both on the inputs; refuse a copy that differs from the calibrator after the original.

    A network returns what the calibrator was fitted on, or the logits whose softmax that was.
    """
    _check_inputs(check.inputs)
    with evaluating(model), evaluating(folded), torch.no_grad():
        before, after = (
            scores_in(call(each, check.inputs, (_RULE, _TAKES_ONE_BATCH)), check.output_key)
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
            [
                "The folded module must give the calibrator's posteriors on ",
                Argument("inputs"),
                (
                    f", to within {allowed:g}. Got a difference of {worst:.3g}. Either "
                    "something behind the layer changes the scores, so that "
                    "Rebalance.from_calibrator(calibrator) must stand behind that; or the "
                    f"outputs are not the {' or '.join(kinds)} that the calibrator was fitted "
                    "on; or the dtype is coarse: then pass a larger "
                ),
                Argument("tolerance"),
                ".",
            ],
        )
    _check_labels(wanted, got, allowed)


def _check_inputs(inputs: Any) -> None:
    """Refuse inputs that are no batch of tensors: the model's own error would be hard to read."""
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
    """Return the largest difference of posteriors, and both posteriors."""
    scale, bias = calibrator.as_affine()
    wanted = _posterior(before, kind, axis, scale, bias)
    got = _posterior(after, kind, axis, 1.0, np.zeros(bias.size))
    off = np.abs(wanted - got)
    return float(np.nan_to_num(off, nan=np.inf).max(initial=0.0)), wanted, got


def _check_labels(wanted: np.ndarray[Any, Any], got: np.ndarray[Any, Any], allowed: float) -> None:
    """Refuse labels that differ where the first two classes are further apart than rounding."""
    top = np.sort(wanted, axis=-1)
    clear = top[..., -1] - top[..., -2] > 2 * allowed
    differ = clear & (wanted.argmax(-1) != got.argmax(-1))
    if differ.any():
        raise RepriorError(
            [
                "The folded module must decide as the calibrator does on ",
                Argument("inputs"),
                (
                    f". Got another label for {int(differ.sum())} of {differ.size} samples. Put "
                    "Rebalance.from_calibrator(calibrator) behind the network instead."
                ),
            ],
        )


def _posterior(
    scores: Tensor, kind: str, axis: int, scale: Any, bias: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Return the posterior of all K classes, on the last axis, in float64."""
    z = scores.detach().cpu().double()
    single = is_single_score(z.shape, bias.size, axis)
    if single and z.ndim == 1:
        z = z[:, None]
        axis = 1
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
    """Return the class axis of the network's output: as in its last layer, or the tuning data."""
    for axis in (*candidates, -1, 1):
        if -scores.ndim <= axis < scores.ndim:
            length = scores.shape[axis]
            if length == n_classes or is_single_score(scores.shape, n_classes, axis):
                return axis
    raise ScoresError(
        argument="inputs",
        rule="must lead to one score per class",
        got=f"outputs of shape {tuple(scores.shape)}, and {n_classes} classes",
        remedy="Fold into the layer alone, and pass its own inputs.",
    )
