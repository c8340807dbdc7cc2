"""One fold: find the scores, try the places one after the other, prove the result."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import onnx

import reprior as rp
from reprior.exceptions import FoldError
from reprior.onnx.correction import Affine, Edit, append_correction, append_labels
from reprior.onnx.graph import Graph
from reprior.onnx.heads import change_head
from reprior.onnx.parity import Parity
from reprior.onnx.runtime import Feeds, Runner, generated_feeds, given_feeds, with_outputs
from reprior.onnx.score_tensors import FLOATS, Place, find_places, lineage
from reprior.onnx.verifying import Evidence, compare, gather, label_lists

__all__ = ["Folded", "Work", "disagreement"]

Vector: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Folded:
    """A folded model and what was done to it.

    Attributes
    ----------
    model : ModelProto
        The model with the correction inside.
    scores : str
        The tensor taken as the class scores.
    kind : str
        What it holds: "logits", "probs" or "log_probs".
    where : str
        Where the correction went, in words.
    changed : list of str
        Weights that were changed.
    added : list of str
        Operators of the nodes that were added.
    parity : Parity or None
        The comparison with the Python calibrator; None with ``verify=False``.
    notes : list of str
        Sentences on what was taken for granted, such as which inner tensor the scores are.
    """

    model: onnx.ModelProto
    scores: str
    kind: str
    where: str
    changed: list[str]
    added: list[str]
    parity: Parity | None
    notes: list[str] = field(default_factory=list)


def disagreement(problems: list[str]) -> str:
    """Return what to say of a model that disagrees."""
    return (
        f"The folded model must decide as the calibrator does. {' '.join(problems[:3])} "
        f"Name the tensor of the scores by `scores`, or check that the calibrator was fitted "
        f"on this model's scores."
    )


class Work:
    """One model, one calibrator: what is found out about them, each thing once."""

    def __init__(
        self,
        model: onnx.ModelProto,
        calibrator: rp.PosteriorCalibrator,
        scores: str | None,
        inputs: Any,
    ) -> None:
        self.model, self.calibrator, self.scores, self.inputs = model, calibrator, scores, inputs
        self._feeds: Feeds | None = None
        self._seen: dict[str, Vector] = {}

    @property
    def feeds(self) -> Feeds:
        """The inputs to run on, as given or generated."""
        if self._feeds is None:
            if self.inputs is None:
                self._feeds = generated_feeds(self.model, Runner(self.model, name="model"))
            else:
                self._feeds = given_feeds(self.model, self.inputs)
                refusal = Runner(self.model, name="model").refusal(self._feeds[:1])
                if refusal is not None:
                    raise FoldError(
                        f"`inputs` must be what the model takes. It says: {refusal} Pass arrays "
                        f"of the shapes that the model is called with."
                    )
        return self._feeds

    def value(self, tensor: str) -> Vector:
        """Return an inner tensor's value on one of the inputs."""
        if tensor not in self._seen:
            runner = Runner(with_outputs(self.model, [tensor]), name="model")
            self._seen[tensor] = np.asarray(runner.run(self.feeds[-1])[tensor])
        return self._seen[tensor]

    def graph(self) -> Graph:
        """Return the original's graph, to be changed at will."""
        own = onnx.ModelProto()
        own.CopyFrom(self.model)
        return Graph(own)

    def places(self) -> list[Place]:
        """Return where the scores are, places to try in turn."""
        graph = self.graph()
        places = find_places(graph, self.calibrator, self.scores, self.value)
        _check_names(label_lists(graph, self.calibrator), self.calibrator)
        return places

    def evidence(self, place: Place) -> Evidence:
        """Return what the original gives, and what it should with the scores corrected."""
        return gather(self.model, self.calibrator, place, self.feeds)

    def fold(self, *, prove: bool) -> Folded:
        """Return the first corrected model that agrees with the calibrator."""
        affine = Affine(*self.calibrator.as_affine())
        problems: list[str] = []
        places = self.places()
        for place in places:
            evidence = self.evidence(place) if prove or self._may_have_orphans(place) else None
            above = None if evidence is None else evidence.logits_above()
            if above is not None and above not in places:
                places.append(above)
            for attempt in _attempts(affine):
                graph = self.graph()
                edit = attempt(graph, place, affine)
                if edit is None:
                    continue
                if evidence is not None and not affine.is_identity:
                    _take_labels_anew(graph, place, evidence, edit)
                model = graph.commit()
                parity = compare(evidence, model) if prove and evidence else None
                if parity is None or parity.ok:
                    _warn_if_blind(parity, affine)
                    return Folded(
                        model, place.tensor, str(place.kind), edit.where, edit.changed, edit.added,
                        parity, _notes(graph, place, self.calibrator),
                    )  # fmt: skip
                problems = problems or parity.problems
        raise FoldError(disagreement(problems))

    def _may_have_orphans(self, place: Place) -> bool:
        graph = self.graph()
        return bool(set(graph.outputs) - graph.follows(place.tensor))


def _notes(graph: Graph, place: Place, calibrator: rp.PosteriorCalibrator) -> list[str]:
    """Say so where logits that nobody outside the model sees were taken as the scores."""
    if calibrator.kind != "logits" or place.kind != "logits":
        return []
    followers, shown = graph.follows(place.tensor), []
    for output in graph.outputs:
        chain = lineage(graph, output, n_classes=calibrator.source_prior_.size)
        if output not in followers or not chain or graph.element(output) not in (0, *FLOATS):
            continue
        if chain[0].kind != "probs":
            return []  # this may be what it was fitted on
        shown.append(output)
    if not shown:
        return []
    return [
        f"The calibrator says that it was fitted on logits, so the inner tensor {place.tensor!r} "
        f"was taken as the scores; output {shown[0]!r} holds probabilities made from it. If the "
        f"calibrator was fitted on {shown[0]!r}, fit it again with kind='probs'."
    ]


def _attempts(affine: Affine) -> list[Callable[[Graph, Place, Affine], Edit | None]]:
    """Return what to try: nothing where nothing changes, else the weights, then more nodes."""
    if affine.is_identity:
        return [lambda *_: Edit("nowhere: it changes nothing")]
    return [change_head, append_correction]


def _take_labels_anew(graph: Graph, place: Place, evidence: Evidence, edit: Edit) -> None:
    """Derive the label outputs that do not follow by themselves from the corrected scores."""
    before = graph.upstream(graph.outputs)
    reached = {name for start in edit.reaches for name in graph.follows(start)}
    if graph.producer(place.tensor) is None:  # an input keeps its name, uncorrected
        place = replace(place, tensor=edit.reaches[0])
    for output in graph.outputs:
        if output in reached or evidence.role(output) != "labels":
            continue
        value = evidence.values(output)[0]
        edit.added += append_labels(
            graph,
            place,
            output,
            evidence.label_names(output),
            keepdims=value.ndim == place.rank,
            element=graph.element(output),
        )
    alive = graph.upstream(graph.outputs)
    graph.nodes = [n for i, n in enumerate(graph.nodes) if i in alive or i not in before]
    graph.index()


def _check_names(lists: list[Vector], calibrator: rp.PosteriorCalibrator) -> None:
    """Refuse a model that names the calibrator's classes in another order."""
    own = calibrator.classes_.tolist()
    for names in lists:
        theirs = names.tolist()
        if own != theirs and set(own) == set(theirs) and own != list(range(len(own))):
            raise FoldError(
                f"`calibrator` must have its classes in the order of the model's, {theirs}. "
                f"Got {own}. Fit it again with classes={theirs}."
            )


def _warn_if_blind(parity: Parity | None, affine: Affine) -> None:
    if parity is not None and not parity.telling and not affine.is_identity:
        warnings.warn(
            "The inputs do not tell the folded model from the original: no posterior moves by "
            "more than rounding. Pass real samples as `inputs`.",
            rp.RepriorWarning,
            stacklevel=5,
        )
