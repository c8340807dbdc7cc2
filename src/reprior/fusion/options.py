"""What a fusion can be told, and the sentences for what it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reprior.core.checks import check_bounds, check_choice, check_finite_number, check_kind
from reprior.core.fuse import RULES
from reprior.exceptions import OptionError

__all__ = [
    "FLATTEN_BY",
    "MISSING",
    "ORDERS",
    "STRENGTHS",
    "UNCERTAINTIES",
    "check_options",
    "fixed_strengths",
    "refuse_negative",
    "refuse_priors",
]

ORDERS = ("rebalance_first", "flatten_first")
"""Whether δ scales the rebalanced log-posterior, or the model's own."""

STRENGTHS = ("shared", "per_modality")
"""How many strengths there are."""

FLATTEN_BY = ("image", "pixel")
"""What has a δ of its own."""

UNCERTAINTIES = ("entropy", "mutual_information", "smaller")
"""What δ is made of."""

MISSING = ("error", "leave_out")
"""What is done about a modality that is not there."""


def check_options(options: Any) -> None:
    """Refuse options of a fusion that are wrong whatever the data are."""
    check_kind(options.kind)
    check_choice("rule", options.rule, RULES)
    check_choice("order", options.order, ORDERS)
    check_choice("strengths", options.strengths, STRENGTHS)
    check_choice("flatten_by", options.flatten_by, FLATTEN_BY)
    check_choice("uncertainty", options.uncertainty, UNCERTAINTIES)
    check_choice("missing", options.missing, MISSING)
    check_bounds(options.bounds)
    if not isinstance(options.flatten, bool | np.bool_):
        raise OptionError(
            f"`flatten` must be True or False. Got {options.flatten!r}. Pass True to flatten "
            f"images that a modality is unusually unsure of."
        )
    if isinstance(options.strength, Mapping):
        for name, number in options.strength.items():
            check_finite_number(f"strength[{name!r}]", number)
    elif options.strength is not None:
        check_finite_number("strength", options.strength, hint="Or pass None to tune it.")


def fixed_strengths(strength: Any, names: tuple[str, ...]) -> tuple[float, ...] | None:
    """The strength of every modality where ``strength`` gives it, None where it is tuned."""
    if strength is None:
        return None
    if not isinstance(strength, Mapping):
        return (float(strength),) * len(names)
    if set(strength) != set(names):
        raise OptionError(
            f"`strength` must have one number for every modality, {', '.join(map(repr, names))}. "
            f"Got {', '.join(map(repr, strength)) or 'none'}. Name the modalities as in the scores."
        )
    return tuple(float(strength[name]) for name in names)


def refuse_negative(lowest: float, target_prior: np.ndarray[Any, Any]) -> None:
    """Refuse strengths below 0 where a class of target prior 0 would be divided by 0."""
    if lowest < 0 and (target_prior == 0).any():
        where = int(np.argmax(target_prior == 0))
        raise OptionError(
            f"Strengths must not reach below 0 where `target_prior` has a 0. Got {lowest:g} and "
            f"target_prior[{where}]=0. Start `bounds` at 0, or give the class a small prior."
        )


def refuse_priors(source_prior: Any) -> None:
    """Refuse a prior for each modality: there is one for all.

    Examples
    --------
    >>> refuse_priors({"cat": 0.8, "dog": 0.2})
    """
    if not isinstance(source_prior, Mapping):
        return
    own = [
        name for name, prior in source_prior.items() if np.ndim(prior) or isinstance(prior, dict)
    ]
    if own:
        one, other = (*map(str, source_prior), "another")[:2]
        raise OptionError(
            f"`source_prior` must be one prior for all modalities, a number for each class. Got "
            f"one for each of {', '.join(map(repr, source_prior))}. Bring the scores of {other!r} "
            f"to the prior of {one!r} first, with reprior.log_rebalance(scores, own_prior, "
            f"target_prior=prior_of_{one}), and pass that prior."
        )
