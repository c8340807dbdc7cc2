"""Tune a calibrator while the validation set streams through the network."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from reprior.calibrator import PosteriorCalibrator
from reprior.core.checks import check_bounds
from reprior.engines import OnlineFit
from reprior.engines.chunked import AUTO_RESOLUTION
from reprior.exceptions import Argument, LabelsError, OptionError, RepriorError
from reprior.files.chunks import Chunk
from reprior.profile.binning import n_cells
from reprior.profile.merging import MOST_CELLS
from reprior.tuning.problem import DEFAULT_SELECTION

__all__ = [
    "Batch",
    "Unpack",
    "call",
    "device_of",
    "evaluating",
    "fit_from_loader",
    "on_device",
    "scores_in",
    "without_class_axis",
]


#: The profile keeps this many single switches (5 MB); beyond them it bins.
EXACT_SWITCHES = 1 << 18

#: With too many classes for a table of fine bins, more samples than this (the first batch times
#: the number of batches) are binned coarsely from the start.
MANY_SAMPLES = 1 << 23
COARSE = 1e-3

_log = logging.getLogger(__name__)

#: Rule and remedy for a batch that holds more than the model takes.
_MISFIT = (
    "`loader` must give what the model takes, and the labels",
    "Pass input_key=the key of the inputs where batches are mappings, or unpack=a function from a "
    "batch to (inputs, labels).",
)

Model = Callable[..., Any]


def fit_from_loader(
    model: Model | Mapping[str, Model],
    loader: Iterable[Any],
    *,
    source_prior: Any,
    target_prior: Any = "uniform",
    metric: Any = "balanced_accuracy",
    subject_to: Any = None,
    selection: str = DEFAULT_SELECTION,
    temperature: Any = None,
    label_prior: Any = None,
    separate: bool = False,
    bounds: tuple[float, float] = (0.0, 2.0),
    kind: str = "logits",
    class_axis: int = 1,
    classes: Any = None,
    ignore_index: int | None = None,
    resolution: Any = "auto",
    device: Any = None,
    autocast_dtype: torch.dtype | None = None,
    unpack: Callable[[Any], Any] | None = None,
    input_key: str | None = None,
    label_key: str | None = None,
    weight_key: str | None = None,
    output_key: Any = None,
    progress: bool = True,
    random_state: int | None = None,
) -> Any:
    """Tune a calibrator in one pass of a validation loader through a network.

    Each batch's scores are counted for all strengths at once and freed: memory does not grow
    with the number of images. The network is in evaluation mode during the pass; afterwards every
    submodule is back in its own mode.

    Parameters
    ----------
    model : torch.nn.Module, callable, or {modality: model}
        The trained network. For several modalities, a mapping of networks: the inputs of a batch
        are then a mapping with the same keys.
    loader : iterable of batches
        Batches are (inputs, labels), (inputs, labels, weight), or mappings. Labels are class
        indices of the scores' shape without the class axis; weights are floats of the labels'
        shape, or a boolean mask (True counts); integers in their place are refused. In a
        mapping, the entry "labels" (or "label", "targets", "target", "y") holds the labels; the
        rest goes to the model, by name if there are several entries. Use validation data, not
        training data, and no augmentation: if the best strength lies at the upper bound, the
        loader is iterated a second time with a higher bound, and must give the same samples, in
        any order.
    source_prior : array-like of shape (K,)
        The class distribution the network was trained on; never that of this loader.
    target_prior, metric, subject_to, selection, temperature, label_prior, separate, bounds, kind, \
classes, ignore_index
        As in :class:`reprior.PosteriorCalibrator`. With many scores, fits by log-loss use a random
        sample of them. Options that need all scores at once are refused, as by
        :class:`reprior.engines.OnlineFit`.
    class_axis : int, default 1
        The axis of the classes in the network's output: 1 for (N, K) and (N, K, H, W), -1 if
        they come last.
    resolution : float, None or "auto", default "auto"
        Width of the bins of strengths; None keeps every switch. "auto" keeps up to 2**18 switches
        and then bins by 1e-4; by 1e-3 from the start for more than eight million samples of more
        than about 200 classes.
    device : torch.device or str, optional
        The device that batches are moved to; by default that of the model's weights.
    autocast_dtype : torch.dtype, optional
        Run the network under autocast in this dtype, such as ``torch.bfloat16``.
    unpack : callable, optional
        From a batch to (inputs, labels) or (inputs, labels, weight).
    input_key, label_key, weight_key : str, optional
        The keys of inputs, labels and weights, where batches are mappings.
    output_key : str, int or callable, optional
        The name of the scores in the network's output, their position in a tuple, or a function
        from the output to the scores. Not needed for a tensor, a mapping with "logits" or "out",
        or an output with ``.logits``.
    progress : bool, default True
        Show a progress bar if tqdm is installed.
    random_state : int, optional
        The seed of the sample for fits by log-loss.

    Returns
    -------
    PosteriorCalibrator, or {modality: PosteriorCalibrator}
        Fitted calibrators with ``kind`` and ``class_axis`` as given.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> from reprior.torch import fit_from_loader
    >>> logits = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
    >>> data = TensorDataset(logits, torch.tensor([0, 0, 1, 1]))
    >>> model = torch.nn.Identity()  # a network that has its logits already
    >>> loader = DataLoader(data, batch_size=2)
    >>> cal = fit_from_loader(model, loader, source_prior=[0.8, 0.2], progress=False)
    >>> round(cal.strength_, 3)
    0.505
    """
    models: dict[str, Model] = dict(model) if isinstance(model, Mapping) else {"": model}
    _check(models, loader, autocast_dtype)
    stream = _Stream(
        loader=loader,
        unpack=Unpack(unpack, input_key, label_key, weight_key),
        output_key=output_key,
        autocast_dtype=autocast_dtype,
        class_axis=class_axis,
        devices={name: device_of(each, device) for name, each in models.items()},
        several=isinstance(model, Mapping),
        progress=progress,
    )

    def calibrator() -> PosteriorCalibrator:
        return PosteriorCalibrator(
            source_prior,
            target_prior=target_prior,
            metric=metric,
            subject_to=subject_to,
            selection=selection,
            temperature=temperature,
            label_prior=label_prior,
            separate=separate,
            bounds=bounds,
            kind=kind,
            class_axis=class_axis,
            classes=classes,
            ignore_index=ignore_index,
            random_state=random_state,
        )

    fitted = _fit(models, stream, calibrator, bounds, resolution, random_state or 0)
    return fitted if stream.several else fitted[""]


def _check(models: Mapping[str, Any], loader: Any, autocast_dtype: Any) -> None:
    """Check the arguments that can be checked without a batch."""
    if isinstance(loader, nn.Module):
        raise OptionError(
            argument="loader",
            rule="must give batches",
            got=f"a network, {type(loader).__name__}",
            remedy="Pass the network first: fit_from_loader(model, loader, …).",
        )
    wrong = [each for each in models.values() if not callable(each)]
    if wrong or not models:
        got = type(wrong[0]).__name__ if wrong else "an empty mapping"
        raise OptionError(
            argument="model",
            rule="must be a network, or a mapping from modalities to networks",
            got=got,
            remedy="Pass a torch.nn.Module, or a function from inputs to scores.",
        )
    if not isinstance(loader, Iterable) and not hasattr(loader, "__getitem__"):
        raise OptionError(
            argument="loader",
            rule="must give batches",
            got=type(loader).__name__,
            remedy="Pass a DataLoader, or any iterable of (inputs, labels).",
        )
    if autocast_dtype is not None and not isinstance(autocast_dtype, torch.dtype):
        raise OptionError(
            argument="autocast_dtype",
            rule="must be a torch.dtype",
            got=f"{autocast_dtype!r}",
            remedy="Pass for example torch.bfloat16.",
        )


def _fit(
    models: Mapping[str, Model],
    stream: _Stream,
    calibrator: Callable[[], PosteriorCalibrator],
    bounds: tuple[float, float],
    resolution: Any,
    seed: int,
) -> dict[str, PosteriorCalibrator]:
    fits: dict[str, OnlineFit] = {}
    with ExitStack() as modes:
        for each in models.values():
            modes.enter_context(evaluating(each))
        for name, chunk in stream.chunks(models):
            if name not in fits:
                fits[name] = OnlineFit(
                    calibrator(),
                    resolution=stream.resolution(resolution, chunk, bounds),
                    again=stream.again({name: models[name]}),
                    seed=seed,
                    exact_up_to=EXACT_SWITCHES,
                )
            try:
                fits[name].update(chunk.scores, chunk.labels, chunk.weight)
            except RepriorError as error:
                if not name:
                    raise
                raise error.with_sentence(f"This is modality {name!r}.") from error
            del chunk  # frees its scores before the network computes the next ones
        return {name: fit.finish() for name, fit in fits.items()}


@dataclass(frozen=True)
class _Stream:
    """Runs a loader through networks, as often as a fit needs."""

    loader: Iterable[Any]
    unpack: Unpack
    output_key: Any
    devices: Mapping[str, torch.device | None]
    autocast_dtype: torch.dtype | None
    class_axis: int
    several: bool
    progress: bool

    def again(self, models: Mapping[str, Model]) -> Callable[[], Iterator[Chunk]] | None:
        """Return a function that starts another pass; None if the loader can be read only once."""
        # Calling iter(…) to find out would restart a DataLoader with persistent workers in the
        # middle of a pass.
        if isinstance(self.loader, Iterator):
            return None

        def once_more() -> Iterator[Chunk]:
            for _, chunk in self.chunks(models):
                yield chunk

        return once_more

    def resolution(self, asked: Any, first: Chunk, bounds: tuple[float, float]) -> Any:
        """Return the bin width: coarse for many classes and, by the first batch, many samples."""
        labels: Any = first.labels
        n_classes = first.scores.numel() // max(labels.numel(), 1)
        many = labels.numel() * _length(self.loader) > MANY_SAMPLES
        too_fine = n_cells(check_bounds(bounds), AUTO_RESOLUTION, n_classes) > MOST_CELLS
        return COARSE if asked == "auto" and many and too_fine else asked

    def chunks(self, models: Mapping[str, Model]) -> Iterator[tuple[str, Chunk]]:
        """Yield the scores of every batch, with the modality's name."""
        start = 0
        for raw in _shown(self.loader, self.progress):
            batch = self.unpack(raw)
            for name, each in models.items():
                yield name, self._chunk(name, each, batch, start)
            start += len(batch.labels)
        if not start:
            raise LabelsError(
                argument="loader",
                rule="must give at least one sample",
                got="none",
                remedy="Check its dataset; a generator that was read before is empty.",
            )

    def _chunk(self, name: str, model: Model, batch: Batch, start: int) -> Chunk:
        inputs = batch.inputs
        if self.several:
            if not isinstance(inputs, Mapping) or name not in inputs:
                several = isinstance(inputs, Mapping)
                got = ", ".join(map(repr, inputs)) if several else type(inputs).__name__
                raise OptionError(
                    argument="loader",
                    rule="must give inputs by modality",
                    got=f"{got}, and a model for {name!r}",
                    remedy="Pass unpack=a function from a batch to ({modality: inputs}, labels).",
                )
            inputs = inputs[name]
        device = self.devices[name]
        inputs = on_device(inputs, device)
        place = "cpu" if device is None else device.type
        cast: Any = nullcontext()
        if self.autocast_dtype is not None:
            cast = torch.autocast(place, dtype=self.autocast_dtype)
        with torch.no_grad(), cast:
            scores = scores_in(call(model, inputs, _MISFIT), self.output_key).detach()
        # Apple's GPUs have no float64, which counting needs.
        scores = scores.cpu() if scores.device.type == "mps" else scores
        axis = self.class_axis
        labels, weight = (
            None if each is None else without_class_axis(each, scores, axis)
            for each in (batch.labels, batch.weight)
        )
        return Chunk(scores, labels, weight, start)


def _length(loader: Iterable[Any]) -> int:
    """Return the number of batches; 0 if it is unknown, as for an iterable dataset."""
    try:
        return len(loader) if isinstance(loader, Sized) else 0
    except TypeError:
        return 0


def _shown(loader: Iterable[Any], progress: bool) -> Iterable[Any]:
    """Return the loader with a progress bar around it, if tqdm is installed."""
    if not progress:
        return loader
    try:
        from tqdm.auto import tqdm
    except ImportError:
        _log.info("Passing the loader through the network; install tqdm for a progress bar.")
        return loader
    bar: Iterable[Any] = tqdm(loader, desc="reprior", unit="batch", leave=False)
    return bar


#: Keys of labels and scores in batches and outputs that are mappings.
LABEL_NAMES = ("labels", "label", "targets", "target", "y")
SCORE_NAMES = ("logits", "out", "scores")


class Batch(NamedTuple):
    """The inputs of a model, their labels and weights."""

    inputs: Any
    labels: Tensor
    weight: Tensor | None


class Unpack(NamedTuple):
    """Splits batches into inputs, labels and weights: by the user's function, by keys, by form."""

    function: Callable[[Any], Any] | None = None
    input_key: str | None = None
    label_key: str | None = None
    weight_key: str | None = None

    def __call__(self, batch: Any) -> Batch:
        """Return inputs, labels, and weights (a boolean mask: True counts) or None."""
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
    """Return the tensor of scores in a model's output; raise an error if it is ambiguous."""
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
        argument="model",
        rule=[
            "must give a tensor of scores, or an output with ",
            "`logits`",
        ],
        got=f"{_form(output)}{several}",
        remedy=(
            "Pass output_key=a name or position in it, or a function from the output "
            "to the tensor of scores."
        ),
    )


def _entry(output: Any, key: str | int) -> Any:
    """Return the entry under a name, or at a position of a tuple."""
    entry = None
    if isinstance(output, Mapping):
        entry = output.get(key)
    elif isinstance(key, str):
        entry = getattr(output, key, None)
    elif isinstance(output, Sequence) and -len(output) <= key < len(output):
        entry = output[key]
    if entry is None:
        raise OptionError(
            argument="output_key",
            rule="must be a name or position in the model's output",
            got=f"{key!r}, and {_form(output)}",
            remedy="Pass one that is in it, or a function from the output to the scores.",
        )
    return entry


def call(model: Callable[..., Any], inputs: Any, refusal: tuple[str, str]) -> Any:
    """Call the model with its inputs: a tensor as it is, tuples and mappings unpacked.

    ``refusal`` is the rule and the remedy for inputs that do not fit the model's arguments.
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
    """Whether the number and the names of arguments fit the model's signature."""
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
    """Return the value with every tensor in it on the device; None leaves them where they are."""
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
    """Return the device of a model's weights, where its inputs must be; refuse another one."""
    tensors = [*model.parameters(), *model.buffers()] if isinstance(model, nn.Module) else []
    home = tensors[0].device if tensors else None
    if device is None:
        return home
    wanted = torch.device(device)
    if home is not None and (wanted.type, wanted.index or 0) != (home.type, home.index or 0):
        raise OptionError(
            argument="device",
            rule="must be where the model is",
            got=f"{wanted}, and a model on {home}",
            remedy=[
                f"Call model.to({str(wanted)!r}) first, or leave ",
                Argument("device"),
                " out.",
            ],
        )
    return wanted


def without_class_axis(labels: Tensor, scores: Tensor, axis: int) -> Tensor:
    """Return labels without a class axis of length 1, as in segmentation masks (N, 1, H, W)."""
    fits = labels.ndim == scores.ndim > 1 and -labels.ndim <= axis < labels.ndim
    return labels.squeeze(axis) if fits and labels.shape[axis] == 1 else labels


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Put a model in evaluation mode, and every submodule back into its own mode afterwards."""
    modes = {m: m.training for m in model.modules()} if isinstance(model, nn.Module) else {}
    try:
        if any(modes.values()):
            model.eval()
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def _tensor(values: Any, name: str) -> Any:
    """Return labels or weights as a tensor; None stays None."""
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
    """Return a boolean mask as weights of 0 and 1."""
    return weight.double() if weight is not None and weight.dtype == torch.bool else weight


def _refuse_numbers(third: Tensor) -> None:
    """Refuse integers as the third entry of a batch: they may be weights, indices or labels."""
    if third.dtype != torch.bool and not third.is_floating_point():
        dtype = str(third.dtype).removeprefix("torch.")
        raise OptionError(
            argument="loader",
            rule=(
                "must give weights as floats, or a boolean mask, where its batches have a "
                "third entry"
            ),
            got=f"{dtype}, which may be indices just as well",
            remedy=(
                "Pass unpack=lambda batch: batch[:2] to leave it out, or unpack=tuple if "
                "these are the weights."
            ),
        )


def _only(batch: Mapping[str, Any], names: Sequence[str], option: str, what: str) -> str:
    present = [name for name in names if name in batch]
    if len(present) == 1:
        return present[0]
    got = "several of these" if present else "none of these"
    raise OptionError(
        argument=option,
        rule=(
            f"must name the {what} of a batch that is a mapping, unless it has one of "
            f"{', '.join(map(repr, names))}"
        ),
        got=f"{got} among {_names(batch)}",
        remedy=f"Pass {option}=… .",
    )


def _pop(batch: dict[str, Any], key: str, option: str) -> Any:
    if key not in batch:
        raise OptionError(
            argument=option,
            rule="must be a key of the batches",
            got=f"{key!r}, and keys {_names(batch)}",
            remedy="Pass one of these.",
        )
    return batch.pop(key)


def _names(mapping: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, mapping))


def _form(value: Any) -> str:
    """Describe an object in a few words, for errors."""
    if isinstance(value, Mapping):
        return f"a mapping with keys {_names(value)}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"
