"""The parts of an experiment: frames to learn from, to tune on, and to judge on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from reprior.core.checks import check_choice, check_finite_number
from reprior.exceptions import LabelsError
from reprior.experiments.synthia.frames import Frame, Frames, FrameSource
from reprior.experiments.synthia.readers import open_sequences, open_sf
from reprior.experiments.synthia.splits import absences, hold_out, places_of
from reprior.experiments.synthia.weather import CONDITIONS, apply_weather

__all__ = ["SegmentationData", "WeatherFrames", "open_data", "open_sequence_data", "split_data"]

Array: TypeAlias = np.ndarray[Any, Any]

#: Conditions of SYNTHIA-Sequences that the paper learns from, and that it judges on.
SEEN = ("DAWN", "SUMMER", "NIGHT", "SUNSET")
UNSEEN = {
    "fog": "FOG", "rain": "RAIN", "soft_rain": "SOFTRAIN", "rain_night": "RAINNIGHT",
    "winter": "WINTER", "winter_night": "WINTERNIGHT", "fall": "FALL",
}  # fmt: skip

#: The test frames as they are.
CLEAR = "clear"


class WeatherFrames:
    """Frames under another weather, made when they are wanted.

    Parameters
    ----------
    frames : Frames
        Frames of a clear day, with depth.
    condition, severity, seed
        As in :func:`~reprior.experiments.synthia.weather.apply_weather`.
    """

    def __init__(
        self, frames: Frames, condition: str, *, severity: float = 1.0, seed: int = 0
    ) -> None:
        self.frames, self.condition = frames, condition
        self.severity, self.seed = severity, seed

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, index: int) -> Frame:
        return apply_weather(
            self.frames[index], self.condition, severity=self.severity, seed=self.seed
        )


@dataclass(frozen=True, eq=False)
class SegmentationData:
    """Frames in three parts.

    Parameters
    ----------
    train, validation, test : Frames
        To learn from, to tune on, to judge on, of the same classes.
    class_counts : int (K,)
        Training pixels of each class.
    notes : sequence of str
        What is absent where.
    recorded : mapping of str to Frames
        The test frames of each condition, where conditions were recorded, not simulated.
    """

    train: Frames
    validation: Frames
    test: Frames
    class_counts: Array
    notes: tuple[str, ...] = ()
    recorded: Mapping[str, Frames] = field(default_factory=dict)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes that the training part has."""
        return self.train.classes

    @property
    def digest(self) -> str:
        """A hash of what the training part is: names of frames, their size, classes, pixels."""
        what = (self.train.names, self.train.size, self.classes, self.class_counts.tolist())
        return hashlib.sha256(repr(what).encode()).hexdigest()[:16]

    def conditions(
        self, names: Sequence[str] | None = None, *, severity: float = 1.0, seed: int = 0
    ) -> dict[str, FrameSource]:
        """Return the test frames by condition.

        Those that were recorded, where there are some; else "clear", the test frames as they are,
        and simulated weather. ``names`` chooses among them; by default it is all.
        """
        check_finite_number("severity", severity, minimum=0.0)
        chosen = tuple(self.recorded or CONDITIONS) if names is None else tuple(names)
        for name in chosen:
            check_choice("condition", name, self.recorded or CONDITIONS)
        if self.recorded:
            return {name: self.recorded[name] for name in chosen}
        made: dict[str, FrameSource] = {CLEAR: self.test}
        for name in chosen:
            made[name] = WeatherFrames(self.test, name, severity=severity, seed=seed)
        return made


def open_data(
    root: str | os.PathLike[str],
    *,
    size: tuple[int, int] | None = None,
    share: float = 0.2,
    n_blocks: int = 2,
    gap: int = 2,
    on_error: str = "raise",
) -> SegmentationData:
    """Return SYNTHIA-SF with its parts ``train`` and ``test``; blocks of train are held out.

    Its training frames are two drives through the same streets, so the same stretch of both is
    held out. See :func:`split_data`.
    """
    train = open_sf(root, "train", size=size, on_error=on_error)
    test = open_sf(root, "test", size=size, on_error=on_error)
    return split_data(
        train, test, places=places_of(train.names), share=share, n_blocks=n_blocks, gap=gap
    )


def open_sequence_data(
    root: str | os.PathLike[str],
    *,
    sequence: str = "05",
    seen: Sequence[str] = SEEN,
    unseen: Mapping[str, str] = UNSEEN,
    views: Sequence[str] = ("Omni_F",),
    size: tuple[int, int] | None = (384, 768),
    share: float = 0.2,
    n_blocks: int = 2,
    gap: int = 10,
    on_error: str = "raise",
) -> SegmentationData:
    """Return SYNTHIA-Sequences: learnt under some conditions, judged under others.

    Parameters
    ----------
    root : path
        The folder with ``SYNTHIA-SEQS-05-DAWN`` and the like in it.
    sequence, views, size, on_error
        As in :func:`~reprior.experiments.synthia.readers.open_sequences`.
    seen : sequence of str
        Conditions to learn from and to tune on.
    unseen : mapping of str to str
        What conditions to judge on are called here, and in the folder's name.
    share, n_blocks, gap
        As in :func:`~reprior.experiments.synthia.splits.hold_out`. All conditions drive the same
        way, so the same stretch of all is held out.
    """
    options: dict[str, Any] = {
        "sequence": sequence, "views": views, "size": size, "on_error": on_error,
    }  # fmt: skip
    train = open_sequences(root, seen, **options)
    test = open_sequences(root, list(unseen.values()), **options)
    data = split_data(
        train, test, places=places_of(train.names), share=share, n_blocks=n_blocks, gap=gap
    )
    drives = [name.partition("/")[0] for name in data.test.names]
    recorded = {
        name: data.test.subset([i for i, drive in enumerate(drives) if drive == folder])
        for name, folder in unseen.items()
    }
    return replace(data, recorded=recorded)


def split_data(
    train: Frames,
    test: Frames,
    *,
    places: Sequence[int] | Array | None = None,
    share: float = 0.2,
    n_blocks: int = 2,
    gap: int = 2,
) -> SegmentationData:
    """Hold out blocks of the training frames, and say which class is absent where.

    Classes that no training frame has are left out: their pixels are ignored, and a note says so.

    Parameters
    ----------
    train, test : Frames
        To learn from and tune on, and to judge on.
    places, share, n_blocks, gap
        As in :func:`~reprior.experiments.synthia.splits.hold_out`.
    """
    if set(test.classes) != set(train.classes):
        raise LabelsError(
            f"`train` and `test` must have the same classes. Got {len(train.classes)} and "
            f"{len(test.classes)} classes, or other names. Open both with the same `classes`."
        )
    known = train.pixels().sum(axis=0) > 0
    classes = [name for name, there in zip(train.classes, known, strict=True) if there]
    notes = _unlearnt(train, test, classes)
    train, test = train.of_classes(classes), test.of_classes(classes)
    pixels = train.pixels()
    split = hold_out(pixels, places=places, share=share, n_blocks=n_blocks, gap=gap)
    notes += absences(
        np.concatenate([pixels, test.pixels()]), classes, training=split.train,
        validation=split.held_out, test=len(train) + np.arange(len(test)),
    )  # fmt: skip
    return SegmentationData(
        train.subset(split.train),
        train.subset(split.held_out),
        test,
        pixels[split.train].sum(axis=0),
        notes,
    )


def _unlearnt(train: Frames, test: Frames, classes: Sequence[str]) -> tuple[str, ...]:
    pixels = dict(zip(test.classes, test.pixels().sum(axis=0).tolist(), strict=True))
    lost = [name for name in train.classes if name not in classes and pixels[name]]
    if not lost:
        return ()
    return (f"Ignored in the test part, as training has none: {', '.join(lost)}.",)
