"""Print the oldest versions that pyproject.toml allows, as requirements for pip.

PyTorch and Lightning are left out: an old PyTorch is a gigabyte. Where a dependency has no lower
bound, pip chooses.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

EXTRAS = ("cli", "dask", "frames", "onnx", "plots", "sklearn", "zarr")
TESTING = ("hypothesis", "pytest", "pytest-timeout", "pytest-xdist", "scipy", "sybil")


def main() -> None:
    """Replace each ``>=`` by ``==``."""
    home = Path(__file__).parents[2]
    project = tomllib.loads((home / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    allowed = [*project["dependencies"], *(name for extra in EXTRAS for name in extras[extra])]
    print("\n".join(sorted({re.sub(">=", "==", each) for each in allowed} | set(TESTING))))  # noqa: T201


if __name__ == "__main__":
    main()
