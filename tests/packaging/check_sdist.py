"""Whether a source distribution has every file of the repository: `python check_sdist.py FILE`.

The gallery's scores are left out, as other people's data have terms of their own, and so is what
only continuous integration needs.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile

LEFT_OUT = (".ci/", "docs/gallery/data/")


def main() -> None:
    """Compare the archive with git's list; outside of a clone there is nothing to compare with."""
    listing = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=False)
    if listing.returncode:
        return
    with tarfile.open(sys.argv[1]) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {name for name in listing.stdout.splitlines() if not name.startswith(LEFT_OUT)}
    assert len(wanted) > 100, "git lists hardly any file"
    missing = sorted(wanted - packed)
    assert not missing, f"{len(missing)} files are missing, such as {missing[:5]}"


if __name__ == "__main__":
    main()
