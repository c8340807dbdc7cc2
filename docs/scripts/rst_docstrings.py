"""Let mkdocstrings show reStructuredText in docstrings: formulas, cross-references, citations.

A griffe extension, named in mkdocs.yml. The docstrings keep ``.. math::`` and ``:func:``, which
Python's own tools know. The site shows formulas as inline SVG that matplotlib draws when it is
built: they take the colour of the text around them, and no page loads a script or a font.
"""

from __future__ import annotations

import html
import re
import textwrap
from typing import Any

import griffe
from matplotlib import rc_context
from matplotlib.path import Path
from matplotlib.textpath import TextPath

import reprior

SIZE = 10  # font size that formulas are drawn at; they are scaled to the text around them
SCALE = 1.1 / SIZE  # units of a drawing to em

MATH_BLOCK = re.compile(
    r"^(?P<indent>[ ]*)\.\. math::[ ]*(?P<first>[^\n]*)(?P<rest>(?:\n(?P=indent)[ ]+\S[^\n]*)*)",
    re.MULTILINE,
)
MATH_INLINE = re.compile(r":math:`([^`]+)`")
ROLE = re.compile(r":(?:func|class|meth|mod|data|attr):`(?P<short>~?)(?P<name>[\w.]+)`")
CITATION = re.compile(r"^([ ]*)\.\. \[(\d+)\] ", re.MULTILINE)
CITED = re.compile(r" ?\[(\d+)\]_")
LITERAL_BLOCK = re.compile(r"::$", re.MULTILINE)
TYPE = re.compile(r"^[ ]*\w[\w, ]* : .*$", re.MULTILINE)  # of a parameter: shown as code

# What matplotlib's mathtext spells otherwise than LaTeX.
SPELLING = [
    (re.compile(r"\\[bB]igl"), r"\\left"),
    (re.compile(r"\\[bB]igr"), r"\\right"),
    (re.compile(r"frac1N"), "frac{1}{N}"),
    (re.compile(r"\\text\{([^}]*)\}"), lambda m: "\\mathrm{" + m[1].replace("_", r"\_") + "}"),
    (re.compile("∝"), r"\\propto "),
    (re.compile("≤"), r"\\leq "),
    (re.compile(r"\s+"), " "),
]

DRAW = {Path.MOVETO: "M", Path.LINETO: "L", Path.CURVE3: "Q", Path.CURVE4: "C", Path.CLOSEPOLY: "Z"}


class RstDocstrings(griffe.Extension):
    """Rewrites every docstring of the package as Markdown, once it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value, obj)


def as_markdown(text: str, obj: griffe.Object) -> str:
    """Return a docstring with its reStructuredText as Markdown and HTML."""
    text = MATH_BLOCK.sub(_block, text)
    text = MATH_INLINE.sub(lambda m: svg(m[1]), text)
    text = ROLE.sub(lambda m: _reference(m["name"], short=bool(m["short"]), obj=obj), text)
    text = CITATION.sub(r"\1\2. ", text)
    text = CITED.sub(r" [\1]", text)
    text = TYPE.sub(lambda m: m[0].replace("``", ""), text)
    return LITERAL_BLOCK.sub(":", text)


def svg(latex: str, *, display: bool = False) -> str:
    """Return a formula as an inline SVG that stands on the line of the text."""
    spelt = latex.replace(r"\frac", r"\dfrac") if display else latex
    for pattern, replacement in SPELLING:
        spelt = pattern.sub(replacement, spelt)
    with rc_context({"mathtext.fontset": "stix"}):
        drawing = TextPath((0, 0), f"${spelt.strip()}$", size=SIZE)
    box = drawing.get_extents()
    left, bottom, right, top = box.x0 - 0.3, box.y0 - 0.3, box.x1 + 0.3, box.y1 + 0.3
    style = (
        f"width:{(right - left) * SCALE:.2f}em;height:{(top - bottom) * SCALE:.2f}em;"
        f"vertical-align:{bottom * SCALE:.2f}em;max-width:100%"
    )
    return (
        f'<svg role="img" aria-label="{html.escape(latex)}" style="{style}" fill="currentColor" '
        f'viewBox="{left:.1f} {-top:.1f} {right - left:.1f} {top - bottom:.1f}">'
        f'<path d="{_outline(drawing)}"/></svg>'
    )


def _outline(drawing: TextPath) -> str:
    """Return the outline as SVG has it: downwards is positive."""
    parts = []
    for points, code in drawing.iter_segments():
        pairs = points.reshape(-1, 2)
        where = "" if code == Path.CLOSEPOLY else " ".join(f"{x:.2f} {-y:.2f}" for x, y in pairs)
        parts.append(DRAW[Path.code_type(code)] + where)
    return "".join(parts)


def _block(match: re.Match[str]) -> str:
    latex = match["first"] + " " + textwrap.dedent(match["rest"])
    style = "margin:1em 0 1em 1.5em;overflow-x:auto"
    return (
        f'{match["indent"]}<div style="{style}">{svg(" ".join(latex.split()), display=True)}</div>'
    )


def _reference(name: str, *, short: bool, obj: griffe.Object) -> str:
    """Return a link to what is documented, and plain code for what is not."""
    shown = name.rsplit(".", 1)[-1] if short else name
    target = _identifier(name, obj)
    return f"`{shown}`" if target is None else f"[`{shown}`][{target}]"


def _identifier(name: str, obj: griffe.Object) -> str | None:
    bare = name.removeprefix("reprior.")
    head = bare.split(".")[0]
    if head in reprior.__all__:
        return f"reprior.{bare}"
    if head in reprior.metrics.__all__:
        return f"reprior.metrics.{bare}"
    owner = obj if obj.is_class else obj.parent
    if (
        owner is not None
        and owner.is_class
        and owner.name in reprior.__all__
        and name in owner.members
    ):
        return f"reprior.{owner.name}.{name}"
    return None
