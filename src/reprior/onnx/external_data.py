"""External data of ONNX models: weights in a separate file, never outside the model's folder.

A model may come from anywhere, and its locations may name any file. A location is followed only
where it is a bare file name, to a regular file in the model's own folder.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnx import external_data_helper

from reprior.exceptions import FileFormatError

__all__ = ["data_files", "is_bare_name", "load_external", "mark_external", "messages", "tensors"]

#: Tensors below this many bytes stay in the model file when the rest is external.
_EXTERNAL_FROM = 1024

#: Tensors may share bytes of a data file, but together they are at most this many times its size:
#: a small file must not fill the memory.
_MOST_SHARING = 4

_STRING = onnx.TensorProto.DESCRIPTOR.fields_by_name["name"].type


def messages(root: Any) -> Iterator[Any]:
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


def tensors(model: onnx.ModelProto) -> list[Any]:
    """Return every tensor of a model: sparse ones, and those of inner graphs and functions too."""
    return [part for part in messages(model) if isinstance(part, onnx.TensorProto)]


def data_files(model: onnx.ModelProto) -> set[str]:
    """Return the locations of a model's weights, as the model has them."""
    external = [t for t in tensors(model) if external_data_helper.uses_external_data(t)]
    return {_entry(tensor, "location") for tensor in external}


def is_bare_name(location: str) -> bool:
    """Whether a location is only a file name on every system: no folder, drive or stream."""
    return location not in ("", ".", "..") and not set(location) & set("/\\:\0")


def load_external(model: onnx.ModelProto, path: Path) -> frozenset[Path]:
    """Read a model's external data into it, and return the files that they were in.

    Examples
    --------
    >>> from pathlib import Path
    >>> import onnx
    >>> load_external(onnx.ModelProto(), Path("model.onnx"))
    frozenset()
    """
    external = [t for t in tensors(model) if external_data_helper.uses_external_data(t)]
    sizes: dict[str, int] = {}
    n_read = 0
    for tensor in external:
        location = _entry(tensor, "location")
        if not is_bare_name(location):
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


def mark_external(model: onnx.ModelProto, location: str) -> None:
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
