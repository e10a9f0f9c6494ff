"""The simplex forecaster once more, slow and plain: tuples for points, dicts for tables, exact fractions.

Written from the text of docs/theory-simplex.md, not from the machine: labels come from counts and rounds,
cells are lists of points, and `every_cell` lists the whole triangulation.
"""

from fractions import Fraction
from functools import partial
from itertools import permutations


def grid_points(k, m):
    if k == 1:
        return [(m,)]
    return [(x, *rest) for x in range(m + 1) for rest in grid_points(k - 1, m - x)]


def shifted(x, step):
    """The point after the step that moves a unit from a class to the next one."""
    y = list(x)
    y[step] -= 1
    y[(step + 1) % len(x)] += 1
    return tuple(y)


def every_cell(k, m):
    """All cells of Kuhn's triangulation, each as a frozenset of its k vertices."""
    cells = set()
    for x in grid_points(k, m):
        for order in permutations(range(k)):
            word = [x]
            for step in order[:-1]:
                word.append(shifted(word[-1], step))
            if all(min(point) >= 0 for point in word):
                cells.add(frozenset(word))
    return cells


class Reference:
    """k classes on the grid of points x/m; `hint` and `slack` as in the machine."""

    def __init__(self, k, m, slack=None):
        self.k, self.m, self.slack = k, m, slack
        self.counts, self.labels = {}, {}
        self.moved, self.restarts, self.changes = Fraction(0), 0, 0
        self.word, self.steps = self.restarted([Fraction(1, k)] * k)

    # the labels

    def bias(self, x, j):
        counts = self.counts.get(x, [0] * self.k)
        return sum(counts) * Fraction(x[j], self.m) - counts[j]

    def tijdeman(self, x, last):
        support = [j for j in range(self.k) if x[j]]
        if len(support) == 1:
            return support[0]
        h = Fraction(1, 2 * len(support) - 2)
        counts = self.counts.get(x, [0] * self.k)
        n = sum(counts)
        v = [Fraction(weight, self.m) for weight in x]
        eligible = [j for j in support if (n + 1) * v[j] - counts[j] >= h]
        first = min((1 - h + counts[j]) / v[j] for j in eligible)
        tied = [j for j in eligible if (1 - h + counts[j]) / v[j] == first]
        return last if last in tied else max(tied)

    def label(self, x):
        return self.labels[x] if x in self.labels else self.tijdeman(x, None)

    def artificial(self, x, anchor):
        return next(j for j in range(self.k) if sum(x[: j + 1]) > sum(anchor[: j + 1]))

    def leaning(self, x, anchor):
        wished = self.artificial(x, anchor)
        if self.slack is not None and self.bias(x, wished) + Fraction(x[wished], self.m) - 1 >= -self.slack:
            return wished
        return self.label(x)

    # the walks

    def anchor_near(self, target):
        """Largest remainders: the anchor whose upward cell is centred nearest to the target."""
        goal = [max(Fraction(0), self.m * u - Fraction(1, self.k)) for u in target]
        anchor = [int(g) for g in goal]
        goal = [self.m * u for u in target]
        while sum(anchor) < self.m - 1:
            gaps = [g - a for g, a in zip(goal, anchor, strict=True)]
            anchor[gaps.index(max(gaps))] += 1
        while sum(anchor) > self.m - 1:
            gaps = [a - g if a else Fraction(-self.m) for g, a in zip(goal, anchor, strict=True)]
            anchor[gaps.index(max(gaps))] -= 1
        return anchor

    def restarted(self, target, leaning=False):
        """Through the slab: vertices are (point, level), the last two steps are UP and back."""
        self.restarts += 1
        k, anchor = self.k, self.anchor_near(target)
        points = [tuple(a + (c == j) for c, a in enumerate(anchor)) for j in range(k)]
        word = [(x, 0) for x in points] + [(points[-1], 1)]
        steps = [*range(k - 1), "up", k - 1]

        def label(vertex):
            x, level = vertex
            if level == 0:
                return self.artificial(x, anchor)
            return self.leaning(x, anchor) if leaning else self.label(x)

        labels = [label(vertex) for vertex in word]
        assert labels[:k] == list(range(k))
        new = k
        while True:
            (old,) = [i for i in range(k + 1) if labels[i] == labels[new] and i != new]
            if sum(level for _, level in word) - word[old][1] == k:
                word, steps = word[old + 1 :] + word[:old], steps[old + 1 :] + steps[:old]
                return [x for x, _ in word], steps
            steps[old - 1], steps[old] = steps[old], steps[old - 1]
            x, level = word[old - 1]
            step = steps[old - 1]
            word[old] = (x, 1) if step == "up" else (shifted(x, step), level - (step == k - 1))
            assert min(word[old][0]) >= 0
            assert word[old][1] in (0, 1)
            labels[old] = label(word[old])
            new = old

    def doors(self, changed):
        walks = []
        labels = [self.label(x) for x in self.word]
        twin = next(i for i in range(self.k) if i != changed and labels[i] == labels[changed])
        for drop in (changed, twin):
            walks.append([list(self.word), list(self.steps), drop])
        while any(drop is not None for _, _, drop in walks):
            for walk in walks:
                word, steps, drop = walk
                if drop is None:
                    continue
                y = shifted(word[drop - 1], steps[drop])
                if min(y) < 0:
                    walk[2] = None
                    continue
                steps[drop - 1], steps[drop] = steps[drop], steps[drop - 1]
                word[drop] = y
                labels = [self.label(x) for x in word]
                if len(set(labels)) == self.k:
                    return word, steps
                walk[2] = next(i for i in range(self.k) if i != drop and labels[i] == labels[drop])
                both = all(drop is not None for _, _, drop in walks)
                if both and set(walks[0][0]) == set(walks[1][0]):
                    return None
        return None

    # the game

    def forecast(self, word=None):
        return [Fraction(sum(column), self.k * self.m) for column in zip(*(word or self.word), strict=True)]

    def play(self, outcome, hint=None):
        """One round: the forecast that was announced and the point that was charged."""
        word, label = self.word, self.label
        if hint is not None:
            word, anchor = self.restarted(hint, leaning=True)[0], self.anchor_near(hint)
            label = partial(self.leaning, anchor=anchor)
        forecast = self.forecast(word)
        (x,) = [x for x in word if label(x) == outcome]
        self.moved += sum(abs(p - Fraction(c, self.m)) for p, c in zip(forecast, x, strict=True))
        before = self.label(x)
        self.counts.setdefault(x, [0] * self.k)[outcome] += 1
        self.labels[x] = self.tijdeman(x, outcome)
        if x in self.word and self.labels[x] != before:
            self.changes += 1
            found = self.doors(self.word.index(x))
            self.word, self.steps = found or self.restarted(self.forecast())
        return forecast, x

    @property
    def spread(self):
        return sum((abs(self.bias(x, j)) for x in self.counts for j in range(self.k)), Fraction(0))

    @property
    def certificate(self):
        return self.moved + self.spread
