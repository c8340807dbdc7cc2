"""Run original and folded model side by side and compare every output."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import onnx

import reprior as rp
from reprior.exceptions import FoldError
from reprior.onnx.graph import Graph, attribute, has_weights
from reprior.onnx.parity import (
    Parity,
    Reference,
    as_posterior,
    is_telling,
    names_nearest,
    names_of,
    reference,
    role_of,
    scores_like,
)
from reprior.onnx.runtime import Feeds, Runner, with_outputs
from reprior.onnx.score_tensors import CLASSIFIERS, FLOATS, Place, lineage

__all__ = ["Evidence", "compare", "gather"]

Vector: TypeAlias = np.ndarray[Any, Any]

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
        self.graph, self.place, self.feeds = graph, place, feeds
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
                    f"`scores` must be what the labels are decided by. Got {self.place.tensor!r}, "
                    f"but output {output!r} is seldom the class of its largest score. Export the "
                    f"model with its probabilities, and fit the calibrator on these."
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
            f"`folded` must have the outputs of the original, {', '.join(map(repr, wanted))}. "
            f"Got {', '.join(map(repr, runner.outputs))}. Pass the two models of one fold."
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
    parity.labels, parity.wrong_labels = parity.labels + total, parity.wrong_labels + wrong
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
    graph, name = Graph(part), evidence.place.tensor
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
