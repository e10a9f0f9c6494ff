"""Which groups a round belongs to, from its features."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

EVERYONE = "everyone"
"""The group of all rounds, which is always there."""

Members = tuple[str, ...]
Groups = Mapping[str, Callable[[Any], Any]] | Sequence[str]


class Membership:
    """Groups from predicates on the features, or from the values of columns.

    Parameters
    ----------
    groups
        Names and functions of the features that answer true or false; or columns' names: each value of each
        column is then a group "column=value" ("column=missing" where the features lack it).

    Attributes
    ----------
    most
        How many groups, besides everyone, a round can belong to at most.
    names
        The groups known beforehand: none for columns.

    """

    def __init__(self, groups: Groups) -> None:
        self._predicates: dict[str, Callable[[Any], Any]] = {}
        self._columns: tuple[Any, ...] = ()
        if isinstance(groups, Mapping):
            self._predicates = dict(groups)
            for name, predicate in groups.items():
                if not isinstance(name, str) or not callable(predicate) or name == EVERYONE:
                    raise ValueError(f"groups must map names to functions, got {name!r}: {predicate!r}")
        elif isinstance(groups, (list, tuple)) and all(isinstance(name, str) for name in groups):
            self._columns = tuple(groups)
        else:
            raise ValueError(f"groups must be names and functions, or a list of columns, got {groups!r}")
        self.most = len(self._predicates) or len(self._columns)
        if not self.most:
            raise ValueError(f"groups is empty: {groups!r}")
        self.names = tuple(self._predicates)

    def of(self, x: Any) -> Members:
        """The groups of a round besides everyone, in a fixed order."""
        if self._columns:
            return tuple(f"{c}={'missing' if x.get(c) is None else x[c]}" for c in self._columns)
        return tuple(name for name, predicate in self._predicates.items() if predicate(x))
