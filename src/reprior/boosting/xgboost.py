"""XGBoost: the correction in the leaves, by the model's JSON document."""

from __future__ import annotations

import importlib
import json
from typing import Any, Self

import numpy as np

from reprior.boosting.trees import BEHIND, MARK, Trees, Vector, refused

__all__ = ["XGBoostTrees"]

#: Objectives whose probabilities are the softmax or the logistic function of the margins.
_LINKED = ("binary:logistic", "binary:logitraw", "multi:softprob", "multi:softmax")
_GIVE_PROBABILITIES = ("binary:logistic", "multi:softprob")


class XGBoostTrees(Trees):
    """An XGBoost booster, read from its own JSON document.

    ``base_score`` stays as it is: what a vector of them means has changed between versions, and
    it has no place for a temperature. The leaves hold all of the correction.
    """

    library = "XGBoost"

    def __init__(self, booster: Any) -> None:
        self.booster = booster
        self._document: Any = json.loads(bytes(booster.save_raw(raw_format="json")))
        learner = self._document["learner"]
        self.mark = learner["attributes"].get(MARK)
        self._objective: str = learner["objective"]["name"]
        gradient_booster = learner["gradient_booster"]
        _check_kind(gradient_booster["name"], self._objective)
        model = gradient_booster["model"]
        self._trees: list[Any] = model["trees"]
        self._class_of: list[int] = model["tree_info"]
        parameters = learner["learner_model_param"]
        self._n_features = int(parameters["num_feature"])
        self.n_outputs = max(int(parameters["num_class"]), 1)
        if int(parameters.get("num_target", 1)) > 1:
            raise refused(
                "must have one softmax over all classes",
                f"{parameters['num_target']} targets, one classifier for each",
            )
        if any(int(tree["tree_param"]["size_leaf_vector"]) > 1 for tree in self._trees):
            raise refused(
                "must have one value per leaf",
                "trees with a vector in each leaf (multi_strategy='multi_output_tree')",
                f"Train it with multi_strategy='one_output_per_tree'. {BEHIND}",
            )
        if set(self._class_of) != set(range(self.n_outputs)):
            raise refused("must have trees for every class", "none", "Train it first.")
        largest = [np.abs(_leaf_values(tree)).max() for tree in self._trees]
        # Sums of float32 leaves: a few of their roundings add up.
        self.tolerance = 1e-5 + float(np.finfo(np.float32).eps * sum(largest))

    def raw(self, inputs: Any) -> Vector:
        """Return the margins."""
        return self._predicted(inputs, output_margin=True)

    def probabilities(self, inputs: Any) -> Vector | None:
        """Return the probabilities, where the objective predicts them."""
        return self._predicted(inputs) if self._objective in _GIVE_PROBABILITIES else None

    def _predicted(self, inputs: Any, **options: Any) -> Vector:
        matrix = inputs
        xgboost: Any = importlib.import_module("xgboost")
        if not isinstance(inputs, xgboost.DMatrix):
            bare = not hasattr(inputs, "columns")
            matrix = xgboost.DMatrix(
                inputs,
                feature_names=self.booster.feature_names if bare else None,
                feature_types=self.booster.feature_types if bare else None,
                enable_categorical=True,
            )
        return np.asarray(self.booster.predict(matrix, **options), np.float64)

    def mapped(self, scale: Vector, shift: Vector, mark: str) -> Self:
        """Scale all leaves, and shift those of every class's first tree.

        Predictions by fewer iterations, after early stopping for example, then have it too.
        """
        if (scale != 1.0).any():  # the margin that samples start from is scaled as well
            shift = shift + (scale - 1.0) * self._start()
        first = {k: self._class_of.index(k) for k in range(self.n_outputs)}
        values = []
        for i, (tree, k) in enumerate(zip(self._trees, self._class_of, strict=True)):
            more = shift[k] if first[k] == i else 0.0
            values.append(scale[k] * _leaf_values(tree) + more)
        booster = self._with_leaves(values)
        booster.load_config(self.booster.save_config())  # threads, device
        booster.set_attr(**{MARK: mark})
        return type(self)(booster)

    def _start(self) -> Vector:
        """Return the margin of a model whose leaves are all 0, whatever ``base_score`` means."""
        empty = self._with_leaves([0.0 * _leaf_values(tree) for tree in self._trees])
        row = type(self)(empty).raw(np.zeros((1, self._n_features), np.float32))
        return row.reshape(-1)

    def _with_leaves(self, values: list[Vector]) -> Any:
        """Return a booster with other leaf values, in the order of :func:`_leaf_values`."""
        before = [tree["split_conditions"] for tree in self._trees]
        try:
            for tree, new in zip(self._trees, values, strict=True):
                conditions = list(tree["split_conditions"])
                for node, value in zip(_leaves(tree), new.astype(np.float32), strict=True):
                    conditions[node] = float(str(value))  # the shortest text of the float32
                tree["split_conditions"] = conditions
            text = json.dumps(self._document).encode()
        finally:
            for tree, conditions in zip(self._trees, before, strict=True):
                tree["split_conditions"] = conditions
        return type(self.booster)(model_file=bytearray(text))

    def samples(self, rng: np.random.Generator, n: int) -> Vector:
        """Return values around the splits of every feature, or its categories."""
        splits: list[list[float]] = [[] for _ in range(self._n_features)]
        for tree in self._trees:
            inner = [i for i, child in enumerate(tree["left_children"]) if child != -1]
            for node in inner:
                if not tree["split_type"][node]:
                    splits[tree["split_indices"][node]].append(tree["split_conditions"][node])
            places = zip(
                tree["categories_nodes"],
                tree["categories_segments"],
                tree["categories_sizes"],
                strict=True,
            )
            for node, start, size in places:
                codes = tree["categories"][start : start + size]
                splits[tree["split_indices"][node]] += [*map(float, codes), 0.0]
        types = self.booster.feature_types or ["float"] * self._n_features
        columns = []
        for values, kind in zip(splits, types, strict=True):
            drawn = rng.choice(values or [0.0], n)
            if kind != "c":
                spread = (max(values) - min(values)) / 10 + 1e-3 if values else 1.0
                drawn = drawn + rng.normal(0.0, spread, n)
            columns.append(drawn)
        return np.stack(columns, axis=1).astype(np.float32)


def _leaves(tree: Any) -> list[int]:
    return [i for i, child in enumerate(tree["left_children"]) if child == -1]


def _leaf_values(tree: Any) -> Vector:
    return np.array([tree["split_conditions"][i] for i in _leaves(tree)], np.float64)


def _check_kind(name: str, objective: str) -> None:
    if name == "dart":
        raise refused(
            "must not be trained by DART",
            "booster='dart', which drops and re-scales trees, also those that would hold the "
            "correction",
        )
    if name != "gbtree":
        raise refused(
            "must have trees",
            f"booster={name!r}",
            f"Train it with booster='gbtree'. {BEHIND}",
        )
    if objective not in _LINKED:
        raise refused(
            "must have an objective of XGBoost's own for classes",
            f"the objective {objective!r}, which is also what models with a custom one say",
            "Train it with 'binary:logistic' or 'multi:softprob'.",
        )
