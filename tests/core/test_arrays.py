from __future__ import annotations

import types

import array_api_strict
import dask.array as da
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from tests.support.backends import BACKENDS, library_of

from reprior import RepriorError
from reprior.core import arrays


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_namespace_is_that_of_the_arguments(backend):
    array = backend.make([1.0, 2.0])
    xp = arrays.namespace(array, None, [0, 1], 3.0)
    assert library_of(xp.asarray([1.0])) == backend.library
    assert arrays.is_numpy_namespace(xp) == (backend.library == "numpy")


def test_plain_values_and_foreign_columns_count_as_numpy():
    column = types.SimpleNamespace(values=[1, 2])
    assert arrays.is_numpy_namespace(arrays.namespace())
    assert arrays.is_numpy_namespace(arrays.namespace([1, 2], np.float64(3)))
    assert arrays.is_numpy_namespace(arrays.namespace(column))


def test_mixed_libraries_are_refused_with_the_remedy():
    with pytest.raises(RepriorError, match=r"one array library\. Got numpy and torch\. Convert"):
        arrays.namespace(torch.zeros(2), np.zeros(2))


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_to_numpy_keeps_values(backend):
    host = arrays.to_numpy(backend.make([[1.5, -2.0], [0.25, 8.0]]))
    assert type(host) is np.ndarray
    np.testing.assert_array_equal(host.astype(np.float64), [[1.5, -2.0], [0.25, 8.0]])


def test_to_numpy_shares_memory_and_detaches():
    tensor = torch.zeros(3, requires_grad=True)
    assert np.shares_memory(arrays.to_numpy(tensor), tensor.detach().numpy())
    given = np.arange(3)
    assert np.shares_memory(arrays.to_numpy(given), given)


def test_to_numpy_of_other_things(monkeypatch):
    assert arrays.to_numpy([1, 2]).tolist() == [1, 2]
    assert arrays.to_numpy(np.float32(2)).shape == ()
    assert arrays.to_numpy(jnp.asarray([1.0], dtype=jnp.bfloat16)).dtype == np.float32
    on_gpu = types.SimpleNamespace(get=lambda: np.array([1.0, 2.0]))
    monkeypatch.setattr(arrays.array_api_compat, "is_cupy_array", lambda x: x is on_gpu)
    assert arrays.to_numpy(on_gpu).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "name, expected",
    [
        ("float16", "float32"),
        ("bfloat16", "float32"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("int64", "float64"),
    ],
)
def test_compute_dtype_of_torch(name, expected):
    xp = arrays.namespace(torch.zeros(1))
    assert arrays.dtype_name(arrays.compute_dtype(xp, getattr(torch, name))) == expected


def test_jax_computes_integers_in_its_default_float():
    xp = arrays.namespace(jnp.zeros(1))
    assert arrays.compute_dtype(xp, jnp.int32) == jnp.float32
    with jax.enable_x64(True):
        assert arrays.compute_dtype(xp, jnp.int32) == jnp.float64


def test_apple_gpus_have_no_float64():
    xp = arrays.namespace(torch.zeros(1))
    assert not arrays.has_float64(xp, torch.device("mps"))
    assert arrays.accumulation_dtype(xp, torch.device("mps")) == torch.float32


def test_floating_dtypes_of_every_library():
    assert arrays.is_floating(torch.bfloat16)
    assert arrays.is_floating(np.dtype(np.longdouble))
    assert arrays.is_floating(array_api_strict.float32)
    assert not arrays.is_floating(np.dtype(bool))
    assert not arrays.is_floating(torch.int64)


def test_traced_values_are_recognised():
    seen = []

    @jax.jit
    def look(x):
        seen.append((arrays.is_traced(x), arrays.device_of(x)))
        return x

    look(jnp.zeros(2))
    assert seen == [(True, None)]
    assert not arrays.is_traced(jnp.zeros(2))
    assert arrays.is_traced(da.zeros(3))
    assert not arrays.is_traced(np.zeros(2))


@pytest.mark.parametrize("backend", BACKENDS, ids=str)
def test_as_array_and_constant_follow_the_library(backend):
    like = backend.make([1.0])
    xp = arrays.namespace(like)
    assert arrays.as_array(like, xp) is like
    for made in (arrays.as_array([1.0, 2.0], xp, like=like), arrays.constant([1.0], xp, like=like)):
        assert library_of(made) == backend.library
        assert made.dtype == arrays.accumulation_dtype(xp, arrays.device_of(like))
    assert arrays.constant(2, xp, like=like).shape == ()


def test_constant_copies_what_is_read_only():
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    xp = arrays.namespace(torch.zeros(1))
    assert not np.shares_memory(arrays.constant(frozen, xp).numpy(), frozen)


def test_a_dask_array_is_not_to_be_pulled_into_memory():
    lazy = pytest.importorskip("dask.array").ones(3)
    words = (
        r"Got dask and numpy\. Convert them to one, the other to Dask's with dask\.array\.from_a"
    )
    with pytest.raises(RepriorError, match=words):
        arrays.namespace(lazy, np.zeros(3))


@pytest.mark.parametrize(
    "version, name", [("2022.12", "array_api_compat.numpy"), ("2024.12", "numpy")]
)
def test_a_new_numpy_is_its_own_namespace(monkeypatch, version, name):
    monkeypatch.setattr(np, "__array_api_version__", version, raising=False)  # not in NumPy 1
    arrays._numpy_namespace.cache_clear()
    assert arrays.namespace(np.zeros(2)).__name__ == name
    monkeypatch.undo()
    arrays._numpy_namespace.cache_clear()
