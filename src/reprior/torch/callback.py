"""A Lightning callback: a calibrator for every validation run, saved beside the checkpoint."""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, distributed

from reprior._warnings import warn
from reprior.calibrator import PosteriorCalibrator
from reprior.calibrator.encoding import is_range
from reprior.calibrator.load import load_calibrator
from reprior.calibrator.options import is_log_loss
from reprior.calibrator.summary import metric_name
from reprior.engines import OnlineFit
from reprior.exceptions import OptionError, RepriorError, Setting, require
from reprior.metrics.count_metrics import find_metric
from reprior.profile.profile import StrengthProfile
from reprior.torch.loader import Unpack, scores_in, without_class_axis
from reprior.tuning.problem import DEFAULT_SELECTION

__all__ = ["RebalanceCallback", "merged"]


if TYPE_CHECKING:
    from lightning.pytorch import Callback
else:
    # Lightning has two package names. Trainers of both accept a callback of either.
    _one = "lightning.pytorch"
    _other = "pytorch_lightning"
    if _other in sys.modules and _one not in sys.modules:
        _one = _other
    Callback = require(_one, extra="lightning", purpose="For RebalanceCallback").Callback


#: The default prefix of logged values. Callbacks of other names have theirs in file names, too.
NAME = "rebalance"


class RebalanceCallback(Callback):
    """Tunes a calibrator on every validation run, logs it, and saves it with the checkpoint.

    The validation step returns its logits (and labels, if they are not in the batch as usual);
    the callback counts each batch and frees it. At the end of validation it logs
    ``rebalance/strength``, ``rebalance/temperature`` and every metric as
    ``rebalance/<metric>_before`` and ``_after``. The strength is tuned on these labels, so
    "after" is slightly optimistic: judge a finished model on other data.

    Each checkpoint file gets a calibrator beside it, ``<name>.calibrator.json``, and that of the
    last validation is ``calibrator.json`` in the same folder. The checkpoint contains it, too, as
    the callback's state.

    A validation run without a solution, for example where no strength meets ``subject_to``, warns
    and gives no calibrator; the file of an earlier one is removed. It logs the uncorrected
    model: strength 0, temperature 1, and "after" equal to "before". A run without labelled
    samples logs NaN.

    Parameters
    ----------
    source_prior : array-like of shape (K,)
        The class distribution of the *training* data as the loss sees it.
    target_prior, metric, subject_to, selection, temperature, label_prior, separate, bounds, kind, \
classes, ignore_index
        As in :class:`reprior.PosteriorCalibrator`. Options that need all scores at once are
        refused, as by :class:`reprior.engines.OnlineFit`. ``metric="log_loss"`` is logged as
        ``log_loss_before`` and ``log_loss_after``.
    class_axis : int, default 1
        The axis of the classes in the logits.
    metrics : sequence of str, default ("accuracy", "balanced_accuracy")
        The metrics to log, besides ``metric``.
    unpack : callable, optional
        From (outputs, batch) to (logits, labels) or (logits, labels, weight). Without it: the
        logits are the outputs of the validation step, or its "logits"; the labels are its
        "labels", with its "weight" if there is one, or else the batch's labels and weights.
    dirpath : path, optional
        The folder of ``calibrator.json``; by default that of the checkpoints.
    save : bool, default True
        Whether files are written.
    name : str, default "rebalance"
        The prefix of logged values, before the slash. A second callback needs another name; its
        files are ``calibrator.<name>.json`` and ``<checkpoint>.calibrator.<name>.json``.

    Attributes
    ----------
    calibrator_ : PosteriorCalibrator or None
        The calibrator of the last validation run, or of the loaded checkpoint.

    Notes
    -----
    The constructor checks the options. The batches of the sanity check before training are
    validated but not counted, so that a wrong class axis shows at once. Of several validation
    loaders the first is used. With several processes, each counts its own batches and all get
    the calibrator of all batches; a distributed sampler that repeats samples to fill the last
    batch counts these twice. Bounds are not widened: a best strength at the upper bound brings a
    warning.

    Examples
    --------
    >>> from reprior.torch import RebalanceCallback
    >>> callback = RebalanceCallback([0.9, 0.1], metric="balanced_accuracy")
    >>> callback.calibrator_ is None
    True
    """

    def __init__(
        self,
        source_prior: Any,
        *,
        target_prior: Any = "uniform",
        metric: str = "balanced_accuracy",
        subject_to: Any = None,
        selection: str = DEFAULT_SELECTION,
        temperature: Any = None,
        label_prior: Any = None,
        separate: bool = False,
        bounds: tuple[float, float] = (0.0, 2.0),
        kind: str = "logits",
        class_axis: int = 1,
        classes: Any = None,
        ignore_index: int | None = None,
        metrics: Sequence[str] = ("accuracy", "balanced_accuracy"),
        unpack: Callable[[Any, Any], Any] | None = None,
        dirpath: Any = None,
        save: bool = True,
        name: str = NAME,
    ) -> None:
        super().__init__()
        self._options = {
            "target_prior": target_prior,
            "metric": metric,
            "subject_to": subject_to,
            "selection": selection,
            "temperature": temperature,
            "label_prior": label_prior,
            "separate": separate,
            "bounds": bounds,
            "kind": kind,
            "class_axis": class_axis,
            "classes": classes,
            "ignore_index": ignore_index,
        }
        self._source_prior = source_prior
        self.name, self._logged = _checked_name(name), _as_names(metric, metrics)
        self._unpack = unpack
        self._dirpath = None if dirpath is None else Path(dirpath)
        self._save = save
        self._fit: OnlineFit | None = None
        self._beside: dict[Path, int] = {}
        self.calibrator_: PosteriorCalibrator | None = None
        self._check()

    @property
    def state_key(self) -> str:
        """Return the key of the state in the checkpoint, one for each name and metric."""
        return self._generate_state_key(name=self.name, metric=metric_name(self._options["metric"]))

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002 - Lightning's signature
        """Refuse a second callback of the same name."""
        others = [each for each in trainer.callbacks if isinstance(each, RebalanceCallback)]
        if any(each is not self and each.name == self.name for each in others):
            raise OptionError(
                argument="name",
                rule="must differ where a trainer has several RebalanceCallbacks",
                got=f"{self.name!r} twice",
                remedy=[
                    "Pass for example ",
                    Setting("name", "recall"),
                    " to one of them.",
                ],
            )

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002 - Lightning's signature
        """Keep the files beside the checkpoints of a resumed run: each has its own."""
        self._beside = {path: path.stat().st_mtime_ns for path in _checkpoints(trainer)}

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002 - Lightning's signature
        """Begin to count."""
        if trainer.state.fn == "fit":
            self._keep_beside_checkpoints(trainer)
        self._fit = self._new_fit(trainer.global_rank)

    def on_validation_batch_end(
        self,
        trainer: Any,  # noqa: ARG002 - Lightning's signature
        pl_module: Any,  # noqa: ARG002 - Lightning's signature
        outputs: Any,
        batch: Any,
        batch_idx: int,  # noqa: ARG002 - Lightning's signature
        dataloader_idx: int = 0,
    ) -> None:
        """Count one batch."""
        if dataloader_idx or self._fit is None:
            return
        self._fit.update(*self._read(outputs, batch))

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Tune, log, and write ``calibrator.json``."""
        if trainer.sanity_checking:
            self._fit = None
        if self._fit is None:
            return
        fit = merged(self._fit)
        self._fit = None
        try:
            self.calibrator_ = fit.finish()
            values = self._values(self.calibrator_, self.calibrator_.profile_)
        except RepriorError as error:
            self.calibrator_ = None
            self._warn(error)
            values = self._values(None, fit._sum.total() if fit._sum else None)
        for name, value in values.items():
            pl_module.log(f"{self.name}/{name}", value, rank_zero_only=False, sync_dist=False)
        if self._save and trainer.is_global_zero:
            self._write(self.calibrator_, self._folder(trainer) / self._file)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002 - Lightning's signature
        """Save the calibrator beside checkpoints that were written since it was tuned."""
        self._keep_beside_checkpoints(trainer)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002 - Lightning's signature
        """Save the calibrator beside checkpoints that were written since it was tuned."""
        self._keep_beside_checkpoints(trainer)

    def state_dict(self) -> dict[str, Any]:
        """Return the calibrator as the fields of its JSON file, for the checkpoint."""
        if self.calibrator_ is None:
            return {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "calibrator.json"
            self.calibrator_.save(path)
            return {"calibrator": json.loads(path.read_text(encoding="utf-8"))}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the calibrator from a checkpoint."""
        if "calibrator" in state_dict:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "calibrator.json"
                path.write_text(json.dumps(state_dict["calibrator"]), encoding="utf-8")
                self.calibrator_ = load_calibrator(path)

    def _read(self, outputs: Any, batch: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return scores, labels and weights of one batch."""
        scores, labels, weight = self._taken_apart(outputs, batch)
        axis = self._options["class_axis"]
        labels = without_class_axis(labels, scores, axis)
        weight = None if weight is None else without_class_axis(weight, scores, axis)
        return scores.detach(), labels, weight

    def _taken_apart(self, outputs: Any, batch: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        if self._unpack is not None:
            return Unpack(tuple)(self._unpack(outputs, batch))
        ours = isinstance(outputs, Mapping) and "logits" in outputs
        if not ours and not (isinstance(outputs, Tensor) and outputs.ndim > 0):
            named = isinstance(outputs, Mapping)
            got = f"the keys {list(outputs)}" if named else type(outputs).__name__
            raise OptionError(
                argument="validation_step",
                rule="must return its logits for RebalanceCallback",
                got=got,
                remedy=(
                    "Return {'loss': loss, 'logits': logits, 'labels': labels}, or pass "
                    "unpack=a function from (outputs, batch) to (logits, labels)."
                ),
            )
        scores = scores_in(outputs)
        if ours and "labels" in outputs:
            return Unpack(tuple)((scores, outputs["labels"], outputs.get("weight")))
        _, labels, weight = Unpack()(batch)
        return scores, labels, weight

    def _values(
        self, calibrator: PosteriorCalibrator | None, profile: StrengthProfile | None
    ) -> dict[str, float]:
        """Return what is logged: without a calibrator "after" is "before", without counts NaN."""
        strength = 0.0 if calibrator is None else calibrator.strength_
        values = {
            "strength": strength,
            "temperature": 1.0 if calibrator is None else calibrator.temperature_,
        }
        after = None
        if profile is not None and calibrator is not None:
            after = profile.counts(min(max(strength, profile.bounds[0]), profile.bounds[1]))
        for name, metric in self._metrics.items():
            before = math.nan if profile is None else metric(profile.baseline)
            values[f"{name}_before"] = before
            values[f"{name}_after"] = before if after is None else metric(after)
        if calibrator is not None and calibrator.log_loss_ is not None:
            values["log_loss_before"], values["log_loss_after"] = calibrator.log_loss_
        return values

    def _warn(self, error: RepriorError) -> None:
        removed = f", and {self._file} of an earlier one is removed" if self._save else ""
        warn(
            [
                "No calibrator for this epoch. ",
                error,
                f" The uncorrected model is logged as before and after{removed}.",
            ]
        )

    def _new_fit(self, seed: int = 0) -> OnlineFit:
        return OnlineFit(PosteriorCalibrator(self._source_prior, **self._options), seed=seed)

    def _check(self) -> None:
        """Refuse options that are wrong for any data, before the training."""
        fit = self._new_fit()
        axis = self._options["class_axis"]
        if isinstance(axis, bool) or not isinstance(axis, int | np.integer):
            raise OptionError(
                argument="class_axis",
                rule="must be an integer",
                got=f"{axis!r}",
                remedy=(
                    "Pass 1 for logits of shape (N, K) or (N, K, H, W), -1 where the classes "
                    "come last."
                ),
            )
        if self._unpack is not None and not callable(self._unpack):
            raise OptionError(
                argument="unpack",
                rule="must be a function",
                got=type(self._unpack).__name__,
                remedy="Pass one from (outputs, batch) to (logits, labels).",
            )
        classes = fit._problem.classes
        names = None if is_range(classes) else classes.tolist()
        self._metrics = {
            metric_name(each): find_metric(each, n_classes=classes.size, classes=names)
            for each in self._logged
        }

    @property
    def _file(self) -> str:
        """Return the calibrator's file name; beside a checkpoint, that of the checkpoint leads."""
        return "calibrator.json" if self.name == NAME else f"calibrator.{self.name}.json"

    @staticmethod
    def _write(calibrator: PosteriorCalibrator | None, path: Path) -> None:
        """Write a calibrator; without one, remove that of an earlier epoch."""
        if calibrator is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            calibrator.save(path)

    def _folder(self, trainer: Any) -> Path:
        if self._dirpath is not None:
            return self._dirpath
        checkpoints = getattr(trainer.checkpoint_callback, "dirpath", None)
        return Path(checkpoints or trainer.log_dir or trainer.default_root_dir)

    def _keep_beside_checkpoints(self, trainer: Any) -> None:
        """Write the calibrator beside every checkpoint that was written since it was tuned."""
        if not self._save or not trainer.is_global_zero:
            return
        checkpoints = _checkpoints(trainer)
        for path in checkpoints:
            written = path.stat().st_mtime_ns
            if self._beside.get(path) != written:
                self._write(self.calibrator_, self._path_beside(path))
                self._beside[path] = written
        for path in set(self._beside) - checkpoints:
            if not path.exists():
                self._path_beside(path).unlink(missing_ok=True)
                del self._beside[path]

    def _path_beside(self, checkpoint: Path) -> Path:
        return checkpoint.with_name(f"{checkpoint.stem}.{self._file}")


def _checkpoints(trainer: Any) -> set[Path]:
    """Return the checkpoint files that the trainer's callbacks have written and kept."""
    paths = set()
    for callback in trainer.checkpoint_callbacks:
        best = getattr(callback, "best_k_models", {})
        for name in (
            *best,
            getattr(callback, "best_model_path", ""),
            getattr(callback, "last_model_path", ""),
        ):
            if name and Path(name).is_file():
                paths.add(Path(name))
    return paths


def _checked_name(name: Any) -> str:
    """Return a name that can be part of a file's name; refuse others."""
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
        raise OptionError(
            argument="name",
            rule="must be letters, digits, '_' and '-'",
            got=f"{name!r}",
            remedy=[
                "Pass for example ",
                Setting("name", "recall"),
                ".",
            ],
        )
    return name


def _as_names(metric: Any, metrics: Any) -> tuple[Any, ...]:
    """Return all metrics to log, each once."""
    if isinstance(metrics, str) or not isinstance(metrics, Iterable):
        raise OptionError(
            argument="metrics",
            rule="must be a sequence of names",
            got=f"{metrics!r}",
            remedy="Pass for example metrics=['accuracy'].",
        )
    return tuple(dict.fromkeys([*([] if is_log_loss(metric) else [metric]), *metrics]))


def merged(fit: OnlineFit) -> OnlineFit:
    """Return the counts of all processes in rank order, the same on each of them."""
    if not distributed.is_available() or not distributed.is_initialized():
        return fit
    fits: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(fits, fit)
    first: OnlineFit = fits[0]
    for other in fits[1:]:
        first.merge(other)
    return first
