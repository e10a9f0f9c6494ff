"""Any river classifier, with probabilities calibrated inside groups of rounds, and certificates by group.

An atom is a set of rounds with the same membership in all groups. Forecasts come from one forecaster for each
atom, or from a table that all groups share. Both answer `ask` with a ticket, `settle` it later, in any order,
and know the standing of every group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple, get_args

from river import base, linear_model

from onlinecal.forecasters.binary.grid import check_slack
from onlinecal.forecasters.binary.guarantees import cells_for
from onlinecal.steering.binary import ANSWERS, TICKET, hint_of, learn_outcome, new_steering
from onlinecal.validation import check_choice, check_count
from onlinecal.wrappers.labels import Label, Labels
from onlinecal.wrappers.late_labels import MOST_WAITING, LateRounds
from onlinecal.wrappers.strategies.projection import Projection
from onlinecal.wrappers.wrapper import ClassifierWrapper


class GroupTicket(NamedTuple):
    """A forecast that waits for its outcome: its groups, what was given, what its forecaster keeps of it."""

    members: Members
    probability: float
    kept: Any


class Standing(NamedTuple):
    """Settled rounds of a group, and bounds on its distance to calibration, sums over these rounds.

    The certificate is proven of what happened; the guarantee is what it cannot exceed.
    """

    rounds: int
    certificate: float
    guarantee: float


def is_midpoint(slack: float) -> bool:
    """Whether forecasts are the midpoints of cells, which promises most, or follow the hint inside them."""
    return slack == 0.5


class AtomForecaster:
    """One Almost-One-Step-Ahead for each atom.

    Calibrated sequences of disjoint sets of rounds are calibrated together, so a group's distance is at most
    the sum over its atoms: at most sqrt(A T) when A atoms share T rounds, both known beforehand (midpoints,
    slack 1/2).
    """

    def __init__(self, slack: float, horizon: int | None, n_atoms: int | None) -> None:
        self._slack = slack
        self._settings: dict[str, Any] = {"report": "midpoint" if is_midpoint(slack) else "hint"}
        if horizon is not None and n_atoms is not None:
            reach = 0.5 if is_midpoint(slack) else 1.0
            self._settings["n_cells"] = cells_for(horizon, slack * n_atoms, reach)
        self.atoms: dict[Members, Projection] = {}

    def ask(self, members: Members, raw: float) -> GroupTicket:
        """Issue a forecast for a model's probability."""
        atom = self.atoms.get(members)
        if atom is None:
            atom = self.atoms[members] = Projection(self._slack, 1, None, table=self._settings)
        return GroupTicket(members, atom.ask(raw), atom.ticket())

    def settle(self, ticket: GroupTicket, outcome: int) -> None:
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

    def standings(self) -> dict[str, Standing]:
        """Of everyone, and of each group that has been asked about."""
        sums = {EVERYONE: Standing(0, 0, 0)}
        for members, atom in self.atoms.items():
            rounds, certificate, guarantee = atom.tables[0].n_rounds, atom.certificate, atom.guarantee
            for name in (EVERYONE, *members):
                one = sums.get(name, Standing(0, 0, 0))
                sums[name] = Standing(
                    one.rounds + rounds, one.certificate + certificate, one.guarantee + guarantee
                )
        return sums


@dataclass
class Account:
    """What was charged to a group in a shared table of m cells.

    Attributes
    ----------
    biases
        By point, in units of 1/m.
    total
        The sum of their sizes.
    moved, reserve
        Sums over rounds: how far forecasts were from the charged points, and how far they can be at most.
    rounds
        Settled rounds.
    """

    biases: list[int]
    total: int = 0
    moved: float = 0.0
    reserve: float = 0.0
    rounds: int = 0


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

    def __init__(self, slack: float, horizon: int | None, most_groups: int) -> None:
        self._slack, self._is_midpoint = Fraction(slack), is_midpoint(slack)
        self._reach = 0.5 if self._is_midpoint else 1.0
        self.scale = 1
        self._fixed = horizon is not None
        if horizon is not None:
            best = 4.0 * self._reach**2 * horizon / (self.growth * (most_groups + 1))
            self.scale = max(math.ceil(best ** (1.0 / 3.0) - 1e-9), 1)
        self.accounts: dict[str, Account] = {}
        self._everyone = self._account(EVERYONE)
        self._overlap = 0
        self._square = 0.0
        self._steering = new_steering()

    @property
    def growth(self) -> float:
        """w: how much the sum of squared biases can grow per round and group."""
        slack = float(self._slack)
        return slack * slack if slack <= 1.0 else 2.0 * slack - 1.0

    def _account(self, name: str) -> Account:
        if name not in self.accounts:
            self.accounts[name] = Account([0] * (self.scale + 1))
        return self.accounts[name]

    def _tables(self, members: Members) -> list[Account]:
        return [self._account(name) for name in (EVERYONE, *members)]

    def ask(self, members: Members, raw: float) -> GroupTicket:
        """Issue a forecast for a model's probability: the valid cell nearest to the steered hint."""
        hint = hint_of(self._steering, raw)
        m, lower = self.scale, self._nearest(self._tables(members), hint)
        p = (lower + 0.5) / m if self._is_midpoint else min(max(hint, lower / m), (lower + 1) / m)
        return GroupTicket(members, p, (lower, m, self._steering[ANSWERS:TICKET].tolist()))

    def settle(self, ticket: GroupTicket, outcome: int) -> None:
        """Charge a forecast with its outcome: to its cell's upper end for 1, to the lower for 0."""
        lower, scale, steered = ticket.kept
        m, accounts = self.scale, self._tables(ticket.members)
        point = (lower + outcome) * (m // scale)
        change = point - m * outcome
        moved = abs(ticket.probability - point / m)
        if self._accepts(accounts, point, outcome):
            self._square += self.growth * len(accounts)
        else:
            self._square = (math.sqrt(self._square) + math.sqrt(len(accounts))) ** 2
        for one in accounts:
            one.total += abs(one.biases[point] + change) - abs(one.biases[point])
            one.biases[point] += change
            one.moved += moved
            one.reserve += max(self._reach / scale, moved)
            one.rounds += 1
        self._overlap += len(accounts)
        self._steering[ANSWERS:TICKET] = steered
        learn_outcome(self._steering, outcome)
        if not self._fixed:
            while self.scale**3 * self._overlap < 2 * self._everyone.rounds**2:
                self._refine()

    def learn_alone(self, members: Members, raw: float, outcome: int) -> None:
        """Learn to steer from a model's probability that nobody was given."""
        hint_of(self._steering, float(raw))
        learn_outcome(self._steering, outcome)

    def note_late(self, others: int) -> None:
        """Nothing to note: `settle` sees for itself which labels came too late for their cell."""

    def standings(self) -> dict[str, Standing]:
        """Of everyone, and of each group that has been asked about."""
        biases = math.sqrt(self._square * (self.scale - 1))
        return {
            name: Standing(one.rounds, one.moved + one.total / self.scale, one.reserve + biases)
            for name, one in self.accounts.items()
        }

    def _nearest(self, accounts: list[Account], hint: float) -> int:
        m = self.scale
        start = min(int(hint * m), m - 1)
        for away in range(m):
            sides = []
            if start - away >= 0:
                sides.append((hint - (start - away + 1) / m, start - away))
            if away and start + away < m:
                sides.append(((start + away) / m - hint, start + away))
            for _, lower in sorted(sides):
                if self._accepts(accounts, lower, 0) and self._accepts(accounts, lower + 1, 1):
                    return lower
        raise AssertionError("the sums of biases admit no cell")

    def _accepts(self, accounts: list[Account], point: int, outcome: int) -> bool:
        bias, m, k = sum(one.biases[point] for one in accounts), self.scale, len(accounts)
        return bias >= k * (m - point - self._slack * m) if outcome else bias <= k * (self._slack * m - point)

    def _refine(self) -> None:
        """Halve the cells: old points stay, with their biases in the new unit."""
        for one in self.accounts.values():
            finer = [0] * (2 * self.scale + 1)
            finer[::2] = [2 * bias for bias in one.biases]
            one.biases, one.total = finer, 2 * one.total
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


class GroupCalibratedClassifier(LateRounds[Any], ClassifierWrapper):
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
    slack
        How far a grid point's bias may grow. At 1/2, the least and the default, forecasts are the midpoints
        of their cells, and with a horizon the constants are those above: exactly sqrt(A T) and
        (k T^2)^(1/3). Without a horizon sqrt(3 A T), and under 5/6 more for each combination. With more,
        usually 1, they follow the model's probability inside their cells: for skill.
    most_waiting
        How many forecasts may wait for their labels, of 1 KB each; beyond that the oldest are given up.

    Attributes
    ----------
    n_rounds
        Settled rounds.

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
        most_waiting: int = MOST_WAITING,
    ) -> None:
        ClassifierWrapper.__init__(self, classifier)
        LateRounds.__init__(self, most_waiting)
        check_choice(scheme, SCHEMES, "scheme")
        check_slack(slack)
        membership = Membership(groups)
        if horizon is not None:
            check_count(horizon, "horizon")
            if scheme == "atoms" and n_atoms is None and not membership.names:
                raise ValueError("n_atoms is needed beside a horizon when groups are columns, got None")
        if n_atoms is not None:
            check_count(n_atoms, "n_atoms")
        self.groups, self.scheme, self.horizon, self.n_atoms = groups, scheme, horizon, n_atoms
        self.slack = slack
        self._labels, self._membership = Labels(), membership
        self._forecaster: AtomForecaster | SharedForecaster
        if scheme == "atoms":
            self._forecaster = AtomForecaster(slack, horizon, n_atoms or len(membership.names) or None)
        else:
            self._forecaster = SharedForecaster(slack, horizon, membership.most)
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

    def _read(self, y: Any) -> int:
        return int(self._labels.meet(y) == self._labels.positive)

    def _take(self) -> Any:
        return None if self._is_empty else self._ticket

    def _present(self, forecast: Any) -> None:
        self._ticket = forecast

    def _settle(self, read: int) -> None:
        self._forecaster.settle(self._ticket, read)

    def _learn_alone(self, x: Any, read: int) -> None:
        raw = self._labels.read(self.classifier.predict_proba_one(x))
        self._forecaster.learn_alone(self._membership.of(x), raw, read)

    def _teach(self, x: Any, y: Any, read: int, kwargs: dict[str, Any]) -> None:
        self.classifier.learn_one(x, y, **kwargs)

    def _note_late(self, others: int) -> None:
        self._forecaster.note_late(others)

    def _each(self, what: str) -> dict[str, Any]:
        return {name: getattr(one, what) for name, one in self._forecaster.standings().items()}

    @property
    def rounds(self) -> dict[str, int]:
        """Settled rounds of each group that has been asked about, and of everyone."""
        return self._each("rounds")

    @property
    def certificates(self) -> dict[str, float]:
        """Proven upper bounds on each group's distance to calibration so far, sums over its rounds."""
        return self._each("certificate")

    @property
    def guarantees(self) -> dict[str, float]:
        """What each group's certificate cannot exceed, whatever the labels."""
        return self._each("guarantee")

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration of all rounds so far, a sum."""
        return self.certificates[EVERYONE]

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed, whatever the labels."""
        return self.guarantees[EVERYONE]
