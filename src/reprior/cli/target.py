"""The class mix to decide for: uniform, from a file, or estimated from unlabelled scores."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.cli.inputs import open_to_fit, read_prior_file
from reprior.cli.options import Reading
from reprior.cli.session import Session
from reprior.exceptions import LabelsError, OptionError, ScoresError

if TYPE_CHECKING:
    from reprior.files.scores import ScoreFile

__all__ = ["sample_rows", "target_prior_of"]

Vector: TypeAlias = np.ndarray[Any, Any]

#: Scores that an estimate looks at, at most, and as many of VAL: 64 MB of float64 each.
MOST_SCORES = 2**23


def target_prior_of(
    session: Session,
    choice: str,
    target_scores: Sequence[str],
    source_prior: Vector,
    names: list[Any] | None,
    scores: ScoreFile,
    reading: Reading,
) -> Any:
    """Return the target prior that the options ask for."""
    if target_scores and choice != "estimate":
        raise OptionError(
            f"`target_scores` must come with --target-prior estimate. Got --target-prior {choice}."
        )
    if choice == "uniform":
        return "uniform"
    if choice == "estimate":
        return _estimated(session, target_scores, source_prior, scores, reading)
    if not Path(choice).exists():
        near = difflib.get_close_matches(choice, ("uniform", "estimate"), n=1)
        hint = f"Did you mean {near[0]!r}?" if near else "Check the path."
        raise OptionError(
            f"`target_prior` must be uniform, estimate, or a file that exists. Got {choice!r}. "
            f"{hint}"
        )
    return read_prior_file(session, choice, "target prior", names, scores.n_classes)[0]


def _estimated(
    session: Session,
    target_scores: Sequence[str],
    source_prior: Vector,
    scores: ScoreFile,
    reading: Reading,
) -> Vector:
    """Estimate by expectation-maximisation, from all rows or a bounded sample of them."""
    if not target_scores:
        raise OptionError(
            "--target-scores must name unlabelled scores of the target. Got none beside "
            "--target-prior estimate."
        )
    found = open_to_fit(session, target_scores, reading, labelled=False, names=scores.class_names)
    if found.kind != scores.kind or found.n_classes != scores.n_classes:
        raise OptionError(
            f"`target_scores` must be of the kind and the classes of VAL, {scores.kind} of "
            f"{scores.n_classes} classes. Got {found.kind} of {found.n_classes}."
        )
    with session.progress("reading the target", found.n_samples) as progress:
        rows, n_rows = sample_rows(
            found,
            class_axis=found.class_axis,
            most=MOST_SCORES // scores.n_classes,
            progress=progress,
        )
    estimate, how = _by_em(rows, source_prior, str(found.kind), _labelled(session, scores))
    which = "all" if len(rows) == n_rows else f"{len(rows):,} rows drawn from"
    session.note(
        f"the target prior is estimated from {which} {n_rows:,} rows of the target scores, by "
        f"expectation-maximisation, which {how}"
    )
    return estimate


def _labelled(session: Session, scores: ScoreFile) -> tuple[Vector, Vector]:
    """VAL, or a bounded sample of it: what the model's probabilities are calibrated by."""
    from reprior.cli.estimate import sample_labelled_rows

    with session.progress("reading VAL", scores.n_samples) as progress:
        rows, labels, _ = sample_labelled_rows(
            scores,
            class_axis=scores.class_axis,
            ignore_index=scores.ignore_index,
            most=MOST_SCORES // scores.n_classes,
            progress=progress,
        )
    return rows, labels


def _by_em(
    rows: Vector, source_prior: Vector, kind: str, validation: tuple[Vector, Vector]
) -> tuple[Vector, str]:
    """The estimate, and whose probabilities it trusts: VAL may lack what a calibration needs."""
    from reprior.core.shift.estimate import estimate_target_prior

    try:
        estimate = estimate_target_prior(
            rows, source_prior=source_prior, kind=kind, validation=validation
        )
    except (LabelsError, ScoresError) as error:
        plain = estimate_target_prior(rows, source_prior=source_prior, kind=kind)
        why = str(error).split(". ")[0]
        return plain, f"trusts the model's probabilities: VAL cannot calibrate them ({why})"
    n_labels = f"{len(validation[1]):,} labels of VAL"
    return estimate, f"trusts the model's probabilities once they are calibrated by {n_labels}"


def sample_rows(
    chunks: Iterable[Any], *, class_axis: int, most: int, progress: Any = None, seed: int = 0
) -> tuple[Vector, int]:
    """Return a uniform sample of at most ``most`` rows of scores, and how many there were.

    Every row draws a key, and the rows of the smallest keys stay.

    Examples
    --------
    >>> import numpy as np
    >>> from reprior.files.chunks import Chunk
    >>> rows, n = sample_rows([Chunk(np.eye(3)), Chunk(np.eye(3))], class_axis=-1, most=4)
    >>> rows.shape, n
    ((4, 3), 6)
    """
    rng = np.random.default_rng(seed)
    kept: list[Vector] = []
    keys: list[Vector] = []
    n_rows = held = 0
    for chunk in chunks:
        rows = np.asarray(chunk.scores)
        if rows.ndim > 1:
            rows = np.moveaxis(rows, class_axis, -1).reshape(-1, rows.shape[class_axis])
        n_rows, held = n_rows + len(rows), held + len(rows)
        kept.append(rows)
        keys.append(rng.random(len(rows)))
        if held > 2 * most:
            kept, keys = _smallest(kept, keys, most)
            held = most
        if progress is not None:
            progress(chunk.start + len(chunk.scores))
    if not n_rows:
        raise ScoresError("The target scores must have rows. Got none. Check the files.")
    if held > most:
        kept, keys = _smallest(kept, keys, most)
    return np.concatenate(kept), n_rows


def _smallest(
    kept: list[Vector], keys: list[Vector], most: int
) -> tuple[list[Vector], list[Vector]]:
    rows, key = np.concatenate(kept), np.concatenate(keys)
    chosen = np.sort(np.argpartition(key, most - 1)[:most])
    return [rows[chosen]], [key[chosen]]
