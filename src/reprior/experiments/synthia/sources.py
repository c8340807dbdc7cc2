"""Where the frames of the tables come from: SYNTHIA-SF or SYNTHIA-Sequences, whichever is there."""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from reprior.exceptions import FileFormatError, RepriorWarning
from reprior.experiments.synthia.data import (
    CLEAR,
    SEEN,
    UNSEEN,
    SegmentationData,
    open_data,
    open_sequence_data,
    split_data,
)
from reprior.experiments.synthia.frames import Frames, FrameSource
from reprior.experiments.synthia.readers import open_sequences
from reprior.experiments.synthia.splits import places_of
from reprior.experiments.synthia.weather import CONDITIONS

__all__ = ["CLEAR", "HELD_OUT", "DataSource", "Parts"]

#: What the scores of the frames to tune on are called.
HELD_OUT = "held_out"

#: Height and width of the frames of SYNTHIA-Sequences, as in the paper.
SIZE = (384, 768)

#: Places between those to tune on and those to judge on that are in neither, a third of all at
#: most: neighbouring frames are all but equal.
GAP = 10

WHERE = (
    "Get SYNTHIA-SF or SYNTHIA-Sequences from https://synthia-dataset.net. Lay SYNTHIA-SF out as "
    "train/ and test/ with RGB, GT and Depth in each; leave SYNTHIA-Sequences as it is, folders "
    "such as SYNTHIA-SEQS-05-SUMMER"
)


@dataclass(frozen=True, eq=False)
class Parts:
    """Frames to learn from, to tune on and to judge on, under every condition.

    Parameters
    ----------
    data : SegmentationData
        ``train`` to learn from, ``validation`` to tune on, ``test`` to judge on under the
        conditions that were learnt from.
    name : str
        Of the data set.
    """

    data: SegmentationData
    name: str

    def conditions(self, *, weather: bool = True) -> dict[str, FrameSource]:
        """Return what is to be scored: "held_out", "clear", and the unseen conditions."""
        found: dict[str, FrameSource] = {HELD_OUT: self.data.validation, CLEAR: self.data.test}
        return found | self.data.conditions() if weather else found

    def frame_names(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the frames under each condition of :meth:`conditions`."""
        data = self.data
        known = {HELD_OUT: data.validation.names, CLEAR: data.test.names}
        unseen = {name: frames.names for name, frames in data.recorded.items()}
        return known | (unseen or dict.fromkeys(CONDITIONS, data.test.names))


class DataSource:
    """A folder of SYNTHIA, opened when its frames are wanted, and once.

    Parameters
    ----------
    root : path or None
        The folder: of SYNTHIA-SF (or the one it lies in), or with the folders of
        SYNTHIA-Sequences in it.
    skip_unreadable : bool, default False
        Whether frames that lack a file, or have a damaged one, are left out, with a warning.
    told : bool, default False
        Whether another process has warned of them.

    Examples
    --------
    >>> DataSource(None).open()
    Traceback (most recent call last):
    ...
    reprior.exceptions.FileFormatError: `root` must be the folder of SYNTHIA. Got none, and nothing
    is downloaded. Get SYNTHIA-SF or ...
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None,
        skip_unreadable: bool = False,
        told: bool = False,
    ) -> None:
        self.root, self.skip_unreadable, self._told = root, skip_unreadable, told
        self._parts: Parts | None = None

    def __reduce__(self) -> Any:
        """Send the folder alone to another process, not the frames; warnings were shown here."""
        return type(self), (self.root, self.skip_unreadable, True)

    def open(self) -> Parts:
        """Return the frames."""
        if self._parts is None:
            with warnings.catch_warnings():
                if self._told:
                    warnings.simplefilter("ignore", RepriorWarning)
                self._parts = _opened(self.root, "skip" if self.skip_unreadable else "raise")
        return self._parts


def _opened(root: str | os.PathLike[str] | None, on_error: str) -> Parts:
    if root is None:
        raise FileFormatError(
            f"`root` must be the folder of SYNTHIA. Got none, and nothing is downloaded. {WHERE}."
        )
    home = Path(root)
    if (home / "SYNTHIA-SF").is_dir():
        home = home / "SYNTHIA-SF"
    if any((home / "train" / name).is_dir() for name in ("RGB", "RGBLeft")):
        return Parts(_with_depth(open_data(home, on_error=on_error), home), "SYNTHIA-SF")
    there = {name: _drive(home, name).is_dir() for name in (*SEEN, *UNSEEN.values())}
    if any(there[name] for name in SEEN):
        return Parts(_with_depth(_sequences(home, there, on_error), home), "SYNTHIA-Sequences")
    raise FileFormatError(
        f"`root` must be the folder of SYNTHIA. Got {str(root)!r}, which has neither train/RGB nor "
        f"{_drive(Path(), SEEN[0])}. {WHERE}."
    )


def _drive(home: Path, condition: str) -> Path:
    return home / f"SYNTHIA-SEQS-05-{condition}"


def _with_depth(data: SegmentationData, home: Path) -> SegmentationData:
    if not (data.train.has_depth and data.validation.has_depth and data.test.has_depth):
        raise FileFormatError(
            f"Every frame must have depth: a modality of its own, and what weather is simulated "
            f"by. Got frames without in {str(home)!r}. Fetch the depth folders too."
        )
    return data


def _sequences(home: Path, there: dict[str, bool], on_error: str) -> SegmentationData:
    """Of the stretches that are held out, tune on the first and judge on the rest.

    Unseen conditions are those that are there; without any, weather is simulated on the stretch
    to judge on.
    """
    seen = [name for name in SEEN if there[name]]
    unseen = {name: folder for name, folder in UNSEEN.items() if there[folder]}
    if unseen:
        data = open_sequence_data(home, seen=seen, unseen=unseen, size=SIZE, on_error=on_error)
    else:
        every = open_sequences(home, seen, size=SIZE, on_error=on_error)
        data = split_data(every, every, places=places_of(every.names), gap=10)
    tuning, judging = _stretches(data.validation)
    note = (
        f"Of the {len(data.validation)} frames held out, {len(tuning)} are tuned on and the "
        f"{len(judging)} of another stretch of the drive are judged on; those between are in "
        f"neither."
    )
    return replace(data, validation=tuning, test=judging, notes=(*data.notes, note))


def _stretches(frames: Frames) -> tuple[Frames, Frames]:
    """Part frames of several drives along the same way where the way has its largest gap."""
    numbers = np.array([_number(name) for name in frames.names])
    places = np.unique(numbers)
    if len(places) < 2:
        raise FileFormatError(
            f"The frames held out must be of two places at least, to tune on one and judge on the "
            f"other. Got {len(places)}. Take a longer drive."
        )
    steps, gap = np.diff(places), min(GAP, len(places) // 3)
    if steps.max() > gap:
        cut = int(np.argmax(steps))
        last, first = places[cut], places[cut + 1]
    else:
        # The way goes on without a gap that is wide enough: one is left in its middle.
        cut = (len(places) - gap) // 2
        last, first = places[cut - 1], places[cut + gap]
    return (
        frames.subset(np.flatnonzero(numbers <= last)),
        frames.subset(np.flatnonzero(numbers >= first)),
    )


def _number(name: str) -> int:
    match = re.search(r"\d+$", name)
    if match is None:
        raise FileFormatError(
            f"Names of frames must end in a number to tell their places. Got {name!r}. Leave the "
            f"files as they were published."
        )
    return int(match[0])
