"""ONNX files in and out, external data too; the calibrator in a model's metadata."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import onnx
from onnx import external_data_helper

import reprior as rp
from reprior.exceptions import FileFormatError, FoldError
from reprior.files.atomic import atomic_write

__all__ = ["KEY", "Source", "calibrator_of", "read_model", "stamp", "write_model"]

#: The key of the calibrator in ``metadata_props``.
KEY = "reprior.calibrator"

#: Tensors below this many bytes stay in the model file when the rest is external.
_EXTERNAL_FROM = 1024

#: What one ONNX file can hold is 2 GiB; somewhat less, for what surrounds the weights.
_ONE_FILE = 2_000_000_000


class Source(NamedTuple):
    """A model in memory, and whether its weights came from files of their own."""

    model: onnx.ModelProto
    external: bool


def read_model(model: Any, *, name: str = "model") -> Source:
    """Return a copy of a ModelProto, or read one from a path with all its weights."""
    if isinstance(model, onnx.ModelProto):
        if any(external_data_helper.uses_external_data(t) for t in _tensors(model)):
            raise FoldError(
                f"`{name}` must have its weights in memory. Got a model whose external data were "
                f"not loaded. Pass the path of the file, or load it with onnx.load(path)."
            )
        own = onnx.ModelProto()
        own.CopyFrom(model)
        return Source(own, external=False)
    if not isinstance(model, str | os.PathLike):
        raise FoldError(
            f"`{name}` must be an onnx.ModelProto or the path of an ONNX file. "
            f"Got {type(model).__name__}. Export the model first, for example with "
            f"torch.onnx.export or skl2onnx.to_onnx."
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
    external = any(external_data_helper.uses_external_data(t) for t in _tensors(model))
    if external:
        try:
            external_data_helper.load_external_data_for_model(model, str(path.parent))
        except (OSError, ValueError, onnx.checker.ValidationError) as error:
            raise FileFormatError(
                f"{os.fspath(path)!r} must have its external data beside it. They could not be "
                f"read ({error}). Put the data files of the export into the same folder."
            ) from error
    return Source(model, external)


def _not_onnx(path: Path) -> FileFormatError:
    return FileFormatError(
        f"{os.fspath(path)!r} must be an ONNX model. It is truncated, damaged or something else. "
        f"Check the path, or export the model again."
    )


def write_model(model: onnx.ModelProto, path: str | os.PathLike[str], *, external: bool) -> None:
    """Write a model, whole or not at all; ``external`` puts the weights into a file of their own.

    The weights are written first, under a name that no other file has; the model takes its
    name in one step.
    """
    target = Path(path)
    if not external and weight_bytes(model) < _ONE_FILE:
        with atomic_write(target) as file:
            file.write(model.SerializeToString())
        return
    stale = _own_data_files(target)
    own = onnx.ModelProto()
    own.CopyFrom(model)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as folder:
        name = f"{target.name}.data"
        _externalise(own, name, folder)
        if (Path(folder) / name).exists() and (target.parent / name).exists():
            name = _rename(own, Path(folder) / name, target.name)
        if (Path(folder) / name).exists():
            os.replace(Path(folder) / name, target.parent / name)
        with atomic_write(target) as file:
            file.write(own.SerializeToString())
    for old in stale - {name}:
        with suppress(FileNotFoundError):
            (target.parent / old).unlink()


def _externalise(model: onnx.ModelProto, name: str, folder: str) -> None:
    external_data_helper.convert_model_to_external_data(
        model, location=name, size_threshold=_EXTERNAL_FROM
    )
    external_data_helper.write_external_data_tensors(model, folder)


def _rename(model: onnx.ModelProto, data: Path, base: str) -> str:
    """Name the data file after its contents, so that the old model keeps its own."""
    with data.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
    name = f"{base}.{digest}.data"
    data.rename(data.with_name(name))
    for tensor in _tensors(model):
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = name
    return name


def _own_data_files(target: Path) -> set[str]:
    """Return the data files that the model to be replaced had for itself."""
    if not target.exists():
        return set()
    old = onnx.ModelProto()
    try:
        old.ParseFromString(target.read_bytes())
    except Exception:  # protobuf's own, which has no public name: not a model, so no data files
        return set()
    names = {e.value for t in _tensors(old) for e in t.external_data if e.key == "location"}
    return {n for n in names if n.startswith(f"{target.name}.") and n.endswith(".data")}


def weight_bytes(model: onnx.ModelProto) -> int:
    """Return the size of the weights in memory, nearly that of the file."""
    return sum(len(tensor.raw_data) or tensor.ByteSize() for tensor in model.graph.initializer)


def _tensors(model: onnx.ModelProto) -> list[Any]:
    return list(external_data_helper._get_all_tensors(model))


def stamp(model: onnx.ModelProto, calibrator: rp.PosteriorCalibrator) -> None:
    """Put the calibrator into the model's metadata."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibrator.json"
        calibrator.save(path)
        text = json.dumps(json.loads(path.read_text("utf-8")), ensure_ascii=False)
    entry = model.metadata_props.add()
    entry.key, entry.value = KEY, text


def is_stamped(model: onnx.ModelProto) -> bool:
    """Whether a calibrator is in the model already."""
    return any(entry.key == KEY for entry in model.metadata_props)


def calibrator_of(model: Any) -> rp.PosteriorCalibrator | None:
    """Return the calibrator that was folded into a model, or None.

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
    for entry in model.metadata_props:
        if entry.key == KEY:
            return _parsed(entry.value)
    return None


def _parsed(text: str) -> rp.PosteriorCalibrator:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "calibrator.json"
        path.write_text(text, "utf-8")
        try:
            return rp.load(path)
        except FileFormatError as error:
            reason = str(error).replace(repr(os.fspath(path)), f"metadata_props[{KEY!r}]")
            raise FileFormatError(
                f"{reason} The entry was changed after folding: fold the original again."
            ) from error
