"""How many examples property tests try."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["FEWER_EXAMPLES"]

FEWER_EXAMPLES = settings(max_examples=settings().max_examples // 4)
"""For properties whose oracle is slow: a quarter of what the profile asks for."""
