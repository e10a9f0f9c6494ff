"""The verb `combine`: columns of several models' probabilities in, one calibrated column out.

The verb has no state of its own: a file is read, combined and written in one go. The file of --state is read
once and written last, so that a job which was killed before that can simply be run again. Names in its JSON,
of its files and of its columns are what users read.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from onlinecal.cli.nightly import State, StateId, check_state, gone_on, read_night
from onlinecal.cli.output import answer, table
from onlinecal.cli.verbs import (
    AsJson,
    DropInvalid,
    ForecastFile,
    Forecasts,
    ForecastScale,
    Out,
    OutcomeColumn,
    Positive,
    SettledAt,
    Sort,
    Together,
    check_different,
    check_folder,
    gathered_warnings,
    warn,
)
from onlinecal.tables.names import event_columns
from onlinecal.tables.rounds import Reading, known_from, read_rounds
from onlinecal.tables.writing import write_table
from onlinecal.texts import number

if TYPE_CHECKING:
    from onlinecal.arrays import Ints
    from onlinecal.tables.rounds import Rounds
    from onlinecal.wrappers import CombinedForecasts

COMBINED = "combined"
"""The name of the column that the verb makes."""
WRITTEN_TABLES = "combined.parquet", "report.csv", "weights.csv"
"""The files that are written and could also be the input; the last one is beside the picture of weights."""


def combine(
    file: ForecastFile,
    forecast: Forecasts = None,
    outcome: OutcomeColumn = None,
    sort: Sort = None,
    settled_at: SettledAt = None,
    together: Together = None,
    positive: Positive = None,
    scale: ForecastScale = "probability",
    drop_invalid: DropInvalid = False,
    state: State = None,
    id_: StateId = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Combine several models' forecasts of one event to one calibrated column, never far behind the best.

    Each row is forecast by what was known before it. Forecasts may be missing in some rows. Each model has
    three Brier scores, averages over the rows in which it has a forecast: of the model, of the model
    recalibrated alone, and of the combined column.

    Name two columns of forecasts or more. A column of outcomes with a usual name (outcome, won, ...) is
    found. docs/combine.md says how to read the rest. One model's forecasts are for [bold]onlinecal
    column[/bold]. With --out the file's rows, the new column combined and the weights go to combined.parquet.

    With --state the column goes on where an earlier call ended, as in a job that runs every night. FILE then
    has new rows, outcomes of earlier ones, or both; --id says which row is which. Outcomes may be missing
    until they come. Earlier forecasts stay as they were: docs/every-night.md.

    Examples:

    [bold]onlinecal combine games.csv --forecast elo --forecast market --outcome won --out results[/bold]

    [bold]onlinecal combine loans.csv --forecast a --forecast b --outcome y --sort day --settled-at end[/bold]

    [bold]onlinecal combine today.csv --forecast a --forecast b --outcome y --state ab.state --id loan[/bold]
    """
    import numpy as np

    from onlinecal.remarks import outcome_remarks
    from onlinecal.wrappers import CombinedForecasts, combine_forecasts

    check_state(state, id_, together)
    if forecast is None or len(forecast) < 2:
        alone = "" if forecast is None else f", got {forecast[0]!r} alone"
        raise ValueError(f"--forecast must be given at least twice, once for each model{alone}")
    check_different(forecast, "--forecast")
    outcome = event_columns(file, forecast[0], outcome)[1]
    check_folder(out, WRITTEN_TABLES, file)
    reading = Reading(positive, scale, drop_invalid)
    more = [name for name in (settled_at, together, id_) if name is not None]
    pending = state is not None
    rounds = read_rounds(
        file, outcome, forecast, sort=sort, more=more, reading=reading, gaps=True, pending=pending
    )
    with gathered_warnings() as warned:
        if state is None:
            known = known_from(rounds, settled_at, together, sort)
            # `known` is the first row that knows the outcome, `settled_at` the row after which it is known
            settled = None if known is None else known - 1
            result = combine_forecasts(rounds.forecasts, rounds.outcomes, settled_at=settled)
            places = np.arange(len(rounds.outcomes))
        else:
            night = read_night(rounds, id_, sort, settled_at)
            result = gone_on(state, CombinedForecasts, combine_forecasts, night, rounds.forecasts)
            places = night.rows_of(result)
    there = ~np.isnan(rounds.outcomes)
    if there.any():
        warned += outcome_remarks(rounds.outcomes[there], outcome=outcome)
    remarks, report = [*rounds.remarks, *warned], result.report()
    written = [] if out is None else list(map(str, write(rounds, result, places, out)))
    if state is not None:
        result.save(state)
        written.append(str(state))
    title, heading, rows, notes = report._shown()
    warn(text for text in remarks if text not in notes)
    scores = table(f"{rounds.name}, {number(report.n_rounds)} rows. {title}", heading, rows)
    record = {**asdict(report), "best": report.best, "warnings": remarks, "files": written}
    answer(as_json, {"file": str(file), **record}, [scores, *notes, *written])


def write(rounds: Rounds, result: CombinedForecasts, rows: Ints, folder: Path) -> list[Path]:
    """Write the file's rows with the new column and the weights, the report, and the picture of the weights.

    `rows` are the numbers of the file's rows in the result.
    """
    import numpy as np
    import polars as pl

    from onlinecal.plots.over_rounds import model_weights_table
    from onlinecal.plots.style import drawn, write_figure

    shares = model_weights_table(result.weights, result.names)
    weights = {f"weight_{name}": result.weights[rows, i] for i, name in enumerate(result.names)}
    columns = rounds.frame.with_columns(**{COMBINED: np.asarray(result.probabilities)[rows], **weights})
    scores = [{"model": name, **asdict(score)} for name, score in result.report().models.items()]
    return [
        write_table(columns, folder / WRITTEN_TABLES[0]),
        write_table(pl.DataFrame(scores), folder / WRITTEN_TABLES[1]),
        write_figure(drawn(result.plot, (6.4, 3.4)), shares, (folder / WRITTEN_TABLES[2]).with_suffix("")),
    ]
