"""``reprior fit --engine dask``: shards by path or URL, read and counted by Dask's workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprior.cli.inputs import open_to_fit
from reprior.cli.options import Names, Reading, collected, skip_option
from reprior.cli.outputs import refuse_inputs
from reprior.exceptions import OptionError

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.cli.session import Session
    from reprior.engines.dask_shards import ShardOptions
    from reprior.files.scores import ScoreFile

__all__ = ["Place", "first_shard", "fit_on_dask", "place_options"]


@dataclass(frozen=True)
class Place:
    """Where a fit runs."""

    engine: str = "local"
    scheduler: str | None = None
    workers: int | None = None
    skip_unreadable: bool = False

    @property
    def on_dask(self) -> bool:
        """Whether Dask's workers read the files."""
        return self.engine == "dask"

    def check(self) -> None:
        """Refuse options of Dask without it."""
        given = {
            "--scheduler": self.scheduler,
            "--workers": self.workers,
        }
        for name, value in given.items():
            if value is not None and not self.on_dask:
                raise OptionError(
                    f"{name} must go with --engine dask. Got it without. Add --engine dask, or "
                    f"leave it out."
                )


place_options = collected(
    Place,
    "place",
    (
        click.option(
            "--engine", type=Names(("local", "dask")), default="local", show_default=True,
            help="Who reads VAL: this process, or the workers of Dask, a file each. With dask, "
            "VAL may be URLs, such as 's3://bucket/val-*.parquet'.",
        ),
        click.option(
            "--scheduler", metavar="ADDRESS",
            help="With --engine dask: a cluster, such as tcp://10.0.0.1:8786. Threads of this "
            "process, if not given.",
        ),
        click.option(
            "--workers", type=int, metavar="N",
            help="With --engine dask: start N worker processes on this machine.",
        ),
        skip_option(),
    ),
)  # fmt: skip


@contextmanager
def first_shard(
    session: Session, val: Sequence[str], reading: Reading, *, skip: bool = False
) -> Iterator[ScoreFile]:
    """Open the first of the files that has rows: kind, classes and columns are those of all.

    ``skip`` passes over files that cannot be read. A file that is not here stays as a copy for as
    long as the block lasts.
    """
    from reprior.engines.dask_shards import expand_urls, nearby
    from reprior.files.chunks import UNREADABLE
    from reprior.files.formats.interface import NoRowsError

    urls = expand_urls(list(val), "val", {})
    labels: Sequence[str | None] = [None] * len(urls)
    if reading.labels is not None:
        labels = expand_urls(reading.labels, "labels", {})
    passed_by = UNREADABLE if skip else (NoRowsError,)
    pairs = list(zip(urls, labels, strict=False))
    for i, (url, own) in enumerate(pairs):
        with ExitStack() as copies:
            try:
                path, label_path = (copies.enter_context(nearby(each)) for each in (url, own))
                scores = open_to_fit(session, [str(path)], _with_labels(reading, label_path))
            except passed_by:
                if i == len(pairs) - 1:
                    raise
                continue
            yield scores
            return


def fit_on_dask(
    calibrator: PosteriorCalibrator,
    val: Sequence[str],
    reading: Reading,
    place: Place,
    *,
    resolution: Any,
    output: str,
) -> None:
    """Fit the calibrator on all files."""
    from reprior.engines.dask_engine import dask_fit
    from reprior.engines.dask_shards import expand_urls

    urls = expand_urls(list(val), "val", {})
    refuse_inputs([Path(output)], urls)
    dask_fit(
        calibrator,
        urls,
        labels=reading.labels,
        reading=_shard_options(reading, calibrator.kind),
        resolution=resolution,
        scheduler=place.scheduler,
        n_workers=place.workers,
        on_error="skip" if place.skip_unreadable else "raise",
    )


def _shard_options(reading: Reading, kind: str) -> ShardOptions:
    from reprior.engines.dask_shards import ShardOptions
    from reprior.files.text_files import as_class_names

    return ShardOptions(
        kind=kind,
        # Read here: the workers may not see the file.
        classes=None if reading.classes is None else as_class_names(reading.classes),
        label_column=reading.label_column,
        weight_column=reading.weight_column,
        ignore_index=reading.ignore_index,
        scores_name=reading.scores_name,
        labels_name=reading.labels_name,
        labels_as=reading.labels_as,
        class_axis=reading.class_axis,
    )


def _with_labels(reading: Reading, labels: Path | None) -> Reading:
    return replace(reading, labels=None if labels is None else (str(labels),))
