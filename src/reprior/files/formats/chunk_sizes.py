"""How many bytes packed chunks of zarr unpack to, before a codec makes room for them.

Zstandard and LZ4 say so in their headers. gzip, zlib, bzip2 and LZMA are unpacked piece by piece
and counted, where they could be too large.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Callable
from typing import IO, Any, TypeAlias

__all__ = ["unpacked_bytes"]

Counter: TypeAlias = Callable[[IO[bytes], int], int]

#: The most that deflate packs.
_DEFLATE_RATIO = 1_032

_PIECE = 1 << 20

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_BLOCK = 1 << 17
_RAW, _REPEATED = 0, 1


def unpacked_bytes(codec: str) -> Counter | None:
    """Return what counts the bytes of a chunk, up to some above a limit; None for other codecs.

    Parameters
    ----------
    codec : str
        The name of the codec's class, of zarr or numcodecs.

    Examples
    --------
    >>> import io, zlib
    >>> count = unpacked_bytes("Zlib")
    >>> count(io.BytesIO(zlib.compress(bytes(10_000))), 100)
    10000
    """
    name = codec.lower()
    return next((count for known, count in _COUNTERS.items() if known in name), None)


def _in_pieces(opener: Callable[..., Any]) -> Counter:
    def count(file: IO[bytes], limit: int) -> int:
        n_bytes = 0
        with opener(file) as stream:
            while n_bytes <= limit and (data := stream.read(_PIECE)):
                n_bytes += len(data)
        return n_bytes

    return count


def _gzip_bytes(file: IO[bytes], limit: int) -> int:
    if _DEFLATE_RATIO * _size(file) <= limit:
        return 0
    return _in_pieces(gzip.open)(file, limit)


def _zlib_bytes(file: IO[bytes], limit: int) -> int:
    n_bytes, unpacker, data = 0, zlib.decompressobj(), file.read()
    while data and n_bytes <= limit:
        n_bytes += len(unpacker.decompress(data, _PIECE))
        data = unpacker.unconsumed_tail
    return n_bytes


def _lz4_bytes(file: IO[bytes], _limit: int) -> int:
    return int.from_bytes(file.read(4), "little")


def _zstd_bytes(file: IO[bytes], limit: int) -> int:
    """Sum what frames say of themselves, or else the largest sizes of their blocks."""
    n_bytes = 0
    while n_bytes <= limit and file.read(4) == _ZSTD_MAGIC:
        flags = file.read(1)[0]
        has_window = not flags & 0x20
        file.read(has_window + (0, 1, 2, 4)[flags & 3])
        size_bytes = (int(not has_window), 2, 4, 8)[flags >> 6]
        if size_bytes:
            return int.from_bytes(file.read(size_bytes), "little") + 256 * (size_bytes == 2)
        is_last = False
        while not is_last and n_bytes <= limit:
            header = int.from_bytes(file.read(3).ljust(3, b"\1"), "little")
            is_last, kind, length = bool(header & 1), header >> 1 & 3, header >> 3
            n_bytes += length if kind in (_RAW, _REPEATED) else _ZSTD_BLOCK
            file.seek(1 if kind == _REPEATED else length, os.SEEK_CUR)
        file.seek(4 * (flags >> 2 & 1), os.SEEK_CUR)
    return n_bytes


def _size(file: IO[bytes]) -> int:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


_COUNTERS: dict[str, Counter] = {
    "zstd": _zstd_bytes,
    "gzip": _gzip_bytes,
    "zlib": _zlib_bytes,
    "lz4": _lz4_bytes,
    "bz2": _in_pieces(bz2.open),
    "lzma": _in_pieces(lzma.open),
}
