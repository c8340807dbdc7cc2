"""Fold a calibrator into an ONNX model, and verify folded models."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import onnx

import reprior as rp
from reprior._warnings import warn
from reprior.exceptions import Argument, FoldError, Words, quoted
from reprior.files.atomic import output_target
from reprior.onnx.correction import Affine, Edit, append_correction, append_labels, change_head
from reprior.onnx.files import check_uncorrected, read_model, stamp, write_model
from reprior.onnx.graph import Graph, check_functions
from reprior.onnx.parity import (
    Evidence,
    Feeds,
    Parity,
    Runner,
    compare,
    gather,
    generated_feeds,
    given_feeds,
    label_lists,
    with_outputs,
)
from reprior.onnx.score_tensors import FLOATS, Place, find_places, lineage

__all__ = ["Folded", "Work", "disagreement", "fold", "fold_report", "verify"]


Path: TypeAlias = str | os.PathLike[str]


def fold(
    model: Any,
    calibrator: rp.PosteriorCalibrator,
    *,
    output: Path | None = None,
    scores: str | None = None,
    verify: bool = True,
    inputs: Any = None,
    map: str | None = None,
) -> onnx.ModelProto:
    r"""Return an ONNX model with the correction inside; all outputs follow, labels included.

    .. math:: z'_k = (z_k + λ\,w_k) / T, \qquad w_k = \log P_t(k) - \log P_s(k)

    where z are the model's log-scores, λ the calibrator's strength, T its temperature, P_s and
    P_t its source and target prior. If a Gemm, MatMul + Add, Conv or LinearClassifier computes
    the scores, its weights are changed, at no extra cost. Otherwise as few nodes as possible are
    added behind the scores. Outputs that do not depend on the scores stay as they are.

    Parameters
    ----------
    model : ModelProto or path
        The model; it is not changed.
    calibrator : PosteriorCalibrator
        A fitted calibrator, its classes in the order of the model's.
    output : path, optional
        The file for the folded model, written atomically. If the weights of the original are
        external data, so are those of the folded model: a file beside it.
    scores : str, optional
        The name of the output, or of an inner tensor, that holds the class scores. Needed only
        if several could be the scores.
    verify : bool, default True
        Compare the folded model with the calibrator, see :func:`verify`, and refuse one that
        disagrees.
    inputs : {name: array}, array or a list of these, optional
        Real inputs to compare on; by default generated ones.
    map : {"decision", "probability"}, optional
        Which of the calibrator's maps to fold. Required if there are two (``separate=True``):
        labels and scores of a model then both come from that one.

    Returns
    -------
    ModelProto
        The folded model. :func:`calibrator_of` reads the calibrator back from its metadata.
        A model that is already corrected is refused, as far as the file shows it: see there.

    Raises
    ------
    FoldError
        If the correction cannot be folded, or the folded model disagrees.

    Examples
    --------
    >>> import numpy as np, onnx, reprior as rp
    >>> from reprior.onnx import fold
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 17]>
    ...     head (float[N, 2] x) => (float[N, 2] logits, int64[N] label)
    ...     <float[2, 2] w = {1.0, 0.0, 0.0, 1.0}, float[2] b = {0.0, 0.0}> {
    ...         logits = Gemm(x, w, b)
    ...         label = ArgMax <axis = 1, keepdims = 0> (logits)
    ...     }''')
    >>> tuning = np.array([[2.0, 0.0], [1.0, 0.0], [0.4, 0.0], [0.0, 1.0]])
    >>> calibrator = rp.PosteriorCalibrator([0.8, 0.2]).fit(tuning, [0, 0, 1, 1])
    >>> folded = fold(model, calibrator)
    >>> [node.op_type for node in folded.graph.node]
    ['Gemm', 'ArgMax']
    """
    return fold_report(
        model, calibrator, output=output, scores=scores, verify=verify, inputs=inputs, map=map
    ).model


def fold_report(
    model: Any,
    calibrator: rp.PosteriorCalibrator,
    *,
    output: Path | None = None,
    scores: str | None = None,
    verify: bool = True,
    inputs: Any = None,
    map: str | None = None,
) -> Folded:
    """Fold like :func:`fold`, and return a report of what was changed.

    Parameters are those of :func:`fold`.

    Returns
    -------
    Folded
        The model, the place of the correction, what was changed and added, and the parity.

    Examples
    --------
    >>> import numpy as np, onnx, reprior as rp
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 17]>
    ...     head (float[N, 2] x) => (float[N, 2] p) { p = Softmax(x) }''')
    >>> calibrator = rp.PosteriorCalibrator([0.8, 0.2], kind="probs")
    >>> calibrator = calibrator.fit([[0.9, 0.1], [0.6, 0.4]], [0, 1])
    >>> fold_report(model, calibrator).added
    ['Add']
    """
    calibrator = check_calibrator(calibrator, map)
    _check_output(model, output)
    source = read_model(model)
    with _refusing_malformed(source.model, "model"):
        inlined = _inlined(source.model, "model")
        check_uncorrected(inlined, scores)
        work = Work(inlined, calibrator, scores, inputs)
        folded = work.fold(prove=verify)
    stamp(folded.model, calibrator)
    if output is not None:
        write_model(folded.model, output, external=source.external, keep=source.data)
    return folded


def verify(
    original: Any,
    folded: Any,
    calibrator: rp.PosteriorCalibrator,
    inputs: Any = None,
    *,
    scores: str | None = None,
    map: str | None = None,
) -> Parity:
    """Compare a folded model with the calibrator applied to the original's scores.

    Both run in ONNX Runtime, on given inputs or generated ones of several batch sizes. Labels
    must agree unless the two best posteriors are within rounding of each other; posteriors
    must agree to 1e-5 (half precision: 5e-3); outputs independent of the scores must not change.

    Parameters
    ----------
    original, folded : ModelProto or path
        The model before and after.
    calibrator : PosteriorCalibrator
        The calibrator that was folded.
    inputs : {name: array}, array or a list of these, optional
        Inputs to compare on.
    scores : str, optional
        The tensor of the original's class scores, as for :func:`fold`.
    map : {"decision", "probability"}, optional
        Which of the calibrator's maps, as for :func:`fold`.

    Returns
    -------
    Parity
        The figures of the comparison, if all outputs agree.

    Raises
    ------
    FoldError
        If an output disagrees.

    Examples
    --------
    >>> import numpy as np, onnx, reprior as rp
    >>> from reprior.onnx import fold, verify
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 17]>
    ...     head (float[N, 2] x) => (float[N, 2] p) { p = Softmax(x) }''')
    >>> calibrator = rp.PosteriorCalibrator([0.8, 0.2], kind="probs")
    >>> calibrator = calibrator.fit([[0.9, 0.1], [0.6, 0.4]], [0, 1])
    >>> verify(model, fold(model, calibrator), calibrator).wrong_labels
    0
    """
    calibrator = check_calibrator(calibrator, map)
    before = read_model(original, name="original").model
    after = read_model(folded, name="folded").model
    with _refusing_malformed(before, "original"), _refusing_malformed(after, "folded"):
        check_functions(after, "folded")
        work = Work(_inlined(before, "original"), calibrator, scores, inputs)
        place = work.places()[0]
        parity = compare(work.evidence(place), after)
    if not parity.ok:
        raise FoldError(disagreement(parity.problems))
    return parity


def check_calibrator(calibrator: Any, which: str | None = None) -> rp.PosteriorCalibrator:
    """Return a fitted calibrator of one map; refuse objects that cannot be folded."""
    if isinstance(calibrator, rp.EntropyReference):
        raise FoldError(
            argument="calibrator",
            rule="must be a PosteriorCalibrator",
            got=("an EntropyReference: flattening depends on the input, so no weights can hold it"),
            remedy=(
                "Fold the calibrator alone, and apply reprior.flatten to the scores where "
                "they are fused."
            ),
        )
    if not isinstance(calibrator, rp.PosteriorCalibrator):
        inner = hasattr(calibrator, "calibrator_")
        remedy = (
            "Pass its calibrator_." if inner else "Pass reprior.load(path), or a fitted calibrator."
        )
        raise FoldError(
            argument="calibrator",
            rule="must be a PosteriorCalibrator",
            got=type(calibrator).__name__,
            remedy=remedy,
        )
    try:
        one = calibrator.one_map(which)  # raises if it is not fitted
    except rp.OptionError as error:
        raise FoldError(
            error.text,
            argument=error.argument,
            rule=error.rule,
            got=error.got,
            remedy=error.remedy,
        ) from error
    if one.scales_ is not None:
        raise FoldError(
            argument="calibrator",
            rule="must have one scale for all classes to go into an ONNX model",
            got=[
                "a scale per class (",
                Words("temperature='vector'", "--temperature vector"),
                ")",
            ],
            remedy=[
                "Fit it with ",
                Words("temperature='bcts'", "reprior fit --temperature bcts"),
                ", or apply it behind the model.",
            ],
        )
    return one


def _check_output(model: Any, output: Any) -> None:
    if output is None:
        return
    if not isinstance(output, str | os.PathLike) or not os.fspath(output):
        got = repr(output) if isinstance(output, str) else type(output).__name__
        raise FoldError(
            argument="output",
            rule="must be the path of a file",
            got=got,
            remedy="Pass 'corrected.onnx'.",
        )
    path = os.fspath(output)
    if os.path.isdir(path) or path.endswith(("/", os.sep)):
        raise FoldError(
            argument="output",
            rule="must be a file",
            got=f"the folder {path!r}",
            remedy="Add a file name.",
        )
    output_target(path, argument="output")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise FoldError(
            argument="output",
            rule="must be in a folder that exists",
            got=f"{path!r}, and there is no {folder!r}",
            remedy="Make that folder first.",
        )
    if not isinstance(model, str | os.PathLike) or not os.path.exists(path):
        return
    if os.path.exists(model) and os.path.samefile(model, path):
        raise FoldError(
            argument="output",
            rule="must be another file than the model",
            got=f"{path!r} for both",
            remedy="Keep the original: another calibrator needs it.",
        )


@contextmanager
def _refusing_malformed(model: onnx.ModelProto, name: str) -> Iterator[None]:
    """Name the fault of a malformed model instead of what it led to.

    A well-formed model is not checked beforehand: ONNX Runtime runs models that the checker of
    onnx refuses.
    """
    try:
        yield
    except (rp.RepriorError, OSError, MemoryError):
        raise
    except Exception as error:
        try:
            onnx.checker.check_model(model, full_check=True)
        except Exception as fault:
            raise FoldError(
                argument=name,
                rule="must be a well-formed ONNX model",
                got=quoted(fault),
                remedy="Check it with onnx.checker, and export it again.",
            ) from error
        raise


def _inlined(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Return the model with its local functions inlined, so that all nodes are in one graph."""
    if not model.functions:
        return model
    check_functions(model, name)
    from onnx.inliner import inline_local_functions

    return inline_local_functions(model)


Vector: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Folded:
    """A folded model and a report of what was changed.

    Attributes
    ----------
    model : ModelProto
        The model with the correction inside.
    scores : str
        The tensor that holds the class scores.
    kind : str
        Its kind: "logits", "probs" or "log_probs".
    where : str
        The place of the correction, in words.
    changed : list of str
        Weights that were changed.
    added : list of str
        Operators of the nodes that were added.
    parity : Parity or None
        The comparison with the Python calibrator; None with ``verify=False``.
    notes : list of str
        Sentences about assumptions, such as which inner tensor holds the scores.
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
    """Return the error sentence for a model that disagrees."""
    return (
        f"The folded model must decide as the calibrator does. {' '.join(problems[:3])} "
        f"Name the tensor of the scores by `scores`, or check that the calibrator was fitted "
        f"on this model's scores."
    )


class Work:
    """One model and one calibrator, with cached inputs and values."""

    def __init__(
        self,
        model: onnx.ModelProto,
        calibrator: rp.PosteriorCalibrator,
        scores: str | None,
        inputs: Any,
    ) -> None:
        self.model = model
        self.calibrator = calibrator
        self.scores = scores
        self.inputs = inputs
        self._feeds: Feeds | None = None
        self._seen: dict[str, Vector] = {}

    @property
    def feeds(self) -> Feeds:
        """The inputs to run on, given or generated."""
        if self._feeds is None:
            if self.inputs is None:
                self._feeds = generated_feeds(self.model, Runner(self.model, name="model"))
            else:
                self._feeds = given_feeds(self.model, self.inputs)
                refusal = Runner(self.model, name="model").refusal(self._feeds[:1])
                if refusal is not None:
                    raise FoldError(
                        argument="inputs",
                        rule="must be what the model takes",
                        remedy=(
                            f"It says: {refusal} Pass arrays of the shapes that the model is "
                            f"called with."
                        ),
                    )
        return self._feeds

    def value(self, tensor: str) -> Vector:
        """Return an inner tensor's value on one of the inputs."""
        if tensor not in self._seen:
            runner = Runner(with_outputs(self.model, [tensor]), name="model")
            self._seen[tensor] = np.asarray(runner.run(self.feeds[-1])[tensor])
        return self._seen[tensor]

    def graph(self) -> Graph:
        """Return a copy of the original's graph, which may be changed."""
        copy = onnx.ModelProto()
        copy.CopyFrom(self.model)
        return Graph(copy)

    def places(self) -> list[Place]:
        """Return the places where the scores may be, in the order to try them."""
        graph = self.graph()
        places = find_places(graph, self.calibrator, self.scores, self.value)
        _check_names(label_lists(graph, self.calibrator), self.calibrator)
        return places

    def evidence(self, place: Place) -> Evidence:
        """Return the original's outputs, and what they must be with the scores corrected."""
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
                    _recompute_labels(graph, place, evidence, edit)
                model = graph.commit()
                parity = compare(evidence, model) if prove and evidence else None
                if parity is None or parity.ok:
                    _warn_if_blind(parity, affine)
                    return Folded(
                        model,
                        place.tensor,
                        str(place.kind),
                        edit.where,
                        edit.changed,
                        edit.added,
                        parity,
                        _notes(graph, place, self.calibrator),
                    )
                problems = problems or parity.problems
        raise FoldError(disagreement(problems))

    def _may_have_orphans(self, place: Place) -> bool:
        graph = self.graph()
        return bool(set(graph.outputs) - graph.follows(place.tensor))


def _notes(graph: Graph, place: Place, calibrator: rp.PosteriorCalibrator) -> list[str]:
    """Note that an inner tensor of logits, not an output, was used as the scores."""
    if calibrator.kind != "logits" or place.kind != "logits":
        return []
    followers = graph.follows(place.tensor)
    shown = []
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
        f"The calibrator has kind 'logits', so the inner tensor {place.tensor!r} was used as the "
        f"scores; output {shown[0]!r} holds probabilities computed from it. If the calibrator was "
        f"fitted on {shown[0]!r}, fit it again with kind 'probs'."
    ]


def _attempts(affine: Affine) -> list[Callable[[Graph, Place, Affine], Edit | None]]:
    """Return the edits to try: none if nothing changes, else new weights, then more nodes."""
    if affine.is_identity:
        return [lambda *_: Edit("nowhere: it changes nothing")]
    return [change_head, append_correction]


def _recompute_labels(graph: Graph, place: Place, evidence: Evidence, edit: Edit) -> None:
    """Recompute label outputs from the corrected scores where they do not follow from them."""
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
                argument="calibrator",
                rule=f"must have its classes in the order of the model's, {theirs}",
                got=f"{own}",
                remedy=[
                    "Fit it again with ",
                    Words(f"classes={theirs}", "a --classes file in that order"),
                    ".",
                ],
            )


def _warn_if_blind(parity: Parity | None, affine: Affine) -> None:
    if parity is not None and not parity.telling and not affine.is_identity:
        warn(
            [
                "The inputs do not distinguish the folded model from the original: no posterior "
                "moves by more than rounding. Pass real samples as ",
                Argument("inputs"),
                ".",
            ]
        )
