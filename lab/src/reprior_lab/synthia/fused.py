"""Fuse colour and depth: every row of Table 5, fitted on held-out frames, judged on others."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from reprior import EntropyReference, ModalityFusion, prior_from_counts
from reprior.core import flattening_factor
from reprior.exceptions import FileFormatError, RepriorWarning
from reprior_lab.paper import paper_columns
from reprior_lab.synthia.correction import (
    KEPT,
    METRICS,
    Gain,
    count_corrected,
    count_frames,
    find_strengths,
    found_shares,
    gain_of,
    values_of,
)
from reprior_lab.synthia.data import CLEAR, HELD_OUT
from reprior_lab.synthia.frames import IGNORED
from reprior_lab.synthia.runs import NetworkRun, changed, digests_of, score_path
from reprior_lab.training.runfile import read_json, write_json

if TYPE_CHECKING:
    from reprior_lab.synthia.scores import ConditionScores

__all__ = [
    "ALONE",
    "CHOICES",
    "COMPARED",
    "FUSIONS",
    "MODALITIES",
    "FusionResult",
    "decide",
    "fit_fusion",
    "fuse_networks",
    "fusion_home",
    "read_fusion",
    "read_pair",
]

Array: TypeAlias = np.ndarray[Any, Any]
Fusions: TypeAlias = Mapping[str, ModalityFusion]
Pair: TypeAlias = Mapping[str, "ConditionScores"]
Made = TypeVar("Made")

MODALITIES = ("rgb", "depth")

#: One corrected modality alone, the baseline of corrected fusions. Its strengths are chosen in the
#: ways of :mod:`~reprior_lab.synthia.correction`.
ALONE = {"rgb-ic": "rgb", "depth-ic": "depth"}

#: Rows of Table 5 as settings of ModalityFusion. UNO-IC comes in two orders: "uno-ic" is the
#: paper's, which flattens first.
FUSIONS: dict[str, dict[str, Any]] = {
    "softave": {"rule": "mean", "flatten": False, "strength": 0.0},
    "uno": {"flatten": True, "strength": 0.0},
    "ic": {"flatten": False},
    "uno-ic": {"flatten": True, "order": "flatten_first"},
    "uno-ic-rebalanced": {"flatten": True, "order": "rebalance_first"},
}

#: Ways to choose the strength of corrected rows: the best mean accuracy of the held-out frames;
#: the best that costs at most half a point of their mean IoU; the paper's; 1.
CHOICES: dict[str, dict[str, Any]] = {
    "tuned": {},
    "kept": {"subject_to": KEPT},
    "paper": {"strength": 0.4},
    "bayes": {"strength": 1.0},
}

#: Comparisons: a row, and the row that it should be better than.
COMPARED = (
    ("uno", "softave"),
    ("ic/tuned", "softave"),
    ("uno-ic/tuned", "uno"),
    ("uno-ic-rebalanced/tuned", "uno"),
    ("uno-ic-rebalanced/kept", "uno"),
    ("uno-ic-rebalanced/tuned", "ic/tuned"),
    ("uno-ic-rebalanced/tuned", "uno-ic/tuned"),
    ("depth-ic/tuned", "depth"),
    ("uno-ic-rebalanced/tuned", "depth"),
    ("uno-ic-rebalanced/tuned", "depth-ic/tuned"),
)

FOLDER, FILE, FORMAT_VERSION = "fusions", "fusion.json", 2

#: How many frames are fused at once.
AT_ONCE = 32


@dataclass(frozen=True)
class FusionResult:
    """The results of fusing two networks under every condition.

    Parameters
    ----------
    networks : mapping of str to str
        The id of each modality's network.
    n_held_out : int
        Frames that references and strengths are from.
    n_test : mapping of str to int
        Frames under each condition.
    simulated : bool
        Whether the unseen conditions were simulated on the clear frames, not recorded.
    references : mapping of str to (float, float)
        μ and σ of each modality's entropy on the held-out frames, in nats.
    strengths : mapping of str to float
        λ of every row with a correction, by ROW/CHOICE.
    judged : mapping of str to mapping of str to mapping of str to float
        By "rgb", "depth", ROW or ROW/CHOICE (ROW of :data:`FUSIONS` or :data:`ALONE`), and
        condition: the metrics.
    factors : mapping of str to mapping of str to float
        By condition and modality: the mean of δ over the frames.
    gains, clear_gains : mapping of str to mapping of str to Gain
        By "ONE over OTHER" of :data:`COMPARED`: the mean gain over :attr:`averaged`, and the gain
        on the clear frames.
    classes : mapping of str to sequence of float or None
        By row: the recall of each class under :attr:`averaged`.
    scores : mapping of str to mapping of str to str
        By modality and condition the digest of the score file that these results are from.
    """

    networks: Mapping[str, str]
    n_held_out: int
    n_test: Mapping[str, int]
    simulated: bool
    references: Mapping[str, Sequence[float]]
    strengths: Mapping[str, float]
    judged: Mapping[str, Mapping[str, Mapping[str, float]]]
    factors: Mapping[str, Mapping[str, float]]
    gains: Mapping[str, Mapping[str, Gain]]
    clear_gains: Mapping[str, Mapping[str, Gain]]
    classes: Mapping[str, Sequence[float | None]]
    scores: Mapping[str, Mapping[str, str]]

    @property
    def conditions(self) -> tuple[str, ...]:
        """The unseen conditions."""
        return tuple(name for name in self.n_test if name != CLEAR)

    @property
    def averaged(self) -> tuple[str, ...]:
        """The conditions of averages: the paper's, if any of them exists."""
        return _averaged(self.conditions)

    def is_of(self, homes: Mapping[str, Path], conditions: Sequence[str]) -> bool:
        """Return whether the result is of exactly these conditions and of the present scores."""
        unchanged = not any(changed(self.scores[name], home) for name, home in homes.items())
        return unchanged and set(self.n_test) == set(conditions)

    def write(self, home: Path) -> None:
        """Write ``fusion.json`` into the fusion's folder."""
        home.mkdir(parents=True, exist_ok=True)
        write_json(home / FILE, {"format_version": FORMAT_VERSION, **asdict(self)})


def _averaged(conditions: Sequence[str]) -> tuple[str, ...]:
    paper = [name for name in paper_columns("synthia_rgbd_macc") if name in conditions]
    return tuple(paper or conditions)


def fusion_home(folder: Path, ids: Sequence[str]) -> Path:
    """Return the folder of a fusion of networks.

    Examples
    --------
    >>> fusion_home(Path("out"), ["rgb-a", "depth-b"]).as_posix()
    'out/fusions/rgb-depth-...'
    """
    digest = hashlib.sha256("+".join(ids).encode()).hexdigest()[:8]
    return folder / FOLDER / f"{'-'.join(MODALITIES)}-{digest}"


def read_fusion(home: Path) -> FusionResult | None:
    """Return the fusion in a folder, or None if it has none."""
    path = home / FILE
    try:
        document = read_json(path)
        if document.pop("format_version") != FORMAT_VERSION:
            raise ValueError("another format_version")
        for part in ("gains", "clear_gains"):
            document[part] = {
                pair: {metric: Gain(*gain) for metric, gain in gains.items()}
                for pair, gains in document[part].items()
            }
        return FusionResult(**document)
    except FileNotFoundError:
        return None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"A fusion's file must be JSON as reprior wrote it. Got {type(error).__name__}: "
            f"{error} in {path}. Delete the file: it is computed again from the score files."
        ) from error


def fuse_networks(
    runs: Mapping[str, NetworkRun],
    homes: Mapping[str, Path],
    conditions: Sequence[str],
    progress: Callable[[int, int], None] | None = None,
) -> FusionResult:
    """Fit every row on the held-out frames, and judge it under every condition.

    Parameters
    ----------
    runs, homes : mapping of str to NetworkRun and to path
        The network of each modality, and its folder with score files.
    conditions : sequence of str
        The conditions to judge on: "clear", and the unseen ones.
    progress : callable, optional
        Receives the number of fitted rows and judged conditions, and the total.
    """
    held_out = read_pair(homes, HELD_OUT)
    prior = prior_from_counts(next(iter(runs.values())).class_counts)
    rows = _rows()
    tell = _counting(progress, len(rows) + len(conditions))
    fusions = {row: tell(fit_fusion(row, held_out, prior)) for row in rows}
    known = fusions["uno"].references_
    alone = _strengths_alone(held_out, prior)
    counted: dict[str, dict[str, Array]] = {}
    factors: dict[str, dict[str, float]] = {}
    frames: dict[str, tuple[str, ...]] = {}
    for condition in conditions:
        pair = read_pair(homes, condition)
        frames[condition] = pair["rgb"].names
        factors[condition] = {name: _mean_factor(pair[name], known[name]) for name in pair}
        for row, counts in tell(_counted(fusions, alone, pair, prior)).items():
            counted.setdefault(row, {})[condition] = counts
    unseen = [name for name in conditions if name != CLEAR]
    averaged = _averaged(unseen)
    return FusionResult(
        networks={name: run.settings.id for name, run in runs.items()},
        n_held_out=len(held_out["rgb"].names),
        n_test={name: len(names) for name, names in frames.items()},
        simulated=all(frames[name] == frames.get(CLEAR) for name in unseen),
        references={name: (each.mean, each.std) for name, each in known.items()},
        strengths=alone
        | {row: float(f.strengths_["rgb"]) for row, f in fusions.items() if "/" in row},
        judged={row: {c: values_of(each) for c, each in by.items()} for row, by in counted.items()},
        factors=factors,
        gains=_gains(counted, averaged),
        clear_gains=_gains(counted, [CLEAR]),
        classes={row: _found(by, averaged) for row, by in counted.items()},
        scores={name: digests_of(home, (HELD_OUT, *conditions)) for name, home in homes.items()},
    )


def _strengths_alone(held_out: Pair, prior: Array) -> dict[str, float]:
    """Return the strengths of each modality alone, by ROW/CHOICE."""
    return {
        f"{row}/{way}": strength
        for row, name in ALONE.items()
        for way, strength in find_strengths(held_out[name], prior).items()
    }


def _found(by: Mapping[str, Array], conditions: Sequence[str]) -> list[float | None]:
    return found_shares(np.concatenate([by[name] for name in conditions]))


def _counting(progress: Callable[[int, int], None] | None, total: int) -> Callable[[Made], Made]:
    """Return a function that returns its argument and advances the progress."""
    done = 0

    def tell(made: Made) -> Made:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)
        return made

    return tell


def fit_fusion(
    row: str, held_out: Pair, prior: Array, *, strength: float | None = None
) -> ModalityFusion:
    """Return a row of the table, ROW or ROW/CHOICE, fitted.

    Parameters
    ----------
    row : str
        A name in :data:`FUSIONS`, and if it is corrected a name in :data:`CHOICES`.
    held_out : mapping of str to ConditionScores
        The scores to fit on.
    prior : float (K,)
        The source prior.
    strength : float, optional
        λ, if it is known and must not be tuned.
    """
    name, _, choice = row.partition("/")
    options = FUSIONS[name] | (CHOICES[choice] if choice else {})
    if strength is not None:
        options = {key: value for key, value in options.items() if key != "subject_to"}
        options["strength"] = strength
    fusion = ModalityFusion(prior, class_axis=1, ignore_index=IGNORED, **options)
    scores = {modality: each.scores.astype(np.float32) for modality, each in held_out.items()}
    with warnings.catch_warnings():
        # The strength shows widened bounds, and the run's notes name absent classes.
        warnings.simplefilter("ignore", RepriorWarning)
        return fusion.fit(scores, held_out["rgb"].labels.astype(np.int64))


def _rows() -> list[str]:
    """Return all rows of the table with all choices of their strengths."""
    return [
        f"{row}/{choice}" if choice else row
        for row, own in FUSIONS.items()
        for choice in (("",) if "strength" in own else CHOICES)
    ]


def read_pair(homes: Mapping[str, Path], condition: str) -> dict[str, ConditionScores]:
    """Return the scores of all modalities under a condition: of the same frames and pixels."""
    from reprior_lab.synthia.scores import read_scores

    pair = {name: read_scores(home, condition) for name, home in homes.items()}
    first = pair["rgb"]
    for name, each in pair.items():
        if each.names != first.names or not np.array_equal(each.labels, first.labels):
            raise FileFormatError(
                f"Score files of both modalities must be of the same frames. Got others in "
                f"{score_path(homes[name], condition)} than in "
                f"{score_path(homes['rgb'], condition)}. Remove both, and score again."
            )
    return pair


def decide(fusion: ModalityFusion, pair: Pair) -> Array:
    """Return the decisions of a fusion on the frames of a pair, (N, h, w).

    Scores are stored in half precision but fused in single precision: posteriors rounded to half
    precision have ties, which the first class would win.
    """
    decided = []
    for i in range(0, len(pair["rgb"].labels), AT_ONCE):
        some = {n: each.scores[i : i + AT_ONCE].astype(np.float32) for n, each in pair.items()}
        decided.append(np.asarray(fusion.predict(some)))
    return np.concatenate(decided)


def _counted(
    fusions: Fusions, alone: Mapping[str, float], pair: Pair, prior: Array
) -> dict[str, Array]:
    """Return the counts of every frame, for each modality alone and each row."""
    found = {name: count_corrected(each, prior, 0.0) for name, each in pair.items()}
    for row, strength in alone.items():
        own = pair[ALONE[row.partition("/")[0]]]
        found[row] = count_corrected(own, prior, strength)
    for row, fusion in fusions.items():
        found[row] = count_frames(pair["rgb"].labels, decide(fusion, pair), prior.size)
    return found


def _gains(
    counted: Mapping[str, Mapping[str, Array]], conditions: Sequence[str]
) -> dict[str, dict[str, Gain]]:
    """Return the mean gain over conditions of each of :data:`COMPARED`."""
    gains = {}
    for one, other in COMPARED:
        before, after = ([counted[row][name] for name in conditions] for row in (other, one))
        gains[f"{one} over {other}"] = {
            metric: gain_of(before, after, metric) for metric in METRICS
        }
    return gains


def _mean_factor(scores: ConditionScores, reference: EntropyReference) -> float:
    factors = [
        flattening_factor(frame[None].astype(np.float32), reference, class_axis=1)
        for frame in scores.scores
    ]
    return float(np.mean(np.concatenate(factors)))
