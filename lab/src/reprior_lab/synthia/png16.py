"""Read the first channel of a PNG without losing bits.

Pillow reduces 16-bit colour channels to 8 bits and keeps the upper byte. SYNTHIA stores its class
ids in the lower byte, so this module decodes such files itself.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from reprior.exceptions import FileFormatError, Setting

__all__ = ["first_channel"]

Array: TypeAlias = np.ndarray[Any, Any]

SIGNATURE = b"\x89PNG\r\n\x1a\n"

#: Number of channels of the PNG colour types for which Pillow has no 16-bit mode.
_CHANNELS = {2: 3, 4: 2, 6: 4}


class _Header(NamedTuple):
    width: int
    height: int
    bits: int
    colour: int
    interlaced: int


def first_channel(path: Path) -> Array:
    """Return the first channel of an image, uint8 or uint16 (H, W); for a palette, the indices.

    Examples
    --------
    >>> from PIL import Image
    >>> path = getfixture("tmp_path") / "ids.png"
    >>> Image.fromarray(np.array([[[3, 0, 0], [7, 1, 1]]], np.uint8)).save(path)
    >>> first_channel(path)
    array([[3, 7]], dtype=uint8)
    """
    try:
        with path.open("rb") as file:
            start = file.read(29)
        if start.startswith(SIGNATURE):
            header = _header(start)
            if header.bits == 16 and header.colour in _CHANNELS:
                return _decoded(path.read_bytes())
        return _by_pillow(path)
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, ValueError, zlib.error, struct.error) as error:
        raise FileFormatError(
            "An image must be a file that can be decoded.",
            got=f"{path}: {error}",
            remedy=[
                "Fetch it again, or pass ",
                Setting("on_error", "skip"),
                " to leave it out.",
            ],
        ) from error


def _by_pillow(path: Path) -> Array:
    from PIL import Image

    with Image.open(path) as image:
        values = np.asarray(image)
    values = values[..., 0] if values.ndim == 3 else values
    return values.astype(np.uint8 if values.dtype.itemsize == 1 else np.uint16)


def _header(start: bytes) -> _Header:
    width, height, bits, colour, _, _, interlaced = struct.unpack(">IIBBBBB", start[16:29])
    return _Header(width, height, bits, colour, interlaced)


def _decoded(data: bytes) -> Array:
    header = _header(data[:29])
    if header.interlaced:
        raise ValueError("an interlaced image of 16 bits per channel; save it without interlacing")
    n_bytes = 2 * _CHANNELS[header.colour]
    raw = np.frombuffer(zlib.decompress(_image_data(data)), np.uint8)
    if raw.size != header.height * (1 + n_bytes * header.width):
        raise ValueError("fewer pixels than the header says")
    rows = raw.reshape(header.height, -1)
    # A filter works on each byte of a pixel separately: the other channels are not needed.
    upper, lower = (_unfiltered(rows[:, 0], rows[:, 1 + i :: n_bytes]) for i in (0, 1))
    values: Array = (upper.astype(np.uint16) << 8) | lower
    return values


def _image_data(data: bytes) -> bytes:
    """Join the image chunks, and verify the checksum of each."""
    offset, parts = len(SIGNATURE), []
    while offset + 12 <= len(data):
        (length,) = struct.unpack(">I", data[offset : offset + 4])
        body = data[offset + 4 : offset + 8 + length]
        if (
            zlib.crc32(body)
            != struct.unpack(">I", data[offset + 8 + length : offset + 12 + length])[0]
        ):
            raise ValueError("a chunk does not match its checksum")
        if body[:4] == b"IDAT":
            parts.append(body[4:])
        offset += 12 + length
    return b"".join(parts)


def _unfiltered(kinds: Array, rows: Array) -> Array:
    """Undo the filters of one byte of every pixel: PNG specification, section 9."""
    out = np.empty(rows.shape, np.uint8)
    above: Array = np.zeros(rows.shape[1], np.uint8)
    for i, kind in enumerate(kinds.tolist()):
        row: Array = rows[i]
        target: Array = out[i]
        if kind == 0:
            target[:] = row
        elif kind == 1:
            np.cumsum(row, dtype=np.uint8, out=target)
        elif kind == 2:
            np.add(row, above, out=target)
        elif kind == 3:
            target[:] = _averaged(row.tolist(), above.tolist())
        elif kind == 4:
            # Shortcut: the upper byte of labels is 0 everywhere, and filters keep zeros.
            target[:] = _paeth(row.tolist(), above.tolist()) if row.any() or above.any() else 0
        else:
            raise ValueError(f"a row has filter {kind}, which PNG does not define")
        above = target
    return out


def _averaged(row: list[int], above: list[int]) -> list[int]:
    out, left = [], 0
    for value, up in zip(row, above, strict=True):
        left = (value + (left + up) // 2) & 255
        out.append(left)
    return out


def _paeth(row: list[int], above: list[int]) -> list[int]:
    out, left, corner = [], 0, 0
    for value, up in zip(row, above, strict=True):
        to_left, to_up, to_corner = (
            abs(up - corner),
            abs(left - corner),
            abs(left + up - 2 * corner),
        )
        if to_left <= to_up and to_left <= to_corner:
            near = left
        else:
            near = up if to_up <= to_corner else corner
        left, corner = (value + near) & 255, up
        out.append(left)
    return out
