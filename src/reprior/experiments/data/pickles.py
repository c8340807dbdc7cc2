"""Read the pickles of old data archives without running what they say.

A pickle is a program. This reader knows the few calls that build NumPy arrays, and refuses every
other, so that a prepared file can do nothing.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy._core.multiarray import _reconstruct as reconstruct

from reprior.exceptions import FileFormatError

__all__ = ["read_pickle"]


def _bytes_of(text: str, encoding: str) -> bytes:
    """Stand in for ``_codecs.encode``, by which Python 3 writes bytes into old protocols."""
    if encoding != "latin1":
        raise pickle.UnpicklingError("_codecs.encode")
    return text.encode("latin1")


#: What the archives' pickles call, under the names of the NumPy of their time and of today's.
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): reconstruct,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): _bytes_of,
}


class _Arrays(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        try:
            return _ALLOWED[module_name, global_name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module_name}.{global_name}") from None


def read_pickle(path: Path) -> dict[Any, Any]:
    """Return the dictionary in a pickle that holds numbers, text, lists and arrays alone.

    Examples
    --------
    >>> import pickle
    >>> path = getfixture("tmp_path") / "batch"
    >>> _ = path.write_bytes(pickle.dumps({b"labels": [3, 1]}))
    >>> read_pickle(path)
    {b'labels': [3, 1]}
    >>> _ = path.write_bytes(pickle.dumps({b"labels": print}))
    >>> read_pickle(path)
    Traceback (most recent call last):
    ...
    reprior.exceptions.FileFormatError: A data file must hold arrays alone. Got a call of builtins.print in .../batch. It was made to run code: fetch the archive anew from its publisher.
    """  # noqa: E501 - the sentence as it is raised
    data = path.read_bytes()
    try:
        # Text of Python 2 becomes bytes.
        found = _Arrays(io.BytesIO(data), encoding="bytes").load()
    except pickle.UnpicklingError as error:
        what = str(error)
        if "." not in what or " " in what:
            raise _broken(path, what) from error
        raise FileFormatError(
            f"A data file must hold arrays alone. Got a call of {what} in {path}. It was made to "
            f"run code: fetch the archive anew from its publisher."
        ) from error
    except Exception as error:  # a damaged pickle may raise anything
        raise _broken(path, f"{type(error).__name__}: {error}") from error
    if not isinstance(found, dict):
        raise _broken(path, f"a {type(found).__name__}")
    return found


def _broken(path: Path, what: str) -> FileFormatError:
    return FileFormatError(
        f"A data file must be a whole pickle of a dictionary. Got {what} in {path}. Unpack the "
        f"archive again."
    )
