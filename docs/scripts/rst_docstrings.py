"""Let mkdocstrings show reStructuredText in docstrings: formulas, cross-references, citations.

A griffe extension, named in mkdocs.yml. The docstrings keep ``.. math::`` and ``:func:``, which
Python's own tools know. Formulas become those of
``pymdownx.arithmatex``, which KaTeX draws.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

import reprior

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

# KaTeX wants an underscore in text escaped, as LaTeX does.
TEXT = re.compile(r"\\(?:text|mathrm)\{([^}]*)\}")


class RstDocstrings(griffe.Extension):
    """Rewrites every docstring of the package as Markdown, once it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value, obj)


def as_markdown(text: str, obj: griffe.Object) -> str:
    """Return a docstring with its reStructuredText as Markdown and HTML."""
    text = MATH_BLOCK.sub(_block, text)
    text = MATH_INLINE.sub(lambda m: f"${formula(m[1])}$", text)
    text = ROLE.sub(lambda m: _reference(m["name"], short=bool(m["short"]), obj=obj), text)
    text = CITATION.sub(r"\1\2. ", text)
    text = CITED.sub(r" [\1]", text)
    text = TYPE.sub(lambda m: m[0].replace("``", ""), text)
    return LITERAL_BLOCK.sub(":", text)


def formula(latex: str) -> str:
    """Return LaTeX on one line, as KaTeX reads it."""
    return TEXT.sub(lambda m: m[0].replace("_", r"\_"), " ".join(latex.split()))


def _block(match: re.Match[str]) -> str:
    latex = match["first"] + " " + textwrap.dedent(match["rest"])
    return f"{match['indent']}$$\n{match['indent']}{formula(latex)}\n{match['indent']}$$"


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
