"""Everything reprior raises and warns with.

Every error says which argument is wrong, which rule it breaks, what was found
and where, and what to do about it::

    Exception
    ├── ValueError
    │   └── RepriorError              anything reprior refuses
    │       ├── ScoresError           scores: NaN, +inf, shape, rows that are no distribution
    │       ├── LabelsError           labels: out of range, not integer, wrong length
    │       ├── PriorError            priors and counts: zero, negative, wrong length, wrong sum
    │       ├── OptionError           an option: unknown metric, kind, rule; bounds reversed
    │       ├── InfeasibleError       nothing satisfies the constraints; knows what comes nearest
    │       ├── ProfileMismatchError  profiles that cannot be merged or subtracted
    │       ├── FileFormatError       a file that is truncated, too new, or not ours
    │       ├── FoldError             a model the correction does not go into, or that disagrees
    │       ├── MissingDependencyError  an extra that is not installed (also an ImportError)
    │       └── NotFittedError        used before ``fit`` (also an AttributeError)
    └── UserWarning
        └── RepriorWarning            it went on, but you should know
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

__all__ = [
    "FileFormatError",
    "FoldError",
    "InfeasibleError",
    "LabelsError",
    "MissingDependencyError",
    "NotFittedError",
    "OptionError",
    "PriorError",
    "ProfileMismatchError",
    "RepriorError",
    "RepriorWarning",
    "ScoresError",
    "require",
]


class RepriorError(ValueError):
    """Base class of every error that reprior raises on purpose."""


class ScoresError(RepriorError):
    """Scores that no posterior can be made of."""


class LabelsError(RepriorError):
    """Labels or sample weights that do not fit the scores."""


class PriorError(RepriorError):
    """A prior, or the counts for one, that is not a distribution over the classes."""


class OptionError(RepriorError):
    """An option outside what the function offers."""


class InfeasibleError(RepriorError):
    """No strength within the bounds, or no biases, satisfy the constraints.

    Attributes
    ----------
    strength : float or None
        The strength that comes nearest, where one is known.
    shortfall : float or None
        By how much it misses: of several constraints, the one it misses most.
    biases : ndarray of shape (K,) or None
        Where biases were tuned per class, those that come nearest; the shortfall is theirs.
    """

    def __init__(
        self,
        message: str,
        *,
        strength: float | None = None,
        shortfall: float | None = None,
        biases: Any = None,
    ) -> None:
        super().__init__(message)
        self.strength = strength
        self.shortfall = shortfall
        self.biases = biases


class ProfileMismatchError(RepriorError):
    """Two profiles that describe different problems."""


class FileFormatError(RepriorError):
    """A file that reprior cannot, or will not, read."""


class FoldError(RepriorError):
    """A model that the correction does not go into, or that disagrees once it is in."""


class MissingDependencyError(RepriorError, ImportError):
    """A library that a part of reprior needs, and that is not installed."""


class NotFittedError(RepriorError, AttributeError):
    """An object that was used before it was fitted."""


class RepriorWarning(UserWarning):
    """The result stands, but something about it deserves attention."""


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a library of an extra, or say in a sentence how to install it.

    Examples
    --------
    >>> require("json", extra="cli", purpose="To read JSON").__name__
    'json'
    >>> require("no_such_library", extra="cli", purpose="To read parquet files")
    Traceback (most recent call last):
        ...
    reprior.exceptions.MissingDependencyError: To read parquet files, no_such_library must be
    installed. It is not. Run: pip install 'reprior[cli]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise  # it is there, and lacks something itself
        name = module.partition(".")[0]
        raise MissingDependencyError(
            f"{purpose}, {name} must be installed. It is not. Run: pip install 'reprior[{extra}]'"
        ) from error
