"""Names of a package that are loaded when they are first asked for, so that importing it stays cheap."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package, from the one list of names in its source.

    The list is what the package imports under `if TYPE_CHECKING:`, each name `as` itself: so checkers and
    editors see public names. What it imports from itself is a module of its own. The loader of the package
    finds the source in an archive, too.
    """
    loader: Any = sys.modules[package].__loader__
    homes = listed_names(ast.parse(loader.get_source(package)))

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(homes[name]), name)

    return load, lambda: sorted(homes), sorted(homes)


def listed_names(source: ast.Module) -> dict[str, str]:
    """For each name that a source imports under `if TYPE_CHECKING:`, the module that holds it."""
    return {
        alias.name: node.module or ""
        for block in source.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
