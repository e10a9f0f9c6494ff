"""Catalogues: named kinds of things, found with a hint at what was meant, and the way from a spec to one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from onlinecal.specs import Parameter, join_spec, split_spec

_KEBAB_CASE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def did_you_mean(name: Any, known: Iterable[str], title: str = "Known") -> str:
    """What an error says after a name that is none of these: the one nearest to it, if any, and all of them.

    Examples
    --------
    >>> did_you_mean("coyn", ["coin", "threshold"])
    "; did you mean 'coin'? Known: coin, threshold"
    """
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    return f"{f'; did you mean {near[0]!r}?' if near else '.'} {title}: {', '.join(names)}"


@dataclass(frozen=True)
class Entry:
    """What every catalogue knows of one kind.

    Parameters
    ----------
    name
        In kebab-case, as spec strings write it.
    summary
        One line that says what it does.
    """

    name: str
    summary: str

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What a spec string may set."""
        raise NotImplementedError

    @property
    def made_by(self) -> object:
        """The function that is at its heart: two entries with the same one are versions of one kind."""
        raise NotImplementedError

    @property
    def settings_text(self) -> str:
        """All parameters with their defaults, for a table."""
        return ", ".join(parameter.with_default for parameter in self.parameters)

    def parameter(self, name: str) -> Parameter:
        """The parameter called `name`; ValueError lists those there are."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        names = ", ".join(parameter.name for parameter in self.parameters)
        raise ValueError(f"{self.name} has no parameter {name!r}; it takes {names or 'none'}")

    def spec_of(self, values: Mapping[str, Any]) -> str:
        """The spec in canonical form: the values that differ from the defaults, in the entry's order."""
        changed = {
            parameter.name: values[parameter.name]
            for parameter in self.parameters
            if values[parameter.name] != parameter.default
        }
        return join_spec(self.name, changed)


E = TypeVar("E", bound=Entry)


class Catalogue(Generic[E]):
    """Entries by name.

    Parameters
    ----------
    noun
        What error messages call an entry.
    own
        The library's entries, whose names nobody else can take.

    Attributes
    ----------
    entries
        All entries by name, the library's first.
    own_names
        The names of the library's entries.
    """

    def __init__(self, noun: str, own: Iterable[E]) -> None:
        self.noun = noun
        self.entries: dict[str, E] = {entry.name: entry for entry in own}
        self.own_names = frozenset(self.entries)

    def add(self, entry: E) -> None:
        """Enter an entry, or replace one that came from the same place; ValueError if it may not."""
        if not isinstance(entry.name, str) or not _KEBAB_CASE.fullmatch(entry.name):
            raise ValueError(
                f"the {self.noun}'s name must be in kebab-case, like early-stopped-coin, got {entry.name!r}"
            )
        present = self.entries.get(entry.name, entry)
        if present != entry and (
            entry.name in self.own_names or _place(present.made_by) != _place(entry.made_by)
        ):
            raise ValueError(f"the name {entry.name!r} is taken by another {self.noun}: {present.summary}")
        self.entries[entry.name] = entry

    def find(self, name: str) -> E:
        """The entry of that name; ValueError lists those there are."""
        if name not in self.entries:
            raise ValueError(f"unknown {self.noun} {name!r}{did_you_mean(name, sorted(self.entries))}")
        return self.entries[name]

    def read(self, spec: str) -> tuple[E, dict[str, Any]]:
        """The entry that a spec names, and the value of each of its parameters; ValueError if it is wrong."""
        name, settings = split_spec(spec, self.noun)
        entry = self.find(name)
        values: dict[str, Any] = {parameter.name: parameter.default for parameter in entry.parameters}
        for key, text in settings.items():
            parameter = entry.parameter(key)
            if parameter.form == "adversary":
                inner, given = self.read(text)
                values[key] = inner.spec_of(given)
            else:
                values[key] = parameter.read(text, entry.name)
        for parameter in entry.parameters:
            if parameter.required and parameter.name not in settings:
                raise ValueError(f"{entry.name} needs {parameter.name}: {entry.name}:{parameter.name}=...")
        return entry, values


def _place(function: object) -> tuple[object, object]:
    """Where a function was written down, the same after its module has been loaded again."""
    return getattr(function, "__module__", None), getattr(function, "__qualname__", None)
