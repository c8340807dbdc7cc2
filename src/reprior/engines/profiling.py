"""The profiling passes of a fit: one per bounds, saved as they go, refined at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from reprior.core.binary import is_single_score
from reprior.engines.aside import Aside
from reprior.engines.checkpoints import (
    Checkpoint,
    Saved,
    n_labels,
    options_of,
    rest_of,
    sources_of,
)
from reprior.engines.fingerprint import Digest
from reprior.engines.lookalike import Lookalike
from reprior.engines.refine import RefinedProfile, refined
from reprior.engines.stream import Part, Stream
from reprior.files.chunk import Chunk
from reprior.tuning.gross import GrossTable
from reprior.tuning.merging import MOST_CELLS, ProfileSum
from reprior.tuning.problem import Problem
from reprior.tuning.profile import StrengthProfile
from reprior.tuning.sum_storage import pack_sum, unpack_sum
from reprior.tuning.switches import Switches, n_cells

__all__ = ["LeanSum", "Profiler"]


class Known(NamedTuple):
    """A digest that was taken before: what it says, and of how many samples."""

    value: str
    n_samples: int


class LeanSum(ProfileSum):
    """A sum that goes over to bins in the room of what it holds, and no more."""

    def coarsen(self) -> None:
        """From here on, sum in bins; those switches too that were kept so far."""
        self.coarse = True
        kept, self._exact, self._waiting = self._exact[::-1], [], 0
        while kept:  # one after another, and each let go: joined they would need twice the room
            self._bin(kept.pop()[1])


class Profiler:
    """Profiles of a stream, one pass each; the first one also takes its digest.

    Parameters
    ----------
    stream : Stream
        The samples.
    new_sum : callable
        Gives the empty sum that the profiles of the parts are added to.
    checkpoint : Checkpoint, optional
        Where passes are saved as they go, begun for this fit.
    goal : Problem, optional
        For whose metric and constraints a binned profile is refined in a second pass.
    most : int
        Switches that this second pass keeps, at most.
    """

    def __init__(
        self,
        stream: Stream,
        new_sum: Callable[[], ProfileSum],
        *,
        checkpoint: Checkpoint | None = None,
        goal: Problem | None = None,
        most: int = 0,
    ) -> None:
        self.stream, self.new_sum, self.checkpoint = stream, new_sum, checkpoint
        self.goal, self.most = goal, most
        self.digest: Digest | Known = Digest(stream.options.class_axis)
        self.lookalike = Lookalike(stream.options.kind)
        self.unrefined = False
        self._coarse = False
        new_sum()  # refuses a wrong resolution before the first pass

    def begin(self, resolution: Any) -> None:
        """Tell the checkpoint, if there is one, what the fit is of."""
        if self.checkpoint is not None:
            self.checkpoint.begin(
                sources_of(self.stream.chunks), options_of(self.stream, resolution)
            )

    def profile(self, bounds: tuple[float, float]) -> StrengthProfile:
        """Profile all samples within ``bounds``."""
        one = _Pass(self, bounds)
        one.run()
        self._coarse = one.total.coarse
        found = one.total.total()
        if self.goal is None or not one.total.coarse:
            return found
        if one.gross is None or self.goal.log_loss or self.goal.flat:
            self.unrefined = True
            return found
        exact = refined(
            found, one.gross, self.goal.metric, self.goal.constraints,
            lambda: self._exact_parts(bounds), most=self.most,
        )  # fmt: skip
        self.unrefined = not isinstance(exact, RefinedProfile)
        return exact

    def empty(self) -> ProfileSum:
        """A new sum; in bins where narrower bounds had too many switches already."""
        total = self.new_sum()
        if self._coarse:
            total.coarsen()
        return total

    def _exact_parts(self, bounds: tuple[float, float]) -> Iterator[StrengthProfile]:
        for part in self.stream.parts():
            with part.located():
                yield StrengthProfile._of(part.data.reading(bounds))


class _Pass:
    """One pass within some bounds, from its beginning or from where it was saved."""

    def __init__(self, profiler: Profiler, bounds: tuple[float, float]) -> None:
        self.profiler, self.bounds = profiler, bounds
        self.total, self.gross = profiler.empty(), None
        self.first = profiler.digest.n_samples == 0
        self.done, self.finished, self.boundless = 0, False, False
        saved = None if profiler.checkpoint is None else profiler.checkpoint.load(bounds)
        if saved is not None:
            self._take_up(saved)

    total: ProfileSum
    gross: GrossTable | None

    def run(self) -> None:
        """Count what is not counted yet."""
        if self.finished:
            self.profiler.stream.n_samples = self.done
            return
        resumed = self.done > 0
        stream = self._rest() if resumed else self.profiler.stream
        with Aside() as aside:

            def look(chunk: Chunk) -> None:
                # All chunks before this one are counted by now, and once the digest is taken
                # of the last of them, what is saved here holds them and nothing else.
                aside.wait()
                self._save_if_due()
                if self.first and isinstance(self.profiler.digest, Digest):
                    aside.call(self.profiler.digest.update, chunk)
                self.done += n_labels(chunk)

            for part in stream.parts(look):
                with part.located():
                    self._count(part)
        if resumed:
            self.profiler.stream.n_samples = self.done
        self.finished = True
        self._save()

    def _count(self, part: Part) -> None:
        reading = part.data.reading(self.bounds)
        if self.first:
            shape, options = np.shape(part.data.scores), self.profiler.stream.options
            single = is_single_score(shape, reading.source_prior.size, options.class_axis)
            self.profiler.lookalike.see(reading.rows, single)
        profile = StrengthProfile._of(reading)
        if self.profiler.goal is not None:
            self._note_gross(profile)
        self.total.add(profile)

    def _note_gross(self, profile: StrengthProfile) -> None:
        """Count what each class gains in each bin, where there is room for that.

        Not of fractional weights, whose sums no bound holds for to the last bit.
        """
        width, switches = self.total.resolution, profile._switches
        assert isinstance(switches, Switches)  # noqa: S101 - parts are exact
        whole = switches.weight is None or bool((switches.weight % 1 == 0).all())
        if not whole or n_cells(self.bounds, width, profile.n_classes) > MOST_CELLS:
            self.boundless, self.gross = True, None
        if self.boundless:
            return
        if self.gross is None:
            self.gross = GrossTable(self.bounds, width, profile.n_classes, profile.weighted)
        self.gross.add(switches)

    def _rest(self) -> Stream:
        """The stream of what is not counted yet."""
        whole, n = self.profiler.stream, self.done
        progress = whole.progress
        further = None if progress is None else (lambda more: progress(n + more))
        digest = Digest(whole.options.class_axis) if self.first else None
        rest = rest_of(whole.chunks, n, digest, self.profiler.digest.value)
        if digest is not None:
            self.profiler.digest = digest
        return Stream(
            whole.options, rest, whole.terms, further, first=n, may_be_empty=bool(self.total)
        )

    def _save_if_due(self) -> None:
        checkpoint = self.profiler.checkpoint
        if checkpoint is not None and self.done and checkpoint.due:
            self._save()

    def _save(self) -> None:
        checkpoint = self.profiler.checkpoint
        if checkpoint is None:
            return
        packed, arrays = pack_sum(self.total)
        state: dict[str, Any] = {
            "sum": packed, "first": self.first, "boundless": self.boundless,
        }  # fmt: skip
        if self.first:
            state |= {
                "digest": [self.profiler.digest.value, self.profiler.digest.n_samples],
                "lookalike": vars(self.profiler.lookalike),
            }
        if self.gross is not None:
            arrays["gross"] = self.gross.gained
        checkpoint.save(self.bounds, Saved(self.done, self.finished, state, arrays))

    def _take_up(self, saved: Saved) -> None:
        self.done, self.finished, state, arrays = saved
        gained = arrays.pop("gross", None)
        self.total, self.first = unpack_sum(state["sum"], arrays, into=self.total), state["first"]
        self.boundless = state["boundless"]
        if self.first:
            self.profiler.digest = Known(*state["digest"])
            vars(self.profiler.lookalike).update(state["lookalike"])
        if gained is not None:
            weighted = gained.dtype.kind == "f"
            width, n_classes = self.total.resolution, gained.shape[1]
            self.gross = GrossTable(self.bounds, width, n_classes, weighted)
            self.gross.gained = gained
