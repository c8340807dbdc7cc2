"""Numbers inside a page: JSON that no class name can break out of, arrays as base64."""

from __future__ import annotations

import base64
import json
import math
from typing import Any, TypeAlias

import numpy as np

__all__ = ["exactly", "packed", "script_json", "smallest_ids"]

Vector: TypeAlias = np.ndarray[Any, Any]


def packed(values: Any, dtype: str = "f8") -> dict[str, str]:
    """An array as its bytes, little-endian, in base64, with its type.

    Examples
    --------
    >>> packed([1, 2], "u2")
    {'type': 'u2', 'data': 'AQACAA=='}
    """
    array = np.ascontiguousarray(values, dtype=f"<{dtype}")
    return {"type": dtype, "data": base64.b64encode(array.tobytes()).decode("ascii")}


def exactly(values: Any, otherwise: str = "f8") -> dict[str, str]:
    """An array packed in the smallest type of whole numbers, or else in type ``otherwise``.

    Examples
    --------
    >>> exactly([0, 300])["type"], exactly([0.5, 300])["type"]
    ('u2', 'f8')
    """
    array = np.asarray(values, np.float64)
    whole = bool(((array >= 0) & (array < 1 << 32) & (array % 1 == 0)).all())
    return packed(array, smallest_ids(int(array.max(initial=0))) if whole else otherwise)


def smallest_ids(n_classes: int) -> str:
    """The type that holds class indices and K itself, which stands for no class."""
    return "u1" if n_classes < 1 << 8 else "u2" if n_classes < 1 << 16 else "u4"


def script_json(data: Any) -> str:
    r"""JSON for the inside of a ``<script>`` element; what is not a finite number is null.

    Examples
    --------
    >>> print(script_json({"name": "</script>", "value": float("nan")}))
    {"name":"\u003c/script\u003e","value":null}
    """
    text = json.dumps(_finite(data), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # Inside strings only: JSON has none of these elsewhere.
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data
