"""A stand-in for iNaturalist 2018 at its true scale, and a linear classifier for it.

The class counts are the true ones and the features are drawn from a mixture. A linear layer is
trained on them by mini-batch SGD; training can resume after every epoch.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from reprior import prior_from_counts
from reprior.core import check_choice, check_finite_number
from reprior.exceptions import Argument, FileFormatError, OptionError
from reprior.files import atomic_write, read_arrays
from reprior_lab.config import METHODS, RunConfig
from reprior_lab.data.inaturalist import (
    VALIDATION_PER_CLASS,
    inaturalist_counts,
    inaturalist_supercategories,
)
from reprior_lab.inaturalist_results import MethodResult, judge, write_result
from reprior_lab.models.classifier import make_head
from reprior_lab.reproduction import CELLS, Progress, held, progress_of
from reprior_lab.training.batches import ORDER, WEIGHTS, draw_epoch, generator_of
from reprior_lab.training.checkpoints import (
    CHECKPOINTS,
    FIRST_STAGE,
    Checkpoint,
    checkpoint_path,
    newest,
    prune,
    read_checkpoint,
    restore,
    write_checkpoint,
)
from reprior_lab.training.recipes import LOSSES, effective_prior, make_loss
from reprior_lab.training.runfile import installed_versions, write_json
from reprior_lab.training.schedules import learning_rate

__all__ = [
    "COLUMN",
    "DEFAULT_ROWS",
    "SIMULATED_ROWS",
    "FeatureSamples",
    "LinearFit",
    "SimulatedCell",
    "StandIn",
    "fit_linear",
    "linear_scores",
    "simulated_cells",
]

Array: TypeAlias = np.ndarray[Any, Any]

#: Purposes of random numbers; each has its own generator.
_TREE, _MEANS, _TRAINING, _VALIDATION = range(4)

#: How many samples are scored at once.
BATCH = 512

#: The name of the column in the table and the figure, instead of a network's name.
COLUMN = "stand-in"

#: Rows that a linear layer can be trained for. BBN is not among them: it needs two branches.
SIMULATED_ROWS = ("ce", "ce-drw", "focal", "focal-drw", "ldam", "ldam-drw")

#: The default rows: about eight minutes on one core.
DEFAULT_ROWS = ("ce", "ce-drw", "focal", "focal-drw")

RUN, SCORES, COUNTS = "run.json", "validation.npz", "counts.json"
FORMAT_VERSION = 1

#: How the layer is trained. The learning rate is high because the loss is a mean over the batch,
#: to which a class of ten images contributes little.
SETTINGS: dict[str, Any] = {
    "model": "linear",
    "epochs": 4,
    "batch_size": 256,
    "lr": 2.0,
    "momentum": 0.9,
    "nesterov": True,
    "weight_decay": 0.0,
    "lr_schedule": "one_cycle",
    "warmup": 0.2,
    "milestones": (),
    "decays": (),
    "defer": 0.8,
}

#: The settings that the result of a linear layer depends on.
_ITS_OWN = (
    "loss",
    "schedule",
    "seed",
    "epochs",
    "batch_size",
    "lr",
    "momentum",
    "nesterov",
    "weight_decay",
    "lr_schedule",
    "warmup",
    "milestones",
    "decays",
    "defer",
    "beta",
    "gamma",
    "max_margin",
    "scale",
)


@dataclass(frozen=True, eq=False)
class FeatureSamples:
    """Features (N, D) as float32 and labels (N,): a long-tailed part and a balanced one."""

    train_features: Array
    train_labels: Array
    validation_features: Array
    validation_labels: Array

    @property
    def class_counts(self) -> Array:
        """Training samples of each class, (K,)."""
        return np.bincount(self.train_labels, minlength=int(self.validation_labels.max()) + 1)


@dataclass(frozen=True, kw_only=True)
class StandIn:
    r"""A mixture with one component for each species, placed on a tree of life.

    .. math:: x = \frac{1}{c}\,(m_s + m_f + m_g + m_y + σ\, e^{τ u}\, ε)

    where m_s, m_f, m_g and m_y belong to the super-category, the family, the genus and the species
    of a sample, each drawn once from a normal distribution with the standard deviation of its
    level; ε is normal noise in D dimensions, σ its size, u one normal number for each sample, so
    that some samples are noisier than others; and c scales the variance of every feature to 1.
    Species of the same genus are confused most often, and the true species is mostly in the top
    five, as with real images.

    Parameters
    ----------
    n_classes : int, default 8142
        The number of species. Fewer than 8142 are chosen at equal steps in the official order.
    n_features : int, default 64
        D.
    genera, families : float
        The number of genera and of families per species. Species are assigned to them at random,
        within their true super-category.
    levels : (float, float, float, float)
        Standard deviations of super-categories, families, genera and species.
    noise, unevenness : float
        σ and τ. With the defaults, a linear classifier trained with cross-entropy has about the
        error of the paper's networks.
    seed : int, default 0
        The seed of all random numbers.

    Examples
    --------
    >>> samples = StandIn(n_classes=40, n_features=8).draw()
    >>> len(samples.train_features) == int(samples.class_counts.sum())
    True
    >>> samples.validation_features.shape, samples.class_counts[:5]
    ((120, 8), array([22, 25, 12, 33, 35]))
    """

    n_classes: int = 8142
    n_features: int = 64
    genera: float = 0.5
    families: float = 0.125
    levels: tuple[float, float, float, float] = (0.85, 0.5, 0.38, 0.32)
    noise: float = 1.0
    unevenness: float = 0.35
    seed: int = 0

    def __post_init__(self) -> None:
        most = inaturalist_counts().size
        for name, low, high in (("n_classes", 2, most), ("n_features", 1, 2048), ("seed", 0, None)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < low:
                raise OptionError(
                    argument=name, rule=f"must be a whole number from {low} on", got=repr(value)
                )
            if high is not None and value > high:
                raise OptionError(argument=name, rule=f"must be at most {high}", got=str(value))
        for name in ("genera", "families", "noise"):
            check_finite_number(name, getattr(self, name), positive=True)
        check_finite_number("unevenness", self.unevenness, minimum=0.0)
        if len(self.levels) != 4:
            raise OptionError(
                argument="levels",
                rule="must be four numbers: of super-categories, families, genera and species",
                got=str(len(self.levels)),
                remedy="Pass 0 for a level without differences.",
            )
        for level in self.levels:
            check_finite_number("levels", level, minimum=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return all settings, ready for JSON."""
        return asdict(self) | {"levels": list(self.levels)}

    @property
    def classes(self) -> Array:
        """The official indices of the species, (K,)."""
        return np.linspace(0, inaturalist_counts().size - 1, self.n_classes).round().astype(int)

    def tree(self) -> tuple[Array, Array, Array, Array]:
        """Return the super-category, the family, the genus and the species of each class."""
        rng = self._generator(_TREE)
        _, supercategories = inaturalist_supercategories()
        supercategory = supercategories[self.classes]
        family, genus = np.empty_like(supercategory), np.empty_like(supercategory)
        n_families = n_genera = 0
        for each in np.unique(supercategory):
            members = np.flatnonzero(supercategory == each)
            sizes = [max(1, round(share * members.size)) for share in (self.families, self.genera)]
            family_of_genus = rng.integers(0, sizes[0], sizes[1])
            genus_of_member = rng.integers(0, sizes[1], members.size)
            family[members] = n_families + family_of_genus[genus_of_member]
            genus[members] = n_genera + genus_of_member
            n_families, n_genera = n_families + sizes[0], n_genera + sizes[1]
        return supercategory, family, genus, np.arange(self.n_classes)

    def draw(self) -> FeatureSamples:
        """Draw the samples: iNaturalist's class counts to train on, three per class to validate."""
        rng = self._generator(_MEANS)
        means = np.zeros((self.n_classes, self.n_features), np.float32)
        for node, size in zip(self.tree(), self.levels, strict=True):
            drawn = rng.standard_normal((int(node.max()) + 1, self.n_features), np.float32)
            means += np.float32(size) * drawn[node]
        counts = inaturalist_counts()[self.classes]
        validation_counts = np.full(self.n_classes, VALIDATION_PER_CLASS)
        train, validation = (
            self._part(means, counts, _TRAINING),
            self._part(means, validation_counts, _VALIDATION),
        )
        return FeatureSamples(*train, *validation)

    def _part(self, means: Array, counts: Array, purpose: int) -> tuple[Array, Array]:
        rng = self._generator(purpose)
        labels = np.repeat(np.arange(counts.size), counts)
        features = rng.standard_normal((labels.size, self.n_features), np.float32)
        noise_factor = np.exp(self.unevenness * rng.standard_normal((labels.size, 1), np.float32))
        features *= np.float32(self.noise) * noise_factor
        features += means[labels]
        features /= np.float32(_scale(self.levels, self.noise, self.unevenness))
        return features, labels

    def _generator(self, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, purpose])


def _scale(levels: Sequence[float], noise: float, unevenness: float) -> float:
    """Return the standard deviation of a feature before scaling."""
    # The mean of exp(2τu) over normal u is exp(2τ²).
    return float(np.sqrt(np.sum(np.square(levels)) + noise**2 * np.exp(2 * unevenness**2)))


@dataclass(frozen=True, eq=False)
class LinearFit:
    """A trained layer, and its history: "epoch" (from 1), "lr" and "train_loss" of each epoch."""

    head: nn.Module
    history: list[dict[str, Any]]


def fit_linear(
    config: RunConfig,
    samples: FeatureSamples,
    checkpoints: Path,
    *,
    identity: dict[str, Any],
    base: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> LinearFit:
    """Train a linear layer (a cosine layer for LDAM) and return it.

    Parameters
    ----------
    config : RunConfig
        Loss, schedule ("plain" or "drw"), learning rates, epochs, batch size, seed.
    samples : FeatureSamples
        The training samples.
    checkpoints : path
        The folder for a checkpoint after each epoch. Training resumes from an existing checkpoint.
    identity : dict
        The settings that the result depends on. A checkpoint with other settings raises an error.
    base : path, optional
        The checkpoints of a run that differs only in the schedule: DRW reuses its first epochs.
    progress : callable, optional
        Called with the number of training samples processed so far, over all epochs.
    """
    state = _resumed_state(config, checkpoints, base, identity)
    head = _layer(config, samples)
    optimizer = torch.optim.SGD(
        head.parameters(),
        lr=config.lr,
        momentum=config.momentum,
        nesterov=config.nesterov,
        weight_decay=config.weight_decay,
    )
    history: list[dict[str, Any]] = []
    if state is not None:
        restore(head, state.model)
        restore(optimizer, state.optimizer)
        history = list(state.history)
    fit = LinearFit(head, history)
    for epoch in range(len(history), config.epochs):
        loss = _epoch(config, samples, fit, optimizer, epoch, progress)
        history.append({"epoch": epoch + 1, "lr": optimizer.param_groups[0]["lr"], **loss})
        _keep(config, checkpoints, identity, fit, optimizer)
    return fit


def linear_scores(config: RunConfig, head: nn.Module, features: Array) -> Array:
    """Return the logits of features as float32 (N, K); for LDAM the scaled cosines."""
    scale = config.scale if LOSSES[config.loss].head == "cosine" else 1.0
    scores: Array | None = None
    with torch.inference_mode():
        for start in range(0, len(features), BATCH):
            batch_scores = (scale * head(torch.from_numpy(features[start : start + BATCH]))).numpy()
            if scores is None:  # filled in place, because concatenating would need the memory twice
                scores = np.empty((len(features), batch_scores.shape[1]), np.float32)
            scores[start : start + BATCH] = batch_scores
    if scores is None:
        raise OptionError(argument="features", rule="must have a sample to score", got="none")
    return scores


def _resumed_state(
    config: RunConfig, checkpoints: Path, base: Path | None, identity: dict[str, Any]
) -> Checkpoint | None:
    """Return the checkpoint to resume from: the run's, or its base's first stage, or None."""
    state = newest(checkpoints) if checkpoints.is_dir() else None
    source_folder, expected_identity = checkpoints, identity
    if state is None and base is not None and (base / FIRST_STAGE).exists():
        state, source_folder = read_checkpoint(base / FIRST_STAGE), base
        expected_identity = {
            key: value for key, value in identity.items() if key != "deferred_epoch"
        } | {"schedule": "plain"}
    if state is not None and state.identity != expected_identity:
        raise OptionError(
            f"Checkpoints must belong to a run with the same settings. Got those in "
            f"{str(source_folder)!r}, which have other settings. Pass another folder."
        )
    if source_folder == base and state is not None and state.epochs_done != config.deferred_epoch:
        return None  # written by a version that deferred after another number of epochs
    return state


def _layer(config: RunConfig, samples: FeatureSamples) -> nn.Module:
    kind = LOSSES[config.loss].head
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator_of(config.seed, 0, WEIGHTS).initial_seed())
        head = make_head(kind, samples.train_features.shape[1], samples.class_counts.size)
    if kind == "linear":  # the problem is convex: zeros spare rare classes a random start
        for parameter in head.parameters():
            nn.init.zeros_(parameter)
    return head


def _epoch(
    config: RunConfig,
    samples: FeatureSamples,
    fit: LinearFit,
    optimizer: torch.optim.Optimizer,
    epoch: int,
    progress: Callable[[int], None] | None,
) -> dict[str, float]:
    """Train on all samples once, and return their mean loss."""
    deferred = config.schedule == "drw" and epoch >= config.deferred_epoch
    criterion = make_loss(config, samples.class_counts, deferred=deferred)
    features = torch.from_numpy(samples.train_features)
    labels = torch.from_numpy(samples.train_labels)
    order = torch.from_numpy(
        draw_epoch("plain", samples.train_labels, generator_of(config.seed, epoch, ORDER))
    )
    n, size, total = len(labels), config.batch_size, torch.zeros((), dtype=torch.float64)
    steps = math.ceil(n / size)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(config, epoch, step, steps)
        index = order[step * size : (step + 1) * size]
        optimizer.zero_grad()
        loss = criterion(fit.head(features[index]), labels[index])
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(index)
        if progress is not None:
            progress(epoch * n + step * size + len(index))
    return {"train_loss": _finite(float(total) / n, config, epoch)}


def _finite(loss: float, config: RunConfig, epoch: int) -> float:
    if not math.isfinite(loss):
        raise OptionError(
            argument="lr",
            rule="must be low enough for the loss to stay finite",
            got=f"{config.lr:g}, and a loss of {loss} in epoch {epoch + 1}",
            remedy="Pass a lower lr.",
        )
    return loss


def _keep(
    config: RunConfig,
    folder: Path,
    identity: dict[str, Any],
    fit: LinearFit,
    optimizer: torch.optim.Optimizer,
) -> None:
    done = len(fit.history)
    state = Checkpoint(done, identity, fit.head.state_dict(), optimizer.state_dict(), fit.history)
    if done == config.deferred_epoch and config.schedule == "plain":
        write_checkpoint(folder / FIRST_STAGE, state)
    write_checkpoint(checkpoint_path(folder, done), state)
    prune(folder)


@dataclass(frozen=True)
class SimulatedCell:
    """A linear classifier to train on the stand-in: its table row, data and settings."""

    row: str
    data: StandIn
    config: RunConfig

    @property
    def column(self) -> str:
        """The name of the column, instead of a network's name."""
        return COLUMN

    @property
    def identity(self) -> dict[str, Any]:
        """All settings that the result depends on."""
        settings = self.config.identity
        relevant = {key: settings[key] for key in (*_ITS_OWN, "deferred_epoch") if key in settings}
        return {"stand_in": self.data.to_dict(), **relevant}

    @property
    def id(self) -> str:
        """The name of its folder: the main settings and a hash of the identity."""
        text = json.dumps(self.identity, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        size = f"{self.data.n_classes}x{self.data.n_features}"
        return f"{COLUMN}-{size}-{self.row}-linear-s{self.config.seed}-{digest}"

    @property
    def base(self) -> SimulatedCell | None:
        """The cell whose first epochs DRW reuses."""
        if self.config.schedule != "drw":
            return None
        return SimulatedCell(self.config.loss, self.data, self.config.differing(schedule="plain"))

    def run(self, folder: Path, data: FeatureSamples, progress: Progress | None) -> MethodResult:
        """Train the layer if necessary, correct its scores, and store the result."""
        home = folder / CELLS / self.id
        with held(home):
            if not _is_finished(home):
                self._train(folder, home, data, progress)
            scores, labels = _read_scores(home / SCORES)
            if progress is not None:
                progress(f"correcting {self.row}", 0, 1)
            counts = data.class_counts
            prior = prior_from_counts(counts)
            effective = effective_prior(self.config, counts)
            result = judge(scores, labels, prior, effective, seed=self.config.seed)
            write_result(result, home)
            if progress is not None:
                progress(f"correcting {self.row}", 1, 1)
        return result

    def _train(
        self, folder: Path, home: Path, data: FeatureSamples, progress: Progress | None
    ) -> None:
        import torch

        started = time.monotonic()
        total = self.config.epochs * len(data.train_labels)
        fit = fit_linear(
            self.config,
            data,
            home / CHECKPOINTS,
            identity=self.identity,
            base=None if self.base is None else folder / CELLS / self.base.id / CHECKPOINTS,
            progress=progress_of(progress, f"training {COLUMN}, {self.row}", total),
        )
        scores = linear_scores(self.config, fit.head, data.validation_features)
        _write_scores(home / SCORES, scores, data.validation_labels)
        write_json(home / COUNTS, data.class_counts.tolist())
        write_json(
            home / RUN,
            {
                "format_version": FORMAT_VERSION,
                "id": self.id,
                "status": "finished",
                "settings": self.identity,
                "epochs": fit.history,
                "seconds": round(time.monotonic() - started, 3),
                "versions": installed_versions(torch.get_num_threads()),
            },
        )


def simulated_cells(
    rows: Sequence[str],
    data: StandIn,
    *,
    settings: Mapping[str, Any] | None = None,
) -> tuple[SimulatedCell, ...]:
    """Return the cells to train on the stand-in, every base before its DRW variant.

    Examples
    --------
    >>> cells = simulated_cells(["ce-drw", "ce"], StandIn(n_classes=40))
    >>> [cell.id for cell in cells]
    ['stand-in-40x64-ce-linear-s0-...', 'stand-in-40x64-ce-drw-linear-s0-...']
    """
    for row in rows:
        if row == "bbn":
            raise OptionError(
                argument="rows",
                rule="must be rows that a linear layer can be trained for",
                got="'bbn', which doubles the last block of a network",
                remedy=["Leave it out, or pass ", Argument("root"), "."],
            )
        check_choice("rows", row, SIMULATED_ROWS)
    free = [name for name in _ITS_OWN if name not in ("loss", "schedule", "seed")]
    for key in settings or {}:
        check_choice("settings", key, free)
    return tuple(
        SimulatedCell(
            row,
            data,
            RunConfig.resolve(
                "compact",
                **{
                    "data": "inaturalist2018",
                    "seed": data.seed,
                    **SETTINGS,
                    **METHODS[row],
                    **(settings or {}),
                },
            ),
        )
        for row in SIMULATED_ROWS
        if row in rows
    )


def _is_finished(home: Path) -> bool:
    """Whether a cell is finished: the run file is written after the scores."""
    return (home / RUN).is_file() and (home / SCORES).is_file()


def _write_scores(path: Path, scores: Array, labels: Array) -> None:
    """Write a score file for ``reprior fit``; uncompressed, because noise does not compress."""
    with atomic_write(path) as file:
        np.savez(file, scores=scores, labels=labels, kind=np.array("logits"))


def _read_scores(path: Path) -> tuple[Array, Array]:
    try:
        arrays = read_arrays(path)
        return arrays["scores"], arrays["labels"]
    except (OSError, ValueError, KeyError) as error:
        raise FileFormatError(
            f"The scores of a cell must be a complete file that reprior wrote. Got {path}: "
            f"{error}. Remove the file, and the cell is scored again."
        ) from error
