"""All strategies: events of one label, of each, of the top one, of halves of the labels; or all at once.

And which of them "auto" is.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.elementary import in_turn
from onlinecal.forecasters import SimplexAlmostOneStepAhead, SimplexForecast
from onlinecal.forecasters.binary.choice import check_slack
from onlinecal.forecasters.binary.windows import MOST_WINDOW
from onlinecal.forecasters.simplex.input import check_labels
from onlinecal.forecasters.simplex.run import replayed_with_certificates
from onlinecal.remarks import GuaranteeWarning, vacuous_remarks, warn_of
from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.validation import check_choice, check_count
from onlinecal.wrappers.labels import Label, completed, normalised, normalised_rows, over, spread_top
from onlinecal.wrappers.strategies.projection import AUTO as AUTO_BUCKETS
from onlinecal.wrappers.strategies.projection import Buckets, Projection, Recent, check_buckets
from onlinecal.wrappers.strategies.strategy import Answer, Bounded, Counted, Settings, Strategy, Waiting


class Binary(Strategy):
    """One event: that the label is the positive one.

    While that is not known a label of the answer is forecast. Each label that is forecast has a projection of
    its own.

    As a sum over all labels its distance is that of the positive label, twice, and what happened beside the
    two: a round that a third label settled, or one with other labels in the answer than the two. One of the
    first kind was wrong about the negative label and about the third, by 1 each. One of the second kind may
    be taken out of the table, and counts as 2 for each label then.
    """

    name = "binary"
    norm = "of the positive class's probability"
    steers = True
    steers_vectors = False
    fewest = 2

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._strangers: Counter[Label] = Counter()
        self._strange_answers: Counter[tuple[Label, ...]] = Counter()

    def names(self, answer: Mapping[Label, float]) -> list[Label]:
        """False and True while no label has come."""
        return list(self.labels.names(answer))

    def ask(self, answer: Mapping[Label, float], names: list[Label]) -> Answer:
        """The labels but the one that is forecast share what it leaves."""
        event = self.labels.event(names)
        projection = self.projection(event)
        self.asked = () if self.labels.pair is not None else tuple(names)
        self.events = {event: projection}
        return over(names, event, projection.ask(self.labels.probability(event, answer)))

    def settle(self, label: Label) -> None:
        """Charge the event, and note what was beside the two labels.

        While labels are being discovered one may come that the answer did not name. Such a round counts in
        full, and no table is charged for it: whoever looks at the probability of that label in all answers
        finds 0 in this one.
        """
        ((event, projection),) = self.events.items()
        if self.asked and label not in self.asked:
            projection.surprise()
        else:
            projection.settle(int(label == event))
        if self.asked:
            self._strange_answers[self.asked] += 1
        if self.labels.pair is not None and label not in self.labels.pair:
            self._strangers[label] += 1
        self.rest()

    def rest(self) -> Projection | None:
        """Once there are two labels every round is of the same event: what forecasts it, else None."""
        self.asked = ()
        if self.labels.pair is None:
            return None
        positive = self.labels.pair[1]
        self.events = {positive: self.projection(positive)}
        return self.events[positive]

    def learn_alone(self, answer: Mapping[Label, float], names: list[Label], label: Label) -> None:
        """The projection steers by itself."""
        event = self.labels.event(names)
        self.projection(event).learn_alone(self.labels.probability(event, answer), int(label == event))

    def replay(self, table: Floats, numbers: Ints, schedule: Schedule) -> Tapes:
        """Of two labels: that of the second one, compiled."""
        projection = self.rest()
        assert projection is not None
        tapes = projection.replay(table[:, 1], numbers == 1, schedule)
        return Tapes(np.column_stack([1.0 - tapes.forecasts, tapes.forecasts]), tapes.certificates)

    def over_labels(self) -> Iterable[Bounded]:
        """The projection for each label of the pair, and what happened beside these."""
        beside = self._beside().total()
        return [*2 * tuple(self.bounded()), Counted(beside, beside, beside, beside)]

    def by_label(self) -> dict[Label, float]:
        """The projection's certificate for both labels of the pair, and what happened beside these."""
        found: dict[Label, float] = dict(self._beside())
        for label in self.labels.pair or ():
            own = in_turn(projection.certificate for projection in self.projections.values())
            found[label] = found.get(label, 0) + own
        return found

    def _beside(self) -> Counter[Label]:
        """What rounds beside the two labels cost, by label."""
        found: Counter[Label] = Counter()
        if self.labels.pair is not None:
            found[self.labels.pair[0]] = self._strangers.total()
            found.update(self._strangers)
            for names, number in self._strange_answers.items():
                if {*names} != {*self.labels.pair}:
                    found.update(dict.fromkeys((*self.labels.pair, *names), 2 * number))
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
        self._recent = Recent(settings.moments)

    def ask(self, answer: Mapping[Label, float], names: list[Label]) -> Answer:
        """The only label, or nothing."""
        self.asked = tuple(names)
        return self.forecasts()

    def forecasts(self) -> Answer:
        """The same."""
        return dict.fromkeys(self.asked, 1.0)

    def settle(self, label: Label) -> None:
        """Count a surprise."""
        for name in self.asked:
            if name != label:
                self._surprises.update((name, label))
                self._recent.note(1)

    def bounded(self) -> Iterable[Bounded]:
        """The surprises: all of them, and the most that any window had."""
        number = self._surprises.total() / 2
        return (Counted(number, number, self._recent.within(), self._recent.most),)

    def over_labels(self) -> Iterable[Bounded]:
        """Once for the label that was named, once for that which came."""
        return 2 * tuple(self.bounded())

    def by_label(self) -> dict[Label, float]:
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

    def ask(self, answer: Mapping[Label, float], names: list[Label]) -> Answer:
        """Each label's forecast follows its hint."""
        asked = self.steering.ask(answer, names)
        hints = [asked[name] for name in names]
        self.events = {name: self.projection(name) for name in names}
        projections = self.events.values()
        said = [projection.ask(hint) for projection, hint in zip(projections, hints, strict=True)]
        given = completed(np.array([said]), np.array([hints]))[0].tolist()
        for projection, probability in zip(projections, given, strict=True):
            projection.give(probability)
        return dict(zip(names, given, strict=True))

    def settle(self, label: Label) -> None:
        """Charge each label; one that is not named was as good as forecast with 0."""
        for name, projection in self.events.items():
            projection.settle(int(label == name))
        self.steering.learn(label)
        if label not in self.events:
            self.projection(label).surprise()

    def replay(self, table: Floats, numbers: Ints, schedule: Schedule) -> Tapes:
        """Column by column, compiled: labels have nothing to do with each other but in hints and answers."""
        hints = self.steering.replay(table, numbers, list(self.labels.known), schedule)
        tapes = [
            self.projection(label).replay(hints[:, number], numbers == number, schedule, traced=True)
            for number, label in enumerate(self.labels.known)
        ]
        answers = completed(np.column_stack([each.forecasts for each in tapes]), hints)
        certificates = np.zeros(len(schedule.order))
        for label, each, given in zip(self.labels.known, tapes, answers.T, strict=True):
            certificates += self.projection(label).book(each, given, schedule)
        return Tapes(answers, certificates)

    def by_label(self) -> dict[Label, float]:
        """Of each label's projection."""
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

    def ask(self, answer: Mapping[Label, float], names: list[Label]) -> Answer:
        """The others share what the top label leaves."""
        hints = self.steering.ask(answer, names)
        masses = {label: hints[label] for label in names}
        best = max(masses, key=masses.__getitem__)
        projection = self.projection(None)
        given = max(projection.ask(masses[best]), LEAST_ON_TOP / len(names))
        projection.give(given)
        self.asked, self.events = (best,), {None: projection}
        return spread_top(masses, best, given)

    def forecasts(self) -> Answer:
        """That of the top label."""
        return {self.asked[0]: self.projection(None).given}

    def settle(self, label: Label) -> None:
        """Charge whether it was the top label."""
        self.projection(None).settle(int(label == self.asked[0]))
        self.steering.learn(label)

    def replay(self, table: Floats, numbers: Ints, schedule: Schedule) -> Tapes:
        """One column, compiled: the greatest hints, and whether their labels came."""
        hints = self.steering.replay(table, numbers, list(self.labels.known), schedule)
        tops, projection, k = hints.argmax(axis=1), self.projection(None), table.shape[1]
        tapes = projection.replay(hints.max(axis=1), tops == numbers, schedule, traced=True)
        given = np.maximum(tapes.forecasts, LEAST_ON_TOP / k)
        answers = np.empty_like(table)
        for row, (masses, best) in enumerate(zip(hints.tolist(), tops.tolist(), strict=True)):
            said = spread_top(dict(enumerate(masses)), best, float(given[row]))
            answers[row] = [said[label] for label in range(k)]
        return Tapes(answers, projection.book(tapes, given, schedule))


class Node(NamedTuple):
    """A place in the tree: the labels whose numbers are `residue` modulo 2^depth."""

    depth: int
    residue: int


Halves = dict[Node, tuple[tuple[Label, ...], tuple[Label, ...]]]
"""By each node that has labels in both halves, from the root down: the labels of either."""


def halves_of(names: Sequence[Label], numbers: Mapping[Label, int]) -> Halves:
    """The tree over the labels of a round."""
    found: Halves = {}

    def enter(below: Sequence[Label], depth: int) -> tuple[Label, ...]:
        """Enter the nodes over these labels, which come back in the order of the tree."""
        if len(below) == 1:
            return tuple(below)
        halves = [[name for name in below if numbers[name] >> depth & 1 == digit] for digit in (0, 1)]
        if not all(halves):
            return enter(below, depth + 1)
        node = Node(depth, numbers[below[0]] & ((1 << depth) - 1))
        found[node] = (), ()  # before its halves, so that nodes come from the root down
        first, second = found[node] = enter(halves[0], depth + 1), enter(halves[1], depth + 1)
        return first + second

    enter(names, 0)
    return found


class Tree(Strategy):
    """One event for each inner node, on the rounds whose label is below it: that it is in the second half.

    Labels are numbered as they are first named. A node (d, r) is about those whose numbers are r modulo 2^d,
    and splits them by the next binary digit; so a tree of k labels is log2 k deep, rounded up, has k - 1
    inner nodes, and a new label turns one leaf into a node and leaves the others what they were.

    The answer is the product of the forecasts on the way to each label: it sums to 1 as it is, and the
    forecasts can be read off it. A horizon is not used, since a node's share of the rounds is not known
    beforehand.
    """

    name = "tree"
    norm = "a sum over the tree's nodes, each on the rounds below it"
    fewest = 2

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._settings = self._settings._replace(horizon=None)
        self.numbers: dict[Label, int] = {}
        """By label: the order in which labels were first named."""
        self._halves: Halves = {}
        """The tree over the labels of the round that is here."""

    def ask(self, answer: Mapping[Label, float], names: list[Label]) -> Answer:
        """Each node's forecast follows the share that its second half has of the hint."""
        hints = self.steering.ask(answer, names)
        self._grow(tuple(names))
        masses = {(name,): max(0.0, hints.get(name, 0.0)) for name in names}
        for first, second in reversed(self._halves.values()):
            masses[first + second] = masses[first] + masses[second]
        said = dict.fromkeys(masses, 1.0)
        for node, (first, second) in self._halves.items():
            whole = first + second
            p = self.events[node].ask(masses[second] / masses[whole] if masses[whole] > 0.0 else 0.5)
            said[first], said[second] = said[whole] * (1.0 - p), said[whole] * p
        return {name: said[name,] for name in names}

    def forecasts(self) -> Answer:
        """By (labels of the first half, labels of the second half): the second's probability given both."""
        return {halves: self.events[node].given for node, halves in self._halves.items()}

    def settle(self, label: Label) -> None:
        """Charge the nodes above the label; a half without named labels was as good as forecast with 0."""
        number = self.numbers.setdefault(label, len(self.numbers))
        for node in self._halves:
            if number & ((1 << node.depth) - 1) == node.residue:
                self.events[node].settle(number >> node.depth & 1)
        if label not in self.asked:
            # how many digits its number has in common with that of a label that was named, at most
            differing = [number ^ self.numbers[name] for name in self.asked]
            common = max((digits & -digits).bit_length() - 1 for digits in differing)
            self.projection(Node(common, number & ((1 << common) - 1))).surprise()
        self.steering.learn(label)

    def present(self, waiting: Waiting) -> None:
        """Put a round back in its place, with its tree."""
        self._grow(waiting.asked)
        super().present(waiting)

    def _grow(self, names: tuple[Label, ...]) -> None:
        """Take the tree over the labels of a round, the last one again if it has them."""
        if names != self.asked:
            for name in names:
                self.numbers.setdefault(name, len(self.numbers))
            self.asked, self._halves = names, halves_of(names, self.numbers)
            self.events = {node: self.projection(node) for node in self._halves}

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


class Simplex(Strategy):
    """The calibrated forecast of all labels together that is nearest to the steered vector.

    Labels are discovered as they come; one that was never forecast costs at most 2, once. A slack below 1,
    too little for labels yet unknown, counts as 1; None is the forecaster's own for hints. If all labels are
    declared there are windows, too, and without horizon and window the grid tunes itself: its cells are
    finer, which hints are worth, at a smaller guarantee.
    """

    name = "simplex"
    norm = "of all classes together, a sum over the classes (l1)"
    is_over_labels = True
    _token: SimplexForecast | None = None
    """The forecast that was asked for last, while it is here."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        labels, slack, _, horizon, moments, _ = settings
        window = moments.window if moments is not None and labels.declared else None
        with warnings.catch_warnings():
            # said, where it is so, by those who choose this strategy: it is made along with all others
            warnings.simplefilter("ignore", GuaranteeWarning)
            self.forecaster = SimplexAlmostOneStepAhead(
                labels=list(labels.known) if labels.declared else None,
                horizon=horizon,
                slack=None if slack is None else max(1.0, float(slack)),
                window=window,
                hints=True,
                grid="adaptive" if horizon is window is None else "nested",
            )
        self._announced: Answer = {}

    def ask(self, answer: Mapping[Label, float], names: list[Label]) -> Answer:
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

    def forecasts(self) -> Answer:
        """The joint forecast."""
        return self._announced

    def settle(self, label: Label) -> None:
        """Charge the joint forecast that is here."""
        self.steering.learn(label)
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

    def replay(self, table: Floats, numbers: Ints, schedule: Schedule) -> Tapes:
        """Compiled while no label is late or missing."""
        if not schedule.is_in_time:
            return super().replay(table, numbers, schedule)
        hints = normalised_rows(self.steering.replay(table, numbers, list(self.labels.known), schedule))
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
            return float(run.window_promise(run.window)) if run.window else math.inf, trivial
        run.numbers = {number: number for number in range(n_labels)}
        return float(run.promise(max(run.horizon or 0, rounds))), trivial


StrategyName = Literal["auto", "binary", "simplex", "top-label", "classwise", "tree"]
STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)
AUTO = "auto"
CHOICES = {2: Binary.name, 10: Classwise.name, math.inf: TopLabel.name}
"""What "auto" is for up to so many labels, if nothing else is known."""

KINDS: dict[str, type[Strategy]] = {
    kind.name: kind for kind in (Binary, Classwise, TopLabel, Certain, Simplex, Tree)
}
"""All strategies; bounds are added up in this order, on which the last bit of a sum depends."""

INFORMATIVE = {Simplex.name: 0.2, Classwise.name: 0.5, Tree.name: 0.5, TopLabel.name: math.inf}
"""With a window or a horizon "auto" is the first of these with at most this share of the trivial guarantee.

What promises more comes first. A joint guarantee near the trivial one comes from cells so coarse that they
cost skill; with the others forecasts stay near their hints.
"""


def check_settings(
    slack: float | None,
    n_buckets: Buckets,
    strategy: str,
    horizon: int | None,
    window: int | None = None,
    classes: Sequence[Label] | None = None,
) -> tuple[Label, ...]:
    """ValueError unless the settings go together; the labels that are known beforehand."""
    declared = () if classes is None else check_labels(classes, "classes")
    if len(declared) == 1:
        raise ValueError(f"classes must hold at least 2 class labels, got {declared!r}")
    check_choice(strategy, STRATEGIES, "strategy")
    check_buckets(n_buckets, "n_buckets")
    if horizon is not None:
        check_count(horizon, "horizon")
    if slack is not None:
        check_slack(slack)
    if window is not None:
        check_count(window, "window", most=MOST_WINDOW)
        if strategy == Simplex.name and not declared:
            raise ValueError(
                f"window={window} goes with strategy 'simplex' only if classes has all labels: where labels "
                "are discovered it keeps no windows"
            )
        if n_buckets == AUTO_BUCKETS:
            raise ValueError(
                f"window={window} does not go with n_buckets='auto': nothing is proven of windows where "
                "buckets split; name a number of them"
            )
    return declared


def chosen(
    strategy: str,
    n_labels: int,
    made: Callable[[str], Strategy],
    window: int | None,
    horizon: int | None,
) -> str:
    """The name of the strategy for so many labels.

    "auto" goes by what those that are `made` guarantee of any window, or else for the horizon, if there is
    one.
    """
    if strategy != AUTO:
        return strategy
    if n_labels > 2 and not horizon is window is None:
        for name, most in INFORMATIVE.items():
            promised, trivial = made(name).outlook(n_labels, window or horizon or 0, window is not None)
            if promised / trivial <= most:
                return name
    return next(name for most, name in CHOICES.items() if n_labels <= most)


def warn_if_empty(strategy: Strategy, n_labels: int, horizon: int | None) -> bool:
    """Say so if "simplex" guarantees nothing for the horizon; whether that was said."""
    if strategy.name != Simplex.name or horizon is None or n_labels <= 2:
        return False
    remarks = vacuous_remarks(*strategy.outlook(n_labels, horizon), n_labels, horizon)
    warn_of(remarks, GuaranteeWarning)
    return bool(remarks)
