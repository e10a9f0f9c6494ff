"""What `onlinecal simulate` does: whom forecasters play, the games, their table and their pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

import adversaries
from adversaries import Adversary, LabelStream, MulticlassAdversary, Stream
from onlinecal.cli.output import notices, print_json, progress, results, table
from onlinecal.cli.verbs import warn
from onlinecal.compiling import counting
from onlinecal.remarks import label_remarks, outcome_remarks
from onlinecal.tables import number
from simulations.games import players

if TYPE_CHECKING:
    from rich.table import Table


TABLES = (".npz",)
"""Extensions of files of class probabilities."""

A = TypeVar("A", Adversary, MulticlassAdversary)


@dataclass(frozen=True, eq=False)
class Opponent(Generic[A]):
    """An adversary, for how many rounds, and the hints that come with them, if there are any.

    The hints are of shape (T,), of several classes (T, k). `hints_name` says in tables where they come from,
    `remarks` what looks wrong in the columns of a file.
    """

    adversary: A
    rounds: int
    hints: NDArray[np.float64] | None = None
    hints_name: str = ""
    remarks: Sequence[str] = ()

    @property
    def name(self) -> str:
        """What it is called."""
        return self.adversary.name

    @property
    def title(self) -> str:
        """One line for a table."""
        one = self.adversary
        classes = f" of {one.n_classes} classes" if isinstance(one, MulticlassAdversary) else ""
        return f"{self.rounds:,} rounds{classes} against {self.name}"

    def outcomes(self) -> NDArray[Any]:
        """The outcomes to come, shape (T,); ValueError if they depend on the forecasts."""
        return self.adversary.outcomes(self.rounds)


def from_spec(spec: str, rounds: int, seed: int) -> Opponent[Adversary]:
    """The adversary of a spec; ValueError as from `adversaries.create`."""
    return Opponent(adversaries.create(spec, rounds, seed), rounds)


def from_file(
    path: Path, outcome: str, forecast: str | None, sort: str | None, rounds: int | None
) -> Opponent[Adversary]:
    """The first so many rounds of a file, or all; errors as from `adversaries.replay_file`."""
    stream = adversaries.replay_file(path, outcome, forecast, sort=sort)
    opponent = _from_stream(stream, rounds, f"{forecast} itself")
    outcomes = stream.outcomes[: opponent.rounds]
    remarks = outcome_remarks(outcomes, opponent.hints, outcome, forecast or "")
    return replace(opponent, remarks=remarks)


def from_river(name: str, rounds: int | None) -> Opponent[Adversary]:
    """The first so many rounds of a dataset that comes with river, or all."""
    return _from_stream(adversaries.replay_river(name), rounds, "")


def first_rounds(rounds: int | None, available: int, name: str) -> int:
    """So many of the rounds there are, or all; ValueError if there are fewer."""
    if rounds is not None and rounds > available:
        raise ValueError(f"rounds must be at most the {available} that {name} has, got {rounds}")
    return rounds or available


def _from_stream(stream: Stream, rounds: int | None, hints_name: str) -> Opponent[Adversary]:
    wanted = first_rounds(rounds, len(stream), stream.name)
    hints = None if stream.hints is None else stream.hints[:wanted]
    return Opponent(stream.adversary(), wanted, hints, hints_name)


def several_from_spec(spec: str, n_classes: int, rounds: int, seed: int) -> Opponent[MulticlassAdversary]:
    """The adversary of a spec; ValueError as from `adversaries.create_multiclass`."""
    return Opponent(adversaries.create_multiclass(spec, n_classes, rounds, seed), rounds)


def from_table(path: Path, n_classes: int | None, rounds: int | None) -> Opponent[MulticlassAdversary]:
    """The first so many labels of a file of class probabilities, or all; the probabilities are the hints."""
    if path.suffix.lower() not in TABLES and path.is_file():
        raise ValueError(
            f"class probabilities are read from a numpy archive ({', '.join(TABLES)}) with the arrays "
            f"predictions and ground_truth, got {path}"
        )
    return _from_labels(adversaries.replay_table(path), n_classes, rounds)


def several_from_river(name: str, n_classes: int | None, rounds: int | None) -> Opponent[MulticlassAdversary]:
    """The first so many labels of a dataset that comes with river, or all."""
    return _from_labels(adversaries.replay_river_labels(name), n_classes, rounds)


def _from_labels(
    stream: LabelStream, n_classes: int | None, rounds: int | None
) -> Opponent[MulticlassAdversary]:
    if n_classes is not None and n_classes != stream.n_classes:
        raise ValueError(f"{stream.name} has {stream.n_classes} classes, --classes says {n_classes}")
    wanted = first_rounds(rounds, len(stream), stream.name)
    hints = None if stream.hints is None else stream.hints[:wanted]
    remarks = [] if hints is None else label_remarks(hints, stream.labels[:wanted], stream.classes or None)
    return Opponent(stream.adversary(), wanted, hints, "recorded", remarks)


DEFAULT_ROUNDS = 10_000
DEFAULTS = {
    False: ("coin", "balanced", "adaptive:slack=1,report=hint"),
    True: ("uniform", "simplex", "nested"),
}
"""The adversary, the forecaster, and one that follows hints: of games of two classes, and of several."""
MOST_CLASSES = 100
SHORTEST_GAME = 100
"""Rounds of the shortest game in the picture of the distance against T."""

CURVE_BUDGET = 0.25
"""Share of the effort for the distance that the shorter games of that picture get."""


@dataclass(frozen=True)
class Request:
    """What is to be played, as the command line says it; None and () where it says nothing."""

    classes: Sequence[int] = ()
    forecasters: Sequence[str] = ()
    adversary: str | None = None
    rounds: int | None = None
    seed: int = 0
    file: Path | None = None
    outcome: str | None = None
    forecast: str | None = None
    sort: str | None = None
    river: str | None = None
    budget: float = 1.0

    @property
    def several(self) -> bool:
        """Whether it is for games of several classes."""
        return bool(self.classes) or (self.file is not None and self.file.suffix.lower() in TABLES)


def simulate_games(request: Request, folder: Path | None, as_json: bool) -> bool:
    """Play, measure and show every game; whether all bounds were kept.

    Parameters
    ----------
    request
        Who plays whom.
    folder
        Where table and pictures go; None for none.
    as_json
        Machine-readable output instead of tables.

    Raises
    ------
    ValueError
        If the request cannot be played; nothing has been played then.
    """
    create: Callable[[str], Any] = players.create
    if request.several:
        from simulations.games.multiclass import create_player as create
    against = opponents_of(request)
    _, leader, follower = DEFAULTS[request.several]
    chosen = [
        create(spec) for spec in request.forecasters or [leader if against[0].hints is None else follower]
    ]
    if len({player.spec for player in chosen}) < len(chosen):
        raise ValueError(f"a forecaster is listed twice: {', '.join(player.spec for player in chosen)}")
    for opponent in against if request.several else ():
        for player in chosen:
            player.build(opponent.adversary.n_classes, opponent.rounds, opponent.hints is not None)
    remarks = [text for opponent in against for text in opponent.remarks]
    warn(remarks)
    with counting() as compiled:
        games = play_all(against, chosen, request)
    if compiled.notice and not request.several:
        notices().print(compiled.notice)
    every = [game for some in games for game in some]
    pictures: list[Path] = []
    if folder is not None:
        from simulations.plots.games import write_games, write_simplex_games

        if request.several:
            curve = [] if request.file or request.river else shorter_games(request, chosen)
            pictures = write_simplex_games(every, curve, folder)
        else:
            pictures = write_games(every, folder)
    measured = [game.measured for game in every]
    broken = [
        f"BROKEN: {text} ({one.forecaster}{f', {one.classes} classes' if request.several else ''})"
        for one in measured
        for text in one.broken_bounds()
    ]
    if as_json:
        print_json(
            {
                "games": [one.record() for one in measured],
                "broken": broken,
                "warnings": remarks,
                "pictures": [str(path) for path in pictures],
            }
        )
        return not broken
    console = results()
    if len(chosen) == 1 and len(against) > 1:
        title = f"{chosen[0].spec}, {against[0].rounds:,} rounds against {against[0].name}"
        console.print(comparison(measured, title, [f"{one.classes} classes" for one in measured]))
    else:
        for opponent, some in zip(against, games, strict=True):
            console.print(comparison([game.measured for game in some], opponent.title))
    for line in [*broken, *map(str, pictures)]:
        console.print(line, soft_wrap=True)
    return not broken


def opponents_of(request: Request) -> list[Opponent[Any]]:
    """One opponent, or one for each number of classes; ValueError if the request does not fit together."""
    given = {"--adversary": request.adversary, "--file": request.file, "--river": request.river}
    named = [option for option, value in given.items() if value is not None]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)} exclude each other: there is one opponent")
    if request.several:
        return _several(request)
    columns = {"--outcome": request.outcome, "--forecast": request.forecast, "--sort": request.sort}
    if request.file is not None:
        if request.outcome is None:
            raise ValueError("--file needs --outcome, the column of outcomes")
        return [from_file(request.file, request.outcome, request.forecast, request.sort, request.rounds)]
    for option, value in columns.items():
        if value is not None:
            raise ValueError(f"{option} names a column of a file: it needs --file")
    if request.river is not None:
        return [from_river(request.river, request.rounds)]
    adversary = request.adversary or DEFAULTS[False][0]
    return [from_spec(adversary, request.rounds or DEFAULT_ROUNDS, request.seed)]


def _several(request: Request) -> list[Opponent[Any]]:
    """One for each number of classes."""
    for k in request.classes:
        if not 2 <= k <= MOST_CLASSES:
            raise ValueError(f"--classes must be from 2 to {MOST_CLASSES}, got {k}")
        if request.classes.count(k) > 1:
            raise ValueError(f"--classes {k} is given twice")
    if request.file is not None or request.river is not None:
        if len(request.classes) > 1:
            raise ValueError("recorded labels have one number of classes: give --classes once or not at all")
        said = request.classes[0] if request.classes else None
        if request.file is not None:
            return [from_table(request.file, said, request.rounds)]
        assert request.river is not None
        return [several_from_river(request.river, said, request.rounds)]
    return _of_several(request, [request.rounds or DEFAULT_ROUNDS])


def _of_several(request: Request, lengths: Sequence[int]) -> list[Opponent[Any]]:
    adversary = request.adversary or DEFAULTS[True][0]
    return [
        several_from_spec(adversary, k, rounds, request.seed) for k in request.classes for rounds in lengths
    ]


def play_all(
    against: Sequence[Opponent[Any]], chosen: Sequence[Any], request: Request, share: float = 1.0
) -> list[list[Any]]:
    """For every opponent the game of each player, after the measure of the recorded forecasts if any.

    The effort for the distance is that `share` of the request's.
    """
    if request.several:
        from simulations.games import multiclass as several

        measure: Any = several.measure_recorded_multiclass
        play: Any = several.play_and_measure_multiclass
    else:
        from simulations.games.measuring import measure_recorded, play_and_measure

        measure, play = measure_recorded, partial(play_and_measure, seed=request.seed)
    games, budget = [], share * request.budget
    with progress() as bar:
        task = bar.add_task("rounds", total=sum(one.rounds for one in against) * len(chosen))
        for opponent in against:
            some: list[Any] = []
            if opponent.hints is not None:
                recorded = opponent.hints, opponent.outcomes(), opponent.hints_name, opponent.name
                some.append(measure(*recorded, budget=budget))
            k = f", k = {opponent.adversary.n_classes}" if request.several else ""
            for player in chosen:
                bar.update(task, description=f"rounds ({player.spec}{k})")
                some.append(
                    play(
                        player,
                        opponent.adversary,
                        opponent.rounds,
                        hints=opponent.hints,
                        budget=budget,
                        progress=lambda played: bar.advance(task, played),
                    )
                )
            games.append(some)
    return games


def shorter_games(request: Request, chosen: Sequence[Any]) -> list[Any]:
    """Games of SHORTEST_GAME, ... rounds, two for each power of ten, each with its own horizon."""
    longest, lengths = request.rounds or DEFAULT_ROUNDS, []
    step = 0
    while (rounds := round(SHORTEST_GAME * 10 ** (step / 2))) < longest:
        lengths.append(rounds)
        step += 1
    games = play_all(_of_several(request, lengths), chosen, request, CURVE_BUDGET)
    return [game.measured for some in games for game in some]


def comparison(measured: Sequence[Any], title: str, names: Sequence[str] | None = None) -> Table:
    """A column per game, a line per measure: the sum over rounds, then in brackets the average.

    The columns are called as `names` says, or by their forecasters.
    """
    several = hasattr(measured[0], "classes")
    lines: list[tuple[str, Callable[[Any], str]]] = [
        ("ECE of whole vectors" if several else "ECE", lambda one: _both(one.ece, one.rounds)),
        *([("classwise ECE", lambda one: _both(one.classwise_ece, one.rounds))] if several else ()),
        ("distance to calibration", _bracket),
        ("certificate", lambda one: _both(one.certificate, one.rounds)),
        ("guarantee", lambda one: _both(one.guarantee, one.rounds)),
        *(() if several else [("theorem's bound", _theorem)]),
        *(WINDOWS if any(one.window for one in measured) else ()),
        *(POINTS if several else ()),
        ("Brier score", lambda one: _both(one.brier, one.rounds)),
        *(() if several else [CONSTANT]),
        ("Brier regret", lambda one: _both(one.regret, one.rounds)),
        ("its bound, 2 × distance", lambda one: _both(one.regret_bound, one.rounds)),
    ]
    return table(
        f"{title}: sums{'' if several else ' over rounds'} (averages)",
        ["", *(names or [one.forecaster for one in measured])],
        [(name, *(show(one) for one in measured)) for name, show in lines],
    )


def _both(value: float | None, rounds: int) -> str:
    return "–" if value is None else f"{number(value)} ({value / rounds:.4f})"


def _of_window(one: Any, value: float | None) -> str:
    return "–" if one.window is None else _both(value, min(one.window, one.rounds))


WINDOWS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("window: the last rounds", lambda one: "–" if one.window is None else f"{one.window:,}"),
    ("certificate of the window", lambda one: _of_window(one, one.window_certificate)),
    ("guarantee of any such window", lambda one: _of_window(one, one.window_guarantee)),
)
"""What a table says of forecasters with a window, of two classes or more."""
POINTS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("points charged", lambda one: f"{one.points:,}"),
    ("largest bias of a point", lambda one: f"{one.largest_bias:.3g}"),
)
"""What it says of several classes only."""
CONSTANT = "Brier score of the best constant", lambda one: _both(one.brier_constant, one.rounds)


def _bracket(one: Any) -> str:
    low, high = number(one.distance_lower), number(one.distance_upper)
    return f"{high if low == high else f'{low} … {high}'} ({one.distance_upper / one.rounds:.4f})"


def _theorem(one: Any) -> str:
    if one.bound is None:
        return "–"
    player = players.create(one.forecaster)
    by_formula = player.bound_label is not None and player.bound(one.rounds) == one.bound
    return f"{player.bound_label} = {number(one.bound)}" if by_formula else number(one.bound)
