"""Memory is used again once nothing looks at it, and never before."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from reprior.core.memory_pool import MemoryPool

FLOAT = np.dtype(np.float32)


def place(array):
    return array.__array_interface__["data"][0]


def test_memory_of_an_array_that_is_gone_is_used_again():
    pool = MemoryPool()
    array = pool.empty((50, 4), FLOAT)
    assert (array.shape, array.dtype, array.flags.writeable) == ((50, 4), FLOAT, True)
    first = place(array)
    del array
    smaller = pool.empty((100,), np.dtype("U2"))  # as many bytes
    assert place(smaller) == first
    smaller[:] = "ab"
    assert set(smaller) == {"ab"}


@pytest.mark.parametrize(
    "look",
    [
        lambda array: array[3:7],
        lambda array: array.reshape(-1),
        lambda array: array.T[1:],
        lambda array: array.view(np.int32),
        memoryview,
        lambda array: np.asarray(array)[None],
        lambda array: np.lib.stride_tricks.as_strided(array, (3,), (4,)),
        np.ma.masked_array,
        iter,
    ],
)
def test_a_view_keeps_it(look):
    pool = MemoryPool()
    array = pool.empty((20, 5), FLOAT)
    array[:] = 7.0
    first, view = place(array), look(array)
    del array
    others = [pool.empty((20, 5), FLOAT) for _ in range(3)]
    for other in others:
        other[:] = -1.0
    assert first not in map(place, others)
    kept = np.asarray(list(view) if hasattr(view, "__next__") else view)
    assert (kept.view(np.float32) == 7.0).all()


def test_what_is_too_small_is_let_go_of():
    pool = MemoryPool()
    small, large = pool.empty((10,), FLOAT), pool.empty((1000,), FLOAT)
    at = place(large)
    del small, large
    assert place(pool.empty((500,), FLOAT)) == at
    assert len(pool._free) == 1


def test_threads_share_it():
    pool, wrong = MemoryPool(), []

    def work(value):
        for _ in range(300):
            array = pool.empty((256,), FLOAT)
            array[:] = value
            if (array != value).any():  # pragma: no cover - it never is
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert 1 <= len(pool._free) <= 4
