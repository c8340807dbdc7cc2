"""Warnings that are taken down where they arise, and said where the user calls."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from reprior.exceptions import RepriorWarning

__all__ = ["heard"]


@contextmanager
def heard(sentences: list[str]) -> Iterator[None]:
    """Add what reprior warns of to ``sentences``, each once; warnings of others go their way.

    Examples
    --------
    >>> said: list[str] = []
    >>> with heard(said):
    ...     warnings.warn("few labels", RepriorWarning)
    >>> said
    ['few labels']
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for each in caught:
        if not issubclass(each.category, RepriorWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        elif str(each.message) not in sentences:
            sentences.append(str(each.message))
