"""Open npz archives of any origin: each member once, of a size in proportion to the file.

What a zip file says of itself is checked before a byte is unpacked: its list of members, their
names, their sizes, and whether they can be read at all. The memory that a small file can ask for
is so limited, whatever it says.
"""

from __future__ import annotations

import errno
import lzma
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

import numpy as np

from reprior.exceptions import FileFormatError, RepriorError
from reprior.files.formats.array_files import refuse_objects
from reprior.files.formats.interface import damaged
from reprior.files.formats.npy import read_header
from reprior.files.limits import regular_file

__all__ = [
    "fill",
    "inflated_limit",
    "open_members",
    "read_arrays",
    "refuse_hollow",
    "refuse_inflated",
    "refuse_other_size",
    "refusing_damage",
]

#: What reading a damaged archive was seen to raise.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    KeyError,
    IndexError,
    MemoryError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)

#: Bytes of the list of members: that of 10,000 of them.
_MAX_LIST = 1 << 20

#: Bytes that any archive may unpack to, and how many times its own size a large one may.
_ALWAYS_ALLOWED = 1 << 28
_MAX_RATIO = 32

#: The same for what is read in parts, which takes time and no memory.
_ALWAYS_READ = 1 << 30
_MAX_PARTS_RATIO = 1_000

_END, _END_BYTES = b"PK\x05\x06", 22
_LOCATOR, _LOCATOR_BYTES = b"PK\x06\x07", 20
_END64_BYTES = 56
_COMMENT_BYTES = 1 << 16

#: The number of members where it does not fit into the record.
_MANY_MEMBERS = 0xFFFF

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def inflated_limit(size: int) -> int:
    """Return how many bytes of an archive of ``size`` bytes may be unpacked into memory.

    Deflate packs zeros 1,000 times; what reprior writes is packed 2 to 10 times.

    Examples
    --------
    >>> inflated_limit(1_000), inflated_limit(100_000_000)
    (268435456, 3200000000)
    """
    return max(_ALWAYS_ALLOWED, _MAX_RATIO * size)


def refuse_hollow(path: str | os.PathLike[str], n_bytes: int, packed: int) -> None:
    """Refuse data that are read in parts, but would take longer than a file of their size may.

    A store without chunks stands for any number of rows; parquet says a value once for all rows.
    """
    limit = max(_ALWAYS_READ, _MAX_PARTS_RATIO * packed)
    if n_bytes > limit:
        raise FileFormatError(
            f"{os.fspath(path)!r} must hold at most {limit:,} bytes of data, {_MAX_PARTS_RATIO:,} "
            f"times what it takes on disk or {_ALWAYS_READ:,}.",
            got=f"{n_bytes:,} bytes",
            remedy="Check where it comes from: almost all of it is one value.",
        )


@contextmanager
def refusing_damage(path: str | os.PathLike[str], what: str = "npz") -> Iterator[None]:
    """Turn what a damaged archive raises into one sentence."""
    try:
        yield
    except RepriorError:
        raise
    except OSError as error:
        if error.errno != errno.EINVAL:  # of a place before the beginning, which the list may name
            raise
        raise damaged(path, what, error) from error
    except _DAMAGE as error:
        raise damaged(path, what, error) from error


@contextmanager
def open_members(
    path: str | os.PathLike[str], stream: IO[bytes] | None = None
) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """Open an npz archive; yield it and its arrays by name.

    Members that are no arrays are left out. An encrypted member, one that is there twice, and one
    packed in another way than ``numpy.savez`` packs are refused.

    Parameters
    ----------
    path : path
        A regular file.
    stream : binary file, optional
        Read this instead; ``path`` stands for it in errors.
    """
    with refusing_damage(path), _as_stream(path, stream) as file:
        n_members = _count_members(path, file)
        with zipfile.ZipFile(file) as archive:
            if n_members not in (None, len(archive.infolist())):
                raise zipfile.BadZipFile(f"{n_members} members are announced, not all are listed")
            packed = sum(info.compress_size for info in archive.infolist())
            if packed > file.seek(0, os.SEEK_END):  # sizes that are limits of what is unpacked
                raise zipfile.BadZipFile(f"members of {packed} bytes overlap or are not there")
            yield archive, _by_name(path, archive)


@contextmanager
def _as_stream(path: str | os.PathLike[str], stream: IO[bytes] | None) -> Iterator[IO[bytes]]:
    if stream is not None:
        yield stream
        return
    with open(regular_file(path), "rb") as file:
        yield file


def _count_members(path: str | os.PathLike[str], file: IO[bytes]) -> int | None:
    """Return how many members the record at the end of the file announces, if it does.

    A list of members that would take much memory is refused; zipfile reads it without a limit, and
    does not compare it with the number of members.
    """
    size = file.seek(0, os.SEEK_END)
    tail_bytes = min(size, _COMMENT_BYTES + _END_BYTES + _LOCATOR_BYTES + _END64_BYTES)
    file.seek(size - tail_bytes)
    tail = file.read(tail_bytes)
    file.seek(0)
    # The end record is looked for as zipfile does.
    end = len(tail) - _END_BYTES
    if not (end >= 0 and tail.startswith(_END, end) and tail.endswith(b"\0\0")):
        end = tail.rfind(_END)
    if end < 0 or end + _END_BYTES > len(tail):
        return None  # zipfile says what is wrong
    list_bytes = int.from_bytes(tail[end + 12 : end + 16], "little")
    locator = end - _LOCATOR_BYTES
    end64 = locator - _END64_BYTES
    if end64 >= 0 and tail.startswith(_LOCATOR, locator):
        list_bytes = int.from_bytes(tail[end64 + 40 : end64 + 48], "little")
    if list_bytes > _MAX_LIST:
        raise FileFormatError(
            f"{os.fspath(path)!r} must be an npz file whose list of arrays takes at most "
            f"{_MAX_LIST:,} bytes.",
            got=f"{list_bytes:,} bytes",
            remedy="Check that it is a score file; numpy.savez writes one.",
        )
    n_members = int.from_bytes(tail[end + 10 : end + 12], "little")
    return None if n_members == _MANY_MEMBERS else n_members


def _by_name(path: str | os.PathLike[str], archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name == info.filename:
            archive.open(info).close()  # which compares its name with that before its data
            continue
        if name in members:
            raise FileFormatError(
                f"{os.fspath(path)!r} must hold every array once.",
                got=f"{name!r} twice",
                remedy="Write it again with numpy.savez.",
            )
        if info.flag_bits & 0x1:
            raise FileFormatError(
                f"{os.fspath(path)!r} must not be encrypted.",
                got=f"the array {name!r}, which needs a password",
                remedy="Unpack it, and write it again with numpy.savez.",
            )
        if info.compress_type not in _METHODS:
            raise FileFormatError(
                f"{os.fspath(path)!r} must be stored or deflated, as numpy.savez and "
                f"numpy.savez_compressed write it.",
                got=f"compression method {info.compress_type} of the array {name!r}",
                remedy="Write it again with one of them.",
            )
        members[name] = info
    return members


def fill(file: IO[bytes], values: np.ndarray[Any, Any]) -> None:
    """Read exactly as many bytes as the array has."""
    if values.nbytes == 0:
        return
    view = memoryview(cast(Any, values.reshape(-1).view(np.uint8)))
    done = 0
    while done < len(view):
        data = file.read(min(len(view) - done, 1 << 20))
        if not data:
            raise EOFError("an array breaks off")
        view[done : done + len(data)] = data
        done += len(data)


def read_arrays(
    path: str | os.PathLike[str], stream: IO[bytes] | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """Return all arrays of an npz archive, without pickle, of limited size.

    Parameters
    ----------
    path : path
        A regular file.
    stream : binary file, optional
        Read this instead; ``path`` stands for it in errors.

    Examples
    --------
    >>> path = getfixture("tmp_path") / "arrays.npz"
    >>> np.savez(path, a=np.arange(3), b=np.eye(2))
    >>> read_arrays(path)["a"]
    array([0, 1, 2])
    """
    with open_members(path, stream) as (archive, members):
        packed = sum(info.compress_size for info in members.values())
        refuse_inflated(path, sum(info.file_size for info in members.values()), packed)
        return {name: _read(path, archive, name, info) for name, info in members.items()}


def refuse_inflated(
    path: str | os.PathLike[str], n_bytes: int, packed: int, what: str = "arrays"
) -> None:
    """Refuse to unpack ``n_bytes`` of ``packed`` bytes into memory where these are too many."""
    limit = inflated_limit(packed)
    if n_bytes > limit:
        raise FileFormatError(
            f"{os.fspath(path)!r} must hold {what} of at most {limit:,} bytes, "
            f"{_MAX_RATIO} times what it takes on disk or {_ALWAYS_ALLOWED:,}.",
            got=f"{n_bytes:,} bytes",
            remedy="Check where it comes from; numpy.savez writes arrays without compression.",
        )


def _read(
    path: str | os.PathLike[str], archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo
) -> np.ndarray[Any, Any]:
    with archive.open(info) as file:
        shape, fortran, dtype = read_header(file, path)
        refuse_objects(path, f"The array {name!r}", dtype)
        refuse_other_size(name, shape, dtype, info.file_size - file.tell())
        values = np.empty(shape, dtype, order="F" if fortran else "C")
        fill(file, values.reshape(-1, order="A") if values.ndim else values.reshape(1))
        file.read(1)  # the end of the member, where its checksum is compared
    return values


def refuse_other_size(
    name: str, shape: tuple[int, ...], dtype: np.dtype[Any], n_bytes: int
) -> None:
    """Refuse an array whose data are shorter or longer than its shape says."""
    if dtype.hasobject:  # pickled, and refused where it is used
        return
    expected = math.prod(shape) * dtype.itemsize
    if expected != n_bytes:
        raise EOFError(
            f"{name!r} of shape {shape} and {dtype} needs {expected} bytes, {n_bytes} are there"
        )
