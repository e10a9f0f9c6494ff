"""Forecasts calibrated in every group: by one forecaster for each atom, or by a table that all groups share.

An atom is a set of rounds with the same membership in all groups. Both answer `ask` with a ticket,
`settle` it later, in any order, and know for every group how many rounds it had, what its distance to
calibration is at most (certificate), and what that can be at most (guarantee).

Which groups a round belongs to, from its features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from onlinecal.forecasters import AlmostOneStepAhead
from onlinecal.forecasters.binary.guarantees import cells_for
from onlinecal.steering.binary import ANSWERS, TICKET, hinting, new_steering
from onlinecal.wrappers.strategies.projection import Projection, Ticket


class AtomProjection(Projection):
    """A steered forecaster of one atom."""

    def __init__(self, forecaster: AlmostOneStepAhead) -> None:
        super().__init__(forecaster._slack, 1, None)
        self.tables = [forecaster]
        self._table = forecaster
        self._compile()


class AtomTicket(NamedTuple):
    """A forecast that waits for its outcome."""

    members: Members
    kept: Ticket
    probability: float

    def given(self, probability: float) -> AtomTicket:
        """The same forecast, in place of which this probability was given."""
        return self._replace(kept=self.kept.given(probability), probability=probability)


class AtomForecaster:
    """One Almost-One-Step-Ahead for each atom.

    Calibrated sequences of disjoint sets of rounds are calibrated together, so a group's distance is at most
    the sum over its atoms: at most sqrt(A T) when A atoms share T rounds, both known beforehand (midpoints,
    slack 1/2).
    """

    goes_on_as_before = True
    """As in `Strategy`."""

    def __init__(self, slack: float, report: str, horizon: int | None, n_atoms: int | None) -> None:
        self._settings: dict[str, Any] = {"slack": slack, "report": report}
        if horizon is not None and n_atoms is not None:
            reach = 0.5 if report == "midpoint" else 1.0
            self._settings["n_cells"] = cells_for(horizon, slack * n_atoms, reach)
        self.atoms: dict[Members, AtomProjection] = {}

    def ask(self, members: Members, raw: float) -> AtomTicket:
        """Issue a forecast for a model's probability."""
        atom = self.atoms.get(members)
        if atom is None:
            atom = self.atoms[members] = AtomProjection(AlmostOneStepAhead(**self._settings, hints=True))
        probability = atom.ask(raw)
        return AtomTicket(members, atom.ticket(), probability)

    def settle(self, ticket: AtomTicket, outcome: int) -> None:
        """Charge a forecast with its outcome."""
        atom = self.atoms[ticket.members]
        atom.present(ticket.kept)
        atom.settle(outcome)

    def learn_alone(self, members: Members, raw: float, outcome: int) -> None:
        """Learn to steer from a model's probability that nobody was given; an atom without any is left."""
        if members in self.atoms:
            self.atoms[members].learn_alone(raw, outcome)

    def note_late(self, others: int) -> None:
        """Take into the guarantees that so many other forecasts were open at once."""
        for atom in self.atoms.values():
            atom.note_late(others)

    def rounds(self) -> dict[str, int]:
        """Settled rounds of each group."""
        return self._sums(lambda atom: atom.tables[0].n_rounds)

    def certificates(self) -> dict[str, float]:
        """Proven upper bounds on each group's distance to calibration, sums over its rounds."""
        return self._sums(lambda atom: atom.certificate)

    def guarantees(self) -> dict[str, float]:
        """What the certificates cannot exceed."""
        return self._sums(lambda atom: atom.guarantee)

    def _sums(self, figure: Any) -> dict[str, Any]:
        sums: dict[str, Any] = {EVERYONE: 0}
        for members, atom in self.atoms.items():
            amount = figure(atom)
            for name in (EVERYONE, *members):
                sums[name] = sums.get(name, 0) + amount
        return sums


class SharedTicket(NamedTuple):
    """A forecast that waits for its outcome: its groups, the ends of its cell, what the steering keeps."""

    members: Members
    lower: int
    scale: int
    kept: tuple[float, ...]
    probability: float

    def given(self, probability: float) -> SharedTicket:
        """The same forecast, in place of which this probability was given."""
        return self._replace(probability=probability)


class SharedForecaster:
    """One grid for all groups, with a bias for every group and point; the groups may overlap as they like.

    A point accepts an outcome when the biases of the round's groups at that point, added up, say so: the
    balanced rule of Almost-One-Step-Ahead with a sum in place of the bias. There is always a valid cell, and
    a round with k groups adds at most w k to the sum of all squared biases, w = slack^2 (slack up to 1). So
    with K the sum of these k a group's biases sum to at most sqrt(w K (m - 1)), and with m about
    (4 T/k)^(1/3) every group is within (k T^2)^(1/3) of calibrated (midpoints, slack 1/2), however many
    groups there are, k being the most that a round belongs to. A label that comes when its cell is no longer
    valid adds at most sqrt(k) to the root of the sum. docs/recalibrate-groups.md has the proofs.
    """

    def __init__(self, slack: float, report: str, horizon: int | None, most_groups: int) -> None:
        self._slack, self._report = Fraction(slack), report
        self._reach = 0.5 if report == "midpoint" else 1.0
        self.scale = 1
        self._fixed = horizon is not None
        if horizon is not None:
            best = 4.0 * self._reach**2 * horizon / (self.growth * (most_groups + 1))
            self.scale = max(math.ceil(best ** (1.0 / 3.0) - 1e-9), 1)
        self._biases: dict[str, list[int]] = {}
        self._totals: dict[str, int] = {}
        self._moved: dict[str, float] = {EVERYONE: 0.0}
        self._reserve: dict[str, float] = {EVERYONE: 0.0}
        self._rounds: dict[str, int] = {EVERYONE: 0}
        self._overlap = 0
        self._square = 0.0
        self._steering = new_steering()

    @property
    def growth(self) -> float:
        """w: how much the sum of squared biases can grow per round and group."""
        slack = float(self._slack)
        return slack * slack if slack <= 1.0 else 2.0 * slack - 1.0

    def ask(self, members: Members, raw: float) -> SharedTicket:
        """Issue a forecast for a model's probability: the valid cell nearest to the steered hint."""
        hint = hinting().hint(self._steering, raw)
        names = (EVERYONE, *members)
        tables = [self._biases[name] for name in names if name in self._biases]
        m, lower = self.scale, self._nearest(tables, len(names), hint)
        p = (lower + 0.5) / m
        if self._report != "midpoint":
            ends = {"lower": lower / m, "upper": (lower + 1) / m}
            p = ends.get(self._report, min(max(hint, lower / m), (lower + 1) / m))
        return SharedTicket(members, lower, m, tuple(self._steering[ANSWERS:TICKET].tolist()), p)

    def settle(self, ticket: SharedTicket, outcome: int) -> None:
        """Charge a forecast with its outcome: to its cell's upper end for 1, to the lower for 0."""
        m = self.scale
        point = (ticket.lower + outcome) * (m // ticket.scale)
        change = point - m * outcome
        moved = abs(ticket.probability - point / m)
        names = (EVERYONE, *ticket.members)
        for name in names:
            if name not in self._biases:
                self._biases[name] = [0] * (m + 1)
        if self._accepts([self._biases[name] for name in names], len(names), point, outcome):
            self._square += self.growth * len(names)
        else:
            self._square = (math.sqrt(self._square) + math.sqrt(len(names))) ** 2
        for name in names:
            biases = self._biases[name]
            self._totals[name] = self._totals.get(name, 0) + abs(biases[point] + change) - abs(biases[point])
            biases[point] += change
            self._moved[name] = self._moved.get(name, 0.0) + moved
            self._reserve[name] = self._reserve.get(name, 0.0) + max(self._reach / ticket.scale, moved)
            self._rounds[name] = self._rounds.get(name, 0) + 1
        self._overlap += len(names)
        self._steering[ANSWERS:TICKET] = ticket.kept
        hinting().learn(self._steering, outcome)
        if not self._fixed:
            while self.scale**3 * self._overlap < 2 * self._rounds[EVERYONE] ** 2:
                self._refine()

    def learn_alone(self, members: Members, raw: float, outcome: int) -> None:
        """Learn to steer from a model's probability that nobody was given."""
        hinting().hint(self._steering, float(raw))
        hinting().learn(self._steering, outcome)

    def note_late(self, others: int) -> None:
        """Nothing to note: `settle` sees for itself which labels came too late for their cell."""

    def rounds(self) -> dict[str, int]:
        """Settled rounds of each group."""
        return dict(self._rounds)

    def certificates(self) -> dict[str, float]:
        """Proven upper bounds on each group's distance to calibration, sums over its rounds."""
        return {name: moved + self._totals.get(name, 0) / self.scale for name, moved in self._moved.items()}

    def guarantees(self) -> dict[str, float]:
        """What the certificates cannot exceed."""
        biases = math.sqrt(self._square * (self.scale - 1))
        return {name: reserve + biases for name, reserve in self._reserve.items()}

    def _nearest(self, tables: list[list[int]], k: int, hint: float) -> int:
        m = self.scale
        start = min(int(hint * m), m - 1)
        for away in range(m):
            sides = []
            if start - away >= 0:
                sides.append((hint - (start - away + 1) / m, start - away))
            if away and start + away < m:
                sides.append(((start + away) / m - hint, start + away))
            for _, lower in sorted(sides):
                if self._accepts(tables, k, lower, 0) and self._accepts(tables, k, lower + 1, 1):
                    return lower
        raise AssertionError("the sums of biases admit no cell")

    def _accepts(self, tables: list[list[int]], k: int, point: int, outcome: int) -> bool:
        bias, m, slack = sum(table[point] for table in tables), self.scale, self._slack
        return bias >= k * (m - point - slack * m) if outcome else bias <= k * (slack * m - point)

    def _refine(self) -> None:
        """Halve the cells: old points stay, with their biases in the new unit."""
        for name, biases in self._biases.items():
            finer = [0] * (2 * self.scale + 1)
            finer[::2] = [2 * bias for bias in biases]
            self._biases[name] = finer
            self._totals[name] *= 2
        self.scale *= 2


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
