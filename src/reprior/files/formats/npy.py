"""Npy files: read slice by slice, and written row by row; the header is completed at the end."""

from __future__ import annotations

import io
import os
import tokenize
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np

from reprior.exceptions import FileFormatError
from reprior.files.formats.array_files import ArrayReader, refuse_objects
from reprior.files.formats.interface import Layout, ReadOptions, Vector, damaged, few

if TYPE_CHECKING:
    from reprior.files.chunks import Chunk

__all__ = [
    "NpyFile",
    "NpyWriter",
    "StoredNpy",
    "array_bytes",
    "npy_header",
    "open_npy",
    "read_header",
]

#: What reading a damaged header was seen to raise. Python parses it: its tokenizer and its parser
#: raise SyntaxError, MemoryError and RecursionError.
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
    tokenize.TokenError,
)

#: Bytes of a header, as NumPy limits it too, but after it has read them.
_MAX_HEADER = 10_000


def read_header(
    file: IO[bytes], path: str | os.PathLike[str]
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, order and dtype; the data follow where ``file`` then stands."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise FileFormatError(
                f"{os.fspath(path)!r} must be an npy file of version 1.0 or 2.0.",
                got=f"version {version[0]}.{version[1]}",
                remedy="Save a plain array of numbers or strings with numpy.save.",
            )
        prefix = file.read(2 if version == (1, 0) else 4)
        n_bytes = int.from_bytes(prefix, "little")
        if n_bytes > _MAX_HEADER:
            raise ValueError(f"a header of {n_bytes:,} bytes, where {_MAX_HEADER:,} are allowed")
        text = io.BytesIO(prefix + file.read(n_bytes))
        with warnings.catch_warnings():  # of what Python thinks of a damaged header
            warnings.simplefilter("error")
            if version == (1, 0):
                shape, fortran, dtype = np.lib.format.read_array_header_1_0(text)
            else:
                shape, fortran, dtype = np.lib.format.read_array_header_2_0(text)
    except FileFormatError:
        raise
    except (*_DAMAGE, Warning) as error:
        raise damaged(path, "npy", error) from error
    if any(isinstance(n, bool) or n < 0 for n in shape) or dtype.itemsize == 0:
        raise damaged(path, "npy", f"shape {shape} of {dtype}")
    return shape, fortran, dtype


@dataclass(frozen=True, eq=False)
class StoredNpy:
    """An array in an npy file.

    Each slice is read into memory of its own. A memory map would count as the program's memory for
    as long as it lives, and costs twice as much to copy. Only an array in Fortran order, whose rows
    are scattered, is mapped, once for each slice.
    """

    path: Path
    offset: int
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]

    @classmethod
    def open(cls, path: Path) -> StoredNpy:
        """Read the header and check that the data are all there."""
        with open(path, "rb") as file:
            shape, fortran, dtype = read_header(file, path)
            refuse_objects(path, "The array", dtype)
            offset = file.tell()
            there = os.fstat(file.fileno()).st_size - offset
        expected = dtype.itemsize * int(np.prod(shape, dtype=object))
        if there != expected:
            raise damaged(
                path, "npy", f"shape {shape} of {dtype} needs {expected} bytes, {there} are there"
            )
        return cls(path, offset, shape, fortran and len(shape) > 1, dtype)

    def blocks(self, rows: int, first: int = 0) -> Iterator[Vector]:
        """Give consecutive slices of at most ``rows`` rows, from row ``first`` on."""
        n = self.shape[0]
        with open(self.path, "rb", buffering=0) as file:
            for start in range(first, n, rows):
                yield self._slice(file, start, min(start + rows, n))

    def whole(self) -> Vector:
        """Return the array as it is."""
        values = np.empty(self.shape, self.dtype, order="F" if self.fortran else "C")
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self.offset)
            _fill(file, values.reshape(-1, order="A"), self.path)
        return values

    def check(self) -> None:
        """An npy file has no checksum."""

    def _slice(self, file: FileIO, start: int, stop: int) -> Vector:
        rest = self.shape[1:]
        if 0 in self.shape or self.dtype.itemsize == 0:
            return np.zeros((stop - start, *rest), self.dtype)
        native = self.dtype.newbyteorder("=")
        if self.fortran:
            whole = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order="F")
            return np.array(whole[start:stop], dtype=native, order="C")
        values = np.empty((stop - start, *rest), self.dtype)
        file.seek(self.offset + start * (values.nbytes // (stop - start)))
        _fill(file, values, self.path)
        return values.astype(native, copy=False)


def _fill(file: FileIO, values: Vector, path: Path) -> None:
    """Read exactly as many bytes as the array has."""
    view = memoryview(cast(Any, values.reshape(-1).view(np.uint8)))
    done = 0
    while done < len(view):
        got = file.readinto(view[done:])
        if not got:
            raise damaged(path, "npy", "it has become shorter while it was read")
        done += got


def open_npy(path: Path, options: ReadOptions) -> ArrayReader:
    """Open the scores in an npy file; labels are in a file of their own."""
    stored = StoredNpy.open(path)
    if not stored.shape:
        raise FileFormatError(
            f"{os.fspath(path)!r} must hold a row of scores per sample.",
            got="a single value",
            remedy="Save an array of shape (samples, classes).",
        )
    if options.weight_column:
        raise FileFormatError(
            argument="weight_column",
            rule="must name an array of the file",
            remedy=(
                f"{os.fspath(path)!r} is an npy file, which holds scores only. "
                f"Save scores, labels and weight in one npz file."
            ),
        )
    return ArrayReader(path=path, format="npy", scores=stored, arrays={"scores": stored})


#: Bytes of every header: enough for any number of rows, so that it can be written again in place.
_HEADER_BYTES = 256


def npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """Return the header of an npy file (version 1.0), of one length for any number of rows."""
    fields = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": tuple(int(n) for n in shape),
    }
    text = repr(fields).encode("latin1")
    return (
        b"\x93NUMPY\x01\x00"
        + (_HEADER_BYTES - 10).to_bytes(2, "little")
        + text.ljust(_HEADER_BYTES - 11)
        + b"\n"
    )


def array_bytes(values: Vector) -> Any:
    """Return the bytes of an array, in C order."""
    return memoryview(cast(Any, np.ascontiguousarray(values).reshape(-1).view(np.uint8)))


class NpyFile:
    """An npy file that grows; closing it completes the header."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = open(path, "wb")  # noqa: SIM115 - closed by close() or abandon()
        self._shape: tuple[int, ...] = (0,)
        self._dtype: np.dtype[Any] = np.dtype(np.float64)

    def append(self, values: Vector) -> None:
        """Add rows; the first ones decide dtype and shape."""
        if self._file.tell() == 0:
            self._shape = (0, *values.shape[1:])
            self._dtype = values.dtype
            self._file.write(npy_header(self._shape, self._dtype))
        self._file.write(array_bytes(values.astype(self._dtype, copy=False)))
        self._shape = (self._shape[0] + len(values), *self._shape[1:])

    def close(self) -> None:
        """Write the header with the number of rows."""
        self._file.seek(0)
        self._file.write(npy_header(self._shape, self._dtype))
        self._file.close()

    def abandon(self) -> None:
        """Close the file as it is, also on a full disk."""
        with suppress(OSError):
            self._file.close()


class NpyWriter:
    """``OUT.npy`` with the posterior, ``OUT.prediction.npy`` with the predicted indices."""

    def __init__(self, paths: tuple[Path, ...], layout: Layout) -> None:
        self._posterior = NpyFile(paths[0])
        self._prediction = NpyFile(paths[1])
        self.notes: list[str] = []
        if layout.keep:
            self.notes.append(
                "An npy file holds one array: nothing else of the input was kept, neither scores "
                "nor labels. Write npz to keep them."
            )
        if layout.decisions is not None:
            self.notes.append(
                f"Predictions are indices of the decisions, not of the classes: "
                f"{few(layout.decisions, len(layout.decisions))}. An npy file has no room for "
                f"these names; write npz to keep them."
            )

    def write(
        self,
        chunk: Chunk,  # noqa: ARG002 - as other writers have it
        posterior: Any,
        prediction: Any,
    ) -> None:
        """Append the posterior and the predicted class indices of a chunk."""
        self._posterior.append(np.asarray(posterior))
        self._prediction.append(np.asarray(prediction))

    def close(self) -> None:
        """Complete the headers."""
        self._posterior.close()
        self._prediction.close()

    def abandon(self) -> None:
        """Close both files as they are."""
        self._posterior.abandon()
        self._prediction.abandon()
