"""``reprior fold``: an ONNX model with the correction inside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprior.calibrator.options import MAPS
from reprior.cli.options import PATH, Names, output_option, shows
from reprior.cli.outputs import check_output
from reprior.cli.session import Session, plain, session_options
from reprior.exceptions import OptionError

if TYPE_CHECKING:
    from reprior.onnx import Folded

__all__ = ["command"]


@click.command(
    "fold",
    epilog=shows(
        "reprior fold cal.json model.onnx -o corrected.onnx",
        "reprior fold cal.json model.onnx -o corrected.onnx --scores logits --inputs val.npz",
        first="Examples:",
    ),
)
@click.argument("cal", type=PATH)
@click.argument("model", type=PATH)
@output_option("Where to write the corrected model.", text=False)
@click.option(
    "--scores", metavar="NAME", help="The output, or inner tensor, that holds the class scores."
)
@click.option(
    "--inputs",
    type=PATH,
    metavar="FILE",
    help="Real inputs to compare on: an npz file with an array per input, named as in the model, "
    "or an npy file for a model of one input. Generated ones otherwise.",
)
@click.option(
    "--map",
    type=Names(MAPS),
    help="Which map of a calibrator that holds two (fit --separate): that of its decisions, or "
    "that of its probabilities.",
)
@session_options
def command(
    session: Session,
    cal: str,
    model: str,
    output: str,
    scores: str | None,
    inputs: str | None,
    map: str | None,
) -> None:
    """Put the correction CAL inside the ONNX model MODEL.

    CAL is what fit wrote. Where a linear layer makes the scores its weights are changed, and the
    model costs what it cost; elsewhere a few nodes are added. All outputs that come from the scores
    follow, labels included. The result is compared with the calibrator in ONNX Runtime, and nothing
    is written where they disagree.
    """
    from reprior.calibrator.load import load_calibrator
    from reprior.onnx import fold_report

    if not output:
        raise OptionError("--output must be the path of a file. Got no name. Pass one.")
    check_output(output, [cal, model, inputs], text=False)
    calibrator = load_calibrator(cal)
    samples = None if inputs is None else _read_inputs(inputs)
    with session.progress("folding"):
        folded = fold_report(
            model, calibrator, output=output, scores=scores, inputs=samples, map=map
        )
    for note in folded.notes:
        session.note(note)
    _say(session, folded, output, generated=inputs is None)
    session.result({"output": output, **_document(folded)})


def _read_inputs(path: str) -> Any:
    """Return the arrays of an npz or npy file, without pickle."""
    from reprior.exceptions import FileFormatError
    from reprior.files.detect import detect_format
    from reprior.files.formats.interface import DamagedError
    from reprior.files.formats.npy import StoredNpy
    from reprior.files.zip_members import read_arrays

    try:
        if detect_format(path) == "npy":
            return StoredNpy.open(Path(path)).whole()
        return read_arrays(path)
    except DamagedError as error:
        raise FileFormatError(
            f"{path!r} must be an npz or npy file of numbers. It is truncated, damaged or "
            f"something else. Write it with numpy.savez, an array per input."
        ) from error


def _document(folded: Folded) -> dict[str, Any]:
    parity = folded.parity
    assert parity is not None  # noqa: S101 - the command always compares
    return {
        "scores": folded.scores,
        "kind": folded.kind,
        "where": folded.where,
        "changed": folded.changed,
        "added": folded.added,
        "outputs": parity.outputs,
        "samples": parity.samples,
        "ties": parity.ties,
        "labels": parity.labels,
        "wrong_labels": parity.wrong_labels,
        "decisions": parity.decisions,
        "wrong_decisions": parity.wrong_decisions,
        "posterior_error": parity.posterior_error,
    }


def _say(session: Session, folded: Folded, output: str, *, generated: bool) -> None:
    figures = _document(folded)
    inner = "" if folded.scores in figures["outputs"] else "inner tensor "
    session.say(f"Scores: {inner}{plain(folded.scores)} ({folded.kind})")
    session.say(f"Corrected {plain(folded.where)}")
    if folded.changed:
        session.say(f"Weights changed: {', '.join(map(plain, folded.changed))}")
    session.say(f"Nodes added: {', '.join(folded.added) or 'none'}")
    for name, role in figures["outputs"].items():
        session.say(f"Output {plain(name)}: {role}")
    what = "generated" if generated else "given"
    session.say(f"Compared on {figures['samples']:,} {what} samples: {_agreement(figures)}")
    session.done(f"Written: {output}")


def _agreement(figures: dict[str, Any]) -> str:
    """Return what agrees: labels if the model has any, else those decided from its scores."""
    clauses = []
    for subject, total, wrong in (
        ("labels agree", figures["labels"], figures["wrong_labels"]),
        ("labels decided from the scores agree", figures["decisions"], figures["wrong_decisions"]),
    ):
        if total:
            clauses.append(
                f"{subject} on {total - wrong:,} of {total:,}, {figures['ties']:,} ties left out"
            )
            break
    if figures["decisions"]:
        clauses.append(f"posteriors to {figures['posterior_error']:.1e}")
    return "; ".join(clauses) or "what follows from the scores agrees"
