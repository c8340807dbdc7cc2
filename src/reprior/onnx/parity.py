"""What outputs should be: the Python calibrator applied to the scores of the original."""

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
from reprior.exceptions import Argument, FoldError, Words, require
from reprior.onnx.files import weight_bytes, write_model
from reprior.onnx.graph import Graph, attribute, has_weights
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
"""Posteriors may differ by this much: single precision, rounded at different places."""

FP16_TOLERANCE = 5e-3
"""The same where half precision is on the way: five times its spacing just below 1, 2^-10."""

ROUNDING_STEPS = {"float16": 1.0, "bfloat16": 1.0, "float32": 4.0, "float64": 4.0}
"""Large log-scores carry absolute errors of so many spacings of their type into the posterior."""

_SPACING = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}

ENOUGH_SAMPLES = 20
"""Agreement on so many samples, of at least two classes, is no accident."""


@dataclass
class Parity:
    """How a folded model compares with the calibrator applied to the original's scores.

    Attributes
    ----------
    samples : int
        Samples (pixels, for maps) that were compared.
    ties : int
        Samples whose two best posteriors are too close to tell which label is right.
    labels : int
        Labels compared, over all label outputs, ties left out.
    wrong_labels : int
        Labels that disagree.
    decisions : int
        Scores whose largest one was compared with the calibrator's label, over all outputs of
        scores, ties left out: what a client decides by where a model has no label output.
    wrong_decisions : int
        Those that disagree.
    posterior_error : float
        The largest difference of a posterior.
    outputs : dict
        What every output was compared as: "labels", "posterior", "log-scores", "follows" or
        "unchanged".
    telling : bool
        Whether these inputs tell the folded model from the original at all.
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
    """What the calibrator makes of the scores of one run, a row per sample."""

    scores: Vector  # as the model gave them
    before: Vector  # the model's own posterior, (rows, K)
    posterior: Vector  # the corrected one, (rows, K)
    corrected: Vector  # of the scores' shape and kind
    tolerance: Vector  # of a posterior, (rows,)

    @property
    def index(self) -> Vector:
        """The predicted class of every row."""
        return np.asarray(self.posterior.argmax(1))

    @property
    def clear(self) -> Vector:
        """Rows whose label is beyond doubt."""
        top = np.sort(self.posterior, axis=1)
        return np.asarray(top[:, -1] - top[:, -2] > 2 * self.tolerance)


def at_place(calibrator: rp.PosteriorCalibrator, place: Place) -> rp.PosteriorCalibrator:
    """Return the calibrator for scores as they are at a place of a model."""
    own = copy.copy(calibrator)
    own.kind = place.kind or calibrator.kind
    own.class_axis = calibrator.class_axis if place.axis is None else place.axis
    own.classes_ = np.arange(calibrator.source_prior_.size)
    return own


def class_rows(values: Vector, place: Place) -> Vector:
    """Return (rows, K) of an array with the classes on the place's axis."""
    assert place.axis is not None  # noqa: S101 - a resolved place has an axis
    return np.moveaxis(values, place.axis, -1).reshape(-1, values.shape[place.axis])


def reference(
    calibrator: rp.PosteriorCalibrator, place: Place, scores: Vector, *, half: bool
) -> Reference:
    """Apply the calibrator to the scores of one run of the original, in double precision."""
    own = at_place(calibrator, place)
    wide = scores.astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error", rp.RepriorWarning)
        try:
            log_posterior = np.asarray(own.predict_log_proba(wide))
            posterior = np.asarray(own.predict_proba(wide))
            before = np.asarray(
                rp.rebalance(
                    wide, own.source_prior_, strength=0.0, kind=own.kind, class_axis=own.class_axis
                )
            )
        except (rp.ScoresError, rp.RepriorWarning) as error:
            raise FoldError(
                argument="calibrator",
                rule=f"must fit the scores in {place.tensor!r}",
                remedy=[
                    f"It does not: {error} Or name the right tensor by ",
                    Argument("scores"),
                    ".",
                ],
            ) from error
    scale, bias = own.as_affine()
    if place.single:
        shifted = scale * wide + (bias[1] - bias[0])
        pair = np.stack([1 - posterior.ravel(), posterior.ravel()], 1)
        old = np.stack([1 - before.ravel(), before.ravel()], 1)
    else:
        shape = np.ones(wide.ndim, int)
        shape[own.class_axis] = -1
        shifted = scale * wide + bias.reshape(shape)
        pair = class_rows(posterior, place)
        old = class_rows(before, place)
    kinds = {"probs": posterior, "log_probs": log_posterior, "logits": shifted}
    return Reference(
        scores=scores,
        before=old,
        posterior=pair,
        corrected=kinds[own.kind].astype(scores.dtype),
        tolerance=_tolerance(wide, place, pair.shape[0], half=half),
    )


def _tolerance(wide: Vector, place: Place, rows: int, *, half: bool) -> Vector:
    """Return what posteriors may differ by: more where log-scores are large."""
    base = FP16_TOLERANCE if half else POSTERIOR_TOLERANCE
    if place.kind != "logits":
        return np.full(rows, base)
    size = np.where(np.isfinite(wide), np.abs(wide), 0.0)
    rowwise = size.reshape(rows) if place.single else class_rows(size, place).max(1)
    dtype = "float16" if half else place.dtype
    return np.asarray(np.maximum(base, ROUNDING_STEPS[dtype] * _SPACING[dtype] * rowwise))


# ------------------------------------------------------------------------------------- roles


def scores_like(value: Any, ref: Reference, place: Place) -> Vector | None:
    """Return an output as (rows, K), or (rows,) for one score of two classes; or None."""
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
    """Return (rows, K) posteriors of an output of a known role."""
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
    """Whether an output has one integer or text per sample."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind in "iuOUS"
        and value.size == len(ref.posterior)
    )


def role_of(values: list[Any], refs: list[Reference], place: Place) -> str | None:
    """Return what the original's output is of its scores: "posterior", "log-scores" or None.

    Told by the numbers, not by the graph, so that a mistake in reading the graph is found.
    """
    for role in ("posterior", "log-scores"):
        for value, ref in zip(values, refs, strict=True):
            rows = scores_like(value, ref, place)
            if rows is None:
                return None
            found = as_posterior(rows, role)
            if not (np.abs(found - ref.before).max(1) <= 10 * ref.tolerance).all():
                break
        else:
            return role
    return None


def names_of(values: list[Any], refs: list[Reference], lists: list[Vector]) -> Vector | None:
    """Return the class names by which the original's output is the label of its scores, or None."""
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
    """Return the class names by which an output is mostly the label of its scores, or None."""
    if not all(is_label_like(value, ref) for value, ref in zip(values, refs, strict=True)):
        return None
    found = np.concatenate([value.reshape(-1) for value in values])
    best = np.concatenate([ref.before.argmax(1) for ref in refs])
    share = [float((found == names[best]).mean()) for names in lists]
    top = int(np.argmax(share))
    return lists[top] if share[top] > 0.5 else None


def is_telling(refs: list[Reference]) -> bool:
    """Whether enough samples of at least two classes were seen to call agreement proof."""
    classes = np.concatenate([ref.before.argmax(1) for ref in refs])
    return classes.size >= ENOUGH_SAMPLES and np.unique(classes).size > 1


#: Relative: outputs that nothing was done to, rounded at different places by the runtime's fusions.
UNCHANGED_TOLERANCE = 1e-5


class Evidence:
    """The original on all inputs: its outputs, and what the calibrator makes of its scores."""

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
        """Return an output of the original in every run."""
        return [run[output] for run in self.runs]

    def label_names(self, output: str) -> Vector | None:
        """Return the class names if the output is the label of the scores, else None."""
        names = names_of(self.values(output), self.refs, self.lists)
        if names is None and output not in self.followers and self._is_own_label(output):
            # Support vector machines vote; with corrected scores the arg max must do.
            names = names_nearest(self.values(output), self.refs, self.lists)
            if names is None:
                raise FoldError(
                    argument="scores",
                    rule="must be what the labels are decided by",
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
        """Whether the classifier that makes the scores makes the label in an output too."""
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

        Corrected there, it follows too; corrected behind it, it would stay.
        """
        for output in self.graph.outputs:
            if output in self.followers or self.place.tensor not in self.graph.follows(output):
                continue
            value = self.values(output)[0]
            if self.role(output) == "log-scores" and value.shape == self.refs[0].scores.shape:
                return replace(self.place, tensor=output, kind="logits", dtype=str(value.dtype))
        return None

    def _is_sibling(self, output: str) -> bool:
        """Whether the output is taken from a tensor that the scores come from."""
        near = self.graph.upstream([self.place.tensor], through_layers=False)
        read = {name for i in near for name in self.graph.nodes[i].input} | {self.place.tensor}
        n_classes = self.refs[0].posterior.shape[1]
        return any(p.tensor in read for p in lineage(self.graph, output, n_classes=n_classes))

    @property
    def telling(self) -> bool:
        """Whether the correction moves a posterior by more than is tolerated."""
        return any(
            (np.abs(ref.before - ref.posterior).max(1) > ref.tolerance).any() for ref in self.refs
        )


def gather(
    model: onnx.ModelProto, calibrator: rp.PosteriorCalibrator, place: Place, feeds: Feeds
) -> Evidence:
    """Run the original with its scores shown."""
    runner = Runner(with_outputs(model, [place.tensor]), name="model")
    own = onnx.ModelProto()
    own.CopyFrom(model)
    return Evidence(Graph(own), calibrator, place, feeds, runner)


def uses_half(graph: Graph) -> bool:
    """Whether half precision is anywhere in the model."""
    half = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
    return any(element in half for element, _ in graph.types.values())


def label_lists(graph: Graph, calibrator: rp.PosteriorCalibrator) -> list[Vector]:
    """Return every list of class names there is: in the model, in the calibrator, and 0 … K−1."""
    n_classes = calibrator.source_prior_.size
    found: list[Vector] = []
    for node in graph.nodes:
        for name in ("classlabels_strings", "classlabels_int64s", "classlabels_ints"):
            labels = attribute(node, name)
            if labels is not None and len(labels) == n_classes:
                found.append(np.asarray(labels, object if isinstance(labels[0], str) else None))
        if node.op_type == "LabelEncoder":
            found += _encoded(node, n_classes)
        if node.op_type in ("ArrayFeatureExtractor", "Gather"):
            value = graph.constant(node.input[0])
            if value is not None and value.size == n_classes and value.dtype.kind in "iuOUS":
                found.append(_texts(value.reshape(-1)))
    found += [_texts(np.asarray(calibrator.classes_)), np.arange(n_classes)]
    return found


def _encoded(node: onnx.NodeProto, n_classes: int) -> list[Vector]:
    """Return the names that an encoder of labels has for 0 … K−1, if it has."""
    keys = attribute(node, "keys_int64s")
    if keys is None or sorted(keys) != list(range(n_classes)):
        return []
    values = attribute(node, "values_strings") or attribute(node, "values_int64s") or []
    names = [values[keys.index(k)] for k in range(n_classes)] if values else []
    return [np.asarray(names, object if isinstance(names[0], str) else None)] if names else []


def _texts(names: Vector) -> Vector:
    if names.dtype.kind not in "OUS":
        return names
    texts = [name.decode() if isinstance(name, bytes) else name for name in names.tolist()]
    return np.asarray(texts, object)


# -------------------------------------------------------------------------------- comparing


def compare(evidence: Evidence, folded: onnx.ModelProto) -> Parity:
    """Compare every output of the folded model with what it should be."""
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
        raise FoldError(f"The folded model must run where the original does. {error}") from error
    parity = Parity(telling=evidence.telling)
    parity.samples = sum(len(ref.posterior) for ref in evidence.refs)
    parity.ties = sum(int((~ref.clear).sum()) for ref in evidence.refs)
    derived: list[str] = []
    for output in wanted:
        values = [run[output] for run in runs]
        if not _alike(evidence.values(output), values):
            parity.problems.append(f"Output {output!r} has another type or shape than it had.")
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
    """Whether values have the types and shapes that clients of the model expect."""
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
            found = as_posterior(rows, role)
            error = np.nan_to_num(np.abs(found - ref.posterior).max(1), nan=np.inf)
            parity.decisions += int(ref.clear.sum())
            parity.wrong_decisions += int(((found.argmax(1) != ref.index) & ref.clear).sum())
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
            parity.problems.append(
                f"Output {output!r} does not come from the scores and must stay. It changed."
            )
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
                    f"Output {output!r} is not what the model makes of corrected scores."
                )


def _close(wanted: Any, found: Any, ref: Reference) -> bool:
    tolerance = float(ref.tolerance.max())
    if not isinstance(wanted, np.ndarray) or wanted.dtype.kind == "f":
        return _same(wanted, found, tolerance)
    if wanted.shape != found.shape:
        return False
    gaps = np.diff(np.sort(ref.posterior, axis=1), axis=1).min(1)
    if wanted.ndim and len(wanted) == len(gaps):  # ranks may differ where any two classes tie
        clear = gaps > 2 * ref.tolerance
        return bool((wanted[clear] == found[clear]).all())
    return bool((wanted == found).all()) or bool((gaps <= 2 * ref.tolerance).any())


def _behind(evidence: Evidence, outputs: list[str]) -> onnx.ModelProto:
    """Return the part of the original behind the scores, with the scores as an input."""
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
#: Entries of generated input in one run, unless that were fewer samples than these: an image of
#: 224 x 224 in colour is 150,528.
_ENTRIES = 1 << 18
_FEWEST_SAMPLES = 16
#: From this size on a sample is a volume, and four must do.
_HUGE = 1 << 20
_FEW = 4
#: Runs where the batch is fixed.
_RUNS = 8
#: Sizes to try for free axes other than the first; two that work are used.
_SIZES = (32, 48, 16, 64, 224, 8, 4, 2, 1)
#: Row i of generated numbers is multiplied by entry i, over and over: near 0 classes are close.
_SPREADS = (0.3, 1.0, 3.0)
#: One less than the largest generated integer, tried in this order.
_INTEGERS = (10, 2, 1)
_LARGE = 1_500_000_000
#: Models with one of these are run as they are written.
_QUANTISED = ("QuantizeLinear", "DynamicQuantizeLinear")


class Runner:
    """A session of ONNX Runtime on the CPU that gives every output by name."""

    def __init__(self, model: onnx.ModelProto, *, name: str) -> None:
        runtime = require("onnxruntime", extra="onnx", purpose="To run an ONNX model")
        options = runtime.SessionOptions()
        options.log_severity_level = 4  # errors come back as exceptions
        if any(node.op_type in _QUANTISED for node in model.graph.node):
            # Fused integer kernels saturate and round elsewhere, a whole step at once.
            options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._folder: Any = None
        where: Any
        if weight_bytes(model) < _LARGE:
            where = model.SerializeToString()
        else:  # too much for one message: by way of a file
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
                    f" must run in ONNX Runtime. It does not: {_first_line(error)}",
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
        """Return what the model says against the first input it does not take, or None."""
        for feed in feeds:
            try:
                self.run(feed)
            except Exception as error:  # ONNX Runtime's own, which have no common base
                return _first_line(error)
        return None


def with_outputs(model: onnx.ModelProto, tensors: Sequence[str]) -> onnx.ModelProto:
    """Return a model that shows inner tensors too."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    have = {output.name for output in model.graph.output}
    shown.graph.output.extend(onnx.ValueInfoProto(name=t) for t in tensors if t not in have)
    return shown


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    line = text[0].rstrip(".") if text else type(error).__name__
    return f"{line[:300]}."


# --------------------------------------------------------------------------------- generated


def generated_feeds(model: onnx.ModelProto, runner: Runner, *, seed: int = 0) -> Feeds:
    """Return random inputs of several batch sizes, and of two sizes where these are free.

    They are tried: what the model refuses is left out.
    """
    known = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in known]
    rng = np.random.default_rng(seed)
    failure = ""
    for top in _INTEGERS:
        feeds: Feeds = []
        sizes_left = 2
        for size in _SIZES:
            found, failure = _tried(_of_size(inputs, size, top, rng), runner, failure)
            feeds += found
            sizes_left -= bool(found)
            if sizes_left == 0 or (found and not _has_free_size(inputs)):
                break
        if feeds:
            return feeds
    raise FoldError(
        argument="inputs",
        rule="must be given for this model: generated ones it does not take",
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
            failure = _first_line(error)
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
    """Return the inputs a user gave, as runs: types as the model has them, fixed batches split."""
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
            rule=f"must be what the model takes, numbers for {value.name!r}",
            got=f"{host.dtype}",
            remedy="Pass the arrays that the model is called with.",
        ) from error


def _split(
    arrays: dict[str, Vector], shapes: Sequence[tuple[int | None, ...] | None]
) -> Iterator[dict[str, Vector]]:
    """Cut along the first axis where all inputs have the same fixed batch."""
    fixed = {dims[0] if dims else None for dims in shapes}
    lengths = {len(array) if array.ndim else 0 for array in arrays.values()}
    batch = fixed.pop() if len(fixed) == 1 else None
    length = lengths.pop() if len(lengths) == 1 else 0
    if batch is None or length <= batch or length % batch:
        yield arrays
        return
    for start in range(0, length, batch):
        yield {name: array[start : start + batch] for name, array in arrays.items()}
