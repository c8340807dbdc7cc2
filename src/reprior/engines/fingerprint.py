"""A fingerprint of labelled scores, by which it is known again what a calibrator was tuned on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from reprior.core.arrays import to_numpy
from reprior.engines.stream import as_chunk
from reprior.files.chunk import Chunk

__all__ = ["Digest", "digest"]


def digest(chunks: Iterable[Any], *, class_axis: int = -1) -> str:
    """Return the digest of labelled scores.

    The same scores in the same dtype and order, with the same labels, have the same digest
    however they are cut into chunks. :func:`reprior.engines.fit` keeps that of its tuning data as
    ``calibrator.provenance_["digest"]``. Weights, and whether labels are ignored, have no part
    in it.

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
    >>> whole = digest([(scores, labels)])
    >>> whole == digest([(scores[:1], labels[:1]), (scores[1:], labels[1:])])
    True
    >>> whole == digest([(scores, labels[::-1])])
    False
    """
    found = Digest(class_axis)
    for given in chunks:
        found.update(as_chunk(given, 0))
    return found.value


class Digest:
    """A digest that grows chunk by chunk."""

    def __init__(self, class_axis: int) -> None:
        self.class_axis = class_axis
        self.n_samples = 0
        self._scores, self._labels = (hashlib.blake2b(digest_size=16) for _ in range(2))
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
        if chunk.labels is None:
            return
        labels = to_numpy(chunk.labels)
        if labels.dtype.kind in "iub":
            self._labels.update(_bytes(labels.astype(np.int64)))
        else:
            self._labels.update("".join(f"{name}\0" for name in labels.reshape(-1)).encode())

    @property
    def value(self) -> str:
        """The digest of what came so far, in hexadecimal digits."""
        both = self._layout.encode() + self._scores.digest() + self._labels.digest()
        return hashlib.blake2b(both, digest_size=16).hexdigest()


def _bytes(array: np.ndarray[Any, Any]) -> memoryview:
    """The array's little-endian bytes, samples first; without a copy where they lie so."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(little).reshape(-1).view(np.uint8).data
