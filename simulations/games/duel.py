"""A duel: one forecaster against one adversary, in one compiled loop per forecaster.

The loop never decides anything: the forecaster's rules and the adversary's step do. For adversaries that look
ahead it computes how much the best continuation of a few rounds could raise the certificate.

A round is: the forecaster announces, the adversary's step chooses the outcome, the round is written down, the
forecaster settles. Of states there are the forecaster's memory, which its rules write, the state of the
phase, which the step writes, and the generators of both players' draws. `play` keeps them; the loop gets
memory, state and draws for up to ROUNDS_AT_A_TIME rounds. It stops before a round for which the memory has no
room, and with several classes also at a checkpoint. Then `play` has the forecaster grow, or reads the
certificate, and goes on with the next round. So it does not matter for a game where the loop stops, and
ROUNDS_AT_A_TIME may change. A forecaster of two classes is changed by its game; the library's adversaries,
and the simplex class, are not.

The order of a loop's arguments is that of `shared` and `Duel._written` in `play`. A step has the arguments of
STEP_SIGNATURE or MULTICLASS_STEP_SIGNATURE; `check_outcome_of` tries it once, on a copy of its state, before
the game. The outcomes that a step gives are checked in every round, before the forecaster is told. Loops are
kept on disk by their code.

Players may also be plain Python objects. Then every round is played in the interpreter, which is slow. A
plain adversary has a method `next(history)`, which returns the outcome of the coming round. A plain
forecaster is a classifier of river: `predict_proba_one(x)` announces and `learn_one(x, y)` learns. Its
features x are the number of the round, and the hint if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numba import types
from numpy.typing import NDArray

from onlinecal.adversaries import Adversary, Phase, replay_labels, replay_sequence
from onlinecal.arrays import Floats
from onlinecal.compiling import address_of, compiled, kernel_part
from onlinecal.compiling.instructions import borrowed, called, copy
from onlinecal.forecasters import AlmostOneStepAhead, SimplexAlmostOneStepAhead
from onlinecal.forecasters.binary.cells import NO_HINT
from onlinecal.forecasters.rules import Rules, check_expected
from onlinecal.forecasters.simplex.input import ClassOutcomes, normalised
from onlinecal.forecasters.simplex.machine.rules import MulticlassRules
from onlinecal.forecasters.simplex.run import SimplexRun, replayed
from onlinecal.remarks import warn_of
from onlinecal.tables.columns import check_probabilities, check_probability_rows
from onlinecal.texts import shown
from onlinecal.validation import as_whole, check_choice, check_count, check_probability

IMAGINED_DRAW = 0.5
"""The draw that is assumed for a round whose draw cannot be known: the median. Another value gives other
games of internal adversaries against forecasters that draw."""
SPARE_MEMORY = 64
"""Room beyond twice the memory for points that imagined rounds may add, since they may halve a grid's
cells."""


@cache
def foresight(rules: Rules) -> Callable[..., tuple[float, float]]:
    """A kernel part foresee(memory, a, b, forecast, seen, depth) -> (rise_zero, rise_one).

    It returns the rises of the certificate over `depth` rounds, this one included, for each first outcome and
    the worst rounds after it. The 2^depth sequences of rounds are played on a copy of the memory. Draws that
    are not seen, and those of the rounds ahead, are assumed to be IMAGINED_DRAW.
    """
    announce, settle, certificate = rules.announce, rules.settle, rules.certificate
    certificate_rises = rules.certificate_rises

    @kernel_part
    def foresee(
        memory: NDArray[Any], a: int, b: int, forecast: float, seen: bool, depth: int
    ) -> tuple[float, float]:
        zero, one = certificate_rises(memory, a, b, forecast, seen)
        if not seen:
            a, b, forecast, _ = announce(memory, NO_HINT, IMAGINED_DRAW)
        scratch = np.empty(2 * len(memory) + SPARE_MEMORY, memory.dtype)
        for first in range(2):
            best, after = -np.inf, 0.0
            for sequel in range(1 << (depth - 1)):
                copy(memory, 0, scratch, 0, len(memory))
                settle(scratch, a, b, first, forecast)
                after = certificate(scratch)
                for i in range(depth - 1):
                    c, d, p, _ = announce(scratch, NO_HINT, IMAGINED_DRAW)
                    settle(scratch, c, d, (sequel >> i) & 1, p)
                best = max(best, certificate(scratch))
            if first == 0:
                zero += best - after
            else:
                one += best - after
        return zero, one

    return foresee


ROUNDS_AT_A_TIME = 1 << 18
"""The rounds of one call of a compiled loop: between calls progress is shown, and an interrupt is noticed."""


@dataclass(frozen=True, eq=False)
class Duel:
    """The record of a game of T rounds between a forecaster and an adversary.

    Attributes
    ----------
    forecasts
        The forecast of each round, shape (T,), or with k classes (T, k).
    outcomes
        The outcome of each round, shape (T,): 0 or 1, or with k classes a class number from 0.
    charged
        For each round the value at which the certificate counts it, in the shape of `forecasts`. For most
        forecasters it is the forecast itself.
    checkpoints
        The numbers of rounds after which the certificate was read, ascending up to T, shape (C,).
    certificates, guarantees
        Proven upper bounds on the distance to calibration at the checkpoints, shape (C,). They are sums over
        all rounds that the forecaster has played, also those before this game: the certificate was worked out
        from what came, the guarantee holds whatever comes. NaN where the forecaster has no such bound.
    """

    forecasts: NDArray[np.float64]
    outcomes: NDArray[Any]
    charged: NDArray[np.float64]
    checkpoints: NDArray[np.int64]
    certificates: NDArray[np.float64]
    guarantees: NDArray[np.float64]

    @classmethod
    def _blank(cls, rounds: int, n_classes: int | None, n_checkpoints: int) -> Duel:
        """Arrays for `rounds` of `n_classes`, None for 0 and 1, with NaN bounds at `n_checkpoints`."""
        shape = rounds if n_classes is None else (rounds, n_classes)
        outcomes = np.empty(rounds, np.uint8 if n_classes is None else np.int64)
        checkpoints = log_spaced(rounds, n_checkpoints)
        bounds = np.full((2, len(checkpoints)), np.nan)
        return cls(np.empty(shape), outcomes, np.empty(shape), checkpoints, *bounds)

    @property
    def _written(self) -> tuple[NDArray[Any], ...]:
        """The arrays that a loop writes to, in the order in which it takes them."""
        return self.forecasts, self.outcomes, self.charged, self.checkpoints, self.certificates


class History(NamedTuple):
    """The history that `play` gives to an adversary of your own, for the outcome of round t, from 0.

    Such an adversary is an object with a method next(history), which returns 0 or 1, or a class number. It
    must not change the arrays.

    Attributes
    ----------
    forecasts
        The forecasts of the rounds 0 to t, that of the coming outcome included, shape (t + 1,); with k
        classes (t + 1, k).
    outcomes
        The outcomes of the rounds 0 to t - 1, shape (t,).
    """

    forecasts: Floats
    outcomes: NDArray[Any]


DRAW_CHOICES = ("hidden", "seen")


def play(
    forecaster: Any,
    adversary: Any,
    rounds: int,
    *,
    hints: Floats | None = None,
    n_checkpoints: int = 200,
    progress: Callable[[int], None] | None = None,
    draw: str = "hidden",
) -> Duel:
    """Let a forecaster play T rounds against an adversary, who chooses the outcomes.

    Parameters
    ----------
    forecaster
        One of the library's plays on from its present state, which the game changes; its window, if it has
        one, holds the last rounds afterwards. Only a `SimplexAlmostOneStepAhead` stays as it is: a new run of
        it plays. One of your own, with river's `predict_proba_one(x)` and `learn_one(x, y)`, plays slowly,
        with a UserWarning; x has `round`, from 0, and `hint`, and there are no certificates.
    adversary
        One of `onlinecal.adversaries` is played from round 0, and stays as it is. It must have the classes of
        the forecaster. One of your own, with `next(history)` (see `simulations.History`), plays slowly, with
        a UserWarning.
    rounds
        T, at least 1.
    hints
        For each round a probability that the forecaster is given before it forecasts: in [0, 1], shape (T,),
        or class probabilities of shape (T, k). None: none, even if the adversary has `hints`.
    n_checkpoints
        How often, about, the certificate is recorded, which is the forecaster's proven bound on the distance
        to calibration: at least 1, after numbers of rounds that are even on a logarithmic axis.
    progress
        A function that is called with the number of rounds played since the last call; None: nothing is told.
    draw
        What the adversary sees, before it chooses the outcome, of a forecaster that draws at random: "seen",
        the forecast that was drawn; "hidden", the mean of what may be drawn. One of your own needs "seen".

    Returns
    -------
    Duel
        The forecasts and outcomes of all rounds, and certificates and guarantees at the checkpoints.

    Raises
    ------
    ValueError
        If rounds or n_checkpoints is no whole number of at least 1; if the adversary has fewer outcomes than
        T, or other classes than the forecaster, or gives an outcome that is no class; if the hints are not T
        hints of the kind above, or the forecaster takes none; or if a player, `draw` or `progress` is none of
        these.

    Examples
    --------
    >>> from onlinecal import adversaries, simulations
    >>> from onlinecal import AlmostOneStepAhead
    >>> duel = simulations.play(AlmostOneStepAhead(horizon=100), adversaries.create("coin"), 100)
    >>> bool(duel.certificates[-1] <= duel.guarantees[-1])
    True
    """
    check_choice(draw, DRAW_CHOICES, "draw")
    if progress is not None and not callable(progress):
        raise ValueError(f"progress must be a function, or None, got {shown(progress)}")
    n_checkpoints, rounds = check_count(n_checkpoints, "n_checkpoints"), as_whole(rounds)
    if isinstance(forecaster, SimplexAlmostOneStepAhead):
        forecaster = forecaster._new_run()
        if not forecaster.numbers:
            raise ValueError("forecaster must know its classes before the game: make it with n_classes=...")
    if plain_ones(forecaster, adversary):
        return play_plainly(forecaster, adversary, rounds, hints, n_checkpoints, progress, draw)
    check_rounds(rounds, adversary)
    n_classes = getattr(adversary, "n_classes", None)
    _check_classes(forecaster, adversary.name, n_classes)
    several = n_classes is not None
    for phase in adversary.phases:
        check_outcome_of(phase, adversary.name, n_classes)
    guide = checked_hints(hints, rounds, n_classes)
    if hints is not None:
        check_expected(getattr(forecaster, "hints", True), "hints")
    windowed = None
    if getattr(forecaster, "window", None) is not None:
        # the loop keeps no windows, so the same rounds are replayed after it
        windowed = forecaster
        forecaster = forecaster.without_window() if several else deepcopy(forecaster)
    rng, played_before = adversary.generator(), 0 if several else forecaster.n_rounds
    duel = Duel._blank(rounds, n_classes, max(n_checkpoints, 2) if several else n_checkpoints)
    done = 0
    for phase in adversary.phases:
        begin = done
        end = rounds if phase.rounds is None else min(rounds, begin + phase.rounds)
        loop = loop_of(forecaster, phase)
        while done < end:
            first, stop = done, min(end, done + ROUNDS_AT_A_TIME)
            theirs = rng.random(stop - done)
            ours = np.empty(0) if several else forecaster._draws(stop - done)
            while done < stop:
                shared = phase.state, begin, theirs, ours, first, guide, draw == "seen"
                place = int(np.searchsorted(duel.checkpoints, done + 1))
                reached = loop(forecaster.memory, *shared, *duel._written, place, done)
                if reached < 0:
                    if not several:
                        forecaster._resume()
                    _refuse_outcome(duel, adversary.name, n_classes, -1 - reached)
                done = reached
                if several and done == duel.checkpoints[place]:
                    duel.certificates[place] = forecaster.certificate
                elif done < stop:
                    forecaster._grow()
            if progress is not None:
                progress(stop - first)
    if not several:
        forecaster._resume()
    if windowed is not None:
        _replay(windowed, duel.outcomes, guide)
    duel.guarantees[:] = [float(forecaster._promise(played_before + int(t))) for t in duel.checkpoints]
    return duel


def _check_classes(forecaster: Any, name: str, n_classes: int | None) -> None:
    """Refuse an adversary of other classes: a compiled loop would write beyond the forecaster's vectors."""
    simplex = isinstance(forecaster, SimplexRun)
    own = len(forecaster.numbers) if simplex else getattr(forecaster, "n_classes", None)
    if own != n_classes:
        wanted, given = (f"{k} classes" if k else "the outcomes 0 and 1" for k in (own, n_classes))
        raise ValueError(f"adversary must have {wanted}, as the forecaster has, but {name} has {given}")


def check_outcome_of(phase: Phase, name: str, n_classes: int | None) -> None:
    """Refuse a step whose first outcome is no whole number: compiled code would cut it off without a word."""
    forecast = 0.5 if n_classes is None else np.full(n_classes, 1.0 / n_classes)
    rises = (0.0, 0.0) if n_classes is None else (np.zeros(n_classes),)
    outcome = phase.step(phase.state.copy(), 0, forecast, *rises, 0.5)
    if isinstance(outcome, float) or outcome not in range(n_classes or 2):
        raise ValueError(wrong_outcome(name, n_classes, outcome, 0))


def _refuse_outcome(duel: Duel, name: str, n_classes: int | None, row: int) -> NoReturn:
    """ValueError for the outcome at which a loop has stopped."""
    # outcomes of two classes have no room for what is neither 0 nor 1
    outcome = duel.certificates[0] if n_classes is None else duel.outcomes[row]
    raise ValueError(wrong_outcome(name, n_classes, int(outcome), row))


def wrong_outcome(name: str, n_classes: int | None, outcome: Any, row: int) -> str:
    """The error about an adversary's outcome that is not the number of a class."""
    numbers = f"a class, a whole number from 0 to {n_classes - 1}" if n_classes else "the outcome 0 or 1"
    return f"{name} must return {numbers}, got {shown(outcome)} in round {row}"


def checked_hints(hints: Floats | None, rounds: int, n_classes: int | None) -> Floats:
    """The hints of all rounds, or an empty array for None; ValueError for a wrong shape or value."""
    if n_classes is None:
        guide = np.empty(0) if hints is None else check_probabilities(hints, "hints")
        if hints is not None and len(guide) != rounds:
            raise ValueError(f"hints must have one for each of the {rounds} rounds, got {len(guide)}")
        return guide
    if hints is None:
        return np.empty((0, n_classes))
    guide = normalised(check_probability_rows(hints, "hints"))
    if guide.shape != (rounds, n_classes):
        raise ValueError(f"hints must have the shape {(rounds, n_classes)}, got {guide.shape}")
    return guide


def _replay(forecaster: AlmostOneStepAhead | SimplexRun, outcomes: NDArray[Any], guide: Floats) -> None:
    """Play the same rounds once more with a forecaster that keeps a window."""
    if isinstance(forecaster, AlmostOneStepAhead):
        forecaster.replay(outcomes, guide if len(guide) else None)
    else:
        numbers = ClassOutcomes.of_numbers(np.asarray(outcomes, np.int64), len(forecaster.numbers))
        replayed(forecaster, numbers, guide, charged=False)


def check_rounds(rounds: int, adversary: Adversary) -> None:
    """Refuse a number of rounds that is not whole, below 1, or above those that the adversary has."""
    check_count(rounds, "rounds")
    available = adversary.rounds
    if available is not None and available < rounds:
        raise ValueError(f"rounds must be at most the {available} that {adversary.name} has, got {rounds}")


def log_spaced(rounds: int, number: int) -> NDArray[np.int64]:
    """About `number` distinct rounds from 1 to `rounds`, evenly spread on a logarithmic axis."""
    return np.unique([*np.geomspace(1, rounds, number).round().astype(np.int64), rounds])


def name_is_made(role: str) -> str:
    """What to do where a name was given for a player."""
    if role == "adversary":
        return "onlinecal.adversaries.create(name) makes one of a name"
    return "make one, such as AlmostOneStepAhead(); names are for plans of sweeps"


def plain_ones(forecaster: Any, adversary: Any) -> list[Any]:
    """The players that cannot be played compiled; ValueError for one that cannot be played at all."""
    plain = []
    for name, player, telling, methods in (
        ("forecaster", forecaster, "_rules", ("predict_proba_one", "learn_one")),
        ("adversary", adversary, "phases", ("next",)),
    ):
        if isinstance(player, type):
            raise ValueError(f"{name} must be an object, got the class {player.__name__}: make one of it")
        if hasattr(player, telling):
            continue
        plain.append(player)
        for method in methods:
            if not callable(getattr(player, method, None)):
                what = f"{type(player).__name__}, which has no {method}"
                if isinstance(player, str):
                    what = f"the name {shown(player)}: {name_is_made(name)}"
                raise ValueError(
                    f"{name} must be one of the library's, or a plain object with {' and '.join(methods)}, "
                    f"got {what}"
                )
    return plain


def play_plainly(
    forecaster: Any,
    adversary: Any,
    rounds: int,
    hints: Floats | None,
    n_checkpoints: int,
    progress: Callable[[int], None] | None,
    draw: str,
) -> Duel:
    """Play the duel of `simulations.play` if at least one player is a plain object; warns that it is slow.

    A forecaster of the library plays twice: in the interpreter against the plain adversary, and then compiled
    against the outcomes that came. That is the same game, with its certificates.
    """
    known = hasattr(forecaster, "_rules")
    rounds = check_count(rounds, "rounds")
    if isinstance(adversary, Adversary):
        check_rounds(rounds, adversary)
    draws = known and not isinstance(forecaster, SimplexRun) and len(deepcopy(forecaster)._draws(1)) > 0
    if draws and draw == "hidden":
        raise ValueError(
            "draw must be 'seen' where a plain adversary plays against a forecaster that draws, got "
            "'hidden': a plain adversary is always shown the forecast"
        )
    names = " and ".join(type(player).__name__ for player in plain_ones(forecaster, adversary))
    remark = (
        f"{names}: a plain Python object plays in the interpreter, hundreds of times as slowly as compiled "
        "code (docs/own-adversary.md says how to write a step function)"
    )
    warn_of([remark], UserWarning)
    n_classes = None if known else getattr(adversary, "n_classes", None)
    if isinstance(forecaster, SimplexRun):
        n_classes = len(forecaster.numbers)
    guide = checked_hints(hints, rounds, n_classes)
    duel = Duel._blank(rounds, n_classes, n_checkpoints)
    playing = deepcopy(forecaster) if known else forecaster
    answer = _answer_of(adversary, n_classes)
    for t in range(rounds):
        duel.forecasts[t], settle = _announced(playing, t, guide[t] if len(guide) else None, n_classes)
        outcome = answer(History(duel.forecasts[: t + 1], duel.outcomes[:t]))
        duel.outcomes[t] = outcome
        settle(outcome)
        if progress is not None:
            progress(1)
    if known:
        outcomes = duel.outcomes
        stream = (
            replay_sequence(outcomes) if n_classes is None else replay_labels(outcomes, n_classes=n_classes)
        )
        return play(
            forecaster, stream.adversary(), rounds, hints=hints, n_checkpoints=n_checkpoints, draw=draw
        )
    duel.charged[:] = duel.forecasts
    return duel


def _announced(
    forecaster: Any, t: int, hint: Any, n_classes: int | None
) -> tuple[Any, Callable[[int], object]]:
    """The forecast of round t, and the function with which the forecaster learns the outcome."""
    if isinstance(forecaster, SimplexRun):
        cell, vector = forecaster.announce(np.empty(0) if hint is None else hint)
        return vector, partial(forecaster.observe, cell, vector)
    if isinstance(forecaster, AlmostOneStepAhead):
        token = forecaster.forecast(hint)
        return float(token.probability), partial(forecaster.observe, token)
    x = {"round": t, **({} if hint is None else {"hint": hint.tolist()})}
    answer = forecaster.predict_proba_one(x)
    if not isinstance(answer, Mapping):
        raise ValueError(
            f"{type(forecaster).__name__}.predict_proba_one must return probabilities by label, as "
            f"{{True: 0.7}}, got {shown(answer)} in round {t}"
        )
    if n_classes is None:
        return _probability(answer), lambda outcome: forecaster.learn_one(x, bool(outcome))
    return _probabilities(answer, n_classes), partial(forecaster.learn_one, x)


ANNOUNCED = "each probability that predict_proba_one announces"


def _probability(answer: Mapping[Any, float]) -> float:
    """The probability of True; 1/2 for a classifier that has learnt nothing yet."""
    if not answer:
        return 0.5
    return check_probability(answer[True] if True in answer else 1.0 - sum(answer.values()), ANNOUNCED)


def _probabilities(answer: Mapping[Any, float], n_classes: int) -> Floats:
    """The probabilities of the classes 0 to k - 1; 1/k each for a classifier that has learnt nothing yet."""
    vector = np.array([check_probability(answer.get(c, 0.0), ANNOUNCED) for c in range(n_classes)])
    return normalised(vector[None])[0] if vector.any() else np.full(n_classes, 1.0 / n_classes)


def _answer_of(adversary: Any, n_classes: int | None) -> Callable[[History], int]:
    """The function that gives the adversary's outcome, the number of a class, for a history."""
    if isinstance(adversary, Adversary):
        if adversary.power == "internal":
            raise ValueError(
                "adversary must be oblivious or adaptive for a plain forecaster, which has no certificate, "
                f"got {adversary.name}"
            )
        playing = deepcopy(adversary)
        playing.reset()
        return lambda history: playing.outcome(history.forecasts[-1])
    choices, name = range(n_classes or 2), f"{type(adversary).__name__}.next"

    def answer(history: History) -> int:
        outcome = adversary.next(history)
        if isinstance(outcome, np.ndarray) or outcome not in choices:
            raise ValueError(wrong_outcome(name, n_classes, outcome, len(history.outcomes)))
        return int(outcome)

    return answer


FLOAT_ARRAY = types.float64[::1]
STEP_SIGNATURE = types.int64(
    FLOAT_ARRAY, types.int64, types.float64, types.float64, types.float64, types.float64
)
MULTICLASS_STEP_SIGNATURE = types.int64(FLOAT_ARRAY, types.int64, FLOAT_ARRAY, FLOAT_ARRAY, types.float64)
"""The signatures of an adversary's step, for two classes and for more."""

kernel_of = cache(compiled)
"""Compiles a step as a kernel of its own, which every loop can call by its address."""


def loop_of(forecaster: Any, phase: Phase) -> Callable[..., int]:
    """The loop for a forecaster and a phase of its adversary, for two classes or for more."""
    step, depth = kernel_of(phase.step), phase.depth if phase.power == "internal" else 0
    if isinstance(forecaster._rules, MulticlassRules):
        return partial(
            multiclass_loop(forecaster._rules), address_of(step, MULTICLASS_STEP_SIGNATURE), depth > 0
        )
    return partial(duel_loop(forecaster._rules, depth > 1), address_of(step, STEP_SIGNATURE), depth)


@cache
def duel_loop(rules: Rules, ahead: bool) -> Callable[..., int]:
    """The loop for a forecaster's rules and any adversary's `step`: compiled once, then kept on disk.

    It plays the rounds from `start` on as far as there are draws, where theirs[0] and ours[0] belong to round
    `first`. It writes certificates from `place` on, and returns the round it has reached, which is not the
    last one if the forecaster's memory has no room. At an outcome that is none it stops before the forecaster
    is told, leaves the outcome in certificates[0], and returns -1 - round. With depth 0 the adversary is not
    told by how much the certificate would rise, and with depth 1 it is. With more, for which the loop must
    look `ahead`, it is told the largest rise that this many rounds can bring.
    """
    has_room, announce, settle = rules.has_room, rules.announce, rules.settle
    point, certificate_rises, certificate = rules.point, rules.certificate_rises, rules.certificate
    foresee = foresight(rules) if ahead else None

    @compiled
    def loop(
        step: Any,
        depth: int,
        memory: NDArray[Any],
        state: NDArray[np.float64],
        begin: int,
        theirs: NDArray[np.float64],
        ours: NDArray[np.float64],
        first: int,
        hints: NDArray[np.float64],
        seen: bool,
        forecasts: NDArray[np.float64],
        outcomes: NDArray[np.uint8],
        charged: NDArray[np.float64],
        checkpoints: NDArray[np.int64],
        certificates: NDArray[np.float64],
        place: int,
        start: int,
    ) -> int:
        # without `borrowed`, numba would count references around calls that it cannot inline, which takes two
        # atomic operations each time
        memory, state, theirs, ours = borrowed(memory), borrowed(state), borrowed(theirs), borrowed(ours)
        hints, forecasts, charged = borrowed(hints), borrowed(forecasts), borrowed(charged)
        hinted, drawn = len(hints) > 0, len(ours) > 0
        shown_draw = seen or not drawn
        for t in range(start, first + len(theirs)):
            if not has_room(memory):
                return t
            u = ours[t - first] if drawn else 0.0
            a, b, forecast, shown = announce(memory, hints[t] if hinted else NO_HINT, u)
            if shown_draw:
                shown = forecast
            rise_zero, rise_one = 0.0, 0.0
            if foresee is not None:
                rise_zero, rise_one = foresee(memory, a, b, forecast, shown_draw, depth)
            elif depth > 0:
                rise_zero, rise_one = certificate_rises(memory, a, b, forecast, shown_draw)
            outcome = called(step, state, t - begin, shown, rise_zero, rise_one, theirs[t - first])
            if outcome < 0 or outcome > 1:
                # an array that is not borrowed: numba drops a last store into one that is
                certificates[0] = outcome
                return -1 - t
            forecasts[t] = forecast
            outcomes[t] = outcome
            charged[t] = point(memory, a, b, outcome, forecast)
            settle(memory, a, b, outcome, forecast)
            if t + 1 == checkpoints[place]:
                certificates[place] = certificate(memory)
                place += 1
        return first + len(theirs)

    return loop


@cache
def multiclass_loop(rules: MulticlassRules) -> Callable[..., int]:
    """The loop of several classes, with the arguments of `duel_loop`; `ours` and `seen` are not used.

    It writes no certificates, and returns at the next checkpoint. An outcome that is no class stands in
    `outcomes` when it stops there. Only if it `tells_rises`, the adversary is told by how much each outcome
    would raise the certificate.
    """
    has_room, announce, certificate_rises, point, settle = rules

    @compiled
    def loop(
        step: Any,
        tells_rises: bool,
        memory: NDArray[Any],
        state: Floats,
        begin: int,
        theirs: Floats,
        ours: Floats,
        first: int,
        hints: Floats,
        seen: bool,
        forecasts: Floats,
        outcomes: NDArray[np.int64],
        charged: Floats,
        checkpoints: NDArray[np.int64],
        certificates: Floats,
        place: int,
        start: int,
    ) -> int:
        hinted, rises, no_hint = len(hints) > 0, np.zeros(forecasts.shape[1]), np.empty(0)
        stop = min(first + len(theirs), checkpoints[place])
        for t in range(start, stop):
            if not has_room(memory):
                return t
            forecast = forecasts[t]
            frame = announce(memory, hints[t] if hinted else no_hint, forecast)
            if tells_rises:
                certificate_rises(memory, frame, forecast, rises)
            outcome = called(step, state, t - begin, forecast, rises, theirs[t - first])
            outcomes[t] = outcome
            if outcome < 0 or outcome >= len(rises):
                return -1 - t
            point(memory, frame, forecast, outcome, charged[t])
            settle(memory, frame, forecast, outcome)
        return stop

    return loop
