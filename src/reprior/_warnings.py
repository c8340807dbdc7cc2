"""Warnings point at the user's line, wherever in this package they arise."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

from reprior.exceptions import RepriorWarning, Text

__all__ = ["collect_warnings", "warn"]

#: Packages that warn through here: this one and the lab.
_PACKAGES = ("reprior", "reprior_lab")

#: Names of folders that packages are installed in; Debian's Python has the second.
_PACKAGES_FOLDERS = ("site-packages", "dist-packages")


def warn(warning: Text | RepriorWarning) -> None:
    """Warn at the user's line: the innermost frame outside of these packages and other libraries.

    Frames of libraries are skipped, so that a fit inside of scikit-learn's cross-validation warns
    where the user called that. Without a user's frame, the warning points at the caller of
    these packages.
    """
    made = warning if isinstance(warning, RepriorWarning) else RepriorWarning(warning)
    frame = _user_frame(sys._getframe(1))
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    file = frame.f_code.co_filename
    name = frame.f_globals.get("__name__") or file  # executed code may have none; None is dropped
    warnings.warn_explicit(made, type(made), file, frame.f_lineno, module=name, registry=registry)


@contextmanager
def collect_warnings(collected: list[RepriorWarning]) -> Iterator[None]:
    """Collect reprior's warnings in ``collected``, each once; re-issue other warnings.

    Examples
    --------
    >>> collected: list[RepriorWarning] = []
    >>> with collect_warnings(collected):
    ...     warn("few labels")
    ...     warn("few labels")
    >>> [str(each) for each in collected]
    ['few labels']
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for each in caught:
        if not isinstance(each.message, RepriorWarning):
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
        elif each.message not in collected:
            collected.append(each.message)


def _user_frame(frame: FrameType) -> FrameType:
    caller: FrameType | None = None
    outer: FrameType | None = frame
    last = frame
    while outer is not None:
        last = outer
        if _is_own(outer):
            caller = None
        else:
            if not _is_library(outer.f_code.co_filename):
                return outer
            caller = caller or outer
        outer = outer.f_back
    return caller or last


def _is_own(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _PACKAGES


def _is_library(file: str) -> bool:
    """Whether a file is of the standard library or of an installed package.

    Packages may be in several folders: those of the user and of the system are beside the
    environment's own.
    """
    return any(name in _PACKAGES_FOLDERS for name in Path(file).parts) or file.startswith(
        _library_folders()
    )


@cache
def _library_folders() -> tuple[str, ...]:
    """Return the folders of the standard library and of the environment's packages."""
    import sysconfig

    return tuple(sysconfig.get_path(n) for n in ("stdlib", "platstdlib", "purelib", "platlib"))
