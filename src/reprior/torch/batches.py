"""Batches and model outputs in the many forms they come in."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from reprior.exceptions import OptionError

__all__ = [
    "Batch",
    "Unpack",
    "call",
    "device_of",
    "evaluating",
    "on_device",
    "scores_in",
    "without_class_axis",
]

#: Names under which batches and outputs that are mappings keep their labels and scores.
LABEL_NAMES = ("labels", "label", "targets", "target", "y")
SCORE_NAMES = ("logits", "out", "scores")


class Batch(NamedTuple):
    """What a model takes, and what the truth is."""

    inputs: Any
    labels: Tensor
    weight: Tensor | None


class Unpack(NamedTuple):
    """How batches are taken apart: by a function of the user's, by keys, or by their form."""

    function: Callable[[Any], Any] | None = None
    input_key: str | None = None
    label_key: str | None = None
    weight_key: str | None = None

    def __call__(self, batch: Any) -> Batch:
        """Inputs, labels, and weights (a boolean mask: True counts) or None."""
        if self.function is not None:
            batch = self.function(batch)
        elif isinstance(batch, Mapping):
            return self._of_mapping(batch)
        if isinstance(batch, Sequence) and len(batch) in (2, 3):
            inputs, labels, *rest = batch
            weight = _tensor(rest[0], "weight") if rest else None
            if weight is not None and self.function is None:
                _refuse_numbers(weight)
            return Batch(inputs, _tensor(labels, "labels"), _as_weight(weight))
        said = "`unpack` must return" if self.function is not None else "`loader` must give"
        raise OptionError(
            f"{said} (inputs, labels) or (inputs, labels, weight), or a mapping with a key of "
            f"labels. Got {_form(batch)}. Pass unpack=a function from a batch to one of these."
        )

    def _of_mapping(self, batch: Mapping[str, Any]) -> Batch:
        rest = dict(batch)
        label_key = self.label_key or _only(rest, LABEL_NAMES, "label_key", "labels")
        labels = _pop(rest, label_key, "label_key")
        weight = None
        if self.weight_key is not None:
            weight = _tensor(_pop(rest, self.weight_key, "weight_key"), "weight")
        inputs: Any = rest
        if self.input_key is not None:
            inputs = _pop(rest, self.input_key, "input_key")
        elif len(rest) == 1:
            inputs = next(iter(rest.values()))
        return Batch(inputs, _tensor(labels, "labels"), _as_weight(weight))


def scores_in(output: Any, key: str | int | Callable[[Any], Any] | None = None) -> Tensor:
    """The tensor of scores in what a model returns; ask where it is not clear."""
    if callable(key):
        output = key(output)
    elif key is not None:
        output = _entry(output, key)
    if isinstance(output, Tensor):
        return output
    several = ""
    if isinstance(output, Mapping):
        names = [name for name in SCORE_NAMES if name in output]
        if len(names) == 1 or len(output) == 1:
            return scores_in(output[names[0]] if names else next(iter(output.values())))
        if names:
            several = f", of which {len(names)} may be the scores: {', '.join(map(repr, names))}"
    elif isinstance(getattr(output, "logits", None), Tensor):
        return scores_in(output.logits)
    elif isinstance(output, Sequence) and len(output) == 1:
        return scores_in(output[0])
    raise OptionError(
        f"`model` must give a tensor of scores, or an output with `logits`. Got {_form(output)}"
        f"{several}. Pass output_key=a name or position in it, or a function from the output to "
        f"the tensor of scores."
    )


def _entry(output: Any, key: str | int) -> Any:
    """What is under a name, or at a position of a tuple."""
    found = None
    if isinstance(output, Mapping):
        found = output.get(key)
    elif isinstance(key, str):
        found = getattr(output, key, None)
    elif isinstance(output, Sequence) and -len(output) <= key < len(output):
        found = output[key]
    if found is None:
        raise OptionError(
            f"`output_key` must be a name or position in the model's output. Got {key!r}, and "
            f"{_form(output)}. Pass one that is in it, or a function from the output to the scores."
        )
    return found


def call(model: Callable[..., Any], inputs: Any, refusal: tuple[str, str]) -> Any:
    """Give the model its inputs: a tensor as it is, tuples and mappings spread out.

    ``refusal`` is the rule and the remedy for inputs that the model has no place for.
    """
    named, placed = (dict(inputs), ()) if isinstance(inputs, Mapping) else ({}, (inputs,))
    if isinstance(inputs, tuple | list):
        placed = tuple(inputs)
    try:
        return model(*placed, **named)
    except TypeError:
        if _takes(model, placed, named):
            raise
        rule, remedy = refusal
        raise OptionError(
            f"{rule}. Got {_form(inputs)}, which {type(model).__name__} does not take. {remedy}"
        ) from None


def _takes(model: Any, placed: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether a call has the number and the names of arguments that the model asks for."""
    function = model.forward if isinstance(model, nn.Module) else model
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*placed, **named)
    except TypeError:
        return False
    return True


def on_device(value: Any, device: torch.device | None) -> Any:
    """The same with every tensor in it on the device; None leaves them where they are."""
    if device is None:
        return value
    if isinstance(value, Mapping):
        return {key: on_device(item, device) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(on_device(item, device) for item in value))
    if isinstance(value, tuple | list):
        return type(value)(on_device(item, device) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        moved = {f.name: on_device(getattr(value, f.name), device) for f in fields(value)}
        return type(value)(**moved)
    return value.to(device, non_blocking=True) if hasattr(value, "to") else value


def device_of(model: Any, device: Any) -> torch.device | None:
    """Where a model's inputs must be: where its weights are; refuse another place."""
    tensors = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
    home = tensors[0].device if tensors else None
    if device is None:
        return home
    wanted = torch.device(device)
    if home is not None and (wanted.type, wanted.index or 0) != (home.type, home.index or 0):
        raise OptionError(
            f"`device` must be where the model is. Got {wanted}, and a model on {home}. "
            f"Call model.to({str(wanted)!r}) first, or leave `device` out."
        )
    return wanted


def without_class_axis(labels: Tensor, scores: Tensor, axis: int) -> Tensor:
    """Labels without a class axis of length 1, as segmentation masks (N, 1, H, W) have it."""
    fits = labels.ndim == scores.ndim > 1 and -labels.ndim <= axis < labels.ndim
    return labels.squeeze(axis) if fits and labels.shape[axis] == 1 else labels


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Put a model in evaluation mode, and every part of it back into its own mode afterwards."""
    modes = {m: m.training for m in model.modules()} if isinstance(model, nn.Module) else {}
    try:
        if any(modes.values()):
            model.eval()
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def _tensor(values: Any, name: str) -> Any:
    """Labels or weights as a tensor; None as it is."""
    if values is None or isinstance(values, Tensor):
        return values
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        few = repr(values)
        raise OptionError(
            f"`{name}` of a batch must be numbers. Got {few if len(few) < 60 else few[:60] + '…'}. "
            f"Pass unpack=a function from a batch to (inputs, labels), labels as class indices."
        ) from None


def _as_weight(weight: Tensor | None) -> Tensor | None:
    """A mask as weights of 0 and 1."""
    return weight.double() if weight is not None and weight.dtype == torch.bool else weight


def _refuse_numbers(third: Tensor) -> None:
    """Whole numbers that come third may be weights, and as well indices or other labels: ask."""
    if third.dtype != torch.bool and not third.is_floating_point():
        dtype = str(third.dtype).removeprefix("torch.")
        raise OptionError(
            f"`loader` must give weights as floats, or a boolean mask, where its batches have a "
            f"third entry. Got {dtype}, which may be indices just as well. Pass unpack=lambda "
            f"batch: batch[:2] to leave it out, or unpack=tuple if these are the weights."
        )


def _only(batch: Mapping[str, Any], names: Sequence[str], option: str, what: str) -> str:
    found = [name for name in names if name in batch]
    if len(found) == 1:
        return found[0]
    got = "several of these" if found else "none of these"
    raise OptionError(
        f"`{option}` must name the {what} of a batch that is a mapping, unless it has one of "
        f"{', '.join(map(repr, names))}. Got {got} among {_names(batch)}. Pass {option}=… ."
    )


def _pop(batch: dict[str, Any], key: str, option: str) -> Any:
    if key not in batch:
        raise OptionError(
            f"`{option}` must be a key of the batches. Got {key!r}, and keys {_names(batch)}. "
            f"Pass one of these."
        )
    return batch.pop(key)


def _names(mapping: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, mapping))


def _form(value: Any) -> str:
    """What something looks like, in a few words."""
    if isinstance(value, Mapping):
        return f"a mapping with keys {_names(value)}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"
