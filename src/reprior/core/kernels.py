"""The only door to the compiled kernels, :mod:`reprior._native`.

``native`` is the extension, or None where it is not installed or ``REPRIOR_NATIVE=off`` is set;
array-API code then does the same work. An extension that is installed but cannot be loaded brings a
warning. ``REPRIOR_NATIVE=require`` makes a missing extension an error. ``REPRIOR_SIMD`` chooses an
instruction set, such as ``baseline``; results are the same.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reprior._warnings import warn
from reprior.exceptions import OptionError

__all__ = [
    "as_library",
    "contiguous",
    "description",
    "host_view",
    "native",
    "serves",
    "strided_rows",
]

_REMEDY = "For the kernels: `pip install --no-cache-dir --force-reinstall reprior`."

_DTYPES = frozenset(map(np.dtype, (np.float16, np.float32, np.float64)))

_TORCH_FLOATS = ("float32", "float64", "float16", "bfloat16")


def _load() -> ModuleType | None:
    choice = os.environ.get("REPRIOR_NATIVE", "")
    if choice not in ("", "off", "require"):
        raise OptionError(
            f"REPRIOR_NATIVE must be 'off' or 'require', or not be set. Got {choice!r}."
        )
    if choice == "off":
        return None
    try:
        _native = importlib.import_module("reprior._native")
    except ImportError as error:
        if choice == "require":
            raise
        if not (isinstance(error, ModuleNotFoundError) and error.name == "reprior._native"):
            warn(
                "The compiled kernels of reprior cannot be loaded: array code does their work, "
                f"more slowly ({error}). {_REMEDY}"
            )
        return None
    level = os.environ.get("REPRIOR_SIMD", "")
    if level:
        if level not in _native.levels():
            raise OptionError(
                f"REPRIOR_SIMD must be one of {', '.join(_native.levels())} on this processor. "
                f"Got {level!r}."
            )
        _native.set_level(level)
    return _native


native: Any = _load()
"""The extension, or None."""

_MISSING = native is None and os.environ.get("REPRIOR_NATIVE") != "off"


def serves(scores: Any) -> bool:
    """Whether the kernels take an array: a plain NumPy array of floats of 16, 32 or 64 bits."""
    return native is not None and type(scores) is np.ndarray and scores.dtype in _DTYPES


def host_view(array: Any) -> NDArray[Any] | None:
    """Return an array's own memory as a NumPy array, where the kernels may read it; else None.

    For plain arrays of NumPy, and those of PyTorch and JAX in the host's memory. bfloat16, which
    NumPy does not know, comes as uint16. None for tensors that require gradients, whatever is
    traced, compiled or transformed, subclasses, and where there are no kernels.

    Examples
    --------
    >>> scores = np.zeros((2, 3))
    >>> host_view(scores) is scores, host_view(np.ma.array(scores)) is None
    (True, True)
    """
    if native is None:
        return None
    kind = type(array)
    if kind is np.ndarray:
        return _known(array)
    torch = sys.modules.get("torch")
    if torch is not None and kind is getattr(torch, "Tensor", None):
        return _torch_view(array, torch)
    if kind.__module__.startswith("jax") and _is_on_host(array):
        return _known(np.asarray(array))
    return None


def _known(array: NDArray[Any]) -> NDArray[Any] | None:
    """Return an array of a dtype that the kernels know, bfloat16 as uint16; None for others."""
    if array.dtype in _DTYPES:
        return array
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else None


def _torch_view(tensor: Any, torch: Any) -> NDArray[Any] | None:
    # First, and apart: what is compiled must not so much as look at a tensor's memory.
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return None
    unwrapped = (
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and not (tensor.requires_grad and torch.is_grad_enabled())
        and not tensor.is_neg()
        and not _is_transformed(tensor, torch)
    )
    if not unwrapped or str(tensor.dtype).removeprefix("torch.") not in _TORCH_FLOATS:
        return None
    tensor = tensor.detach()
    if tensor.dtype is torch.bfloat16:
        view: NDArray[Any] = tensor.view(torch.int16).numpy().view(np.uint16)
    else:
        view = tensor.numpy()
    return view


def _is_transformed(tensor: Any, torch: Any) -> bool:
    """Whether a transformation such as vmap, or forward-mode differentiation, watches a tensor.

    PyTorch has private names for it only. A version without them takes array code.
    """
    try:
        return bool(
            torch._C._functorch.is_functorch_wrapped_tensor(tensor)
            or torch.autograd.forward_ad._current_level >= 0
            or torch._C._len_torch_dispatch_stack() > 0
        )
    except AttributeError:
        return True


def _is_on_host(array: Any) -> bool:
    """Whether a JAX array is no tracer, and lies whole in the host's memory."""
    jax = sys.modules.get("jax")
    if jax is None or not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer):
        return False
    devices = array.devices()
    return len(devices) == 1 and next(iter(devices)).platform == "cpu"


def as_library(values: NDArray[Any], like: Any) -> Any:
    """Return NumPy values as an array of the library and on the device of ``like``.

    Results that are floats have the dtype of ``like``: uint16 where that is bfloat16.
    """
    if type(like) is np.ndarray:
        return values.view(like.dtype) if values.dtype == np.uint16 else values
    torch = sys.modules.get("torch")
    if torch is not None and type(like) is torch.Tensor:
        if values.dtype == np.uint16:
            return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(values)
    jax = sys.modules["jax"]
    if values.dtype == np.uint16:
        values = values.view(like.dtype)
    return jax.device_put(values, next(iter(like.devices())))


def contiguous(array: Any, dtype: Any = None) -> NDArray[Any]:
    """Return an array in C order and aligned, as the kernels take it: itself, or a copy.

    Examples
    --------
    >>> contiguous(np.arange(6).reshape(2, 3).T, float).flags.c_contiguous
    True
    """
    found = np.ascontiguousarray(array, dtype)  # which leaves contiguous arrays misaligned
    return found if found.flags.aligned else found.copy()


def strided_rows(scores: NDArray[Any], *, writable: bool = False) -> NDArray[Any]:
    """View scores (..., K) as (outer, inner, K), as the kernels take rows.

    Axes of samples are merged where their strides allow it. What has no such view, is not aligned
    or has strides that are no multiples of the item size is copied; ``writable`` says that it is
    written to, so that a copy will not do: ValueError.

    Examples
    --------
    >>> maps = np.moveaxis(np.zeros((2, 3, 4, 5)), 1, -1)  # (N, K, H, W), the classes last
    >>> view = strided_rows(maps)
    >>> view.shape, np.shares_memory(view, maps)
    ((2, 20, 3), True)
    """
    n_classes = scores.shape[-1]
    flags = scores.flags
    if flags.c_contiguous and flags.aligned:
        return scores.reshape(1, -1, n_classes)
    whole = flags.aligned and not any(stride % scores.itemsize for stride in scores.strides)
    found = _merged(scores.shape[:-1], scores.strides[:-1]) if whole and scores.size else None
    if found is None:
        if writable:
            raise ValueError("The rows of this array have no view of two axes and classes.")
        # A copy: np.ascontiguousarray leaves contiguous rows misaligned.
        return scores.copy(order="C").reshape(1, -1, n_classes)
    (outer, inner), (outer_step, inner_step) = found
    return np.lib.stride_tricks.as_strided(
        scores,
        (outer, inner, n_classes),
        (outer_step, inner_step, scores.strides[-1]),
        writeable=writable,
    )


def _merged(
    lengths: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return lengths and strides of two axes that go through the same entries, or None."""
    axes: list[tuple[int, int]] = []
    for length, stride in zip(lengths, strides, strict=True):
        if length == 1:
            continue
        if axes and axes[-1][1] == stride * length:
            axes[-1] = (axes[-1][0] * length, stride)
        else:
            axes.append((length, stride))
    if len(axes) > 2:
        return None
    first, second = [(1, 0)] * (2 - len(axes)) + axes
    return (first[0], second[0]), (first[1], second[1])


def description() -> str:
    """What computes: the extension with its instruction set, or array code and why."""
    if native is not None:
        return f"native ({native.level()})"
    return (
        f"array code (no compiled kernels are installed). {_REMEDY}" if _MISSING else "array code"
    )
