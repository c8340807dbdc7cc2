"""NAME=FILE arguments: open the score files of a fusion's modalities and check that they agree."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
import numpy as np

from reprior.calibrator import PosteriorCalibrator
from reprior.cli.inputs import ID_COLUMN, few, open_counted, open_for, open_to_fit, shown_paths
from reprior.cli.options import PriorChoice, Reading
from reprior.cli.session import Session
from reprior.exceptions import FileFormatError, OptionError, ScoresError, Words
from reprior.files.formats.interface import NamedLabels, ReadOptions
from reprior.files.labels import LabelFile, is_index, open_labels, plain_label

if TYPE_CHECKING:
    from reprior.files.chunks import Chunk
    from reprior.files.scores import ScoreFile
    from reprior.fusion import ModalityFusion

__all__ = [
    "Modalities",
    "aligned",
    "as_calibrator",
    "load_fusion",
    "modalities_argument",
    "named_files",
    "open_known",
    "open_to_tune",
    "refuse_other_rows",
]

Vector: TypeAlias = np.ndarray[Any, Any]

modalities_argument = click.argument("modalities", nargs=-1, required=True, metavar="NAME=FILE...")


@dataclass(frozen=True, eq=False)
class Modalities:
    """The files of the modalities, with the same samples in each."""

    files: dict[str, ScoreFile]
    labelled: str | None
    """The modality whose file has the labels, where they are wanted."""

    @property
    def first(self) -> ScoreFile:
        """The file with the labels, or the first one."""
        return self.files[self.labelled or next(iter(self.files))]

    @property
    def paths(self) -> list[Path]:
        """All files, labels included."""
        return [p for file in self.files.values() for p in (*file.paths, *file.label_paths)]

    def chunks(self) -> Iterator[tuple[dict[str, Chunk], Any, Any]]:
        """Give chunks by modality, with labels and weights of the labels' shape, where there are.

        Rows are the same in all; they are read from the beginning at every call.
        """
        names = list(self.files)
        for parts in aligned(list(self.files.values())):
            chunks = dict(zip(names, parts, strict=True))
            first = chunks[self.labelled] if self.labelled is not None else parts[0]
            labels = first.labels
            weight = first.weight
            if weight is not None and labels is not None:
                trailing = (1,) * (labels.ndim - weight.ndim)
                weight = np.broadcast_to(weight.reshape(*weight.shape, *trailing), labels.shape)
            yield chunks, labels, weight

    def fingerprint(self) -> Fingerprint:
        """Return an empty fingerprint; call it with every chunk of a pass."""
        return Fingerprint({name: file.class_axis for name, file in self.files.items()})


class Fingerprint:
    """A digest of several modalities' labelled scores that grows chunk by chunk."""

    def __init__(self, axes: Mapping[str, int]) -> None:
        from reprior.engines.fingerprint import Digest

        self._digests = {name: Digest(axis) for name, axis in sorted(axes.items())}

    def __call__(self, chunks: Mapping[str, Chunk], labels: Any) -> None:
        """Add the next chunk of every modality."""
        for name, digest in self._digests.items():
            digest.update(replace(chunks[name], labels=labels))

    @property
    def value(self) -> str:
        """The digests of all, with their names."""
        return " ".join(f"{name}={digest.value}" for name, digest in self._digests.items())

    def recognised(self, tuned_on: str) -> bool:
        """Whether any modality's scores are among those of which ``whole`` was the value.

        Under whatever name: a result is optimistic where one of them was tuned on.
        """
        return any(f"={digest.value} " in f"{tuned_on} " for digest in self._digests.values())

    @property
    def n_samples(self) -> int:
        """Samples so far."""
        return max(digest.n_samples for digest in self._digests.values())


def named_files(given: Sequence[str]) -> dict[str, str]:
    """Return the files by the names in front of the first ``=``.

    Examples
    --------
    >>> named_files(["rgb=val-rgb.npz", "depth=a=b.npz"])
    {'rgb': 'val-rgb.npz', 'depth': 'a=b.npz'}
    """
    paths: dict[str, str] = {}
    for word in given:
        name, sign, path = word.partition("=")
        plain = name and not any(mark in name for mark in "/\\*?")
        if not sign or not plain or not path:
            raise OptionError(
                f"Modalities must be given as NAME=FILE, a word and the file of its scores. Got "
                f"{word!r}. Write for example rgb={path or (word if not sign else 'val-rgb.npz')}."
            )
        if name in paths:
            raise OptionError(
                f"Every modality must be given once. Got {name!r} twice: {paths[name]!r} and "
                f"{path!r}. Name several files of one modality by a quoted pattern, such as "
                f"'{name}=val-*.npz'."
            )
        paths[name] = path
    return paths


def open_to_tune(
    session: Session,
    named: Mapping[str, str],
    reading: Reading,
    counting: PriorChoice,
    source_prior: str | None = None,
    *,
    needed: bool = True,
) -> Modalities:
    """Open the files of a fit, with the classes of the one that has the labels.

    Where none is ``needed``, labels are read if they are there.
    """
    having = _having(named, reading)
    labelled = next(iter(named)) if having is None and needed else having
    lead = labelled or next(iter(named))

    def open_first(reading: Reading) -> ScoreFile:
        return open_to_fit(session, [named[lead]], reading, labelled=labelled is not None)

    first, reading = open_counted(session, open_first, reading, counting, source_prior)
    others = _like(first, reading)
    files = {
        name: first
        if name == lead
        else open_to_fit(session, [path], others, labelled=False, names=first.class_names)
        for name, path in named.items()
    }
    return _agreeing(Modalities(files, labelled))


def open_known(
    session: Session,
    fusion: ModalityFusion,
    named: Mapping[str, str],
    reading: Reading,
    *,
    labelled: bool,
) -> Modalities:
    """Open the files of modalities that a fusion knows, with its classes."""
    _refuse_unknown(fusion, named)
    calibrator = as_calibrator(fusion)
    having = (_having(named, reading) or next(iter(named))) if labelled else None
    order = sorted(named, key=lambda name: name != having)
    files = {
        name: open_for(
            calibrator, session, [named[name]], reading, labelled=name == having, noun="fusion"
        )
        for name in order
    }
    # What the files say of themselves.
    fusion.class_axis, fusion.ignore_index = calibrator.class_axis, calibrator.ignore_index
    return _agreeing(Modalities({name: files[name] for name in named}, having))


def as_calibrator(fusion: ModalityFusion) -> PosteriorCalibrator:
    """Return a calibrator of the fusion's classes, priors and kind of scores.

    It corrects nothing. The checks of files for one model need a calibrator.
    """
    calibrator = PosteriorCalibrator(
        fusion.source_prior_,
        target_prior=fusion.target_prior_,
        kind=fusion.kind,
        class_axis=fusion.class_axis,
        ignore_index=fusion.ignore_index,
    )
    calibrator.source_prior_, calibrator.target_prior_ = fusion.source_prior_, fusion.target_prior_
    calibrator.classes_ = fusion.classes_
    return calibrator


def load_fusion(path: str, missing: str | None) -> ModalityFusion:
    """Read a fusion; its errors mention the order of the arguments."""
    from reprior.calibrator import load
    from reprior.files.archive import SAVE
    from reprior.fusion import ModalityFusion

    if "=" in path and not Path(path).exists():
        raise OptionError(
            f"FUSION must come first, and then NAME=FILE. Got {path!r}, which does not exist. Name "
            f"the file that fuse fit wrote."
        )
    try:
        fusion = load.load(path)
    except FileFormatError as error:
        if Path(path).suffix.lower() == ".json":
            fuse_fit = Words(SAVE.python, "reprior fuse fit")
            raise error.mapped(lambda part: fuse_fit if part == SAVE else part) from error
        raise FileFormatError(
            f"FUSION must be a JSON file that fuse fit wrote. Got {path!r}. Name the fusion first, "
            f"and then NAME=FILE."
        ) from error
    if not isinstance(fusion, ModalityFusion):
        raise FileFormatError(
            f"{path!r} must be a fusion of several modalities, as fuse fit writes it. Got the "
            f"correction of one model. Use reprior apply or reprior evaluate with it."
        )
    if fusion.uncertainty != "entropy":
        raise OptionError(
            f"{path!r} must judge by the entropy of one pass. Got {fusion.uncertainty!r}, which "
            f"needs several passes of every sample, and score files hold one. Use it in Python."
        )
    if missing is not None:
        fusion.missing = missing
    return fusion


# ----------------------------------------------------------------------------------------- inside


def _having(named: Mapping[str, str], reading: Reading) -> str | None:
    """Return the modality to read labels from: the first that has them, or that of --labels."""
    from reprior.cli.inputs import refuse_json
    from reprior.files.scores import open_scores

    names = list(named)
    if reading.labels is not None:
        return names[0]
    refuse_json(list(named.values()))
    for name in names:
        file = open_scores(
            named[name],
            label_column=reading.label_column,
            labels_name=reading.labels_name,
            scores_name=reading.scores_name,
        )
        if file.has_labels:
            return name
    return None


def _like(first: ScoreFile, reading: Reading) -> Reading:
    """Return how to read the other files: with the classes on the same axis."""
    axis = first.class_axis if len(first.shape) > 2 else reading.class_axis
    return replace(reading, class_axis=axis)


def _refuse_unknown(fusion: ModalityFusion, named: Mapping[str, str]) -> None:
    known = fusion.modalities_
    for name in named:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else "Leave it out, or fit again with it."
            raise OptionError(
                f"Modalities must be those of the fusion, {', '.join(known)}. Got {name!r}. {hint}"
            )
    absent = [name for name in known if name not in named]
    if absent and fusion.missing == "error":
        raise OptionError(
            f"Every modality of the fusion must be given, {', '.join(known)}. Got none for "
            f"{absent[0]!r}. Write {absent[0]}=FILE, or fuse what is there with "
            f"--missing leave_out."
        )


def _agreeing(modalities: Modalities) -> Modalities:
    """Refuse files of other kinds, classes, shapes or samples."""
    (one, first), *others = modalities.files.items()
    checks: list[tuple[str, Callable[[ScoreFile], Any], str]] = [
        ("kind of scores", lambda file: file.kind, "Give scores of one kind."),
        ("classes in one order", _classes, "Name them alike with --classes."),
        ("shape per sample", lambda file: file.shape[1:], "Resize one to the other's size."),
        ("number of samples", lambda file: file.n_samples, "Score the same samples with each."),
    ]
    for what, value, remedy in checks:
        for name, file in others:
            expected, got = value(first), value(file)
            if expected != got and None not in (expected, got):
                raise ScoresError(
                    f"All modalities must have the same {what}. Got {_shown(expected)} for {one!r} "
                    f"({shown_paths(first)}) and {_shown(got)} for {name!r} "
                    f"({shown_paths(file)}). {remedy}"
                )
    refuse_other_rows(list(modalities.files.values()))
    return modalities


def _classes(file: ScoreFile) -> Any:
    return file.class_names if file.class_names is not None else file.n_classes


def _shown(value: Any) -> str:
    if isinstance(value, tuple) and all(isinstance(each, str) for each in value) and value:
        return few(value)
    return str(value)


def aligned(files: Sequence[ScoreFile]) -> Iterator[list[Chunk]]:
    """Yield the same rows of all files at a time; refuse files of another length."""
    streams = [file.chunks() for file in files]
    parts: list[Chunk | None] = [None] * len(files)
    while True:
        parts = [
            next(stream, None) if part is None else part
            for part, stream in zip(parts, streams, strict=True)
        ]
        present = [part for part in parts if part is not None]
        if not present:
            return
        if len(present) < len(parts):
            ended = files[parts.index(None)]
            raise ScoresError(
                f"SCORES must have the same rows. Got {ended.n_samples} in {str(ended.paths[0])!r} "
                f"and more in another. Score the same samples with every model."
            )
        n = min(map(len, present))
        heads = [_cut(part, 0, n) for part in present]
        yield heads
        parts = [_cut(part, n, len(part)) if len(part) > n else None for part in present]


def _cut(chunk: Chunk, start: int, stop: int) -> Chunk:
    def part(values: Any) -> Any:
        return None if values is None else values[start:stop]

    if start == 0 and stop == len(chunk):
        return chunk
    extra = None if chunk.extra is None else chunk.extra.slice(start, stop - start)
    return replace(
        chunk,
        scores=part(chunk.scores),
        labels=part(chunk.labels),
        weight=part(chunk.weight),
        start=chunk.start + start,
        extra=extra,
    )


#: The default names of columns and arrays of labels.
LABELS = ("label", "labels")

#: Entries compared at a time.
AT_ONCE = 1 << 18


def refuse_other_rows(files: Sequence[ScoreFile]) -> None:
    """Refuse files whose labels, or whose ids under one name, are not the same row by row."""
    for i, other in enumerate(files):
        for first in files[:i]:
            for one_name, other_name in _common(first, other):
                _compare(first, one_name, other, other_name)


def _common(one: ScoreFile, other: ScoreFile) -> Iterator[tuple[str, str]]:
    """Yield the columns or arrays to compare: the labels, and ids of one name."""
    labels = [next((n for n in LABELS if n in file.columns), None) for file in (one, other)]
    if labels[0] is not None and labels[1] is not None:
        yield labels[0], labels[1]
    for name in one.columns:
        both = name in other.columns and name not in (one.class_names or ())
        if both and ID_COLUMN.search(name):
            yield name, name


def _compare(one: ScoreFile, one_name: str, other: ScoreFile, other_name: str) -> None:
    names = one.class_names or other.class_names or ()
    sides = (_entries(one, one_name, names), _entries(other, other_name, names))
    row = 0
    for a, b in _together(*sides):
        differs = a != b
        if np.any(differs):
            index = int(np.argmax(differs))
            what = "labels" if one_name in LABELS else f"{one_name!r}"
            raise ScoresError(
                f"SCORES must have the same samples in the same order. Got other {what} in entry "
                f"{row + index}: {str(a[index])!r} in {shown_paths(one)} and {str(b[index])!r} in "
                f"{shown_paths(other)}. Put the rows of one file in the order of the other."
            )
        row += len(a)


def _entries(file: ScoreFile, name: str, classes: Sequence[str]) -> Iterator[Vector]:
    """Yield a column of all files, flat, as text, with class names for label indices."""
    options = ReadOptions(label_column=name, labels_name=name)
    for path in file.paths:
        label_file = open_labels(path, options)
        for labels in label_file.blocks(_rows(label_file)):
            if isinstance(labels, NamedLabels):
                words = [plain_label(value) for value in labels.values]
                codes = labels.codes
            else:
                values, codes = np.unique(labels, return_inverse=True)
                words = [plain_label(str(value)) for value in values.tolist()]
            if name in LABELS:
                words = [_class_of(word, classes) for word in words]
            yield np.array(words, dtype=object)[codes.reshape(-1)]


def _class_of(word: str, classes: Sequence[str]) -> str:
    """Return the name of a class that is written as an index."""
    indexed = is_index(word) and 0 <= int(word) < len(classes) and word not in classes
    return classes[int(word)] if indexed else word


def _rows(file: LabelFile) -> int:
    return max(1, AT_ONCE // max(1, int(np.prod(file.row_shape, dtype=np.int64))))


def _together(one: Iterator[Vector], other: Iterator[Vector]) -> Iterator[tuple[Vector, Vector]]:
    """Yield entries of both in parts of equal length, up to the shorter one's end."""
    a: Vector | None = None
    b: Vector | None = None
    while True:
        a = a if a is not None and len(a) else next(one, None)
        b = b if b is not None and len(b) else next(other, None)
        if a is None or b is None:
            return
        n = min(len(a), len(b))
        yield a[:n], b[:n]
        a, b = a[n:], b[n:]
