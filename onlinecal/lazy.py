"""Names of a package that are loaded when they are first asked for, so that importing it stays cheap.

What was loaded is kept as an attribute of the package, and nothing else is. Nothing here may import more than
the standard library: packages that give out names call it while they are being imported. The list is found in
bytecode, by the names of Python's instructions, so a new version of Python may need a change in
`listed_names` (`tests/test_lazy.py`).
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from importlib import import_module
from types import CodeType
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package, from the one list of names in its source.

    The list has the names that the package imports under `if TYPE_CHECKING:`, each `as` itself, so that
    checkers and editors see them as public. A name that it imports from itself is a module of the package.
    The list is read from the package's compiled code, which every loader has, whether or not there is a
    source. A name that was loaded is kept in the package.
    """
    module = sys.modules[package]
    loader: Any = module.__loader__
    homes = listed_names(loader.get_code(package))

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == package:
            return import_module(f"{package}.{name}")
        value = getattr(import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    return load, lambda: sorted({*vars(module), *homes}), sorted(homes)


def listed_names(code: CodeType) -> dict[str, str]:
    """For each name that a module imports under `if TYPE_CHECKING:`, the module that holds it."""
    instructions = iter(dis.get_instructions(code))
    if not any(step.argval == "TYPE_CHECKING" and step.opname == "LOAD_NAME" for step in instructions):
        return {}
    end = next(step.argval for step in instructions if step.opname.startswith("POP_JUMP"))
    homes: dict[str, str] = {}
    home = ""
    for instruction in instructions:
        if instruction.offset >= end:
            break
        if instruction.opname == "IMPORT_NAME":
            home = instruction.argval
        elif instruction.opname == "IMPORT_FROM":
            homes[instruction.argval] = home
    return homes
