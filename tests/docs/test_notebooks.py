"""Notebooks of tutorials: the code of their pages, whole, and nothing that shows by accident."""

from __future__ import annotations

import ast
import re
import sys

import pytest

from tests import ROOT
from tests.pages import blocks_of

pytest.importorskip("markdown_it", reason="needs the extra docs")
sys.path.insert(0, str(ROOT / "docs" / "site"))

import notebooks

PAGES = sorted(page for page in ROOT.glob("docs/tutorials/*.md") if page.stem != "index")
QUIET = ("print(", "axes.spines")
"""What a last line may call: it answers with nothing that a notebook would show."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_has_the_code_of_its_page(page):
    book = notebooks.notebook_of(page)
    code = [cell["source"] for cell in book["cells"] if cell["cell_type"] == "code"]
    blocks = blocks_of(page)
    assert code == [notebooks.MAGIC[block.language] + block.code.strip() for block in blocks]
    text = "\n".join(cell["source"] for cell in book["cells"] if cell["cell_type"] == "markdown")
    assert text.startswith("# ")
    assert "```text" not in text
    assert not re.search(r"\]\((?!https?:|#)", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_cell_shows_only_what_it_prints_or_draws(page):
    for block in blocks_of(page):
        if block.language != "sh":
            last = ast.parse(block.code).body[-1]
            called = last.value if isinstance(last, ast.Expr) else None
            assert called is None or ast.unparse(called).startswith(QUIET), block.code
