"""Array libraries and dtypes to test with, tolerances, and Hypothesis strategies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
"""Spacing of numbers at 1."""

OPERATIONS = 16
"""Roundings that may add up in softmax(z/T + λw) of a row: the formula has six operations, and the
exponential multiplies the error of its argument by the argument's size."""

EXACT = 1e-12
"""float64 results by two routes: a few hundred roundings of 2e-16."""


def to_torch(values: NDArray[Any], dtype: str) -> torch.Tensor:
    return torch.as_tensor(np.array(values)).to(getattr(torch, dtype))


def to_jax(values: NDArray[Any], dtype: str) -> jax.Array:
    return jnp.asarray(values, dtype=dtype)


def to_strict(values: NDArray[Any], dtype: str) -> Any:
    return array_api_strict.asarray(np.asarray(values, dtype=dtype))


@dataclass(frozen=True)
class Backend:
    """An array library, and one of its floating dtypes."""

    library: str
    dtype: str
    make_array: Callable[[NDArray[Any], str], Any]

    def __str__(self) -> str:
        return f"{self.library}-{self.dtype}"

    def make(self, values: Any) -> Any:
        return self.make_array(np.asarray(values), self.dtype)

    def make_integers(self, values: Any) -> Any:
        values = np.asarray(values)
        return self.make_array(values, "int32" if self.library == "jax" else "int64")


def _numpy(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    return np.array(values, dtype=jnp.bfloat16 if dtype == "bfloat16" else dtype)


BACKENDS = [
    Backend(library, dtype, make)
    for library, make, dtypes in (
        ("numpy", _numpy, ("float16", "bfloat16", "float32", "float64")),
        ("torch", to_torch, ("float16", "bfloat16", "float32", "float64")),
        ("jax", to_jax, ("float16", "bfloat16", "float32")),
        ("array_api_strict", to_strict, ("float32", "float64")),
    )
    for dtype in dtypes
]
"""JAX has no float64 by default; array-api-strict has no 16-bit types."""

WIDE_BACKENDS = [b for b in BACKENDS if b.dtype in ("float32", "float64")]


def library_of(array: Any) -> str:
    name = type(array).__module__.split(".")[0]
    return "jax" if name.startswith("jax") else name


def logits(
    *,
    min_classes: int = 2,
    max_classes: int = 6,
    max_samples: int = 5,
    size: float = 20.0,
) -> st.SearchStrategy[NDArray[np.float64]]:
    """Return a strategy for float64 logits (N, K)."""
    shapes = st.tuples(st.integers(1, max_samples), st.integers(max(2, min_classes), max_classes))
    # Outside [0, 1], so that no row looks like probabilities.
    numbers = st.one_of(st.floats(-size, -0.5), st.floats(1.5, size))
    return shapes.flatmap(lambda shape: hnp.arrays(np.float64, shape, elements=numbers))


def priors(n_classes: int) -> st.SearchStrategy[NDArray[np.float64]]:
    """Return a strategy for priors of ``n_classes`` with ratios up to 1000."""
    masses = hnp.arrays(np.float64, n_classes, elements=st.floats(0.001, 1.0))
    return masses.map(lambda mass: mass / mass.sum())


@st.composite
def problems(draw: st.DrawFn, **options: Any) -> tuple[NDArray[np.float64], ...]:
    """Draw logits (N, K), a source prior and a target prior."""
    z = draw(logits(**options))
    return z, draw(priors(z.shape[1])), draw(priors(z.shape[1]))
