"""Estimate the target prior of unlabelled scores chunk by chunk.

Predictions add up over chunks. The likelihood of EM does too: every step is a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, NoReturn, TypeAlias, TypeVar

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from reprior._warnings import warn
from reprior.core.arrays import namespace, to_numpy
from reprior.core.binary import is_single_score
from reprior.core.checks import check_kind
from reprior.core.shift.em import Likelihood
from reprior.core.shift.estimate import Estimate, PriorEstimator, prepare_estimator
from reprior.engines.chunk_source import (
    Progress,
    as_chunk,
    located,
    refuse_changed,
    refuse_other_samples,
    refuse_paths,
    sources_of,
)
from reprior.exceptions import (
    Argument,
    LabelsError,
    OptionError,
    ScoresError,
    Setting,
)
from reprior.files.chunks import Chunk, describe_left_out
from reprior.files.scores import ScoreFile
from reprior.profile.samples import ProbabilityDetector, without_likely_probabilities
from reprior.profile.source import HELD_SCORES, MOST_COLLECTED

__all__ = ["estimate_target_prior"]

Vector: TypeAlias = np.ndarray[Any, Any]
Read = TypeVar("Read", bound=Sized)


def estimate_target_prior(
    chunks: Iterable[Any],
    *,
    source_prior: Any,
    method: str = "em",
    kind: str = "logits",
    validation: Any = None,
    calibration: Any = None,
    class_axis: int = -1,
    ignore_index: int | None = None,
    progress: Progress = None,
) -> NDArray[np.float64]:
    """Return the target prior of unlabelled scores that come in chunks, in bounded memory.

    The result is that of :func:`reprior.estimate_target_prior` on all of them at once, to 1e-9.

    Parameters
    ----------
    chunks : iterable of arrays, of Chunk or of (scores, labels); or an array
        A file opened by :func:`reprior.files.scores.open_scores`, or a list. Labels and weights
        are not used. ``"em"`` reads them once per step, some ten to three hundred times, unless
        they are few enough to be kept (2²³ scores); all other methods read them once, so an
        iterator is enough.
    source_prior, method, kind, calibration, class_axis, ignore_index
        As in :func:`reprior.estimate_target_prior`.
    validation : (scores, labels), or iterable of Chunk or of such, optional
        Labelled scores, as arrays or in chunks. They are collected in memory, up to 2²⁷ scores.
    progress : callable, optional
        Called after every chunk with the number of samples read in the current pass.

    Returns
    -------
    ndarray of shape (K,), float64
        P_t, sums to 1.

    Warns
    -----
    RepriorWarning
        As :func:`reprior.estimate_target_prior`; and of files that could not be read.

    Examples
    --------
    >>> import numpy as np
    >>> posterior = np.array([[0.9, 0.1]] * 2 + [[0.1, 0.9]] * 8)
    >>> chunks = [posterior[:3], posterior[3:]]
    >>> estimate_target_prior(chunks, source_prior=[0.5, 0.5], kind="probs")
    array([0.125, 0.875])
    """
    check_kind(kind)
    refuse_paths(chunks)
    _check_files(chunks, kind, "chunks")
    _check_files(validation, kind, "validation")
    estimator = prepare_estimator(
        source_prior,
        method=method,
        kind=kind,
        validation=_collected(validation, class_axis),
        calibration=calibration,
        class_axis=class_axis,
        ignore_index=ignore_index,
    )
    target = _Target(chunks, estimator, progress)
    estimate = _by_em(estimator, target) if method == "em" else _by_moments(estimator, target)
    target.detector.warn()
    left_out = [each for given in (chunks, validation) for each in getattr(given, "left_out", ())]
    for text in (
        *estimate.reliability_warnings(),
        *([describe_left_out(left_out)] if left_out else []),
    ):
        warn(text)
    return estimate.prior


class _Target:
    """Unlabelled scores, read chunk by chunk."""

    def __init__(self, chunks: Any, estimator: PriorEstimator, progress: Progress) -> None:
        self.chunks = [chunks] if array_api_compat.is_array_api_obj(chunks) else chunks
        self.estimator, self.progress = estimator, progress
        self.detector, self._looked = ProbabilityDetector(), False
        self._sources = sources_of(self.chunks)

    def each(self, read: Callable[[Any], Read]) -> Iterator[Read]:
        """Give ``read(scores)`` of every chunk that has samples, in one pass."""
        done = 0
        for given in self.chunks:
            bare = array_api_compat.is_array_api_obj(given)
            chunk = Chunk(given, start=done) if bare else as_chunk(given, done)
            axis = chunk.sample_axis(self.estimator.class_axis)
            shape = np.shape(chunk.scores)
            if not np.prod(shape, dtype=np.int64):
                continue
            with located(chunk.start or done, axis), without_likely_probabilities():
                result = read(chunk.scores)
            if not self._looked:
                self._look(chunk.scores, len(result))
            done += shape[axis]
            if self.progress is not None:
                self.progress(done)
            yield result
        self._looked = True
        refuse_changed(self._sources, self.chunks)
        if not done:
            raise ScoresError(
                argument="chunks",
                rule="must give at least one sample",
                got="none",
                remedy="Check the files; a generator that was read before is empty.",
            )

    def _look(self, scores: Any, n: int) -> None:
        xp, axis, shape = namespace(scores), self.estimator.class_axis, np.shape(scores)
        single = is_single_score(shape, self.estimator.source_prior.size, axis)
        z = xp.asarray(scores) if single else xp.moveaxis(xp.asarray(scores), axis, -1)
        self.detector.look(z, self.estimator.kind, single, n, xp)


class _Ratios:
    """The rows of all chunks as an array that is read slice by slice, from the first row."""

    def __init__(self, parts: Callable[[], Iterator[Vector]], shape: tuple[int, int]) -> None:
        self._begin, self.shape = parts, shape
        self._parts: Iterator[Vector] = iter(())
        self._held, self._at = np.empty((0, shape[1])), 0

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: slice) -> Vector:
        if part.start == 0:
            self._parts, self._held, self._at = self._begin(), self._held[:0], 0
        assert part.start == self._at  # noqa: S101 - slices are read in order
        stop = min(part.stop, len(self))
        held, n = [self._held], len(self._held)
        while n < stop - self._at:
            more = next(self._parts, None)
            if more is None:
                _refuse_other_rows(len(self), self._at + n)
            held.append(more)
            n += len(more)
        rows = np.concatenate(held) if n > len(self._held) else self._held
        rows, self._held = rows[: stop - self._at], rows[stop - self._at :]
        self._at = stop
        if stop == len(self) and (len(self._held) or next(self._parts, None) is not None):
            _refuse_other_rows(len(self), stop + 1)
        return rows


def _by_em(estimator: PriorEstimator, target: _Target) -> Estimate:
    chunks, source = target.chunks, estimator.source_prior
    if iter(chunks) is chunks:
        raise OptionError(
            argument="chunks",
            rule=[
                "must be something that can be iterated several times for ",
                Setting("method", "em"),
            ],
            got=type(chunks).__name__,
            remedy=[
                "Pass a list, or an object whose __iter__ starts again; ",
                Setting("method", "bbse"),
                " and ",
                Setting("method", "rlls"),
                " read them once.",
            ],
        )

    def ratios() -> Iterator[Vector]:
        return (Likelihood(rows, source).ratio for rows in target.each(estimator.log_scores))

    kept: list[Vector] = []
    n = 0
    for part in ratios():
        n += len(part)
        kept.append(part)
        if n * source.size > HELD_SCORES:
            kept.clear()
    few = n * source.size <= HELD_SCORES
    ratio = np.concatenate(kept) if few else _Ratios(ratios, (n, source.size))
    return estimator.by_likelihood(Likelihood.from_ratio(ratio))


def _by_moments(estimator: PriorEstimator, target: _Target) -> Estimate:
    total = np.zeros(estimator.source_prior.size)
    for part in target.each(estimator.predictions):
        total += part.sum()
    return estimator.by_moments(total)


def _collected(validation: Any, class_axis: int) -> Any:
    """Return labelled scores in memory, up to a limit."""
    pair = isinstance(validation, tuple) or (
        isinstance(validation, list)
        and len(validation) == 2
        and all(map(array_api_compat.is_array_api_obj, validation))
    )
    if validation is None or pair or not isinstance(validation, Iterable):
        return validation
    kept = np.asarray if isinstance(validation, ScoreFile) else np.array
    scores, labels, axis, n = [], [], 0, 0
    for given in validation:
        chunk = as_chunk(given, 0)
        n += int(np.size(chunk.scores))
        if chunk.labels is None or n > MOST_COLLECTED:
            _refuse_validation(n)
        axis = chunk.sample_axis(class_axis)
        scores.append(kept(to_numpy(chunk.scores)))
        labels.append(kept(to_numpy(chunk.labels)))
    if not scores:
        _refuse_validation(n)
    return np.concatenate(scores, axis=axis), np.concatenate(labels)


def _refuse_validation(n: int) -> None:
    if n > MOST_COLLECTED:
        raise OptionError(
            argument="validation",
            rule=f"must fit into memory: at most {MOST_COLLECTED:,} scores",
            got="more",
            remedy="Pass a sample of it.",
        )
    got = "a chunk without labels" if n else "no samples"
    raise LabelsError(
        argument="validation",
        rule="must be labelled scores",
        got=got,
        remedy="Pass (scores, labels), or chunks of such.",
    )


def _check_files(given: Any, kind: str, name: str) -> None:
    """Refuse files of another kind."""
    if isinstance(given, ScoreFile) and given.kind not in (None, kind):
        raise OptionError(
            argument="kind",
            rule="must be that of the scores",
            got=[f"{kind!r}, and ", Argument(name), f" are {given.kind!r}"],
            remedy=["Pass ", Setting("kind", given.kind), "."],
        )


def _refuse_other_rows(n: int, n_now: int) -> NoReturn:
    refuse_other_samples("chunks", f"{n} rows, and then {'more' if n_now > n else n_now}")
