"""What `onlinecal simulate` does: whom forecasters play, the games, their table and their pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import adversaries
from adversaries import Adversary
from onlinecal.catalogue import split_spec
from onlinecal.cli.output import notices, print_json, progress, results, table
from onlinecal.cli.verbs import warn
from onlinecal.compiling import counting
from onlinecal.remarks import label_remarks, outcome_remarks
from onlinecal.tables import number
from simulations.games import players
from simulations.games.measuring import measure_recorded, play_and_measure
from simulations.games.several import create_player

if TYPE_CHECKING:
    from rich.table import Table


TABLES = (".npz",)
"""Extensions of files of class probabilities."""
RECORDED = ("file", "river")
"""Kinds of adversaries that play what is recorded: all of it, if no number of rounds is given."""


@dataclass(frozen=True, eq=False)
class Opponent:
    """An adversary, for how many rounds, and the hints that come with them, if there are any.

    The hints are of shape (T,), of several classes (T, k); `remarks` say what looks wrong in the columns of a
    file.
    """

    adversary: Adversary
    rounds: int
    hints: NDArray[np.float64] | None = None
    remarks: Sequence[str] = ()

    @property
    def is_recorded(self) -> bool:
        """Whether it plays what is recorded."""
        return self.adversary.kind.name in RECORDED

    @property
    def name(self) -> str:
        """What it is called."""
        return self.adversary.name

    @property
    def n_classes(self) -> int | None:
        """k; None for outcomes 0 and 1."""
        return getattr(self.adversary, "n_classes", None)

    @property
    def title(self) -> str:
        """One line for a table."""
        classes = "" if self.n_classes is None else f" of {self.n_classes} classes"
        return f"{self.rounds:,} rounds{classes} against {self.name}"

    def outcomes(self) -> NDArray[Any]:
        """The outcomes to come, shape (T,); ValueError if they depend on the forecasts."""
        return self.adversary.outcomes(self.rounds)


def opponent(spec: str, rounds: int | None, seed: int, n_classes: int | None = None) -> Opponent:
    """The adversary of a spec; of recorded ones all rounds, or the first so many.

    Errors as from `adversaries.create`, or of several classes as from `adversaries.create_multiclass`.
    """
    name, settings = split_spec(spec, "adversary")
    recorded = name in RECORDED
    wanted = rounds if recorded else rounds or DEFAULT_ROUNDS
    if n_classes is None:
        made = adversaries.create(spec, wanted, seed)
    else:
        made = adversaries.create_multiclass(spec, n_classes, wanted, seed)
    hints, played = made.hints, wanted or made.rounds
    assert played is not None
    remarks: Sequence[str] = ()
    if recorded and n_classes is None:
        columns = settings.get("outcome", "outcome"), settings.get("forecast", "")
        remarks = outcome_remarks(made.outcomes(played), hints, *columns)
    elif hints is not None:
        remarks = label_remarks(hints, made.outcomes(played))
    return Opponent(made, played, hints, remarks)


def classes_of_table(spec: str | None) -> int | None:
    """How many classes a spec's file of class probabilities has; None for whatever is none."""
    name, settings = split_spec(spec or "", "adversary")
    path = Path(settings.get("path", ""))
    if name != "file" or path.suffix.lower() not in TABLES:
        return None
    return adversaries.replay_table(path).n_classes


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


@dataclass(frozen=True)
class Request:
    """What is to be played, as the command line says it; None and () where it says nothing."""

    classes: Sequence[int] = ()
    forecasters: Sequence[str] = ()
    adversary: str | None = None
    rounds: int | None = None
    seed: int = 0


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
    against = opponents_of(request)
    several = against[0].n_classes is not None
    create: Callable[[str], Any] = create_player if several else players.create
    _, leader, follower = DEFAULTS[several]
    chosen = [
        create(spec) for spec in request.forecasters or [leader if against[0].hints is None else follower]
    ]
    if len({player.spec for player in chosen}) < len(chosen):
        raise ValueError(f"a forecaster is listed twice: {', '.join(player.spec for player in chosen)}")
    for one in against if several else ():
        for player in chosen:
            player.build(one.n_classes, one.rounds, one.hints is not None)
    remarks = [text for one in against for text in one.remarks]
    warn(remarks)
    with counting() as compiled:
        games = play_all(against, chosen, request.seed)
    if compiled.notice:
        notices().print(compiled.notice)
    every = [game for some in games for game in some]
    pictures: list[Path] = []
    if folder is not None:
        from simulations.plots.games import write_games, write_simplex_games

        if several:
            curve = shorter_games(request, chosen) if request.classes and not against[0].is_recorded else []
            pictures = write_simplex_games(every, curve, folder)
        else:
            pictures = write_games(every, folder)
    measured = [game.measured for game in every]
    broken = [
        f"BROKEN: {text} ({one.forecaster}{f', {one.classes} classes' if several else ''})"
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
        console.print(comparison(measured, title, [f"{line.classes} classes" for line in measured]))
    else:
        for one, some in zip(against, games, strict=True):
            console.print(comparison([game.measured for game in some], one.title))
    for line in [*broken, *map(str, pictures)]:
        console.print(line, soft_wrap=True)
    return not broken


def opponents_of(request: Request) -> list[Opponent]:
    """One opponent, or one for each number of classes; ValueError if the request does not fit together."""
    for k in request.classes:
        if not 2 <= k <= MOST_CLASSES:
            raise ValueError(f"--classes must be from 2 to {MOST_CLASSES}, got {k}")
        if request.classes.count(k) > 1:
            raise ValueError(f"--classes {k} is given twice")
    found = classes_of_table(request.adversary)
    if found is not None and request.classes not in ((), (found,), [], [found]):
        raise ValueError(f"{request.adversary} has {found} classes, --classes says otherwise: leave it out")
    return _opponents(request, request.classes or ([] if found is None else [found]), [request.rounds])


def _opponents(request: Request, classes: Sequence[int], lengths: Sequence[int | None]) -> list[Opponent]:
    spec = request.adversary or DEFAULTS[bool(classes)][0]
    return [opponent(spec, rounds, request.seed, k) for k in classes or (None,) for rounds in lengths]


def play_all(
    against: Sequence[Opponent], chosen: Sequence[Any], seed: int, budget: float = 1.0
) -> list[list[Any]]:
    """For every opponent the game of each player, after the measure of the recorded forecasts if any.

    The budget is that of the distances.
    """
    games = []
    with progress() as bar:
        task = bar.add_task("rounds", total=sum(one.rounds for one in against) * len(chosen))
        for one in against:
            some: list[Any] = []
            if one.hints is not None:
                some.append(measure_recorded(one.hints, one.outcomes(), HINTS, one.name, budget=budget))
            k = "" if one.n_classes is None else f", k = {one.n_classes}"
            for player in chosen:
                bar.update(task, description=f"rounds ({player.spec}{k})")
                some.append(
                    play_and_measure(
                        player,
                        one.adversary,
                        one.rounds,
                        seed=seed,
                        hints=one.hints,
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
    games = play_all(_opponents(request, request.classes, lengths), chosen, request.seed, CURVE_BUDGET)
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
