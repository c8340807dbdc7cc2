"""A fingerprint of labelled scores, to recognise the data a calibrator was tuned on."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from reprior.core.arrays import to_numpy
from reprior.engines.chunk_source import as_chunk
from reprior.files.chunks import Chunk

__all__ = ["Digest", "Known", "digest"]

BLOCK = 1 << 16
"""Bytes of one checksum. Above 5 KB, zlib releases the interpreter lock."""

WHOLE = 1 << 9
"""The first blocks are all digested: 32 MiB."""

EVERY = 16
"""Of the blocks after these, one in this many is digested."""


def digest(chunks: Iterable[Any], *, class_axis: int = -1) -> str:
    """Return the digest of labelled scores.

    The same scores in the same dtype and order, with the same labels, have the same digest
    however they are cut into chunks. :func:`reprior.engines.fit` stores that of its tuning data in
    ``calibrator.provenance_["digest"]``. Weights, and whether labels are ignored, do not change
    it. It recognises data and does not withstand forgery: after the first 32 MiB, it covers one
    block of 64 KiB in sixteen.

    Parameters
    ----------
    chunks : iterable of Chunk, or of (scores, labels)
        The data.
    class_axis : int, default -1
        The axis of the classes.

    Examples
    --------
    >>> import numpy as np
    >>> scores, labels = np.eye(3), np.array([0, 1, 2])
    >>> value = digest([(scores, labels)])
    >>> value == digest([(scores[:1], labels[:1]), (scores[1:], labels[1:])])
    True
    >>> value == digest([(scores, labels[::-1])])
    False
    """
    growing = Digest(class_axis)
    for given in chunks:
        growing.update(as_chunk(given, 0))
    return growing.value


class Known(NamedTuple):
    """The digest of ``n_samples``: ``value`` without their weights, ``weighed`` with them."""

    value: str
    weighed: str
    n_samples: int


class Digest:
    """A digest that grows chunk by chunk."""

    def __init__(self, class_axis: int) -> None:
        self.class_axis = class_axis
        self.n_samples = 0
        self._scores, self._labels, self._weights = _Sequence(), _Sequence(), _Sequence()
        self._layout = ""

    def update(self, chunk: Chunk) -> None:
        """Add the next chunk."""
        scores = to_numpy(chunk.scores)
        if scores.ndim > 1 and self.class_axis % scores.ndim == 0:
            scores = np.moveaxis(scores, 0, 1)
        if not scores.size:
            return
        self.n_samples += scores.shape[0]
        self._layout = self._layout or f"{scores.dtype.newbyteorder('<').str}{scores.shape[1:]}"
        self._scores.update(_bytes(scores))
        if chunk.weight is not None:
            self._weights.update(_bytes(to_numpy(chunk.weight).astype(np.float64, copy=False)))
        if chunk.labels is None:
            return
        labels = to_numpy(chunk.labels)
        if labels.dtype.kind in "iub":
            self._labels.update(_bytes(labels.astype(np.int64)))
        else:
            names = "".join(f"{name}\0" for name in labels.reshape(-1))
            self._labels.update(memoryview(names.encode()))

    @property
    def value(self) -> str:
        """The digest of the chunks so far, in hexadecimal digits."""
        both = self._layout.encode() + self._scores.digest() + self._labels.digest()
        return hashlib.blake2b(both, digest_size=16).hexdigest()

    @property
    def known(self) -> Known:
        """The digests so far, without weights and, for checkpoints, with them."""
        value = self.value
        both = value.encode() + self._weights.digest()
        weighed = hashlib.blake2b(both, digest_size=16).hexdigest()
        return Known(value, weighed, self.n_samples)


class _Sequence:
    """The digest of a sequence of bytes: its length, and BLAKE2 of the CRC-32 of its blocks.

    BLAKE2 of all bytes would cost more than the profile does. A checksum detects every change of up
    to 32 neighbouring bits in a block, and misses another with probability 2⁻³².
    """

    def __init__(self) -> None:
        self._sums = hashlib.blake2b(digest_size=16)
        self._sum = self._length = 0

    def update(self, data: memoryview) -> None:
        while data:
            block, filled = divmod(self._length, BLOCK)
            piece = data[: BLOCK - filled]
            data = data[len(piece) :]
            self._length += len(piece)
            if block >= WHOLE and block % EVERY:
                continue
            self._sum = zlib.crc32(piece, self._sum)
            if filled + len(piece) == BLOCK:
                self._sums.update(self._sum.to_bytes(4, "little"))
                self._sum = 0

    def digest(self) -> bytes:
        sums = self._sums.copy()
        sums.update(self._sum.to_bytes(4, "little") + self._length.to_bytes(8, "little"))
        return sums.digest()


def _bytes(array: np.ndarray[Any, Any]) -> memoryview:
    """Return the array's little-endian bytes, samples first; without a copy where possible."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(little).reshape(-1).view(np.uint8).data
