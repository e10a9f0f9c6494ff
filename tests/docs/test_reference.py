"""The reference misses no public name, no parameter and no option."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import get_type_hints

import numpy as np
import pytest
import typer
from numpy.typing import ArrayLike, NDArray

import onlinecal
from onlinecal.simulations.cli.console import app
from tests import ROOT, source_files

pytest.importorskip("sphinx", reason="needs the extra docs")
sys.path.insert(0, str(ROOT / "docs" / "site"))

import reference
from sphinx.util.typing import stringify_annotation

NAMES = {
    f"{package}.{name}": thing
    for package, things in reference.public_names().items()
    for name, thing in things.items()
}
VERBS = dict(reference.pages_of_verbs())
EVERYWHERE = {
    name
    for line in (ROOT / "docs/reference/index.md").read_text().splitlines()
    for name in re.findall(r"`(\w+)`", line.split("|")[1] if line.startswith("| `") else "")
}
"""The arguments that mean the same in every method, from the table that says what."""


def described(text: str) -> set[str]:
    """The parameters that a docstring describes: in a section, between backticks, by another's docstring."""
    sections = reference.SECTION.findall(text)
    entries = " ".join(
        line for section in sections for line in re.findall(r"^\*{0,2}\w[\w, *]*$", section, re.M)
    )
    others = re.findall(r"(?:as|those)\s+(?:in|for|of)\s+`(\w+)`", text)
    borrowed = [NAMES[name] for name in NAMES if name.rpartition(".")[2] in others]
    return set(re.findall(r"\w+", entries)).union(
        re.findall(r"`(\w+)\b[^`]*`", text), *(described(reference.docstring_of(thing)) for thing in borrowed)
    )


def parameters(thing) -> list[str]:
    with suppress(ValueError):  # of a type made in C
        found = inspect.signature(thing).parameters
        return [name for name in found if not name.startswith("_") and name not in ("self", "cls", "args")]
    return []


def methods(thing):
    for name, method in inspect.getmembers(thing, inspect.isroutine):
        if not name.startswith("_") and (getattr(method, "__module__", None) or "").startswith(
            reference.OURS
        ):
            yield name, method


def test_every_public_name_has_a_page_and_every_package_is_in_the_navigation():
    index = (ROOT / "docs/reference/index.md").read_text()
    assert [name for name in reference.PACKAGES if f"\nnames/{name}\n" not in index] == []
    pages = {id(thing) for thing in NAMES.values()}
    for info in pkgutil.walk_packages(onlinecal.__path__, "onlinecal."):
        if info.ispkg and info.name != "onlinecal.compiling":  # whose names are for the house
            module = importlib.import_module(info.name)
            for name in getattr(module, "__all__", []):
                assert id(getattr(module, name)) in pages, f"{info.name}.{name}"


FOR_THE_HOUSE = {"Rules", "SimplexRun"}
"""What public methods give to other parts of the package."""

ALIASES = {"Labels", "Line"}
"""Of arrays and tuples; elsewhere a class is called so."""


def returned(thing) -> set[str]:
    """The words in what it, or any of its public methods and properties, says to return."""
    if not inspect.isclass(thing):
        return set(re.findall(r"\w+", str(getattr(thing, "__annotations__", {}).get("return", ""))))
    properties = [value.fget for _, value in inspect.getmembers(thing, lambda one: isinstance(one, property))]
    found = [*(method for _, method in methods(thing)), *properties]
    return set().union(*(returned(one) for one in found if (one.__module__ or "").startswith(reference.OURS)))


def test_what_public_methods_return_has_a_public_name():
    classes = {
        name
        for path in source_files().values()
        for name in re.findall(r"^class ([A-Z]\w+)", path.read_text(), re.M)
    }
    public = {name.rpartition(".")[2] for name in NAMES}
    unnamed = classes - public - FOR_THE_HOUSE - ALIASES
    assert [f"{name}: {word}" for name, thing in NAMES.items() for word in returned(thing) & unnamed] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_name_its_parameters_and_those_of_its_methods_are_described(name):
    thing = NAMES[name]
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):
        assert reference.said_of(name.rpartition(".")[0], name.rpartition(".")[2])
        return
    text = reference.docstring_of(thing)
    assert text
    known = described(text)
    if not (inspect.isclass(thing) and issubclass(thing, Exception)):
        assert [one for one in parameters(thing) if one not in known] == []
    for method, function in methods(thing) if inspect.isclass(thing) else ():
        for one in parameters(function):
            said = one in known | EVERYWHERE or re.search(rf"\b{one}\b", inspect.getdoc(function) or "")
            assert said, f"{method}({one})"


def verbs(group, prefix=""):
    for name, verb in group.commands.items():
        yield f"{prefix}{name}", verb
        if hasattr(verb, "commands"):
            yield from verbs(verb, f"{prefix}{name} ")


@pytest.mark.parametrize("name, verb", list(verbs(typer.main.get_command(app))))
def test_every_option_of_a_verb_is_described(name, verb):
    page = VERBS[f"verbs/{name.split()[0]}.md"]
    part = re.search(rf"^#+ onlinecal {name}$.*?(?=^#+ onlinecal|\Z)", page, re.M | re.S)[0]
    assert verb.help
    for option in verb.params:
        if not option.hidden:
            said = max(option.opts, key=len)
            if option.param_type_name == "argument":
                said = said.upper()
            assert re.search(rf"^\* `[^`]*{re.escape(said)}\b[^`]*`: \S", part, re.M), said


def test_what_help_says_with_stars_and_dollars_is_said_on_the_page():
    text = "Files *.jsonl, columns p_*, in $HOME.\n\n**Options**:\n\n* `--x {*}`: A p_*.\n"
    expected = "Files \\*.jsonl, columns p_\\*, in \\$HOME.\n\n**Options**:\n\n* `--x {*}`: A p_\\*.\n"
    assert reference.as_markdown(text) == expected


def test_what_a_function_returns_is_a_field_between_its_parameters_and_errors():
    before, after = ["It does.", "", ":param x: One."], [":raises ValueError: Bad."]
    lines = [*before, "", ".. rubric:: Returns", "", "bool", "    True if so,", "    else not.", "", *after]
    reference.with_returns(None, "function", "", None, None, lines)
    assert lines == [*before, "", ":returns: True if so,", "    else not.", "", *after]


def test_types_are_called_as_in_the_sources_and_looked_up_where_a_class_stands():
    def typed(x: ArrayLike | None, y: Callable[[NDArray[np.int64]], int]) -> NDArray[np.float64]: ...

    kinds = {name: stringify_annotation(kind, "smart") for name, kind in get_type_hints(typed).items()}
    document = SimpleNamespace(autodoc_annotations={"typed": kinds})
    reference.with_short_types(SimpleNamespace(env=SimpleNamespace(current_document=document)))
    assert kinds == {
        "x": "ArrayLike | None",
        "y": "Callable[[NDArray[int64]], int]",
        "return": "NDArray[float64]",
    }
    kinds = reference.parameter_types("onlinecal.AlmostOneStepAhead")
    assert kinds["report"] == "~typing.Literal['midpoint', 'lower', 'upper', 'hint'] | None"
    assert reference.parameter_types("onlinecal.recalibrate_stream") == {}


def test_a_page_that_a_docstring_names_is_a_link():
    assert (
        reference.piece("see docs/theory.md, section 2") == "see :doc:`docs/theory.md </theory>`, section 2"
    )
