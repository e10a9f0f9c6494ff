"""The public signatures and the options of every verb, a line each."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import onlinecal
from onlinecal.simulations.cli.console import app

SURFACE = Path(__file__).with_name("surface.txt")


def surface() -> list[str]:
    """Public names with their parameters and attributes, then verbs with their options."""
    return sorted(set(names())) + sorted(options())


def public_things() -> Iterator[tuple[str, str, Any]]:
    """The modules that users import from, the names that each gives out, and what these stand for."""
    inside = pkgutil.walk_packages(onlinecal.__path__, "onlinecal.")
    public = [info.name for info in inside if info.ispkg or info.name == "onlinecal.reference"]
    for module in [onlinecal, *map(importlib.import_module, public)]:
        for name in getattr(module, "__all__", ()):
            yield module.__name__, name, getattr(module, name)


def names() -> Iterator[str]:
    for module, name, thing in public_things():
        yield from described(f"{module}.{name}", thing)


def described(name: str, thing: Any) -> Iterator[str]:
    yield name + (parameters(thing) if callable(thing) else "")
    if isinstance(thing, type):
        own = (one for one in thing.__mro__ if one.__module__.split(".")[0] == "onlinecal")
        for attribute in sorted({key for one in own for key in vars(one) if not key.startswith("_")}):
            yield f"{name}.{attribute}"


def parameters(thing: Any) -> str:
    try:
        found = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return "(...)"
    shown = []
    for one in found:
        if one.kind is one.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        has_default = one.default is not one.empty and "0x" not in repr(one.default)
        shown.append(f"{one.name}={one.default!r}" if has_default else one.name)
    return f"({', '.join(shown)})"


def options() -> Iterator[str]:
    def walk(name: str, command: Any) -> Iterator[str]:
        if hasattr(command, "commands"):
            for verb, inner in command.commands.items():
                yield from walk(f"{name} {verb}", inner)
        given = [" ".join(one.opts) for one in command.params]
        yield from (f"{name} {option}" for option in given)

    return walk("onlinecal", typer.main.get_command(app))
