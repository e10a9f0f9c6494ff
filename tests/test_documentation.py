"""What the documentation shows is true: examples run, links lead somewhere, top-level names exist."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import adversaries
import onlinecal
import simulations
from tests import ROOT

MODULES = [
    info.name
    for package in (onlinecal, adversaries, simulations)
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if not info.name.endswith("__main__")
]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]


def blocks(page: str) -> list[str]:
    """The Python blocks of a page, in order."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_are_true(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_lines_of_python_in_the_readme_run(capsys, without_extras):
    names = {"forecasts": [0.2, 0.8, 0.6], "outcomes": [0, 1, 1]}
    for block in blocks("README.md"):
        exec(block, names)
    *_, certificate = capsys.readouterr().out.split()
    assert float(certificate) < 0.05


@pytest.mark.parametrize("page", [page.name for page in PAGES if page.name != "scale.md"])
def test_pages_import_what_comes_with_the_package(page):
    """By the page on Spark alone pandas and others are wanted, and it says so."""
    base = {
        "adversaries",
        "onlinecal",
        "simulations",
        "numpy",
        "numba",
        "scipy",
        "river",
        "sklearn",
        "polars",
    }
    for block in blocks(page if page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md") else f"docs/{page}"):
        for node in ast.walk(ast.parse(block)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert {name.partition(".")[0] for name in names} <= base | set(sys.stdlib_module_names)


@pytest.mark.parametrize("page", ["adversaries", "engine", "gallery", "measures", "multiclass"])
def test_the_blocks_of_a_page_run_and_print_what_stands_beside_them(
    page, monkeypatch, tmp_path, capsys, without_extras
):
    """The other pages with Python have tests of their own."""
    from adversaries import registry

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry._CATALOGUE, "entries", registry.catalogue())
    Path("games.csv").write_text("date,won\n2,0\n1,1\n3,1\n")
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks(f"docs/{page}.md"):
        exec(block, names)
        printed = iter(capsys.readouterr().out.splitlines())
        for comment in re.findall(r"^(?:print\(.*)?\)  # ([\d\[T].*)$", block, re.MULTILINE):
            assert any(re.match(re.escape(line) + r"([:,]|$)", comment) for line in printed), comment


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_theory_names_tests_that_exist():
    for path in re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / "docs/theory.md").read_text()):
        assert (ROOT / path).exists(), path


def test_every_top_level_name_can_be_imported():
    for name in onlinecal.__all__:
        assert getattr(onlinecal, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Forecastr'"):
        onlinecal.Forecastr  # noqa: B018


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
