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
    │       ├── InfeasibleError       no strength satisfies the constraints
    │       ├── ProfileMismatchError  profiles that cannot be merged or subtracted
    │       ├── FileFormatError       a file that is truncated, too new, or not ours
    │       └── NotFittedError        used before ``fit`` (also an AttributeError)
    └── UserWarning
        └── RepriorWarning            it went on, but you should know
"""

__all__ = [
    "FileFormatError",
    "InfeasibleError",
    "LabelsError",
    "NotFittedError",
    "OptionError",
    "PriorError",
    "ProfileMismatchError",
    "RepriorError",
    "RepriorWarning",
    "ScoresError",
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
    """No strength within the bounds satisfies the constraints."""


class ProfileMismatchError(RepriorError):
    """Two profiles that describe different problems."""


class FileFormatError(RepriorError):
    """A file that reprior cannot, or will not, read."""


class NotFittedError(RepriorError, AttributeError):
    """An object that was used before it was fitted."""


class RepriorWarning(UserWarning):
    """The result stands, but something about it deserves attention."""
