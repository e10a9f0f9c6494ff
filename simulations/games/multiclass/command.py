"""What `onlinecal simulate --classes` does: games of several classes, their table and their pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adversaries import MulticlassAdversary
from onlinecal.cli.output import print_json, progress, results, table
from onlinecal.cli.verbs import warn
from onlinecal.tables import number
from simulations.games import opponents
from simulations.games.multiclass.measuring import (
    MeasuredMulticlass,
    MulticlassGame,
    measure_recorded_multiclass,
    play_and_measure_multiclass,
    records,
)
from simulations.games.multiclass.players import MulticlassPlayer, create_player
from simulations.games.opponents import Opponent
from simulations.sweeps.results import WINDOWS

if TYPE_CHECKING:
    from rich.table import Table

DEFAULT_ROUNDS = 10_000
DEFAULT_ADVERSARY = "uniform"
DEFAULT_FORECASTER = "simplex"
DEFAULT_FOLLOWER = "nested"
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
    river: str | None = None
    budget: float = 1.0


def simulate_multiclass(request: Request, folder: Path | None, as_json: bool) -> bool:
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
    against = opponents_of(request)
    usual = DEFAULT_FORECASTER if against[0].hints is None else DEFAULT_FOLLOWER
    players = [create_player(spec) for spec in request.forecasters or [usual]]
    if len({player.spec for player in players}) < len(players):
        raise ValueError(f"a forecaster is listed twice: {', '.join(player.spec for player in players)}")
    for opponent in against:
        for player in players:
            player.build(opponent.adversary.n_classes, opponent.rounds, opponent.hints is not None)
    remarks = [text for opponent in against for text in opponent.remarks]
    warn(remarks)
    games = play_all(against, players, request.budget)
    pictures = []
    if folder is not None:
        from simulations.plots.games import write_simplex_games

        curve = [] if request.file or request.river else shorter_games(request, players)
        pictures = write_simplex_games([game for some in games for game in some], curve, folder)
    measured = [game.measured for some in games for game in some]
    broken = [
        f"BROKEN: {text} ({one.forecaster}, {one.classes} classes)"
        for one in measured
        for text in one.broken_bounds()
    ]
    if as_json:
        print_json(machine_readable(measured, broken, pictures, remarks))
        return not broken
    console = results()
    if len(players) == 1 and len(against) > 1:
        title = f"{players[0].spec}, {against[0].rounds:,} rounds against {against[0].name}"
        console.print(comparison(measured, title, [f"{one.classes} classes" for one in measured]))
    else:
        for opponent, some in zip(against, games, strict=True):
            console.print(comparison([game.measured for game in some], opponent.title))
    for line in [*broken, *map(str, pictures)]:
        console.print(line, soft_wrap=True)
    return not broken


def opponents_of(request: Request) -> list[Opponent[MulticlassAdversary]]:
    """One opponent for each number of classes; ValueError if the request does not fit together."""
    given = {"--adversary": request.adversary, "--file": request.file, "--river": request.river}
    named = [option for option, value in given.items() if value is not None]
    if len(named) > 1:
        raise ValueError(f"{' and '.join(named)} exclude each other: there is one opponent")
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
            return [opponents.from_table(request.file, said, request.rounds)]
        assert request.river is not None
        return [opponents.several_from_river(request.river, said, request.rounds)]
    rounds = request.rounds or DEFAULT_ROUNDS
    return [
        opponents.several_from_spec(request.adversary or DEFAULT_ADVERSARY, k, rounds, request.seed)
        for k in request.classes
    ]


def play_all(
    against: Sequence[Opponent[MulticlassAdversary]], players: Sequence[MulticlassPlayer], budget: float
) -> list[list[MulticlassGame]]:
    """For every opponent the game of each player, after the measure of the recorded forecasts if any."""
    games = []
    with progress() as bar:
        task = bar.add_task("rounds", total=sum(one.rounds for one in against) * len(players))
        for opponent in against:
            some = []
            if opponent.hints is not None:
                recorded = opponent.hints, opponent.outcomes(), opponent.hints_name, opponent.name
                some.append(measure_recorded_multiclass(*recorded, budget=budget))
            for player in players:
                bar.update(task, description=f"rounds ({player.spec}, k = {opponent.adversary.n_classes})")
                some.append(
                    play_and_measure_multiclass(
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


def shorter_games(request: Request, players: Sequence[MulticlassPlayer]) -> list[MeasuredMulticlass]:
    """Games of SHORTEST_GAME, ... rounds, two for each power of ten, each with its own horizon."""
    longest, lengths = request.rounds or DEFAULT_ROUNDS, []
    step = 0
    while (rounds := round(SHORTEST_GAME * 10 ** (step / 2))) < longest:
        lengths.append(rounds)
        step += 1
    against = [
        opponents.several_from_spec(request.adversary or DEFAULT_ADVERSARY, k, rounds, request.seed)
        for k in request.classes
        for rounds in lengths
    ]
    games = play_all(against, players, CURVE_BUDGET * request.budget)
    return [game.measured for some in games for game in some]


def comparison(
    measured: Sequence[MeasuredMulticlass], title: str, names: Sequence[str] | None = None
) -> Table:
    """A column per game, a line per measure: the sum over rounds, then in brackets the average.

    The columns are called as `names` says, or by their forecasters.
    """
    lines: list[tuple[str, Callable[[MeasuredMulticlass], str]]] = [
        ("ECE of whole vectors", lambda one: _both(one.ece, one.rounds)),
        ("classwise ECE", lambda one: _both(one.classwise_ece, one.rounds)),
        ("distance to calibration", _bracket),
        ("certificate", lambda one: _both(one.certificate, one.rounds)),
        ("guarantee", lambda one: _both(one.guarantee, one.rounds)),
        *(WINDOWS if any(one.window for one in measured) else ()),
        ("points charged", lambda one: f"{one.points:,}"),
        ("largest bias of a point", lambda one: f"{one.largest_bias:.3g}"),
        ("Brier score", lambda one: _both(one.brier, one.rounds)),
        ("Brier regret", lambda one: _both(one.regret, one.rounds)),
        ("its bound, 2 × distance", lambda one: _both(one.regret_bound, one.rounds)),
    ]
    return table(
        f"{title}: sums (averages)",
        ["", *(names or [one.forecaster for one in measured])],
        [(name, *(show(one) for one in measured)) for name, show in lines],
    )


def machine_readable(
    measured: Sequence[MeasuredMulticlass],
    broken: Sequence[str],
    pictures: Sequence[Path],
    remarks: Sequence[str] = (),
) -> dict[str, Any]:
    """What was played, found broken, looks wrong in the labels, and was drawn, for a machine."""
    return {
        "games": records(measured),
        "broken": list(broken),
        "warnings": list(remarks),
        "pictures": [str(path) for path in pictures],
    }


def _both(value: float | None, rounds: int) -> str:
    return "–" if value is None else f"{number(value)} ({value / rounds:.4f})"


def _bracket(one: MeasuredMulticlass) -> str:
    low, high = number(one.distance_lower), number(one.distance_upper)
    return f"{high if low == high else f'{low} … {high}'} ({one.distance_upper / one.rounds:.4f})"
