"""Labels halved, the halves halved again, and so on: one event for each half among the rounds of both.

A label keeps its number, and a node its projection, whichever labels a round names. A round asks the nodes
over its labels, `events`, and its label settles those on the way down to it.

`asked`, `_halves` and `events` belong together. `_grow` writes all three. `Strategy.present` then writes
`asked` and `events` once more, with the same values, so `present` calls `_grow` before it. `_answer` or
`present` comes before every `settle`, so that `asked` is not empty there. `numbers` only grows: `_grow`
numbers the labels that a round names, and `settle` a label that no round has named. The numbers decide which
nodes there are, so the order in which labels are first named is part of answers (`tests/corpus`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from onlinecal.elementary import in_turn
from onlinecal.wrappers.labels import Label
from onlinecal.wrappers.strategies.strategy import Answer, Settings, Strategy, WaitingRound


class Node(NamedTuple):
    """A place in the tree: the labels whose numbers are `residue` modulo 2^depth."""

    depth: int
    residue: int


Halves = dict[Node, tuple[tuple[Label, ...], tuple[Label, ...]]]
"""By each node that has labels in both halves, from the root down: the labels of either."""


def halves_of(names: Sequence[Label], numbers: Mapping[Label, int]) -> Halves:
    """The tree over the labels of a round."""
    halves_by_node: Halves = {}

    def enter(below: Sequence[Label], depth: int) -> tuple[Label, ...]:
        """Enter the nodes over these labels, which come back in the order of the tree."""
        if len(below) == 1:
            return tuple(below)
        halves = [[name for name in below if numbers[name] >> depth & 1 == digit] for digit in (0, 1)]
        if not all(halves):
            return enter(below, depth + 1)
        node = Node(depth, numbers[below[0]] & ((1 << depth) - 1))
        halves_by_node[node] = (), ()  # before its halves, so that nodes come from the root down
        first, second = halves_by_node[node] = enter(halves[0], depth + 1), enter(halves[1], depth + 1)
        return first + second

    enter(names, 0)
    return halves_by_node


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

    def _answer(self, answer: Mapping[Label, float], names: list[Label]) -> Answer:
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

    def present(self, waiting: WaitingRound) -> None:
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
