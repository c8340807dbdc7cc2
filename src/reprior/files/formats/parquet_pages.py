"""Headers of parquet pages: how large each is said to be, before pyarrow makes room for it.

A header is a struct in Thrift's compact protocol. Only two of its fields are read: the sizes of the
page, unpacked (2) and packed (3).
"""

from __future__ import annotations

import os
from pathlib import Path

from reprior.files.formats.interface import damaged

__all__ = ["refuse_huge_pages"]

#: What a file begins with; the first page is behind it.
_MAGIC = b"PAR1"

#: Bytes that a header takes at most; statistics in it may hold values.
_MAX_HEADER = 1 << 14

_UNPACKED, _PACKED = 2, 3

_BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY = range(3, 9)
_STRUCT = 12


def refuse_huge_pages(path: Path, limit: int) -> None:
    """Refuse a file with a page of more than ``limit`` bytes, unpacked, or than the file has.

    Pages follow each other from the beginning of the file. The walk ends at the first header that
    makes no sense, such as that of an index behind the pages; a damaged one is left to pyarrow. The
    metadata of columns also say where pages are, but pyarrow ends the process where these are
    damaged.
    """
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        place = len(_MAGIC)
        while place < end:
            file.seek(place)
            sizes = _page_sizes(file.read(_MAX_HEADER))
            if sizes is None:
                return
            header_bytes, unpacked, packed = sizes
            if unpacked > limit:
                reason = f"a page of {unpacked:,} bytes, where {limit:,} are allowed"
                raise damaged(path, "parquet", reason)
            if packed > end - place:
                reason = f"a page takes {packed:,} bytes, which are not there"
                raise damaged(path, "parquet", reason)
            place += header_bytes + packed


def _page_sizes(data: bytes) -> tuple[int, int, int] | None:
    """Return the bytes of the header, of the page unpacked and packed; None where it is none."""
    fields: dict[int, int] = {}
    try:
        place, number = 0, 0
        while data[place]:
            delta, kind = data[place] >> 4, data[place] & 15
            place += 1
            if delta:
                number += delta
            else:
                number, place = _integer(data, place)
            if kind == _I32:
                fields[number], place = _integer(data, place)
            else:
                place = _skip(data, place, kind)
        sizes = place + 1, fields[_UNPACKED], fields[_PACKED]
    except (IndexError, KeyError, ValueError, RecursionError):
        return None
    return sizes if min(sizes) >= 0 else None


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return an integer of 7 bits a byte, and the place behind it."""
    value = shift = 0
    while True:
        value |= (data[place] & 0x7F) << shift
        place += 1
        if not data[place - 1] & 0x80:
            return value, place
        shift += 7


def _integer(data: bytes, place: int) -> tuple[int, int]:
    """Return a signed integer, whose lowest bit is its sign, and the place behind it."""
    value, place = _varint(data, place)
    return (value >> 1) ^ -(value & 1), place


def _skip(data: bytes, place: int, kind: int) -> int:
    """Return the place behind a value that is not read."""
    if kind in (1, 2):  # true and false are kinds
        return place
    if kind == _BYTE:
        return place + 1
    if kind in (_I16, _I32, _I64):
        return _varint(data, place)[1]
    if kind == _DOUBLE:
        return place + 8
    if kind == _BINARY:
        n_bytes, place = _varint(data, place)
        return place + n_bytes
    if kind == _STRUCT:
        while data[place]:
            delta, inner = data[place] >> 4, data[place] & 15
            place = place + 1 if delta else _varint(data, place + 1)[1]
            place = _skip(data, place, inner)
        return place + 1
    raise ValueError("a header has neither lists nor maps")
