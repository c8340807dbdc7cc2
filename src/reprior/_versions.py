"""Versions of reprior and of what it runs on, for a bug report."""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, distribution, version

from reprior.core import kernels
from reprior.core.threads import n_cores

__all__ = ["show_versions"]


def show_versions() -> None:
    """Print the versions of reprior, Python, NumPy and the optional libraries that are installed.

    Also what computes (compiled kernels with their instruction set, or array code) and on how many
    cores. No library is imported for it.

    Examples
    --------
    >>> show_versions()
    reprior: 0.1.0
    python: ...
    platform: ...
    kernels: ...
    cores: ...
    numpy: ...
    """
    facts = {
        "reprior": version("reprior"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "kernels": kernels.description(),
        "cores": str(n_cores()),
        **_installed(),
    }
    for name, value in facts.items():
        print(f"{name}: {value}")  # noqa: T201 - it is for reading


def _installed() -> dict[str, str]:
    """Return the versions of what reprior requires or can use, and is installed."""
    found = {}
    for requirement in distribution("reprior").requires or []:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        try:
            if name != "reprior":  # an extra that is made of others
                found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {name: found[name] for name in sorted(found, key=lambda name: (name != "numpy", name))}
