"""The labels halved, the halves halved again, and so on: how probable one half is, given that it is either.

Labels are numbered as they are first named. The node (d, r) of the tree is about those whose numbers are r
modulo 2^d, and splits them by the next binary digit; so a tree of k labels is log2 k deep, rounded up, has
k - 1 inner nodes, and a new label turns one leaf into a node and leaves the others what they were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from onlinecal.elementary import in_turn
from onlinecal.wrappers.labels import Label, Labels
from onlinecal.wrappers.strategies.buckets import Buckets
from onlinecal.wrappers.strategies.moments import Moments
from onlinecal.wrappers.strategies.steered_vectors import SteeredVectors
from onlinecal.wrappers.strategies.strategy import Answer, Asked, Outlook, Strategy, Waiting


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

    def __init__(
        self,
        slack: float | None,
        n_buckets: Buckets,
        horizon: int | None,
        moments: Moments | None = None,
        steering: SteeredVectors | None = None,
    ) -> None:
        super().__init__(slack, n_buckets, None, moments, steering)
        self.numbers: dict[Label, int] = {}
        self._plan = Plan((None,), {None: 0})

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> tuple[Asked, Answer]:
        """Each node's forecast follows the share that its second half has of the hint."""
        plan, hints = self._planned(names), self.hints(answer, names)
        masses = [max(0.0, hints.get(name, 0.0)) for name in plan.names] + [0.0] * len(plan.inner)
        for own, first, second in reversed(plan.inner.values()):
            masses[own] = masses[first] + masses[second]
        said = [1.0] * len(masses)
        for node, (own, first, second) in plan.inner.items():
            p = self.projection(node).ask(masses[second] / masses[own] if masses[own] > 0.0 else 0.5)
            said[first], said[second] = said[own] * (1.0 - p), said[own] * p
        return plan.names, dict(zip(plan.names, said, strict=False))

    def forecasts(self, asked: Asked, labels: Labels) -> Answer:
        """By (labels of the first half, labels of the second half): the second's probability given both."""
        plan = self._planned(asked)
        return {
            (plan.below(first), plan.below(second)): self.projection(node).ticket().probability
            for node, (_, first, second) in plan.inner.items()
        }

    def settle(self, asked: Asked, label: Label, labels: Labels) -> None:
        """Charge the nodes above the label; a half without named labels was as good as forecast with 0."""
        plan, number = self._planned(asked), self._number(label)
        for node in plan.inner:
            if number & ((1 << node.depth) - 1) == node.residue:
                self.projection(node).settle(number >> node.depth & 1)
        if label not in asked:
            # how many digits its number has in common with that of a label that was named, at most
            common = max(_trailing_zeros(number ^ self.numbers[name]) for name in asked)
            self.projection(Node(common, number & ((1 << common) - 1))).surprise()
        self.learn(label)

    def take(self, asked: Asked) -> Waiting:
        """The open round with the tickets of its nodes."""
        inner = self._planned(asked).inner
        tickets: dict[Any, Any] = {node: self.projection(node).ticket() for node in inner}
        return Waiting(self.name, asked, tickets, steered=self.steered_ticket())

    def outlook(self, n_labels: int, rounds: int) -> Outlook:
        """Of the nodes of each depth, which share all rounds; each could be forecast as 1/2."""
        depths = range((n_labels - 1).bit_length())
        nodes = [min(1 << depth, n_labels - (1 << depth)) for depth in depths]
        promises = [number * self.promise_of_one(-(-rounds // number)) for number in nodes]
        return Outlook(in_turn(promises), len(nodes) * rounds / 2)

    def window_outlook(self, n_labels: int, window: int) -> Outlook | None:
        """Of all nodes; each may have all rounds of the window."""
        guarantee = (n_labels - 1) * self.window_promise_of_one()
        return Outlook(guarantee, (n_labels - 1).bit_length() * window / 2)

    def _number(self, label: Label) -> int:
        return self.numbers.setdefault(label, len(self.numbers))

    def _planned(self, names: Sequence[Label]) -> Plan:
        """The tree over these labels, the last one again if it has them."""
        if self._plan.names != tuple(names):
            for name in names:
                self._number(name)
            self._plan = Plan(tuple(names), self.numbers)
        return self._plan


def _trailing_zeros(number: int) -> int:
    return (number & -number).bit_length() - 1
