"""The tutorials as notebooks, written anew at every build, and a link to each on its page."""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

REPOSITORY = "https://github.com/onlinecal/onlinecal/blob/main/docs"
MAGIC = {"python": "", "sh": "%%sh\n"}
"""What a cell begins with, by the language of its block."""
LINK = re.compile(r"\]\((?![a-z]+:)([^)#]+)")
DOWNLOAD = "\n\n{download}`This page as a notebook <%s.ipynb>`\n"


def cells_of(page: Path) -> list[tuple[str, str]]:
    """The cells of a page: (kind, source), where code alternates with the text around it.

    What a block prints and draws stands below it on the page. The notebook makes that itself, so it is left
    out.
    """
    text = page.read_text(encoding="utf-8")
    lines, cells, done = text.splitlines(keepends=True), list[tuple[str, str]](), 0
    follows_code = False
    for token in MarkdownIt().parse(text):
        if token.map is None or token.level > 0:
            continue
        start, end = token.map
        is_code = token.type == "fence" and token.info in MAGIC
        shown = (token.type == "fence" and token.info == "text") or lines[start].startswith("![")
        if is_code or (shown and follows_code):
            cells.append(("markdown", "".join(lines[done:start])))
            done = end
        if is_code:
            cells.append(("code", MAGIC[token.info] + token.content))
        follows_code = is_code or (shown and follows_code)
    cells.append(("markdown", "".join(lines[done:])))
    return [(kind, source.strip()) for kind, source in cells if source.strip()]


def notebook_of(page: Path) -> dict[str, Any]:
    """A page as a notebook of format 4.5; its links lead to the repository, since they are relative there."""
    folder = page.parent.name

    def absolute(match: re.Match[str]) -> str:
        return f"]({REPOSITORY}/{posixpath.normpath(f'{folder}/{match[1]}')}"

    cells = list[dict[str, Any]]()
    for place, (kind, source) in enumerate(cells_of(page)):
        if kind == "markdown":
            source = LINK.sub(absolute, source)
        cell = {"id": f"cell-{place}", "cell_type": kind, "metadata": {}, "source": source}
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def write(folder: Path) -> None:
    """Write a notebook beside each tutorial in a folder."""
    for page in folder.glob("*.md"):
        if page.stem != "index":
            text = json.dumps(notebook_of(page), ensure_ascii=False, indent=1)
            page.with_suffix(".ipynb").write_text(text + "\n", encoding="utf-8")


def link(_app: Any, name: str, source: list[str]) -> None:
    """Put the link to its notebook below the title of a tutorial."""
    folder, _, stem = name.rpartition("/")
    if folder == "tutorials" and stem != "index":
        title, _, rest = source[0].partition("\n")
        source[0] = title + DOWNLOAD % stem + rest
