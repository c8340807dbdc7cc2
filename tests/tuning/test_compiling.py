"""When loops are compiled."""

from __future__ import annotations

import sys

from reprior.tuning import compiled, compiling
from reprior.tuning.compiling import compiles, has_numba


def test_numba_is_here_to_be_tested():
    assert has_numba()


def test_small_work_is_compiled_only_where_something_was_compiled_before(monkeypatch):
    assert compiled is not None
    large = compiling.WORTH_COMPILING
    assert compiles(1)
    assert compiles(large)
    monkeypatch.delitem(sys.modules, "reprior.tuning.compiled")
    assert not compiles(large - 1)
    assert compiles(large)
    monkeypatch.setattr(compiling, "has_numba", lambda: False)
    assert not compiles(large)
