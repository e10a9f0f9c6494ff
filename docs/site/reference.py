"""The pages of the reference, written anew at every build: one a public name, one a verb of the command."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from sphinx.pycode import ModuleAnalyzer
from typer.cli import get_docs_for_click

import adversaries
import onlinecal
from simulations.cli.console import app as command

# what else has an `__all__` is the house's own
PACKAGES = {
    "onlinecal": "The names that most programs need; what else there is stands in the packages below.",
    "onlinecal.forecasters": "They forecast first and learn the outcome second.",
    "onlinecal.wrappers": "A classifier, a regressor or a column of probabilities in, calibrated forecasts out.",
    "onlinecal.recalibration": "A fixed model's table of probabilities in, a better one out.",
    "onlinecal.measures": "How far from calibrated: pure functions on arrays.",
    "onlinecal.metrics": "The same as metrics of river.",
    "onlinecal.alarms": "Alarms when forecasts stop being calibrated.",
    "onlinecal.plots": "Pictures of one's own arrays, drawn on any Axes.",
    "onlinecal.engine": "Events in, answers out: many keys, late labels, a ledger.",
    "onlinecal.engine.spark": "The engine and the recalibrators on Spark.",
    "adversaries": "Who produces the outcomes.",
}


def public_names() -> dict[str, dict[str, Any]]:
    """For each public package, its names with what they stand for, each object in one package alone."""
    found: dict[str, dict[str, Any]] = {}
    seen: set[int] = set()
    for package in PACKAGES:
        module = importlib.import_module(package)
        names = {name: getattr(module, name) for name in module.__all__ if not name.startswith("__")}
        found[package] = {name: thing for name, thing in names.items() if id(thing) not in seen}
        seen |= {id(thing) for thing in found[package].values()}
    return found


def write(folder: Path) -> None:
    """Write the pages into the folders `names` and `verbs`; what is there already and the same stays."""
    pages = {**dict(pages_of_names()), **dict(pages_of_verbs())}
    for path in [*folder.glob("names/*.md"), *folder.glob("verbs/*.md")]:
        if str(path.relative_to(folder)) not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def pages_of_names() -> Iterator[tuple[str, str]]:
    """A page for each public name, and one for each package, which lists them."""
    for package, things in public_names().items():
        full = [f"{package}.{name}" for name in things]
        yield f"names/{package}.md", page_of_package(package, full)
        for name, thing in zip(full, things.values(), strict=True):
            yield f"names/{name}.md", page_of_name(package, name, thing)


def page_of_package(package: str, names: list[str]) -> str:
    """Its names with the first sentences of their docstrings."""
    table = "\n".join(
        [
            "```{eval-rst}",
            ".. autosummary::",
            "   :nosignatures:",
            "",
            *(f"   {name}" for name in names),
            "```",
        ]
    )
    tree = "\n".join(
        ["```{toctree}", ":hidden:", "", *(f"{name.rpartition('.')[2]} <{name}>" for name in names), "```"]
    )
    return f"# {package}\n\n{PACKAGES[package]}\n\n{table}\n\n{tree}\n"


def page_of_name(package: str, name: str, thing: Any) -> str:
    """What its docstring says, with the public members of a class."""
    short = name.rpartition(".")[2]
    if inspect.isclass(thing):
        rest = [f".. autoclass:: {name}", "   :members:", "   :inherited-members:"]
    elif inspect.isroutine(thing):
        rest = [f".. autofunction:: {name}"]
    else:
        rest = [f".. py:data:: {name}", "", *(f"   {line}" for line in said_of(package, short))]
    return "\n".join(
        [f"# {short}", "", f"`from {package} import {short}`", "", "```{eval-rst}", *rest, "```", ""]
    )


def said_of(package: str, name: str) -> list[str]:
    """The lines of the text below the assignment of a public name that is no class and no function."""
    while True:
        tree = ast.parse(inspect.getsource(importlib.import_module(package)))
        homes = {
            alias.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        if name not in homes:
            break
        package = homes[name] or ""
    told = ModuleAnalyzer.for_module(package).find_attr_docs()
    return told.get(("", name), [])


def pages_of_verbs() -> Iterator[tuple[str, str]]:
    """A page for each verb of the command, with its arguments and options as its --help tells them."""
    group = typer.main.get_command(command)
    context = typer.Context(group, info_name="onlinecal")
    for name, verb in group.commands.items():
        text = get_docs_for_click(obj=verb, ctx=context, name=name, call_prefix="onlinecal")
        yield f"verbs/{name}.md", as_markdown(text)


def as_markdown(text: str) -> str:
    """The help as a page: examples become blocks, what looks like mark-up is what it says."""
    text = re.sub(r"^\[bold\](.*)\[/bold\]\n", r"```sh\n\1\n```\n", text, flags=re.M)
    text = text.replace("```\n\n```sh\n", "")
    text = re.sub(r"\[/?bold\]", "", text)
    return re.sub(r"(?<!^)\$(?! onlinecal)", r"\\$", text)


def links() -> dict[str, str]:
    """Where a name between backticks leads: to its page, if it is public and there is one such name."""
    full = [f"{package}.{name}" for package, things in public_names().items() for name in things]
    last = Counter(name.rpartition(".")[2] for name in full)
    return {short: name for name in full if last[short := name.rpartition(".")[2]] == 1} | dict(
        zip(full, full)
    )


LINKS = links()
CODE = re.compile(r"(``[^`]+``|`[^`]+`)")


def as_restructured(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Signs of formulas are what they are, outside code and examples: docstrings are plain text."""
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example and not re.fullmatch(r"\s*[-=~*]+", line):
            lines[i] = "".join(map(piece, CODE.split(line)))


def piece(text: str) -> str:
    """Of a line of a docstring: code, as a link where it is a public name, or what stands between."""
    if not CODE.fullmatch(text):
        return re.sub(r"([|*\\`]|(?<=\w)_(?!\w))", r"\\\1", text)
    name = text.strip("`")
    return f":py:obj:`{name} <{LINKS[name]}>`" if name in LINKS else f"``{name}``"


def skipped(_app: Any, _what: str, _name: str, thing: Any, skip: bool, _options: Any) -> bool:
    """Members that come from river, scikit-learn or Python are told there."""
    function = getattr(thing, "fget", None) or inspect.unwrap(getattr(thing, "__func__", thing))
    home = getattr(function, "__module__", None) or ""
    return skip or not home.startswith(("onlinecal", "adversaries"))
