"""The run file of a segmentation network."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from reprior.exceptions import FileFormatError
from reprior.experiments.synthia.settings import FIRST_RECIPE, RECIPE, NetworkSettings
from reprior.experiments.training.runfile import RUN_FILE, write_json

__all__ = ["NetworkRun"]

FORMAT_VERSION = 1


@dataclass(frozen=True)
class NetworkRun:
    """What ``run.json`` says of a segmentation network.

    Parameters
    ----------
    settings : NetworkSettings
        All settings.
    data : str
        The digest of the training part.
    status : {"running", "finished"}
        Whether the network is trained.
    classes : sequence of str
        Their names.
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
        Time spent training, over all sittings.
    versions : dict
        Of Python and the packages.
    notes : sequence of str
        What is absent where in the data.
    recipe : int
        :data:`~reprior.experiments.synthia.settings.RECIPE` when it was trained.
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
        """What the result depends on."""
        return {**self.settings.to_dict(), "data": self.data, "recipe": self.recipe}

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``run.json`` into a folder, whole or not at all.

        Examples
        --------
        >>> folder = getfixture("tmp_path")
        >>> run = NetworkRun(NetworkSettings(loss="focal"), classes=("road", "sky"))
        >>> _ = run.write(folder)
        >>> NetworkRun.read(folder) == run
        True
        """
        path = Path(folder) / RUN_FILE
        own = {k: v for k, v in asdict(self).items() if k != "settings"}
        settings = self.settings.to_dict()
        write_json(
            path,
            {"format_version": FORMAT_VERSION, "id": self.settings.id, "settings": settings, **own},
        )
        return path

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> NetworkRun:
        """Return the run file of a folder."""
        path = Path(folder) / RUN_FILE
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            number = document.pop("format_version")
            document.pop("id")
            settings = NetworkSettings.from_dict(document.pop("settings"))
            if number == FORMAT_VERSION:
                own: dict[str, Any] = {
                    k: tuple(v) if isinstance(v, list) else v for k, v in document.items()
                }
                return cls(settings, **{"recipe": FIRST_RECIPE, **own})
        except FileNotFoundError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"A run file must be JSON as reprior wrote it. Got {type(error).__name__}: {error} "
                f"in {path}. Start the run anew in another folder."
            ) from error
        raise FileFormatError(
            f"A run file must have format_version {FORMAT_VERSION}. Got {number!r} in {path}. "
            f"Read it with the version of reprior that wrote it."
        )

    def updated(self, **changes: Any) -> NetworkRun:
        """Return the run file with other values of some fields."""
        return replace(self, **changes)
