"""The simplex forecaster of `onlinecal.reference`, here with hints and a certificate, and all its cells."""

from fractions import Fraction
from functools import partial
from itertools import permutations

from onlinecal.reference import SimplexForecaster, moved


def grid_points(k, m):
    if k == 1:
        return [(m,)]
    return [(x, *rest) for x in range(m + 1) for rest in grid_points(k - 1, m - x)]


def every_cell(k, m):
    """All cells of Kuhn's triangulation, each as a frozenset of its k vertices."""
    cells = set()
    for x in grid_points(k, m):
        for order in permutations(range(k)):
            word = [x]
            for step in order[:-1]:
                word.append(moved(word[-1], step))
            if all(min(point) >= 0 for point in word):
                cells.add(frozenset(word))
    return cells


class Hinted(SimplexForecaster):
    """Section 9: with a hint labels lean, as far as `slack` allows, and the walk begins at its anchor."""

    def __init__(self, k, m, slack=None):
        self.slack, self.distance, self.restarts, self.changes = slack, Fraction(0), 0, 0
        super().__init__(k, m)

    def walk(self, target, label):
        self.restarts += 1
        return super().walk(target, label)

    def doors(self, changed):
        self.changes += 1
        return super().doors(changed)

    def bias(self, x, j):
        counts = self.counts.get(x, [0] * self.k)
        return sum(counts) * Fraction(x[j], self.m) - counts[j]

    def leaning(self, x, anchor):
        wished = self.artificial(x, anchor)
        if self.slack is not None and self.bias(x, wished) + Fraction(x[wished], self.m) - 1 >= -self.slack:
            return wished
        return self.label(x)

    def play(self, outcome, hint=None):
        """One round: the forecast that was announced and the point that was charged."""
        if hint is None:
            forecast, x = self.barycentre(), self.observe(outcome)
        else:
            label = partial(self.leaning, anchor=self.anchor(hint))
            cell, _ = self.walk(hint, label)
            forecast = [Fraction(sum(column), self.k * self.m) for column in zip(*cell, strict=True)]
            (x,) = [x for x in cell if label(x) == outcome]
            self.charge(x, outcome)
        self.distance += sum(abs(p - Fraction(c, self.m)) for p, c in zip(forecast, x, strict=True))
        return forecast, x

    @property
    def certificate(self):
        spread = sum((abs(self.bias(x, j)) for x in self.counts for j in range(self.k)), Fraction(0))
        return self.distance + spread
