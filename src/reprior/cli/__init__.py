"""The command line: one module per command, loaded when the command is called.

A distribution that adds a command (an entry point of the group ``reprior.commands``, name → click
command) builds it from the names below, so that it prints and fails as the others do::

    @click.command("count", epilog=shows("reprior count labels.csv"))
    @click.argument("labels", type=PATH)
    @session_options  # adds --json and --quiet, passes a Session
    def count(session: Session, labels: str) -> None:
        session.say("…")  # text for a person
        session.result({"n": 3})  # the JSON object, with --json
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reprior.cli.messages import SentenceGroup
    from reprior.cli.options import PATH, Names, collected, folder_option, shows
    from reprior.cli.session import Session, session_options
    from reprior.cli.tables import Grid

__all__ = [
    "PATH",
    "Grid",
    "Names",
    "SentenceGroup",
    "Session",
    "collected",
    "folder_option",
    "session_options",
    "shows",
]

#: Imported on first use: rich takes a tenth of a second to import.
_HOMES = {
    "PATH": "options",
    "Grid": "tables",
    "Names": "options",
    "SentenceGroup": "messages",
    "Session": "session",
    "collected": "options",
    "folder_option": "options",
    "session_options": "session",
    "shows": "options",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'reprior.cli' has no attribute {name!r}")
    return getattr(importlib.import_module(f"reprior.cli.{_HOMES[name]}"), name)
