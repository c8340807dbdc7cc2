"""Fold a calibrator into an ONNX model: what users call."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import onnx

import reprior as rp
from reprior.exceptions import FoldError
from reprior.files.atomic import output_target
from reprior.onnx.files import read_model, stamp, write_model
from reprior.onnx.marks import check_uncorrected
from reprior.onnx.parity import Parity
from reprior.onnx.verifying import compare
from reprior.onnx.work import Folded, Work, disagreement

__all__ = ["fold", "fold_report", "verify"]

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
    r"""Return an ONNX model with the correction inside; every output follows, labels included.

    .. math:: z'_k = (z_k + λ\,w_k) / T, \qquad w_k = \log P_t(k) - \log P_s(k)

    where z are the model's log-scores, λ the calibrator's strength, T its temperature, P_s and
    P_t its source and target prior. Where a Gemm, MatMul + Add, Conv or LinearClassifier makes
    the scores, its weights are changed and the model costs what it cost. Elsewhere the fewest
    nodes are added behind the scores. Outputs that do not come from the scores stay as they are.

    Parameters
    ----------
    model : ModelProto or path
        The model; it is not changed.
    calibrator : PosteriorCalibrator
        A fitted calibrator, its classes in the order of the model's.
    output : path, optional
        Where to write the folded model: whole, or not at all. Weights go into a file of their own
        beside it where they were in one.
    scores : str, optional
        The name of the output, or of an inner tensor, that holds the class scores. Needed only
        where several may.
    verify : bool, default True
        Compare the folded model with the calibrator, see :func:`verify`, and refuse one that
        disagrees.
    inputs : {name: array}, array or a list of these, optional
        Real inputs to compare on. Generated ones otherwise.
    map : {"decision", "probability"}, optional
        Which of the calibrator's maps. It must be said where there are two (``separate=True``):
        labels and scores of a model then both come from that one.

    Returns
    -------
    ModelProto
        The folded model. :func:`calibrator_of` reads the calibrator back from its metadata.
        A model that is corrected already is refused, as far as the file tells: see there.

    Raises
    ------
    FoldError
        Where the correction cannot go in, or the folded model disagrees.

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
    """Do what :func:`fold` does, and say what was done.

    Parameters are those of :func:`fold`.

    Returns
    -------
    Folded
        The model, where the correction went, what was changed and added, and the parity.

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
    whole = _inlined(source.model)
    check_uncorrected(whole, scores)
    work = Work(whole, calibrator, scores, inputs)
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
    must agree wherever the two best posteriors are not within rounding of each other; posteriors
    must agree to 1e-5 (half precision: 5e-3); outputs that do not come from the scores must stay.

    Parameters
    ----------
    original, folded : ModelProto or path
        The model before and after.
    calibrator : PosteriorCalibrator
        What was folded in.
    inputs : {name: array}, array or a list of these, optional
        Inputs to compare on.
    scores : str, optional
        The tensor of the original's class scores, as for :func:`fold`.
    map : {"decision", "probability"}, optional
        Which of the calibrator's maps, as for :func:`fold`.

    Returns
    -------
    Parity
        The figures, where all agrees.

    Raises
    ------
    FoldError
        Where an output disagrees.

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
    work = Work(_inlined(read_model(original, name="original").model), calibrator, scores, inputs)
    place = work.places()[0]
    parity = compare(work.evidence(place), read_model(folded, name="folded").model)
    if not parity.ok:
        raise FoldError(disagreement(parity.problems))
    return parity


def check_calibrator(calibrator: Any, which: str | None = None) -> rp.PosteriorCalibrator:
    """Return a fitted calibrator of one map; refuse what is none, or cannot go into a model."""
    if isinstance(calibrator, rp.EntropyReference):
        raise FoldError(
            "`calibrator` must be a PosteriorCalibrator. Got an EntropyReference: flattening "
            "depends on the input, so no weights can hold it. Fold the calibrator alone, and "
            "apply reprior.flatten to the scores where they are fused."
        )
    if not isinstance(calibrator, rp.PosteriorCalibrator):
        inner = hasattr(calibrator, "calibrator_")
        remedy = (
            "Pass its calibrator_." if inner else "Pass reprior.load(path), or a fitted calibrator."
        )
        raise FoldError(
            f"`calibrator` must be a PosteriorCalibrator. Got {type(calibrator).__name__}. {remedy}"
        )
    try:
        one = calibrator.one_map(which)  # says so where it is not fitted
    except rp.OptionError as error:
        raise FoldError(str(error)) from error
    if one.scales_ is not None:
        raise FoldError(
            "`calibrator` must have one scale for all classes to go into an ONNX model. Got a "
            "scale per class (temperature='vector'). Fit it with temperature='bcts', or apply it "
            "behind the model."
        )
    return one


def _check_output(model: Any, output: Any) -> None:
    if output is None:
        return
    if not isinstance(output, str | os.PathLike) or not os.fspath(output):
        got = repr(output) if isinstance(output, str) else type(output).__name__
        raise FoldError(f"`output` must be the path of a file. Got {got}. Pass 'corrected.onnx'.")
    there = os.fspath(output)
    if os.path.isdir(there) or there.endswith(("/", os.sep)):
        raise FoldError(f"`output` must be a file. Got the folder {there!r}. Add a file name.")
    output_target(there, argument="output")
    folder = os.path.dirname(there) or "."
    if not os.path.isdir(folder):
        raise FoldError(
            f"`output` must be in a folder that exists. Got {there!r}, and there is no {folder!r}. "
            f"Make that folder first."
        )
    if not isinstance(model, str | os.PathLike) or not os.path.exists(there):
        return
    if os.path.exists(model) and os.path.samefile(model, there):
        raise FoldError(
            f"`output` must be another file than the model. Got {there!r} for both. "
            f"Keep the original: another calibrator needs it."
        )


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without functions of its own: heads and tails are then in one graph."""
    if not model.functions:
        return model
    from onnx.inliner import inline_local_functions

    return inline_local_functions(model)
