"""LightGBM: the correction in the leaves, by ``set_leaf_output``."""

from __future__ import annotations

import re
from typing import Any, Self

import numpy as np

from reprior.boosting.trees import BEHIND, MARK, Trees, Vector, refused

__all__ = ["LightGBMTrees"]

#: Objectives whose probabilities are the softmax or the logistic function of the raw scores.
_LINKED = ("binary", "multiclass", "cross_entropy")

_END = "\nend of parameters"


class LightGBMTrees(Trees):
    """A LightGBM booster, read from its own model text."""

    library = "LightGBM"
    tolerance = 1e-9  # sums of float64 in another order

    def __init__(self, booster: Any) -> None:
        self.booster = booster
        self._text: str = booster.model_to_string(num_iteration=-1)
        head, _, trees = self._text.partition("\nTree=")
        self._head = dict(line.partition("=")[::2] for line in head.splitlines())
        self._leaves = [int(n) for n in re.findall(r"^num_leaves=(\d+)$", trees, re.M)]
        marked = re.search(rf"^\[{MARK}: (.*)\]$", trees, re.M)
        self.mark = marked[1] if marked else None
        self.n_outputs = int(self._head["num_tree_per_iteration"])
        self._check_objective(self._head.get("objective", "").split())
        if re.search(r"^is_linear=1$", trees, re.M):
            raise refused(
                "must have constant leaves",
                "linear trees (linear_tree=True), whose leaves are linear functions of the "
                "features, which set_leaf_output does not reach",
            )
        if re.search(r"^\[boosting: dart\]$", trees, re.M):
            raise refused(
                "must not be trained by DART",
                "boosting='dart', which drops and re-scales trees, also those that would hold "
                "the correction",
            )
        if not self._leaves:
            raise refused("must have trees", "none", "Train it first.")
        # The mean of a random forest's trees is linked, and their sum predicted as raw score.
        self._averaged = "average_output" in self._head
        if self._averaged:
            used = booster.best_iteration
            self._n_used = used if used > 0 else len(self._leaves) // self.n_outputs
            self.slope /= self._n_used

    def _check_objective(self, words: list[str]) -> None:
        if not words or words[0] == "custom":
            raise refused(
                "must have an objective of LightGBM's own for classes",
                "a custom objective: the model does not say how probabilities follow from its "
                "raw scores",
            )
        if words[0] == "multiclassova":
            raise refused(
                "must have one softmax over all classes",
                "the objective 'multiclassova', one classifier per class against the rest, "
                "whose probabilities a shift of all scores changes",
                f"Train it with objective='multiclass'. {BEHIND}",
            )
        if words[0] not in _LINKED:
            raise refused(
                "must be a classifier",
                f"the objective {words[0]!r}",
                "Pass a model of the objective 'binary' or 'multiclass'.",
            )
        slopes = [float(word[8:]) for word in words if word.startswith("sigmoid:")]
        self.slope = slopes[0] if slopes else 1.0

    def raw(self, inputs: Any) -> Vector:
        """Return the raw scores."""
        return np.asarray(self.booster.predict(inputs, raw_score=True), np.float64)

    def probabilities(self, inputs: Any) -> Vector:
        """Return the probabilities."""
        return np.asarray(self.booster.predict(inputs), np.float64)

    def mapped(self, scale: Vector, shift: Vector, mark: str) -> Self:
        """Scale all leaves, and shift those of the first iteration.

        Predictions by fewer iterations, after early stopping for example, then have it too. A
        random forest has its share in every tree.
        """
        if not hasattr(self.booster, "set_leaf_output"):
            raise refused(
                "must come from LightGBM 4.0 or newer, which can set the output of a leaf",
                "a Booster of an older one",
                "Save it, and load it with a newer LightGBM.",
            )
        text = self._text.replace(_END, f"\n[{MARK}: {mark}]{_END}")
        booster = type(self.booster)(model_str=text)
        booster.best_iteration = self.booster.best_iteration
        booster.best_score = self.booster.best_score
        for tree, n_leaves in enumerate(self._leaves):
            k = tree % self.n_outputs
            more = shift[k] if tree < self.n_outputs else 0.0
            if self._averaged:
                more = shift[k] / self._n_used
            if scale[k] == 1.0 and more == 0.0:
                continue
            for leaf in range(n_leaves):
                value = scale[k] * booster.get_leaf_output(tree, leaf) + more
                booster.set_leaf_output(tree, leaf, float(value))
        return type(self)(booster)

    def samples(self, rng: np.random.Generator, n: int) -> Vector:
        """Return values between the smallest and largest that training had, or its categories."""
        columns = []
        for info in self._head["feature_infos"].split(" "):
            if info.startswith("["):
                low, high = (float(end) for end in info[1:-1].split(":"))
                columns.append(rng.uniform(low, high, n))
            elif info == "none":
                columns.append(np.zeros(n))
            else:
                columns.append(rng.choice([float(name) for name in info.split(":")], n))
        return np.stack(columns, axis=1)
