"""How a command's help shows an example."""

from __future__ import annotations

__all__ = ["PROMPT", "shows"]

PROMPT = "$ "


def shows(*lines: str, first: str = "Example:") -> str:
    r"""Return the end of a help text: a line to run, or several, kept as they are.

    Examples
    --------
    >>> print(shows("reprior demo -o demo").replace("\b", "(kept)"))
    (kept)
    Example:
      $ reprior demo -o demo
    """
    shown, begins = ["\b", first], True
    for line in lines:
        shown.append(f"  {PROMPT if begins else ' ' * len(PROMPT)}{line}")
        begins = not line.endswith("\\")
    return "\n".join(shown)
