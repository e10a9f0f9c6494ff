"""The work of `onlinecal simulate`: opponents, games, the table of results and pictures.

A `GamesAsked` and an `Opponent` never change. The whole request is checked before a game is played: opponents
are made, and each forecaster is built once for each of them. Nothing is written before all games are over,
the shorter ones for the picture included. The names in the JSON are those of `Measured`, which users read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import onlinecal.adversaries as adversaries
from onlinecal.adversaries import Adversary
from onlinecal.adversaries.registry import recorded_files
from onlinecal.catalogue import split_spec
from onlinecal.cli.output import answer, notices, progress, table
from onlinecal.cli.verbs import check_folder, warn
from onlinecal.compiling import counting
from onlinecal.remarks import label_remarks, outcome_remarks
from onlinecal.simulations.games import players
from onlinecal.simulations.games.measuring import measure_recorded, play_and_measure
from onlinecal.texts import number

if TYPE_CHECKING:
    from rich.table import Table


TABLE_SUFFIXES = (".npz",)
"""Extensions of files of class probabilities."""
RECORDED_KINDS = ("file", "river")
"""Kinds of adversaries that play a recorded stream: all of it, if no number of rounds is given."""
DEFAULT_ROUNDS = 10_000
"""As `cli/simulate.py` says in its help."""
DEFAULT_SPECS = {
    False: ("coin", "balanced", "adaptive:slack=1,report=hint"),
    True: ("uniform", "simplex", "nested"),
}
"""The default adversary, forecaster, and forecaster with hints: in games of two classes, and of several."""
MOST_SIMULATED_CLASSES = 100
RECORDED_FORECASTS = "recorded"
"""The name in tables for the forecasts of a file, which are the hints."""
SHORTEST_GAME = 100
"""The rounds of the shortest game in the picture of the distance against T."""

CURVE_BUDGET = 0.25
"""The effort for the distances of the shorter games in that picture."""


class Opponent(NamedTuple):
    """An adversary, how many rounds it plays, and remarks on what looks wrong in the columns of its file."""

    adversary: Adversary
    rounds: int
    remarks: Sequence[str] = ()


class GamesAsked(NamedTuple):
    """The games to play, as the command line says it; None and () where it says nothing."""

    classes: Sequence[int] = ()
    forecasters: Sequence[str] = ()
    adversary: str | None = None
    rounds: int | None = None
    seed: int = 0

    def opponents(self) -> list[Opponent]:
        """One opponent, or one for each number of classes; ValueError if the request contradicts itself."""
        for k in self.classes:
            if not 2 <= k <= MOST_SIMULATED_CLASSES:
                raise ValueError(f"--classes must be from 2 to {MOST_SIMULATED_CLASSES}, got {k}")
            if self.classes.count(k) > 1:
                raise ValueError(f"--classes must differ, got {k} twice")
        n_of_table = classes_of_table(self.adversary)
        if n_of_table is not None and list(self.classes) not in ([], [n_of_table]):
            given = ", ".join(map(str, self.classes))
            raise ValueError(
                f"--classes must be {n_of_table}, as {self.adversary} has, got {given}: leave it out"
            )
        classes = self.classes or ([] if n_of_table is None else [n_of_table])
        return [self.opponent(k, self.rounds) for k in classes or (None,)]

    def opponent(self, n_classes: int | None, rounds: int | None) -> Opponent:
        """The adversary for this number of rounds; a recorded stream plays its first rounds, or all for None.

        Raises what `adversaries.create` or, with several classes, `adversaries.create_multiclass` raises.
        """
        spec = self.adversary or DEFAULT_SPECS[n_classes is not None][0]
        name, settings = split_spec(spec, "adversary")
        recorded = name in RECORDED_KINDS
        wanted = rounds if recorded else rounds or DEFAULT_ROUNDS
        if n_classes is None:
            adversary = adversaries.create(spec, wanted, seed=self.seed)
        else:
            adversary = adversaries.create_multiclass(spec, n_classes, wanted, seed=self.seed)
        played = wanted or adversary.rounds
        assert played is not None
        remarks: Sequence[str] = ()
        if recorded and n_classes is None:
            columns = settings.get("outcome", "outcome"), settings.get("forecast", "")
            remarks = outcome_remarks(adversary.outcomes(played), adversary.hints, *columns)
        elif adversary.hints is not None:
            remarks = label_remarks(adversary.hints, adversary.outcomes(played))
        return Opponent(adversary, played, remarks)

    def shorter_games(self, chosen: Sequence[Any]) -> list[Any]:
        """Lines of games from SHORTEST_GAME rounds on, two for each power of ten, each with its horizon.

        Numbers of rounds that are too few for the adversary are left out.
        """
        longest, lengths = self.rounds or DEFAULT_ROUNDS, [SHORTEST_GAME]
        while (rounds := round(SHORTEST_GAME * 10 ** (len(lengths) / 2))) < longest:
            lengths.append(rounds)
        against = []
        for k, n in product(self.classes, (length for length in lengths if length < longest)):
            # the same adversary has been made for more rounds
            with suppress(ValueError):
                against.append(self.opponent(k, n))
        return [
            game.measured
            for games_of_one in play_all(against, chosen, self.seed, CURVE_BUDGET)
            for game in games_of_one
        ]


def classes_of_table(spec: str | None) -> int | None:
    """How many classes a spec's file of class probabilities has; None for other specs."""
    name, settings = split_spec(spec or "", "adversary")
    path = Path(settings.get("path", ""))
    if name != "file" or path.suffix.lower() not in TABLE_SUFFIXES:
        return None
    return adversaries.replay_table(path).n_classes


def simulate_games(request: GamesAsked, folder: Path | None, as_json: bool) -> bool:
    """Play, measure and show every game; returns whether all bounds were kept.

    Table and pictures are written to the folder, if there is one. A request that cannot be played raises
    ValueError before anything is played.
    """
    against = request.opponents()
    first = against[0].adversary
    several = first.n_classes is not None
    # classes come from archives, and none is written
    check_folder(folder, ("*.csv",), *([] if several else recorded_files(first.name)))
    create = players.create_player if several else players.create
    usual = DEFAULT_SPECS[several][1 if first.hints is None else 2]
    chosen = [create(spec) for spec in request.forecasters or [usual]]
    if len({player.spec for player in chosen}) < len(chosen):
        named = ", ".join(player.spec for player in chosen)
        raise ValueError(f"--forecaster must not name the same one twice, got {named}")
    for adversary, rounds, _ in against:
        for player in chosen:
            player.build(rounds, hinted=adversary.hints is not None, n_classes=adversary.n_classes)
    remarks = [text for opponent in against for text in opponent.remarks]
    warn(remarks)
    with counting() as compiled:
        games = play_all(against, chosen, request.seed)
    if compiled.notice:
        notices().print(compiled.notice)
    played = [game for games_of_one in games for game in games_of_one]
    pictures: list[Path] = []
    if folder is not None:
        from onlinecal.simulations.plots.games import write_games, write_simplex_games

        if several:
            recorded = not request.classes or first.kind.name in RECORDED_KINDS
            pictures = write_simplex_games(played, [] if recorded else request.shorter_games(chosen), folder)
        else:
            pictures = write_games(played, folder)
    measured = [game.measured for game in played]
    broken = [
        f"BROKEN: {text} ({line.forecaster}{f', {line.classes} classes' if several else ''})"
        for line in measured
        for text in line.broken_bounds()
    ]
    files = [str(path) for path in pictures]
    if len(chosen) == 1 and len(against) > 1:
        title = f"{chosen[0].spec}, {against[0].rounds:,} rounds against {first.name}"
        tables = [comparison(measured, title, [f"{line.classes} classes" for line in measured])]
    else:
        tables = []
        for opponent, games_of_one in zip(against, games, strict=True):
            of = f" of {opponent.adversary.n_classes} classes" if several else ""
            title = f"{opponent.rounds:,} rounds{of} against {opponent.adversary.name}"
            tables.append(comparison([game.measured for game in games_of_one], title))
    record = {
        "games": [line.record() for line in measured],
        "broken": broken,
        "warnings": remarks,
        "pictures": files,
    }
    answer(as_json, record, [*tables, *broken, *files])
    return not broken


def play_all(
    against: Sequence[Opponent], chosen: Sequence[Any], seed: int, budget: float = 1.0
) -> list[list[Any]]:
    """For every opponent the games of all players, after the recorded forecasts as a game, if there are some.

    `budget` is the effort for the distances.
    """
    games = []
    with progress() as bar:
        task = bar.add_task("rounds", total=sum(opponent.rounds for opponent in against) * len(chosen))
        for adversary, rounds, _ in against:
            games_of_one: list[Any] = []
            hints = adversary.hints
            if hints is not None:
                outcomes = adversary.outcomes(rounds)
                games_of_one.append(
                    measure_recorded(hints, outcomes, RECORDED_FORECASTS, adversary.name, budget=budget)
                )
            k = "" if adversary.n_classes is None else f", k = {adversary.n_classes}"
            for player in chosen:
                bar.update(task, description=f"rounds ({player.spec}{k})")
                games_of_one.append(
                    play_and_measure(
                        player,
                        adversary,
                        rounds,
                        seed=seed,
                        hints=hints,
                        budget=budget,
                        progress=lambda played: bar.advance(task, played),
                    )
                )
            games.append(games_of_one)
    return games


def comparison(measured: Sequence[Any], title: str, names: Sequence[str] | None = None) -> Table:
    """A table with a column per game and a line per measure: sums over rounds, with averages in brackets.

    `names` are the names of the columns; by default they are the forecasters.
    """
    several = hasattr(measured[0], "classes")
    windowed = any(line.window for line in measured)
    # whether a line is shown, its name, and what it shows
    lines: list[tuple[bool, str, Callable[[Any], str]]] = [
        (True, "ECE of whole vectors" if several else "ECE", lambda line: _both(line, line.ece)),
        (several, "classwise ECE", lambda line: _both(line, line.classwise_ece)),
        (True, "distance to calibration", _bracket),
        (True, "certificate", lambda line: _both(line, line.certificate)),
        (True, "guarantee", lambda line: _both(line, line.guarantee)),
        (not several, "theorem's bound", _theorem),
        (windowed, "window: the last rounds", lambda line: f"{line.window:,}" if line.window else "–"),
        (
            windowed,
            "certificate of the window",
            lambda line: _both(line, line.window_certificate, line.window),
        ),
        (
            windowed,
            "guarantee of any such window",
            lambda line: _both(line, line.window_guarantee, line.window),
        ),
        (several, "points charged", lambda line: f"{line.points:,}"),
        (several, "largest bias of a point", lambda line: f"{line.largest_bias:.3g}"),
        (True, "Brier score", lambda line: _both(line, line.brier)),
        (not several, "Brier score of the best constant", lambda line: _both(line, line.brier_constant)),
        (True, "Brier regret", lambda line: _both(line, line.regret)),
        (True, "its bound, 2 × distance", lambda line: _both(line, line.regret_bound)),
    ]
    return table(
        f"{title}: sums{'' if several else ' over rounds'} (averages)",
        ["", *(names or [line.forecaster for line in measured])],
        [(name, *(show(line) for line in measured)) for shown, name, show in lines if shown],
    )


def _both(line: Any, value: float | None, of: int | None = None) -> str:
    """A sum, and its average over the rounds, or over the last `of` of them."""
    return "–" if value is None else f"{number(value)} ({value / min(of or line.rounds, line.rounds):.4f})"


def _bracket(line: Any) -> str:
    low, high = number(line.distance_lower), number(line.distance_upper)
    return f"{high if low == high else f'{low} … {high}'} ({line.distance_upper / line.rounds:.4f})"


def _theorem(line: Any) -> str:
    if line.bound is None:
        return "–"
    player = players.create(line.forecaster)
    by_formula = player.bound_label is not None and player.bound(line.rounds) == line.bound
    return f"{player.bound_label} = {number(line.bound)}" if by_formula else number(line.bound)
