"""What the tests of figures share: which texts of a drawing lie on each other."""

from __future__ import annotations

from itertools import combinations

from matplotlib.axes import Axes
from matplotlib.text import Text

#: Texts may touch by this many pixels: boxes are those of the font, not of the letters.
TOUCHING = 1.0


def texts(figure):
    """All texts that are seen: ticks outside the limits have labels that are not drawn."""
    axes = [each for each in figure.findobj(Axes) if each.get_visible()]
    ticks = [
        (tick.label1, low <= tick.get_loc() <= high)
        for axis in (axis for each in axes for axis in (each.xaxis, each.yaxis))
        for low, high in [sorted(axis.get_view_interval())]
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
    ]
    hidden = {id(label) for label, inside in ticks if not inside}
    found = [
        each for each in figure.findobj(Text) if each.get_visible() and each.get_text().strip()
    ]
    return [each for each in found if id(each) not in hidden]


def overlapping(figure):
    """Pairs of texts that cover each other, and texts that leave the figure."""
    figure.draw_without_rendering()
    boxes = [(each.get_text(), each.get_window_extent()) for each in texts(figure)]
    pairs = [
        (one, other)
        for (one, a), (other, b) in combinations(boxes, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > TOUCHING
        and min(a.y1, b.y1) - max(a.y0, b.y0) > TOUCHING
    ]
    whole = figure.bbox
    return pairs + [
        (text, "the edge")
        for text, box in boxes
        if box.x0 < whole.x0 or box.x1 > whole.x1 or box.y0 < whole.y0 or box.y1 > whole.y1
    ]
