"""Show notebooks as pages of the site. A hook of MkDocs, named in mkdocs.yml.

A notebook of docs/notebooks becomes the page of the same name, with the outputs that are stored in
it, and can be downloaded. ``python -m docs.scripts.notebooks`` runs all of them and stores their
outputs; `make test-all` runs them too.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "notebooks"

#: Seconds that one cell may take.
PATIENCE = 300

COLOURS = re.compile("\x1b\\[[0-9;?]*[A-Za-z]")


def on_files(files: Any, *, config: Any) -> Any:
    """Add a page for each notebook."""
    from mkdocs.structure.files import File

    for path in sorted(FOLDER.glob("*.ipynb")):
        text = page(json.loads(path.read_text(encoding="utf-8")), path.name)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
    return files


def page(notebook: dict[str, Any], name: str) -> str:
    """Return a notebook as Markdown, with a link to the file after its title."""
    parts = [part for cell in notebook["cells"] for part in _cell(cell)]
    title, _, rest = "\n\n".join(parts).partition("\n")
    return f"{title}\n\n[Download the notebook]({name}){{ .md-button download }}\n{rest}\n"


def _cell(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    shell = all(line.startswith("!") for line in source.splitlines())
    language = "console" if shell else "python"
    code = re.sub(r"^!", "$ ", source, flags=re.MULTILINE) if shell else source
    return [_fenced(language, code), *map(_output, cell["outputs"])]


def _output(output: dict[str, Any]) -> str:
    """Return HTML as it is, a picture as data, and anything else as text."""
    if output["output_type"] == "stream":
        return _fenced("text", COLOURS.sub("", "".join(output["text"])).rstrip())
    data = {kind: "".join(value) for kind, value in output["data"].items()}
    if "text/html" in data:
        return f'<div class="notebook-output">{_on_one_line(data["text/html"])}</div>'
    if "image/png" in data:
        picture = data["image/png"].replace("\n", "")
        return f'<img alt="What the cell above draws" src="data:image/png;base64,{picture}">'
    return _fenced("text", data["text/plain"])


def _on_one_line(text: str) -> str:
    """Return HTML without line breaks, at which Markdown would begin to read it."""
    return " ".join(line.strip() for line in text.splitlines())


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def executed(path: Path, folder: str) -> Any:
    """Run a notebook in ``folder``; return it with its outputs. An error of a cell is raised."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    scripts = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join([scripts, os.environ["PATH"]])
    resources = {"metadata": {"path": folder}}
    NotebookClient(notebook, timeout=PATIENCE, kernel_name="python3", resources=resources).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times
    return notebook


def main() -> None:
    """Run every notebook and store its outputs."""
    import nbformat

    for path in sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(path, folder), path)
        print("ran", path.name)


if __name__ == "__main__":
    main()
