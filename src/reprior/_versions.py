"""Versions of reprior and of the libraries it uses, for a bug report."""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, distribution, version

from reprior.core import kernels
from reprior.core.threads import n_cores

__all__ = ["show_versions"]


def show_versions() -> None:
    """Print the versions of reprior, Python, NumPy and the optional libraries that are installed.

    Also which kernels are in use (compiled, with their instruction set, or array code) and the
    number of cores. No library is imported for this.

    Examples
    --------
    >>> show_versions()
    reprior: ...
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
        print(f"{name}: {value}")  # noqa: T201 - printing is its purpose


def _installed() -> dict[str, str]:
    """Return the versions of the installed libraries among those that reprior can use."""
    versions = {}
    for requirement in distribution("reprior").requires or []:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        try:
            if name != "reprior":  # an extra that consists of other extras
                versions[name] = version(name)
        except PackageNotFoundError:
            continue
    numpy_first = sorted(versions, key=lambda name: (name != "numpy", name))
    return {name: versions[name] for name in numpy_first}
