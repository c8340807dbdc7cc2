"""Access to NumPy, PyTorch, JAX and every other array-API library.

Functions of the core get the library of their arguments from :func:`namespace` and compute with
it. Results have the type and the device of the arguments.
"""

import functools
import sys
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

from reprior.exceptions import RepriorError

__all__ = [
    "Array",
    "Namespace",
    "accumulation_dtype",
    "as_array",
    "compute_dtype",
    "constant",
    "device_of",
    "dtype_name",
    "has_float64",
    "is_floating",
    "is_numpy_namespace",
    "is_traced",
    "namespace",
    "to_numpy",
]

Array: TypeAlias = Any
"""An array of any supported library. No common static type exists for them."""

Namespace: TypeAlias = Any
"""An array-API namespace: the module whose functions work on one library's arrays."""

#: The version of the standard that the core is written for.
_ENOUGH = "2023.12"

_PLAIN_TYPES = (bool, int, float, complex, str, list, tuple, np.generic)


def namespace(*arrays: Any) -> Namespace:
    """Return the one array namespace that all arguments share.

    Lists, tuples and scalars belong to no library and join the others; ``None`` is skipped.
    Anything else that is no array-API object (a data frame's column, say) counts as NumPy.

    Examples
    --------
    >>> is_numpy_namespace(namespace([0.2, 0.8], None))
    True
    """
    namespaces: dict[str, Namespace] = {}
    for array in arrays:
        if array is None or isinstance(array, _PLAIN_TYPES):
            continue
        foreign = not isinstance(array, np.ndarray) and array_api_compat.is_array_api_obj(array)
        xp = array_api_compat.array_namespace(array) if foreign else _numpy_namespace()
        namespaces.setdefault(_library_name(xp), xp)
    if len(namespaces) > 1:
        names = sorted(namespaces)
        remedy = "for example with np.asarray (or torch.as_tensor) before the call"
        if "dask" in names:  # which may be larger than memory
            remedy = "the other to Dask's with dask.array.from_array(x, chunks=…)"
        raise RepriorError(
            "scores and labels must come from one array library.",
            got=" and ".join(names),
            remedy=f"Convert them to one, {remedy}.",
        )
    return next(iter(namespaces.values()), None) or _numpy_namespace()


@functools.cache
def _numpy_namespace() -> Namespace:
    """NumPy itself where it is an array-API namespace, as it is from 2.1 on."""
    if getattr(np, "__array_api_version__", "") >= _ENOUGH:
        return np
    # Imported only where needed: it loads all of NumPy, which takes a tenth of a second.
    import array_api_compat.numpy as xp

    return xp


def _library_name(xp: Namespace) -> str:
    name = str(xp.__name__).removeprefix("array_api_compat.")
    return name.split(".")[0]


def is_numpy_namespace(xp: Namespace) -> bool:
    """Tell whether ``xp`` computes on NumPy arrays."""
    return _library_name(xp) == "numpy"


def as_array(values: Any, xp: Namespace, *, like: Array | None = None) -> Array:
    """Return ``values`` as an array of ``xp``; an array of ``xp`` is returned as it is.

    ``like`` gives the device for values that are no array yet.
    """
    if is_numpy_namespace(xp):
        return np.asarray(values)
    if array_api_compat.is_array_api_obj(values) and not isinstance(values, np.generic):
        return values
    return constant(np.asarray(values), xp, like=like)


def constant(values: Any, xp: Namespace, *, like: Array | None = None, dtype: Any = None) -> Array:
    """Return NumPy ``values`` as an array of ``xp`` on the device of ``like``."""
    host = np.asarray(values)
    if dtype is None and host.dtype == np.float64:
        dtype = accumulation_dtype(xp, device_of(like))
    if is_numpy_namespace(xp):
        return np.asarray(host, dtype=dtype)
    # A copy: some libraries would otherwise share, or refuse, read-only memory.
    return xp.asarray(
        host.tolist() if host.ndim == 0 else host.copy(), dtype=dtype, device=device_of(like)
    )


def device_of(array: Array | None) -> Any:
    """Return the device of ``array``; ``None`` where the library chooses (NumPy, tracers)."""
    if array is None or isinstance(array, np.ndarray) or is_traced(array):
        return None
    return array_api_compat.device(array)


def is_traced(array: Array) -> bool:
    """Tell whether the values of ``array`` cannot be read now.

    True for JAX tracers (under ``jax.jit``, ``grad``, ``vmap``) and for Dask arrays, which are
    lazy. Checks that depend on values are skipped for these.
    """
    if array_api_compat.is_jax_array(array):
        return isinstance(array, sys.modules["jax"].core.Tracer)
    return bool(array_api_compat.is_dask_array(array))


def dtype_name(dtype: Any) -> str:
    """Return the library-independent name of a dtype, such as ``"float32"``.

    Examples
    --------
    >>> dtype_name(np.dtype(">f4"))
    'float32'
    """
    if isinstance(dtype, np.dtype):
        return _numpy_dtype_name(dtype)
    return str(dtype).rsplit(".", maxsplit=1)[-1]


@functools.cache
def _numpy_dtype_name(dtype: np.dtype[Any]) -> str:
    # NumPy assembles the name at every call, which is slow beside scores of one sample.
    return dtype.name


def is_floating(dtype: Any) -> bool:
    """Tell whether ``dtype`` is a real floating type, 16-bit ones of any library included."""
    return dtype_name(dtype).startswith(("float", "bfloat", "longdouble"))


def has_float64(xp: Namespace, device: Any = None) -> bool:
    """Tell whether the library offers float64 on the device (JAX without x64 does not)."""
    if is_numpy_namespace(xp):
        return True
    if getattr(device, "type", None) == "mps":
        return False
    default = xp.__array_namespace_info__().dtypes(kind="real floating")
    return "float64" in default


def accumulation_dtype(xp: Namespace, device: Any = None) -> Any:
    """Return float64 where the library and the device have it, float32 elsewhere."""
    return xp.float64 if has_float64(xp, device) else xp.float32


def compute_dtype(xp: Namespace, dtype: Any, device: Any = None) -> Any:
    """Return the dtype in which scores of ``dtype`` are computed.

    16-bit floats are computed in float32, float32 and float64 in themselves, integers in
    float64 where there is one.

    Examples
    --------
    >>> [dtype_name(np.dtype(compute_dtype(np, np.dtype(d)))) for d in ("f2", "f4", "f8", "i4")]
    ['float32', 'float32', 'float64', 'float64']
    """
    name = dtype_name(dtype)
    if name == "float32" or name.startswith(("float16", "bfloat16", "float8")):
        return xp.float32
    return accumulation_dtype(xp, device)


def to_numpy(array: Any) -> np.ndarray[Any, Any]:
    """Return ``array`` as a NumPy array, without a copy where the memory can be shared.

    Gradients are detached; bfloat16, which NumPy does not know, becomes float32.
    """
    if isinstance(array, np.ndarray):
        return np.asarray(array)
    if array_api_compat.is_torch_array(array):
        tensor = array.detach().cpu()
        return np.asarray(tensor.float() if dtype_name(tensor.dtype) == "bfloat16" else tensor)
    if array_api_compat.is_jax_array(array):
        host = np.asarray(array)
        return host.astype(np.float32) if dtype_name(host.dtype) == "bfloat16" else host
    if array_api_compat.is_cupy_array(array):
        return np.asarray(array.get())
    if hasattr(array, "__dlpack__") and not isinstance(array, np.generic):
        return np.from_dlpack(array)
    return np.asarray(array)
