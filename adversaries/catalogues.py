"""What the catalogues of adversaries of two and of several classes share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, TypeVar

from adversaries.protocol import POWERS, AnyKind, Phase
from onlinecal.catalogue import Catalogue

K = TypeVar("K", bound=AnyKind)


class Row(TypedDict):
    """What `describe` says about one adversary."""

    name: str
    power: str
    parameters: str
    needs_horizon: bool
    summary: str
    source: str


class Kinds(Catalogue[K]):
    """Kinds of adversaries by name: the library's sorted by power, then those registered."""

    def __init__(self, noun: str, own: Iterable[K]) -> None:
        super().__init__(noun, sorted(own, key=lambda kind: POWERS.index(kind.power)))

    def rows(self) -> list[Row]:
        """One row per kind for a table."""
        return [
            Row(
                name=kind.name,
                power=kind.power,
                parameters=kind.settings_text,
                needs_horizon=kind.needs_horizon,
                summary=kind.summary,
                source=kind.source,
            )
            for kind in self.entries.values()
        ]

    def add(self, entry: K) -> None:
        """Enter a kind of one's own; ValueError if it cannot be played or its name belongs to another."""
        for part in ("step", "initial") if entry.compose is None else ("compose",):
            if not callable(getattr(entry, part)):
                raise ValueError(f"{entry.name}: {part} must be callable, got {getattr(entry, part)!r}")
        if entry.power not in POWERS:
            raise ValueError(f"{entry.name}: power must be one of {', '.join(POWERS)}, got {entry.power!r}")
        for name in (entry.depth_parameter, entry.horizon_unless):
            if name is not None:
                entry.parameter(name)
        super().add(entry)

    def phases(
        self, kind: K, values: Mapping[str, Any], size: tuple[int, ...], horizon: int | None
    ) -> tuple[Phase, ...]:
        """The phases of a kind with these parameter values; `size` is (), or (number of classes,)."""
        kind.check_horizon(values, horizon)
        if kind.compose is not None:

            def build(spec: str, rounds: int | None) -> tuple[Phase, ...]:
                return self.phases(*self.read(spec), size, rounds)

            return kind.compose(values, *size, horizon, build)
        assert kind.step is not None
        assert kind.initial is not None
        depth = 1 if kind.depth_parameter is None else values[kind.depth_parameter]
        return (Phase(kind.step, kind.initial(values, *size, horizon), power=kind.power, depth=depth),)
