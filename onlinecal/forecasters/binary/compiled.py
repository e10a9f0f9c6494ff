"""Compiled entry points of a forecaster: one event, or a whole stream, in one call.

A machine has no state: its entry points play on memories that others keep. None of them changes anything if
it finds no room. It then returns NO_ROOM, or from a replay the round that it has reached, and the caller
makes the memory longer (`enlarged`), or the window ready, and calls again. FORMAT numbers, by which a memory
finds its machine, are saved with it, so a grid keeps its number. `charge_share` is for memories that are
`refined`: callers see to that before an outcome is neither 0 nor 1. Seconds only say when code is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numba import types
from numpy.typing import NDArray

from onlinecal.compiling import Address, Entry, inlined, interpreted_first
from onlinecal.compiling.instructions import borrowed, whole
from onlinecal.forecasters.binary import (
    cells,
    dyadic,
    graded,
    guided_dyadic,
    guided_uniform,
    nested,
    uniform,
)
from onlinecal.forecasters.binary.cells import LOWER, NO_HINT, SCALE, STEP, Memory, report
from onlinecal.forecasters.binary.contract import GridModule, GuideModule
from onlinecal.forecasters.binary.windows import follow, is_ready
from onlinecal.forecasters.rules import NO_ROOM, Rules


class Machine:
    """The rules of a grid (see `contract`) and entry points made of them, which are interpreted first.

    advance(memory, outcome) -> next forecast: charge the current cell. NO_ROOM if there is none.
    issue(memory, hint) -> (lower, step, forecast): the cell to report.
    settle(memory, lower, step, outcome, forecast) -> next forecast, or NO_ROOM: charge that cell. The outcome
        is a float; it may be neither 0 nor 1 if the memory is `refined`.
    playable, playable_alone: its rules as loops drive them, with hints or without.
    guide: the module of its replay with hints; None for a grid without hints.
    replay, replay_hinted, replay_shares: see `compile_replay`. The first takes no hints. The second plays
        with the memory's guide beside it, and `guide.leave` is to be called when it is over. The last has the
        table of its window beside it, which may be empty, and takes hints or none, and outcomes anywhere in
        [0, 1] if the memory is `refined`.
    """

    rules: ClassVar[GridModule]
    guide: ClassVar[GuideModule | None]
    playable: ClassVar[Rules]
    playable_alone: ClassVar[Rules]
    advance: ClassVar[Callable[..., float]]
    issue: ClassVar[Callable[..., tuple[int, int, float]]]
    settle: ClassVar[Callable[..., float]]
    replay: ClassVar[Callable[..., int]]
    replay_hinted: ClassVar[Callable[..., int]]
    replay_shares: ClassVar[Callable[..., int]]

    @classmethod
    def rules_for(cls, hinted: bool) -> Rules:
        """Its rules as loops drive them, with hints or without."""
        return cls.playable if hinted else cls.playable_alone


def no_hints(*_: object) -> int:
    """What stands in place of a replay with hints on a grid that takes none."""
    raise ValueError("hints must be left out: this grid takes none")


def enlarged(memory: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same memory, twice as long, for a machine that has NO_ROOM.

    ValueError if its accumulators are full, which a longer table does not help.
    """
    if not machine_of(memory).rules.bears(memory):
        raise ValueError(
            "the integers of this forecaster would overflow in another round after "
            f"{memory[cells.ROUNDS]}: begin a new forecaster"
        )
    return np.concatenate([memory, np.zeros(len(memory), np.int64)])


def certain_rounds(memory: NDArray[np.int64]) -> int:
    """A number of rounds that fit whatever comes, since none adds 2^GAIN_BITS to an accumulator."""
    accumulators = machine_of(memory).rules.ACCUMULATORS
    highest = max(int(memory[cells.ROUNDS]) << 20, *(int(memory[place]) for place in accumulators))
    return max(0, cells.BRIM - highest) >> cells.GAIN_BITS


TABLE, NUMBER, SHARE = types.int64[::1], types.int64, types.float64
COMPILING, ROUND, HINTED_ROUND = 1.0, 4e-6, 3e-5
"""Seconds that it takes to compile an entry point, and that the interpreter takes for a round."""


def compile_machine(form: int, rules: GridModule, guide: GuideModule | None = None) -> type[Machine]:
    """The entry points of the machine of a FORMAT."""
    propose, charge, has_room, in_units = rules.propose, rules.charge, rules.has_room, rules.in_units
    charge_share = share_charger(rules)

    def advance(memory: NDArray[np.int64], outcome: int) -> float:
        memory = borrowed(memory)
        if not has_room(memory):
            return NO_ROOM
        lower, step = memory[LOWER], memory[STEP]
        charge(memory, lower, step, outcome, outcome * memory[SCALE], report(memory, lower, step, NO_HINT))
        return report(memory, memory[LOWER], memory[STEP], NO_HINT)

    def issue(memory: NDArray[np.int64], hint: float) -> tuple[int, int, float]:
        memory = borrowed(memory)
        lower, step = propose(memory, hint)
        return lower, step, report(memory, lower, step, hint)

    def settle(memory: NDArray[np.int64], lower: int, step: int, outcome: float, forecast: float) -> float:
        memory = borrowed(memory)
        if not has_room(memory):
            return NO_ROOM
        lower, step = in_units(memory, lower, step)
        charge_share(memory, lower, step, outcome, forecast)
        return report(memory, memory[LOWER], memory[STEP], NO_HINT)

    playable = grid_rules(rules)
    return interpreted_first(
        Machine,
        Address(__name__, "machine_for", (form,)),
        rules=rules,
        playable=playable,
        playable_alone=without_hints(playable),
        advance=Entry(advance, 1, (TABLE, NUMBER), compiling=COMPILING),
        issue=Entry(issue, 1, (TABLE, SHARE), compiling=COMPILING),
        settle=Entry(settle, 1, (TABLE, NUMBER, NUMBER, SHARE, SHARE), compiling=COMPILING),
        replay=plain_replay(rules),
        guide=guide,
        replay_hinted=no_hints if guide is None else compile_replay(rules, guide.propose, guide.charge),
        replay_shares=share_replay(rules),
    )


def grid_rules(rules: GridModule) -> Rules:
    """A grid machine as loops drive it: its two integers are the lower end and the step of the cell."""
    propose, charge, rises = rules.propose, rules.charge, rules.certificate_rises

    @inlined
    def announce(memory: Memory, hint: float, u: float) -> tuple[int, int, float, float]:
        lower, step = propose(memory, hint)
        forecast = report(memory, lower, step, hint)
        return lower, step, forecast, forecast

    @inlined
    def settle(memory: Memory, lower: int, step: int, outcome: int, forecast: float) -> None:
        charge(memory, lower, step, outcome, outcome * memory[SCALE], forecast)

    @inlined
    def point(memory: Memory, lower: int, step: int, outcome: int, forecast: float) -> float:
        return (lower + step * outcome) / memory[SCALE]

    return Rules(rules.has_room, announce, settle, point, rises, cells.certificate, rules.note_late)


def without_hints(playable: Rules) -> Rules:
    """The same rules for a loop without hints, which is compiled without a search for the nearest cell."""

    @inlined
    def announce(memory: Memory, hint: float, u: float) -> tuple[int, int, float, float]:
        lower, step = memory[LOWER], memory[STEP]
        forecast = report(memory, lower, step, NO_HINT)
        return lower, step, forecast, forecast

    return playable._replace(announce=announce)


def share_charger(rules: GridModule) -> Callable[..., None]:
    """`charge` for outcomes anywhere in [0, 1]: one inside the cell is charged to the outcome itself."""
    charge, charge_inside = rules.charge, rules.charge_inside

    @inlined
    def charge_share(memory: Memory, lower: int, step: int, share: float, forecast: float) -> None:
        y = cells.to_units(memory, share)
        if lower < y < lower + step:
            charge_inside(memory, lower, step, y, forecast)
        else:
            charge(memory, lower, step, int(y > lower), y, forecast)

    return charge_share


def plain_replay(rules: GridModule) -> Entry:
    """The replay without hints, of outcomes 0 and 1."""
    charge = rules.charge

    @inlined
    def current(memory: Memory, beside: Memory, hint: float) -> tuple[int, int]:
        return memory[LOWER], memory[STEP]

    @inlined
    def charge_alone(
        memory: Memory, beside: Memory, lower: int, step: int, outcome: int, forecast: float
    ) -> None:
        charge(memory, lower, step, outcome, outcome * memory[SCALE], forecast)

    return compile_replay(rules, current, charge_alone, seconds=ROUND)


def share_replay(rules: GridModule) -> Entry:
    """The replay with hints or without, of outcomes in [0, 1], with the table of a window or an empty one."""
    propose_alone, has_room, charge_share = rules.propose, rules.has_room, share_charger(rules)

    @inlined
    def is_ready_for_both(memory: Memory, table: Memory) -> bool:
        rounds = memory[cells.ROUNDS]
        return has_room(memory) and (len(table) == 0 or is_ready(table, memory, rounds, rounds + 1))

    @inlined
    def propose(memory: Memory, table: Memory, hint: float) -> tuple[int, int]:
        return propose_alone(memory, hint)

    @inlined
    def charge(memory: Memory, table: Memory, lower: int, step: int, share: float, forecast: float) -> None:
        moved = memory[cells.MOVED]
        charge_share(memory, lower, step, share, forecast)
        if len(table) > 0:
            follow(table, memory, memory[cells.ROUNDS], lower, step, share, moved)

    return compile_replay(rules, propose, charge, float, is_ready_for_both)


def compile_replay(
    rules: GridModule,
    propose: Callable[..., tuple[int, int]],
    charge: Callable[..., None],
    number: Callable[[Any], float] = whole,
    both_have_room: Callable[..., bool] | None = None,
    seconds: float = HINTED_ROUND,
) -> Entry:
    """replay(memory, beside, outcomes, hints, forecasts, charged, start) -> rounds done.

    Fills forecasts (and the charged points, unless that array is empty) from `start` until the end or until
    there is no room. Hints are one a round, or empty. `propose` and `charge` get the memory, what is beside
    it, and what the machine's own get; outcomes come to them as such a `number`.
    """
    has_room = rules.has_room

    @inlined
    def memory_has_room(memory: Memory, beside: Memory) -> bool:
        return has_room(memory)

    has_room_for_one = both_have_room or memory_has_room

    def replay(
        memory: NDArray[np.int64],
        beside: NDArray[np.int64],
        outcomes: NDArray[Any],
        hints: NDArray[np.float64],
        forecasts: NDArray[np.float64],
        charged: NDArray[np.float64],
        start: int,
    ) -> int:
        memory, beside = borrowed(memory), borrowed(beside)
        hinted, traced = len(hints) > 0, len(charged) > 0
        for t in range(start, len(outcomes)):
            if not has_room_for_one(memory, beside):
                return t
            hint, outcome = hints[t] if hinted else NO_HINT, number(outcomes[t])
            lower, step = propose(memory, beside, hint)
            forecasts[t] = forecast = report(memory, lower, step, hint)
            if traced:
                ends = lower / memory[SCALE], (lower + step) / memory[SCALE]
                charged[t] = cells.clip(float(outcome), ends[0], ends[1])
            charge(memory, beside, lower, step, outcome, forecast)
        return len(outcomes)

    def rows(memory: Any, beside: Any, outcomes: NDArray[Any], *given: Any) -> int:
        return len(outcomes) - int(given[-1])

    return Entry(replay, 2, seconds=seconds, compiling=COMPILING, rows=rows)


MACHINES = {
    form: compile_machine(form, *modules)
    for form, *modules in (
        (uniform.FORMAT_UNIFORM, uniform, guided_uniform),
        (dyadic.FORMAT_DYADIC, dyadic, guided_dyadic),
        (graded.FORMAT_GRADED, graded),
        (nested.FORMAT_NESTED, nested),
    )
}
"""The machines of the grids, by the FORMAT in the header of their memories."""


def machine_for(form: int) -> type[Machine]:
    """The machine of a FORMAT."""
    return MACHINES[form]


def machine_of(memory: NDArray[np.int64]) -> type[Machine]:
    """The machine that a memory belongs to, by the FORMAT in its header."""
    return machine_for(int(memory[cells.FORMAT]))
