"""What the site needs beside Markdown: where search looks first, and links that lead somewhere.

A hook of MkDocs, named in mkdocs.yml. MkDocs checks links between pages; links in finished pages,
to files that are not pages and to scripts and pictures, are checked here.
"""

from __future__ import annotations

import logging
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

#: Pages that a search should show before, or after, others with the same words.
BOOST = {
    "index.md": 3.0,
    "tutorial.md": 2.0,
    "source-prior.md": 3.0,
    "metrics.md": 2.0,
    "per-class.md": 2.0,
    "segmentation.md": 2.0,
    "ship.md": 2.0,
    "changelog.md": 0.2,
    "held-out-study.md": 0.3,
    "benchmarks.md": 0.3,
    "binary-search-study.md": 0.4,
    "results-cifar.md": 0.4,
    "results-synthia.md": 0.4,
    "reproduce.md": 0.5,
    "compare-methods.md": 0.5,
    "architecture.md": 0.5,
    "robustness.md": 0.5,
}

LOG = logging.getLogger("mkdocs.hooks.site")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Give a page its weight in searches."""
    if page.file.src_uri in BOOST:
        page.meta.setdefault("search", {})["boost"] = BOOST[page.file.src_uri]
    return markdown


def on_post_build(*, config: Any, **_: Any) -> None:
    """Warn of local links that lead nowhere; with --strict they are errors."""
    site = Path(config.site_dir)
    for link, page in sorted(broken_links(site)):
        LOG.warning("%s has a link to %s, which is not in the site.", page, link)


def broken_links(site: Path) -> set[tuple[str, str]]:
    """Return local links without a file, each with its page."""
    broken = set()
    for path in site.rglob("*.html"):
        if path.name == "404.html":  # its links are from the root of a server
            continue
        reader = _Links()
        reader.feed(path.read_text(encoding="utf-8"))
        for link in reader.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or not parts.path:
                continue
            target = (path.parent / unquote(parts.path)).resolve()
            if not (target / "index.html" if target.is_dir() else target).exists():
                broken.add((link, str(path.relative_to(site))))
    return broken


class _Links(HTMLParser):
    """Collects what a page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, _tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the links of an element."""
        self.links += [value for name, value in attrs if name in ("href", "src") and value]
