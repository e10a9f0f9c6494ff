"""The house stays within the budget that CONTRIBUTING.md gives it: lines a part, modules, lines a module."""

from __future__ import annotations

import re

import pytest

from tests import ROOT

PARTS = re.findall(
    r"^\| `(\S+)` \| ([\d,]+) \|$", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), flags=re.MULTILINE
)
SOURCE = ("onlinecal", "adversaries", "simulations")
MOST_LINES = 600


def modules(folder: str) -> list:
    return sorted((ROOT / folder).rglob("*.py"))


def lines(paths: list) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def test_every_part_of_the_house_has_a_budget():
    folders = {f"onlinecal/{path.name}" for path in (ROOT / "onlinecal").iterdir() if list(path.glob("*.py"))}
    assert {part for part, _ in PARTS} == {*folders, "onlinecal/*.py", "adversaries", "simulations", "tests"}


@pytest.mark.parametrize("part, budget", PARTS, ids=[part for part, _ in PARTS])
def test_a_part_stays_within_its_budget(part, budget):
    paths = sorted((ROOT / "onlinecal").glob("*.py")) if part == "onlinecal/*.py" else modules(part)
    assert lines(paths) <= int(budget.replace(",", "")), f"{part} has grown: take something out of it"


def test_no_module_is_too_long():
    assert [str(path) for folder in SOURCE for path in modules(folder) if lines([path]) > MOST_LINES] == []
