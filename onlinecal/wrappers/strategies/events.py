"""All strategies: events of one label, of each, of the top one, of halves of the labels; or all at once.

Of a tree labels are numbered as they are first named. Its node (d, r) is about those whose numbers are r
modulo 2^d, and splits them by the next binary digit; so a tree of k labels is log2 k deep, rounded up, has
k - 1 inner nodes, and a new label turns one leaf into a node and leaves the others what they were.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.elementary import in_turn
from onlinecal.forecasters import SimplexAlmostOneStepAhead, SimplexForecast
from onlinecal.forecasters.simplex.run import replayed_with_certificates
from onlinecal.remarks import GuaranteeWarning
from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import (
    Label,
    Labels,
    completed,
    completed_rows,
    normalised,
    normalised_rows,
    spread_top,
)
from onlinecal.wrappers.strategies.projection import Projection, Recent
from onlinecal.wrappers.strategies.strategy import (
    Answer,
    Asked,
    Bounded,
    Counted,
    Settings,
    Strategy,
    Waiting,
)


class Binary(Strategy):
    """One event: that the label is the positive one, or the first one seen.

    As a sum over all labels its distance is that of the positive label, twice, and what happened beside the
    two: a round that a third label settled, or one with other labels in the answer than the two. One of the
    first kind was wrong about the negative label and about the third, by 1 each. One of the second kind may
    be taken out of the table, and counts as 2 for each label then.
    """

    name = "binary"
    asked: Asked = (None,)
    """And while there are not two labels, those of the answer."""
    norm = "of the positive class's probability"
    steers = True
    steers_vectors = False
    fewest = 2

    def names(self, answer: Mapping[Label, float], labels: Labels) -> list[Label]:
        """False and True while no label has come."""
        return list(labels.both(answer, 0.5))

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._strangers: Counter[Label] = Counter()
        self._strange_answers: Counter[frozenset[Label]] = Counter()

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> Answer:
        """The labels but the positive one share what it leaves."""
        if labels.pair is None:
            self.asked = (None, *names)
        return labels.both(answer, self.projection(None).ask(labels.read(answer)))

    def _keys(self) -> Iterable[Hashable]:
        return self.asked[:1]

    def forecasts(self, labels: Labels) -> Answer:
        """That of the positive label, True while none has come."""
        positive = True if labels.positive is None else labels.positive
        return {positive: self.projection(None).ticket().probability}

    def settle(self, label: Label, labels: Labels) -> None:
        """Charge the round that is here with its label."""
        self.projection(None).settle(int(label == labels.positive))
        if len(self.asked) > 1:
            self._strange_answers[frozenset(self.asked[1:])] += 1
            self.asked = (None,)
        if labels.pair is not None and label not in labels.pair:
            self._strangers[label] += 1

    def learn_alone(
        self, answer: Mapping[Label, float], names: list[Label], label: Label, labels: Labels
    ) -> None:
        """The projection steers by itself."""
        self.projection(None).learn_alone(labels.read(answer), int(label == labels.positive))

    def replay(self, table: Floats, numbers: Ints, labels: Labels, schedule: Schedule) -> Tapes:
        """Of two labels: that of the second one, compiled."""
        if labels.pair is None:
            return super().replay(table, numbers, labels, schedule)
        tapes = self.projection(None).replay(table[:, 1], numbers == 1, schedule)
        return Tapes(np.column_stack([1.0 - tapes.forecasts, tapes.forecasts]), tapes.certificates)

    def over_labels(self, labels: Labels) -> Iterable[Bounded]:
        """The projection for each label of the pair, and what happened beside these."""
        projections = list(self.projections.values())
        beside = self._beside(labels).total()
        return [*projections, *projections, Counted(beside, beside, beside, beside)]

    def by_label(self, labels: Labels) -> dict[Label, float]:
        """The projection's certificate for both labels of the pair, and what happened beside these."""
        found: dict[Label, float] = dict(self._beside(labels))
        for label in labels.pair or ():
            own = in_turn(projection.certificate for projection in self.projections.values())
            found[label] = found.get(label, 0) + own
        return found

    def _beside(self, labels: Labels) -> Counter[Label]:
        """What rounds beside the two labels cost, by label."""
        found: Counter[Label] = Counter()
        if labels.pair is None:
            return found
        negative, _ = labels.pair
        found[negative] = self._strangers.total()
        found.update(self._strangers)
        for names, number in self._strange_answers.items():
            if names != set(labels.pair):
                found.update(dict.fromkeys(names.union(labels.pair), 2 * number))
        return found


class Certain(Strategy):
    """Says what goes without saying. Each round that another label follows adds 1 to the distance.

    Of all labels together that is 2: one for the label that was named, one for that which came.
    """

    name = "certain"
    norm = "of the probability of the only class"
    steers_vectors = False
    fewest = 0

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._surprises: Counter[Label] = Counter()
        self._moments, self._recent = settings.moments, Recent()

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> Answer:
        """The only label, or nothing."""
        self.asked = tuple(names)
        return dict.fromkeys(names, 1.0)

    def forecasts(self, labels: Labels) -> Answer:
        """The same."""
        return dict.fromkeys(self.asked, 1.0)

    def settle(self, label: Label, labels: Labels) -> None:
        """Count a surprise."""
        for name in self.asked:
            if name != label:
                self._surprises.update((name, label))
                if self._moments is not None:
                    self._recent.note(self._moments, 1)

    def _keys(self) -> Iterable[Hashable]:
        return ()

    def bounded(self) -> Iterable[Bounded]:
        """The surprises: all of them, and the most that any window had."""
        number = self._surprises.total() / 2
        recent = 0.0 if self._moments is None else self._recent.within(self._moments)
        return (Counted(number, number, recent, self._recent.most),)

    def over_labels(self, labels: Labels) -> Iterable[Bounded]:
        """Once for the label that was named, once for that which came."""
        return 2 * tuple(self.bounded())

    def by_label(self, labels: Labels) -> dict[Label, float]:
        """How often each was named or came in a surprise."""
        return {label: float(number) for label, number in self._surprises.items()}


class Classwise(Strategy):
    """One event for each label; the answer is the distribution nearest to these, towards the hints.

    What is certified are the answers: by how much these are farther from the charged points than the
    forecasts counts, too.
    """

    name = "classwise"
    norm = "a sum over the classes, each one against the rest"
    is_over_labels = True

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> Answer:
        """Each label's forecast follows its hint."""
        self.asked, projections = tuple(names), [self.projection(name) for name in names]
        asked = self.steering.ask(answer, names)
        hints = [asked[name] for name in names]
        said = [projection.ask(hint) for projection, hint in zip(projections, hints, strict=True)]
        given = completed(said, hints)
        for projection, probability in zip(projections, given, strict=True):
            projection.give(probability)
        return dict(zip(names, given, strict=True))

    def settle(self, label: Label, labels: Labels) -> None:
        """Charge the round that is here; a label that it does not name was as good as forecast with 0."""
        super().settle(label, labels)
        if label not in self.asked:
            self.projection(label).surprise()

    def replay(self, table: Floats, numbers: Ints, labels: Labels, schedule: Schedule) -> Tapes:
        """Column by column, compiled: labels have nothing to do with each other but in hints and answers."""
        hints = self.steering.replay(table, numbers, list(labels.known), schedule)
        tapes = [
            self.projection(label).replay(hints[:, number], numbers == number, schedule, traced=True)
            for number, label in enumerate(labels.known)
        ]
        answers = completed_rows(np.column_stack([each.forecasts for each in tapes]), hints)
        certificates = np.zeros(len(schedule.order))
        for label, each, given in zip(labels.known, tapes, answers.T, strict=True):
            certificates += self.projection(label).book(each, given, schedule)
        return Tapes(answers, certificates)

    def by_label(self, labels: Labels) -> dict[Label, float]:
        """The certificate of each label's probabilities."""
        return {label: projection.certificate for label, projection in self.projections.items()}

    def outlook(self, n_labels: int, rounds: int, is_window: bool = False) -> tuple[float, float]:
        """A projection for each label; without any each could be forecast as 0."""
        return n_labels * self.promise_of_one(rounds, is_window), rounds


LEAST_ON_TOP = 1.0 + 1e-9
"""The least probability of the top one of k >= 2 labels, times k: every other label can have less."""


class TopLabel(Strategy):
    """One event: that the label is the one with the greatest hint, whichever that is.

    That label is also the one with the greatest probability of the answer: it is given a little more than
    1/k at least, of k labels, and all others less than it has. Being the greatest, its hint may be off where
    those of single labels are not: it is steered once more.
    """

    name = "top-label"
    norm = "of the probability of the class on top"
    steers = True
    fewest = 2

    def projection(self, label: Label | None) -> Projection:
        """One for all labels."""
        return self.projections.get(None) or super().projection(None)

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> Answer:
        """The others share what the top label leaves; a model that says nothing counts as undecided."""
        hints = self.steering.ask(answer, names)
        masses = {label: hints.get(label, 0.0) for label in names} if hints else dict.fromkeys(names, 1.0)
        best = max(masses, key=masses.__getitem__)
        raw = masses[best] if hints else 1.0 / len(names)
        projection = self.projection(best)
        given = max(projection.ask(raw), LEAST_ON_TOP / len(names))
        projection.give(given)
        self.asked = (best,)
        return spread_top(masses, best, given)

    def replay(self, table: Floats, numbers: Ints, labels: Labels, schedule: Schedule) -> Tapes:
        """One column, compiled: the greatest hints, and whether their labels came."""
        hints = self.steering.replay(table, numbers, list(labels.known), schedule)
        tops, projection = hints.argmax(axis=1), self.projection(None)
        tapes = projection.replay(hints.max(axis=1), tops == numbers, schedule, traced=True)
        given = np.maximum(tapes.forecasts, LEAST_ON_TOP / table.shape[1])
        answers = np.empty_like(table)
        for row, (masses, best, p) in enumerate(
            zip(hints.tolist(), tops.tolist(), given.tolist(), strict=True)
        ):
            said = spread_top(dict(enumerate(masses)), best, p)
            answers[row] = [said[label] for label in range(len(masses))]
        return Tapes(answers, projection.book(tapes, given, schedule))


class Node(NamedTuple):
    """A place in the tree: the labels whose numbers are `residue` modulo 2^depth."""

    depth: int
    residue: int


class Plan:
    """The tree over the labels of a round.

    Attributes
    ----------
    names
        The labels.
    inner
        By each node that has labels in both halves, from the root down: the places, in lists with one entry
        for every label and then one for every such node, of itself and of its halves.
    """

    def __init__(self, names: Asked, numbers: Mapping[Label, int]) -> None:
        self.names = names
        self.inner: dict[Node, tuple[int, int, int]] = {}
        whole = [(numbers[name], place) for place, name in enumerate(names)]
        self._enter(0, whole)

    def _enter(self, depth: int, below: list[tuple[int, int]]) -> int:
        """Enter the inner nodes over these (number, place) of labels: the place of the topmost one."""
        if len(below) == 1:
            return below[0][1]
        halves = [[one for one in below if one[0] >> depth & 1 == digit] for digit in (0, 1)]
        if not all(halves):
            return self._enter(depth + 1, below)
        node, place = Node(depth, below[0][0] & ((1 << depth) - 1)), len(self.names) + len(self.inner)
        # entered before its halves, so that nodes come from the root down
        self.inner[node] = place, place, place
        first, second = (self._enter(depth + 1, half) for half in halves)
        self.inner[node] = place, first, second
        return place

    def below(self, place: int) -> tuple[Label, ...]:
        """The labels below a place."""
        for own, first, second in self.inner.values():
            if own == place:
                return self.below(first) + self.below(second)
        return (self.names[place],)


class Tree(Strategy):
    """One event for each inner node, on the rounds whose label is below it: that it is in the second half.

    The answer is the product of the forecasts on the way to each label: it sums to 1 as it is, and the
    forecasts can be read off it. A horizon is not used, since a node's share of the rounds is not known
    beforehand.

    Attributes
    ----------
    numbers
        By label: the order in which labels were first named.
    """

    name = "tree"
    norm = "a sum over the tree's nodes, each on the rounds below it"
    fewest = 2

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._settings = self._settings._replace(horizon=None)
        self.numbers: dict[Label, int] = {}
        self._plan = Plan((None,), {None: 0})

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> Answer:
        """Each node's forecast follows the share that its second half has of the hint."""
        plan, hints = self._planned(names), self.steering.ask(answer, names)
        self.asked = plan.names
        masses = [max(0.0, hints.get(name, 0.0)) for name in plan.names] + [0.0] * len(plan.inner)
        for own, first, second in reversed(plan.inner.values()):
            masses[own] = masses[first] + masses[second]
        said = [1.0] * len(masses)
        for node, (own, first, second) in plan.inner.items():
            p = self.projection(node).ask(masses[second] / masses[own] if masses[own] > 0.0 else 0.5)
            said[first], said[second] = said[own] * (1.0 - p), said[own] * p
        return dict(zip(plan.names, said, strict=False))

    def forecasts(self, labels: Labels) -> Answer:
        """By (labels of the first half, labels of the second half): the second's probability given both."""
        plan = self._planned(self.asked)
        return {
            (plan.below(first), plan.below(second)): self.projection(node).ticket().probability
            for node, (_, first, second) in plan.inner.items()
        }

    def settle(self, label: Label, labels: Labels) -> None:
        """Charge the nodes above the label; a half without named labels was as good as forecast with 0."""
        plan, number = self._planned(self.asked), self._number(label)
        for node in plan.inner:
            if number & ((1 << node.depth) - 1) == node.residue:
                self.projection(node).settle(number >> node.depth & 1)
        if label not in self.asked:
            # how many digits its number has in common with that of a label that was named, at most
            differing = [number ^ self.numbers[name] for name in self.asked]
            common = max((digits & -digits).bit_length() - 1 for digits in differing)
            self.projection(Node(common, number & ((1 << common) - 1))).surprise()
        self.steering.learn(label)

    def _keys(self) -> Iterable[Hashable]:
        return self._planned(self.asked).inner

    def outlook(self, n_labels: int, rounds: int, is_window: bool = False) -> tuple[float, float]:
        """Of the nodes of each depth, which share all rounds; each could be forecast as 1/2.

        Of a window each node may have all rounds.
        """
        depths = range((n_labels - 1).bit_length())
        trivial = len(depths) * rounds / 2
        if is_window:
            return (n_labels - 1) * self.promise_of_one(rounds, is_window), trivial
        nodes = [min(1 << depth, n_labels - (1 << depth)) for depth in depths]
        promises = [number * self.promise_of_one(-(-rounds // number), is_window) for number in nodes]
        return in_turn(promises), trivial

    def _number(self, label: Label) -> int:
        return self.numbers.setdefault(label, len(self.numbers))

    def _planned(self, names: Sequence[Label]) -> Plan:
        """The tree over these labels, the last one again if it has them."""
        if self._plan.names != tuple(names):
            for name in names:
                self._number(name)
            self._plan = Plan(tuple(names), self.numbers)
        return self._plan


class Simplex(Strategy):
    """The calibrated forecast of all labels together that is nearest to the steered vector.

    Labels are discovered as they come; one that was never forecast costs at most 2, once. A slack below 1,
    too little for labels yet unknown, counts as 1; None is the forecaster's own for hints. If all labels are
    declared there are windows, too, and without horizon and window the grid tunes itself: its cells are
    finer, which hints are worth, at a smaller guarantee.

    Attributes
    ----------
    forecaster
        Makes the joint forecasts; its classes are the labels that have come.
    """

    name = "simplex"
    norm = "of all classes together, a sum over the classes (l1)"
    is_over_labels = True
    _token: SimplexForecast | None = None
    """The forecast that was asked for last, while it is here."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        declared, moments, horizon = settings.declared, settings.moments, settings.horizon
        given: dict[str, Any] = {"labels": list(declared) or None, "horizon": horizon}
        given["slack"] = None if settings.slack is None else max(1.0, float(settings.slack))
        given["window"] = moments.window if moments is not None and declared else None
        if horizon is given["window"] is None:
            given["grid"] = "adaptive"
        with warnings.catch_warnings():
            # said, where it is so, by those who choose this strategy: it is made along with all others
            warnings.simplefilter("ignore", GuaranteeWarning)
            self.forecaster = SimplexAlmostOneStepAhead(hints=True, **given)
        self._announced: Answer = {}

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> Answer:
        """The answer is the joint forecast; an earlier one that was neither settled nor taken is given up.

        Labels of the hint that no outcome has had yet get no weight, unless there are no others.
        """
        hint = self._announced = self.steering.ask(answer, names)
        if self._token is not None:
            self.forecaster.withdraw(self._token)
        masses = {label: hint.get(label, 0.0) for label in self.forecaster.classes}
        self._token = self.forecaster.forecast(normalised(masses) if masses else None)
        if masses:
            self._announced = {**dict.fromkeys(hint, 0.0), **self._token.probabilities}
        return self._announced

    def forecasts(self, labels: Labels) -> Answer:
        """The joint forecast."""
        return self._announced

    def settle(self, label: Label, labels: Labels) -> None:
        """Charge the joint forecast that is here; the hints learn."""
        super().settle(label, labels)
        self.forecaster.observe(self._taken(), label)

    def take(self) -> Waiting:
        """The open round with its joint forecast."""
        return super().take()._replace(joint=self._taken())

    def _taken(self) -> SimplexForecast:
        token, self._token = self._token, None
        assert token is not None
        return token

    def present(self, waiting: Waiting) -> None:
        """Put a round back in its place, with its joint forecast."""
        super().present(waiting)
        self._token = waiting.joint

    def give_up(self, waiting: Waiting) -> None:
        """Its joint forecast will never be charged."""
        assert waiting.joint is not None
        self.forecaster.withdraw(waiting.joint)

    def replay(self, table: Floats, numbers: Ints, labels: Labels, schedule: Schedule) -> Tapes:
        """Compiled while no label is late or missing."""
        if not schedule.is_in_time:
            return super().replay(table, numbers, labels, schedule)
        hints = normalised_rows(self.steering.replay(table, numbers, list(labels.known), schedule))
        return Tapes(*replayed_with_certificates(self.forecaster._run, numbers, hints))

    def bounded(self) -> Iterable[Bounded]:
        """The joint forecasts alone, once there are any: most streams of two classes never make one."""
        return (self.forecaster,) if self.forecaster.n_rounds or self.forecaster.window else ()

    def outlook(self, n_labels: int, rounds: int, is_window: bool = False) -> tuple[float, float]:
        """In l1 over the labels; the same probability for each is 2 - 2/k from each corner.

        Nothing is guaranteed of windows unless all labels are declared.
        """
        run, trivial = self.forecaster.new_run(), rounds * (2.0 - 2.0 / n_labels)
        if is_window:
            promised = run.window_guarantee
            return math.inf if promised is None else promised, trivial
        run.numbers = {number: number for number in range(n_labels)}
        return float(run.promise(max(run.horizon or 0, rounds))), trivial
