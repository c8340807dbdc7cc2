"""Compare a folded model with the Python calibrator applied to the scores of the original."""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx

import reprior as rp
from reprior.exceptions import Argument, FoldError, Words, quoted, require
from reprior.onnx.files import weight_bytes, write_model
from reprior.onnx.graph import Graph, attribute, decoded, has_weights
from reprior.onnx.score_tensors import CLASSIFIERS, FLOATS, Place, lineage

__all__ = [
    "Evidence",
    "Feeds",
    "Parity",
    "Reference",
    "Runner",
    "class_rows",
    "compare",
    "gather",
    "given_feeds",
    "reference",
    "role_of",
    "with_outputs",
]


Vector: TypeAlias = np.ndarray[Any, Any]

POSTERIOR_TOLERANCE = 1e-5
"""By how much posteriors may differ in single precision, which rounds at different places."""

FP16_TOLERANCE = 5e-3
"""The same with half precision in the model: five times its spacing just below 1, 2^-10."""

ROUNDING_STEPS = {"float16": 1.0, "bfloat16": 1.0, "float32": 4.0, "float64": 4.0}
"""How many spacings of their type large log-scores may be wrong by, which moves the posterior."""

_SPACING = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}

ENOUGH_SAMPLES = 20
"""Agreement on this many samples, of at least two classes, is not a coincidence."""


@dataclass
class Parity:
    """The comparison of a folded model with the calibrator applied to the original's scores.

    Attributes
    ----------
    samples : int
        Samples (pixels, for maps) that were compared.
    ties : int
        Samples whose two best posteriors are too close to decide which label is right.
    labels : int
        Labels compared, over all label outputs, without ties.
    wrong_labels : int
        Labels that disagree.
    decisions : int
        Arg maxes of scores compared with the calibrator's labels, over all outputs of scores,
        without ties: how a client decides if a model has no label output.
    wrong_decisions : int
        Arg maxes that disagree.
    posterior_error : float
        The largest difference of a posterior.
    outputs : dict
        How each output was compared: as "labels", "posterior", "log-scores", "follows" or
        "unchanged".
    telling : bool
        Whether these inputs distinguish the folded model from the original at all.
    problems : list of str
        A sentence for every output that disagrees.
    """

    samples: int = 0
    ties: int = 0
    labels: int = 0
    wrong_labels: int = 0
    decisions: int = 0
    wrong_decisions: int = 0
    posterior_error: float = 0.0
    outputs: dict[str, str] = field(default_factory=dict)
    telling: bool = False
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing disagrees."""
        return not self.problems


@dataclass(frozen=True, eq=False)
class Reference:
    """The calibrator's results on the scores of one run, a row per sample."""

    scores: Vector  # the model's scores
    before: Vector  # the uncorrected posterior, (rows, K)
    posterior: Vector  # the corrected posterior, (rows, K)
    corrected: Vector  # the corrected scores, in shape and kind of the scores
    tolerance: Vector  # of a posterior, (rows,)

    @property
    def index(self) -> Vector:
        """The predicted class of every row."""
        return np.asarray(self.posterior.argmax(1))

    @property
    def clear(self) -> Vector:
        """The rows whose label does not depend on rounding."""
        top = np.sort(self.posterior, axis=1)
        return np.asarray(top[:, -1] - top[:, -2] > 2 * self.tolerance)


def at_place(calibrator: rp.PosteriorCalibrator, place: Place) -> rp.PosteriorCalibrator:
    """Return the calibrator with the kind and class axis of a place in a model."""
    placed = copy.copy(calibrator)
    placed.kind = place.kind or calibrator.kind
    placed.class_axis = calibrator.class_axis if place.axis is None else place.axis
    placed.classes_ = np.arange(calibrator.source_prior_.size)
    return placed


def class_rows(values: Vector, place: Place) -> Vector:
    """Return (rows, K) of an array with the classes on the place's axis."""
    assert place.axis is not None  # noqa: S101 - a resolved place has an axis
    return np.moveaxis(values, place.axis, -1).reshape(-1, values.shape[place.axis])


def reference(
    calibrator: rp.PosteriorCalibrator, place: Place, scores: Vector, *, half: bool
) -> Reference:
    """Apply the calibrator to the scores of one run of the original, in double precision."""
    placed = at_place(calibrator, place)
    wide = scores.astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error", rp.RepriorWarning)
        try:
            log_posterior = np.asarray(placed.predict_log_proba(wide))
            posterior = np.asarray(placed.predict_proba(wide))
            before = np.asarray(
                rp.rebalance(
                    wide,
                    placed.source_prior_,
                    strength=0.0,
                    kind=placed.kind,
                    class_axis=placed.class_axis,
                )
            )
        except (rp.ScoresError, rp.RepriorWarning) as error:
            raise FoldError(
                argument="calibrator",
                rule=f"must fit the scores in {place.tensor!r}",
                remedy=[
                    "It does not: ",
                    error,
                    " Or name the right tensor by ",
                    Argument("scores"),
                    ".",
                ],
            ) from error
    scale, bias = placed.as_affine()
    if place.single:
        shifted = scale * wide + (bias[1] - bias[0])
        pair = np.stack([1 - posterior.ravel(), posterior.ravel()], 1)
        old = np.stack([1 - before.ravel(), before.ravel()], 1)
    else:
        shape = np.ones(wide.ndim, int)
        shape[placed.class_axis] = -1
        shifted = scale * wide + bias.reshape(shape)
        pair = class_rows(posterior, place)
        old = class_rows(before, place)
    kinds = {"probs": posterior, "log_probs": log_posterior, "logits": shifted}
    return Reference(
        scores=scores,
        before=old,
        posterior=pair,
        corrected=kinds[placed.kind].astype(scores.dtype),
        tolerance=_tolerance(wide, place, pair.shape[0], half=half),
    )


def _tolerance(wide: Vector, place: Place, rows: int, *, half: bool) -> Vector:
    """Return by how much posteriors may differ: more where log-scores are large."""
    base = FP16_TOLERANCE if half else POSTERIOR_TOLERANCE
    if place.kind != "logits":
        return np.full(rows, base)
    size = np.where(np.isfinite(wide), np.abs(wide), 0.0)
    rowwise = size.reshape(rows) if place.single else class_rows(size, place).max(1)
    dtype = "float16" if half else place.dtype
    return np.asarray(np.maximum(base, ROUNDING_STEPS[dtype] * _SPACING[dtype] * rowwise))


# ------------------------------------------------------------------------------------- roles


def scores_like(value: Any, ref: Reference, place: Place) -> Vector | None:
    """Return an output as (rows, K), or (rows,) for one score of two classes; None if neither."""
    if isinstance(value, list):  # dictionaries of a ZipMap
        if not value or not isinstance(value[0], dict):
            return None
        value = np.array([list(row.values()) for row in value])
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return None
    z = ref.scores
    k = ref.posterior.shape[1]
    if place.single:
        if value.size == z.size:
            return value.reshape(-1).astype(np.float64)
        return _rows_of(value, -1, ref)
    assert place.axis is not None  # noqa: S101 - a resolved place has an axis
    if _solid(value.shape) == _solid(z.shape):
        return class_rows(value.reshape(z.shape).astype(np.float64), place)
    last = np.moveaxis(z, place.axis, -1).shape
    if _solid(value.shape) == _solid(last):
        return value.reshape(-1, k).astype(np.float64)
    if k == 2 and value.size == len(ref.posterior):
        return value.reshape(-1).astype(np.float64)
    return None


def _rows_of(value: Vector, axis: int, ref: Reference) -> Vector | None:
    if value.ndim and value.shape[axis] == 2 and value.size == ref.posterior.size:
        return np.moveaxis(value, axis, -1).reshape(-1, 2).astype(np.float64)
    return None


def _solid(shape: tuple[int, ...]) -> list[int]:
    return [length for length in shape if length != 1]


def as_posterior(rows: Vector, role: str) -> Vector:
    """Return the posteriors (rows, K) of an output of a known role."""
    if rows.ndim == 1:
        if role == "log-scores":
            with np.errstate(over="ignore"):
                rows = 1 / (1 + np.exp(-rows))
        return np.stack([1 - rows, rows], 1)
    if role == "posterior":
        return rows
    with np.errstate(over="ignore", invalid="ignore"):
        shifted = np.exp(rows - rows.max(1, keepdims=True))
    return np.asarray(shifted / shifted.sum(1, keepdims=True))


def is_label_like(value: Any, ref: Reference) -> bool:
    """Whether an output has one integer or string per sample."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind in "iuOUS"
        and value.size == len(ref.posterior)
    )


def role_of(values: list[Any], refs: list[Reference], place: Place) -> str | None:
    """Return the role of an output of the original: "posterior", "log-scores" or None.

    The values decide, not the graph, so that a wrong interpretation of the graph is detected.
    """
    for role in ("posterior", "log-scores"):
        for value, ref in zip(values, refs, strict=True):
            rows = scores_like(value, ref, place)
            if rows is None:
                return None
            posterior = as_posterior(rows, role)
            if not (np.abs(posterior - ref.before).max(1) <= 10 * ref.tolerance).all():
                break
        else:
            return role
    return None


def names_of(values: list[Any], refs: list[Reference], lists: list[Vector]) -> Vector | None:
    """Return the class names under which an output is the label of the scores, or None."""
    for names in lists:
        for value, ref in zip(values, refs, strict=True):
            if not is_label_like(value, ref):
                return None
            top = np.sort(ref.before, axis=1)
            clear = top[:, -1] - top[:, -2] > 2 * ref.tolerance
            wanted = names[ref.before.argmax(1)]
            if not (value.reshape(-1)[clear] == wanted[clear]).all():
                break
        else:
            return names
    return None


def names_nearest(values: list[Any], refs: list[Reference], lists: list[Vector]) -> Vector | None:
    """Return the class names under which an output is mostly the label of the scores, or None."""
    if not all(is_label_like(value, ref) for value, ref in zip(values, refs, strict=True)):
        return None
    labels = np.concatenate([value.reshape(-1) for value in values])
    best = np.concatenate([ref.before.argmax(1) for ref in refs])
    share = [float((labels == names[best]).mean()) for names in lists]
    top = int(np.argmax(share))
    return lists[top] if share[top] > 0.5 else None


def is_telling(refs: list[Reference]) -> bool:
    """Whether agreement is evidence: enough samples, of at least two classes."""
    classes = np.concatenate([ref.before.argmax(1) for ref in refs])
    return classes.size >= ENOUGH_SAMPLES and np.unique(classes).size > 1


#: Relative tolerance of unchanged outputs, which the runtime may round differently when it fuses.
UNCHANGED_TOLERANCE = 1e-5


class Evidence:
    """The original's outputs on all inputs, and the calibrator's results on its scores."""

    def __init__(
        self,
        graph: Graph,
        calibrator: rp.PosteriorCalibrator,
        place: Place,
        feeds: Feeds,
        runner: Runner,
    ) -> None:
        self.graph = graph
        self.place = place
        self.feeds = feeds
        half = uses_half(graph)
        self.runs = [runner.run(feed) for feed in feeds]
        self.refs = [
            reference(calibrator, place, np.asarray(run[place.tensor]), half=half)
            for run in self.runs
        ]
        self.lists = label_lists(graph, calibrator)
        self.followers = graph.follows(place.tensor)

    def values(self, output: str) -> list[Any]:
        """Return the values of an output of the original, one per run."""
        return [run[output] for run in self.runs]

    def label_names(self, output: str) -> Vector | None:
        """Return the class names if the output is the label of the scores, else None."""
        names = names_of(self.values(output), self.refs, self.lists)
        if names is None and output not in self.followers and self._is_own_label(output):
            # Support vector machines vote; corrected scores decide by their arg max.
            names = names_nearest(self.values(output), self.refs, self.lists)
            if names is None:
                raise FoldError(
                    argument="scores",
                    rule="must be the scores that decide the labels",
                    got=(
                        f"{self.place.tensor!r}, but output {output!r} is seldom the class of its "
                        "largest score"
                    ),
                    remedy=(
                        "Export the model with its probabilities, and fit the calibrator on these."
                    ),
                )
        return names

    def _is_own_label(self, output: str) -> bool:
        """Whether the classifier that computes the scores also gives the label in an output."""
        near = self.graph.upstream([self.place.tensor], through_layers=False)
        layers = [node for i in near if has_weights(node := self.graph.nodes[i])]
        if len(layers) != 1 or layers[0].op_type not in CLASSIFIERS:
            return False
        n_classes = self.refs[0].posterior.shape[1]
        chain = [p.tensor for p in lineage(self.graph, output, n_classes=n_classes)]
        return self.graph.element(output) not in FLOATS and layers[0].output[1] in chain

    def role(self, output: str) -> str | None:
        """Return "labels", "posterior" or "log-scores", or None for anything else."""
        role = role_of(self.values(output), self.refs, self.place)
        related = output in self.followers or is_telling(self.refs) or self._is_sibling(output)
        if role is None and self.label_names(output) is not None:
            role = "labels"
        return role if related else None

    def logits_above(self) -> Place | None:
        """Return an output of logits that the scores are computed from, if there is one.

        A correction there changes this output too; a correction behind it would not.
        """
        for output in self.graph.outputs:
            if output in self.followers or self.place.tensor not in self.graph.follows(output):
                continue
            value = self.values(output)[0]
            if self.role(output) == "log-scores" and value.shape == self.refs[0].scores.shape:
                return replace(self.place, tensor=output, kind="logits", dtype=str(value.dtype))
        return None

    def _is_sibling(self, output: str) -> bool:
        """Whether the output and the scores are computed from the same tensor."""
        near = self.graph.upstream([self.place.tensor], through_layers=False)
        read = {name for i in near for name in self.graph.nodes[i].input} | {self.place.tensor}
        n_classes = self.refs[0].posterior.shape[1]
        return any(p.tensor in read for p in lineage(self.graph, output, n_classes=n_classes))

    @property
    def telling(self) -> bool:
        """Whether the correction moves a posterior by more than the tolerance."""
        return any(
            (np.abs(ref.before - ref.posterior).max(1) > ref.tolerance).any() for ref in self.refs
        )


def gather(
    model: onnx.ModelProto, calibrator: rp.PosteriorCalibrator, place: Place, feeds: Feeds
) -> Evidence:
    """Run the original with its scores as an extra output."""
    runner = Runner(with_outputs(model, [place.tensor]), name="model")
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    return Evidence(Graph(copied), calibrator, place, feeds, runner)


def uses_half(graph: Graph) -> bool:
    """Whether half precision is anywhere in the model."""
    half = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
    return any(element in half for element, _ in graph.types.values())


def label_lists(graph: Graph, calibrator: rp.PosteriorCalibrator) -> list[Vector]:
    """Return all lists of class names: in the model, in the calibrator, and 0 … K−1."""
    n_classes = calibrator.source_prior_.size
    lists: list[Vector] = []
    for node in graph.nodes:
        for name in ("classlabels_strings", "classlabels_int64s", "classlabels_ints"):
            labels = attribute(node, name)
            if labels is not None and len(labels) == n_classes:
                lists.append(np.asarray(labels, object if isinstance(labels[0], str) else None))
        if node.op_type == "LabelEncoder":
            lists += _encoded(node, n_classes)
        if node.op_type in ("ArrayFeatureExtractor", "Gather"):
            value = graph.constant(node.input[0])
            if value is not None and value.size == n_classes and value.dtype.kind in "iuOUS":
                lists.append(_texts(value.reshape(-1)))
    lists += [_texts(np.asarray(calibrator.classes_)), np.arange(n_classes)]
    return lists


def _encoded(node: onnx.NodeProto, n_classes: int) -> list[Vector]:
    """Return the names of a label encoder for 0 … K−1, if it has them."""
    keys = attribute(node, "keys_int64s")
    if keys is None or sorted(keys) != list(range(n_classes)):
        return []
    values = attribute(node, "values_strings") or attribute(node, "values_int64s") or []
    names = [values[keys.index(k)] for k in range(n_classes)] if values else []
    return [np.asarray(names, object if isinstance(names[0], str) else None)] if names else []


def _texts(names: Vector) -> Vector:
    if names.dtype.kind not in "OUS":
        return names
    return np.asarray([decoded(name) for name in names.tolist()], object)


# -------------------------------------------------------------------------------- comparing


def compare(evidence: Evidence, folded: onnx.ModelProto) -> Parity:
    """Compare every output of the folded model with its expected value."""
    runner = Runner(folded, name="folded")
    wanted = evidence.graph.outputs
    if [o for o in runner.outputs if o in wanted] != wanted:
        raise FoldError(
            argument="folded",
            rule=f"must have the outputs of the original, {', '.join(map(repr, wanted))}",
            got=f"{', '.join(map(repr, runner.outputs))}",
            remedy="Pass the two models of one fold.",
        )
    try:
        runs = [runner.run(feed) for feed in evidence.feeds]
    except Exception as error:  # ONNX Runtime's own, which have no common base
        raise FoldError(
            f"The folded model must run where the original does. {quoted(error)}."
        ) from error
    parity = Parity(telling=evidence.telling)
    parity.samples = sum(len(ref.posterior) for ref in evidence.refs)
    parity.ties = sum(int((~ref.clear).sum()) for ref in evidence.refs)
    derived: list[str] = []
    for output in wanted:
        values = [run[output] for run in runs]
        if not _alike(evidence.values(output), values):
            parity.problems.append(f"Output {output!r} has another type or shape than before.")
            continue
        role = evidence.role(output)
        if role == "labels":
            _labels(parity, evidence, output, values)
        elif role is not None:
            _posteriors(parity, evidence, output, values, role)
        elif output in evidence.followers:
            derived.append(output)
        else:
            _unchanged(parity, evidence, output, values)
    if derived:
        _derived(parity, evidence, derived, runs)
    return parity


def _alike(old: list[Any], new: list[Any]) -> bool:
    """Whether values have the types and shapes of the original's."""
    return all(
        not isinstance(a, np.ndarray) or (b.dtype == a.dtype and b.shape == a.shape)
        for a, b in zip(old, new, strict=True)
    )


def _labels(parity: Parity, evidence: Evidence, output: str, values: list[Any]) -> None:
    names = evidence.label_names(output)
    assert names is not None  # noqa: S101 - the role says so
    wrong = total = 0
    for value, ref in zip(values, evidence.refs, strict=True):
        same = np.asarray(value).reshape(-1) == names[ref.index]
        wrong += int((~same & ref.clear).sum())
        total += int(ref.clear.sum())
    parity.labels = parity.labels + total
    parity.wrong_labels = parity.wrong_labels + wrong
    parity.outputs[output] = "labels"
    if wrong:
        parity.problems.append(
            f"Output {output!r} has {wrong} of {total} labels other than the calibrator's."
        )


def _posteriors(
    parity: Parity, evidence: Evidence, output: str, values: list[Any], role: str
) -> None:
    parity.outputs[output] = role
    for value, ref in zip(values, evidence.refs, strict=True):
        rows = scores_like(value, ref, evidence.place)
        error = np.full(1, np.inf)
        if rows is not None:
            posterior = as_posterior(rows, role)
            error = np.nan_to_num(np.abs(posterior - ref.posterior).max(1), nan=np.inf)
            parity.decisions += int(ref.clear.sum())
            parity.wrong_decisions += int(((posterior.argmax(1) != ref.index) & ref.clear).sum())
        parity.posterior_error = max(parity.posterior_error, float(error.max()))
        if not (error <= ref.tolerance).all():
            parity.problems.append(
                f"Output {output!r} differs from the calibrator's posterior by up to "
                f"{error.max():.2g}."
            )
            return


def _unchanged(parity: Parity, evidence: Evidence, output: str, values: list[Any]) -> None:
    parity.outputs[output] = "unchanged"
    for old, new in zip(evidence.values(output), values, strict=True):
        if not _same(old, new, UNCHANGED_TOLERANCE):
            parity.problems.append(f"Output {output!r} does not depend on the scores, but changed.")
            return


def _same(old: Any, new: Any, tolerance: float) -> bool:
    if isinstance(old, np.ndarray) and isinstance(new, np.ndarray) and old.dtype.kind == "f":
        return old.shape == new.shape and np.allclose(
            old.astype(float), new.astype(float), tolerance, tolerance, equal_nan=True
        )
    if isinstance(old, np.ndarray):
        return bool(np.array_equal(old, new))
    if isinstance(old, list):
        return len(old) == len(new) and all(map(lambda a, b: _same(a, b, tolerance), old, new))
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(_same(old[k], new[k], tolerance) for k in old)
    return bool(np.allclose(old, new, tolerance, tolerance)) if _number(old) else bool(old == new)


def _number(value: Any) -> bool:
    return isinstance(value, float | np.floating)


def _derived(
    parity: Parity, evidence: Evidence, outputs: list[str], runs: list[dict[str, Any]]
) -> None:
    """Compare with the original's own nodes behind the scores, run on corrected scores."""
    runner = Runner(_behind(evidence, outputs), name="model")
    feeds = zip(evidence.feeds, evidence.refs, runs, strict=True)
    for output in outputs:
        parity.outputs[output] = "follows"
    for feed, ref, run in feeds:
        wanted = runner.run({**feed, evidence.place.tensor: ref.corrected})
        for output in outputs:
            if not _close(wanted[output], run[output], ref):
                parity.problems.append(
                    f"Output {output!r} is not what the model computes from corrected scores."
                )


def _close(wanted: Any, value: Any, ref: Reference) -> bool:
    tolerance = float(ref.tolerance.max())
    if not isinstance(wanted, np.ndarray) or wanted.dtype.kind == "f":
        return _same(wanted, value, tolerance)
    if wanted.shape != value.shape:
        return False
    gaps = np.diff(np.sort(ref.posterior, axis=1), axis=1).min(1)
    if wanted.ndim and len(wanted) == len(gaps):  # ranks may differ where any two classes tie
        clear = gaps > 2 * ref.tolerance
        return bool((wanted[clear] == value[clear]).all())
    return bool((wanted == value).all()) or bool((gaps <= 2 * ref.tolerance).any())


def _behind(evidence: Evidence, outputs: list[str]) -> onnx.ModelProto:
    """Return the part of the original behind the scores, which become an input."""
    part = onnx.ModelProto()
    part.CopyFrom(evidence.graph.model)
    graph = Graph(part)
    name = evidence.place.tensor
    maker = graph.maker.pop(name)
    needed = graph.upstream(outputs)
    keep = [node for i, node in enumerate(graph.nodes) if i in needed and i != maker]
    if any(i == maker for i in needed):  # another output of the same node is needed too
        twin = onnx.NodeProto()
        twin.CopyFrom(graph.nodes[maker])
        for k, output in enumerate(twin.output):
            twin.output[k] = f"{output}/unused" if output == name else output
        keep.insert(0, twin)
    graph.nodes = keep
    kept = [o for o in part.graph.output if o.name in outputs]
    dtype = evidence.refs[0].scores.dtype
    element = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    assert element in FLOATS  # noqa: S101 - scores are floating
    part.graph.input.append(onnx.helper.make_tensor_value_info(name, element, None))
    kept = [onnx.ValueInfoProto(name=o.name) for o in kept]
    del part.graph.output[:]
    part.graph.output.extend(kept)
    del part.graph.value_info[:]
    return graph.commit()


Feeds: TypeAlias = list[dict[str, Vector]]

#: Batch sizes where the batch is free; the last is as large as ``_ENTRIES`` allows.
_BATCHES = (1, 3)
_MOST_SAMPLES = 512
#: Entries of generated input in one run, but at least so many samples: a colour image of
#: 224 x 224 has 150,528 entries.
_ENTRIES = 1 << 18
_FEWEST_SAMPLES = 16
#: Larger samples are volumes, of which four are enough.
_HUGE = 1 << 20
_FEW = 4
#: Number of runs if the batch size is fixed.
_RUNS = 8
#: Sizes to try for free axes other than the first; the first two that work are used.
_SIZES = (32, 48, 16, 64, 224, 8, 4, 2, 1)
#: Row i of generated numbers is multiplied by entry i, cyclically: near 0 the classes are close.
_SPREADS = (0.3, 1.0, 3.0)
#: One less than the largest generated integer, tried in this order.
_INTEGERS = (10, 2, 1)
_LARGE = 1_500_000_000
#: Models with one of these operators run without graph optimisation.
_QUANTISED = ("QuantizeLinear", "DynamicQuantizeLinear")


class Runner:
    """A session of ONNX Runtime on the CPU that returns all outputs by name."""

    def __init__(self, model: onnx.ModelProto, *, name: str) -> None:
        runtime = require("onnxruntime", extra="onnx", purpose="To run an ONNX model")
        options = runtime.SessionOptions()
        options.log_severity_level = 4  # errors come back as exceptions
        if any(node.op_type in _QUANTISED for node in model.graph.node):
            # Fused integer kernels saturate and round at other places, by a whole step.
            options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._folder: Any = None
        where: Any
        if weight_bytes(model) < _LARGE:
            where = model.SerializeToString()
        else:  # too large for one message
            self._folder = tempfile.TemporaryDirectory()
            where = str(Path(self._folder.name) / "model.onnx")
            write_model(model, where, external=True)
        try:
            self._session = runtime.InferenceSession(
                where, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime's own, which have no common base
            raise FoldError(
                [
                    Argument(name),
                    f" must run in ONNX Runtime. It does not: {quoted(error)}.",
                ],
                remedy=Words(
                    "Check the model with onnx.checker, or pass verify=False.", "Export it again."
                ),
            ) from error
        self.inputs = [i.name for i in self._session.get_inputs()]
        self.outputs = [o.name for o in self._session.get_outputs()]

    def run(self, feed: Mapping[str, Vector]) -> dict[str, Any]:
        """Return every output of one run."""
        values = self._session.run(None, {k: v for k, v in feed.items() if k in self.inputs})
        return dict(zip(self.outputs, values, strict=True))

    def refusal(self, feeds: Feeds) -> str | None:
        """Return the model's error on the first input that it refuses, or None."""
        for feed in feeds:
            try:
                self.run(feed)
            except Exception as error:  # ONNX Runtime's own, which have no common base
                return f"{quoted(error)}."
        return None


def with_outputs(model: onnx.ModelProto, tensors: Sequence[str]) -> onnx.ModelProto:
    """Return a model with inner tensors as additional outputs."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    have = {output.name for output in model.graph.output}
    shown.graph.output.extend(onnx.ValueInfoProto(name=t) for t in tensors if t not in have)
    return shown


# --------------------------------------------------------------------------------- generated


def generated_feeds(model: onnx.ModelProto, runner: Runner, *, seed: int = 0) -> Feeds:
    """Return random inputs of several batch sizes, and of two sizes if these are free.

    Inputs that the model refuses are left out.
    """
    known = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in known]
    rng = np.random.default_rng(seed)
    failure = ""
    for top in _INTEGERS:
        feeds: Feeds = []
        sizes_left = 2
        for size in _SIZES:
            tried, failure = _tried(_of_size(inputs, size, top, rng), runner, failure)
            feeds += tried
            sizes_left -= bool(tried)
            if sizes_left == 0 or (tried and not _has_free_size(inputs)):
                break
        if feeds:
            return feeds
    raise FoldError(
        argument="inputs",
        rule="must be given for this model, which refuses generated ones",
        remedy=[
            f"{failure or 'It has no inputs of known shape.'} Pass real samples as ",
            Argument("inputs"),
            ", an array per input.",
        ],
    )


def _tried(feeds: Iterator[dict[str, Vector]], runner: Runner, failure: str) -> tuple[Feeds, str]:
    good: Feeds = []
    for feed in feeds:
        try:
            runner.run(feed)
        except Exception as error:  # ONNX Runtime's own, which have no common base
            failure = f"{quoted(error)}."
            if not good:
                return [], failure
        else:
            good.append(feed)
    return good, failure


def _has_free_size(inputs: Sequence[onnx.ValueInfoProto]) -> bool:
    return any(length is None for value in inputs for length in (_dims(value) or ())[1:])


def _of_size(
    inputs: Sequence[onnx.ValueInfoProto], size: int, top: int, rng: np.random.Generator
) -> Iterator[dict[str, Vector]]:
    shapes = [_dims(value) for value in inputs]
    if not inputs or any(dims is None for dims in shapes):
        return
    named = {d.dim_param for v in inputs for d in v.type.tensor_type.shape.dim[:1]}
    free = any(dims and dims[0] is None for dims in shapes)
    per_sample = max(
        (int(np.prod([length or size for length in (dims or ())[1:]])) for dims in shapes),
        default=1,
    )
    fewest = _FEW if per_sample >= _HUGE else _FEWEST_SAMPLES
    most = int(np.clip(_ENTRIES // max(per_sample, 1), fewest, _MOST_SAMPLES))
    for batch in (*_BATCHES, most) if free else (1,) * _RUNS:
        feed = {}
        for value, dims in zip(inputs, shapes, strict=True):
            parameters = [d.dim_param for d in value.type.tensor_type.shape.dim]
            shape = [
                length or (batch if k == 0 or (p and p in named) else size)
                for k, (length, p) in enumerate(zip(dims or (), parameters, strict=True))
            ]
            feed[value.name] = _random(value.type.tensor_type.elem_type, shape, top, rng)
        yield feed


def _dims(value: onnx.ValueInfoProto) -> tuple[int | None, ...] | None:
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        return None
    return tuple(d.dim_value if d.dim_value > 0 else None for d in kind.shape.dim)


def _random(element: int, shape: Sequence[int], top: int, rng: np.random.Generator) -> Vector:
    if element == onnx.TensorProto.STRING:
        return rng.choice(np.array(["a", "b", "c"], object), tuple(shape))
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0, top, shape).astype(dtype)
    values = rng.standard_normal(shape)
    if values.ndim:
        n = values.shape[0]
        spread = np.resize(_SPREADS, n) if n > 1 else rng.choice(_SPREADS, 1)
        values *= spread.reshape(-1, *[1] * (values.ndim - 1))
    return values.astype(dtype)


# ------------------------------------------------------------------------------------- given


def given_feeds(model: onnx.ModelProto, inputs: Any) -> Feeds:
    """Return the user's inputs as runs, converted to the model's types and fixed batch size."""
    known = {tensor.name for tensor in model.graph.initializer}
    values = [value for value in model.graph.input if value.name not in known]
    names = [value.name for value in values]
    if isinstance(inputs, list | tuple) and not inputs:
        raise FoldError(
            argument="inputs",
            rule="must hold at least one sample",
            got="none",
            remedy="Pass real samples.",
        )
    if isinstance(inputs, list | tuple) and isinstance(inputs[0], Mapping):
        return [feed for part in inputs for feed in given_feeds(model, part)]
    if not isinstance(inputs, Mapping):
        if len(names) != 1:
            raise FoldError(
                argument="inputs",
                rule="must have an array per input, by name",
                got=f"one array for a model of {len(names)} inputs",
                remedy=f"The inputs are {', '.join(map(repr, names))}.",
            )
        inputs = {names[0]: inputs}
    missing = set(names) - set(inputs)
    unknown = set(inputs) - set(names)
    if missing or unknown:
        raise FoldError(
            argument="inputs",
            rule=f"must have the model's inputs, {', '.join(map(repr, names))}",
            got=f"{', '.join(map(repr, inputs))}",
            remedy="Name each array after an input.",
        )
    arrays = {value.name: _as_type(inputs[value.name], value) for value in values}
    return list(_split(arrays, [_dims(value) for value in values]))


def _as_type(array: Any, value: onnx.ValueInfoProto) -> Vector:
    element = value.type.tensor_type.elem_type
    host = np.asarray(array)
    if element == onnx.TensorProto.STRING:
        return host.astype(object)
    try:
        return host.astype(onnx.helper.tensor_dtype_to_np_dtype(element), copy=False)
    except (TypeError, ValueError) as error:
        raise FoldError(
            argument="inputs",
            rule=f"must be of the model's types, numbers for {value.name!r}",
            got=f"{host.dtype}",
            remedy="Pass arrays as the model takes them.",
        ) from error


def _split(
    arrays: dict[str, Vector], shapes: Sequence[tuple[int | None, ...] | None]
) -> Iterator[dict[str, Vector]]:
    """Split along the first axis if all inputs have the same fixed batch size."""
    fixed = {dims[0] if dims else None for dims in shapes}
    lengths = {len(array) if array.ndim else 0 for array in arrays.values()}
    batch = fixed.pop() if len(fixed) == 1 else None
    length = lengths.pop() if len(lengths) == 1 else 0
    if batch is None or length <= batch or length % batch:
        yield arrays
        return
    for start in range(0, length, batch):
        yield {name: array[start : start + batch] for name, array in arrays.items()}
