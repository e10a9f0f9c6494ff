"""Any river classifier, with probabilities calibrated inside groups of rounds, and certificates by group.

An atom is a set of rounds with the same membership in all groups. Forecasts come from one forecaster for each
atom, or from a table that all groups share. Both answer `ask` with a ticket, `settle` it later, in any order,
and know for every group how many rounds it had, what its distance to calibration is at most (certificate),
and what that can be at most (guarantee).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple, get_args

from river import base, linear_model

from onlinecal.forecasters import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import REPORTS, Report
from onlinecal.forecasters.binary.grid import check_slack
from onlinecal.forecasters.binary.guarantees import cells_for
from onlinecal.forecasters.simplex.input import check_label
from onlinecal.steering.binary import ANSWERS, TICKET, hint_of, learn_outcome, new_steering
from onlinecal.validation import check_choice, check_count
from onlinecal.wrappers.labels import Label
from onlinecal.wrappers.late_labels import MOST_WAITING, LateLabels
from onlinecal.wrappers.strategies.projection import Projection, Ticket


class AtomProjection(Projection):
    """A steered forecaster of one atom."""

    def __init__(self, forecaster: AlmostOneStepAhead) -> None:
        super().__init__(forecaster._slack, 1, None)
        self.tables = [forecaster]
        self._table = forecaster


class AtomTicket(NamedTuple):
    """A forecast that waits for its outcome."""

    members: Members
    kept: Ticket
    probability: float


class AtomForecaster:
    """One Almost-One-Step-Ahead for each atom.

    Calibrated sequences of disjoint sets of rounds are calibrated together, so a group's distance is at most
    the sum over its atoms: at most sqrt(A T) when A atoms share T rounds, both known beforehand (midpoints,
    slack 1/2).
    """

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
        atom.give(ticket.probability)
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


class SharedForecaster:
    """One grid for all groups, with a bias for every group and point; the groups may overlap as they like.

    A point accepts an outcome when the biases of the round's groups at that point, added up, say so: the
    balanced rule of Almost-One-Step-Ahead with a sum in place of the bias. There is always a valid cell, and
    a round with k groups adds at most w k to the sum of all squared biases, w = slack^2 (slack up to 1). So
    with K the sum of these k a group's biases sum to at most sqrt(w K (m - 1)), and with m about
    (4 T/k)^(1/3) every group is within (k T^2)^(1/3) of calibrated (midpoints, slack 1/2), however many
    groups there are, k being the most that a round belongs to. A label that comes when its cell is no longer
    valid adds at most sqrt(k) to the root of the sum. docs/theory-tables.md has the proofs.
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
        hint = hint_of(self._steering, raw)
        names = (EVERYONE, *members)
        for name in members:
            self._rounds.setdefault(name, 0)
            self._moved.setdefault(name, 0.0)
            self._reserve.setdefault(name, 0.0)
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
            self._moved[name] += moved
            self._reserve[name] += max(self._reach / ticket.scale, moved)
            self._rounds[name] += 1
        self._overlap += len(names)
        self._steering[ANSWERS:TICKET] = ticket.kept
        learn_outcome(self._steering, outcome)
        if not self._fixed:
            while self.scale**3 * self._overlap < 2 * self._rounds[EVERYONE] ** 2:
                self._refine()

    def learn_alone(self, members: Members, raw: float, outcome: int) -> None:
        """Learn to steer from a model's probability that nobody was given."""
        hint_of(self._steering, float(raw))
        learn_outcome(self._steering, outcome)

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


Scheme = Literal["atoms", "shared"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)


class GroupCalibratedClassifier(LateLabels[Any]):
    """Wrap a river classifier: its probabilities stay calibrated inside every group, whatever labels come.

    Parameters
    ----------
    classifier
        The model to wrap.
    groups
        Names and functions of the features, {"young": lambda x: x["age"] < 9}, or columns, ["sex", "region"],
        the values of which are the groups. Groups may overlap. The group "everyone" is always added.
    scheme
        "atoms": one Almost-One-Step-Ahead for each combination of groups that occurs. Every group, and every
        union of combinations, has a distance to calibration of at most sqrt(A T), up to constants, where A
        combinations share T rounds. Disjoint groups are their own combinations. "shared": one table for all
        groups, whose guarantee, (k T^2)^(1/3) for rounds with at most k groups (counting everyone), does not
        depend on how many combinations there are: for many overlapping groups.
    horizon
        How many rounds will be played, if known. The scheme "atoms" then also needs to know how many
        combinations to expect, `n_atoms`; by default as many as there are functions.
    n_atoms
        See `horizon`.
    slack, report
        As in AlmostOneStepAhead. With 1/2 and "midpoint", the defaults, and a horizon the constants are those
        above: exactly sqrt(A T) and (k T^2)^(1/3). Without a horizon sqrt(3 A T), and under 5/6 more for each
        combination.
    most_waiting
        How many forecasts may wait for their labels, of 1 KB each; beyond that the oldest are given up.

    Attributes
    ----------
    n_rounds
        Settled rounds.
    n_unmatched
        Labels that came without their forecast.

    Notes
    -----
    The forecast is that of the positive label (True, 1, or the first label seen); any other label counts as
    the other outcome. Until both labels are known an answer may name one alone, with probability 1, which is
    what is certified then; an empty answer is no forecast and is not charged. The model's probability is
    steered first (as in CalibratedClassifier): inside each combination under "atoms", for all rounds
    together under "shared".

    Late labels find their forecasts by tokens (`forecast`, `observe`), or by equal features, and labels
    without a forecast settle nothing, as in CalibratedClassifier, which says what is assumed. Under "atoms"
    steering learns from them in combinations that have been asked about.

    Examples
    --------
    >>> from river import datasets, linear_model, preprocessing
    >>> model = GroupCalibratedClassifier(
    ...     preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    ...     groups=["ip_in_url", "age_of_domain"],
    ... )
    >>> for x, y in datasets.Phishing():
    ...     p = model.predict_proba_one(x)
    ...     model.learn_one(x, y)
    >>> model.rounds["ip_in_url=1"], model.certificates["ip_in_url=1"] < model.guarantees["ip_in_url=1"]
    (142, True)

    References
    ----------
    docs/theory-tables.md, which has both proofs.
    """

    def __init__(
        self,
        classifier: base.Classifier,
        groups: Groups,
        scheme: Scheme = "atoms",
        horizon: int | None = None,
        n_atoms: int | None = None,
        slack: float = 0.5,
        report: Report = "midpoint",
        most_waiting: int = MOST_WAITING,
    ) -> None:
        super().__init__(classifier, most_waiting)
        check_choice(scheme, SCHEMES, "scheme")
        check_choice(report, REPORTS, "report")
        check_slack(slack)
        membership = Membership(groups)
        if horizon is not None:
            check_count(horizon, "horizon")
            if scheme == "atoms" and n_atoms is None and not membership.names:
                raise ValueError("n_atoms is needed beside a horizon when groups are columns, got None")
        if n_atoms is not None:
            check_count(n_atoms, "n_atoms")
        self.groups = groups
        self.scheme = scheme
        self.horizon = horizon
        self.n_atoms = n_atoms
        self.slack = slack
        self.report = report
        self._membership = membership
        self._forecaster: AtomForecaster | SharedForecaster
        if scheme == "atoms":
            atoms = n_atoms or len(membership.names) or None
            self._forecaster = AtomForecaster(slack, report, horizon, atoms)
        else:
            self._forecaster = SharedForecaster(slack, report, horizon, membership.most)
        self._ticket: Any = None

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"classifier": linear_model.LogisticRegression(), "groups": {"any": bool}}

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Calibrated probabilities of the labels known so far; they sum to 1."""
        answer = self.classifier.predict_proba_one(x, **kwargs)
        members = self._membership.of(x)
        self._open(x)
        self._ticket = self._forecaster.ask(members, self._labels.read(answer))
        given = self._labels.both(answer, self._ticket.probability)
        self._is_empty = not given
        if len(given) == 1:
            self._ticket = self._ticket._replace(probability=1.0)
        return given

    def forecasts_one(self, x: Any) -> dict[Label, float]:
        """The forecast that the certificates speak of: the probability of the positive label."""
        self.predict_proba_one(x)
        positive = True if self._labels.positive is None else self._labels.positive
        return {} if self._is_empty else {positive: self._ticket.probability}

    def _read(self, y: Any) -> int:
        label = check_label(y, "y")
        self._labels.meet(label)
        return int(label == self._labels.positive)

    def _take(self) -> Any:
        return None if self._is_empty else self._ticket

    def _present(self, forecast: Any) -> None:
        self._ticket = forecast

    def _settle(self, read: int) -> None:
        self._forecaster.settle(self._ticket, read)

    def _learn_alone(self, x: Any, read: int) -> None:
        raw = self._labels.read(self.classifier.predict_proba_one(x))
        self._forecaster.learn_alone(self._membership.of(x), raw, read)

    def _note_late(self, others: int) -> None:
        self._forecaster.note_late(others)

    @property
    def rounds(self) -> dict[str, int]:
        """Settled rounds of each group that has been asked about, and of everyone."""
        return self._forecaster.rounds()

    @property
    def certificates(self) -> dict[str, float]:
        """Proven upper bounds on each group's distance to calibration so far, sums over its rounds."""
        return self._forecaster.certificates()

    @property
    def guarantees(self) -> dict[str, float]:
        """What each group's certificate cannot exceed, whatever the labels."""
        return self._forecaster.guarantees()

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration of all rounds so far, a sum."""
        return self.certificates[EVERYONE]

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed, whatever the labels."""
        return self.guarantees[EVERYONE]
