"""The verb `worst`: the worst case of a forecaster by playing every outcome sequence.

The verb has no state. The names in its JSON and files are what users read. All games are played before
anything is shown or written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Exit, Option

from onlinecal.cli.output import answer, notices, table, watched
from onlinecal.cli.verbs import EXIT_CHECK_FAILED, EXIT_INTERRUPTED, AsJson, Out, check_folder
from onlinecal.simulations.cli import Jobs
from onlinecal.tables.writing import write_whole
from onlinecal.texts import number

if TYPE_CHECKING:
    from rich.table import Table

    from onlinecal.simulations.worst.enumeration import Enumeration, WorstMeasure


MOST_NODES = 200
"""Linear programs solved for each T of --minimax; more of them bring its two bounds nearer together."""
SILENT_ROUNDS = 18
"""Up to this many rounds no lines about progress are printed, since it does not take long."""


def worst(
    forecaster: Annotated[
        str,
        Option(help="A name that `onlinecal forecasters` lists, perhaps with settings: balanced:slack=1."),
    ] = "balanced",
    rounds: Annotated[
        int,
        Option(
            min=1,
            help="T, the rounds of the longest games, at most 24; each further round doubles the time. All "
            "shorter games are in the table, too.",
        ),
    ] = 16,
    measure: Annotated[
        Literal["distance", "ece"], Option(help="The exact distance to calibration, or the ECE.")
    ] = "distance",
    draws: Annotated[
        int,
        Option(
            min=1, help="How often a randomised forecaster plays each sequence; its error is the average."
        ),
    ] = 8,
    seed: Annotated[
        int, Option(min=0, help="Seed of a randomised forecaster's first game; each further has the next.")
    ] = 0,
    jobs: Jobs = None,
    out: Out = None,
    minimax: Annotated[
        bool,
        Option(
            "--minimax",
            help="Show beside the forecaster's worst case the smallest one that any deterministic forecaster "
            "can have, and no sequences; --rounds may be 8 at most.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the worst of all 2^T outcome sequences: the worst case itself, against whatever adversary.

    Errors are sums over rounds. Forecasters that are built for a number of rounds are built anew for each
    length in the table. A randomised forecaster's error is the average over --draws games, and a sequence
    does not react to what is drawn. Exit code 1 if a proven bound was broken.

    Examples:

    [bold]onlinecal worst --forecaster adaptive --rounds 16 --out results/worst[/bold]

    [bold]onlinecal worst --forecaster balanced --rounds 5 --minimax[/bold]

    [bold]onlinecal worst --forecaster foster --rounds 12 --draws 32 --measure ece[/bold]
    """
    from joblib import cpu_count

    from onlinecal.simulations.games import players

    players.create(forecaster)
    if minimax:
        if out is not None or measure != "distance":
            raise ValueError(
                "--minimax is about the distance and writes nothing: leave out --out and --measure"
            )
        _least(forecaster, rounds, draws, seed, as_json)
        return
    check_folder(out)
    enumeration = _played(forecaster, rounds, measure, draws, seed, jobs or cpu_count())
    files = [] if out is None else [str(path) for path in _write(enumeration, out)]
    broken, longest = enumeration.broken_bounds(), enumeration.longest
    lines = [
        f"worst of {2**longest.rounds:,} games of {longest.rounds} rounds: {longest.sequence}, "
        f"{enumeration.measure} {longest.error:.4f} = {longest.over_root:.4f} √T"
    ]
    if enumeration.draws > 1:
        lines.append(f"Every error is a mean over {enumeration.draws} sequences of draws.")
    record = {**enumeration.record(), "broken": broken, "files": files}
    answer(as_json, record, [_table(enumeration), *lines, *broken, *files])
    if broken:
        raise Exit(EXIT_CHECK_FAILED)


def _played(
    forecaster: str, rounds: int, measure: WorstMeasure, draws: int, seed: int, jobs: int
) -> Enumeration:
    """Play all games, with a progress bar; an interrupt ends the command."""
    from onlinecal.simulations.worst.enumeration import enumerate_games

    line = "parts of the tree done: {} of {}" if rounds > SILENT_ROUNDS else ""
    try:
        with watched("parts of the tree", line=line) as tell:
            return enumerate_games(
                forecaster, rounds, measure=measure, draws=draws, seed=seed, jobs=jobs, progress=tell
            )
    except KeyboardInterrupt:
        notices().print("interrupted: the worst game is only known when all have been played")
        raise Exit(EXIT_INTERRUPTED) from None


def _least(forecaster: str, rounds: int, draws: int, seed: int, as_json: bool) -> None:
    """Show the bounds of the least worst case for every length, and how far above them the forecaster is."""
    from onlinecal.simulations.worst.enumeration import enumerate_games
    from onlinecal.simulations.worst.minimax import MOST_MINIMAX_ROUNDS, least_worst

    if rounds > MOST_MINIMAX_ROUNDS:
        raise ValueError(
            f"--rounds must be at most {MOST_MINIMAX_ROUNDS} with --minimax, and is {rounds}: give --rounds "
            f"{MOST_MINIMAX_ROUNDS}, or leave --minimax out"
        )
    least = [least_worst(t, MOST_NODES) for t in range(1, rounds + 1)]
    enumeration = enumerate_games(forecaster, rounds, draws=draws, seed=seed)
    pairs = list(zip(least, enumeration.games, strict=True))
    lines = [
        {"rounds": bounds.rounds, "lower": bounds.lower, "upper": str(bounds.upper), "worst": game.error}
        for bounds, game in pairs
    ]
    columns = ["T", "none is below", "one has", "exactly", forecaster, "times the least"]
    rows = [
        [str(bounds.rounds), f"{bounds.lower:.4f}", f"{float(bounds.upper):.4f}", str(bounds.upper),
         f"{game.error:.4f}", f"{game.error / float(bounds.upper):.2f}"]
        for bounds, game in pairs
    ]  # fmt: skip
    shown = table("the least worst distance of any deterministic forecaster", columns, rows)
    answer(as_json, {"forecaster": forecaster, "games": lines}, [shown])


def _table(enumeration: Enumeration) -> Table:
    """The table of the worst games, with a line for each number of rounds."""
    columns = ["T", "worst", "worst/√T", "bound", "mean of all", "worst sequence"]
    lines = [
        [str(game.rounds), f"{game.error:.4f}", f"{game.over_root:.4f}", number(game.bound),
         f"{game.mean:.4f}", game.sequence]
        for game in enumeration.games
    ]  # fmt: skip
    what = "distance to calibration" if enumeration.measure == "distance" else "ECE"
    return table(f"{enumeration.forecaster}: the worst {what} of all sequences", columns, lines)


def _write(enumeration: Enumeration, folder: Path) -> list[Path]:
    """Write worst.json, and worst.png, .svg and .csv; returns the files to look at."""
    import msgspec

    from onlinecal.simulations.plots.games import WORST_GAME

    picture = WORST_GAME.write(folder / "worst", enumeration)
    record = folder / "worst.json"
    write_whole(record, msgspec.json.format(msgspec.json.encode(enumeration.record()), indent=2) + b"\n")
    return [record, picture.with_suffix(".csv"), picture]
