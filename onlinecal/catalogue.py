"""Catalogues of named kinds of things, whose errors suggest what was meant; and the specs that name one.

A spec is a text, ``name`` or ``name:key=value,key=value``, that names an entry and values of its parameters.

A value that contains commas itself (the spec of another adversary, the path of a file) is put in square
brackets: ``two-phase:first=[linear-drift:start=0.2,end=0.8],second=threshold``.

A `CatalogueEntry` and a `Parameter` never change. A `Catalogue` is filled when it is made; `add` is the only
call that changes it, and never takes a name of the library away. Canonical specs (`_spec_of`) name
adversaries and forecasters in results that are kept, and leave out what is as by default. So a default may
change only if an old spec may mean something else.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from onlinecal.texts import cut, shown

MOST_CHARACTERS = 1200
"""An error shows so many characters of the known names, which is enough for a whole catalogue."""
_KEBAB_CASE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def did_you_mean(name: Any, known: Iterable[str], title: str = "Known") -> str:
    """The end of an error for an unknown name: the nearest known name, if one is near, and all known names.

    Long names, as those of a file that was read in the wrong way, are cut.

    Examples
    --------
    >>> did_you_mean("coyn", ["coin", "threshold"])
    "; did you mean 'coin'? Known: coin, threshold"
    """
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    meant = f"; did you mean {cut(near[0])!r}?" if near else "."
    return f"{meant} {title}: {cut(', '.join(names), MOST_CHARACTERS)}"


@dataclass(frozen=True)
class CatalogueEntry:
    """An entry of a catalogue, with what every catalogue knows of one kind.

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
        """The parameters that a spec may set, as a tuple, in the order in which specs are written."""
        raise NotImplementedError

    @property
    def _made_by(self) -> object:
        """The function that makes it: entries with the same one are versions of one kind."""
        raise NotImplementedError

    @property
    def _settings_text(self) -> str:
        """All parameters with their defaults, for a table."""
        return ", ".join(parameter.with_default for parameter in self.parameters)

    def _parameter(self, name: str) -> Parameter:
        """The parameter called `name`; ValueError lists the known ones."""
        for parameter in self.parameters:
            if parameter.name == name:
                return parameter
        names = ", ".join(parameter.name for parameter in self.parameters)
        raise ValueError(f"{self.name} has no parameter {name!r}; it takes {names or 'no parameters'}")

    def _spec_of(self, values: Mapping[str, Any]) -> str:
        """The spec in canonical form: the values that differ from the defaults, in the entry's order."""
        changed = {
            parameter.name: values[parameter.name]
            for parameter in self.parameters
            if values[parameter.name] != parameter.default
        }
        return join_spec(self.name, changed)


E = TypeVar("E", bound=CatalogueEntry)


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
        """Add an entry, or replace one that came from the same place; ValueError if the name is taken."""
        if not isinstance(entry.name, str) or not _KEBAB_CASE.fullmatch(entry.name):
            raise ValueError(
                f"the {self.noun}'s name must be in kebab-case, lower-case words joined by hyphens like "
                f"early-stopped-coin, got {entry.name!r}"
            )
        present = self.entries.get(entry.name, entry)
        if present != entry and (
            entry.name in self.own_names or _place(present._made_by) != _place(entry._made_by)
        ):
            raise ValueError(
                f"the name {entry.name!r} is taken by another {self.noun}: {present.summary}; choose "
                "another name"
            )
        self.entries[entry.name] = entry

    def find(self, name: str) -> E:
        """The entry of that name; ValueError lists the known ones."""
        if name not in self.entries:
            raise ValueError(f"unknown {self.noun} {name!r}{did_you_mean(name, sorted(self.entries))}")
        return self.entries[name]

    def read(self, spec: str) -> tuple[E, dict[str, Any]]:
        """The entry that a spec names, and the value of each of its parameters; ValueError if it is wrong."""
        name, settings = split_spec(spec, self.noun)
        entry = self.find(name)
        values: dict[str, Any] = {parameter.name: parameter.default for parameter in entry.parameters}
        for key, text in settings.items():
            parameter = entry._parameter(key)
            if parameter.form == "adversary":
                inner, inner_values = self.read(text)
                values[key] = inner._spec_of(inner_values)
            else:
                values[key] = parameter.read(text, entry.name)
        for parameter in entry.parameters:
            if parameter.required and parameter.name not in settings:
                raise ValueError(
                    f"{entry.name} needs {parameter.name}: write {entry.name}:{parameter.name}=..."
                )
        return entry, values


def _place(function: object) -> tuple[object, object]:
    """Where a function is defined, which is the same after its module has been loaded again."""
    return getattr(function, "__module__", None), getattr(function, "__qualname__", None)


Value = float | int | str


@dataclass(frozen=True)
class Parameter:
    """One setting in a spec such as "coin:bias=0.7": a number, a word, a text or another adversary.

    Making it checks nothing.

    Parameters
    ----------
    name
        As written in specs.
    default
        The value when the spec does not mention it; None means "not given".
    about
        One phrase that says what it sets, for tables and help texts.
    low, high
        Smallest and largest allowed number, both included.
    form
        "real" for any number, "whole" for whole numbers, "text" for any text but the empty one, "adversary"
        for the spec of another adversary; or a tuple of the words that are allowed, if they are few.
    required
        Whether every spec has to set it, because no default makes sense.
    canonical
        Of form "text": a function that is given the text and returns it as it is to be written back, and
        raises ValueError for one that is not allowed. None: every text is, as it stands.
    """

    name: str
    default: Value | None
    about: str
    low: float = -math.inf
    high: float = math.inf
    form: Literal["real", "whole", "text", "adversary"] | tuple[str, ...] = "real"
    required: bool = False
    canonical: Callable[[str], str] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The words that are allowed, if `form` is a tuple of words; else an empty tuple."""
        return self.form if isinstance(self.form, tuple) else ()

    @property
    def allowed(self) -> str:
        """The allowed values in words, such as "a number in [0, 1]", for error messages and tables."""
        if self.words:
            return f"one of {', '.join(self.words)}"
        if self.form == "adversary":
            return "the spec of an adversary"
        if self.form == "text":
            return "a text"
        noun = "a whole number" if self.form == "whole" else "a number"
        if math.isinf(self.high):
            return noun if math.isinf(self.low) else f"{noun} of at least {self.low:g}"
        return f"{noun} in [{self.low:g}, {self.high:g}]"

    @property
    def with_default(self) -> str:
        """The parameter with its default, for tables: a text such as "bias=0.5".

        If few words are allowed it has all, the default first, as "mode=fast|slow". Without a default it is
        "path=(required)" or "switch=(not set)".
        """
        if self.default is None:
            return f"{self.name}=({'required' if self.required else 'not set'})"
        others = [word for word in self.words if word != self.default]
        default = f"{self.default:.4g}" if isinstance(self.default, float) else str(self.default)
        return f"{self.name}={'|'.join([default, *others])}"

    def read(self, text: str, owner: str) -> Value:
        """The value that `text` stands for: a float, an int or a text, as `form` says.

        `owner` is the name of the kind that has this parameter, for the error. Raises ValueError for a text
        that is not allowed, and for every text if the form is "adversary": such specs are read by `create`.
        """
        if self.form == "adversary":
            raise ValueError(
                f"{owner}: {self.name} is the spec of an adversary, which create reads and this does not, "
                f"got {shown(text)}"
            )
        if not isinstance(text, str):
            raise ValueError(f"{owner}: {self.name} must be given as a text, got {shown(text)}")
        if self.form == "text" and text:
            try:
                return text if self.canonical is None else self.canonical(text)
            except ValueError as error:
                raise ValueError(f"{owner}: {self.name}: {error}") from error
        if text in self.words:
            return text
        try:
            value = math.nan if self.words else float(text)
        except ValueError:
            value = math.nan
        fits = self.low <= value <= self.high and math.isfinite(value)
        if not fits or (self.form == "whole" and not value.is_integer()):
            raise ValueError(f"{owner}: {self.name} must be {self.allowed}, got {text!r}")
        return int(value) if self.form == "whole" else value


def split_spec(spec: str, noun: str) -> tuple[str, dict[str, str]]:
    """The name and the raw settings of a spec; ValueError for anything that is not written like one."""
    if not isinstance(spec, str):
        raise ValueError(f"the {noun}'s spec must be a string, got {spec!r}")
    name, colon, rest = spec.partition(":")
    settings: dict[str, str] = {}
    for part in _split_at_commas(rest, f"{noun} {spec!r}") if colon else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise ValueError(f"expected key=value after the colon in {noun} {spec!r}, got {part!r}")
        if key in settings:
            raise ValueError(f"{key} is given twice in {noun} {spec!r}")
        settings[key] = _unwrapped(value)
    return name.strip(), settings


def join_spec(name: str, settings: Mapping[str, Value]) -> str:
    """The spec with this name and these settings, in their order; `split_spec` reads it back."""
    if not settings:
        return name
    return f"{name}:{','.join(f'{key}={_written(value)}' for key, value in settings.items())}"


def _written(value: Value) -> str:
    if isinstance(value, str):
        return f"[{value}]" if "," in value or _unwrapped(value) != value else value
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _unwrapped(text: str) -> str:
    """The text without its square brackets, if the last character closes the first one."""
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if depth == 0:
            return text[1:-1].strip() if i > 0 and i == len(text) - 1 else text
    return text


def _split_at_commas(text: str, place: str) -> list[str]:
    parts, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if depth < 0:
            break
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    if depth != 0:
        raise ValueError(f"each [ must have its ] in {place}")
    return parts
