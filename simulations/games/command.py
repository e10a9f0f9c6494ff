"""What `onlinecal simulate` does: whom forecasters play, the games, their table and their pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import onlinecal.adversaries as adversaries
from onlinecal.adversaries import Adversary
from onlinecal.catalogue import split_spec
from onlinecal.cli.output import answer, notices, progress, table
from onlinecal.cli.verbs import warn
from onlinecal.compiling import counting
from onlinecal.remarks import label_remarks, outcome_remarks
from onlinecal.simulations.games import players
from onlinecal.simulations.games.measuring import measure_recorded, play_and_measure
from onlinecal.texts import number

if TYPE_CHECKING:
    from rich.table import Table


TABLES = (".npz",)
"""Extensions of files of class probabilities."""
RECORDED = ("file", "river")
"""Kinds of adversaries that play what is recorded: all of it, if no number of rounds is given."""
DEFAULT_ROUNDS = 10_000
DEFAULTS = {
    False: ("coin", "balanced", "adaptive:slack=1,report=hint"),
    True: ("uniform", "simplex", "nested"),
}
"""The adversary, the forecaster, and one that follows hints: of games of two classes, and of several."""
MOST_CLASSES = 100
HINTS = "recorded"
"""What the forecasts of a file, which are the hints, are called in tables."""
SHORTEST_GAME = 100
"""Rounds of the shortest game in the picture of the distance against T."""

CURVE_BUDGET = 0.25
"""Share of the effort for the distance that the shorter games of that picture get."""


class Opponent(NamedTuple):
    """An adversary, for how many rounds, and what looks wrong in the columns of its file."""

    adversary: Adversary
    rounds: int
    remarks: Sequence[str] = ()


class Request(NamedTuple):
    """What is to be played, as the command line says it; None and () where it says nothing."""

    classes: Sequence[int] = ()
    forecasters: Sequence[str] = ()
    adversary: str | None = None
    rounds: int | None = None
    seed: int = 0

    def opponents(self) -> list[Opponent]:
        """One opponent, or one for each number of classes; ValueError if all this does not fit together."""
        for k in self.classes:
            if not 2 <= k <= MOST_CLASSES:
                raise ValueError(f"--classes must be from 2 to {MOST_CLASSES}, got {k}")
            if self.classes.count(k) > 1:
                raise ValueError(f"--classes {k} is given twice")
        found = classes_of_table(self.adversary)
        if found is not None and list(self.classes) not in ([], [found]):
            raise ValueError(f"{self.adversary} has {found} classes, --classes says otherwise: leave it out")
        classes = self.classes or ([] if found is None else [found])
        return [self.opponent(k, self.rounds) for k in classes or (None,)]

    def opponent(self, n_classes: int | None, rounds: int | None) -> Opponent:
        """The adversary for so many rounds; of recorded ones all rounds, or the first so many.

        Errors as from `adversaries.create`, or of several classes as from `adversaries.create_multiclass`.
        """
        spec = self.adversary or DEFAULTS[n_classes is not None][0]
        name, settings = split_spec(spec, "adversary")
        recorded = name in RECORDED
        wanted = rounds if recorded else rounds or DEFAULT_ROUNDS
        if n_classes is None:
            made = adversaries.create(spec, wanted, self.seed)
        else:
            made = adversaries.create_multiclass(spec, n_classes, wanted, self.seed)
        played = wanted or made.rounds
        assert played is not None
        remarks: Sequence[str] = ()
        if recorded and n_classes is None:
            columns = settings.get("outcome", "outcome"), settings.get("forecast", "")
            remarks = outcome_remarks(made.outcomes(played), made.hints, *columns)
        elif made.hints is not None:
            remarks = label_remarks(made.hints, made.outcomes(played))
        return Opponent(made, played, remarks)

    def shorter_games(self, chosen: Sequence[Any]) -> list[Any]:
        """Lines of games of SHORTEST_GAME, ... rounds, two for each power of ten, each with its horizon."""
        longest, lengths = self.rounds or DEFAULT_ROUNDS, [SHORTEST_GAME]
        while (rounds := round(SHORTEST_GAME * 10 ** (len(lengths) / 2))) < longest:
            lengths.append(rounds)
        against = [self.opponent(k, n) for k in self.classes for n in lengths if n < longest]
        return [game.measured for some in play_all(against, chosen, self.seed, CURVE_BUDGET) for game in some]


def classes_of_table(spec: str | None) -> int | None:
    """How many classes a spec's file of class probabilities has; None for whatever is none."""
    name, settings = split_spec(spec or "", "adversary")
    path = Path(settings.get("path", ""))
    if name != "file" or path.suffix.lower() not in TABLES:
        return None
    return adversaries.replay_table(path).n_classes


def simulate_games(request: Request, folder: Path | None, as_json: bool) -> bool:
    """Play, measure and show every game; whether all bounds were kept.

    Table and pictures go to the folder, if there is one. ValueError if the request cannot be played; nothing
    has been played then.
    """
    against = request.opponents()
    first = against[0].adversary
    several = first.n_classes is not None
    create = players.create_player if several else players.create
    usual = DEFAULTS[several][1 if first.hints is None else 2]
    chosen = [create(spec) for spec in request.forecasters or [usual]]
    if len({player.spec for player in chosen}) < len(chosen):
        raise ValueError(f"a forecaster is listed twice: {', '.join(player.spec for player in chosen)}")
    for adversary, rounds, _ in against if several else ():
        for player in chosen:
            player.build(rounds, hinted=adversary.hints is not None, n_classes=adversary.n_classes)
    remarks = [text for one in against for text in one.remarks]
    warn(remarks)
    with counting() as compiled:
        games = play_all(against, chosen, request.seed)
    if compiled.notice:
        notices().print(compiled.notice)
    every = [game for some in games for game in some]
    pictures: list[Path] = []
    if folder is not None:
        from onlinecal.simulations.plots.games import write_games, write_simplex_games

        if several:
            recorded = not request.classes or first.kind.name in RECORDED
            pictures = write_simplex_games(every, [] if recorded else request.shorter_games(chosen), folder)
        else:
            pictures = write_games(every, folder)
    measured = [game.measured for game in every]
    broken = [
        f"BROKEN: {text} ({one.forecaster}{f', {one.classes} classes' if several else ''})"
        for one in measured
        for text in one.broken_bounds()
    ]
    files = [str(path) for path in pictures]
    if len(chosen) == 1 and len(against) > 1:
        title = f"{chosen[0].spec}, {against[0].rounds:,} rounds against {first.name}"
        tables = [comparison(measured, title, [f"{line.classes} classes" for line in measured])]
    else:
        tables = []
        for one, some in zip(against, games, strict=True):
            of = f" of {one.adversary.n_classes} classes" if several else ""
            title = f"{one.rounds:,} rounds{of} against {one.adversary.name}"
            tables.append(comparison([game.measured for game in some], title))
    record = {
        "games": [one.record() for one in measured],
        "broken": broken,
        "warnings": remarks,
        "pictures": files,
    }
    answer(as_json, record, [*tables, *broken, *files])
    return not broken


def play_all(
    against: Sequence[Opponent], chosen: Sequence[Any], seed: int, budget: float = 1.0
) -> list[list[Any]]:
    """For every opponent the game of each player, after the measure of the recorded forecasts if any.

    The budget is that of the distances.
    """
    games = []
    with progress() as bar:
        task = bar.add_task("rounds", total=sum(one.rounds for one in against) * len(chosen))
        for adversary, rounds, _ in against:
            some: list[Any] = []
            hints = adversary.hints
            if hints is not None:
                outcomes = adversary.outcomes(rounds)
                some.append(measure_recorded(hints, outcomes, HINTS, adversary.name, budget=budget))
            k = "" if adversary.n_classes is None else f", k = {adversary.n_classes}"
            for player in chosen:
                bar.update(task, description=f"rounds ({player.spec}{k})")
                some.append(
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
            games.append(some)
    return games


def comparison(measured: Sequence[Any], title: str, names: Sequence[str] | None = None) -> Table:
    """A column per game, a line per measure: the sum over rounds, then in brackets the average.

    The columns are called as `names` says, or by their forecasters.
    """
    several = hasattr(measured[0], "classes")
    windowed = any(one.window for one in measured)
    # whether a line is shown, its name, and what it shows
    lines: list[tuple[bool, str, Callable[[Any], str]]] = [
        (True, "ECE of whole vectors" if several else "ECE", lambda one: _both(one, one.ece)),
        (several, "classwise ECE", lambda one: _both(one, one.classwise_ece)),
        (True, "distance to calibration", _bracket),
        (True, "certificate", lambda one: _both(one, one.certificate)),
        (True, "guarantee", lambda one: _both(one, one.guarantee)),
        (not several, "theorem's bound", _theorem),
        (windowed, "window: the last rounds", lambda one: f"{one.window:,}" if one.window else "–"),
        (windowed, "certificate of the window", lambda one: _both(one, one.window_certificate, one.window)),
        (windowed, "guarantee of any such window", lambda one: _both(one, one.window_guarantee, one.window)),
        (several, "points charged", lambda one: f"{one.points:,}"),
        (several, "largest bias of a point", lambda one: f"{one.largest_bias:.3g}"),
        (True, "Brier score", lambda one: _both(one, one.brier)),
        (not several, "Brier score of the best constant", lambda one: _both(one, one.brier_constant)),
        (True, "Brier regret", lambda one: _both(one, one.regret)),
        (True, "its bound, 2 × distance", lambda one: _both(one, one.regret_bound)),
    ]
    return table(
        f"{title}: sums{'' if several else ' over rounds'} (averages)",
        ["", *(names or [one.forecaster for one in measured])],
        [(name, *(show(one) for one in measured)) for shown, name, show in lines if shown],
    )


def _both(one: Any, value: float | None, of: int | None = None) -> str:
    """A sum, and its average over the rounds, or over so many of them."""
    return "–" if value is None else f"{number(value)} ({value / min(of or one.rounds, one.rounds):.4f})"


def _bracket(one: Any) -> str:
    low, high = number(one.distance_lower), number(one.distance_upper)
    return f"{high if low == high else f'{low} … {high}'} ({one.distance_upper / one.rounds:.4f})"


def _theorem(one: Any) -> str:
    if one.bound is None:
        return "–"
    player = players.create(one.forecaster)
    by_formula = player.bound_label is not None and player.bound(one.rounds) == one.bound
    return f"{player.bound_label} = {number(one.bound)}" if by_formula else number(one.bound)
