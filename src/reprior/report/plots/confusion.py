"""ConfusionDisplay: which class is taken for which, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from reprior.core.arrays import to_numpy
from reprior.core.checks import check_choice, check_labels, check_sample_weight
from reprior.exceptions import OptionError, Setting
from reprior.report.plots.before_after import before_and_after, names_of
from reprior.report.plots.drawing import artist_options, axes, class_names

if TYPE_CHECKING:
    from reprior.calibrator import PosteriorCalibrator

__all__ = ["ConfusionDisplay", "confusion_matrix"]

Vector: TypeAlias = np.ndarray[Any, Any]

NORMALISATIONS = ("true", "pred", "all", "none")

#: With more classes the cells have no room for numbers, and with more still no names.
MOST_NUMBERS = 15
MOST_NAMES = 60


def confusion_matrix(
    labels: Any,
    predictions: Any,
    *,
    n_classes: int,
    sample_weight: Any = None,
    ignore_index: int | None = None,
) -> Vector:
    """Count, or sum the weights of, the samples of every label (row) and prediction (column).

    Parameters
    ----------
    labels, predictions : integer arrays of the same shape
        Class indices 0 … K−1.
    n_classes : int
        K.
    sample_weight : array of the labels' shape, optional
        A weight per sample.
    ignore_index : int, optional
        A label that marks samples to leave out.

    Examples
    --------
    >>> confusion_matrix([0, 0, 1], [0, 1, 1], n_classes=2)
    array([[1, 1],
           [0, 1]])
    """
    y = to_numpy(labels)
    p = to_numpy(predictions)
    check_labels(y, n_classes=n_classes, shape=y.shape, ignore_index=ignore_index)
    check_labels(p, n_classes=n_classes, shape=y.shape, name="predictions")
    weight = None if sample_weight is None else to_numpy(sample_weight)
    if weight is not None:
        check_sample_weight(weight, y.shape)
    keep = np.ones(y.shape, bool) if ignore_index is None else y != ignore_index
    cell = y[keep].astype(np.intp) * n_classes + p[keep].astype(np.intp)
    sums = np.bincount(cell, None if weight is None else weight[keep], minlength=n_classes**2)
    return sums.reshape(n_classes, n_classes)


class ConfusionDisplay:
    """One confusion matrix, or two side by side: rows are labels, columns predictions.

    Make one with :meth:`from_calibrator` or :meth:`from_predictions`.

    Parameters
    ----------
    matrices : mapping of str to array of shape (K, K)
        Counts, or summed weights, by the title.
    classes : sequence, optional
        Names of the K classes.

    Attributes
    ----------
    ax_ : matplotlib Axes, or list of two
        Where it was drawn.
    figure_ : matplotlib Figure
        Of the axes.
    images_ : list of matplotlib AxesImage
        The matrices as drawn.
    texts_ : list of matplotlib Text
        The numbers in the cells that do not round to 0; none with more than 15 classes.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> display = ConfusionDisplay.from_predictions(
    ...     [0, 0, 1], [0, 1, 1], classes=["cat", "dog"], ax=Figure().subplots()
    ... )
    >>> display.images_[0].get_array().tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """

    def __init__(
        self, *, matrices: Mapping[str, Vector], classes: Sequence[Any] | None = None
    ) -> None:
        self.matrices = matrices
        self.classes = classes

    @classmethod
    def from_calibrator(
        cls,
        calibrator: PosteriorCalibrator,
        scores: Any,
        labels: Any,
        *,
        sample_weight: Any = None,
        normalize: str = "true",
        max_classes: int = 200,
        ax: Any = None,
        im_kw: Mapping[str, Any] | None = None,
        text_kw: Mapping[str, Any] | None = None,
    ) -> ConfusionDisplay:
        """Draw the matrices of the model as it is and as re-calibrated.

        Parameters
        ----------
        calibrator : PosteriorCalibrator
            A fitted one.
        scores, labels, sample_weight
            As for :meth:`reprior.PosteriorCalibrator.fit`: other data than it was tuned on.
        normalize : {"true", "pred", "all", "none"}, default "true"
            As for :meth:`plot`.
        max_classes : int, default 200
            Of more classes, those with the most labels are drawn and the others pooled.
        ax : two matplotlib Axes, optional
            Where to draw.
        im_kw, text_kw
            As for :meth:`plot`.
        """
        seen = before_and_after(calibrator, scores, labels, sample_weight)
        names = class_names(names_of(calibrator), seen.n_classes)
        keep = np.ones(seen.labels.shape, bool)
        if seen.ignore_index is not None:
            keep = seen.labels != seen.ignore_index
        y = seen.labels[keep]
        before = seen.before[keep]
        after = seen.after[keep]
        weight = None if seen.weight is None else seen.weight[keep]
        index, shown = _pooled(y, names, max_classes)
        matrices = {
            title: confusion_matrix(
                index[y], index[predicted], n_classes=len(shown), sample_weight=weight
            )
            for title, predicted in (("before", before), ("after", after))
        }
        display = cls(matrices=matrices, classes=shown)
        return display.plot(ax=ax, normalize=normalize, im_kw=im_kw, text_kw=text_kw)

    @classmethod
    def from_predictions(
        cls,
        labels: Any,
        predictions: Any,
        *,
        classes: Sequence[Any] | None = None,
        sample_weight: Any = None,
        ignore_index: int | None = None,
        normalize: str = "true",
        name: str = "",
        ax: Any = None,
        im_kw: Mapping[str, Any] | None = None,
        text_kw: Mapping[str, Any] | None = None,
    ) -> ConfusionDisplay:
        """Draw the matrix of one set of predictions.

        Parameters
        ----------
        labels, predictions : integer arrays of the same shape
            Class indices 0 … K−1.
        classes : sequence, optional
            Names of the K classes. Without them K is the largest index plus one.
        sample_weight : array of the labels' shape, optional
            A weight per sample.
        ignore_index : int, optional
            A label that marks samples to leave out.
        name : str, optional
            The title.
        normalize, ax, im_kw, text_kw
            As for :meth:`plot`.
        """
        y = to_numpy(labels)
        p = to_numpy(predictions)
        kept = y if ignore_index is None else y[y != ignore_index]
        n_classes = 1 + int(max(kept.max(initial=1), p.max(initial=1)))
        n_classes = n_classes if classes is None else len(classes)
        matrix = confusion_matrix(
            y, p, n_classes=n_classes, sample_weight=sample_weight, ignore_index=ignore_index
        )
        display = cls(matrices={name: matrix}, classes=class_names(classes, n_classes))
        return display.plot(ax=ax, normalize=normalize, im_kw=im_kw, text_kw=text_kw)

    def plot(
        self,
        ax: Any = None,
        *,
        normalize: str = "true",
        im_kw: Mapping[str, Any] | None = None,
        text_kw: Mapping[str, Any] | None = None,
    ) -> ConfusionDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, or two for two matrices, optional
            Where to draw. A new figure where they are not given.
        normalize : {"true", "pred", "all", "none"}, default "true"
            Shares of every row (label), of every column (prediction), of everything, or counts.
        im_kw : dict, optional
            Options of ``imshow``, such as ``{"cmap": "viridis"}``.
        text_kw : dict, optional
            Options of the numbers in the cells.

        Returns
        -------
        ConfusionDisplay
            Itself.
        """
        check_choice("normalize", normalize, NORMALISATIONS)
        n = len(self.matrices)
        given = axes(ax, n, figsize=(5.2 * n, 4.8))
        self.ax_: Any = given[0] if n == 1 else given
        self.figure_ = given[0].figure
        shares = [_normalised(matrix, normalize) for matrix in self.matrices.values()]
        top = 1.0 if normalize in ("true", "pred") else max(share.max() for share in shares)
        self.images_: list[Any] = []
        self.texts_: list[Any] = []
        for one, title, share in zip(given, self.matrices, shares, strict=True):
            options = artist_options("im_kw", im_kw, cmap="Blues", vmin=0.0, vmax=top)
            self.images_.append(one.imshow(share, **{"interpolation": "nearest", **options}))
            self._label(one, title, first=one is given[0])
            if share.shape[0] <= MOST_NUMBERS:
                self._write(one, share, normalize, text_kw)
        self.figure_.colorbar(self.images_[-1], ax=given, shrink=0.8, label=_MEANING[normalize])
        return self

    def _label(self, ax: Any, title: str, *, first: bool) -> None:
        n = next(iter(self.matrices.values())).shape[0]
        names = class_names(self.classes, n)
        if n <= MOST_NAMES:
            small = {"fontsize": "small" if n <= MOST_NUMBERS else "xx-small"}
            ax.set_xticks(range(n), names, rotation=90 if max(map(len, names)) > 2 else 0, **small)
            ax.set_yticks(range(n), names if first else [""] * n, **small)
        ax.set(xlabel="prediction", ylabel="label" if first else "", title=title)

    def _write(self, ax: Any, share: Vector, normalize: str, text_kw: Any) -> None:
        image = self.images_[-1]
        options = artist_options("text_kw", text_kw, ha="center", va="center", fontsize="x-small")
        for (row, column), value in np.ndenumerate(share):
            text = f"{value:.4g}" if normalize == "none" else f"{value:.2f}"
            if float(text) == 0:
                continue
            dark = image.norm(value) > 0.5
            colour = "white" if dark else "black"
            self.texts_.append(ax.text(column, row, text, **{"color": colour, **options}))


_MEANING = {
    "true": "share of the label",
    "pred": "share of the prediction",
    "all": "share of all",
    "none": "count",
}


def _normalised(matrix: Vector, normalize: str) -> Vector:
    counts = np.asarray(matrix, dtype=np.float64)
    if normalize == "none":
        return counts
    total: Any = counts.sum()
    if normalize != "all":
        total = counts.sum(axis=1 if normalize == "true" else 0, keepdims=True)
    total = np.broadcast_to(total, counts.shape)
    return np.asarray(np.divide(counts, total, out=np.zeros_like(counts), where=total > 0))


def _pooled(labels: Vector, names: list[str], at_most: Any) -> tuple[Vector, list[str]]:
    """Return the row of every class, and the names; of too many, the rarer ones share a row."""
    if isinstance(at_most, bool) or not isinstance(at_most, int | np.integer) or at_most < 2:
        raise OptionError(
            argument="max_classes",
            rule="must be an integer of at least 2",
            got=f"{at_most!r}",
            remedy=[
                "Pass for example ",
                Setting("max_classes", 50),
                ".",
            ],
        )
    n_classes = len(names)
    if n_classes <= at_most:
        return np.arange(n_classes), names
    check_labels(labels, n_classes=n_classes, shape=labels.shape)
    support = np.bincount(labels.ravel(), minlength=n_classes)
    largest = np.sort(np.argsort(-support, kind="stable")[: at_most - 1])
    index = np.full(n_classes, at_most - 1)
    index[largest] = np.arange(at_most - 1)
    return index, [*(names[k] for k in largest), f"{n_classes - at_most + 1} others"]
