"""CatBoost: the correction in the scale and bias that every CatBoost model has."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from reprior.boosting.trees import BEHIND, MARK, Trees, Vector, refused

__all__ = ["CatBoostTrees"]

#: Loss functions whose probabilities are the softmax or the logistic function of the raw values.
_LINKED = ("Logloss", "CrossEntropy", "MultiClass")

#: CatBoost's JSON files round scale and bias.
_SAVED = 1e-5

_WORDS = ("a", "b", "c", "d", "e")


class CatBoostTrees(Trees):
    """A CatBoost model: raw = scale·(sum of leaves) + bias, with a bias per class."""

    library = "CatBoost"
    tolerance = 1e-9  # sums of float64 in another order

    def __init__(self, model: Any) -> None:
        self.booster = model
        if not model.is_fitted():
            raise refused("must be fitted", "one that is not", "Train it first.")
        metadata = dict(model.get_metadata())
        # Metadata outlive a new training, which sets another scale and bias.
        mark, _, numbers = metadata.get(MARK, "").rpartition("; ")
        now = _scale_and_bias(model)
        then = [float(number) for number in numbers.split()]
        same = len(then) == now.size and np.allclose(then, now, rtol=_SAVED, atol=_SAVED)
        self.mark = mark if same else None
        _check_loss(str(model.get_all_params().get("loss_function", "")).partition(":")[0])
        _, bias = model.get_scale_and_bias()
        self.n_outputs = np.size(bias)
        threshold = metadata.get("binclass_probability_threshold")
        if threshold is not None and self.n_outputs == 1:
            raise refused(
                "must decide for the more probable class",
                f"a probability threshold of {threshold}, which would move its corrected labels",
                "Call set_probability_threshold(None) on it first.",
            )

    def raw(self, inputs: Any) -> Vector:
        """Return the raw values."""
        return np.asarray(self.booster.predict(inputs, prediction_type="RawFormulaVal"), np.float64)

    def probabilities(self, inputs: Any) -> Vector:
        """Return the probabilities."""
        both = np.asarray(self.booster.predict(inputs, prediction_type="Probability"), np.float64)
        return both[:, 1] if self.n_outputs == 1 else both

    def mapped(self, scale: Vector, shift: Vector, mark: str) -> Self:
        """Set another scale and bias."""
        if (scale != scale[0]).any():
            raise refused(
                "must have a scale per class to hold such a calibrator",
                "a CatBoost model, which has one scale for all classes",
                "Fit the calibrator with temperature='bcts'.",
            )
        old_scale, old_bias = self.booster.get_scale_and_bias()
        bias = scale * np.atleast_1d(np.asarray(old_bias, np.float64)) + shift
        model = self.booster.copy()
        model.set_scale_and_bias(float(scale[0] * old_scale), bias.tolist())
        numbers = " ".join(map(repr, _scale_and_bias(model).tolist()))
        model.get_metadata()[MARK] = f"{mark}; {numbers}"
        return type(self)(model)

    def samples(self, rng: np.random.Generator, n: int) -> Any:
        """Return values around the borders of every feature; categories and texts of letters."""
        model = self.booster
        n_features = len(model.feature_names_)
        if model.get_embedding_feature_indices():
            raise refused(
                "must have features that samples can be generated for, where `inputs` is left out",
                "embedding features",
                "Pass inputs=X, some real samples.",
            )
        borders = model.get_borders()
        named = {*model.get_cat_feature_indices(), *model.get_text_feature_indices()}
        columns: list[Any] = []
        for i in range(n_features):
            if i in named:
                columns.append(rng.choice(_WORDS, n))
                continue
            values = np.asarray(borders.get(i, ()), np.float64)
            values = values if values.size else np.zeros(1)
            spread = np.ptp(values) / 10 + 1e-3
            columns.append(rng.choice(values, n) + rng.normal(0.0, spread, n))
        if not named:
            return np.stack(columns, axis=1)
        return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _scale_and_bias(model: Any) -> Vector:
    scale, bias = model.get_scale_and_bias()
    return np.array([scale, *np.ravel(bias)], np.float64)


def _check_loss(name: str) -> None:
    if name in _LINKED:
        return
    if name == "MultiClassOneVsAll":
        raise refused(
            "must have one softmax over all classes",
            "the loss 'MultiClassOneVsAll', one classifier per class against the rest, whose "
            "probabilities a shift of all scores changes",
            f"Train it with loss_function='MultiClass'. {BEHIND}",
        )
    if name.startswith("PythonUserDefined") or not name:
        raise refused(
            "must have a loss of CatBoost's own for classes",
            "a custom loss: the model does not say how probabilities follow from its raw values",
        )
    raise refused(
        "must be a classifier with probabilities by softmax",
        f"the loss {name!r}",
        f"Train it with loss_function='Logloss' or 'MultiClass'. {BEHIND}",
    )
