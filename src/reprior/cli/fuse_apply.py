"""``reprior fuse apply``: the fused posteriors and predictions, chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence

import click

from reprior.calibrator.encoding import is_range
from reprior.cli.applying import decide
from reprior.cli.examples import shows
from reprior.cli.fuse_inputs import load_fusion, modalities_argument, named_files, open_known
from reprior.cli.options import PATH, Names, Reading, output_option, reading_options
from reprior.cli.outputs import check_output
from reprior.cli.session import Session, session_options
from reprior.fusion.modality import MISSING

__all__ = ["command", "missing_option"]

missing_option = click.option(
    "--missing",
    type=Names(MISSING),
    help="What to do about a modality that is not given: refuse, or fuse the others without it. By "
    "default what fuse fit was told.",
)


@click.command(
    "apply",
    short_help="Write fused probabilities and predictions.",
    epilog=shows(
        "reprior demo -o demo      # writes the files used here; one model stands for two",
        "reprior fuse fit rgb=demo/val.csv depth=demo/val.csv --counts demo/counts.json \\",
        "    --kind logits -o fusion.json",
        "reprior fuse apply fusion.json rgb=demo/test.csv depth=demo/test.csv -o fused.csv",
    ),
)
@click.argument("fusion", type=PATH)
@modalities_argument
@missing_option
@reading_options(labels=False)
@output_option("Where to write: arrays posterior and prediction, or columns.")
@session_options
def command(
    session: Session,
    fusion: str,
    modalities: Sequence[str],
    missing: str | None,
    reading: Reading,
    output: str,
) -> None:
    """Write the fused probabilities and predictions of several modalities.

    FUSION is what fuse fit wrote, and NAME=FILE a score file for each of its modalities, whose rows
    are the same samples in the same order: labels, or ids under one name, that differ are an error.
    Files are read and written in pieces, so they may be larger than memory. The output is as that
    of apply, in the format of the first file unless OUT's extension says another.
    """
    from reprior.files.output import open_output

    named = named_files(modalities)
    model = load_fusion(fusion, missing)
    found = open_known(session, model, named, reading, labelled=False)
    check_output(output, [fusion, reading.classes, *found.paths], store=True)
    first, n_classes, done = found.first, model.source_prior_.size, 0
    names = None if is_range(model.classes_) else model.classes_.tolist()
    with (
        session.progress("fusing", first.n_samples) as progress,
        open_output(output, like=first, classes=names or first.class_names) as writer,
    ):
        for there, _, _ in found.chunks():
            posterior = model.predict_proba({name: c.scores for name, c in there.items()})
            index = decide(posterior, n_classes=n_classes, class_axis=model.class_axis)
            chunk = next(iter(there.values()))
            writer.write(chunk, posterior, index)
            done += len(chunk)
            progress(done)
    for sentence in writer.notes:
        session.note(sentence)
    absent = [name for name in model.modalities_ if name not in named]
    if absent:
        session.note(f"fused without {', '.join(absent)}, of which no file was given")
    several = "modality" if len(named) == 1 else "modalities"
    session.done(f"Written: {output}, {done:,} samples of {len(named)} {several}")
    session.result({"output": output, "n_samples": done, "modalities": list(named)})
