"""Access to the compiled kernels, :mod:`reprior._native`, and passes over rows of scores.

No other module imports the extension.

``native`` is the extension, or None where it is not installed or ``REPRIOR_NATIVE=off`` is set;
array-API code then does the same work. An extension that is installed but cannot be loaded causes
a warning. ``REPRIOR_NATIVE=require`` makes a missing extension an error. ``REPRIOR_SIMD`` chooses
an instruction set, such as ``baseline``; results are the same.

Checks, decisions and sums of rows are defined here, the array code beside the kernel's call.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from reprior._warnings import warn
from reprior.core.threads import in_threads, shares
from reprior.exceptions import MissingDependencyError, OptionError

__all__ = [
    "as_library",
    "by_blocks",
    "class_sums",
    "contiguous",
    "description",
    "host_view",
    "largest_logits",
    "largest_probs",
    "native",
    "normalised_sum",
    "row_sums",
    "serves",
    "strided_rows",
    "totals",
    "weighted_sum",
]

_REMEDY = (
    "For the kernels: `pip install --no-cache-dir --force-reinstall reprior`, or `make native` in "
    "a clone; building them needs GCC 12 or newer, or Clang 14 or newer."
)

_DTYPES = frozenset(map(np.dtype, (np.float16, np.float32, np.float64)))

_TORCH_FLOATS = ("float32", "float64", "float16", "bfloat16")


Vector: TypeAlias = np.ndarray[Any, Any]

Result = TypeVar("Result")

BLOCK_ITEMS = 1 << 17
"""Numbers in a block: they are read at least twice, and stay in the cache."""

ANY_SUM = -1.0
"""The tolerance with which kernels accept rows that are no distributions."""


def _load() -> ModuleType | None:
    choice = os.environ.get("REPRIOR_NATIVE", "")
    if choice not in ("", "off", "require"):
        raise OptionError(
            "REPRIOR_NATIVE must be 'off' or 'require', or not be set.", got=repr(choice)
        )
    if choice == "off":
        return None
    try:
        _native = importlib.import_module("reprior._native")
    except ImportError as error:
        if choice == "require":
            raise MissingDependencyError(
                f"The compiled kernels of reprior must be there with REPRIOR_NATIVE=require. They "
                f"cannot be loaded ({error}).",
                remedy=_REMEDY,
            ) from error
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
                f"REPRIOR_SIMD must be one of {', '.join(_native.levels())} on this processor.",
                got=repr(level),
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
    """Return an array's memory as a NumPy array without a copy, or None if kernels cannot read it.

    Kernels read plain arrays of NumPy, and of PyTorch and JAX in the host's memory. bfloat16,
    which NumPy lacks, is returned as uint16. None for tensors that require gradients, traced,
    compiled or transformed arrays, subclasses, and without the extension.

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
    # First, and apart: compiled code must not touch a tensor's memory.
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
    """Whether a transformation such as vmap, or forward-mode differentiation, tracks a tensor.

    PyTorch has only private names for this. A version without them takes array code.
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
    """Whether a JAX array is no tracer, and is on the host's memory only."""
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
    ordered = np.ascontiguousarray(array, dtype)  # which leaves contiguous arrays misaligned
    return ordered if ordered.flags.aligned else ordered.copy()


def strided_rows(scores: NDArray[Any], *, writable: bool = False) -> NDArray[Any]:
    """View scores (..., K) as (outer, inner, K), as the kernels take rows.

    Axes of samples are merged where their strides allow it. Arrays without such a view, not
    aligned, or with strides that are no multiples of the item size are copied. With ``writable``,
    for arrays to write to, they raise ValueError instead.

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
    has_item_strides = flags.aligned and not any(
        stride % scores.itemsize for stride in scores.strides
    )
    merged = (
        _merged(scores.shape[:-1], scores.strides[:-1])
        if has_item_strides and scores.size
        else None
    )
    if merged is None:
        if writable:
            raise ValueError("The rows of this array have no view of two axes and classes.")
        # A copy: np.ascontiguousarray leaves contiguous rows misaligned.
        return scores.copy(order="C").reshape(1, -1, n_classes)
    (outer, inner), (outer_step, inner_step) = merged
    return np.lib.stride_tricks.as_strided(
        scores,
        (outer, inner, n_classes),
        (outer_step, inner_step, scores.strides[-1]),
        writeable=writable,
    )


def _merged(
    lengths: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return lengths and strides of two axes over the same entries, or None."""
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
    """Return what computes: the extension with its instruction set, or array code and why."""
    if native is not None:
        return f"native ({native.level()})"
    return (
        f"array code (no compiled kernels are installed). {_REMEDY}" if _MISSING else "array code"
    )


def by_blocks(work: Callable[[slice], Result], shape: tuple[int, ...]) -> list[Result]:
    """Return ``work`` of blocks of the rows of an array (N, K), in their order.

    Examples
    --------
    >>> by_blocks(lambda part: part.stop, (5, 2))
    [5]
    """
    n_rows, n_classes = shape
    step = max(1, BLOCK_ITEMS // n_classes)
    blocks = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
    return in_threads(work, blocks, len(shares(n_rows, n_classes)))


def row_sums(block: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sums of rows in float64; faster than `sum` on rows of tens or hundreds."""
    sums: NDArray[np.float64] = np.einsum("nk->n", block, dtype=np.float64, casting="unsafe")
    return sums


def totals(block: NDArray[Any], tolerance: float) -> NDArray[np.float64] | None:
    """Return the sums of rows in float64, or None if one of them is no distribution.

    Examples
    --------
    >>> totals(np.array([[0.2, 0.8]]), 1e-3)
    array([1.])
    >>> totals(np.array([[1.2, -0.2]]), 1e-3)
    """
    if serves(block):
        sums = np.empty(len(block))
        good = native.row_totals(strided_rows(block), tolerance, sums)
        return sums if good else None
    with np.errstate(invalid="ignore", over="ignore"):
        if not block.min() >= 0:  # first: no other pass is as fast
            return None
        sums = row_sums(block)
        good = (np.abs(sums - 1.0) <= tolerance).all()
    return sums if good else None


def largest_logits(block: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return the class of the largest logit of every row, or None if a row has none.

    Examples
    --------
    >>> largest_logits(np.array([[-1.0, 2.0]]))
    array([1])
    >>> largest_logits(np.array([[0.0, np.nan]]))
    """
    if serves(block):
        return _largest(native, block, ANY_SUM)
    classes: NDArray[np.int64] = block.argmax(axis=1)
    # NaN and +inf win the arg max, so every bad score shows up as the largest.
    return classes if np.isfinite(block[np.arange(len(block)), classes]).all() else None


def largest_probs(block: NDArray[Any], tolerance: float) -> NDArray[np.int64] | None:
    """Return the class of the largest of every row, or None if one of them is no distribution.

    Examples
    --------
    >>> largest_probs(np.array([[0.2, 0.8]]), 1e-3)
    array([1])
    >>> largest_probs(np.array([[0.2, 0.9]]), 1e-3)
    """
    if serves(block):
        return _largest(native, block, tolerance)
    return None if totals(block, tolerance) is None else block.argmax(axis=1)


def _largest(native: ModuleType, block: NDArray[Any], tolerance: float) -> NDArray[np.int64] | None:
    classes = np.empty(len(block), np.int64)
    rows = strided_rows(block)
    return classes if native.largest_classes(rows, tolerance, classes) else None


def normalised_sum(
    block: NDArray[Any], tolerance: float
) -> tuple[NDArray[np.float64], Vector] | None:
    """Return the factors that make every row sum to 1, and the sum of such rows, in float64.

    None if one of the rows is no distribution.

    Examples
    --------
    >>> normalised_sum(np.array([[0.5, 0.5], [0.25, 0.75]]), 1e-3)
    (array([1., 1.]), array([0.75, 1.25]))
    >>> normalised_sum(np.array([[np.nan, 0.5]]), 1e-3)
    """
    if serves(block):
        factors = np.empty(len(block))
        sums = np.zeros(block.shape[1])
        rows = strided_rows(block)
        good = native.add_normalised(rows, tolerance, factors, sums)
        return (factors, sums) if good else None
    divisors = totals(block, tolerance)
    return None if divisors is None else (1.0 / divisors, _block_sum(1.0 / divisors, block))


def _block_sum(weights: NDArray[np.float64], block: NDArray[Any]) -> Vector:
    """Return the sum of the rows of a block, each times its weight, in float64."""
    if serves(block):
        sums = np.zeros((1, block.shape[1]))
        native.add_rows(strided_rows(block), contiguous(weights), None, sums)
        total: Vector = sums[0]
        return total
    weighted: Vector = np.einsum("n,nk->k", weights, block)
    return weighted


def weighted_sum(weights: NDArray[np.float64], rows: NDArray[Any]) -> Vector:
    """Return the sum of rows (N, K), each times its weight, in float64."""
    parts = by_blocks(lambda part: _block_sum(weights[part], rows[part]), rows.shape)
    total: Vector = np.sum(parts, axis=0)
    return total


def class_sums(
    weights: NDArray[np.float64], rows: NDArray[Any], labels: NDArray[np.int64]
) -> Vector:
    """Return the sum (K, K) of the rows of each label, each times its weight, in float64."""
    total: Vector = np.zeros((rows.shape[1],) * 2)
    if serves(rows):
        native.add_rows(
            strided_rows(rows), contiguous(weights), contiguous(labels, np.int64), total
        )
        return total
    for label in np.unique(labels):
        some = labels == label
        total[label] = weighted_sum(weights[some], rows[some])
    return total
