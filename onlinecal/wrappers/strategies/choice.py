"""Which strategies there are, which settings go with them, and which of them "auto" is.

Nothing here has a state. The numbers in CHOICES and INFORMATIVE decide which strategy plays, so they change
answers. The order of KINDS decides the last bit of sums. Names of strategies are in rounds that wait, in
pickles and in saved columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, get_args

from onlinecal.forecasters.binary.choice import check_slack
from onlinecal.forecasters.binary.windows import MOST_WINDOW
from onlinecal.forecasters.simplex.input import check_labels
from onlinecal.remarks import GuaranteeWarning, vacuous_remarks, warn_of
from onlinecal.validation import check_choice, check_count
from onlinecal.wrappers.labels import Label
from onlinecal.wrappers.strategies.binary import Binary
from onlinecal.wrappers.strategies.certain import Certain
from onlinecal.wrappers.strategies.classwise import Classwise
from onlinecal.wrappers.strategies.simplex import Simplex
from onlinecal.wrappers.strategies.strategy import Strategy
from onlinecal.wrappers.strategies.top_label import TopLabel
from onlinecal.wrappers.strategies.tree import Tree

StrategyName = Literal["auto", "binary", "simplex", "top-label", "classwise", "tree"]
STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)
AUTO = "auto"
CHOICES = {2: Binary.name, 10: Classwise.name, math.inf: TopLabel.name}
"""By the largest number of labels: which strategy "auto" takes without a horizon and a window."""

KINDS: dict[str, type[Strategy]] = {
    kind.name: kind for kind in (Binary, Classwise, TopLabel, Certain, Simplex, Tree)
}
"""All strategies; bounds are added up in this order, on which the last bit of a sum depends."""

INFORMATIVE = {Simplex.name: 0.2, Classwise.name: 0.5, Tree.name: 0.5, TopLabel.name: math.inf}
"""With a window or a horizon "auto" is the first of these with at most this share of the trivial guarantee.

Those that promise more come first. A joint guarantee near the trivial one comes from cells so coarse that
they cost skill; with the others forecasts stay near their hints.
"""


def check_settings(
    slack: float | None,
    n_buckets: int,
    strategy: str,
    horizon: int | None,
    window: int | None = None,
    classes: Sequence[Label] | None = None,
) -> tuple[Label, ...]:
    """ValueError unless the settings go together; the labels that are known beforehand."""
    declared = () if classes is None else check_labels(classes, "classes")
    if len(declared) == 1:
        raise ValueError(f"classes must hold at least 2 class labels, got one: {declared[0]!r}")
    check_choice(strategy, STRATEGIES, "strategy")
    check_count(n_buckets, "n_buckets")
    if horizon is not None:
        check_count(horizon, "horizon")
    if slack is not None:
        check_slack(slack)
    if window is not None:
        check_count(window, "window", most=MOST_WINDOW)
        if strategy == Simplex.name and not declared:
            raise ValueError(
                f"window={window} with strategy 'simplex' needs classes=[...] with all labels, got None: "
                "where labels are discovered, it keeps no windows"
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

    With a window or a horizon "auto" goes by what the strategies guarantee of it; `made` makes one by name.
    """
    if strategy != AUTO:
        return strategy
    if n_labels > 2 and (horizon is not None or window is not None):
        for name, most in INFORMATIVE.items():
            promised, trivial = made(name).outlook(n_labels, window or horizon or 0, window is not None)
            if promised / trivial <= most:
                return name
    return next(name for most, name in CHOICES.items() if n_labels <= most)


def warn_if_empty(strategy: Strategy, n_labels: int, horizon: int | None) -> bool:
    """Warn if "simplex" guarantees nothing for the horizon; whether it warned."""
    if strategy.name != Simplex.name or horizon is None or n_labels <= 2:
        return False
    remarks = vacuous_remarks(*strategy.outlook(n_labels, horizon), n_labels, horizon)
    warn_of(remarks, GuaranteeWarning)
    return bool(remarks)
