"""Pages that a reader gets through: how many words each has, and how many of its sentences are long."""

from __future__ import annotations

import re
from pathlib import Path

from tests import ROOT

MADE = ("names", "verbs")
"""Folders of pages that `make docs` writes."""
PAGES = {
    str(path.relative_to(ROOT / "docs").with_suffix("")): path
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if path.parent.name not in MADE
}
THEORY = ("theory", "theory-simplex", "theory-tables", "theory-alarms", "theory-baselines")
MOST_WORDS = 1500
MOST_WORDS_TOGETHER = 70_000
LONG = 40
MOST_LONG_SENTENCES = 20


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
    counts = {name: words(page) for name, page in PAGES.items()}
    assert {name: n for name, n in counts.items() if n > MOST_WORDS and name not in THEORY} == {}
    assert sum(counts.values()) + words(ROOT / "README.md") <= MOST_WORDS_TOGETHER


def test_few_sentences_are_long():
    found = [f"{name}: {one}" for name in PAGES if name not in THEORY for one in long_sentences(PAGES[name])]
    assert len(found) <= MOST_LONG_SENTENCES, "\n".join(found)


def test_sentences_are_found_in_paragraphs_lists_and_tables():
    text = "# A heading\n\nOne, two. *Three* [four](page.md)!\n\n- Five\n- six `of code`\n\n"
    found = [" ".join(one.split()) for one in sentences(text + "| seven | eight. Nine |\n")]
    expected = ["One, two.", "*Three* four!", "Five", "six code", "seven", "eight.", "Nine"]
    assert [one for one in found if one] == expected
