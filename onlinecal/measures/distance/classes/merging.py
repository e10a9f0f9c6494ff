"""Groups of rounds by what was said in them, merged while that brings them nearer to their frequencies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints

MOST_MERGED = 400
"""Number of groups up to which pairs of them are tried to be merged."""


def equal_rows(vectors: Floats) -> NDArray[np.intp]:
    """The groups of equal rows, shape (T,)."""
    return np.unique(vectors, axis=0, return_inverse=True)[1].ravel()


def class_frequencies(y: Ints, group: Ints, k: int) -> Floats:
    """Class frequencies in each round's group, shape (T, k)."""
    counts = np.bincount(group * k + y, minlength=(group.max() + 1) * k).reshape(-1, k)
    return np.asarray((counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))[group])


def merged(p: Floats, y: NDArray[np.int64], groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """Merge each group with the nearest other one if both then are nearer to their frequencies; repeat."""
    k = p.shape[1]
    members = {g: np.flatnonzero(groups == g) for g in range(groups.max() + 1)}

    def cost(rounds: NDArray[np.intp]) -> float:
        return float(np.abs(p[rounds] - np.bincount(y[rounds], minlength=k) / len(rounds)).sum())

    costs = {g: cost(rounds) for g, rounds in members.items()}
    places = {g: p[rounds].mean(axis=0) for g, rounds in members.items()}
    waiting = sorted(members, key=lambda g: len(members[g]))
    while waiting and len(members) > 1:
        g = waiting.pop(0)
        others = [h for h in members if h != g]
        distances = np.abs(np.array([places[h] for h in others]) - places[g]).sum(axis=1)
        for index in np.argsort(distances, kind="stable")[:4]:
            h = others[index]
            rounds = np.concatenate([members[g], members[h]])
            if (together := cost(rounds)) < costs[g] + costs[h] - 1e-12:
                members[h], costs[h], places[h] = rounds, together, p[rounds].mean(axis=0)
                del members[g], costs[g], places[g]
                if h not in waiting:
                    waiting.append(h)
                break
    answer = np.empty(len(p), np.intp)
    for place, rounds in enumerate(members.values()):
        answer[rounds] = place
    return answer
