"""Outputs of ``apply``: posteriors and predictions, streamed; each is whole or absent."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from reprior.exceptions import FileFormatError, OptionError
from reprior.files.atomic import atomic_paths, is_stdout, output_target
from reprior.files.chunks import Chunk
from reprior.files.detect import FORMATS, TABLES, format_of_name, is_store
from reprior.files.formats.interface import Layout, Reader, Writer, apart, few
from reprior.files.formats.table_files import PREDICTION, SCORE_SUFFIX, TableReader
from reprior.files.scores import ScoreFile
from reprior.files.text_files import as_class_names

__all__ = ["open_output", "output_format", "output_paths"]

_WRITERS = {
    "npy": "NpyWriter",
    "npz": "NpzWriter",
    "csv": "CsvWriter",
    "parquet": "ParquetWriter",
    "zarr": "ZarrWriter",
}


@contextmanager
def open_output(
    path: str | os.PathLike[str],
    *,
    like: ScoreFile,
    classes: Sequence[Any] | None = None,
    keep: bool = False,
    label_column: str = "label",
    decisions: Sequence[str] | None = None,
) -> Iterator[Writer]:
    """Open an output for the calibrated posteriors of a score file.

    The output takes its name when the block ends well. After an error or an interrupt, what was at
    ``path`` before is still there.

    Parameters
    ----------
    path : path
        Its extension says the format; without one, it is that of the input. ``"-"`` is standard
        output, where that format is csv; nothing appears there before all rows are written.

        * npz, zarr: arrays ``posterior`` and ``prediction`` (indices), with ``class_names`` and
          ``kind`` = "probs".
        * npy: the posterior; predictions go to ``OUT.prediction.npy`` beside it. Both files
          appear, or none.
        * csv, parquet: a column per class, and ``prediction`` (names where there are names).
    like : ScoreFile
        The input. The output must not be one of its files.
    classes : list of names, optional
        By default those of the input.
    keep : bool, default False
        Whether to keep what the input holds. Arrays stay under their names (and ``scores_kind``
        says what ``scores`` are). Columns of a table keep their places, but a class column holds
        the posterior; its score is kept as ``<class>.score``. Open the input with ``keep=True``
        too.
    label_column : str, default "label"
        Column for labels that are kept from arrays.
    decisions : list of names, optional
        The names that predictions index, where these are not the classes. Tables have these names
        in place of the indices; npz and zarr list them as ``decision_names``; for npy a note lists
        them.

    Yields
    ------
    Writer
        ``writer.write(chunk, posterior, prediction)`` for every chunk, in order; ``writer.notes``
        has sentences that a command should show.

    Examples
    --------
    >>> import numpy as np
    >>> from reprior.files.scores import open_scores
    >>> folder = getfixture("tmp_path")
    >>> np.save(folder / "test.npy", np.array([[0.0, 1.0], [2.0, 0.0]]))
    >>> scores = open_scores(folder / "test.npy", kind="logits")
    >>> with open_output(folder / "out.npz", like=scores, classes=["cat", "dog"]) as writer:
    ...     for chunk in scores:
    ...         p = np.exp(chunk.scores) / np.exp(chunk.scores).sum(axis=1, keepdims=True)
    ...         writer.write(chunk, p, p.argmax(axis=1))
    >>> out = open_scores(folder / "out.npz")
    >>> out.kind, out.class_names, out.n_samples
    ('probs', ('cat', 'dog'), 2)
    """
    target = Path(path)
    name = output_format(target, like)
    is_text = name == "csv"
    targets: tuple[str | Path, ...] = output_paths(target, name)
    if is_stdout(path):
        output_target(path, argument="output", text=is_text)
        targets = (os.fspath(path),)
    else:
        _refuse_inputs([Path(each) for each in targets], like)
        _refuse_other_folders([Path(each) for each in targets], name)
    layout = _layout(target, name, like, classes, keep, label_column)
    if decisions is not None:
        layout = replace(layout, decisions=tuple(decisions))
    with atomic_paths(*targets, text=is_text) as fresh:
        module = importlib.import_module(f"reprior.files.formats.{name}")
        make = getattr(module, _WRITERS[name])
        writer = _CountedWriter(cast(Writer, make(fresh, layout)))
        try:
            yield writer
            writer.refuse_part(target, like.n_samples)
            writer.close()
        except BaseException:
            writer.abandon()
            raise


def output_format(path: str | os.PathLike[str], like: ScoreFile) -> str:
    """Return the format of an output: by its extension, else that of the input."""
    path = Path(path)
    named = format_of_name(path)
    if named is None and path.suffix and like.format != "zarr":
        raise OptionError(
            argument="output",
            rule=f"must have the extension of a format ({', '.join(FORMATS)}), or none",
            got=f"{path.suffix!r} in {os.fspath(path)!r}",
            remedy=f"Rename it to '{path.stem}.{like.format}'.",
        )
    return named or like.format


def output_paths(path: str | os.PathLike[str], name: str) -> tuple[Path, ...]:
    """Return every file that an output consists of."""
    path = Path(path)
    if name != "npy":
        return (path,)
    return (path, path.with_name(f"{path.name.removesuffix('.npy')}.prediction.npy"))


def _layout(
    target: Path,
    name: str,
    like: ScoreFile,
    classes: Sequence[Any] | None,
    keep: bool,
    label_column: str,
) -> Layout:
    names = like.class_names if classes is None else as_class_names(classes)
    columns: tuple[str, ...] = ()
    if name in TABLES:
        columns = _score_columns(target, name, like, names, label_column)
        if keep:
            _refuse_other_columns(like.readers)
    return Layout(
        classes=names,
        n_samples=like.n_samples,
        keep=keep,
        kind=like.kind,
        label_column=label_column,
        score_columns=columns,
        inputs=like.readers,
        has_labels=like.has_labels,
        delimiter="\t" if target.suffix.lower() in (".tsv", ".tab") else ",",
    )


def _score_columns(
    target: Path, name: str, like: ScoreFile, names: tuple[str, ...] | None, label_column: str
) -> tuple[str, ...]:
    """Return the columns of the posterior; refuse what a table cannot hold."""
    shape = like.shape[1:]
    if len(shape) > 1:
        raise OptionError(
            argument="output",
            rule=f"must be npy, npz or zarr for scores of shape {like.shape}",
            got=f"{name}: {os.fspath(target)!r}",
            remedy="A table holds one row per sample.",
        )
    if not shape or shape[0] == 1:
        return (names[1] if names else "score",)
    columns = names or tuple(str(k) for k in range(like.n_classes))
    taken = {PREDICTION, label_column}
    clash = [c for c in columns if c in taken]
    clash += [c for c in columns if c.endswith(SCORE_SUFFIX) and c[: -len(SCORE_SUFFIX)] in columns]
    if clash:
        raise FileFormatError(
            argument="classes",
            rule=f"must leave the column names {few(sorted(taken))} free in a table",
            got=f"a class {clash[0]!r}",
            remedy="Rename the class, or write npz.",
        )
    return columns


def _refuse_other_columns(readers: Sequence[Reader]) -> None:
    """Refuse to keep columns that only some of several tables have. Their order may differ."""
    first, *others = readers
    for other in others:
        alone = apart({first.path: first.columns, other.path: other.columns})
        if alone and isinstance(first, TableReader):
            raise FileFormatError(
                "Several tables must have the same columns where these are kept.",
                got=alone,
                remedy="Make them alike, write a file for each, or keep none.",
            )


def _refuse_inputs(targets: Sequence[Path], like: ScoreFile) -> None:
    """Refuse an output that is an input, by whatever name, or lies inside one."""
    for target in targets:
        for path in (*like.paths, *like.label_paths):
            relation = _relation(target, path)
            if relation is not None:
                raise OptionError(
                    argument="output",
                    rule="must not be an input",
                    got=f"{os.fspath(target)!r}, which {relation} {os.fspath(path)!r}",
                    remedy="Choose another name.",
                )


def _relation(target: Path, path: Path) -> str | None:
    """Return how an output would destroy an input; None where it would not."""
    if target.exists() and path.exists() and os.path.samefile(target, path):
        return "is"
    if path.is_dir() and path.resolve() in target.resolve().parents:
        return "is inside"
    return "holds" if target.resolve() in path.resolve().parents else None


def _refuse_other_folders(targets: Sequence[Path], name: str) -> None:
    """Refuse to replace anything but a regular file or, with zarr, a store."""
    for target in targets:
        output_target(target, argument="output", folder=name == "zarr")
        if target.is_dir() and not is_store(target) and not _is_empty(target):
            raise OptionError(
                argument="output",
                rule="must be a new name, a regular file or a zarr store",
                got=f"{os.fspath(target)!r}, which is a folder and no zarr store",
                remedy="Choose another name.",
            )


def _is_empty(folder: Path) -> bool:
    return next(folder.iterdir(), None) is None


class _CountedWriter:
    """A writer that counts its samples."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.n_samples = 0

    @property
    def notes(self) -> list[str]:
        """Sentences that a command should show."""
        return self._writer.notes

    def write(self, chunk: Chunk, posterior: Any, prediction: Any) -> None:
        """Append the posterior and the predicted class indices of a chunk."""
        for name, values in (("posterior", posterior), ("prediction", prediction)):
            if len(values) != len(chunk):
                raise OptionError(
                    argument=name,
                    rule=f"must have one entry per sample of its chunk, {len(chunk)}",
                    got=f"{len(values)}",
                    remedy="Write each chunk with its own results.",
                )
        self._writer.write(chunk, posterior, prediction)
        self.n_samples += len(chunk)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()

    def abandon(self) -> None:
        """Close everything that is open; the output is discarded."""
        self._writer.abandon()

    def refuse_part(self, target: Path, expected: int | None) -> None:
        """Refuse an output of fewer, or more, samples than the input has."""
        if self.n_samples == 0 or expected not in (None, self.n_samples):
            all_of = "at least one sample" if not expected else f"all {expected} samples"
            raise FileFormatError(
                argument="output",
                rule=f"must have {all_of} of the input",
                got=f"{self.n_samples} for {os.fspath(target)!r}",
                remedy="Write every chunk of the input once.",
            )
