"""Which layers a scale and a bias can be written into, and why others cannot."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils.parametrize import is_parametrized

from reprior.exceptions import OptionError
from reprior.torch.losses import CosineLinear

__all__ = ["check_head", "find_head", "output_axis", "width"]

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
    """How many scores the layer gives."""
    n_outputs: Any = head.out_features if isinstance(head, nn.Linear) else head.out_channels
    return int(n_outputs)


def output_axis(head: nn.Module) -> int:
    """Where the layer's output has the classes, counted from the end."""
    kernel: Any = () if isinstance(head, nn.Linear) else head.kernel_size
    return -1 - len(kernel)


def find_head(model: Any, name: str | None, n_classes: int) -> nn.Module:
    """The layer ``name`` of the model, or the model itself; refuse one that cannot be folded."""
    if not isinstance(model, nn.Module):
        raise OptionError(
            f"`model` must be a torch.nn.Module. Got {type(model).__name__}. Pass the last layer, "
            f"or the network and head=the layer's name."
        )
    if name is None and not isinstance(model, (*_KINDS, CosineLinear)):
        raise OptionError(
            f"`head` must name the layer that gives the scores. Got None, and a "
            f"{type(model).__name__}, which is no Linear or Conv layer itself. "
            f"{_suggestion(model, n_classes)}"
        )
    if name is None:
        head = model
    else:
        try:
            head = dict(model.named_modules(remove_duplicate=False))[name or None]
        except KeyError:
            raise OptionError(
                f"`head` must be the name of a layer of the model. Got {name!r}. "
                f"{_suggestion(model, n_classes)}"
            ) from None
    check_head(head, n_classes)
    return head


def check_head(head: nn.Module, n_classes: int) -> None:
    """Refuse a layer whose output is not scale·z + bias for any other weights."""
    kind = type(head).__name__
    if isinstance(head, CosineLinear):
        raise OptionError(
            f"`head` must be linear in its weights. Got {kind}, whose weights are normalised at "
            f"every call: a scale would vanish, and cosines have no bias. {_REMEDY}"
        )
    if not isinstance(head, _KINDS):
        raise OptionError(f"`head` must be a Linear or Conv layer. Got {kind}. {_REMEDY}")
    base = next(each for each in _KINDS if isinstance(head, each))
    if type(head).forward is not base.forward:
        raise OptionError(
            f"`head` must compute what {base.__name__} computes. Got {kind}, which has a forward "
            f"of its own. {_REMEDY}"
        )
    if is_parametrized(head) or "weight" not in head._parameters:
        raise OptionError(
            f"`head` must own its weight. Got a {kind} whose weight is computed at every call, by "
            f"a parametrization such as weight_norm: what is written into it would be normalised "
            f"away. Remove that first (torch.nn.utils.parametrize.remove_parametrizations), or put "
            f"Rebalance.from_calibrator(calibrator) behind it."
        )
    if isinstance(head.weight, UninitializedParameter):
        raise OptionError(
            f"`head` must have its weights. Got a {kind} that has not seen an input yet. Run the "
            f"model once, or load its state dict, before folding."
        )
    _check_width(head, n_classes)


def _check_width(head: nn.Module, n_classes: int) -> None:
    n_outputs = width(head)
    if n_outputs == n_classes or (n_outputs == 1 and n_classes == 2):
        return
    raise OptionError(
        f"`head` must have one output per class. Got a {type(head).__name__} of {n_outputs} "
        f"outputs, and a calibrator of {n_classes} classes. Name the layer that gives the scores, "
        f"or fit the calibrator on this layer's outputs."
    )


def _suggestion(model: nn.Module, n_classes: int) -> str:
    """Name the layers that could be meant."""
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
