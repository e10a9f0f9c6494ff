"""Names of a package that are loaded when they are first asked for, so that importing it stays cheap."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from importlib import import_module
from types import CodeType
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package, from the one list of names in its source.

    The list is what the package imports under `if TYPE_CHECKING:`, each name `as` itself: so checkers and
    editors see public names. What it imports from itself is a module of its own. The list is read from the
    package's compiled code, which every loader has, whether or not there is a source. A name is kept in the
    package once it is loaded.
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
    if not any(found.argval == "TYPE_CHECKING" and found.opname == "LOAD_NAME" for found in instructions):
        return {}
    end = next(found.argval for found in instructions if found.opname.startswith("POP_JUMP"))
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
