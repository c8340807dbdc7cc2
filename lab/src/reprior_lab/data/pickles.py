"""Read the pickles of old data archives without running the code in them.

A pickle is a program. This reader accepts the few calls that build NumPy arrays, and refuses every
other. Even these calls do not reach NumPy, which trusts the state that a pickle gives to its
objects: with a changed dtype it would use raw bytes as pointers. Stand-ins record and check the
state, and the array is built here.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import reprlib
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from reprior.exceptions import FileFormatError
from reprior.files import read_limited

__all__ = ["read_pickle"]

#: Bytes of a file: three times those of all training images of CIFAR.
MOST_BYTES = 1 << 29

#: Booleans, integers and floats, by their names in pickled dtypes.
_NUMBERS = frozenset(["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])

#: Types that a dictionary may hold besides arrays, alone or in a list.
_PLAIN = (bool, int, float, str, bytes, type(None))

#: How many tuples a pickle may have, besides the arguments of its calls. An array has three; the
#: hash of a deeply nested tuple overflows the stack of the interpreter.
_MOST_TUPLES = 500

_MAKE_TUPLES = ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")
_MEMOIZE = ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE")


class _CallError(Exception):
    """A call that no array needs; the argument is its name."""


class _ArrayError(Exception):
    """An array or dtype that NumPy does not write for plain numbers; the argument describes it."""


class _Dtype:
    """Stand-in for ``numpy.dtype``: a plain number type with its byte order as the only state."""

    __slots__ = ("name", "order")

    def __init__(self, name: Any, align: Any, copy: Any) -> None:
        self.name, self.order = _text(name), "="
        if self.name not in _NUMBERS or (align, copy) != (False, True):
            raise _ArrayError(f"numpy.dtype{reprlib.repr((name, align, copy))}")

    def __setstate__(self, state: Any) -> None:
        order = _text(state[1]) if isinstance(state, tuple) and len(state) == 8 else ""
        if order not in ("<", ">", "|", "=") or state != (3, state[1], *[None] * 3, -1, -1, 0):
            raise _ArrayError(f"a dtype of the state {reprlib.repr(state)}")
        self.order = order

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype that was pickled."""
        return np.dtype(self.order + self.name)


class _Array:
    """Stand-in for ``numpy.ndarray`` and for ``_reconstruct``, which makes an empty one."""

    __slots__ = ("array",)

    def __init__(self, kind: Any, shape: Any, type_code: Any) -> None:
        if kind is not _Array or shape != (0,) or _text(type_code) != "b":
            raise _ArrayError("a call that makes no empty array")

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise _ArrayError(f"an array of the state {reprlib.repr(state)}")
        version, shape, dtype, is_fortran, data = state
        if version != 1 or not isinstance(dtype, _Dtype) or not isinstance(is_fortran, bool):
            raise _ArrayError(f"an array of the state {reprlib.repr(state)}")
        if not isinstance(shape, tuple) or any(type(n) is not int or n < 0 for n in shape):
            raise _ArrayError(f"an array of the shape {reprlib.repr(shape)}")
        needed = math.prod(shape) * dtype.dtype.itemsize
        if not isinstance(data, bytes) or len(data) != needed:
            got = f"{len(data)} bytes" if isinstance(data, bytes) else f"a {type(data).__name__}"
            raise _ArrayError(f"{got} for an array of {needed} bytes")
        flat = np.frombuffer(data, dtype.dtype)
        self.array = flat.reshape(shape, order="F" if is_fortran else "C")


class _Encode:
    """Stand-in for ``_codecs.encode``, by which Python 3 writes bytes into old protocols."""

    __slots__ = ()

    def __call__(self, text: str, encoding: str) -> bytes:
        if encoding != "latin1":
            raise _CallError("_codecs.encode")
        return text.encode("latin1")

    def __setstate__(self, state: Any) -> NoReturn:
        raise _CallError("_codecs.encode")


#: The calls in the archives' pickles, by their names in old and current NumPy. Each stand-in has a
#: ``__setstate__``: a pickle may add attributes to objects without one.
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Encode(),
}


class _Arrays(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> Any:
        try:
            return _ALLOWED[module_name, global_name]
        except KeyError:
            raise _CallError(f"{module_name}.{global_name}") from None


def read_pickle(path: Path) -> dict[Any, Any]:
    """Return the dictionary in a pickle that holds numbers, text, lists of them, and arrays.

    The arrays are read-only.

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
    reprior.exceptions.FileFormatError: A data file must hold arrays alone. Got a call of builtins.print in .../batch. It was made to run code: download the archive again from its publisher.
    """  # noqa: E501 - the sentence as it is raised
    data = read_limited(path, MOST_BYTES, "a batch of images")
    try:
        _refuse_excess(data)
        # Strings of Python 2 become bytes.
        content = _Arrays(io.BytesIO(data), encoding="bytes").load()
        if not isinstance(content, dict):
            raise pickle.UnpicklingError(f"a {type(content).__name__}")
        return {key: _value(value) for key, value in content.items()}
    except _CallError as error:
        raise FileFormatError(
            f"A data file must hold arrays alone. Got a call of {error} in {path}. It was made to "
            f"run code: download the archive again from its publisher."
        ) from error
    except _ArrayError as error:
        raise FileFormatError(
            f"A data file must hold arrays of plain numbers, as NumPy writes them. Got {error} in "
            f"{path}. It is damaged, or was made to do harm: download the archive again from its "
            f"publisher."
        ) from error
    except pickle.UnpicklingError as error:
        raise _broken(path, str(error)) from error
    except Exception as error:  # a damaged pickle may raise anything
        raise _broken(path, f"{type(error).__name__}: {error}") from error


def _refuse_excess(data: bytes) -> None:
    """Refuse more tuples than arrays need, and a memo with gaps, before any of it is made.

    The interpreter allocates a memo up to its largest index.
    """
    n_tuples, previous = 0, ""
    for n_codes, (code, argument, _) in enumerate(pickletools.genops(data)):
        if code.name in _MEMOIZE:
            if argument is not None and argument > n_codes:
                raise _ArrayError(f"the memo index {reprlib.repr(argument)}")
            continue
        n_tuples += previous in _MAKE_TUPLES and code.name != "REDUCE"
        previous = code.name
        if n_tuples > _MOST_TUPLES:
            raise _ArrayError(f"more than {_MOST_TUPLES} tuples")


def _value(value: Any) -> Any:
    """Return a value of the dictionary: the array of a stand-in, or plain data; refuse others."""
    if isinstance(value, _Array):
        return value.array
    for each in value if isinstance(value, list) else [value]:
        if not isinstance(each, _PLAIN):
            raise _ArrayError(f"a value of type {type(each).__name__.strip('_')}")
    return value


def _text(value: Any) -> str:
    """Return a string, also from bytes of Python 2; other types become the empty string."""
    if isinstance(value, bytes):
        return value.decode("latin1")
    return value if isinstance(value, str) else ""


def _broken(path: Path, what: str) -> FileFormatError:
    return FileFormatError(
        f"A data file must be a complete pickle of a dictionary. Got {what} in {path}. Unpack the "
        f"archive again."
    )
