"""Imports go one way: as the table in CONTRIBUTING.md says, and nowhere in a circle."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import TopologicalSorter

from onlinecal.lazy import listed_names
from tests import FOLDERS, ROOT, source_files, source_trees

SHARED = "onlinecal/*.py"
START = "onlinecal/__main__.py"
FILES = source_files()


@cache
def lazy() -> dict[str, dict[str, str]]:
    """The lazy names of every package, with the modules that define them."""
    packages = {name: path for name, path in FILES.items() if path.name == "__init__.py"}
    return {name: listed_names(compile(path.read_text(), path, "exec")) for name, path in packages.items()}


def folder(module: str) -> str:
    """The row of the table that a module belongs to."""
    _, *rest = module.split(".")
    if rest == ["__main__"]:
        return START
    if not rest or not (ROOT / "onlinecal" / rest[0]).is_dir():
        return SHARED
    return rest[0] if rest[0] in FOLDERS else f"onlinecal/{rest[0]}"


def home(base: str, name: str) -> str:
    """The module that `from base import name` loads; one that a package lists of itself is a module."""
    while (next_one := lazy().get(base, {}).get(name, base)) != base:
        base = next_one
    return f"{base}.{name}"


def imports(name: str, nodes: list[ast.AST]) -> set[str]:
    """The other modules of the package that statements import; lazy names count where they live."""
    wanted = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            wanted.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                own = name.split(".") if FILES[name].name == "__init__.py" else name.split(".")[:-1]
                base = ".".join([*own[: len(own) + 1 - node.level], *filter(None, [node.module])])
            wanted.update(home(base, alias.name) for alias in node.names)
    ours = {one for one in wanted if one.split(".")[0] == "onlinecal"}
    return {one if one in FILES else one.rpartition(".")[0] for one in ours} - {name}


def at_loading(node: ast.AST) -> list[ast.AST]:
    """The statements that run when a module is loaded, but not those for type checkers only."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return []
    return [node, *(found for child in ast.iter_child_nodes(node) for found in at_loading(child))]


def table() -> dict[str, set[str]]:
    """What each row of the table allows."""
    rows = re.findall(r"^\| `([\w/*.]+)` \|.*\| ([^|]*) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.M)
    allowed: dict[str, set[str]] = {}
    for name, cell in rows:
        above = cell == "all of the above"
        allowed[name] = set(allowed) if above else set(re.findall(r"`([\w/*.]+)`", cell))
    return {name: found for name, found in allowed.items() if name != "tests"}


@cache
def real() -> dict[str, set[str]]:
    """What each row of the table does import."""
    rows: dict[str, set[str]] = {}
    for name, tree in source_trees().items():
        # a package that lists lazy names loads none of them
        nodes = at_loading(tree) if lazy().get(name) else list(ast.walk(tree))
        found = {folder(module) for module in imports(name, nodes)}
        rows.setdefault(folder(name), set()).update(found - {folder(name)})
    return rows


def test_nothing_is_imported_that_the_table_does_not_allow_for_its_folder():
    allowed = table()
    assert set(real()) == set(allowed)
    wrong = {name: found - allowed[name] for name, found in real().items() if found - allowed[name]}
    assert not wrong


def test_the_table_allows_nothing_that_is_not_done():
    for name, allowed in table().items():
        if name not in ("simulations", "onlinecal/cli"):
            assert allowed <= real()[name], name


def test_neither_the_table_nor_what_modules_load_has_circles():
    order = list(TopologicalSorter(table()).static_order())
    assert order.index("onlinecal/measures") < order.index("onlinecal/wrappers")
    graph = {name: imports(name, at_loading(tree)) for name, tree in source_trees().items()}
    assert graph["onlinecal.wrappers.calibrated_classifier"] >= {"onlinecal.wrappers.strategies.plan"}
    assert len(list(TopologicalSorter(graph).static_order())) == len(FILES)


def test_the_folders_that_onlinecal_links_to_are_imported_as_parts_of_it():
    """Under a name of their own they would be a second copy, or what a user has of that name."""
    name = r"(?:adversaries|simulations)"
    alone = re.compile(rf"^\W*import {name}\b|\bfrom {name}[\w.]* import\b|-m {name}\b", re.M)
    assert alone.search(">>> import adversaries")
    folders = [*FOLDERS, "tests", "docs", "findings", ".github", "deploy"]
    files = [
        ROOT / "Makefile",
        *ROOT.glob("*.*"),
        *(path for name in folders for path in (ROOT / name).rglob("*.*")),
    ]
    kinds = {"", ".py", ".md", ".toml", ".yml", ".yaml", ".sh", ".ipynb"}
    texts = {
        path: path.read_text(encoding="utf-8") for path in files if path.is_file() and path.suffix in kinds
    }
    assert len(texts) > 500
    assert {str(path): found[0] for path, text in texts.items() if (found := alone.search(text))} == {}
