"""The command ``reprior``, also as ``python -m reprior``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

USAGE_ERROR, INTERRUPTED = 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0 where all went well, 2 after one sentence about what did not, 130 after Ctrl-C.

    Examples
    --------
    >>> main(["--version"])
    reprior, version ...
    0
    """
    try:
        from reprior.files.interrupts import record_interrupts

        with record_interrupts():
            return _run(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:  # while still importing
        sys.stderr.write("Interrupted: nothing half-written is left.\n")
        return INTERRUPTED


def _run(argv: Sequence[str]) -> int:
    """Import the command line, or say what it needs, and run it."""
    from reprior.exceptions import RepriorError, require
    from reprior.files.interrupts import raise_if_interrupted

    try:
        for library in ("click", "rich"):
            require(library, extra="cli", purpose="For the command line")
        from reprior.cli.app import run

        raise_if_interrupted()
        return run(argv)
    except RepriorError as error:  # environment variables are read when a part is loaded
        sys.stderr.write(f"Error: {error}\n")
        return USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
