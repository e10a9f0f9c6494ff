"""Pages are short, what they name is there, and examples in docstrings are true; `test_pages.py` runs."""

from __future__ import annotations

import ast
import doctest
import importlib
import math
import pkgutil
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import onlinecal
from tests import ROOT

WITH_EXAMPLES = [
    info.name
    for info in pkgutil.walk_packages(onlinecal.__path__, "onlinecal.")
    if ">>>" in Path(find_spec(info.name).origin).read_text(encoding="utf-8")
]
"""Modules: looking for examples where there are none took longer than the examples take."""
MADE = ("names", "verbs")
"""Folders of pages that `make docs` writes."""
PAGES = [*ROOT.glob("*.md"), *(path for path in ROOT.glob("docs/**/*.md") if path.parent.name not in MADE)]

THEORY = ("theory", "theory-simplex", "theory-tables", "theory-alarms", "theory-baselines")
MOST_WORDS = 1500
MOST_WORDS_TOGETHER = 45_000
"""But for the theory, which proves what is proved at the length that takes."""
LONG = 40
MOST_LONG_SENTENCES = 20


def anchors(page: Path) -> set[str]:
    """What links to headings of a page say, as forges make them of the headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = [re.sub(r"\]\([^)]*\)", "", heading) for heading in re.findall(r"^#+ (.*)$", text, re.M)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_in_the_docstrings_are_true(name):
    tried = doctest.testmod(importlib.import_module(name))
    assert tried.attempted > 0
    assert tried.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    for target, anchor in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
        goal = page.parent / target if target else page
        assert goal.exists() or goal.parent.name in MADE, target
        assert not anchor or anchor in anchors(goal), f"{target}#{anchor}"


def test_pages_name_tests_that_exist():
    for page in PAGES:
        for path in re.findall(r"\btests/[\w/]+\.py\b", page.read_text()) if page.stem != "CHANGELOG" else ():
            assert (ROOT / path).exists(), f"{page.name}: {path}"


@pytest.mark.parametrize("package", ["measures", "metrics", "wrappers"])
def test_what_the_pages_name_can_be_imported(package):
    """Every public function or class of the package that a page names is exported by it."""
    pages = " ".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"`(?:\w+\.)*(\w+)(?:\([^`]*\))?`", pages))
    module = importlib.import_module(f"onlinecal.{package}")
    for path in (ROOT / "onlinecal" / package).rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in named:
                assert node.name in module.__all__, f"{path.name}: {node.name}"
                assert getattr(module, node.name) is not None


def guarantee_of_a_stream(n_rows: int, waiting: int) -> float:
    """That of so many rows, during each of which so many others wait; a sum over rows."""
    rng = np.random.default_rng(0)
    said, rows = rng.random(n_rows), np.arange(n_rows)
    came = rng.random(n_rows) < said
    settled_at = rows + waiting + 0.5
    return onlinecal.recalibrate_stream(said, came, times=rows, settled_at=settled_at).guarantee


def test_the_guarantees_that_pages_tell_are_those_of_streams_rounded_up():
    told_in = {
        "README.md": ("before the next forecast, it is", "A *certificate*"),
        "docs/index.md": ("before the next forecast, it is", "A *certificate*"),
        "docs/late-labels.md": ("The **guarantee** in plain words", "The **certificate**"),
    }
    games = [(n_rows, waiting) for waiting in (0, 10, 100) for n_rows in (1_000, 10_000)]
    guarantees = {game: guarantee_of_a_stream(*game) for game in games}
    for page, (start, end) in told_in.items():
        passage = (ROOT / page).read_text(encoding="utf-8").partition(start)[2].partition(end)[0]
        told = re.findall(r"\d*\.\d+", passage)
        assert len(told) == (6 if page == "docs/late-labels.md" else 4)
        for per_row, (n_rows, waiting) in zip(told, games, strict=False):
            units = 10 ** len(per_row.partition(".")[2])
            exact = guarantees[n_rows, waiting] / n_rows
            assert math.ceil(exact * units) == round(float(per_row) * units), (page, n_rows, waiting)

    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "| √(18t) |" in readme
    assert "√((18 √(1 + 4D) + 9D) t) + 5/2 √(1 + 4D) + 2 (D + 1)" in readme
    for (n_rows, waiting), guarantee in guarantees.items():
        root = math.sqrt(1 + 4 * waiting)
        slope = 18 * root + 9 * waiting
        assert guarantee <= math.sqrt(slope * n_rows) + 5 / 2 * root + 2 * (waiting + 1)
        assert waiting > 0 or guarantee <= math.sqrt(18 * n_rows)


def words(page: Path) -> int:
    """Everything between blanks: tables and code are read, too."""
    return len(page.read_text(encoding="utf-8").split())


def sentences(text: str) -> list[str]:
    """The sentences of a page: of paragraphs, items of lists and cells of tables, without code and links."""
    text = re.sub(r"^```.*?^```\n|^:::.*?\n|^:\w+:.*?\n|^\$\$.*?\$\$", "\n", text, flags=re.M | re.S)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`|\$[^$\n]+\$", "code", text)
    text = re.sub(r"^ *(?:[-*+]|\d+\.) |^#+ .*$|^: ", "\n\n", text, flags=re.M)
    text = re.sub(r"^\|.*$", lambda row: row[0].replace("|", "\n\n"), text, flags=re.M)
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        found += re.split(r"(?<=[.!?:])[)*_\"]*\s+(?=[^a-z\s])", paragraph)
    return found


def long_sentences(page: Path) -> list[str]:
    """Those of more than 40 words."""
    return [one for one in sentences(page.read_text(encoding="utf-8")) if len(one.split()) > LONG]


def test_pages_are_short_alone_and_together():
    pages = [page for page in PAGES if page.is_relative_to(ROOT / "docs") and page.stem not in THEORY]
    counts = {page: words(page) for page in pages}
    assert [page for page, n in counts.items() if n > MOST_WORDS] == []
    assert sum(counts.values()) + words(ROOT / "README.md") <= MOST_WORDS_TOGETHER


def test_few_sentences_are_long():
    pages = [page for page in PAGES if page.is_relative_to(ROOT / "docs") and page.stem not in THEORY]
    found = [f"{page.stem}: {one}" for page in pages for one in long_sentences(page)]
    assert len(found) <= MOST_LONG_SENTENCES, "\n".join(found)


def test_sentences_are_found_in_paragraphs_lists_and_tables():
    text = "# A heading\n\nOne, two. *Three* [four](page.md)!\n\n- Five\n- six `of code`\n\n"
    found = [" ".join(one.split()) for one in sentences(text + "| seven | eight. Nine |\n")]
    expected = ["One, two.", "*Three* four!", "Five", "six code", "seven", "eight.", "Nine"]
    assert [one for one in found if one] == expected
