"""A Lightning callback: a calibrator for every validation run, kept beside the checkpoint."""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

import reprior as rp
from reprior.calibrator import PosteriorCalibrator
from reprior.engines import OnlineFit
from reprior.exceptions import OptionError, RepriorError, RepriorWarning, require
from reprior.metrics.count_metrics import find_metric
from reprior.torch.batches import Unpack, scores_in, without_class_axis
from reprior.torch.processes import merged

if TYPE_CHECKING:
    from lightning.pytorch import Callback
else:
    # Lightning goes by two names. Trainers of both take a callback of either.
    _one, _other = "lightning.pytorch", "pytorch_lightning"
    if _other in sys.modules and _one not in sys.modules:
        _one = _other
    Callback = require(_one, extra="lightning", purpose="For RebalanceCallback").Callback

__all__ = ["RebalanceCallback"]

#: What a calibrator's file beside a checkpoint is called: the checkpoint's name and this.
SUFFIX = ".calibrator.json"


class RebalanceCallback(Callback):
    """Tunes a calibrator on every validation run, logs it, and keeps it with the checkpoint.

    The validation step returns its logits (and labels, where they are not in the batch as usual);
    the callback counts each batch and lets it go. At the end of validation it logs
    ``rebalance/strength``, ``rebalance/temperature`` and every metric as
    ``rebalance/<metric>_before`` and ``_after``. The strength is tuned on these labels, so
    "after" flatters by a little: judge a finished model on other data.

    Each checkpoint file gets a calibrator beside it, ``<name>.calibrator.json``, and the last
    validation's is ``calibrator.json`` in the same folder. The checkpoint has it inside, too, as
    the callback's state.

    Parameters
    ----------
    source_prior : array-like of shape (K,)
        The class distribution of the *training* data as the loss sees it.
    target_prior, metric, subject_to, temperature, label_prior, bounds, kind, classes, ignore_index
        As in :class:`reprior.PosteriorCalibrator`.
    class_axis : int, default 1
        The axis of the classes in the logits.
    metrics : sequence of str, default ("accuracy", "balanced_accuracy")
        What is logged, besides ``metric``.
    unpack : callable, optional
        From (outputs, batch) to (logits, labels) or (logits, labels, weight). Without it: the
        logits are the outputs of the validation step, or its "logits"; the labels are its
        "labels", with its "weight" if there is one, or else the batch's labels and weights.
    dirpath : path, optional
        Where ``calibrator.json`` goes; by default the folder of the checkpoints.
    save : bool, default True
        Whether files are written.

    Attributes
    ----------
    calibrator_ : PosteriorCalibrator or None
        That of the last validation run, or of the checkpoint that was loaded.

    Notes
    -----
    The sanity check before training is not counted. Of several validation loaders the first is.
    With several processes each counts its own batches and all get the calibrator of the whole; a
    distributed sampler that repeats samples to fill the last batch counts these twice. Bounds
    are not widened: a best strength at the upper bound brings a warning.

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
        temperature: Any = None,
        label_prior: Any = None,
        bounds: tuple[float, float] = (0.0, 2.0),
        kind: str = "logits",
        class_axis: int = 1,
        classes: Any = None,
        ignore_index: int | None = None,
        metrics: Sequence[str] = ("accuracy", "balanced_accuracy"),
        unpack: Callable[[Any, Any], Any] | None = None,
        dirpath: Any = None,
        save: bool = True,
    ) -> None:
        super().__init__()
        self._options = {
            "target_prior": target_prior, "metric": metric, "subject_to": subject_to,
            "temperature": temperature, "label_prior": label_prior, "bounds": bounds,
            "kind": kind, "class_axis": class_axis, "classes": classes,
            "ignore_index": ignore_index,
        }  # fmt: skip
        self._source_prior = source_prior
        self._logged = tuple(dict.fromkeys([metric, *metrics]))
        self._unpack = unpack
        self._dirpath = None if dirpath is None else Path(dirpath)
        self._save = save
        self._fit: OnlineFit | None = None
        self._beside: dict[Path, int] = {}
        self.calibrator_: PosteriorCalibrator | None = None

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002 - Lightning's signature
        """Begin to count."""
        self._keep_beside_checkpoints(trainer)
        if not trainer.sanity_checking:
            calibrator = PosteriorCalibrator(self._source_prior, **self._options)
            self._fit = OnlineFit(calibrator, seed=trainer.global_rank)

    def on_validation_batch_end(
        self,
        trainer: Any,
        pl_module: Any,  # noqa: ARG002 - Lightning's signature
        outputs: Any,
        batch: Any,
        batch_idx: int,  # noqa: ARG002 - Lightning's signature
        dataloader_idx: int = 0,
    ) -> None:
        """Count one batch."""
        if trainer.sanity_checking or dataloader_idx or self._fit is None:
            return
        self._fit.update(*self._read(outputs, batch))

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Tune, log, and write ``calibrator.json``."""
        if trainer.sanity_checking or self._fit is None:
            return
        fit, self._fit = merged(self._fit), None
        try:
            self.calibrator_ = fit.finish()
        except RepriorError as error:
            warnings.warn(f"No calibrator for this epoch. {error}", RepriorWarning, stacklevel=2)
            self.calibrator_ = None
            return
        for name, value in self._values(self.calibrator_).items():
            pl_module.log(f"rebalance/{name}", value, rank_zero_only=False, sync_dist=False)
        if self._save and trainer.is_global_zero:
            folder = self._folder(trainer)
            folder.mkdir(parents=True, exist_ok=True)
            self.calibrator_.save(folder / "calibrator.json")

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002 - Lightning's signature
        """Put calibrators beside checkpoints that were written meanwhile."""
        self._keep_beside_checkpoints(trainer)

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002 - Lightning's signature
        """Put calibrators beside checkpoints that were written meanwhile."""
        self._keep_beside_checkpoints(trainer)

    def state_dict(self) -> dict[str, Any]:
        """The calibrator as the fields of its JSON file, for the checkpoint."""
        if self.calibrator_ is None:
            return {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "calibrator.json"
            self.calibrator_.save(path)
            return {"calibrator": json.loads(path.read_text(encoding="utf-8"))}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the calibrator out of a checkpoint."""
        if "calibrator" in state_dict:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "calibrator.json"
                path.write_text(json.dumps(state_dict["calibrator"]), encoding="utf-8")
                self.calibrator_ = rp.load(path)

    def _read(self, outputs: Any, batch: Any) -> tuple[Tensor, Tensor, Tensor | None]:
        """Scores, labels and weights of one batch."""
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
                f"`validation_step` must return its logits for RebalanceCallback. Got {got}. "
                f"Return {{'loss': loss, 'logits': logits, 'labels': labels}}, or pass unpack=a "
                f"function from (outputs, batch) to (logits, labels)."
            )
        scores = scores_in(outputs)
        if ours and "labels" in outputs:
            return Unpack(tuple)((scores, outputs["labels"], outputs.get("weight")))
        _, labels, weight = Unpack()(batch)
        return scores, labels, weight

    def _values(self, calibrator: PosteriorCalibrator) -> dict[str, float]:
        values = {"strength": calibrator.strength_, "temperature": calibrator.temperature_}
        profile, names = calibrator.profile_, calibrator.classes_.tolist()
        if profile is None:
            return values
        after = profile.counts(min(max(calibrator.strength_, profile.bounds[0]), profile.bounds[1]))
        for name in self._logged:
            metric = find_metric(name, n_classes=profile.n_classes, classes=names)
            values[f"{name}_before"] = metric(profile.baseline)
            values[f"{name}_after"] = metric(after)
        return values

    def _folder(self, trainer: Any) -> Path:
        if self._dirpath is not None:
            return self._dirpath
        checkpoints = getattr(trainer.checkpoint_callback, "dirpath", None)
        return Path(checkpoints or trainer.log_dir or trainer.default_root_dir)

    def _keep_beside_checkpoints(self, trainer: Any) -> None:
        """Write the calibrator beside every checkpoint that is new since it was tuned."""
        if self.calibrator_ is None or not self._save or not trainer.is_global_zero:
            return
        found = set()
        for callback in trainer.checkpoint_callbacks:
            best = getattr(callback, "best_k_models", {})
            for name in (
                *best,
                getattr(callback, "best_model_path", ""),
                getattr(callback, "last_model_path", ""),
            ):
                if name and Path(name).is_file():
                    found.add(Path(name))
        for path in found:
            written = path.stat().st_mtime_ns
            if self._beside.get(path) != written:
                self.calibrator_.save(path.with_name(path.stem + SUFFIX))
                self._beside[path] = written
        for path in set(self._beside) - found:
            if not path.exists():
                path.with_name(path.stem + SUFFIX).unlink(missing_ok=True)
                del self._beside[path]
