"""The parts of an experiment: frames to train on, to tune on, and to judge on.

Stretches of a drive are held out, never single frames: neighbouring frames are almost equal.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reprior.core import check_choice, check_finite_number
from reprior.exceptions import Argument, FileFormatError, LabelsError, OptionError, RepriorWarning
from reprior_lab.settings import check_whole_number
from reprior_lab.synthia.frames import Frame, Frames, FrameSource, open_sequences, open_sf
from reprior_lab.synthia.settings import CAMERAS, NetworkSettings
from reprior_lab.synthia.weather import CONDITIONS, apply_weather

__all__ = [
    "CLEAR",
    "HELD_OUT",
    "DataSource",
    "Parts",
    "SegmentationData",
    "Split",
    "WeatherFrames",
    "absences",
    "hold_out",
    "open_data",
    "open_sequence_data",
    "places_of",
    "split_data",
]

Array: TypeAlias = np.ndarray[Any, Any]

#: How many starts of a block are tried; on a longer drive they are evenly spaced.
MAX_STARTS = 160

#: How many combinations of starts are tried: at most in all, and at a time.
MAX_CHOICES, AT_ONCE = 200_000, 20_000

#: Sums that differ by less are equal.
ROUNDING = 1e-12

#: Conditions of SYNTHIA-Sequences that the paper trains on, and that it judges on.
SEEN = ("DAWN", "SUMMER", "NIGHT", "SUNSET")
UNSEEN = {
    "fog": "FOG",
    "rain": "RAIN",
    "soft_rain": "SOFTRAIN",
    "rain_night": "RAINNIGHT",
    "winter": "WINTER",
    "winter_night": "WINTERNIGHT",
    "fall": "FALL",
}

#: The name of the test frames without simulated weather.
CLEAR = "clear"

#: The name of the scores of the frames to tune on.
HELD_OUT = "held_out"

#: Height and width of the frames of SYNTHIA-Sequences, as in the paper.
SIZE = (384, 768)

#: Places between those to tune on and those to judge on that are in neither part, at most a third
#: of all: neighbouring frames are almost equal.
GAP = 10

WHERE = (
    "Get SYNTHIA-SF or SYNTHIA-Sequences from https://synthia-dataset.net. Lay SYNTHIA-SF out as "
    "train/ and test/ with RGB, GT and Depth in each; leave SYNTHIA-Sequences as it is, folders "
    "such as SYNTHIA-SEQS-05-SUMMER"
)


@dataclass(frozen=True, eq=False)
class Split:
    """Indices of frames: to train on, held out to tune on, and left out of both."""

    train: Array
    held_out: Array
    left_out: Array


def hold_out(
    pixels: Any,
    *,
    share: float = 0.2,
    n_blocks: int = 2,
    gap: int = 2,
    places: Sequence[int] | Array | None = None,
) -> Split:
    r"""Choose blocks of frames to tune on, so that every class remains in the training part.

    Of all placements of the blocks that leave every class some training pixels, the one is chosen
    in which the held-out share of every class is closest to the share of all frames:

    .. math:: \min \sum_k (f_k - r)^2 + (p_k - r)^2

    where r is ``share``, f_k the share of the frames with class k that are held out, and p_k that
    of its pixels. Of equally good placements the first is chosen.

    Parameters
    ----------
    pixels : int (N, K)
        Pixels of each class in each frame, see
        :meth:`~reprior_lab.synthia.frames.Frames.pixels`.
    share : float, default 0.2
        Share of the places that are held out.
    n_blocks : int, default 2
        The number of blocks.
    gap : int, default 2
        Places on either side of a block that are left out of the training part, too.
    places : int (N,), optional
        The place of each frame. Frames of the same place go to the same part: pass
        :func:`places_of` if drives go through the same streets. By default every frame has its
        own place.

    Examples
    --------
    >>> pixels = np.ones((10, 1), int)
    >>> split = hold_out(pixels, share=0.3, n_blocks=1, gap=1)
    >>> split.train, split.held_out, split.left_out
    (array([4, 5, 6, 7, 8, 9]), array([0, 1, 2]), array([3]))
    """
    pixels = np.asarray(pixels)
    places = np.arange(len(pixels)) if places is None else np.asarray(places)
    _check(pixels, places, share, n_blocks, gap)
    order, index = np.unique(places, return_inverse=True)
    both = np.concatenate([pixels > 0, pixels], axis=1)  # frames and pixels of each class
    seen = np.zeros((len(order), both.shape[1]), np.int64)
    np.add.at(seen, index, both)
    length = max(1, round(share * len(order) / n_blocks))
    chosen = _best(seen, share, length, n_blocks, gap)
    parts = np.zeros(len(order), np.int64)
    for start in chosen:
        parts[max(0, start - gap) : start + length + gap] = 2
    for start in chosen:
        parts[start : start + length] = 1
    own = parts[index]
    return Split(*(np.flatnonzero(own == part) for part in range(3)))


def places_of(names: Sequence[str]) -> Array:
    """Return the position of each frame in its drive, by the numbers at the end of names.

    A new drive begins where the numbers do not increase by one, or the text before them changes.

    Examples
    --------
    >>> places_of(["000000", "000001", "000002", "000285", "000286"])
    array([0, 1, 2, 0, 1])
    """
    places, before, number = np.zeros(len(names), np.int64), None, -1
    for i, name in enumerate(names):
        match = re.fullmatch(r"(.*?)(\d+)", name)
        if match is None:
            raise LabelsError(
                "Names of frames must end in a number to tell their places.",
                got=repr(name),
                remedy=["Pass ", Argument("places"), " of your own."],
            )
        goes_on = match[1] == before and int(match[2]) == number + 1
        places[i] = places[i - 1] + 1 if goes_on else 0
        before, number = match[1], int(match[2])
    return places


def absences(pixels: Any, classes: Sequence[str], **parts: Array) -> tuple[str, ...]:
    """Return a sentence for each part that lacks classes, with their names.

    Examples
    --------
    >>> pixels = np.array([[5, 0], [5, 2]])
    >>> absences(pixels, ["road", "fence"], train=np.array([1]), held_out=np.array([0]))
    ('Absent from the 1 frames of held_out: fence.',)
    """
    pixels = np.asarray(pixels)
    sentences = []
    for part, index in parts.items():
        gone = np.flatnonzero(pixels[index].sum(axis=0) == 0)
        if gone.size:
            names = ", ".join(classes[int(k)] for k in gone)
            sentences.append(f"Absent from the {len(index)} frames of {part}: {names}.")
    return tuple(sentences)


def _best(seen: Array, share: float, length: int, n_blocks: int, gap: int) -> tuple[int, ...]:
    """Return the starts of the blocks."""
    n_places = len(seen)
    sums = np.concatenate([np.zeros((1, seen.shape[1]), np.int64), np.cumsum(seen, axis=0)])
    is_present = sums[-1] > 0
    sums = sums[:, is_present]
    starts = np.array(_starts(n_places, length, n_blocks))
    held = sums[starts + length] - sums[starts]
    around = sums[np.minimum(starts + length + gap, n_places)] - sums[np.maximum(starts - gap, 0)]
    best: tuple[float, tuple[int, ...]] = (np.inf, ())
    choices = itertools.combinations(range(len(starts)), n_blocks)
    while some := list(itertools.islice(choices, AT_ONCE)):
        index = np.array(some)
        # Blocks with overlapping gaps would be one block.
        apart = (np.diff(starts[index], axis=1) >= length + 2 * gap).all(axis=1)
        left = sums[-1] - around[index].sum(axis=1)
        index = index[apart & (left > 0).all(axis=1)]
        if len(index):
            shares = held[index].sum(axis=1) / sums[-1]
            values = ((shares - share) ** 2).sum(axis=1)
            first = int(np.argmax(values <= values.min() + ROUNDING))
            if values[first] < best[0] - ROUNDING:
                best = (float(values[first]), tuple(starts[index[first]].tolist()))
    if not best[1]:
        raise OptionError(
            [
                Argument("share"),
                " and ",
                Argument("n_blocks"),
                " must leave every class in the training part.",
            ],
            got=f"{share:g} and {n_blocks}, which cannot: some class occurs in too few places",
            remedy="Pass a smaller share or other blocks, or leave the class out.",
        )
    return best[1]


def _starts(n_places: int, length: int, n_blocks: int) -> list[int]:
    last = n_places - length
    few = int((MAX_CHOICES * np.prod(np.arange(1, n_blocks + 1))) ** (1 / n_blocks)) + n_blocks
    n_starts = min(last + 1, MAX_STARTS, few)
    return sorted({int(s) for s in np.linspace(0, last, n_starts)})


def _check(pixels: Array, places: Array, share: float, n_blocks: int, gap: int) -> None:
    if pixels.ndim != 2 or places.shape != (len(pixels),):
        raise LabelsError(
            argument="pixels",
            rule=["must be (N, K) and ", Argument("places"), " (N,)"],
            got=f"shapes {pixels.shape} and {places.shape}",
            remedy="Pass frames.pixels() and a place for each frame.",
        )
    if check_finite_number("share", share, positive=True) >= 1.0:
        raise OptionError(
            argument="share",
            rule="must be below 1",
            got=f"{share:g}",
            remedy="Pass for example 0.2.",
        )
    whole_numbers: tuple[tuple[str, Any, int], ...] = (("n_blocks", n_blocks, 1), ("gap", gap, 0))
    for name, value, least in whole_numbers:
        check_whole_number(name, value, least)


class WeatherFrames:
    """Frames under simulated weather, computed on access.

    Parameters
    ----------
    frames : Frames
        Frames of a clear day, with depth.
    condition, severity, seed
        As in :func:`~reprior_lab.synthia.weather.apply_weather`.
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
        Frames to train on, to tune on, and to judge on, with the same classes.
    class_counts : int (K,)
        Training pixels of each class.
    notes : sequence of str
        Remarks on absent classes.
    recorded : mapping of str to Frames
        The test frames of each condition, if conditions were recorded, not simulated.
    """

    train: Frames
    validation: Frames
    test: Frames
    class_counts: Array
    notes: tuple[str, ...] = ()
    recorded: Mapping[str, Frames] = field(default_factory=dict)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes in the training part."""
        return self.train.classes

    @property
    def digest(self) -> str:
        """A hash of the training part: names of frames, their size, classes, pixels."""
        what = (self.train.names, self.train.size, self.classes, self.class_counts.tolist())
        return hashlib.sha256(repr(what).encode()).hexdigest()[:16]

    def conditions(
        self, names: Sequence[str] | None = None, *, severity: float = 1.0, seed: int = 0
    ) -> dict[str, FrameSource]:
        """Return the test frames by condition.

        The recorded conditions, if there are any; else "clear", the unchanged test frames, and
        simulated weather. ``names`` selects among them; by default all.
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
    sides: Sequence[str] = ("Stereo_Left",),
    views: Sequence[str] = ("Omni_F",),
    test_every: int = 1,
    size: tuple[int, int] | None = (384, 768),
    share: float = 0.2,
    n_blocks: int = 2,
    gap: int = 10,
    on_error: str = "raise",
) -> SegmentationData:
    """Return SYNTHIA-Sequences: trained under some conditions, judged under others.

    Parameters
    ----------
    root : path
        The folder with ``SYNTHIA-SEQS-05-DAWN`` and the like in it.
    sequence, sides, views, size, on_error
        As in :func:`~reprior_lab.synthia.frames.open_sequences`.
    test_every : int, default 1
        The interval between frames of an unseen condition that are judged on.
    seen : sequence of str
        Conditions to train on and to tune on.
    unseen : mapping of str to str
        The names of conditions to judge on, and their names in folders.
    share, n_blocks, gap
        As in :func:`~reprior_lab.synthia.data.hold_out`. All conditions have the same route, so
        the same stretch of all is held out.
    """
    options: dict[str, Any] = {
        "sequence": sequence,
        "sides": sides,
        "views": views,
        "size": size,
        "on_error": on_error,
    }
    train = open_sequences(root, seen, **options)
    test = open_sequences(root, list(unseen.values()), **options)
    test = test.subset(np.flatnonzero(places_of(test.names) % test_every == 0))
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
    """Hold out blocks of the training frames, and note absent classes.

    Classes without training frames are left out: their pixels are ignored, and a note says so.

    Parameters
    ----------
    train, test : Frames
        Frames to train and tune on, and to judge on.
    places, share, n_blocks, gap
        As in :func:`~reprior_lab.synthia.data.hold_out`.
    """
    if set(test.classes) != set(train.classes):
        raise LabelsError(
            [
                Argument("train"),
                " and ",
                Argument("test"),
                " must have the same classes.",
            ],
            got=f"{len(train.classes)} and {len(test.classes)} classes, or other names",
            remedy=["Open both with the same ", Argument("classes"), "."],
        )
    pixels = train.pixels()
    known = np.flatnonzero(pixels.sum(axis=0) > 0)
    classes = [train.classes[int(k)] for k in known]
    pixels = pixels[:, known]
    test = test.of_classes([*classes, *(name for name in test.classes if name not in classes)])
    judged = test.pixels()
    notes = _unlearnt(judged, test.classes, classes)
    train, test = train.of_classes(classes), test.of_classes(classes)
    split = hold_out(pixels, places=places, share=share, n_blocks=n_blocks, gap=gap)
    notes += absences(
        np.concatenate([pixels, judged[:, : len(classes)]]),
        classes,
        training=split.train,
        validation=split.held_out,
        test=len(train) + np.arange(len(test)),
    )
    return SegmentationData(
        train.subset(split.train),
        train.subset(split.held_out),
        test,
        pixels[split.train].sum(axis=0),
        notes,
    )


def _unlearnt(judged: Array, named: Sequence[str], classes: Sequence[str]) -> tuple[str, ...]:
    """Return a note on classes of test frames, by pixels (N, K), that training frames lack."""
    pixels = judged.sum(axis=0).tolist()
    lost = [name for name, n in zip(named, pixels, strict=True) if name not in classes and n]
    if not lost:
        return ()
    return (f"Ignored in the test part, as training has none: {', '.join(lost)}.",)


@dataclass(frozen=True, eq=False)
class Parts:
    """Frames to train on, to tune on and to judge on, under every condition.

    Parameters
    ----------
    data : SegmentationData
        ``train`` to train on, ``validation`` to tune on, ``test`` to judge on under the training
        conditions.
    name : str
        The name of the data set.
    """

    data: SegmentationData
    name: str

    def conditions(self, *, weather: bool = True) -> dict[str, FrameSource]:
        """Return the frames to score: "held_out", "clear", and the unseen conditions."""
        conditions: dict[str, FrameSource] = {HELD_OUT: self.data.validation, CLEAR: self.data.test}
        return conditions | self.data.conditions() if weather else conditions

    def frame_names(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the frames under each condition of :meth:`conditions`."""
        data = self.data
        known = {HELD_OUT: data.validation.names, CLEAR: data.test.names}
        unseen = {name: frames.names for name, frames in data.recorded.items()}
        return known | (unseen or dict.fromkeys(CONDITIONS, data.test.names))


class DataSource:
    """A folder of SYNTHIA, opened once, on first use.

    Parameters
    ----------
    root : path or None
        The folder: of SYNTHIA-SF (or the one it lies in), or with the folders of
        SYNTHIA-Sequences in it.
    skip_unreadable : bool, default False
        Whether frames that lack a file, or have a damaged one, are left out, with a warning.
    warned : bool, default False
        Whether another process has already warned of them.
    cameras, size, test_every
        As in :class:`~reprior_lab.synthia.settings.NetworkSettings`.

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
        warned: bool = False,
        cameras: str = "front",
        size: tuple[int, int] | None = None,
        test_every: int = 1,
    ) -> None:
        self.root, self.skip_unreadable, self._warned = root, skip_unreadable, warned
        self.cameras, self.size, self.test_every = cameras, size, test_every
        self._parts: Parts | None = None

    @classmethod
    def of_settings(
        cls,
        root: str | os.PathLike[str] | None,
        settings: NetworkSettings,
        *,
        skip_unreadable: bool = False,
    ) -> DataSource:
        """Return the frames that a network is trained with, in its cameras and size."""
        return cls(
            root, skip_unreadable, False, settings.cameras, settings.size, settings.test_every
        )

    def __reduce__(self) -> Any:
        """Send only the folder to another process, not the frames; warnings were shown here."""
        choices = (self.cameras, self.size, self.test_every)
        return type(self), (self.root, self.skip_unreadable, True, *choices)

    def open(self) -> Parts:
        """Return the frames."""
        if self._parts is None:
            with warnings.catch_warnings():
                if self._warned:
                    warnings.simplefilter("ignore", RepriorWarning)
                self._parts = self._opened("skip" if self.skip_unreadable else "raise")
        return self._parts

    def _opened(self, on_error: str) -> Parts:
        root = self.root
        if root is None:
            raise FileFormatError(
                argument="root",
                rule="must be the folder of SYNTHIA",
                got="none, and nothing is downloaded",
                remedy=f"{WHERE}.",
            )
        home = Path(root)
        if (home / "SYNTHIA-SF").is_dir():
            home = home / "SYNTHIA-SF"
        if any((home / "train" / name).is_dir() for name in ("RGB", "RGBLeft")):
            data = open_data(home, size=self.size, on_error=on_error)
            return Parts(_with_depth(data, home), "SYNTHIA-SF")
        exists = {name: _drive(home, name).is_dir() for name in (*SEEN, *UNSEEN.values())}
        if any(exists[name] for name in SEEN):
            data = self._sequences(home, exists, on_error)
            return Parts(_with_depth(data, home), "SYNTHIA-Sequences")
        raise FileFormatError(
            argument="root",
            rule="must be the folder of SYNTHIA",
            got=f"{str(root)!r}, which has neither train/RGB nor {_drive(Path(), SEEN[0])}",
            remedy=f"{WHERE}.",
        )

    def _sequences(self, home: Path, there: dict[str, bool], on_error: str) -> SegmentationData:
        """Tune on the first of the held-out stretches and judge on the rest.

        Unseen conditions are those in the folder; if there are none, weather is simulated on the
        stretch to judge on.
        """
        sides, views = CAMERAS[self.cameras]
        options: dict[str, Any] = {
            "sides": sides,
            "views": views,
            "size": self.size or SIZE,
            "on_error": on_error,
        }
        seen = [name for name in SEEN if there[name]]
        unseen = {name: folder for name, folder in UNSEEN.items() if there[folder]}
        if unseen:
            data = open_sequence_data(
                home, seen=seen, unseen=unseen, test_every=self.test_every, **options
            )
        else:
            every = open_sequences(home, seen, **options)
            data = split_data(every, every, places=places_of(every.names), gap=10)
        tuning, judging = _stretches(data.validation)
        note = (
            f"Of the {len(data.validation)} frames held out, {len(tuning)} are tuned on and the "
            f"{len(judging)} of another stretch of the drive are judged on; those between are in "
            f"neither."
        )
        return replace(data, validation=tuning, test=judging, notes=(*data.notes, note))


def _drive(home: Path, condition: str) -> Path:
    return home / f"SYNTHIA-SEQS-05-{condition}"


def _with_depth(data: SegmentationData, home: Path) -> SegmentationData:
    if not (data.train.has_depth and data.validation.has_depth and data.test.has_depth):
        raise FileFormatError(
            f"Every frame must have depth: a modality of its own, and what weather is simulated "
            f"by. Got frames without in {str(home)!r}. Fetch the depth folders too."
        )
    return data


def _stretches(frames: Frames) -> tuple[Frames, Frames]:
    """Split frames of several drives along the same route at its largest gap."""
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
        # The route has no gap that is wide enough: leave one in its middle.
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
