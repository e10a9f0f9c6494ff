"""A table of a model's probabilities through a strategy, row by row: the statement of what a replay is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.summing import in_turn
from onlinecal.wrappers.labels import Label, Labels

if TYPE_CHECKING:
    from onlinecal.wrappers.strategies.strategy import Asked, Strategy, Waiting


def played_row_by_row(
    strategy: Strategy,
    table: NDArray[np.float64],
    numbers: NDArray[np.int64],
    labels: Labels,
    schedule: Schedule,
) -> Tapes:
    """Ask about every row of a table, shape (T, k), settling in between what the schedule says.

    Columns are the known labels in their order, `numbers` the columns of the labels that came, shape (T,).
    """
    classes = list(labels.known)
    tapes = Tapes(np.empty_like(table), np.empty(len(table)))
    waiting: dict[int, Waiting] = {}
    opened, here = 0, -1
    names: Asked = ()
    steps = zip(schedule.order.tolist(), schedule.known.tolist(), strict=True)
    for settled, (row, known) in enumerate(steps):
        while opened < known:
            if here >= 0:
                waiting[here] = strategy.take(names)
                strategy.note_late(len(waiting))
            raw: dict[Label, float] = dict(zip(classes, table[opened].tolist(), strict=True))
            names, answer = strategy.ask(raw, strategy.names(raw, labels), labels)
            tapes.forecasts[opened] = [answer[label] for label in classes]
            here, opened = opened, opened + 1
        if row != here:
            if here >= 0:
                waiting[here] = strategy.take(names)
            late = waiting.pop(row)
            strategy.present(late)
            names = late.asked
        strategy.settle(names, classes[numbers[row]], labels)
        tapes.certificates[settled] = in_turn(part.certificate for part in strategy.bounded())
        here = -1
    return tapes
