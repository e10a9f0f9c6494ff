"""The tests; and where things are that several of them read."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data"
"""Data sets that are no part of the project; tests that need them are skipped without."""
FOLDERS = {
    "onlinecal": "onlinecal",
    "adversaries": "onlinecal.adversaries",
    "simulations": "onlinecal.simulations",
}
"""The folders of the source with the packages that they are; `onlinecal` has links to the other two."""


def source_files() -> dict[str, Path]:
    """Every source file by the name of its module."""
    return {
        ".".join([package, *path.relative_to(ROOT / folder).with_suffix("").parts]).removesuffix(
            ".__init__"
        ): path
        for folder, package in FOLDERS.items()
        for path in (ROOT / folder).rglob("*.py")
    }


@cache
def source_trees() -> dict[str, ast.Module]:
    """What every source file says, by the name of its module: read by whoever runs tests that look."""
    return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in source_files().items()}
