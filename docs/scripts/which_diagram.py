"""Draw the decision diagram of ``docs/which.md``: questions on the left, what to use on the right.

::

    python docs/scripts/which_diagram.py
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

OUT = Path(__file__).resolve().parents[1] / "figures" / "which.svg"

#: Question, answer that leads to the right, what to use, and how it is written.
STEPS = (
    ("Is the class mix in use known,\nor is every class to count alike?", "no",
     "estimate it from unlabelled scores", 'estimate_target_prior · PriorTracker'),
    ("Is there a number that says\nhow good the decisions are?", "yes: a metric",
     "tune the strength for it", 'metric="macro_f1"'),
    ("… and a second one that must\nnot get worse?", "yes",
     "set a limit", 'subject_to="mean_iou >= baseline - 0.005"'),
    ("Do some classes still come out\nwrong, and have labels enough?", "yes",
     "tune a bias for every class", 'tune="per_class"'),
    ("Does somebody read the\nprobabilities, or add costs to them?", "yes",
     "fit temperature and strength to them", 'metric="log_loss" · temperature="fit"'),
    ("… and the decisions have a metric\nof their own?", "yes",
     "hold two maps", 'separate=True'),
    ("Are there few labels, or is\nmuch at stake?", "yes",
     "ask how far to trust it", 'cv=5 · n_bootstrap=1000 · selection=…'),
)  # fmt: skip

LEFT, WIDE, RIGHT, BROAD, STEP, HIGH = 20, 270, 400, 380, 84, 54
INK, FAINT, QUESTION, ANSWER = "#24324a", "#7a869a", "#e8ecf7", "#e2f2e9"
CENTRED = f'text-anchor="middle" font-style="italic" fill="{FAINT}"'


def text(x: float, y: float, words: str, *, size: int = 14, style: str = "") -> str:
    """One line of text."""
    return f'<text x="{x}" y="{y}" font-size="{size}" {style}>{escape(words)}</text>'


def box(x: float, y: float, wide: float, colour: str) -> str:
    """A rounded box."""
    return (
        f'<rect x="{x}" y="{y}" width="{wide}" height="{HIGH}" rx="8" fill="{colour}" '
        f'stroke="{FAINT}"/>'
    )


def arrow(path: str) -> str:
    """A line that ends in an arrow head."""
    return f'<path d="{path}" stroke="{FAINT}" stroke-width="1.5" marker-end="url(#head)"/>'


def step(i: int) -> list[str]:
    """A question, its answer, and the arrow to the next question."""
    question, answer, use, written = STEPS[i]
    y = 20 + i * STEP
    first, second = question.split("\n")
    middle = y + HIGH / 2
    mono = f'font-family="monospace" fill="{INK}"'
    drawn = [
        box(LEFT, y, WIDE, QUESTION),
        text(LEFT + 12, y + 23, first),
        text(LEFT + 12, y + 42, second),
        arrow(f"M{LEFT + WIDE} {middle} H{RIGHT - 8}"),
        text((LEFT + WIDE + RIGHT) / 2 - 4, middle - 7, answer, size=12, style=CENTRED),
        box(RIGHT, y, BROAD, ANSWER),
        text(RIGHT + 12, y + 23, use),
        text(RIGHT + 12, y + 42, written, size=13, style=mono),
    ]
    if i + 1 < len(STEPS):
        down = f"M{LEFT + WIDE / 2} {y + HIGH} V{y + STEP - 8}"
        drawn.append(arrow(down))
    return drawn


HEAD = (
    '<defs><marker id="head" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="8" '
    f'markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{FAINT}" stroke="none"/>'
    "</marker></defs>"
)


def main() -> None:
    """Write the diagram."""
    wide, high = RIGHT + BROAD + 20, 20 + len(STEPS) * STEP - (STEP - HIGH) + 20
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
        f'font-family="sans-serif" fill="{INK}" role="img">',
        "<title>Which of these do I need?</title>",
        HEAD,
        f'<rect width="{wide}" height="{high}" fill="white"/>',
        *(line for i in range(len(STEPS)) for line in step(i)),
        "</svg>",
    ]
    OUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
