"""The target prior of unlabelled scores, estimated chunk by chunk.

Predictions add up over chunks. The likelihood that EM climbs does too: every step is a pass.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from reprior.core.arrays import namespace, to_numpy
from reprior.core.binary import is_single_score
from reprior.core.checks import check_kind
from reprior.core.prior import as_prior
from reprior.core.shift import _Estimate, _Problem, _problem
from reprior.core.shift_doubts import held_back
from reprior.core.shift_em import Likelihood
from reprior.core.shift_moments import (
    HardPredictions,
    Moments,
    bbse,
    conditioning,
    predictions,
    truncated,
)
from reprior.core.shift_newton import most_likely
from reprior.core.shift_rlls import rlls
from reprior.core.shift_rows import Affine, Calibration, as_calibration, log_rows
from reprior.engines.lookalike import Lookalike
from reprior.engines.passes import GATHERED_SCORES, KEPT_SCORES
from reprior.engines.stream import Progress, as_chunk, located
from reprior.exceptions import LabelsError, OptionError, RepriorWarning, ScoresError
from reprior.files.chunk import Chunk
from reprior.files.score_file import ScoreFile
from reprior.files.walk import said_of

__all__ = ["estimate_target_prior"]

Vector: TypeAlias = np.ndarray[Any, Any]


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
        are not looked at. ``"em"`` goes through them once per step, some ten to three hundred
        times, unless they are few enough to be kept (2²³ scores); all other methods once, so
        that an iterator will do.
    source_prior, method, kind, calibration, class_axis, ignore_index
        As in :func:`reprior.estimate_target_prior`.
    validation : (scores, labels), or iterable of Chunk or of such, optional
        Labelled scores, as arrays or in chunks. They are gathered in memory, up to 2²⁷ scores.
    progress : callable, optional
        Called after every chunk with the number of samples read in the present pass.

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
    _check_files(chunks, kind, "chunks")
    _check_files(validation, kind, "validation")
    source = as_prior(source_prior, name="source_prior")
    # With a sample of no meaning for the target: what else is given is checked and read.
    problem = _problem(
        _blank(source.size, kind, class_axis), source, method, kind,
        _gathered(validation, class_axis), calibration, class_axis, ignore_index,
    )  # fmt: skip
    how = as_calibration(calibration, source.size)
    if problem.calibration is not None:
        how = Affine(*problem.calibration)
    target = _Target(chunks, source.size, kind, class_axis, how, progress)
    found = _by_em(problem, target) if method == "em" else _by_moments(problem, target)
    target.lookalike.warn(stacklevel=2)
    left_out = [each for given in (chunks, validation) for each in getattr(given, "left_out", ())]
    for sentence in (*found.doubts(), *([said_of(left_out)] if left_out else [])):
        warnings.warn(sentence, RepriorWarning, stacklevel=2)
    return found.prior


class _Target:
    """Unlabelled scores, gone through as rows of log-scores."""

    def __init__(
        self,
        chunks: Any,
        n_classes: int,
        kind: str,
        class_axis: int,
        calibration: Calibration | None,
        progress: Progress,
    ) -> None:
        self.chunks = [chunks] if array_api_compat.is_array_api_obj(chunks) else chunks
        self.n_classes, self.kind, self.class_axis = n_classes, kind, class_axis
        self.calibration, self.progress = calibration, progress
        self.lookalike, self._looked = Lookalike(kind), False

    def rows(self) -> Iterator[Vector]:
        """One pass: the rows (n, K) of every chunk that has some."""
        done = 0
        for given in self.chunks:
            bare = array_api_compat.is_array_api_obj(given)
            chunk = Chunk(given, start=done) if bare else as_chunk(given, done)
            axis, shape = _sample_axis(chunk.scores, self.class_axis), np.shape(chunk.scores)
            if not np.prod(shape, dtype=np.int64):
                continue
            with located(chunk.start or done, axis), _unsaid():
                rows = log_rows(
                    chunk.scores, self.n_classes, kind=self.kind, class_axis=self.class_axis,
                    calibration=self.calibration,
                )  # fmt: skip
            if not self._looked:
                self._look(chunk.scores, len(rows))
            done += shape[axis]
            if self.progress is not None:
                self.progress(done)
            yield rows
        self._looked = True
        if not done:
            raise ScoresError(
                "`chunks` must give at least one sample. Got none. Check the files; a generator "
                "that was read before is empty."
            )

    def _look(self, scores: Any, n: int) -> None:
        xp, single = namespace(scores), is_single_score(
            np.shape(scores), self.n_classes, self.class_axis
        )  # fmt: skip
        z = xp.asarray(scores) if single else xp.moveaxis(xp.asarray(scores), self.class_axis, -1)
        self.lookalike.look(z, n, single, xp)


class _Ratios:
    """The rows of all chunks as an array that is read slice by slice, from its beginning on."""

    def __init__(self, parts: Callable[[], Iterator[Vector]], shape: tuple[int, int]) -> None:
        self._begin, self.shape = parts, shape
        self._parts: Iterator[Vector] = iter(())
        self._held, self._at = np.empty((0, shape[1])), 0

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, part: slice) -> Vector:
        if part.start == 0:
            self._parts, self._held, self._at = self._begin(), self._held[:0], 0
        assert part.start == self._at  # noqa: S101 - whoever adds up goes from slice to slice
        stop = min(part.stop, len(self))
        held, n = [self._held], len(self._held)
        while n < stop - self._at:
            more = next(self._parts, None)
            if more is None:
                raise _other_samples(len(self), self._at + n)
            held.append(more)
            n += len(more)
        rows = np.concatenate(held) if n > len(self._held) else self._held
        rows, self._held = rows[: stop - self._at], rows[stop - self._at :]
        self._at = stop
        if stop == len(self) and (len(self._held) or next(self._parts, None) is not None):
            raise _other_samples(len(self), stop + 1)
        return rows


class _Read(Likelihood):
    """A likelihood whose rows may be read anew for every pass."""

    def __init__(self, ratio: Any) -> None:
        self.ratio, self.counts = ratio, None


def _by_em(problem: _Problem, target: _Target) -> _Estimate:
    chunks, source = target.chunks, problem.source
    if iter(chunks) is chunks:
        raise OptionError(
            f"`chunks` must be something that can be gone through several times for method='em'. "
            f"Got {type(chunks).__name__}. Pass a list, or an object whose __iter__ begins anew; "
            f"method='bbse' and method='rlls' read them once."
        )

    def ratios() -> Iterator[Vector]:
        return (Likelihood(rows, source).ratio for rows in target.rows())

    kept: list[Vector] = []
    n = 0
    for part in ratios():
        n += len(part)
        kept.append(part)
        if n * source.size > KEPT_SCORES:
            kept.clear()
    few = n * source.size <= KEPT_SCORES
    likelihood = _Read(np.concatenate(kept) if few else _Ratios(ratios, (n, source.size)))
    found = most_likely(likelihood, source)
    known = None
    if problem.labelled is not None:
        seen, labels = predictions(problem.labelled.rows, soft=True), problem.labelled.labels
        known = conditioning(seen, labels, seen.class_means(labels))
    return _Estimate(
        prior=found.priors[0],
        conditioning=known,
        iterations=int(found.iterations[0]),
        last_change=float(found.change[0]),
        left=float(found.left[0]),
    )


def _by_moments(problem: _Problem, target: _Target) -> _Estimate:
    labelled, source = problem.labelled, problem.source
    assert labelled is not None  # noqa: S101 - checked where the arguments are
    soft = problem.method.endswith("soft")
    total = np.zeros(source.size)
    for rows in target.rows():
        part = predictions(rows, soft=soft)
        if isinstance(part, HardPredictions):
            total += np.bincount(part.classes, minlength=source.size)
        else:
            total += part.probabilities.sum(axis=0, dtype=np.float64)
    seen, labels = predictions(labelled.rows, soft=soft), labelled.labels
    found = Moments(total / total.sum(), seen.class_means(labels), labels.size)
    solve = rlls if problem.method.startswith("rlls") else bbse
    prior = truncated(solve(found, source), source)
    return _Estimate(
        prior=prior,
        conditioning=conditioning(seen, labels, found.confusion),
        held=held_back(prior, found, source) if solve is rlls else None,
    )


def _gathered(validation: Any, class_axis: int) -> Any:
    """Labelled scores in memory, up to a limit."""
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
        if chunk.labels is None or n > GATHERED_SCORES:
            _refuse_validation(n)
        axis = _sample_axis(chunk.scores, class_axis)
        scores.append(kept(to_numpy(chunk.scores)))
        labels.append(kept(to_numpy(chunk.labels)))
    if not scores:
        _refuse_validation(n)
    return np.concatenate(scores, axis=axis), np.concatenate(labels)


def _refuse_validation(n: int) -> None:
    if n > GATHERED_SCORES:
        raise OptionError(
            f"`validation` must fit into memory: at most {GATHERED_SCORES:,} scores. Got more. "
            f"Pass a sample of it."
        )
    got = "a chunk without labels" if n else "no samples"
    raise LabelsError(
        f"`validation` must be labelled scores. Got {got}. Pass (scores, labels), or chunks of "
        f"such."
    )


def _check_files(given: Any, kind: str, name: str) -> None:
    """Refuse files that state another kind."""
    if isinstance(given, ScoreFile) and given.kind not in (None, kind):
        raise OptionError(
            f"`kind` must be that of the scores. Got {kind!r}, and `{name}` are {given.kind!r}. "
            f"Pass kind={given.kind!r}."
        )


def _blank(n_classes: int, kind: str, class_axis: int) -> Vector:
    """One sample that says nothing, with its classes on an axis."""
    n_axes = max(2, class_axis + 1 if class_axis >= 0 else -class_axis)
    shape = [1] * n_axes
    shape[class_axis] = n_classes
    even = {"logits": 0.0, "probs": 1 / n_classes, "log_probs": -np.log(n_classes)}
    return np.full(shape, even[kind])


def _sample_axis(scores: Any, class_axis: int) -> int:
    """The axis of the samples: the first that is not the classes'."""
    n_axes = len(np.shape(scores))
    return 1 if n_axes > 1 and class_axis in (0, -n_axes) else 0


def _other_samples(n: int, found: int) -> OptionError:
    more = "more" if found > n else str(found)
    return OptionError(
        f"`chunks` must give the same samples in every pass. Got {n} rows, and then {more}. Leave "
        f"the files alone while they are read."
    )


@contextmanager
def _unsaid() -> Iterator[None]:
    """Say nothing of look-alikes of one chunk: it is a question to all of them together."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`scores` were declared", RepriorWarning)
        yield
