"""Players that are plain Python objects: slow, since every round is played in the interpreter.

A plain adversary has a method `next(history)`, which returns the outcome of the coming round. A plain
forecaster is a classifier of river: `predict_proba_one(x)` announces, `learn_one(x, y)` learns. Its features
x are the number of the round, and the hint if there is one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adversaries import Adversary, replay_labels, replay_sequence
from onlinecal.arrays import Floats
from onlinecal.forecasters import AlmostOneStepAhead
from onlinecal.forecasters.simplex.input import normalised
from onlinecal.forecasters.simplex.run import SimplexRun
from onlinecal.validation import check_count, check_probability
from simulations.games.duel import Duel, check_rounds, checked_hints, play


class History(NamedTuple):
    """What a plain adversary sees when it is asked for the outcome of round t, counted from 0.

    Attributes
    ----------
    forecasts
        What was announced in the rounds 0 to t, the coming one included, shape (t + 1,); with k classes
        (t + 1, k).
    outcomes
        What came in the rounds 0 to t - 1, shape (t,).
    """

    forecasts: Floats
    outcomes: NDArray[Any]


def plain_ones(forecaster: Any, adversary: Any) -> list[Any]:
    """Those of the two that cannot be played compiled; ValueError for one that cannot be played at all."""
    found = []
    for name, player, compiled, methods in (
        ("forecaster", forecaster, "rules", ("predict_proba_one", "learn_one")),
        ("adversary", adversary, "phases", ("next",)),
    ):
        if hasattr(player, compiled):
            continue
        found.append(player)
        for method in methods:
            if not callable(getattr(player, method, None)):
                raise ValueError(
                    f"{name} must be one of the library's, or a plain object with {' and '.join(methods)}; "
                    f"{type(player).__name__} has no {method}"
                )
    return found


def play_plainly(
    forecaster: Any,
    adversary: Any,
    rounds: int,
    hints: Floats | None,
    n_checkpoints: int,
    progress: Callable[[int], None] | None,
    draw: str,
) -> Duel:
    """The duel of `simulations.play`, of which at least one side is a plain object; warns that it is slow.

    A forecaster of the library plays twice: in the interpreter against the plain adversary, then compiled
    against the outcomes that came. That is the same game, with its certificates.
    """
    known = hasattr(forecaster, "rules")
    check_count(rounds, "rounds")
    if isinstance(adversary, Adversary):
        check_rounds(rounds, adversary)
    draws = known and not isinstance(forecaster, SimplexRun) and len(deepcopy(forecaster).draws(1)) > 0
    if draws and draw == "hidden":
        raise ValueError(
            "draw must be 'seen' where a plain adversary meets a forecaster that draws, for it is shown what "
            "was announced; got 'hidden'"
        )
    names = " and ".join(type(one).__name__ for one in plain_ones(forecaster, adversary))
    warnings.warn(
        f"{names}: a plain Python object plays in the interpreter, hundreds of times as slowly as compiled "
        "code (docs/own-adversary.md says how to write a step function)",
        UserWarning,
        stacklevel=3,
    )
    n_classes = None if known else getattr(adversary, "n_classes", None)
    if isinstance(forecaster, SimplexRun):
        n_classes = len(forecaster.numbers)
    guide = checked_hints(hints, rounds, n_classes)
    duel = Duel.blank(rounds, n_classes, n_checkpoints)
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
        came = duel.outcomes
        stream = replay_sequence(came) if n_classes is None else replay_labels(came, n_classes)
        return play(forecaster, stream.adversary(), rounds, hints, n_checkpoints, None, draw)
    duel.charged[:] = duel.forecasts
    return duel


def _announced(
    forecaster: Any, t: int, hint: Any, n_classes: int | None
) -> tuple[Any, Callable[[int], object]]:
    """What a forecaster announces in round t, and how it learns the outcome."""
    if isinstance(forecaster, SimplexRun):
        cell, vector = forecaster.announce(np.empty(0) if hint is None else hint)
        return vector, partial(forecaster.observe, cell, vector)
    if isinstance(forecaster, AlmostOneStepAhead):
        token = forecaster.forecast(hint)
        return float(token.probability), partial(forecaster.observe, token)
    x = {"round": t, **({} if hint is None else {"hint": hint.tolist()})}
    answer = forecaster.predict_proba_one(x)
    if n_classes is None:
        return _probability(answer), lambda outcome: forecaster.learn_one(x, bool(outcome))
    return _probabilities(answer, n_classes), partial(forecaster.learn_one, x)


def _probability(answer: Mapping[Any, float]) -> float:
    """The probability of True; of a classifier that has learnt nothing yet, 1/2."""
    if not answer:
        return 0.5
    return check_probability(
        answer[True] if True in answer else 1.0 - sum(answer.values()), "what predict_proba_one announces"
    )


def _probabilities(answer: Mapping[Any, float], n_classes: int) -> Floats:
    """The probabilities of the classes 0 to k - 1; of a classifier that has learnt nothing yet, 1/k each."""
    vector = np.array([answer.get(c, 0.0) for c in range(n_classes)], dtype=np.float64)
    return normalised(vector[None])[0] if vector.any() else np.full(n_classes, 1.0 / n_classes)


def _answer_of(adversary: Any, n_classes: int | None) -> Callable[[History], int]:
    """What the adversary answers to a history, a number of a class."""
    if isinstance(adversary, Adversary):
        if adversary.power == "internal":
            raise ValueError(
                f"{adversary.name} looks at the certificate, of which a plain forecaster has none: "
                "take an adversary that is oblivious or adaptive"
            )
        playing = deepcopy(adversary)
        playing.reset()
        return lambda history: playing.outcome(history.forecasts[-1])
    choices = range(2 if n_classes is None else n_classes)

    def answer(history: History) -> int:
        outcome = adversary.next(history)
        if outcome not in choices:
            raise ValueError(
                f"{type(adversary).__name__}.next must return an outcome from 0 to {choices[-1]}, got "
                f"{outcome!r} in round {len(history.outcomes)}"
            )
        return int(outcome)

    return answer
