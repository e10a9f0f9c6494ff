"""Any river classifier, with probabilities calibrated inside groups of rounds, and certificates by group.

An atom is a set of rounds with the same membership in all groups. Forecasts come from one forecaster for each
atom (`AtomForecaster`), or from a table that all groups share (`SharedForecaster`). The wrapper alone calls
either, in the same way: `ask`, and with the ticket that it returned `settle`, in any order; `learn_alone` for
a label without its forecast; `note_late` when more forecasts wait than ever before, and before one that
waited is settled; and `accounts`, which only reads. A ticket has all that settling needs, and a forecaster
does not keep it.

`LateRounds` calls the wrapper. For a label it calls `_read`, which may refuse it. A label that settles a
forecast goes to `_teach`, and then to `_settle`, with that forecast in `_here`. For any other label `_says`
is called, unless the answer was empty, then `_teach`, and then `_learn_alone`. `_note_late` is called with
the most forecasts that have waited: when there are more of them than before, and whenever one that waited is
brought back. By the second call an atom that began later hears of late labels, too.

`predict_proba_one` lets the model answer first: if the model raises, the open round stays open. It calls
`_open` next, which puts the last forecast aside, out of `_here`, and notes that it is late before the next is
made. Then it writes `_is_empty`, asks the forecaster and writes `_here`. All else that writes these two is in
`LateRounds`.

What always holds between two calls: a group's certificate is a sum over all forecasters, and over the rounds
in `_counted`, of which no forecaster was charged. Of a shared table, every group has as many biases as the
grid has points, whole numbers in units of 1/`scale`.

The order in which cells are tried (`_nearest`), and the comparisons of `_accepts` and of `_refine`'s caller,
are part of forecasts and of the proofs in docs/theory-tables.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import add
from typing import Any, Literal, NamedTuple, get_args

from river import base, linear_model

from onlinecal.forecasters.binary.cells import REPORTS, ReportChoice
from onlinecal.forecasters.binary.choice import check_slack
from onlinecal.forecasters.binary.guarantees import cells_for
from onlinecal.restoring import Restored
from onlinecal.steering.binary import ALONE, ANSWERS, TICKET, new_steering
from onlinecal.validation import check_choice, check_count
from onlinecal.wrappers.labels import Label, Labels, check_pair, over, read_answer
from onlinecal.wrappers.late_labels import MOST_WAITING, RoundsOfOneLabel
from onlinecal.wrappers.strategies.projection import Projection
from onlinecal.wrappers.wrapper import ClassifierWrapper

EVERYONE = "everyone"
"""The group of all rounds, which is always there."""

Members = tuple[str, ...]
Groups = Mapping[str, Callable[[Any], Any]] | Sequence[str]


class Account(NamedTuple):
    """What is shown of a group: how many rounds it settled, and over these, as sums, its two bounds.

    `certificate` bounds the distance to calibration, and `guarantee` bounds the certificate.
    """

    rounds: int = 0
    certificate: float = 0
    guarantee: float = 0

    def plus(self, other: Account) -> Account:
        """The account of the rounds of both."""
        return Account(*map(add, self, other))


class GroupTicket(NamedTuple):
    """A forecast that waits for its outcome: its groups, what its forecaster keeps of it, what was given."""

    members: Members
    kept: Any
    probability: float
    event: Label = None
    """The label that was forecast, or the only one that was named."""
    names: tuple[Label, ...] = ()
    """The labels of the answer, while labels are being discovered; none once there are two."""


class AtomForecaster:
    """One Almost-One-Step-Ahead for each atom.

    Calibrated sequences of disjoint sets of rounds are calibrated together, so a group's distance is at most
    the sum over its atoms: at most sqrt(A T) when A atoms share T rounds, both known beforehand (midpoints,
    slack 1/2).
    """

    def __init__(self, slack: float, report: str, horizon: int | None, n_atoms: int | None) -> None:
        self._slack = slack
        self._settings: dict[str, Any] = {"report": report}
        if horizon is not None and n_atoms is not None:
            reach = 0.5 if report == "midpoint" else 1.0
            self._settings["n_cells"] = cells_for(horizon, slack * n_atoms, reach)
        self.atoms: dict[Members, Projection] = {}

    def ask(self, members: Members, raw: float) -> GroupTicket:
        """Issue a forecast for a model's probability."""
        if members not in self.atoms:
            self.atoms[members] = Projection(self._slack, 1, None, table=self._settings)
        atom = self.atoms[members]
        probability = atom.ask(raw)
        return GroupTicket(members, atom.ticket(), probability)

    def settle(self, ticket: GroupTicket, outcome: int) -> None:
        """Charge a forecast with its outcome."""
        atom = self.atoms[ticket.members]
        atom.present(ticket.kept)
        atom.give(ticket.probability)
        atom.settle(outcome)

    def learn_alone(self, members: Members, raw: float, outcome: int) -> None:
        """Learn to steer from a model's probability that nobody was given; an unknown atom learns nothing."""
        if members in self.atoms:
            self.atoms[members].learn_alone(raw, outcome)

    def note_late(self, others: int) -> None:
        """Take into the guarantees that so many other forecasts were open at once."""
        for atom in self.atoms.values():
            atom.note_late(others)

    def accounts(self) -> dict[str, Account]:
        """The account of each group, by name: the sum over its atoms."""
        sums = {EVERYONE: Account()}
        for members, atom in self.atoms.items():
            own = atom.tables[0].n_rounds, atom.certificate, atom.guarantee
            for name in (EVERYONE, *members):
                sums[name] = sums.get(name, Account()).plus(Account(*own))
        return sums


@dataclass
class SharedGroup:
    """What a shared table keeps of a group."""

    biases: list[int]
    """Of each point, in units of 1/scale."""
    rounds: int = 0
    moved: float = 0.0
    """By how much its forecasts were moved to the points that were charged."""
    reserve: float = 0.0
    """What of the guarantee is reserved for that."""


class SharedForecaster(Restored):
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
        self.growth = slack * slack if slack <= 1.0 else 2.0 * slack - 1.0
        """w: how much the sum of squared biases can grow per round and group."""
        self.scale = 1
        """The number of cells."""
        self._fixed = horizon is not None
        if horizon is not None:
            best = 4.0 * self._reach**2 * horizon / (self.growth * (most_groups + 1))
            self.scale = max(math.ceil(best ** (1.0 / 3.0) - 1e-9), 1)
        self.groups = {EVERYONE: SharedGroup([0] * (self.scale + 1))}
        self._overlap = 0
        """The sum over rounds of how many groups they belong to, K."""
        self._square = 0.0
        """A bound on the sum of all squared biases."""
        self._steering = new_steering()

    def ask(self, members: Members, raw: float) -> GroupTicket:
        """Issue a forecast for a model's probability: the valid cell nearest to the steered hint."""
        hint, m = ALONE.hint_of(self._steering, raw), self.scale
        for name in members:
            self.groups.setdefault(name, SharedGroup([0] * (m + 1)))
        lower = self._nearest(members, hint)
        ends = {"midpoint": (lower + 0.5) / m, "lower": lower / m, "upper": (lower + 1) / m}
        p = ends.get(self._report, min(max(hint, ends["lower"]), ends["upper"]))
        return GroupTicket(members, (lower, m, tuple(self._steering[ANSWERS:TICKET].tolist())), p)

    def settle(self, ticket: GroupTicket, outcome: int) -> None:
        """Charge a forecast with its outcome: to its cell's upper end for 1, to the lower for 0."""
        (lower, scale, kept), m = ticket.kept, self.scale
        point = (lower + outcome) * (m // scale)
        moved = abs(ticket.probability - point / m)
        k = 1 + len(ticket.members)
        if self._accepts(ticket.members, point, outcome):
            self._square += self.growth * k
        else:
            self._square = (math.sqrt(self._square) + math.sqrt(k)) ** 2
        for name in (EVERYONE, *ticket.members):
            group = self.groups[name]
            group.biases[point] += point - m * outcome
            group.moved += moved
            group.reserve += max(self._reach / scale, moved)
            group.rounds += 1
        self._overlap += k
        self._steering[ANSWERS:TICKET] = kept
        ALONE.learn_outcome(self._steering, outcome)
        while not self._fixed and self.scale**3 * self._overlap < 2 * self.groups[EVERYONE].rounds ** 2:
            self._refine()

    def learn_alone(self, members: Members, raw: float, outcome: int) -> None:
        """Learn to steer from a model's probability that nobody was given."""
        ALONE.hint_of(self._steering, float(raw))
        ALONE.learn_outcome(self._steering, outcome)

    def note_late(self, others: int) -> None:
        """Nothing to note: `settle` sees for itself which labels came too late for their cell."""

    def accounts(self) -> dict[str, Account]:
        """The account of each group, by name."""
        biases, m = math.sqrt(self._square * (self.scale - 1)), self.scale
        return {
            name: Account(group.rounds, group.moved + sum(map(abs, group.biases)) / m, group.reserve + biases)
            for name, group in self.groups.items()
        }

    def _nearest(self, members: Members, hint: float) -> int:
        """The valid cell that is nearest to the hint."""
        m = self.scale
        start = min(int(hint * m), m - 1)
        for away in range(m):
            sides = {max(start - away, 0), min(start + away, m - 1)}
            for lower in sorted(sides, key=lambda cell: (max(hint - (cell + 1) / m, cell / m - hint), cell)):
                if self._accepts(members, lower, 0) and self._accepts(members, lower + 1, 1):
                    return lower
        raise AssertionError("the sums of biases admit no cell")

    def _accepts(self, members: Members, point: int, outcome: int) -> bool:
        names, m, slack = (EVERYONE, *members), self.scale, self._slack
        bias = sum(self.groups[name].biases[point] for name in names)
        if outcome:
            return bias >= len(names) * (m - point - slack * m)
        return bias <= len(names) * (slack * m - point)

    def _refine(self) -> None:
        """Halve the cells: old points stay, with their biases in the new unit."""
        for group in self.groups.values():
            finer = [0] * (2 * self.scale + 1)
            finer[::2] = [2 * bias for bias in group.biases]
            group.biases = finer
        self.scale *= 2


def check_groups(groups: Any) -> None:
    """ValueError unless these are names with predicates on the features, or names of columns."""
    if isinstance(groups, Mapping):
        for name, predicate in groups.items():
            if name == EVERYONE:
                raise ValueError(f"groups must have other names than {name!r}, which stands for all rounds")
            if not isinstance(name, str) or not callable(predicate):
                raise ValueError(
                    f"groups must map names, as texts, to functions of x, got {name!r}: {predicate!r}"
                )
    elif not isinstance(groups, (list, tuple)) or not all(isinstance(name, str) for name in groups):
        raise ValueError(
            "groups must be a dict of names and functions of x, or a list of names of features, got "
            f"{groups!r}"
        )
    if not groups:
        raise ValueError(f"groups is empty, {groups!r}: give at least one group")


def members_of(groups: Groups, x: Any) -> Members:
    """The groups of a round besides everyone, in a fixed order; ValueError if x lacks features with names."""
    if isinstance(groups, Mapping):
        return tuple(name for name, predicate in groups.items() if predicate(x))
    if not isinstance(x, Mapping):
        raise ValueError(
            f"x must be a dict of features, since groups are names of features, got {type(x).__name__}: give "
            "groups as functions of x"
        )
    return tuple(f"{name}={'missing' if x.get(name) is None else x[name]}" for name in groups)


Scheme = Literal["atoms", "shared"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)


class GroupCalibratedClassifier(RoundsOfOneLabel[GroupTicket], ClassifierWrapper):
    """Wrap a river classifier: its probabilities stay calibrated inside every group, whatever labels come.

    Parameters
    ----------
    classifier
        The model to wrap.
    groups
        A dict of names and functions of the features, {"young": lambda x: x["age"] < 9}, or a list of names
        of features, ["sex", "region"], each value of which is a group, called "sex=f" for example, and
        "sex=missing" where x has None or no such feature. Groups may overlap. The group "everyone", of all
        rounds, is always added.
    scheme
        "atoms": a forecaster of its own for each combination of groups that occurs. Every group, and every
        union of combinations, has a distance to calibration of at most sqrt(A T), up to constants, where A
        combinations share T rounds. Disjoint groups are their own combinations. "shared": one forecaster for
        all groups, whose guarantee, (k T^2)^(1/3) for rounds with at most k groups (counting everyone), does
        not depend on how many combinations there are: for many overlapping groups.
    horizon
        How many rounds T will be played, if known, at least 1: guarantees are then smaller. The scheme
        "atoms" then also needs `n_atoms`.
    n_atoms
        How many combinations of groups to expect, for the scheme "atoms" with a horizon. None: as many as
        there are functions; with names of features and a horizon it must be given.
    slack
        How far forecast minus outcome, added up over the rounds with the same forecast, may be from 0, from
        0.5 to 1000: more slack follows the model more closely, for a weaker guarantee.
    report
        A forecaster first chooses a cell, an interval of probabilities, near the model's probability. This
        says which point of it is forecast: "midpoint", "lower" or "upper" end, or "hint", the point nearest
        to the model's probability. With slack 0.5, "midpoint" and a horizon the guarantees are exactly
        sqrt(A T) and (k T^2)^(1/3). Without a horizon they are sqrt(3 A T) and less than 5/6 more for each
        combination.
    most_waiting
        How many forecasts may wait for their labels, of 1 KB each; beyond that the oldest are given up.
    classes
        The two labels, if they are known beforehand: the second is the positive one. None: labels are
        discovered as they come.

    Attributes
    ----------
    n_rounds
        Settled rounds.
    n_unmatched
        Labels that came without their forecast.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    Notes
    -----
    The forecast is that of the positive label (True, or 1, or the greater of two numbers, or the first label
    that came); any other label counts as the other outcome. Until both labels are known an answer may name
    one alone, with probability 1, which is what is certified then. An empty answer is no forecast: its label
    counts in `n_unmatched`, and in no certificate. The model's probability is first corrected by the labels
    that followed similar ones so far: inside each combination under "atoms", in all rounds together under
    "shared".

    Late labels find their forecasts by tokens (`forecast`, `observe`), or in `learn_one` by equal features,
    the oldest first: it is assumed that labels of equal features come in the order of their forecasts, none
    of them missing. A label without a forecast settles nothing; model and correction learn from it, the
    correction under "atoms" only in combinations that have been asked about.

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
        *,
        scheme: Scheme = "atoms",
        horizon: int | None = None,
        n_atoms: int | None = None,
        slack: float = 0.5,
        report: ReportChoice = "midpoint",
        most_waiting: int = MOST_WAITING,
        classes: Sequence[Label] | None = None,
    ) -> None:
        declared = () if classes is None else check_pair(classes)
        ClassifierWrapper.__init__(self, classifier)
        RoundsOfOneLabel.__init__(self, most_waiting)
        self._labels = Labels(declared)
        check_choice(scheme, SCHEMES, "scheme")
        check_choice(report, REPORTS, "report")
        check_slack(slack)
        check_groups(groups)
        if horizon is not None:
            horizon = check_count(horizon, "horizon")
            if scheme == "atoms" and n_atoms is None and not isinstance(groups, Mapping):
                raise ValueError(
                    "n_atoms must be given where groups are names of features and there is a horizon, got "
                    "None: say how many combinations of groups to expect, or leave the horizon out"
                )
        if n_atoms is not None:
            n_atoms = check_count(n_atoms, "n_atoms")
        self.groups, self.scheme, self.horizon, self.n_atoms = groups, scheme, horizon, n_atoms
        self.slack, self.report, self.classes = slack, report, classes
        self._forecasters: dict[Label, AtomForecaster | SharedForecaster] = {}
        """By the label that is forecast: which one that is may change with the first labels."""
        self._counted: dict[str, Account] = {EVERYONE: Account()}
        """By group: rounds of which no forecaster was charged.

        In some a single label was known, so that no forecaster was asked. In others one was, and the label
        that came was not among those of the answer.
        """

    def _forecaster(self, event: Label) -> AtomForecaster | SharedForecaster:
        forecaster = self._forecasters.get(event)
        if forecaster is None:
            known = len(self.groups) if isinstance(self.groups, Mapping) else None
            if self.scheme == "atoms":
                forecaster = AtomForecaster(self.slack, self.report, self.horizon, self.n_atoms or known)
            else:
                forecaster = SharedForecaster(self.slack, self.report, self.horizon, len(self.groups))
            self._forecasters[event] = forecaster
        return forecaster

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"classifier": linear_model.LogisticRegression(), "groups": {"any": bool}}

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Calibrated probabilities of the labels known so far for the features x, by label; they sum to 1.

        A label that is known alone has 1. Before the first label has come, and without `classes`, the dict is
        empty, unless the model names False and True, or 0 and 1, and nothing else.

        Asking, by `predict_one` too, opens a round, which the label of equal features settles in `learn_one`.
        Asking about the very same object again, with nothing else asked in between, answers for the same
        round anew: the last answer counts. Nothing is learnt. Keywords go to the wrapped model. Raises
        ValueError if the model answers with something else than numbers by label, or if x is no dict where
        groups are names of features. What functions of `groups` raise passes through.
        """
        answer = read_answer(self.classifier.predict_proba_one(x, **kwargs))
        members = members_of(self.groups, x)
        names, event, p = self._labels.question(answer)
        self._open(x)
        self._is_empty = not names
        if len(names) < 2:
            self._here = GroupTicket(members, None, 1.0, names[0], names) if names else None
            return dict.fromkeys(names, 1.0)
        ticket = self._forecaster(event).ask(members, p)
        kept = () if self._labels.pair is not None else names
        self._here = GroupTicket(members, ticket.kept, ticket.probability, event, kept)
        return over(names, event, ticket.probability)

    def _read(self, y: Any) -> Label:
        return self._labels.read_label(y)

    def _settle(self, read: Label) -> None:
        ticket = self._take()
        assert ticket is not None
        self._labels.meet(read)
        if not ticket.names or (len(ticket.names) > 1 and read in ticket.names):
            self._forecaster(ticket.event).settle(ticket, int(read == ticket.event))
            return
        wrong = int(read not in ticket.names)
        for name in (EVERYONE, *ticket.members):
            self._counted[name] = self._counted.get(name, Account()).plus(Account(1, wrong, wrong))

    def _says(self, x: Any) -> tuple[Members, Mapping[Label, float]]:
        return members_of(self.groups, x), read_answer(self.classifier.predict_proba_one(x))

    def _learn_alone(self, said: tuple[Members, Mapping[Label, float]] | None, read: Label) -> None:
        self._labels.meet(read)
        if said is None:
            return
        members, answer = said
        names, event, p = self._labels.question(answer)
        if answer and len(names) > 1:
            self._forecaster(event).learn_alone(members, p, int(read == event))

    def _teach(self, x: Any, y: Any, kwargs: dict[str, Any]) -> None:
        self.classifier.learn_one(x, y, **kwargs)

    def _accounts(self) -> dict[str, Account]:
        """The account of each group, by name: over all forecasters, and over rounds without one."""
        sums = dict(self._counted)
        for forecaster in self._forecasters.values():
            for name, account in forecaster.accounts().items():
                sums[name] = sums.get(name, Account()).plus(account)
        return sums

    def _note_late(self, others: int) -> None:
        for forecaster in self._forecasters.values():
            forecaster.note_late(others)

    @property
    def rounds(self) -> dict[str, int]:
        """How many settled rounds each group has had, by its name, and "everyone", the group of all rounds.

        Groups that no question has been in are not there yet; one without a settled round has 0.
        """
        return {name: account.rounds for name, account in self._accounts().items()}

    @property
    def certificates(self) -> dict[str, float]:
        """By each group's name, a proven upper bound on the distance to calibration of its forecasts so far.

        These are of the positive label, and each bound is a sum over the group's settled rounds. The
        group "everyone", of all rounds, is among them; groups that no question has been in are not.
        """
        return {name: account.certificate for name, account in self._accounts().items()}

    @property
    def guarantees(self) -> dict[str, float]:
        """By each group's name, what its entry of `certificates` cannot exceed, whatever the labels.

        Each is a sum over the group's settled rounds. The group "everyone", of all rounds, is among them;
        groups that no question has been in are not.
        """
        return {name: account.guarantee for name, account in self._accounts().items()}

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration so far, a sum over all settled rounds.

        It is that of the group "everyone" in `certificates`.
        """
        return self.certificates[EVERYONE]

    @property
    def guarantee(self) -> float:
        """What `certificate` cannot exceed, whatever the labels: a sum over all settled rounds.

        It is that of the group "everyone" in `guarantees`.
        """
        return self.guarantees[EVERYONE]
