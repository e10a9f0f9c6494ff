"""What --help says: each option with the kind of value it takes, whichever version of typer prints it."""

from __future__ import annotations

from inspect import cleandoc, unwrap
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from typer.core import TyperCommand

if TYPE_CHECKING:
    Base = TyperCommand
else:
    Base = object

VALUES = {str: "TEXT", int: "INT", float: "NUMBER", Path: "PATH", bool: ""}
COLUMNS = {"forecast", "outcome", "label", "group", "groups", "sort", "settled_at"}
"""Options with a column's name, in whatever verb has them."""


class Told(Base):
    """A verb or a group of them whose options say in one word what they take, and flags nothing."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, each with what stands for its value."""
        known = get_type_hints(unwrap(self.callback)) if self.callback else {}
        parameters: list[Any] = super().get_params(ctx)
        for parameter in parameters:
            if parameter.metavar is None and parameter.param_type_name == "argument":
                parameter.metavar = parameter.name.upper()
            elif parameter.metavar is None:
                # --help and the like come from typer
                word = value_of(known.get(parameter.name, bool))
                parameter.metavar = "COL" if word == "TEXT" and parameter.name in COLUMNS else word
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The parts of the usage line; an argument that is required stands there without braces."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class Verb(Told, TyperCommand):
    """A single verb."""


def value_of(kind: Any) -> str | None:
    """The word for a value of this type, or of a list of such; None where the choices say it."""
    if get_origin(kind) is Literal:
        return None
    parts = [part for part in get_args(kind) if part is not NoneType]
    return value_of(parts[0]) if parts else VALUES.get(kind)


def reflowed(text: str) -> str:
    """Help with each paragraph, or example, on one line, for whoever prints it to break."""
    return "\n\n".join(" ".join(part.split()) for part in cleandoc(text).split("\n\n"))
