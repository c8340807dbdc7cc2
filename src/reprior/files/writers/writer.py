"""What every writer of outputs offers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from reprior.files.chunk import Chunk

__all__ = ["Layout", "Vector", "Writer"]

Vector: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layout:
    """What an output holds beside its rows."""

    classes: tuple[str, ...] | None
    n_samples: int | None
    keep: bool
    kind: str | None
    label_column: str
    score_columns: tuple[str, ...]
    inputs: tuple[Any, ...]
    has_labels: bool = False
    delimiter: str = ","
    decisions: tuple[str, ...] | None = None

    @property
    def classes_json(self) -> str:
        """Class names as JSON."""
        return json.dumps(list(self.classes or ()), ensure_ascii=False)


class Writer(Protocol):
    """An output that is being written."""

    @property
    def notes(self) -> list[str]:
        """Sentences that a command should show."""
        ...

    def write(self, chunk: Chunk, posterior: Any, prediction: Any) -> None:
        """Append the posterior and the predicted class indices of a chunk."""
        ...

    def close(self) -> None:
        """Write what is left, so that the file is whole."""
        ...

    def abandon(self) -> None:
        """Let go of everything that is open; the file will not be used."""
        ...
