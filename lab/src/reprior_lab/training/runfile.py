"""The run file: the settings, versions and results of a run."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from reprior.exceptions import FileFormatError
from reprior.files import MAX_DOCUMENT_BYTES, atomic_write, parse_json, read_limited
from reprior_lab.config import RunConfig

__all__ = [
    "COUNTS",
    "EFFECTIVE_PRIOR",
    "RUN_FILE",
    "RunFile",
    "installed_versions",
    "read_json",
    "write_json",
]

RUN_FILE, COUNTS, EFFECTIVE_PRIOR = "run.json", "counts.json", "effective-prior.json"
FORMAT_VERSION = 1

#: Priors with a smaller relative difference differ only by the rounding of float32 weights.
SAME_PRIOR = 1e-5

_PACKAGES = (
    "reprior",
    "reprior-lab",
    "numpy",
    "torch",
    "lightning",
    "timm",
    "scikit-learn",
    "imbalanced-learn",
)


@dataclass(frozen=True)
class RunFile:
    """The content of ``run.json``.

    Parameters
    ----------
    config : RunConfig
        All settings.
    status : {"running", "finished"}
        Whether the scores are written.
    class_counts : sequence of int
        Training samples of each class.
    effective_prior : sequence of float
        The prior that the network has learnt, as far as it is known.
    epochs : sequence of dict
        For each epoch "epoch" (from 1), "lr", "train_loss", "train_accuracy", and if evaluated
        "accuracy" and "balanced_accuracy" of the test part.
    result : dict
        "accuracy" and "balanced_accuracy" at the end, with more than ten classes "top5_accuracy".
    seconds : float
        Training time, over all sessions.
    versions : dict
        Versions of Python and the packages, and the number of threads: bits depend on them.
    """

    config: RunConfig
    status: str = "running"
    class_counts: Sequence[int] = ()
    effective_prior: Sequence[float] = ()
    epochs: Sequence[Mapping[str, Any]] = ()
    result: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether the run is finished."""
        return self.status == "finished"

    @property
    def learnt_the_counts(self) -> bool:
        """Whether the effective prior equals the share of the training counts.

        Examples
        --------
        >>> run = RunFile(RunConfig.resolve(data="digits"), class_counts=(30, 10))
        >>> run.updated(effective_prior=(0.75, 0.25)).learnt_the_counts
        True
        """
        n = sum(self.class_counts)
        shares = zip(self.class_counts, self.effective_prior, strict=True)
        return all(math.isclose(count / n, share, rel_tol=SAME_PRIOR) for count, share in shares)

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``run.json`` into a folder, atomically.

        Examples
        --------
        >>> folder = getfixture("tmp_path")
        >>> run = RunFile(RunConfig.resolve(data="digits"))
        >>> _ = run.write(folder)
        >>> RunFile.read(folder) == run
        True
        """
        path = Path(folder) / RUN_FILE
        fields = {k: v for k, v in asdict(self).items() if k != "config"}
        config = self.config.to_dict()
        write_json(
            path,
            {"format_version": FORMAT_VERSION, "id": self.config.id, "config": config, **fields},
        )
        return path

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> RunFile:
        """Return the run file of a folder."""
        path = Path(folder) / RUN_FILE
        try:
            document = read_json(path)
            number = document.pop("format_version")
            document.pop("id")
            config = RunConfig.from_dict(document.pop("config"))
            if number == FORMAT_VERSION:
                fields: dict[str, Any] = {
                    key: tuple(value) if isinstance(value, list) else value
                    for key, value in document.items()
                }
                return cls(config, **fields)
        except FileNotFoundError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"A run file must be JSON as reprior wrote it. Got {type(error).__name__}: {error} "
                f"in {path}. Start the run again in another folder."
            ) from error
        raise FileFormatError(
            f"A run file must have format_version {FORMAT_VERSION}. Got {number!r} in {path}. "
            f"Read it with the version of reprior that wrote it."
        )

    def updated(self, **changes: Any) -> RunFile:
        """Return the run file with other values of some fields."""
        return replace(self, **changes)


def read_json(path: Path) -> Any:
    """Return the JSON in a regular file of limited size; ValueError where it is not plain JSON."""
    return parse_json(read_limited(path, MAX_DOCUMENT_BYTES, "a document of a run"))


def write_json(path: Path, document: Any) -> None:
    """Write JSON atomically."""
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    with atomic_write(path) as file:
        file.write(f"{text}\n".encode())


def installed_versions(threads: int) -> dict[str, str]:
    """Return the versions of Python and the packages that a run uses.

    Examples
    --------
    >>> installed_versions(2)["threads"]
    '2'
    """
    versions = {"python": platform.python_version(), "threads": str(threads)}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
