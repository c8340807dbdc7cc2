"""The run file of a segmentation network, and digests of the score files of a result."""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from reprior.exceptions import FileFormatError
from reprior_lab.synthia.settings import FIRST_RECIPE, RECIPE, NetworkSettings
from reprior_lab.training.runfile import RUN_FILE, read_json, write_json

__all__ = [
    "NetworkRun",
    "changed",
    "digests_of",
    "reading_scores",
    "score_path",
    "scored_conditions",
    "scored_names",
]

#: Exceptions that reading a damaged archive raises.
DAMAGE = (
    AttributeError,
    EOFError,
    KeyError,
    NotImplementedError,
    OSError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)

SCORES = "scores"

FORMAT_VERSION = 1


def score_path(folder: str | os.PathLike[str], condition: str) -> Path:
    """Return the path of a network's scores under a condition.

    Examples
    --------
    >>> score_path("runs/rgb-ce", "fog").as_posix()
    'runs/rgb-ce/scores/fog.npz'
    """
    return Path(folder) / SCORES / f"{condition}.npz"


def digests_of(home: Path, conditions: Iterable[str]) -> dict[str, str]:
    """Return a digest of each score file of a network.

    It covers the names, sizes and checksums of the arrays in the archive, which depend on their
    content, not on the time of writing.
    """
    return {name: _digest(score_path(home, name)) for name in conditions}


def changed(made_of: Mapping[str, str], home: Path) -> bool:
    """Return whether a score file differs from the one that a result was made of.

    A missing file counts as unchanged: results may be kept without their scores.
    """
    present = [name for name in made_of if score_path(home, name).exists()]
    return any(digest != made_of[name] for name, digest in digests_of(home, present).items())


def scored_conditions(homes: Iterable[Path], conditions: Iterable[str]) -> list[str]:
    """Return those conditions under which all networks are scored."""
    folders = list(homes)
    return [name for name in conditions if all(score_path(home, name).exists() for home in folders)]


def scored_names(home: Path, condition: str) -> tuple[str, ...]:
    """Return the names of the frames in a score file, without reading the scores."""
    path = score_path(home, condition)
    with reading_scores(path), path.open("rb") as file, np.load(file, allow_pickle=False) as found:
        return tuple(str(name) for name in found["names"])


def _digest(path: Path) -> str:
    with reading_scores(path), zipfile.ZipFile(path) as archive:
        held = sorted((each.filename, each.file_size, each.CRC) for each in archive.infolist())
    return hashlib.sha256(repr(held).encode()).hexdigest()[:16]


@contextmanager
def reading_scores(path: Path) -> Iterator[None]:
    """Name the score file in the error, if it is damaged."""
    try:
        yield
    except FileNotFoundError:
        raise
    except DAMAGE as error:
        raise FileFormatError(
            f"A score file must be a complete npz with scores, labels and names. Got {path}: "
            f"{error}. Remove it and score again."
        ) from error


@dataclass(frozen=True)
class NetworkRun:
    """The content of a segmentation network's ``run.json``.

    Parameters
    ----------
    settings : NetworkSettings
        All settings.
    data : str
        The digest of the training part.
    status : {"running", "finished"}
        Whether the network is trained.
    classes : sequence of str
        The names of the classes.
    class_counts : sequence of int
        Training pixels of each class.
    effective_prior : sequence of float
        The prior that the network has learnt, as far as it is known: counts times loss weights.
    n_train : int
        Training frames.
    epochs : sequence of dict
        For each pass over the frames "epoch" (from 1), "step", "lr", "train_loss",
        "train_accuracy".
    result : dict
        "accuracy", "balanced_accuracy" and "mean_iou" of the held-out frames at the end.
    seconds : float
        Training time, over all sessions.
    versions : dict
        Versions of Python and the packages.
    notes : sequence of str
        Remarks on classes that are absent from parts of the data.
    recipe : int
        The value of :data:`~reprior_lab.synthia.settings.RECIPE` at the time of training.
    """

    settings: NetworkSettings
    data: str = ""
    status: str = "running"
    classes: Sequence[str] = ()
    class_counts: Sequence[int] = ()
    effective_prior: Sequence[float] = ()
    n_train: int = 0
    epochs: Sequence[Mapping[str, Any]] = ()
    result: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    recipe: int = RECIPE

    @property
    def finished(self) -> bool:
        """Whether the network is trained."""
        return self.status == "finished"

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that the result depends on."""
        return {**self.settings.to_dict(), "data": self.data, "recipe": self.recipe}

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``run.json`` into a folder, atomically.

        Examples
        --------
        >>> folder = getfixture("tmp_path")
        >>> run = NetworkRun(NetworkSettings(loss="focal"), classes=("road", "sky"))
        >>> _ = run.write(folder)
        >>> NetworkRun.read(folder) == run
        True
        """
        path = Path(folder) / RUN_FILE
        fields = {k: v for k, v in asdict(self).items() if k != "settings"}
        settings = self.settings.to_dict()
        write_json(
            path,
            {
                "format_version": FORMAT_VERSION,
                "id": self.settings.id,
                "settings": settings,
                **fields,
            },
        )
        return path

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> NetworkRun:
        """Return the run file of a folder."""
        path = Path(folder) / RUN_FILE
        try:
            document = read_json(path)
            number = document.pop("format_version")
            document.pop("id")
            settings = NetworkSettings.from_dict(document.pop("settings"))
            if number == FORMAT_VERSION:
                fields: dict[str, Any] = {
                    k: tuple(v) if isinstance(v, list) else v for k, v in document.items()
                }
                return cls(settings, **{"recipe": FIRST_RECIPE, **fields})
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

    def updated(self, **changes: Any) -> NetworkRun:
        """Return the run file with other values of some fields."""
        return replace(self, **changes)
