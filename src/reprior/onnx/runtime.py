"""Models in ONNX Runtime, and inputs to run them on."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx

from reprior.exceptions import FoldError, require
from reprior.onnx.files import weight_bytes, write_model

__all__ = ["Feeds", "Runner", "given_feeds", "with_outputs"]

Vector: TypeAlias = np.ndarray[Any, Any]
Feeds: TypeAlias = list[dict[str, Vector]]

#: Batch sizes where the batch is free; the last is as large as ``_ENTRIES`` allows.
_BATCHES = (1, 3)
_MOST_SAMPLES = 512
#: Entries of generated input in one run, unless that were fewer samples than these: an image of
#: 224 x 224 in colour is 150,528.
_ENTRIES, _FEWEST_SAMPLES = 1 << 18, 16
#: From this size on a sample is a volume, and four must do.
_HUGE, _FEW = 1 << 20, 4
#: Runs where the batch is fixed.
_RUNS = 8
#: Sizes to try for free axes other than the first; two that work are used.
_SIZES = (32, 48, 16, 64, 224, 8, 4, 2, 1)
#: Row i of generated numbers is multiplied by entry i, over and over: near 0 classes are close.
_SPREADS = (0.3, 1.0, 3.0)
#: One less than the largest generated integer, tried in this order.
_INTEGERS = (10, 2, 1)
_LARGE = 1_500_000_000
#: Models with one of these are run as they are written.
_QUANTISED = ("QuantizeLinear", "DynamicQuantizeLinear")


class Runner:
    """A session of ONNX Runtime on the CPU that gives every output by name."""

    def __init__(self, model: onnx.ModelProto, *, name: str) -> None:
        runtime = require("onnxruntime", extra="onnx", purpose="To run an ONNX model")
        options = runtime.SessionOptions()
        options.log_severity_level = 4  # errors come back as exceptions
        if any(node.op_type in _QUANTISED for node in model.graph.node):
            # Fused integer kernels saturate and round elsewhere, a whole step at once.
            options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._folder: Any = None
        where: Any
        if weight_bytes(model) < _LARGE:
            where = model.SerializeToString()
        else:  # too much for one message: by way of a file
            self._folder = tempfile.TemporaryDirectory()
            where = str(Path(self._folder.name) / "model.onnx")
            write_model(model, where, external=True)
        try:
            self._session = runtime.InferenceSession(
                where, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime's own, which have no common base
            raise FoldError(
                f"`{name}` must run in ONNX Runtime. It does not: {_first_line(error)} "
                f"Check the model with onnx.checker, or pass verify=False."
            ) from error
        self.inputs = [i.name for i in self._session.get_inputs()]
        self.outputs = [o.name for o in self._session.get_outputs()]

    def run(self, feed: Mapping[str, Vector]) -> dict[str, Any]:
        """Return every output of one run."""
        values = self._session.run(None, {k: v for k, v in feed.items() if k in self.inputs})
        return dict(zip(self.outputs, values, strict=True))

    def refusal(self, feeds: Feeds) -> str | None:
        """Return what the model says against the first input it does not take, or None."""
        for feed in feeds:
            try:
                self.run(feed)
            except Exception as error:  # ONNX Runtime's own, which have no common base
                return _first_line(error)
        return None


def with_outputs(model: onnx.ModelProto, tensors: Sequence[str]) -> onnx.ModelProto:
    """Return a model that shows inner tensors too."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    have = {output.name for output in model.graph.output}
    shown.graph.output.extend(onnx.ValueInfoProto(name=t) for t in tensors if t not in have)
    return shown


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    line = text[0].rstrip(".") if text else type(error).__name__
    return f"{line[:300]}."


# --------------------------------------------------------------------------------- generated


def generated_feeds(model: onnx.ModelProto, runner: Runner, *, seed: int = 0) -> Feeds:
    """Return random inputs of several batch sizes, and of two sizes where these are free.

    They are tried: what the model refuses is left out.
    """
    known = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in known]
    rng = np.random.default_rng(seed)
    failure = ""
    for top in _INTEGERS:
        feeds: Feeds = []
        sizes_left = 2
        for size in _SIZES:
            found, failure = _tried(_of_size(inputs, size, top, rng), runner, failure)
            feeds += found
            sizes_left -= bool(found)
            if sizes_left == 0 or (found and not _has_free_size(inputs)):
                break
        if feeds:
            return feeds
    raise FoldError(
        f"`inputs` must be given for this model: generated ones it does not take. "
        f"{failure or 'It has no inputs of known shape.'} Pass real samples "
        f"as `inputs`, an array per input."
    )


def _tried(feeds: Iterator[dict[str, Vector]], runner: Runner, failure: str) -> tuple[Feeds, str]:
    good: Feeds = []
    for feed in feeds:
        try:
            runner.run(feed)
        except Exception as error:  # ONNX Runtime's own, which have no common base
            failure = _first_line(error)
            if not good:
                return [], failure
        else:
            good.append(feed)
    return good, failure


def _has_free_size(inputs: Sequence[onnx.ValueInfoProto]) -> bool:
    return any(length is None for value in inputs for length in (_dims(value) or ())[1:])


def _of_size(
    inputs: Sequence[onnx.ValueInfoProto], size: int, top: int, rng: np.random.Generator
) -> Iterator[dict[str, Vector]]:
    shapes = [_dims(value) for value in inputs]
    if not inputs or any(dims is None for dims in shapes):
        return
    named = {d.dim_param for v in inputs for d in v.type.tensor_type.shape.dim[:1]}
    free = any(dims and dims[0] is None for dims in shapes)
    per_sample = max(
        (int(np.prod([length or size for length in (dims or ())[1:]])) for dims in shapes),
        default=1,
    )
    fewest = _FEW if per_sample >= _HUGE else _FEWEST_SAMPLES
    most = int(np.clip(_ENTRIES // max(per_sample, 1), fewest, _MOST_SAMPLES))
    for batch in (*_BATCHES, most) if free else (1,) * _RUNS:
        feed = {}
        for value, dims in zip(inputs, shapes, strict=True):
            parameters = [d.dim_param for d in value.type.tensor_type.shape.dim]
            shape = [
                length or (batch if k == 0 or (p and p in named) else size)
                for k, (length, p) in enumerate(zip(dims or (), parameters, strict=True))
            ]
            feed[value.name] = _random(value.type.tensor_type.elem_type, shape, top, rng)
        yield feed


def _dims(value: onnx.ValueInfoProto) -> tuple[int | None, ...] | None:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        return None
    return tuple(d.dim_value if d.dim_value > 0 else None for d in kind.shape.dim)


def _random(element: int, shape: Sequence[int], top: int, rng: np.random.Generator) -> Vector:
    if element == onnx.TensorProto.STRING:
        return rng.choice(np.array(["a", "b", "c"], object), tuple(shape))
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0, top, shape).astype(dtype)
    values = rng.standard_normal(shape)
    if values.ndim:
        n = values.shape[0]
        spread = np.resize(_SPREADS, n) if n > 1 else rng.choice(_SPREADS, 1)
        values *= spread.reshape(-1, *[1] * (values.ndim - 1))
    return values.astype(dtype)


# ------------------------------------------------------------------------------------- given


def given_feeds(model: onnx.ModelProto, inputs: Any) -> Feeds:
    """Return the inputs a user gave, as runs: types as the model has them, fixed batches split."""
    known = {tensor.name for tensor in model.graph.initializer}
    values = [value for value in model.graph.input if value.name not in known]
    names = [value.name for value in values]
    if isinstance(inputs, list | tuple) and not inputs:
        raise FoldError("`inputs` must hold at least one sample. Got none. Pass real samples.")
    if isinstance(inputs, list | tuple) and isinstance(inputs[0], Mapping):
        return [feed for part in inputs for feed in given_feeds(model, part)]
    if not isinstance(inputs, Mapping):
        if len(names) != 1:
            raise FoldError(
                f"`inputs` must have an array per input, by name. Got one array for a "
                f"model of {len(names)} inputs. The inputs are {', '.join(map(repr, names))}."
            )
        inputs = {names[0]: inputs}
    missing, unknown = set(names) - set(inputs), set(inputs) - set(names)
    if missing or unknown:
        raise FoldError(
            f"`inputs` must have the model's inputs, {', '.join(map(repr, names))}. "
            f"Got {', '.join(map(repr, inputs))}. Name each array after an input."
        )
    arrays = {value.name: _as_type(inputs[value.name], value) for value in values}
    return list(_split(arrays, [_dims(value) for value in values]))


def _as_type(array: Any, value: onnx.ValueInfoProto) -> Vector:
    element = value.type.tensor_type.elem_type
    host = np.asarray(array)
    if element == onnx.TensorProto.STRING:
        return host.astype(object)
    try:
        return host.astype(onnx.helper.tensor_dtype_to_np_dtype(element), copy=False)
    except (TypeError, ValueError) as error:
        raise FoldError(
            f"`inputs` must be what the model takes, numbers for {value.name!r}. Got {host.dtype}. "
            f"Pass the arrays that the model is called with."
        ) from error


def _split(
    arrays: dict[str, Vector], shapes: Sequence[tuple[int | None, ...] | None]
) -> Iterator[dict[str, Vector]]:
    """Cut along the first axis where all inputs have the same fixed batch."""
    fixed = {dims[0] if dims else None for dims in shapes}
    lengths = {len(array) if array.ndim else 0 for array in arrays.values()}
    batch = fixed.pop() if len(fixed) == 1 else None
    length = lengths.pop() if len(lengths) == 1 else 0
    if batch is None or length <= batch or length % batch:
        yield arrays
        return
    for start in range(0, length, batch):
        yield {name: array[start : start + batch] for name, array in arrays.items()}
