"""Lightning's loggers by name."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reprior.core.checks import check_choice
from reprior.exceptions import MissingDependencyError
from reprior.experiments.training.lightning_library import require_lightning

__all__ = ["LOGGERS", "make_logger"]

LOGGERS = ("csv", "tensorboard", "mlflow")


def make_logger(name: str | None, folder: Path, run: str) -> Any:
    """Return the logger that writes into a run's folder, or False for none.

    Examples
    --------
    >>> from pathlib import Path
    >>> make_logger(None, Path("run"), "digits-ce")
    False
    """
    if name is None:
        return False
    check_choice("logger", name, LOGGERS)
    loggers = require_lightning("lightning.pytorch.loggers", purpose="To log")
    if name == "csv":
        return loggers.CSVLogger(folder, name="log", version="")
    if name == "tensorboard":
        _look_for("tensorboard")
        return loggers.TensorBoardLogger(folder, name="tensorboard", version="")
    _look_for("mlflow")
    uri = (folder / "mlflow").resolve().as_uri()
    return loggers.MLFlowLogger(experiment_name="reprior", run_name=run, tracking_uri=uri)


def _look_for(name: str) -> None:
    """Say what to install: these are no part of an extra."""
    if find_spec(name) is None:
        raise MissingDependencyError(
            f"For the logger {name!r}, {name} must be installed. It is not. Run: pip install {name}"
        )
