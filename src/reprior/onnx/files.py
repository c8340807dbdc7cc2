"""Read and write ONNX files, with external data; the calibrator in a model's metadata.

External data are weights in a separate file. A model may come from anywhere, and its locations may
name any file. A location is followed only where it is a bare file name, to a regular file in the
model's own folder.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import external_data_helper

import reprior as rp
from reprior.calibrator.load import load_calibrator
from reprior.exceptions import FileFormatError, FoldError, RepriorError, Words
from reprior.files.atomic import atomic_paths, atomic_write, output_target
from reprior.files.limits import read_limited
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


#: What protobuf reads at most.
_MOST_BYTES = (1 << 31) - 1

#: An ONNX file holds at most 2 GiB; slightly less here, to leave room for the graph.
_ONE_FILE = 2_000_000_000

#: Tensors below this many bytes stay in the model file when the rest is external.
_EXTERNAL_FROM = 1024

#: Tensors may share bytes of a data file, but together they are at most this many times its size:
#: a small file must not fill the memory.
_MOST_SHARING = 4

_STRING = onnx.TensorProto.DESCRIPTOR.fields_by_name["name"].type


class Source(NamedTuple):
    """A model in memory, whether it had external data, and the files of these."""

    model: onnx.ModelProto
    external: bool
    data: frozenset[Path] = frozenset()


def read_model(model: Any, *, name: str = "model") -> Source:
    """Return a copy of a ModelProto, or read one from a path with all its weights."""
    if isinstance(model, onnx.ModelProto):
        try:
            external = _data_files(model)
        except UnicodeError as error:
            raise FoldError(
                argument=name,
                rule="must have names in UTF-8",
                got=str(error),
                remedy="Export the model again.",
            ) from error
        if external:
            raise FoldError(
                argument=name,
                rule="must have its weights in memory",
                got="a model whose external data were not loaded",
                remedy="Pass the path of the file, or load it with onnx.load(path).",
            )
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        return Source(copy, external=False)
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
    """Return the model in a file, without external data; refuse what is no model."""
    if path.exists() and not path.is_file():
        raise FileFormatError(
            f"{os.fspath(path)!r} must be an ONNX model. It is no regular file. Check the path."
        )
    model = onnx.ModelProto()
    try:
        model.ParseFromString(read_limited(path, _MOST_BYTES, "an ONNX model"))
    except (OSError, RepriorError):
        raise
    except Exception as error:  # protobuf's own, which has no public name
        raise _not_onnx(path) from error
    if not model.graph.node and not model.graph.output:
        raise _not_onnx(path)
    try:
        for _ in _messages(model):
            pass
    except UnicodeError as error:
        raise FileFormatError(
            f"{os.fspath(path)!r} must have names in UTF-8. Got {error}. The file is damaged: "
            f"export the model again."
        ) from error
    return model


def _read_file(path: Path) -> Source:
    model = _parsed_file(path)
    data = _load_external(model, path)
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
    """Write a model atomically; ``external`` puts the weights into a separate file.

    Both files are written under temporary names and renamed at the end, one right after the
    other; if the second fails, the first is restored. A data file that does not belong to the old
    model, or that ``keep`` names, is not replaced: the new data get another name.
    """
    target = output_target(path, argument="output")  # the data lie beside the file behind a link
    stale = _own_data_files(target) - {p.name for p in keep if _beside(p, target)}
    written = model
    if external or weight_bytes(model) >= _ONE_FILE:
        written = onnx.ModelProto()
        written.CopyFrom(model)
        name = _data_name(target, stale)
        _mark_external(written, name)
    if _data_files(written):
        _write_both(written, target, target.parent / name)
        stale -= {name}
    else:
        with atomic_write(target) as file:
            file.write(written.SerializeToString())
    for old in stale:
        with suppress(FileNotFoundError):
            (target.parent / old).unlink()


def _write_both(model: onnx.ModelProto, target: Path, data: Path) -> None:
    with atomic_paths(data, target) as (new_data, new_target):
        external_data_helper.write_external_data_tensors(model, str(new_data.parent))
        new_target.write_bytes(model.SerializeToString())
    # The data have the same permissions as the model.
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


def _own_data_files(target: Path) -> set[str]:
    """Return the data files of an old model that may be replaced or removed with it.

    The old model may come from anywhere, and its locations may name any file. Only regular files
    beside it count, and only under the names that :func:`write_model` gives.
    """
    if not target.exists():
        return set()
    old = onnx.ModelProto()
    if target.stat().st_size > _MOST_BYTES:
        return set()
    try:
        old.ParseFromString(target.read_bytes())
        locations = _data_files(old)
    except Exception:  # protobuf's own, which has no public name: not a model, so no data files
        return set()
    own_name = re.compile(rf"{re.escape(target.name)}(\.[0-9]+)?\.data")
    names = {name for name in locations if _is_bare_name(name) and own_name.fullmatch(name)}
    beside = {name: target.parent / name for name in names}
    return {name for name, path in beside.items() if path.is_file() and not path.is_symlink()}


def weight_bytes(model: onnx.ModelProto) -> int:
    """Return the size of the weights in memory, which is almost the size of the file."""
    return sum(len(tensor.raw_data) or tensor.ByteSize() for tensor in model.graph.initializer)


def as_text(calibrator: rp.PosteriorCalibrator) -> str:
    """Return the calibrator's JSON on one line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibrator.json"
        calibrator.save(path)
        return json.dumps(json.loads(path.read_text("utf-8")), ensure_ascii=False)


def stamp(model: onnx.ModelProto, calibrator: rp.PosteriorCalibrator) -> None:
    """Store the calibrator in the model's metadata."""
    entry = model.metadata_props.add()
    entry.key, entry.value = KEY, as_text(calibrator)


def calibrator_of(model: Any) -> rp.PosteriorCalibrator | None:
    """Return the calibrator that was folded into a model, or None.

    It is read from the model's metadata or, for an exported RebalancedClassifierCV, from the node
    that corrects. A network that was corrected in PyTorch before its export has no record of it.

    Parameters
    ----------
    model : ModelProto or path
        A model, folded or not.

    Returns
    -------
    PosteriorCalibrator or None
        As :func:`reprior.load` returns it.

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
                f"metadata_props[{KEY!r}] must be a calibrator as its save() writes it. It cannot "
                f"be read. The entry was changed after folding, or a newer version wrote it: fold "
                f"the original again."
            ) from error


#: The key of the calibrator in ``metadata_props``, and the prefix of a node's ``doc_string``.
KEY = "reprior.calibrator"

#: The prefix of the names of nodes that the converter of RebalancedClassifierCV adds.
CONVERTED = "reprior_"

#: The prefix of the names of nodes that folding adds; they survive tools that drop metadata.
_FOLDED = "reprior/"

#: The layer's class, which torch.onnx.export(dynamo=True) records on the nodes of the layer.
_LAYER = "reprior.torch.rebalance.Rebalance"


def check_uncorrected(model: onnx.ModelProto, scores: str | None) -> None:
    """Refuse a model whose outputs, or whose named scores, are known to be corrected."""
    if any(entry.key == KEY for entry in model.metadata_props):
        raise _refusal(_FOLDED)
    near = _near(model, [o.name for o in model.graph.output] if scores is None else [scores])
    for node in [*near, *(_behind(model, scores) if scores is not None else ())]:
        mark = _mark(node)
        if mark is not None:
            raise _refusal(mark)


def noted_calibrator(model: onnx.ModelProto) -> str | None:
    """Return the calibrator's JSON from the metadata, or from the nodes behind the outputs."""
    noted = [str(entry.value) for entry in model.metadata_props if entry.key == KEY]
    if len(noted) > 1:
        raise FileFormatError(
            f"metadata_props must have {KEY!r} once. Got it {len(noted)} times. The model was "
            f"changed after folding: fold the original again."
        )
    if noted:
        return noted[0]
    for node in _near(model, [o.name for o in model.graph.output]):
        if node.doc_string.startswith(f"{KEY} "):
            return str(node.doc_string[len(KEY) + 1 :])
    return None


def _mark(node: onnx.NodeProto) -> str | None:
    for mark in (CONVERTED, _FOLDED):
        if node.name.startswith(mark):
            return mark
    # In older releases of onnx nodes have no metadata.
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
            Words("; calibrator_of(model) returns the calibrator" if mark == _FOLDED else "", ""),
            ".",
        ],
    )


def _near(model: onnx.ModelProto, tensors: list[str]) -> Iterator[onnx.NodeProto]:
    """Yield the nodes that compute tensors, up to the first layers with weights."""
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
    """Yield the nodes that compute from a tensor, in order, up to layers with weights."""
    reached = {tensor}
    for node in model.graph.node:
        if reached & set(reads(node)) and not has_weights(node):
            reached.update(node.output)
            yield node


# ----------------------------------------------------------------------------- external data


def _messages(root: Any) -> Iterator[Any]:
    """Yield a protobuf message and all messages inside it; refuse text that is not UTF-8.

    Protobuf returns such text as bytes, which later code does not expect.
    """
    waiting = [root]
    while waiting:
        message = waiting.pop()
        yield message
        for field, value in message.ListFields():
            if field.message_type is not None:
                waiting.extend([value] if hasattr(value, "ListFields") else value)
            elif field.type == _STRING:
                for text in [value] if isinstance(value, str | bytes) else value:
                    if not isinstance(text, str):
                        raise UnicodeError(f"{text[:40]!r} as {field.name}")


def _tensors(model: onnx.ModelProto) -> list[Any]:
    """Return every tensor of a model: sparse ones, and those of inner graphs and functions too."""
    return [part for part in _messages(model) if isinstance(part, onnx.TensorProto)]


def _data_files(model: onnx.ModelProto) -> set[str]:
    """Return the locations of a model's weights, as the model has them."""
    external = [t for t in _tensors(model) if external_data_helper.uses_external_data(t)]
    return {_entry(tensor, "location") for tensor in external}


def _is_bare_name(location: str) -> bool:
    """Whether a location is only a file name on every system: no folder, drive or stream."""
    return location not in ("", ".", "..") and not set(location) & set("/\\:\0")


def _load_external(model: onnx.ModelProto, path: Path) -> frozenset[Path]:
    """Read a model's external data into it, and return the files that they were in.

    Examples
    --------
    >>> from pathlib import Path
    >>> import onnx
    >>> _load_external(onnx.ModelProto(), Path("model.onnx"))
    frozenset()
    """
    external = [t for t in _tensors(model) if external_data_helper.uses_external_data(t)]
    sizes: dict[str, int] = {}
    n_read = 0
    for tensor in external:
        location = _entry(tensor, "location")
        if not _is_bare_name(location):
            raise FileFormatError(
                f"External data must be in a file beside the model. Got the location {location!r} "
                f"in {os.fspath(path)!r}. Save the model with its data in one file beside it, by "
                f"onnx.save(…, save_as_external_data=True, location='weights.data')."
            )
        try:
            with os.fdopen(_opened(path.parent / location), "rb") as file:
                sizes[location] = os.fstat(file.fileno()).st_size
                start = int(_entry(tensor, "offset") or 0)
                rest = sizes[location] - start
                length = int(_entry(tensor, "length") or rest)
                if not 0 <= length <= rest <= sizes[location]:
                    raise ValueError(
                        f"bytes {start} to {start + length} of {location!r}, which has "
                        f"{sizes[location]}"
                    )
                n_read += length
                if n_read > _MOST_SHARING * sum(sizes.values()):
                    raise ValueError(f"the same bytes for more than {_MOST_SHARING} tensors")
                file.seek(start)
                tensor.raw_data = file.read(length)
        except (OSError, ValueError) as error:
            raise FileFormatError(
                f"{os.fspath(path)!r} must have its external data beside it. They could not be "
                f"read ({error}). Put the data files of the export into the same folder."
            ) from error
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
    return frozenset(path.parent / location for location in sizes)


def _mark_external(model: onnx.ModelProto, location: str) -> None:
    """Mark a model's larger initialisers as external data, to be written to a data file.

    onnx.external_data_helper.convert_model_to_external_data refuses names of files in the current
    folder, whatever folder the model is written to.
    """
    for tensor in external_data_helper._get_initializer_tensors(model):
        if len(tensor.raw_data) >= _EXTERNAL_FROM:
            external_data_helper.set_external_data(tensor, location)


def _entry(tensor: Any, key: str) -> str:
    return next((str(entry.value) for entry in tensor.external_data if entry.key == key), "")


def _opened(path: Path) -> int:
    """Open a regular file that is not behind a symlink; return its descriptor."""
    if path.is_symlink():
        raise ValueError(f"{path.name!r} is a symlink")
    flags = [getattr(os, name, 0) for name in ("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK")]
    descriptor = os.open(path, os.O_RDONLY | flags[0] | flags[1] | flags[2])
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path.name!r} is no regular file")
    return descriptor
