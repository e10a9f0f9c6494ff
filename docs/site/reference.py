"""The pages of the reference, written anew at every build: one a public name, one a verb of the command."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any, get_type_hints

import typer
from numpy.typing import ArrayLike
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.typing import stringify_annotation
from typer.cli import get_docs_for_click

from onlinecal.simulations.cli.console import app as command

# what else has an `__all__` is the house's own
PACKAGES = {
    "onlinecal": "The names that most programs need; what else there is stands in the other packages.",
    "onlinecal.reference": "The papers' algorithms in plain Python, to read and to compare with.",
    "onlinecal.forecasters": "They forecast first and learn the outcome second.",
    "onlinecal.wrappers": "A classifier, a regressor or a column of probabilities in, calibrated ones out.",
    "onlinecal.recalibration": "A fixed model's table of probabilities in, a better one out.",
    "onlinecal.measures": "How far from calibrated: pure functions on arrays.",
    "onlinecal.measures.decision": "What measures of decisions answer with.",
    "onlinecal.metrics": "The same as metrics of river.",
    "onlinecal.alarms": "Alarms when forecasts stop being calibrated.",
    "onlinecal.plots": "Pictures of one's own arrays, drawn on any Axes.",
    "onlinecal.engine": "Events in, answers out: many keys, late labels, a ledger.",
    "onlinecal.engine.spark": "The engine, distances of groups and fitted recalibrators on Spark.",
    "onlinecal.datasets": "A small real stream that comes with the package, as data sets of river come.",
    "onlinecal.adversaries": "Who produces the outcomes.",
    "onlinecal.simulations": "Games of forecasters against adversaries.",
}


@cache
def public_names() -> dict[str, dict[str, Any]]:
    """For each public package, its names with what they stand for, each object in one package alone."""
    found: dict[str, dict[str, Any]] = {}
    seen: set[int] = set()
    for package in PACKAGES:
        module = importlib.import_module(package)
        names = {name: getattr(module, name) for name in module.__all__ if not name.startswith("__")}
        found[package] = {
            name: thing
            for name, thing in names.items()
            if id(thing) not in seen and not inspect.ismodule(thing)
        }
        seen |= {id(thing) for thing in found[package].values()}
    return found


def last(name: str) -> str:
    """What a full name ends with."""
    return name.rpartition(".")[2]


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


def block(kind: str, *lines: str) -> str:
    """A directive in a page."""
    return "\n".join([f"```{{{kind}}}", *lines, "```"])


def page_of_package(package: str, names: list[str]) -> str:
    """Its names with the first sentences of their docstrings."""
    table = block("eval-rst", ".. autosummary::", "   :nosignatures:", "", *(f"   {name}" for name in names))
    tree = block("toctree", ":hidden:", "", *(f"{last(name)} <{name}>" for name in names))
    return f"# {package}\n\n{PACKAGES[package]}\n\n{table}\n\n{tree}\n"


def page_of_name(package: str, name: str, thing: Any) -> str:
    """What its docstring says, with the public members of a class."""
    short = last(name)
    if inspect.isclass(thing):
        told = block("eval-rst", f".. autoclass:: {name}", "   :members:", "   :inherited-members:")
    elif inspect.isroutine(thing):
        told = block("eval-rst", f".. autofunction:: {name}")
    else:
        lines = (f"   {line}" for line in said_of(package, short))
        told = block("eval-rst", f".. py:data:: {name}", "", *lines)
    return f"# {short}\n\n`from {package} import {short}`\n\n{told}\n"


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
    return ModuleAnalyzer.for_module(package).find_attr_docs().get(("", name), [])


def pages_of_verbs() -> Iterator[tuple[str, str]]:
    """A page for each verb of the command, with its arguments and options as its --help tells them."""
    group = typer.main.get_command(command)
    context = typer.Context(group, info_name="onlinecal")
    for name, verb in group.commands.items():
        for part in getattr(verb, "commands", {}).values():
            part.short_help = (part.help or "").partition("\n\n")[0]
        text = get_docs_for_click(obj=verb, ctx=context, name=name, call_prefix="onlinecal")
        yield f"verbs/{name}.md", as_markdown(text)


def as_markdown(text: str) -> str:
    """The help as a page: examples become blocks, what looks like mark-up is what it says."""
    text = re.sub(r"^\[bold\](.*)\[/bold\]\n", r"```sh\n\1\n```\n", text, flags=re.M)
    text = text.replace("```\n\n```sh\n", "")
    text = re.sub(r"\[/?bold\]", "", text)
    text = re.sub(r"^(#+ )`(.*)`$", r"\1\2", text, flags=re.M)
    text = re.sub(r"\bdocs/([\w-]+)\.md\b", r"[docs/\1.md](../../\1.md)", text)
    text = re.sub(r"^\* `([A-Z]+)[^`]*`", r"* `\1`", text, flags=re.M)
    text = re.sub(r"(?<!^)\$(?! onlinecal)", r"\\$", text)
    parts = re.split(r"(```.*?```|`[^`]*`)", text, flags=re.S)
    parts[::2] = (re.sub(r"(?<!^)(?<!\*)\*(?!\*)", r"\\*", part, flags=re.M) for part in parts[::2])
    return "".join(parts)


def links() -> dict[str, str]:
    """Where a name between backticks leads: to its page, if it is public and no other is called so."""
    full = [f"{package}.{name}" for package, things in public_names().items() for name in things]
    known = Counter(last(name) for name in full)
    return {name: name for name in full} | {last(name): name for name in full if known[last(name)] == 1}


LINKS = links()
SECTION = re.compile(r"^(?:Parameters|Attributes)\n-+\n.*?(?=^\S[^\n]*\n-+$|\Z)", re.M | re.S)
OURS = "onlinecal"


def docstring_of(thing: Any) -> str:
    """What it says of itself; a class that does not describe its parameters, what its bases say of them."""
    told = inspect.cleandoc(thing.__doc__ or "")
    if inspect.isclass(thing) and not SECTION.search(told):
        bases = [base for base in thing.__mro__[1:] if base.__module__.startswith(OURS)]
        found = (SECTION.search(inspect.cleandoc(base.__doc__ or "")) for base in bases)
        inherited = next((section[0].rstrip() for section in found if section), "")
        start, rest = re.match(r"(.*?)(^\S[^\n]*\n-+\n.*|\Z)", told, re.M | re.S).groups()
        told = "\n\n".join(part for part in (start.rstrip(), inherited, rest) if part)
    return told


CODE = re.compile(r"(``[^`]+``|`[^`]+`)")


def as_restructured(_app: Any, what: str, _name: str, thing: Any, _options: Any, lines: list[str]) -> None:
    """Signs of formulas are what they are, outside code and examples: docstrings are plain text."""
    if what == "class":
        lines[:] = [*docstring_of(thing).split("\n"), ""]
    elif what in ("property", "attribute", "data"):
        # what the first line says before a colon would be taken for a type: a comment comes first
        lines[:0] = ["..", ""]
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example and not re.fullmatch(r"\s*[-=~*]+", line):
            lines[i] = "".join(map(piece, CODE.split(line)))


RETURNS = re.compile(r"^( *)\.\. rubric:: Returns\n+(.*?)(?=^\1(?::raises |\.\. rubric::)|\Z)", re.M | re.S)


def with_returns(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """What a function returns stands beside its parameters; of which type its annotation says."""
    text = RETURNS.sub(lambda found: found[1] + returns(found[2]) + "\n\n", "\n".join(lines))
    # fields of attributes are written out, with a dash of two signs
    text = re.sub(r"^( *(?::\w+: )?(?:\* )?\*\*[^*]+\*\*[^\n]*?) -- ", r"\1 – ", text, flags=re.M)
    lines[:] = short_type(text).split("\n")


def returns(told: str) -> str:
    """A field made of a section: a sentence, or as numpy has it, a type with words below it."""
    first, *rest = dedent(told).strip().split("\n")
    if rest and rest[0].startswith(" "):
        first, *rest = dedent("\n".join(rest)).split("\n")
    return "\n    ".join([f":returns: {first}", *rest])


ARRAYS = {
    re.escape(stringify_annotation(ArrayLike, "smart")): "ArrayLike",
    re.escape(stringify_annotation(ArrayLike, "fully-qualified-except-typing")): "ArrayLike",
    r"~?numpy\.ndarray\[tuple\[[^]]*\], ~?numpy\.dtype\[~?(?:numpy\.)?(\w+)\]\]": r"NDArray[\1]",
    # an alias that has a name of its own, as numpy has it for newer Pythons
    r"~?numpy\._typing\._array_like\.NDArray\[~?(?:numpy\.)?(\w+)\]": r"NDArray[\1]",
    r"~?numpy\._typing\._array_like\.ArrayLike\b": "ArrayLike",
    r"~?collections\.abc\.": "",
}


def with_short_types(app: Any, *_: Any) -> None:
    """Types of arrays as the sources have them, before they are written beside the parameters."""
    for full, kinds in app.env.current_document.autodoc_annotations.items():
        kinds.update({name: short_type(kind) for name, kind in (kinds | parameter_types(full)).items()})


def parameter_types(full: str) -> dict[str, str]:
    """Of a public class the types of its parameters, if all can be found: Sphinx takes names for classes."""
    package, _, name = full.rpartition(".")
    thing = public_names().get(package, {}).get(name)
    try:
        hints = get_type_hints(thing.__init__) if inspect.isclass(thing) else {}
    except NameError:
        return {}
    return {name: stringify_annotation(kind, "smart") for name, kind in hints.items() if name != "return"}


def short_type(text: str) -> str:
    """The text with types of arrays, and of what takes and holds them, as the sources have them."""
    for long, short in ARRAYS.items():
        text = re.sub(long, short, text)
    return text


def forget_overloads() -> None:
    """One signature each: what a switch changes in the answer its description says."""
    for things in public_names().values():
        for base in {base for thing in things.values() for base in getattr(thing, "__mro__", ())}:
            if base.__module__.startswith(OURS):
                analyzer = ModuleAnalyzer.for_module(base.__module__)
                analyzer.analyze()
                analyzer.overloads.clear()


def piece(text: str) -> str:
    """Of a line of a docstring: code, as a link where it is a public name, or what stands between."""
    if not CODE.fullmatch(text):
        text = re.sub(r"([|*\\`]|(?<=\w)_(?!\w))", r"\\\1", text)
        return re.sub(r"\bdocs/([\w-]+)\.md\b", r":doc:`docs/\1.md </\1>`", text)
    name = text.strip("`")
    return f":py:obj:`{name} <{LINKS[name]}>`" if name in LINKS else f"``{name}``"


def skipped(_app: Any, _what: str, _name: str, thing: Any, skip: bool, _options: Any) -> bool:
    """Members that come from river, scikit-learn or Python are told there."""
    function = getattr(thing, "fget", None) or inspect.unwrap(getattr(thing, "__func__", thing))
    home = getattr(function, "__module__", None) or ""
    return skip or not home.startswith(OURS)
