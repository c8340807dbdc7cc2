"""Re-iterable labelled chunks of several modalities."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from reprior.calibrator.encoding import Terms, encode_labels, encode_part_labels, read_terms
from reprior.core.arrays import to_numpy
from reprior.core.checks import check_labels, check_sample_weight
from reprior.exceptions import (
    Argument,
    LabelsError,
    OptionError,
    RepriorError,
    ScoresError,
    Setting,
)
from reprior.fusion.blocks import Batch
from reprior.fusion.fused import NoPosteriorError, Recipe
from reprior.fusion.named_scores import Inputs, named_scores, read_inputs

__all__ = [
    "ModalityChunk",
    "ModalityStream",
    "located",
    "repeatable",
    "stream_of_arrays",
    "stream_of_chunks",
    "unpacked",
]

Vector: TypeAlias = np.ndarray[Any, Any]
Chunks: TypeAlias = Callable[[], Iterable[Any]]
Encode: TypeAlias = Callable[[Any], tuple[Any, int | None]]


@dataclass(frozen=True, eq=False)
class ModalityChunk:
    """One chunk that was read, and what counts of it."""

    inputs: Inputs
    labels: Vector
    """(images, pixels)."""
    weights: Vector | None
    """(images, pixels), or None."""
    keep: Vector
    """The pixels that count, (images, pixels) booleans."""
    images: Vector | None
    """Indices of the images with a pixel that counts, None for all."""
    index: int = 0
    """The index of the chunk in the stream."""

    def batch(self, recipe: Recipe) -> Batch:
        """Return the images that count as a batch."""
        return Batch(self.inputs.images_first(), self.inputs.tolerances, recipe, self.images)

    @contextmanager
    def refusing(self, recipe: Recipe) -> Iterator[None]:
        """Let rows without a posterior, in the block, raise errors that name them."""
        with located(self.index):
            try:
                yield
            except NoPosteriorError as error:
                out = ~np.any(self.keep, axis=1, keepdims=True)
                shape = self.inputs.labels_shape
                left_out = np.broadcast_to(out, self.keep.shape).reshape(shape)
                self.inputs.refuse(error.modality, recipe, left_out)


class ModalityStream:
    """Re-iterable chunks as :class:`ModalityChunk`.

    Chunks in which no sample counts are skipped; if all are skipped, that is an error. The first
    pass decides the modalities.
    """

    def __init__(self, options: Any, chunks: Chunks, terms: Terms, encode: Encode) -> None:
        self.options = options
        self.terms = terms
        self._chunks = chunks
        self._encode = encode
        self._n_samples: int | None = None
        self.labelled: bool | None = None
        self.modalities: tuple[str, ...] = ()
        self.looks_like_probabilities = True

    def parts(self) -> Iterator[ModalityChunk]:
        """Give the chunks of one pass."""
        done = 0
        counted = False
        for index, given in enumerate(self._chunks()):
            with located(index):
                part = self._read(index, *unpacked(given))
            done += part.keep.size
            if part.keep.any():
                counted = True
                yield part
        if not counted:
            raise LabelsError(
                argument="labels",
                rule="must leave at least one sample to count",
                got=f"{done} samples, all of them ignored or of weight 0",
                remedy=[
                    "Check ",
                    Argument("ignore_index"),
                    " and ",
                    Argument("sample_weight"),
                    ".",
                ],
            )
        if self._n_samples not in (None, done):
            raise OptionError(
                argument="chunks",
                rule="must give the same samples in every pass",
                got=f"{self._n_samples} samples, and then {done}",
                remedy="Return a fresh iterable from every call.",
            )
        self._n_samples = done

    def _read(self, index: int, scores: Any, labels: Any, weight: Any) -> ModalityChunk:
        options = self.options
        there = named_scores(scores, self.modalities or None, fitting=True)
        self.modalities = self.modalities or tuple(there)
        inputs = read_inputs(
            there,
            n_classes=self.terms.classes.size,
            kind=options.kind,
            class_axis=options.class_axis,
            passes=options.uncertainty != "entropy",
            classes=self.terms.names,
            beside=[each for each in (labels, weight) if hasattr(each, "shape")],
        )
        if self.looks_like_probabilities:
            self.looks_like_probabilities = inputs.look_like_probabilities()
        shape = inputs.labels_shape
        if self._unlabelled(labels, weight):
            every = np.ones((shape[0], math.prod(shape[1:])), bool)
            return ModalityChunk(inputs, np.zeros(every.shape, np.intp), None, every, None, index)
        indices, ignored = self._encode(labels)
        y = to_numpy(indices)
        check_labels(y, n_classes=self.terms.classes.size, shape=shape, ignore_index=ignored)
        flat = (shape[0], -1)
        keep = np.ones(y.shape, bool) if ignored is None else y != ignored
        v = None if weight is None else to_numpy(weight)
        if v is not None:
            if v.shape != shape or v.any():
                check_sample_weight(v, shape)
            keep &= v > 0
            v = v.astype(np.float64).reshape(flat)
        keep = keep.reshape(flat)
        some = keep.any(axis=1)
        images = None if some.all() else np.flatnonzero(some)
        return ModalityChunk(inputs, y.astype(np.intp).reshape(flat), v, keep, images, index)

    def _unlabelled(self, labels: Any, weight: Any) -> bool:
        """Tell whether there are no labels; refuse that where they are needed or given before."""
        if labels is not None and self.labelled is not False:
            self.labelled = True
            return False
        if self.options.strength is None:
            raise LabelsError(
                argument="labels",
                rule="must be given for a strength to be tuned",
                got="none",
                remedy=[
                    "Pass labels, or ",
                    Setting("strength", 1.0),
                    " to tune nothing.",
                ],
            )
        if self.labelled or labels is not None:
            raise LabelsError(
                argument="labels",
                rule="must be given for all chunks or for none",
                got="chunks with and chunks without labels",
                remedy="Leave them out: the strength is given.",
            )
        if weight is not None:
            raise OptionError(
                argument="sample_weight",
                rule="must come with labels: it is for the metric",
                got="no labels",
                remedy="Leave the weights out.",
            )
        self.labelled = False
        return True


def stream_of_arrays(options: Any, scores: Any, labels: Any, sample_weight: Any) -> ModalityStream:
    """Return a stream of one chunk. Labels are class indices, or names from ``classes``."""
    _refuse_priors(options.source_prior)
    there = named_scores(scores, fitting=True)
    first = next(iter(there.values()))
    seen = () if labels is None else labels
    terms = read_terms(options, options.classes, scores=first, labels=seen)
    if hasattr(sample_weight, "to_numpy"):
        sample_weight = sample_weight.to_numpy()

    def encode(values: Any) -> tuple[Any, int | None]:
        return encode_labels(values, terms.names, options.ignore_index)

    return ModalityStream(options, lambda: [(there, labels, sample_weight)], terms, encode)


def stream_of_chunks(options: Any, chunks: Any) -> ModalityStream:
    """Return a stream of many chunks. Integer labels are class indices; others are names."""
    _refuse_priors(options.source_prior)
    again = repeatable(chunks)
    first = next(iter(again()), None)
    if first is None:
        raise LabelsError(
            argument="chunks",
            rule="must give at least one chunk",
            got="none",
            remedy="Return ({name: scores}, labels) pairs.",
        )
    _, labels, _ = unpacked(first)
    seen = () if labels is None else labels
    terms = read_terms(options, options.classes, labels=seen)

    def encode(values: Any) -> tuple[Any, int | None]:
        return encode_part_labels(options, terms, values)

    return ModalityStream(options, again, terms, encode)


@contextmanager
def located(index: int) -> Iterator[None]:
    """Add the index of the chunk to errors, except for the first chunk."""
    try:
        yield
    except RepriorError as error:
        if not index:
            raise
        raise error.with_sentence(f"(In chunk {index}, counted from 0.)") from error


def repeatable(chunks: Any) -> Chunks:
    """Return a function whose every call gives the chunks from the first on."""
    if callable(chunks):
        return lambda: _checked(chunks())
    if isinstance(chunks, Iterable) and iter(chunks) is not chunks:
        return lambda: chunks
    raise OptionError(
        argument="chunks",
        rule="must be something that can be iterated several times",
        got=type(chunks).__name__,
        remedy="Pass a function that returns a fresh iterable, or a list.",
    )


def _checked(chunks: Any) -> Iterable[Any]:
    if isinstance(chunks, Iterable):
        return chunks
    raise OptionError(
        argument="chunks",
        rule="must return an iterable of ({name: scores}, labels)",
        got=type(chunks).__name__,
        remedy="Write it as a generator function, for example.",
    )


def unpacked(given: Any) -> tuple[Any, Any, Any]:
    """Return scores, labels and weights of a chunk."""
    if isinstance(given, Mapping):
        return given, None, None
    if isinstance(given, tuple | list) and 2 <= len(given) <= 3 and isinstance(given[0], Mapping):
        scores, labels, weight = (*given, None)[:3]
        return scores, labels, weight
    raise ScoresError(
        argument="chunks",
        rule="must give ({name: scores}, labels) or ({name: scores}, labels, weight)",
        got=type(given).__name__,
        remedy="Name the modalities of every chunk.",
    )


def _refuse_priors(source_prior: Any) -> None:
    """Refuse a prior per modality: there is one for all."""
    if not isinstance(source_prior, Mapping):
        return
    priors = [
        name for name, prior in source_prior.items() if np.ndim(prior) or isinstance(prior, dict)
    ]
    if priors:
        one, other = (*map(str, source_prior), "another")[:2]
        raise OptionError(
            argument="source_prior",
            rule="must be one prior for all modalities, a number for each class",
            got=f"one for each of {', '.join(map(repr, source_prior))}",
            remedy=(
                f"Bring the scores of {other!r} to the prior of {one!r} first, with "
                f"reprior.log_rebalance(scores, own_prior, target_prior=prior_of_{one}), "
                "and pass that prior."
            ),
        )
