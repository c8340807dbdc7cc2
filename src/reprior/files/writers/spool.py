"""Arrays that are written row by row, before anybody knows how many rows there will be."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from shutil import copyfileobj
from typing import IO, Any, cast

import numpy as np

from reprior.files.writers.writer import Vector

__all__ = ["NpyFile", "Spool", "npy_header"]

#: Length of every header: room for any number of rows, so that it can be written again.
_ROOM = 256


def npy_header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """Return the header of an npy file (version 1.0), of one length for any number of rows."""
    fields = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": tuple(int(n) for n in shape),
    }
    text = repr(fields).encode("latin1")
    return (
        b"\x93NUMPY\x01\x00" + (_ROOM - 10).to_bytes(2, "little") + text.ljust(_ROOM - 11) + b"\n"
    )


def _bytes(values: Vector) -> Any:
    return memoryview(cast(Any, np.ascontiguousarray(values).reshape(-1).view(np.uint8)))


class NpyFile:
    """An npy file that grows; its header is put right when it is closed."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = open(path, "wb")  # noqa: SIM115 - closed by close() or abandon()
        self._shape: tuple[int, ...] = (0,)
        self._dtype: np.dtype[Any] = np.dtype(np.float64)

    def append(self, values: Vector) -> None:
        """Add rows; the first ones decide dtype and shape."""
        if self._file.tell() == 0:
            self._shape, self._dtype = (0, *values.shape[1:]), values.dtype
            self._file.write(npy_header(self._shape, self._dtype))
        self._file.write(_bytes(values.astype(self._dtype, copy=False)))
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


class Spool:
    """Rows in a nameless temporary file in the folder of the output, for a member of an archive."""

    def __init__(self, folder: Path) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - see close()
        self.shape: tuple[int, ...] = (0,)
        self.dtype: np.dtype[Any] = np.dtype(np.float64)

    def append(self, values: Vector) -> None:
        """Add rows; the first ones decide dtype and shape."""
        if self._file.tell() == 0:
            self.shape, self.dtype = (0, *values.shape[1:]), values.dtype
        self._file.write(_bytes(values.astype(self.dtype, copy=False)))
        self.shape = (self.shape[0] + len(values), *self.shape[1:])

    def pour(self, target: IO[bytes]) -> None:
        """Write header and rows to ``target``."""
        target.write(npy_header(self.shape, self.dtype))
        self._file.seek(0)
        copyfileobj(self._file, target, 1 << 20)

    def close(self) -> None:
        """Give the space back."""
        self._file.close()
