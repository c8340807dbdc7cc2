"""An honest score of biases per class: tuned on all folds but one, judged on that one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from reprior.core.arrays import namespace, to_numpy
from reprior.exceptions import OptionError
from reprior.profile.objective import Best
from reprior.profile.profile import StrengthProfile
from reprior.profile.reading import Reading
from reprior.profile.samples import Block, Rows
from reprior.profile.sweep import value_of
from reprior.tuning.columns import Columns
from reprior.tuning.crossval import CrossValidation, has_classes, own_value, summed
from reprior.tuning.fold_options import counted_images
from reprior.tuning.per_class import start_strength, tune_biases
from reprior.tuning.problem import Problem

__all__ = ["nested_biases"]

Vector: TypeAlias = np.ndarray[Any, Any]


def nested_biases(
    reading: Reading, fold_of: Vector, problem: Problem, *, best: Best, profile: StrengthProfile
) -> CrossValidation:
    """Tune strength, biases and shrinkage without each fold in turn, and judge them on it.

    Parameters
    ----------
    reading : Reading
        All samples.
    fold_of : integer array of the labels' shape
        The fold of every sample.
    problem : Problem
        Metric, constraints, selection and seed.
    best, profile : Best, StrengthProfile
        What was tuned on all samples.

    Returns
    -------
    CrossValidation
        Its strengths are those that the biases started from.
    """
    rows = reading.rows
    block = rows.read((slice(None),))
    block = block._replace(scores=to_numpy(block.scores))
    left_out = rows.left_out()
    folds = fold_of.reshape(-1) if left_out is None else fold_of[~left_out]
    images = counted_images(reading)
    numbers = np.unique(folds)
    if numbers.size < 2:
        raise OptionError(
            f"`cv` must have at least two folds with samples. Got {numbers.size}. Something has to "
            f"be left to tune on."
        )
    strengths, counts, plain = [], [], []
    for number in numbers:
        rest = folds != number
        own = None if images is None else images[rest]
        strength, biases = _tuned(reading, _taken(block, rest), own, problem, best.strength)
        judged = Columns(_taken(block, folds == number))
        strengths.append(strength)
        counts.append(judged.counts(judged.predictions(biases)))
        plain.append(judged.counts(judged.predictions(np.zeros(rows.n_classes))))
    return CrossValidation(
        best=best,
        profile=profile,
        strengths=tuple(strengths),
        scores=tuple(own_value(each, problem.metric) for each in counts),
        baseline=tuple(own_value(each, problem.metric) for each in plain),
        score=value_of(summed(counts), problem.metric),
        baseline_score=value_of(summed(plain), problem.metric),
    )


def _tuned(
    reading: Reading, block: Block, images: Vector | None, problem: Problem, of_all: float
) -> tuple[float, Vector]:
    """The strength and the biases of some of the samples.

    The strength is that ``of_all`` where these lack a class that is asked for by name, and so are
    the constraints on it, which nothing here can keep or break, left out.
    """
    rows = Rows(
        scores=block.scores, labels=block.labels, weights=block.weights, kind="logits",
        ignore_index=None, n_classes=reading.rows.n_classes, xp=namespace(),
        possible=reading.rows.possible,
    )  # fmt: skip
    part = replace(reading, rows=rows)
    strength, labelled = of_all, np.bincount(block.labels, minlength=rows.n_classes) > 0
    limits = [rule for rule in problem.constraints if has_classes(labelled, problem.metric, [rule])]
    if problem.flat:
        strength = 1.0
    elif len(limits) == len(problem.constraints) and has_classes(labelled, problem.metric, []):
        strength = start_strength(
            StrengthProfile._of(part), problem.metric, limits, rule=problem.selection
        )
    biases = tune_biases(
        part, strength, metric=problem.metric, constraints=limits, seed=problem.seed,
        groups=images, rule=problem.selection,
    ).biases  # fmt: skip
    return strength, biases


def _taken(block: Block, chosen: Vector) -> Block:
    weights = None if block.weights is None else block.weights[chosen]
    return Block(block.scores[chosen], block.labels[chosen], weights)
