"""Blend: one model out of two, with the weight between them tuned exactly."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import array_api_compat
import numpy as np

from reprior._warnings import warn
from reprior.calibrator.document import metric_parts
from reprior.calibrator.encoding import (
    are_indices,
    encode_labels,
    is_range,
    refuse_other_index,
    resolve_classes,
    score_array,
)
from reprior.calibrator.fitting import inside
from reprior.calibrator.options import check_trust, seed_of
from reprior.calibrator.summary import (
    cost_sentence,
    counted_metrics,
    digits_apart,
    metric_losses,
    metric_name,
    trust_lines,
    tuned_for,
)
from reprior.core.arrays import (
    Array,
    Namespace,
    accumulation_dtype,
    device_of,
    is_floating,
    is_traced,
    namespace,
    to_numpy,
)
from reprior.core.binary import (
    contract,
    expand,
    expanded_axis,
    is_single_score,
    resolve_class_axis,
)
from reprior.core.checks import (
    check_bounds,
    check_choice,
    check_class_axis,
    check_kind,
    few,
    first_index,
)
from reprior.core.logspace import (
    as_scores,
    log_scores,
    log_softmax,
    row_element,
    sum_tolerance,
    warn_if_probs,
)
from reprior.exceptions import (
    Argument,
    Element,
    NotFittedError,
    OptionError,
    RepriorError,
    ScoresError,
)
from reprior.files.documents import write_blend
from reprior.fusion.stream import located, repeatable, unpacked
from reprior.metrics.count_metrics import CountMetric, find_metric
from reprior.metrics.counts import ClassCounts
from reprior.profile.dask_arrays import DaskArrays
from reprior.profile.objective import Constraint
from reprior.profile.profile import StrengthProfile
from reprior.profile.samples import Line, Samples, refuse_nothing
from reprior.profile.source import AUTO_BINS, EXACT, InMemory, Pass, ProfilePass, Source, collected
from reprior.tuning.bootstrap import StrengthBootstrap
from reprior.tuning.crossval import (
    CrossValidation,
    cross_validate_samples,
    folds_of,
    images_of,
)
from reprior.tuning.selection import select
from reprior.tuning.uncertainty import Uncertainty, uncertainty

__all__ = ["SELECTIONS", "Blend", "blend_fields"]

Vector: TypeAlias = np.ndarray[Any, Any]
Result = TypeVar("Result")
Self = TypeVar("Self", bound="Blend")

SELECTIONS = ("max", "smooth", "bagged", "one_se")
"""Rules to choose the weight. The others know where the strength of a prior usually is."""

BELOW_CHANCE = 4.0
"""Standard errors of Cohen's κ by which a model must be below chance for a warning."""


class Blend:
    r"""One model out of two: the weight between their log-posteriors, tuned on labelled scores.

    .. math:: P(k|x) ∝ P_1(k|x)^{1-λ}\,P_2(k|x)^{λ}, \qquad
        \log P = (1 - λ)\,\log P_1 + λ\,\log P_2 + \mathrm{const}

    with the posteriors P_1 and P_2 of the two models (the softmax of logits). Every class's score
    is a line in λ, so the best weight for a count metric is found over the continuum, from one pass
    over the scores: no grid is swept. Examples are two networks, a zero-shot model and its
    fine-tuned head, a network and a boosted tree. The models may have different kinds of scores.

    Parameters
    ----------
    metric : str or CountMetric, default "balanced_accuracy"
        What the weight maximises; see :class:`PosteriorCalibrator`.
    subject_to : str or sequence of str, optional
        Constraints such as ``"recall[3] >= baseline - 0.01"``; the baseline is the first model
        alone.
    selection : {"max", "smooth", "bagged", "one_se"}, default "max"
        How λ is chosen from the profile, see :class:`PosteriorCalibrator`. "one_se" stays near the
        first model, unless the second one helps by more than the noise of the labels.
    bounds : (float, float), default (0, 1)
        λ to search. Beyond 1 or below 0 a model has a negative weight: what it knows is taken off.
        They are never widened.
    kind : {"logits", "probs", "log_probs"} or {model: kind}, default "logits"
        What the scores are.
    class_axis : int, default -1
        The axis of the classes in the scores.
    classes : sequence, optional
        The class names in the order of the scores, where labels are not 0 … K−1.
    ignore_index : optional
        A label that marks samples to leave out.
    cv : int, integer array of the labels' shape, splitter or pairs of indices, optional
        Also cross-validate: tune without a fold, evaluate on it.
    n_bootstrap : int, default 0
        Bootstrap replicates for intervals of λ, of the metric and of its gain over the first model.
    random_state : int, numpy Generator or None
        The seed of folds and replicates; None is 0.

    Attributes
    ----------
    models_ : (str, str)
        The models: the first is λ = 0, the second λ = 1.
    weights_ : {model: float}
        1 − λ and λ.
    strength_ : float
        λ. 0 where no weight does better than the first model alone, so put that one first which you
        would use otherwise.
    strength_interval_ : (float, float)
        The λ that do equally well on the tuning labels.
    best_score_ : float
        The metric *on the tuning labels*: evaluate the blend on others.
    counts_ : ClassCounts or None
        The counts of the decisions on the tuning labels.
    profile_ : StrengthProfile or None
        All counts for all λ within the bounds.
    cross_validation_ : CrossValidation or None
        The metric on samples that were not tuned on, where ``cv`` is given.
    uncertainty_ : Uncertainty or None
        Intervals that cover 90 %, where ``n_bootstrap`` is given.
    classes_ : ndarray of shape (K,)
        The classes in the order of the scores.
    provenance_ : dict or None
        What it was tuned on, ``{"digest": …, "n_samples": …}``, where that was set.

    Notes
    -----
    A class to which the second model gives probability 0 is impossible at any λ above 0, and one to
    which the first gives 0 at every λ: a product of probabilities is a veto. Models that say 0
    without being sure, such as forests of few trees, need a small probability for every class.

    ``counts_``, ``profile_``, ``cross_validation_`` and ``uncertainty_`` are None after
    :func:`reprior.load`.

    Examples
    --------
    >>> import numpy as np
    >>> import reprior as rp
    >>> first = np.array([[2.0, 1.0], [1.5, 1.0], [1.0, 1.5], [1.0, 3.0]])
    >>> second = np.array([[1.0, 2.0], [4.0, 1.0], [2.0, 1.0], [1.0, 2.0]])
    >>> blend = rp.Blend("accuracy").fit({"a": first, "b": second}, [0, 0, 0, 1])
    >>> blend.best_score_, {name: round(weight, 3) for name, weight in blend.weights_.items()}
    (1.0, {'a': 0.583, 'b': 0.417})
    >>> blend.predict({"a": first, "b": second})
    array([0, 0, 0, 1])
    >>> blend.predict_proba({"a": first[:1], "b": second[:1]}).round(3)
    array([[0.542, 0.458]])
    """

    models_: tuple[str, str]
    strength_: float
    strength_interval_: tuple[float, float]
    best_score_: float
    classes_: Vector
    counts_: ClassCounts | None = None
    profile_: StrengthProfile | None = None
    cross_validation_: CrossValidation | None = None
    uncertainty_: Uncertainty | None = None
    provenance_: dict[str, Any] | None = None
    _lost_function: bool = False

    def __init__(
        self,
        metric: str | CountMetric = "balanced_accuracy",
        *,
        subject_to: str | Sequence[str] | None = None,
        selection: str = "max",
        bounds: tuple[float, float] = (0.0, 1.0),
        kind: str | Mapping[str, str] = "logits",
        class_axis: int = -1,
        classes: Any = None,
        ignore_index: Any = None,
        cv: Any = None,
        n_bootstrap: int = 0,
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.subject_to = subject_to
        self.selection = selection
        self.bounds = bounds
        self.kind = kind
        self.class_axis = class_axis
        self.classes = classes
        self.ignore_index = ignore_index
        self.cv = cv
        self.n_bootstrap = n_bootstrap
        self.random_state = random_state

    def fit(self: Self, scores: Any, labels: Any, sample_weight: Any = None) -> Self:
        """Tune the weight on labelled scores that neither model was trained on.

        Parameters
        ----------
        scores : {model: array of shape (N, K), (N, K, H, W), …; or a frame}
            The outputs of the two models for the same samples, of one shape and array library. Dask
            arrays are processed where their chunks are.
        labels : array, series or list
            Class indices, or names from ``classes``; the scores' shape without the class axis.
        sample_weight : array of the labels' shape, optional
            A weight per sample.
        """
        self._check_options()
        models = two_models(scores)
        kinds = _kinds(self.kind, models)
        first = scores[models[0]]
        for each in (labels, sample_weight, scores[models[1]]):
            refuse_other_index(each, first, "labels", f"scores[{models[0]!r}]")
        n_classes, classes = self._resolved(first, labels)
        problem = _Pair(self, models, kinds, n_classes, classes, images=0)
        with problem.named_errors():
            source = problem.source(scores, labels, sample_weight)
        return self._tuned(problem, source)

    def fit_stream(self: Self, chunks: Any) -> Self:
        """Tune the weight on data larger than memory, in one pass over labelled chunks.

        Parameters
        ----------
        chunks : callable, or a list
            Returns, at every call, a fresh iterable of ``({model: scores}, labels)`` or
            ``({model: scores}, labels, sample_weight)``. Integer labels are class indices; others
            are names from ``classes``. ``cv`` and ``n_bootstrap`` take another pass, which collects
            the scores in memory.
        """
        self._check_options()
        again = repeatable(chunks)
        given = next(iter(again()), None)
        if given is None:
            refuse_nothing(0)
        scores, labels, _ = unpacked(given)
        models = two_models(scores)
        first = scores[models[0]]
        n_classes, classes = self._resolved(first, labels)
        problem = _Pair(self, models, _kinds(self.kind, models), n_classes, classes)
        return self._tuned(problem, _Chunks(problem, again))

    def predict_log_proba(self, scores: Any) -> Any:
        """Return the log-posterior of every class, of the scores' shape and library.

        Its dtype is that of the first model's scores.
        """
        return self._posterior(scores, log=True)

    def predict_proba(self, scores: Any) -> Any:
        """Return the posterior of every class, of the scores' shape and library.

        For two classes and one score per sample, the probability of the second class.
        """
        return self._posterior(scores, log=False)

    def predict(self, scores: Any) -> Any:
        """Return the class of the largest posterior: indices, or names where there are names.

        Indices are an array of the scores' library, names a NumPy array. Decisions are taken in
        float64, as fit counts them.
        """
        s, axis, _, xp = self._blended(scores)
        index = xp.argmax(s, axis=axis)
        if is_range(self.classes_):
            return index
        if is_traced(index):
            return index.map_blocks(self.classes_.__getitem__, dtype=self.classes_.dtype)
        return self.classes_[to_numpy(index)]

    @property
    def weights_(self) -> dict[str, float]:
        """The weight of every model; they sum to 1."""
        first, second = self._fitted.models_
        return {first: 1.0 - self.strength_, second: self.strength_}

    def summary(self) -> str:
        """Return the weights, and every count metric of both models and of the blend, as text."""
        return blend_text(self._fitted)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the blend to a JSON file, atomically. :func:`reprior.load` reads it."""
        write_blend(path, blend_fields(self._fitted))

    def __repr__(self) -> str:
        state = "not fitted"
        if hasattr(self, "strength_"):
            shown = ", ".join(f"{name!r}: {each:.4g}" for name, each in self.weights_.items())
            state = f"weights_={{{shown}}}"
        return f"Blend(metric={metric_name(self.metric)!r}, kind={self.kind!r}, {state})"

    # -------------------------------------------------------------------------------------- inside

    @property
    def _fitted(self: Self) -> Self:
        if not hasattr(self, "strength_"):
            raise NotFittedError(
                "This Blend is not fitted. Call fit(scores, labels), or reprior.load(path), first."
            )
        return self

    def _check_options(self) -> None:
        check_choice("selection", self.selection, SELECTIONS)
        check_bounds(self.bounds)
        check_trust(self.cv, self.n_bootstrap)

    def _resolved(self, scores: Any, labels: Any) -> tuple[int, Vector | None]:
        """Return K and the names of the classes, by the first model's scores."""
        n_classes = self._n_classes(scores, labels)
        return n_classes, resolve_classes(
            self.classes,
            n_classes=n_classes,
            source_prior=None,
            scores=scores,
            labels=labels,
            ignore_index=self.ignore_index,
        )

    def _n_classes(self, scores: Any, labels: Any) -> int:
        """Return K, by the first model's scores."""
        shape = np.shape(scores)
        if len(shape) < 2:
            if np.ndim(labels) == 0 or len(shape) == 0:
                raise ScoresError(
                    argument="scores",
                    rule="must have an axis of samples and one of classes",
                    got=f"shape {shape}",
                    remedy="Pass shape (1, K) for one sample.",
                )
            n_classes = 2
        else:
            n_classes = max(2, int(shape[check_class_axis(shape, self.class_axis)]))
        if self.classes is not None and len(self.classes) != n_classes:
            raise OptionError(
                argument="classes",
                rule=["must name every class of ", Argument("scores"), f", {n_classes}"],
                got=f"{len(self.classes)}: {few(list(self.classes))}",
                remedy="Pass the names in the order of the scores.",
            )
        return n_classes

    def _tuned(self: Self, problem: _Pair, source: Source) -> Self:
        """Tune on a source; set all fitted attributes at once."""
        metric, rules = problem.metric, problem.constraints
        line = Line.of(None, self.bounds, problem.n_classes)
        with problem.named_errors():
            bins = EXACT if isinstance(source, InMemory) else AUTO_BINS
            profiled = source.run(ProfilePass(line, bins))
            profile = profiled.required()
        profiled.detector.warn()
        best = inside(select(profile, metric, self.selection, subject_to=rules), profile)
        folds, doubt = None, None
        if self.cv is not None or self.n_bootstrap:
            with problem.named_errors():
                folds, doubt = self._trust(problem, collected(source), line)
        problem.warn(profile)
        self.models_, self.classes_ = problem.models, problem.all_classes
        self.strength_, self.strength_interval_ = best.strength, best.interval
        self.best_score_, self.profile_ = best.value, profile
        within = profile.bounds[0] <= best.strength <= profile.bounds[1]
        self.counts_ = profile.counts(best.strength) if within else profile.baseline
        self.cross_validation_, self.uncertainty_ = folds, doubt
        self.provenance_ = None
        self._lost_function = False
        return self

    def _trust(
        self, problem: _Pair, samples: Samples, line: Line
    ) -> tuple[CrossValidation | None, Uncertainty | None]:
        """Return the results of folds and bootstrap."""
        folds, doubt = None, None
        seed = seed_of(self.random_state)
        metric, rules = problem.metric, problem.constraints
        if self.cv is not None:
            numbers = folds_of(samples, self.cv, np.random.default_rng(seed))
            folds = cross_validate_samples(
                samples, line, metric, numbers, rule=self.selection, subject_to=rules
            )
        if self.n_bootstrap:
            bootstrap = StrengthBootstrap.of(
                samples,
                line,
                groups=images_of(samples),
                n_replicates=int(self.n_bootstrap),
                random_state=seed,
            )
            doubt = uncertainty(bootstrap, metric, rule=self.selection, subject_to=rules)
        return folds, doubt

    def _posterior(self, scores: Any, *, log: bool) -> Any:
        s, axis, first, xp = self._blended(scores)
        result = log_softmax(s, axis=axis, xp=xp)
        result = result if log else xp.exp(result)
        if is_floating(first.dtype):
            result = xp.astype(result, first.dtype)
        if result.shape != first.shape:
            return contract(result, tuple(first.shape), xp=xp, class_axis=axis)
        return result

    def _blended(self, scores: Any) -> tuple[Array, int, Array, Namespace]:
        """Return blended log-scores, their class axis, the first model's scores and the library."""
        self._fitted  # noqa: B018 - refuses
        there = _of_models(scores, self.models_)
        names = None if is_range(self.classes_) else self.classes_
        values = {name: score_array(z, names) for name, z in there.items()}
        xp = namespace(*values.values())
        kinds = _kinds(self.kind, self.models_)
        given, logs, axis = [], [], self.class_axis
        for name, z in values.items():
            with _named({"scores": f"scores[{name!r}]"}):
                array = as_scores(z, xp)
                given.append(array)
                _refuse_shapes(self.models_, given)
                columns, axis = self._log_scores(array, kinds[name], xp)
                logs.append(columns)
        first, second = logs
        s = first
        if self.strength_ != 0.0:
            if self.strength_ < 0.0 and not is_traced(s):
                self._refuse_zero(second, first, axis, xp)
            possible, zero = first > -xp.inf, xp.zeros_like(first)
            apart = xp.where(possible, second - xp.where(possible, first, zero), zero)
            s = first + self.strength_ * apart
        if not is_traced(s):
            gone = xp.max(s, axis=axis) == -xp.inf
            if bool(xp.any(gone)):
                row = row_element(first_index(to_numpy(gone)), s.ndim, axis)
                _refuse_veto(row, self.models_)
        return s, axis, given[0], xp

    def _refuse_zero(self, second: Array, first: Array, axis: int, xp: Namespace) -> None:
        """Refuse a probability of 0 that a negative weight would make infinite."""
        infinite = xp.any((second == -xp.inf) & (first > -xp.inf), axis=axis)
        if bool(xp.any(infinite)):
            name = f"scores[{self.models_[1]!r}]"
            row = row_element(first_index(to_numpy(infinite)), second.ndim, axis, name)
            raise ScoresError(
                argument=name,
                rule=f"must leave every class possible, as its weight is {self.strength_:.3g}",
                got=[row, ", in which a class has probability 0"],
                remedy="Give every class a small probability, or blend within bounds=(0, 1).",
            )

    def _log_scores(self, z: Array, kind: str, xp: Namespace) -> tuple[Array, int]:
        """Return log-scores in float64 with all classes on the class axis, and that axis."""
        n_classes = int(self.classes_.size)
        axis = resolve_class_axis(z.shape, n_classes, self.class_axis)
        tolerance = sum_tolerance(z.dtype, kind, n_classes)
        wide = accumulation_dtype(xp, device_of(z))
        if kind != "logits":
            z = xp.astype(z, wide)
        if is_single_score(z.shape, n_classes, axis):
            single, z = z.ndim, expand(z, kind, xp=xp, class_axis=axis)
            axis = expanded_axis(single, axis)
        log_z = log_scores(z, kind, axis=axis, xp=xp, tolerance=tolerance)
        return xp.astype(log_z, wide), axis


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two models whose scores are read together."""

    options: Blend
    models: tuple[str, str]
    kinds: dict[str, str]
    n_classes: int
    classes: Vector | None
    """The names of the classes; None where labels are indices."""
    images: int | None = None
    """The number of the first image, where maps are read at once."""

    @property
    def all_classes(self) -> Vector:
        """The names of the classes, or their indices."""
        return np.arange(self.n_classes) if self.classes is None else self.classes

    @property
    def metric(self) -> CountMetric:
        """The metric, looked up."""
        names = None if self.classes is None else self.classes.tolist()
        return find_metric(self.options.metric, n_classes=self.n_classes, classes=names)

    @property
    def constraints(self) -> list[Constraint]:
        """The constraints, their metrics looked up."""
        names = None if self.classes is None else self.classes.tolist()
        return [
            rule.resolved(n_classes=self.n_classes, classes=names)
            for rule in Constraint.parse_all(self.options.subject_to, self.options.metric)
        ]

    def source(self, scores: Any, labels: Any, sample_weight: Any) -> Source:
        """Return the samples as a source: Dask arrays, or one block in memory."""
        lazy = array_api_compat.is_dask_array(score_array(scores[self.models[0]], self.classes))
        read = self.read(scores, labels, sample_weight, lazy=lazy)
        if isinstance(read, Samples):
            if not read.any_counts:
                refuse_nothing(read.labels.size)
            if self.kinds[self.models[1]] == "logits":
                warn_if_probs(read.direction, axis=-1, xp=read.xp)
            return InMemory(read)
        return read

    def read(
        self, scores: Any, labels: Any, sample_weight: Any, *, lazy: bool = False
    ) -> Samples | DaskArrays:
        """Return the samples of a chunk, or of all."""
        there = _of_models(scores, self.models)
        first, second = (score_array(there[name], self.classes) for name in self.models)
        _refuse_shapes(self.models, [first, second])
        named = self.classes is not None and not are_indices(labels)
        indices, ignored = encode_labels(
            labels, self.classes if named else None, self.options.ignore_index
        )
        if hasattr(sample_weight, "to_numpy"):
            sample_weight = sample_weight.to_numpy()
        how: dict[str, Any] = {
            "n_classes": self.n_classes,
            "kind": self.kinds[self.models[0]],
            "class_axis": self.options.class_axis,
            "ignore_index": ignored,
            "direction": second,
            "towards": self.kinds[self.models[1]],
        }
        if lazy:
            return DaskArrays(first, indices, sample_weight, **how)
        return Samples.of(first, indices, sample_weight, part=True, first_image=self.images, **how)

    def named_errors(self) -> Any:
        """Let errors in the block name the models."""
        first, second = (f"scores[{name!r}]" for name in self.models)
        return _named({"scores": first, "direction": second})

    def warn(self, profile: StrengthProfile) -> None:
        """Warn of classes without labels, a wrong order of classes, and models that agree."""
        absent = self.all_classes[~profile.baseline.labelled].tolist()
        if absent:
            warn(
                f"{len(absent)} of {self.n_classes} classes have no tuning labels: {few(absent)}. "
                f"The metric says nothing about them."
            )
        low, high = profile.bounds
        alone = {self.models[0]: profile.baseline}
        if low <= 1.0 <= high:
            alone[self.models[1]] = profile.counts(1.0)
        for name, counts in alone.items():
            if counts.kappa_z < -BELOW_CHANCE:
                share = counts.true_positive.sum() / counts.support.sum()
                warn(
                    f"Model {name!r} alone is worse than chance: it is right on {share:.1%} of the "
                    f"tuning samples. The likely cause is the order of the classes: the columns of "
                    f"its scores must be those of {few(self.all_classes.tolist())}, in this order."
                )
        if not profile.n_switches:
            warn(
                f"{self.models[0]!r} and {self.models[1]!r} decide alike: no weight from {low:g} "
                f"to {high:g} changes a decision."
            )


@dataclass(frozen=True, eq=False)
class _Chunks:
    """A source of two models' chunks."""

    pair: _Pair
    again: Any

    def run(self, pass_: Pass[Result]) -> Result:
        """Run a pass over all chunks, one after the other."""
        accumulator, n_samples, weighted = pass_.begin(), 0, None
        for index, given in enumerate(self.again()):
            scores, labels, weight = unpacked(given)
            with located(index):
                samples = self.pair.read(scores, labels, weight)
                assert isinstance(samples, Samples)  # noqa: S101 - chunks are in memory
                n_samples += samples.labels.size
                if weighted not in (None, weight is not None):
                    raise OptionError(
                        argument="sample_weight",
                        rule="must be given for all chunks or for none",
                        got="chunks with and chunks without weights",
                        remedy="Give the others weights of 1.",
                    )
                weighted = weight is not None
                accumulator.add(samples.copied() if pass_.keeps_blocks else samples)
        return accumulator.result()


def two_models(scores: Any) -> tuple[str, str]:
    """Return the names of the two models; refuse anything else."""
    if not isinstance(scores, Mapping):
        raise ScoresError(
            argument="scores",
            rule="must be a mapping from model to scores",
            got=type(scores).__name__,
            remedy="Pass for example {'small': first_scores, 'large': second_scores}.",
        )
    names = list(scores)
    if len(names) != 2 or not all(isinstance(name, str) and name for name in names):
        raise ScoresError(
            argument="scores",
            rule="must be of two models, each with a name",
            got=f"{len(names)}: {few(names)}" if names else "none",
            remedy="Blend two, and then the blend's log-posterior with the next.",
        )
    return names[0], names[1]


def _of_models(scores: Any, models: tuple[str, str]) -> dict[str, Any]:
    """Return the scores in the order of the models; refuse other models."""
    names = two_models(scores)
    if set(names) != set(models):
        raise ScoresError(
            argument="scores",
            rule=f"must be of the models of the blend, {few(models)}",
            got=few(names),
            remedy="Name the models as in fit.",
        )
    return {name: scores[name] for name in models}


def _kinds(kind: Any, models: Iterable[str]) -> dict[str, str]:
    """Return the kind of every model's scores."""
    names = list(models)
    if not isinstance(kind, Mapping):
        check_kind(kind)
        return dict.fromkeys(names, kind)
    if set(kind) != set(names):
        raise OptionError(
            argument="kind",
            rule=f"must be one kind, or one for each of the models, {few(names)}",
            got=f"{few(list(kind))}",
            remedy="Name the models as in the scores.",
        )
    for name in names:
        check_kind(kind[name])
    return {name: kind[name] for name in names}


def _refuse_shapes(models: Sequence[str], arrays: Sequence[Any]) -> None:
    shapes = [np.shape(each) for each in arrays]
    if len(shapes) == 2 and shapes[0] != shapes[1] and not np.isnan(np.ravel(shapes[0])).any():
        raise ScoresError(
            argument="scores",
            rule="must have one shape, with the same samples and classes",
            got=f"{shapes[0]} for {models[0]!r} and {shapes[1]} for {models[1]!r}",
            remedy="Score the same samples with both models, and put the classes in one order.",
        )


def _refuse_veto(row: Element, models: Sequence[str]) -> None:
    raise ScoresError(
        argument="scores",
        rule=f"must leave some class possible in both {models[0]!r} and {models[1]!r}",
        got=[row, ", in which every class has probability 0 in one of them"],
        remedy="Give every class a small probability, or drop the sample.",
    )


@contextmanager
def _named(names: Mapping[str, str]) -> Iterator[None]:
    """Let errors in the block call arguments by other names."""

    def renamed(part: Any) -> Any:
        if isinstance(part, Element) and part.name in names:
            return Element(names[part.name], part.index, part.value)
        if isinstance(part, Argument) and part.name in names:
            return Argument(names[part.name], part.place)
        return part

    try:
        yield
    except RepriorError as error:
        raise error.mapped(renamed) from error


def blend_fields(blend: Blend) -> dict[str, Any]:
    """Return the fields of the file, as JSON values."""
    kinds = _kinds(blend.kind, blend.models_)
    return {
        "models": [
            {"name": name, "kind": kinds[name], "weight": weight}
            for name, weight in blend.weights_.items()
        ],
        "strength": blend.strength_,
        "strength_interval": list(blend.strength_interval_),
        "n_classes": int(blend.classes_.size),
        "classes": None if is_range(blend.classes_) else blend.classes_.tolist(),
        "class_axis": blend.class_axis,
        "metric": metric_name(blend.metric),
        **metric_parts(blend.metric, lost_function=blend._lost_function),
        "best_score": None if math.isnan(blend.best_score_) else blend.best_score_,
        "provenance": blend.provenance_,
    }


def blend_text(blend: Blend) -> str:
    """Return the weights, how they were tuned, and the metrics of both models and the blend."""
    low, high = blend.strength_interval_
    digits = digits_apart(low, high)
    first, second = blend.models_
    lines = [
        f"weights      {', '.join(f'{n} {w:.{digits}f}' for n, w in blend.weights_.items())}",
        f"equally good {second} {low:.{digits}f} to {high:.{digits}f}",
        f"tuned for    {tuned_for(blend)}",
    ]
    rules = [each.text for each in Constraint.parse_all(blend.subject_to)]
    if rules:
        lines.append(f"subject to   {', '.join(rules)}")
    profile, after = blend.profile_, blend.counts_
    if profile is None or after is None:
        return "\n".join([*lines, "(loaded: no tuning data at hand)"])
    lines += [
        f"tuned on     {profile.n_samples} samples of {profile.n_classes} classes",
        *trust_lines(blend),
        "",
    ]
    has_second = profile.bounds[0] <= 1.0 <= profile.bounds[1]
    others = profile.counts(1.0) if has_second else profile.baseline
    table = counted_metrics(blend, profile.baseline, after)
    alone = counted_metrics(blend, others, after)
    heads = [first, *([second] if has_second else []), "blend"]
    wide = [max(9, len(head) + 1) for head in heads]
    titles = "".join(f"{head:>{width}}" for head, width in zip(heads, wide, strict=True))
    lines.append(f"{'on the tuning labels':<22}{titles}")
    for label, (before, value) in table.items():
        numbers = [before, *([alone[label][0]] if has_second else []), value]
        shown = "".join(f"{each:>{width}.4f}" for each, width in zip(numbers, wide, strict=True))
        lines.append(f"{label:<22}{shown}")
    losses = metric_losses(blend, profile.baseline, after)
    if losses:
        lines += ["", cost_sentence(blend, losses, None)]
    return "\n".join(lines)
