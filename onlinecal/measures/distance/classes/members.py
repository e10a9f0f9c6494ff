"""What the level sets are made of: rounds, centres, lists of members, and offers between level sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onlinecal.arrays import Floats, Ints


class Rounds(NamedTuple):
    """The different forecasts (N, k), and of each round the place of its forecast and its class (T,)."""

    values: Floats
    value: Ints
    label: Ints


class Places(NamedTuple):
    """Centres of level sets (B, k), what a round of each class pays there (B, k), neighbours (B, n)."""

    centres: Floats
    prices: Floats
    neighbours: Ints
    stretch: float


class Members(NamedTuple):
    """Which level set a round is in (T,); the first of each (B,), next and previous ones; class counts."""

    group: Ints
    first: Ints
    following: Ints
    previous: Ints
    counts: Ints


class Offers(NamedTuple):
    """Of each class the cheapest rounds to take in, or to give away, and where to.

    Their number (k,); rounds, targets and costs (k, offered); sums of forecasts (k, offered, k). After
    `add_up` costs and sums are those of all up to that one, and costs without the distances to the mean.
    """

    number: Ints
    round: Ints
    target: Ints
    cost: Floats
    sums: Floats


def exchanges(k: int, most: float) -> Ints:
    """Small vectors of whole numbers, shorter ones first: all up to some l1 norm, at most so many."""
    ball = np.zeros((1, k), np.int64)
    steps = np.concatenate([ball, np.eye(k, dtype=np.int64), -np.eye(k, dtype=np.int64)])
    while True:
        larger = np.unique((ball[:, None, :] + steps).reshape(-1, k), axis=0)
        if len(larger) > most:
            return ball[np.argsort(np.abs(ball).sum(axis=1), kind="stable")]
        ball = larger


def neighbours_of(points: Floats, most: int) -> Ints:
    """The other points nearest to each, the nearest first, shape (n, min(most, n - 1)); n is at least 2.

    Of equal points the tree may name another one first, and leaves the point itself out if they are many.
    """
    from scipy.spatial import cKDTree

    near = cKDTree(points).query(points, min(most + 1, len(points)), p=1)[1]
    order = np.argsort(near == np.arange(len(points))[:, None], axis=1, kind="stable")
    return np.take_along_axis(near, order, axis=1)[:, :-1].astype(np.int64)


def members_of(group: Ints, label: Ints, n_groups: int, k: int) -> Members:
    """The members of groups 0..n_groups-1 as lists that can be changed."""
    order = np.argsort(group, kind="stable")
    following, previous = np.full(len(group), -1), np.full(len(group), -1)
    joined = group[order[1:]] == group[order[:-1]]
    following[order[:-1][joined]] = order[1:][joined]
    previous[order[1:][joined]] = order[:-1][joined]
    first = np.full(n_groups, -1)
    starts = np.append(True, ~joined)
    first[group[order[starts]]] = order[starts]
    counts = np.bincount(group * k + label, minlength=n_groups * k).reshape(n_groups, k)
    return Members(group.copy(), first, following, previous, counts)
