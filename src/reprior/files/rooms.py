"""Rooms: hidden folders beside an output, where it is made until it is whole.

The name of a room tells by whom it was made, so that one whose process was killed is known.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import tempfile
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path

__all__ = ["OLD", "new_room", "sweep"]

OLD = "old"
"""Where old data are kept in a room while the new take their name."""

_NAME = re.compile(r"\.reprior-([0-9a-f]{8})-([0-9]+)-[a-z0-9_]{8}")


def new_room(folder: Path) -> Path:
    """Make a room in a folder."""
    return Path(tempfile.mkdtemp(prefix=f".reprior-{_machine()}-{os.getpid()}-", dir=folder))


def sweep(folder: Path) -> None:
    """Remove the rooms that processes of this machine have left in a folder when they were killed.

    Those of processes that run, of other machines, and whatever has another name stay. Data that
    were about to be replaced get their name back.
    """
    try:
        with os.scandir(folder) as entries:
            rooms = [Path(entry) for entry in entries if _NAME.fullmatch(entry.name)]
    except OSError:  # a folder may be one to write to, and not to look into
        return
    for room in rooms:
        found = _NAME.fullmatch(room.name)
        if found is not None and found[1] == _machine() and not _runs(int(found[2])):
            _put_back(room)
            shutil.rmtree(room, ignore_errors=True)


def _put_back(room: Path) -> None:
    """Give old data their name again, where new ones have not taken it."""
    for new in room.iterdir():
        target = room.parent / new.name
        if new.name != OLD and os.path.lexists(room / OLD) and not os.path.lexists(target):
            with suppress(OSError):
                os.rename(room / OLD, target)


@cache
def _machine() -> str:
    """A mark of where process numbers are known: the machine, or a container on it."""
    inside = ""
    with suppress(OSError):
        inside = os.readlink("/proc/self/ns/pid")
    return f"{zlib.crc32(f'{platform.node()} {inside}'.encode()):08x}"


def _runs(pid: int) -> bool:
    """Whether there is such a process; where that cannot be asked, it is taken to be."""
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
