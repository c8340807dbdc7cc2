"""ONNX files in and out, external data too; the calibrator in a model's metadata."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import external_data_helper

import reprior as rp
from reprior.calibrator.load import load_calibrator
from reprior.exceptions import FileFormatError, FoldError, Words
from reprior.files.atomic import atomic_paths, atomic_write, output_target
from reprior.onnx.graph import has_weights, reads

__all__ = [
    "CONVERTED",
    "KEY",
    "Source",
    "as_text",
    "calibrator_of",
    "check_uncorrected",
    "noted_calibrator",
    "read_model",
    "stamp",
    "write_model",
]


#: Tensors below this many bytes stay in the model file when the rest is external.
_EXTERNAL_FROM = 1024

#: What one ONNX file can hold is 2 GiB; somewhat less, for what surrounds the weights.
_ONE_FILE = 2_000_000_000


class Source(NamedTuple):
    """A model in memory, whether its weights came from files of their own, and from which."""

    model: onnx.ModelProto
    external: bool
    data: frozenset[Path] = frozenset()


def read_model(model: Any, *, name: str = "model") -> Source:
    """Return a copy of a ModelProto, or read one from a path with all its weights."""
    if isinstance(model, onnx.ModelProto):
        if any(external_data_helper.uses_external_data(t) for t in _tensors(model)):
            raise FoldError(
                argument=name,
                rule="must have its weights in memory",
                got="a model whose external data were not loaded",
                remedy="Pass the path of the file, or load it with onnx.load(path).",
            )
        own = onnx.ModelProto()
        own.CopyFrom(model)
        return Source(own, external=False)
    if not isinstance(model, str | os.PathLike):
        raise FoldError(
            argument=name,
            rule="must be an onnx.ModelProto or the path of an ONNX file",
            got=type(model).__name__,
            remedy=(
                "Export the model first, for example with torch.onnx.export or skl2onnx.to_onnx."
            ),
        )
    return _read_file(Path(model))


def _parsed_file(path: Path) -> onnx.ModelProto:
    model = onnx.ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except OSError:
        raise
    except Exception as error:  # protobuf's own, which has no public name
        raise _not_onnx(path) from error
    if not model.graph.node and not model.graph.output:
        raise _not_onnx(path)
    return model


def _read_file(path: Path) -> Source:
    model = _parsed_file(path)
    data = frozenset(path.parent / name for name in data_files(model))
    if data:
        try:
            external_data_helper.load_external_data_for_model(model, str(path.parent))
        except (OSError, ValueError, onnx.checker.ValidationError) as error:
            raise FileFormatError(
                f"{os.fspath(path)!r} must have its external data beside it. They could not be "
                f"read ({error}). Put the data files of the export into the same folder."
            ) from error
    return Source(model, bool(data), data)


def _not_onnx(path: Path) -> FileFormatError:
    return FileFormatError(
        f"{os.fspath(path)!r} must be an ONNX model. It is truncated, damaged or something else. "
        f"Check the path, or export the model again."
    )


def write_model(
    model: onnx.ModelProto,
    path: str | os.PathLike[str],
    *,
    external: bool,
    keep: frozenset[Path] = frozenset(),
) -> None:
    """Write a model, whole or not at all; ``external`` puts the weights into a file of their own.

    Both files are written under other names and take theirs at the end, one right after the
    other; where the second cannot, the first is put back. A data file that is not the old
    model's own, or that ``keep`` names, is not replaced: another name is taken.
    """
    target = output_target(path, argument="output")  # the data lie beside the file behind a link
    stale = _own_data_files(target) - {p.name for p in keep if _beside(p, target)}
    own = model
    if external or weight_bytes(model) >= _ONE_FILE:
        own = onnx.ModelProto()
        own.CopyFrom(model)
        name = _data_name(target, stale)
        external_data_helper.convert_model_to_external_data(
            own, location=name, size_threshold=_EXTERNAL_FROM
        )
    if data_files(own):
        _write_both(own, target, target.parent / name)
        stale -= {name}
    else:
        with atomic_write(target) as file:
            file.write(own.SerializeToString())
    for old in stale:
        with suppress(FileNotFoundError):
            (target.parent / old).unlink()


def _write_both(model: onnx.ModelProto, target: Path, data: Path) -> None:
    with atomic_paths(data, target) as (new_data, new_target):
        external_data_helper.write_external_data_tensors(model, str(new_data.parent))
        new_target.write_bytes(model.SerializeToString())
    # The data may be read by whoever may read the model.
    data.chmod(target.stat().st_mode & 0o7777)


def _data_name(target: Path, stale: set[str]) -> str:
    """Return the name of the data file: the usual one, unless that is another model's file."""
    name = f"{target.name}.data"
    number = 1
    while name not in stale and os.path.lexists(target.parent / name):
        number += 1
        name = f"{target.name}.{number}.data"
    return name


def _beside(path: Path, target: Path) -> bool:
    return path.parent.resolve() == target.parent.resolve()


def data_files(model: onnx.ModelProto) -> set[str]:
    """Return the files that a model's weights are in, relative to the model's folder."""
    tensors = [t for t in _tensors(model) if external_data_helper.uses_external_data(t)]
    return {e.value for t in tensors for e in t.external_data if e.key == "location"}


def _own_data_files(target: Path) -> set[str]:
    """Return the data files of the model to be replaced that may be replaced or removed with it.

    The old model may come from anywhere, and its locations may name any file. So only regular
    files beside it count, under the names that :func:`write_model` gives.
    """
    if not target.exists():
        return set()
    old = onnx.ModelProto()
    try:
        old.ParseFromString(target.read_bytes())
    except Exception:  # protobuf's own, which has no public name: not a model, so no data files
        return set()
    own_name = re.compile(rf"{re.escape(target.name)}(\.[0-9]+)?\.data")
    names = {name for name in data_files(old) if own_name.fullmatch(name)}
    beside = {name: target.parent / name for name in names}
    return {name for name, path in beside.items() if path.is_file() and not path.is_symlink()}


def weight_bytes(model: onnx.ModelProto) -> int:
    """Return the size of the weights in memory, nearly that of the file."""
    return sum(len(tensor.raw_data) or tensor.ByteSize() for tensor in model.graph.initializer)


def _tensors(model: onnx.ModelProto) -> list[Any]:
    return list(external_data_helper._get_all_tensors(model))


def as_text(calibrator: rp.PosteriorCalibrator) -> str:
    """Return the calibrator's JSON on one line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibrator.json"
        calibrator.save(path)
        return json.dumps(json.loads(path.read_text("utf-8")), ensure_ascii=False)


def stamp(model: onnx.ModelProto, calibrator: rp.PosteriorCalibrator) -> None:
    """Put the calibrator into the model's metadata."""
    entry = model.metadata_props.add()
    entry.key, entry.value = KEY, as_text(calibrator)


def calibrator_of(model: Any) -> rp.PosteriorCalibrator | None:
    """Return the calibrator that was folded into a model, or None.

    It is read from the model's metadata; of an exported RebalancedClassifierCV from the node that
    corrects. A network that was corrected in PyTorch before its export keeps no record.

    Parameters
    ----------
    model : ModelProto or path
        A model, folded or not.

    Returns
    -------
    PosteriorCalibrator or None
        As :func:`reprior.load` gives it.

    Examples
    --------
    >>> import onnx
    >>> calibrator_of(onnx.ModelProto()) is None
    True
    """
    if isinstance(model, str | os.PathLike):
        model = _parsed_file(Path(model))  # without its weights
    text = noted_calibrator(model)
    return None if text is None else _parsed(text)


def _parsed(text: str) -> rp.PosteriorCalibrator:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibrator.json"
        path.write_text(text, "utf-8")
        try:
            return load_calibrator(path)
        except FileFormatError as error:
            raise FileFormatError(
                f"metadata_props[{KEY!r}] must be what a calibrator's save() writes. It cannot be "
                f"read. The entry was changed after folding, or is of a newer version: fold the "
                f"original again."
            ) from error


#: The key of the calibrator in ``metadata_props``, and how a node's ``doc_string`` with it begins.
KEY = "reprior.calibrator"

#: How the names of nodes begin that the converter of RebalancedClassifierCV adds.
CONVERTED = "reprior_"

#: And of those that folding adds, which stay where a tool drops a model's metadata.
_FOLDED = "reprior/"

#: The layer's class, which torch.onnx.export(dynamo=True) notes on the nodes it makes of it.
_LAYER = "reprior.torch.rebalance.Rebalance"


def check_uncorrected(model: onnx.ModelProto, scores: str | None) -> None:
    """Refuse a model whose outputs, or named scores, are known to be corrected."""
    if any(entry.key == KEY for entry in model.metadata_props):
        raise _refusal(_FOLDED)
    near = _near(model, [o.name for o in model.graph.output] if scores is None else [scores])
    for node in [*near, *(_behind(model, scores) if scores is not None else ())]:
        mark = _mark(node)
        if mark is not None:
            raise _refusal(mark)


def noted_calibrator(model: onnx.ModelProto) -> str | None:
    """Return the calibrator's JSON from the metadata, or from the nodes that make the outputs."""
    for entry in model.metadata_props:
        if entry.key == KEY:
            return str(entry.value)
    for node in _near(model, [o.name for o in model.graph.output]):
        if node.doc_string.startswith(f"{KEY} "):
            return str(node.doc_string[len(KEY) + 1 :])
    return None


def _mark(node: onnx.NodeProto) -> str | None:
    for mark in (CONVERTED, _FOLDED):
        if node.name.startswith(mark):
            return mark
    # Older releases of onnx know no metadata of nodes.
    noted = any(_LAYER in entry.value for entry in getattr(node, "metadata_props", ()))
    return _LAYER if noted else None


def _refusal(mark: str) -> FoldError:
    got, remedy = {
        CONVERTED: (
            "an export of a RebalancedClassifierCV, which is corrected",
            "Use it as it is, or export its estimator_ and fold into that",
        ),
        _LAYER: (
            "an export of a network with a reprior.torch.Rebalance layer",
            "Use it as it is, or export the network without that layer",
        ),
        _FOLDED: (
            "one that a calibrator was folded into",
            "Fold the original export instead",
        ),
    }[mark]
    return FoldError(
        argument="model",
        rule="must not hold a calibrator yet",
        got=got,
        remedy=[
            remedy,
            Words("; calibrator_of(model) tells what is inside" if mark == _FOLDED else "", ""),
            ".",
        ],
    )


def _near(model: onnx.ModelProto, tensors: list[str]) -> Iterator[onnx.NodeProto]:
    """Give the nodes that make tensors, up to the first layers with weights."""
    maker = {name: i for i, node in enumerate(model.graph.node) for name in node.output}
    seen: set[int] = set()
    todo = list(tensors)
    while todo:
        i = maker.get(todo.pop(0))
        if i is None or i in seen:
            continue
        seen.add(i)
        node = model.graph.node[i]
        yield node
        if not has_weights(node):
            todo.extend(reads(node))


def _behind(model: onnx.ModelProto, tensor: str) -> Iterator[onnx.NodeProto]:
    """Give the nodes that compute from a tensor, up to layers with weights; nodes are in order."""
    reached = {tensor}
    for node in model.graph.node:
        if reached & set(reads(node)) and not has_weights(node):
            reached.update(node.output)
            yield node
