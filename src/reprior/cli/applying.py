"""What ``reprior apply`` does to one output: posteriors and decisions, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reprior.cli.agreement import few
from reprior.cli.inputs import class_names
from reprior.core.binary import is_single_score

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator
    from reprior.cli.session import Session
    from reprior.files.chunks import Chunk
    from reprior.files.costs import Costs
    from reprior.files.scores import ScoreFile

__all__ = ["Applying", "costs_of", "decide"]


@dataclass(frozen=True, eq=False)
class Applying:
    """A calibrator at work. With ``costs`` it decides by them; ``keep`` keeps what inputs hold."""

    calibrator: PosteriorCalibrator
    session: Session
    keep: bool = False
    costs: Costs | None = None

    def write(self, scores: ScoreFile, output: str, chunks: Iterable[Chunk] | None = None) -> int:
        """Stream one output of the scores, or of these chunks of them; return how many it has."""
        from reprior.files.output import open_output

        done = 0
        names = class_names(self.calibrator) or scores.class_names
        decisions = self._decisions(names)
        with (
            self.session.progress(f"writing {Path(output).name}", scores.n_samples) as progress,
            open_output(
                output, like=scores, classes=names, keep=self.keep, decisions=decisions
            ) as writer,
        ):
            for chunk in scores.chunks() if chunks is None else chunks:
                posterior = self.calibrator.predict_proba(chunk.scores)
                writer.write(chunk, posterior, self._decided(chunk.scores, posterior))
                done += len(chunk)
                progress(done)
        for sentence in writer.notes:
            self.session.note(sentence)
        return done

    def _decisions(self, names: Sequence[Any] | None) -> tuple[str, ...] | None:
        """Names of what is decided; None where these are the classes."""
        if self.costs is None:
            return None
        n_classes, n = self.costs.matrix.shape
        classes = range(n_classes) if names is None else names
        if self.costs.decisions is None:
            return None if n == n_classes else tuple(map(str, range(n)))
        return None if self.costs.decisions == tuple(map(str, classes)) else self.costs.decisions

    def _decided(self, scores: Any, posterior: Any) -> Any:
        from reprior.core import decision

        calibrator, axis = self.calibrator, self.calibrator.class_axis
        if self.costs is not None:
            return decision.decide(posterior, self.costs.matrix, class_axis=axis)
        return calibrator._decided(scores)


def costs_of(
    session: Session, calibrator: PosteriorCalibrator, path: str, scores: ScoreFile
) -> Costs:
    """Read costs for a calibrator's classes; say in which order, and what they rest on."""
    from reprior.calibrator.options import is_log_loss
    from reprior.calibrator.summary import metric_name
    from reprior.files.costs import read_costs

    names = class_names(calibrator) or scores.class_names
    costs = read_costs(path, calibrator.classes_.tolist() if names is None else names)
    if names is not None and not costs.by_class:
        what = "names" if costs.decisions is None else "names of classes"
        session.note(
            f"the costs of {path} have no {what}, and their rows are taken in the order of the "
            f"classes: {few(names)}"
        )
    if calibrator.probability_map_ is None and not is_log_loss(calibrator.metric):
        session.note(
            f"costs are weighed by the probabilities, which need not be honest: the calibrator was "
            f"tuned for {metric_name(calibrator.metric)}; fit it with --metric log_loss, or with "
            f"--separate"
        )
    return costs


def decide(posterior: Any, *, n_classes: int, class_axis: int) -> Any:
    """Return the class index of the largest posterior, as the calibrator's ``predict`` does.

    Examples
    --------
    >>> import numpy as np
    >>> decide(np.array([[0.2, 0.8], [0.5, 0.5]]), n_classes=2, class_axis=-1)
    array([1, 0])
    >>> decide(np.array([0.2, 0.8]), n_classes=2, class_axis=-1)
    array([0, 1])
    """
    if not is_single_score(posterior.shape, n_classes, class_axis):
        return np.argmax(posterior, axis=class_axis)
    index = (posterior > 1 - posterior).astype(np.int64)
    return index if index.ndim == 1 else np.squeeze(index, axis=class_axis)
