"""The options of a calibrator, and which of them exclude each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from reprior.calibrator.encoding import Terms, state_problem
from reprior.core.checks import check_choice, check_finite_number, check_kind
from reprior.core.scaling import SCALINGS
from reprior.exceptions import Argument, OptionError, Setting, Text, Words, parts
from reprior.profile.certificates import check_certify
from reprior.profile.constants import AFTER_ZERO
from reprior.tuning.bootstrap import FEWEST_REPLICATES
from reprior.tuning.problem import DEFAULT_SELECTION, TUNED, Problem
from reprior.tuning.selection import RULES

__all__ = [
    "LOG_LOSS",
    "MAPS",
    "check_map",
    "check_options",
    "check_trust",
    "full_problem",
    "is_log_loss",
]

#: The metric that is a fit of probabilities, not of decisions.
LOG_LOSS = "log_loss"

#: The words for an option that is not given.
LEFT_OUT = Words("None", "left out")

#: The maps of a calibrator that holds two.
MAPS = ("decision", "probability")


def is_log_loss(metric: Any) -> bool:
    """Tell whether a metric asks for a fit of probabilities instead of a tuned count metric."""
    return isinstance(metric, str) and metric == LOG_LOSS


def check_options(options: Any) -> None:
    """Refuse options of a calibrator that are wrong for any data."""
    check_kind(options.kind)
    check_choice("tune", options.tune, TUNED)
    check_choice("selection", options.selection, RULES)
    if not isinstance(options.separate, bool | np.bool_):
        raise OptionError(
            argument="separate",
            rule="must be True or False",
            got=repr(options.separate),
            remedy=[
                "Pass ",
                Setting("separate", True),
                " for a map of decisions and another of probabilities.",
            ],
        )
    _check_temperature(options.temperature)
    check_trust(options.cv, options.n_bootstrap)
    _check_certify(options)
    if is_log_loss(options.metric):
        _refuse_with_log_loss(options)
    else:
        _refuse_with_counts(options)


def full_problem(options: Any, terms: Terms) -> Problem:
    """Resolve a calibrator's ``options`` for its classes."""
    by_log_loss = is_log_loss(options.metric)
    problem = state_problem(options, terms, log_loss=by_log_loss)
    if (by_log_loss or options.separate) and options.temperature is None:
        problem = replace(problem, temperature="fit")
    return replace(
        problem,
        bounds=_above_zero(problem),
        log_loss=by_log_loss,
        tune=options.tune,
        selection="max" if options.certify is not None else options.selection,
        cv=options.cv,
        n_bootstrap=int(options.n_bootstrap),
        seed=seed_of(options.random_state),
        separate=bool(options.separate),
        certify=check_certify(options.certify),
    )


def _above_zero(problem: Problem) -> tuple[float, float]:
    """Return the bounds; they begin just above 0 where a target prior of 0 rules a class out.

    At strength 0 the model could still predict that class.
    """
    low, high = problem.bounds
    if low == 0.0 and not problem.target_prior.all():
        low = AFTER_ZERO
    return low, high


def check_map(name: Any, *, separate: bool, needed: bool) -> str:
    """Return the name of a map; with ``needed``, refuse None where there are two."""
    if name is not None:
        check_choice("map", name, MAPS)
        return str(name)
    if separate and needed:
        raise OptionError(
            argument="map",
            rule=[
                "must say which is meant: the calibrator holds a map for decisions and another for "
                "probabilities (",
                Words("separate=True", "fit --separate"),
                ")",
            ],
            got=Words("None", "none"),
            remedy=[
                "Pass ",
                Setting("map", "decision"),
                " for its labels, or ",
                Setting("map", "probability"),
                " for its probabilities.",
            ],
        )
    return "probability"


def seed_of(random_state: Any) -> int:
    """Return a seed: the number itself, one drawn from a generator, or 0 for None."""
    if random_state is None:
        return 0
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        if random_state >= 0:
            return int(random_state)
    elif isinstance(random_state, np.random.Generator):
        return int(random_state.integers(1 << 31))
    elif isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(1 << 31))
    raise OptionError(
        argument="random_state",
        rule=Words(
            "must be None, a whole number of at least 0 or a generator of NumPy",
            "must be a whole number of at least 0",
        ),
        got=repr(random_state),
        remedy=["Pass for example ", Setting("random_state", 0), "."],
    )


def _check_temperature(temperature: Any) -> None:
    named = isinstance(temperature, str) and temperature in ("fit", *SCALINGS)
    if temperature is not None and not named:
        check_finite_number(
            "temperature",
            temperature,
            positive=True,
            hint=Words(
                "Or pass 'fit', 'bcts', 'vector' or None.", "Or pass 'fit', 'bcts' or 'vector'."
            ),
        )


def check_trust(cv: Any, n_bootstrap: Any) -> None:
    """Refuse folds or a number of replicates that are wrong for any data."""
    _check_replicates(n_bootstrap)
    _check_cv(cv)


def _check_replicates(n_bootstrap: Any) -> None:
    whole = isinstance(n_bootstrap, int | np.integer) and not isinstance(n_bootstrap, bool)
    if not whole or (n_bootstrap != 0 and n_bootstrap < FEWEST_REPLICATES):
        raise OptionError(
            argument="n_bootstrap",
            rule=f"must be 0 or a whole number of at least {FEWEST_REPLICATES}",
            got=repr(n_bootstrap),
            remedy=["Pass ", Setting("n_bootstrap", 1000), " for intervals, or 0 for none."],
        )


def _check_cv(cv: Any) -> None:
    named = isinstance(cv, str)
    if cv is None or (not named and (hasattr(cv, "split") or hasattr(cv, "__array__"))):
        return
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        if cv < 2:
            raise OptionError(
                argument="cv",
                rule="must be at least 2 folds",
                got=str(cv),
                remedy=[
                    "Pass ",
                    Setting("cv", 3),
                    ", as the paper, or ",
                    Words("None", "leave it out"),
                    ".",
                ],
            )
        return
    if named or not isinstance(cv, Iterable):
        raise OptionError(
            argument="cv",
            rule="must be None, a number of folds, a splitter, the fold of every sample, or pairs "
            "of (train, test) indices",
            got=repr(cv),
            remedy=["Pass ", Setting("cv", 5), "."],
        )


def _check_certify(options: Any) -> None:
    """Refuse a promise without constraints, or with options that its tests do not cover."""
    level = check_certify(options.certify)
    if level is None:
        return
    if not options.subject_to:
        raise OptionError(
            argument="certify",
            rule=["must be given with ", Argument("subject_to"), ", which it promises"],
            got=[Setting("certify", level), " without constraints"],
            remedy=["Pass a constraint, such as ", Setting("subject_to", "recall[0] >= 0.9"), "."],
        )
    # The default rule needs no mention: the best among the tested strengths is taken.
    rule = "max" if options.selection == DEFAULT_SELECTION else options.selection
    given = {
        "tune": (options.tune, "strength", "biases are too many to test one by one"),
        "selection": (rule, "max", "the best is taken among the tested strengths"),
        "cv": (options.cv, None, "folds have other labels, and keep other promises"),
    }
    for name, (value, needed, reason) in given.items():
        if value is not needed and value != needed:
            raise OptionError(
                argument=name,
                rule=[
                    "must be ",
                    LEFT_OUT if needed is None else repr(needed),
                    " with ",
                    Argument("certify"),
                    f": {reason}",
                ],
                got=repr(value),
                remedy=["Leave it out, or ", Argument("certify"), "."],
            )


def _refuse_with_log_loss(options: Any) -> None:
    """Refuse options that do not apply to a fit of probabilities."""
    if options.subject_to:
        _refuse(
            Setting("subject_to", options.subject_to),
            ["must be ", LEFT_OUT],
            "the log-loss has no counts to limit",
            [
                "Tune a count metric under the constraint, and pass ",
                Setting("temperature", "fit"),
                " for the probabilities.",
            ],
        )
    if options.tune != "strength":
        _refuse(
            Setting("tune", options.tune),
            "must be 'strength'",
            "thresholds per class are tuned for decisions",
            ["Pass ", Setting("temperature", "bcts"), " for a bias per class by log-loss."],
        )
    if options.selection != DEFAULT_SELECTION:
        _refuse(
            Setting("selection", options.selection),
            "must be left out",
            "the fit has a single minimum",
            "Leave it out.",
        )
    if options.separate:
        _refuse(
            Setting("separate", options.separate),
            ["must be ", Words("False", "left out")],
            "its only map is the one for probabilities",
            "Pass the metric of the decisions instead; the probabilities are fitted as well.",
        )
    remedy: Text = [
        "Judge the calibrator on other data, by `reprior evaluate`",
        Words(" or engines.evaluate", ""),
        ".",
    ]
    if options.cv is not None:
        _refuse(
            Setting("cv", options.cv),
            ["must be ", LEFT_OUT],
            "folds need a metric of decisions",
            remedy,
        )
    if options.n_bootstrap:
        _refuse(
            Setting("n_bootstrap", options.n_bootstrap),
            "must be 0",
            "the bootstrap needs a metric of decisions",
            remedy,
        )


def _refuse(given: Setting, rule: Text, reason: str, remedy: Text) -> NoReturn:
    raise OptionError(
        argument=given.name,
        rule=[*parts(rule), " with ", Setting("metric", "log_loss"), f": {reason}"],
        got=repr(given.value),
        remedy=remedy,
    )


def _refuse_with_counts(options: Any) -> None:
    """Refuse options that do not apply to a metric of decisions."""
    scaling = isinstance(options.temperature, str) and options.temperature in SCALINGS
    if scaling and not options.separate:
        raise OptionError(
            argument="separate",
            rule=[
                Words("must be True", "must be given"),
                " with ",
                Setting("temperature", options.temperature),
                " and a metric of decisions, which a bias per class by log-loss would change",
            ],
            got=Setting("separate", False),
            remedy=[
                "Pass ",
                Setting("separate", True),
                ", or ",
                Setting("metric", "log_loss"),
                ", or ",
                Setting("temperature", "fit"),
                ", which keeps decisions.",
            ],
        )
    if options.tune == "per_class" and options.n_bootstrap:
        raise OptionError(
            argument="n_bootstrap",
            rule=[
                "must be 0 with ",
                Setting("tune", "per_class"),
                ": the bootstrap is of the strength",
            ],
            got=str(options.n_bootstrap),
            remedy=["Pass ", Setting("cv", 5), " for a score of the biases on other labels."],
        )
    tempered = isinstance(options.temperature, str)
    by_log_loss = options.separate or tempered or options.selection == "balanced_log_loss"
    if options.label_prior is not None and not by_log_loss:
        raise OptionError(
            argument="label_prior",
            rule="must be left out where nothing is fitted by log-loss: metrics of decisions "
            "count the labels as they are",
            got="one",
            remedy=[
                "Leave it out, or pass ",
                Setting("temperature", "fit"),
                ", ",
                Setting("separate", True),
                " or ",
                Setting("metric", "log_loss"),
                "; or weight the samples.",
            ],
        )
    if options.selection == "balanced_log_loss" and options.cv is not None:
        raise OptionError(
            argument="selection",
            rule=["must be a rule that needs profiles only where ", Argument("cv"), " is given"],
            got=[Setting("selection", "balanced_log_loss"), ", which needs scores"],
            remedy=["Pass another rule, or ", Setting("cv", None), "."],
        )
