"""Algorithm 2 in plain Python, line by line from the paper, checking its invariants as it goes."""

from itertools import pairwise

import numpy as np


def projected(z):
    """l2 projection on the simplex by sorting."""
    ordered = np.sort(z)[::-1]
    excess = np.cumsum(ordered) - 1.0
    last = np.flatnonzero(ordered - excess / np.arange(1, len(z) + 1) > 0)[-1]
    return np.maximum(z - excess[last] / (last + 1), 0.0)


def level_set(u, n_levels):
    return tuple(np.floor(u * n_levels + min(1e-7 * n_levels, 0.25 / len(u))).astype(int))


class Reference:
    """G and M as Python sets of bins; `estimate(bins)` answers mass and label frequencies of a union."""

    def __init__(self, starts, estimate, n_levels, tolerance):
        self.estimate, self.n_levels, self.tolerance = estimate, n_levels, tolerance
        self.M = {frozenset([b]): estimate(frozenset([b])) for b in range(len(starts))}
        self.G = {b: frozenset([b]) for b in range(len(starts))}
        self.pred = {b: np.array(start, float) for b, start in enumerate(starts)}
        self.rounds = []
        self.ever_in_M = list(self.M)

    def sums(self, S):
        parts = [self.M[part] for part in sorted(self.M, key=len) if part <= S]
        return sum(mass for mass, _ in parts), sum(labels for _, labels in parts)

    def errors(self, g):
        mass, labels = self.sums(self.G[g])
        return np.abs(mass * self.pred[g] - labels)

    def squared_error(self):
        total = 0.0
        for g, S in self.G.items():
            mass, labels = self.sums(S)
            total += mass * (1 + self.pred[g] @ self.pred[g]) - 2 * labels @ self.pred[g]
        return total

    def check(self):
        bins = sorted(b for S in self.G.values() for b in S)
        assert bins == sorted(b for S in self.M for b in S) == list(range(len(bins)))
        for S in self.G.values():
            sizes = [len(part) for part in self.M if part <= S]
            assert len(set(sizes)) == len(sizes)
            assert all(size & (size - 1) == 0 for size in sizes)
            assert sum(sizes) == len(S)
        sets = [level_set(u, self.n_levels) for u in self.pred.values()]
        assert len(set(sets)) == len(sets)

    def run(self, choices):
        """Play; of errors equal up to rounding the one named by `choices`, pairs of group and class, goes."""
        self.check()
        choices = iter(choices)
        while True:
            errors = {g: self.errors(g) for g in sorted(self.G)}
            if not errors:
                return self
            worst = max(error.max() for error in errors.values())
            if not worst > self.tolerance:
                return self
            t, j = next(choices)
            assert errors[t][j] >= worst - 1e-12
            before = self.squared_error()
            mass, labels = self.sums(self.G[t])
            z = self.pred[t].copy()
            z[j] = min(labels[j] / mass, 1.0)
            self.pred[t] = projected(z)
            middle = self.squared_error()
            other = [
                g
                for g in self.G
                if g != t and level_set(self.pred[g], self.n_levels) == level_set(self.pred[t], self.n_levels)
            ]
            assert len(other) <= 1
            for o in other:
                if mass <= self.sums(self.G[o])[0]:
                    self.pred[t] = self.pred[o]
                self.G[t] |= self.G.pop(o)
                del self.pred[o]
                self.join_equal_sizes(self.G[t])
            self.rounds.append((other[0] if other else -1, middle - before))
            self.check()

    def join_equal_sizes(self, S):
        while True:
            parts = sorted((part for part in self.M if part <= S), key=len)
            twins = [(a, b) for a, b in pairwise(parts) if len(a) == len(b)]
            if not twins:
                return
            first, second = twins[0]
            del self.M[first], self.M[second]
            self.M[first | second] = self.estimate(first | second)
            self.ever_in_M.append(first | second)


def source(n, k, seed=0, concentration=0.5, favour=0.4):
    """Forecasts that give the first class too much, and labels drawn from the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(k, concentration), n)
    labels = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)
    promised = (1 - favour) * truth
    promised[:, 0] += favour
    return promised, labels
