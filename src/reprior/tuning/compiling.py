"""When the loops of this package are compiled (numba), and when they are array code."""

from __future__ import annotations

import sys

from reprior.core.threads import has_numba

__all__ = ["WORTH_COMPILING", "compiles", "has_numba"]

WORTH_COMPILING = 1 << 19
"""Scores from which on a compiled pass pays for being loaded."""


def compiles(size: int) -> bool:
    """Whether a loop over ``size`` items is compiled.

    Compiling takes seconds, once, and loading what was compiled before a second. Small work is
    done sooner in arrays, unless something was compiled in this process already.
    """
    return has_numba() and (size >= WORTH_COMPILING or "reprior.tuning.compiled" in sys.modules)
