"""Scores of several methods with their resamples: intervals, ties, who is best for what."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NORMAL = 1.959963984540054
"""Standard deviations to either side in an interval of 95 %."""
EQUAL = 1e-6
"""Scores that differ by less are the same: the last bits differ from one machine to another."""
MORE_IS_BETTER = ("accuracy",)
LEAST_ROWS = 300
"""Of fewer tested rows only the log loss chooses: calibration errors are hardly more than chance."""
DEARER = 1.01
"""Nothing is recommended for other purposes whose log loss is higher by this factor, though by chance."""


@dataclass(frozen=True)
class Verdict:
    """By one measure the method to take, and all that cannot be told from the best, it among them."""

    measure: str
    take: str
    tied: tuple[str, ...]


@dataclass(eq=False)
class Scoreboard:
    """drawn[measure][method]: the score, then its resamples, shape (1 + B,); methods simplest first."""

    drawn: dict[str, dict[str, Floats]] = field(default_factory=dict)

    def add(self, method: str, share: float, scores: dict[str, Floats]) -> None:
        """Add a method's scores on some tested rows, which are this share of all tested rows."""
        for measure, values in scores.items():
            mine = self.drawn.setdefault(measure, {})
            mine[method] = mine.get(method, 0.0) + share * values

    def drop(self, method: str) -> None:
        """Forget a method whose scores are not complete."""
        for mine in self.drawn.values():
            mine.pop(method, None)

    @property
    def measures(self) -> list[str]:
        """In the order of the table."""
        return list(self.drawn)

    @property
    def methods(self) -> list[str]:
        """The simplest first."""
        return list(next(iter(self.drawn.values())))

    def value(self, measure: str, method: str) -> tuple[float, float]:
        """A score, and half the length of its interval."""
        return _with_half(self.drawn[measure][method])

    def difference(self, measure: str, method: str, other: str) -> tuple[float, float]:
        """Score less that of another method on the same resamples, and half the length of its interval."""
        return _with_half(self.drawn[measure][method] - self.drawn[measure][other])

    def verdict(self, measure: str) -> Verdict:
        """The simplest of those that chance explains to be behind the best.

        Differences to the best are within one-sided intervals that hold for all methods together with 95 %
        (multiple comparisons with the best; Hsu, 1981, here by the bootstrap).
        """
        sign = -1.0 if measure in MORE_IS_BETTER else 1.0
        drawn = sign * np.array([self.drawn[measure][name] for name in self.methods])
        # the first of those that are equal, whatever the last bits say
        best = int((drawn[:, 0] <= drawn[:, 0].min() + EQUAL).argmax())
        more = drawn - drawn[best]
        reach = more[:, 1:].std(axis=1, ddof=1)
        beside = (more[:, 1:] - more[:, 1:].mean(axis=1, keepdims=True)) / np.maximum(reach, EQUAL)[:, None]
        # as many standard deviations as no method exceeds in 95 % of the resamples: the best was looked for
        times = float(np.quantile(beside.max(axis=0), 0.95))
        within = more[:, 0] <= times * reach + EQUAL
        tied = [name for name, is_tied in zip(self.methods, within, strict=True) if is_tied]
        return Verdict(measure, tied[0], tuple(tied))


@dataclass(frozen=True)
class Advice:
    """What to take, in a sentence, and for which purposes it is best or tied with the best."""

    method: str
    why: str
    serves: tuple[str, ...]


def advice(board: Scoreboard, purposes: dict[str, str], n_rows: int) -> Advice:
    """Of those with the least log loss, up to chance, the one best for most purposes, then the simplest.

    `n_rows` were tested.
    """
    verdicts = {purpose: board.verdict(measure) for purpose, measure in purposes.items()}
    first = verdicts["probabilities"]
    served = {
        name: tuple(purpose for purpose, verdict in verdicts.items() if name in verdict.tied)
        for name in first.tied
    }
    losses = {name: board.value("log loss", name)[0] for name in first.tied}
    near = [name for name, loss in losses.items() if loss <= DEARER * losses[first.take] + EQUAL]
    method = first.take if n_rows < LEAST_ROWS else max(near, key=lambda name: len(served[name]))
    others = [name for name in near if name != method and served[name] == served[method]]
    loss = losses[method]
    texts = [f"its log loss, {loss:.4f}, is the least here as far as these rows can tell"]
    more = [purpose for purpose in served[method] if purpose != "probabilities"]
    if more:
        texts.append(f"nothing is better for {_listed(more, 'or')}")
    if others:
        are = "which are" if len(others) > 1 else "which is"
        texts.append(f"simpler than {_listed(others)}, {are} as good")
    if n_rows < LEAST_ROWS:
        texts.append(f"on {n_rows} rows nothing else is told from chance")
    for purpose, verdict in verdicts.items():
        if purpose not in served[method]:
            texts.append(f"for {purpose} alone take {verdict.take}")
    return Advice(method, "; ".join(texts), served[method])


def _listed(names: list[str], word: str = "and") -> str:
    return f" {word} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _with_half(drawn: Floats) -> tuple[float, float]:
    return float(drawn[0]), NORMAL * float(drawn[1:].std(ddof=1))
