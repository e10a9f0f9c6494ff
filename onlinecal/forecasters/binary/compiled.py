"""Compiled entry points of a forecaster: one event, or a whole stream, in one call."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import compiled, namespace
from onlinecal.compiling.instructions import borrowed
from onlinecal.forecasters.binary import dyadic, fixed
from onlinecal.forecasters.binary.cells import (
    BRIM,
    FORMAT,
    GAIN,
    LOWER,
    MOVED,
    NO_HINT,
    ROUNDS,
    SCALE,
    SPREAD,
    STEP,
    certificate,
    clip,
    inlined,
    report,
    to_units,
)
from onlinecal.forecasters.binary.guided import guided
from onlinecal.forecasters.binary.windows import follow, is_ready
from onlinecal.forecasters.rules import Rules

FULL = -1.0
"""What an entry point answers when the table has no room; nothing was changed then."""


class Machine:
    """The rules of a grid machine (see `cells`) and the entry points compiled from them: a `namespace`.

    advance(memory, outcome) -> next forecast: charge the current cell. FULL if there is no room.
    issue(memory, hint) -> (lower, step, forecast): the cell to report.
    settle(memory, lower, step, outcome, forecast) -> next forecast: charge that cell, or FULL. The outcome is
        a float; it may be neither 0 nor 1 if the memory is `refined`.
    playable, playable_alone: its rules as loops drive them, with hints or without.
    replay, replay_hinted, replay_noted, replay_shares: see `compile_replay`. The first takes no hints; the
        second plays on the memory and its guide (`guided`). The others play on the memory and its window's
        table, with hints or without. The last takes outcomes anywhere in [0, 1], and the table may be empty.
    """

    rules: ClassVar[ModuleType]
    playable: ClassVar[Rules]
    playable_alone: ClassVar[Rules]
    advance: ClassVar[Callable[..., float]]
    issue: ClassVar[Callable[..., tuple[int, int, float]]]
    settle: ClassVar[Callable[..., float]]
    replay: ClassVar[Callable[..., int]]
    replay_hinted: ClassVar[Callable[..., int]]
    replay_noted: ClassVar[Callable[..., int]]
    replay_shares: ClassVar[Callable[..., int]]


def enlarged(memory: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same memory, twice as long: what a machine needs when it is FULL.

    ValueError if it is FULL because of its accumulators, which no room helps.
    """
    if not MACHINES[int(memory[FORMAT])].rules.bears(memory):
        raise ValueError(
            f"this forecaster's integers cannot bear another round after {memory[ROUNDS]}: begin a new one"
        )
    return np.concatenate([memory, np.zeros(len(memory), np.int64)])


def certain_rounds(memory: NDArray[np.int64]) -> int:
    """So many more rounds fit whatever they are, since none adds 2^GAIN to an accumulator; often more do."""
    highest = max(int(memory[MOVED]), int(memory[SPREAD]), int(memory[ROUNDS]) << 20)
    if memory[FORMAT] == dyadic.FORMAT_DYADIC:
        highest = max(highest, int(memory[dyadic.SAVED]))
    return max(0, BRIM - highest) >> GAIN


def compile_machine(rules: ModuleType) -> type[Machine]:
    """The entry points of a machine; each is compiled, or loaded from the cache, at its first call."""
    propose, charge, has_room, in_units = rules.propose, rules.charge, rules.has_room, rules.in_units
    charge_share = share_charger(rules)

    @compiled
    def advance(memory: NDArray[np.int64], outcome: int) -> float:
        memory = borrowed(memory)
        if not has_room(memory):
            return FULL
        lower, step = memory[LOWER], memory[STEP]
        charge(memory, lower, step, outcome, outcome * memory[SCALE], report(memory, lower, step, NO_HINT))
        return report(memory, memory[LOWER], memory[STEP], NO_HINT)

    @compiled
    def issue(memory: NDArray[np.int64], hint: float) -> tuple[int, int, float]:
        memory = borrowed(memory)
        lower, step = propose(memory, hint)
        return lower, step, report(memory, lower, step, hint)

    @compiled
    def settle(memory: NDArray[np.int64], lower: int, step: int, outcome: float, forecast: float) -> float:
        memory = borrowed(memory)
        if not has_room(memory):
            return FULL
        lower, step = in_units(memory, lower, step)
        charge_share(memory, lower, step, outcome, forecast)
        return report(memory, memory[LOWER], memory[STEP], NO_HINT)

    playable = grid_rules(rules)
    playable_alone = without_hints(playable)
    return namespace(
        Machine,
        rules=rules,
        playable=playable,
        playable_alone=playable_alone,
        advance=advance,
        issue=issue,
        settle=settle,
        replay=compile_replay(playable_alone),
        replay_hinted=compile_replay(guided_rules(rules, playable), lend=lent),
        replay_noted=compile_replay(noted_rules(playable), lend=lent),
        replay_shares=compile_replay(noted_rules(share_rules(rules, playable)), np.float64, lent),
    )


def grid_rules(rules: ModuleType) -> Rules:
    """A grid machine as loops drive it: its two integers are the lower end and the step of the cell."""
    propose, charge, grid_rises = rules.propose, rules.charge, rules.certificate_rises

    @inlined
    def announce(memory: NDArray[np.int64], hint: float, u: float) -> tuple[int, int, float, float]:
        lower, step = propose(memory, hint)
        forecast = report(memory, lower, step, hint)
        return lower, step, forecast, forecast

    @inlined
    def settle(memory: NDArray[np.int64], lower: int, step: int, outcome: int, forecast: float) -> None:
        charge(memory, lower, step, outcome, outcome * memory[SCALE], forecast)

    @inlined
    def point(memory: NDArray[np.int64], lower: int, step: int, outcome: int, forecast: float) -> float:
        return (lower + step * outcome) / memory[SCALE]

    @inlined
    def certificate_rises(
        memory: NDArray[np.int64], lower: int, step: int, forecast: float, seen: bool
    ) -> tuple[float, float]:
        return grid_rises(memory, lower, step, forecast)

    return Rules(rules.has_room, announce, settle, point, certificate_rises, certificate, rules.note_late)


def without_hints(playable: Rules) -> Rules:
    """The same rules for a loop without hints, which is compiled without a search for the nearest cell."""

    @inlined
    def announce(memory: NDArray[np.int64], hint: float, u: float) -> tuple[int, int, float, float]:
        lower, step = memory[LOWER], memory[STEP]
        forecast = report(memory, lower, step, NO_HINT)
        return lower, step, forecast, forecast

    return playable._replace(announce=announce)


@inlined
def lent(both: Any) -> Any:
    """`borrowed` for a memory and what stands beside it."""
    return borrowed(both[0]), borrowed(both[1])


def beside(playable: Rules) -> Rules:
    """The same rules on a memory and something beside it."""
    has_room, announce, settle, point = playable.has_room, playable.announce, playable.settle, playable.point

    @inlined
    def both_have_room(both: Any) -> bool:
        return has_room(both[0])

    @inlined
    def announce_both(both: Any, hint: float, u: float) -> tuple[int, int, float, float]:
        return announce(both[0], hint, u)

    @inlined
    def settle_both(both: Any, lower: int, step: int, outcome: Any, forecast: float) -> None:
        settle(both[0], lower, step, outcome, forecast)

    @inlined
    def point_of_both(both: Any, lower: int, step: int, outcome: Any, forecast: float) -> float:
        return point(both[0], lower, step, outcome, forecast)

    return playable._replace(
        has_room=both_have_room, announce=announce_both, settle=settle_both, point=point_of_both
    )


def guided_rules(rules: ModuleType, playable: Rules) -> Rules:
    """The same rules on a memory and its guide; every round has a hint."""
    propose, charge = guided(rules)

    @inlined
    def announce(both: Any, hint: float, u: float) -> tuple[int, int, float, float]:
        lower, step = propose(both, hint)
        forecast = report(both[0], lower, step, hint)
        return lower, step, forecast, forecast

    @inlined
    def settle(both: Any, lower: int, step: int, outcome: int, forecast: float) -> None:
        charge(both, lower, step, outcome, outcome * both[0][SCALE], forecast)

    return beside(playable)._replace(announce=announce, settle=settle)


def noted_rules(playable: Rules) -> Rules:
    """The same rules on a memory and the table of its window, which notes the rounds, or an empty one."""
    has_room, settle_alone = playable.has_room, playable.settle

    @inlined
    def both_have_room(both: Any) -> bool:
        memory, table = both
        ready = len(table) == 0 or is_ready(table, memory, memory[ROUNDS], memory[ROUNDS] + 1)
        return ready and has_room(memory)

    @inlined
    def settle(both: Any, lower: int, step: int, outcome: float, forecast: float) -> None:
        memory, table = both
        moved = memory[MOVED]
        settle_alone(memory, lower, step, outcome, forecast)
        if len(table) > 0:
            follow(table, memory, memory[ROUNDS], lower, step, outcome, moved)

    return beside(playable)._replace(has_room=both_have_room, settle=settle)


def share_rules(rules: ModuleType, playable: Rules) -> Rules:
    """The same rules for outcomes anywhere in [0, 1]."""

    @inlined
    def point(memory: NDArray[np.int64], lower: int, step: int, share: float, forecast: float) -> float:
        return clip(share, lower / memory[SCALE], (lower + step) / memory[SCALE])

    return playable._replace(settle=share_charger(rules), point=point)


def share_charger(rules: ModuleType) -> Callable[..., None]:
    """`charge` for outcomes anywhere in [0, 1]: one inside the cell is charged to the outcome itself."""
    charge, charge_inside = rules.charge, rules.charge_inside

    @inlined
    def charge_share(memory: NDArray[np.int64], lower: int, step: int, share: float, forecast: float) -> None:
        y = to_units(memory, share)
        if lower < y < lower + step:
            charge_inside(memory, lower, step, y, forecast)
        else:
            charge(memory, lower, step, int(y > lower), y, forecast)

    return charge_share


def compile_replay(
    rules: Rules, number: type = np.int64, lend: Callable[[Any], Any] = borrowed
) -> Callable[..., int]:
    """replay(memory, outcomes, hints, draws, forecasts, charged, start) -> rounds done.

    Fills forecasts (and the charged points, unless that array is empty) from `start` until the end or until
    there is no room. Hints and draws are one a round, or empty. The rules get outcomes as such a `number`,
    and what they play on as it is lent.
    """
    has_room, announce, settle, point = rules.has_room, rules.announce, rules.settle, rules.point

    @compiled
    def replay(
        memory: NDArray[Any],
        outcomes: NDArray[Any],
        hints: NDArray[np.float64],
        draws: NDArray[np.float64],
        forecasts: NDArray[np.float64],
        charged: NDArray[np.float64],
        start: int,
    ) -> int:
        memory = lend(memory)
        hinted, drawn, traced = len(hints) > 0, len(draws) > 0, len(charged) > 0
        for t in range(start, len(outcomes)):
            if not has_room(memory):
                return t
            a, b, forecast, _ = announce(memory, hints[t] if hinted else NO_HINT, draws[t] if drawn else 0.0)
            outcome = number(outcomes[t])
            forecasts[t] = forecast
            if traced:
                charged[t] = point(memory, a, b, outcome, forecast)
            settle(memory, a, b, outcome, forecast)
        return len(outcomes)

    return replay


MACHINES = {
    fixed.FORMAT_FIXED: compile_machine(fixed),
    dyadic.FORMAT_DYADIC: compile_machine(dyadic),
}
"""The machine that a memory belongs to, by the FORMAT in its header."""
