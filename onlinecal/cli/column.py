"""The verb `column`: a column of forecasts in, a recalibrated one out, row by row as on a live stream.

The verb has no state of its own. The file of --state is read once and written last, so that a job which was
killed before that can simply be run again. Users rely on the options, on RECALIBRATED, on the name of the
file that is written and on the keys of the JSON. The docstring of `column` is the text of its --help.
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
    Forecast,
    ForecastFile,
    ForecastScale,
    Out,
    OutcomeColumn,
    Positive,
    SettledAt,
    Sort,
    Together,
    check_folder,
    gathered_warnings,
    warn,
)
from onlinecal.tables.names import event_columns
from onlinecal.tables.rounds import Reading, known_from, read_rounds
from onlinecal.tables.writing import write_table
from onlinecal.texts import number

if TYPE_CHECKING:
    from onlinecal.wrappers import RecalibratedStream

RECALIBRATED = "recalibrated"
"""The name of the column that the verb makes."""
WRITTEN_TABLES = ("column.parquet",)
"""The file that is written and could also be the input."""


def column(
    file: ForecastFile,
    forecast: Forecast = None,
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
    """Recalibrate a column of forecasts row by row, each by what was known before it, with a proof.

    Columns that are not named are found by usual names (forecast, p, ...; outcome, won, ...). Scores are
    averages over rows. With --out the file's rows and the new column, recalibrated, go to column.parquet.

    With --state the column goes on where an earlier call ended, as in a job that runs every night. FILE then
    has new rows, outcomes of earlier ones, or both; --id says which row is which. Outcomes may be missing
    until they come. Earlier forecasts stay as they were: docs/every-night.md.

    Several models of one event are for [bold]onlinecal combine[/bold]; to compare with other recalibrations,
    [bold]onlinecal evaluate[/bold].

    Examples:

    [bold]onlinecal column nba --together date --out results/nba[/bold]

    [bold]onlinecal column today.csv --forecast p --outcome won --state p.state --id game --out new[/bold]
    """
    import numpy as np

    from onlinecal.remarks import outcome_remarks
    from onlinecal.wrappers import RecalibratedStream, recalibrate_stream

    check_state(state, id_, together)
    check_folder(out, WRITTEN_TABLES, file)
    forecast, outcome = event_columns(file, forecast, outcome)
    more = [name for name in (settled_at, together, id_) if name is not None]
    reading = Reading(positive, scale, drop_invalid)
    rounds = read_rounds(
        file, outcome, [forecast], sort=sort, more=more, reading=reading, pending=state is not None
    )
    said = rounds.forecasts[forecast]
    with gathered_warnings() as warned:
        if state is None:
            known = known_from(rounds, settled_at, together, sort)
            # `known` is the first row that knows the outcome, `settled_at` the row after which it is known
            settled = None if known is None else known - 1
            result = recalibrate_stream(said, rounds.outcomes, settled_at=settled)
            given = result.probabilities
        else:
            night = read_night(rounds, id_, sort, settled_at)
            result = gone_on(state, RecalibratedStream, recalibrate_stream, night, said)
            given = result.probabilities[night.rows_of(result)]
    there = ~np.isnan(rounds.outcomes)
    if there.any():
        warned += outcome_remarks(rounds.outcomes[there], said[there], outcome, forecast)
    written = []
    if out is not None:
        columns = rounds.frame.with_columns(**{RECALIBRATED: given})
        written.append(str(write_table(columns, out / WRITTEN_TABLES[0])))
    if state is not None:
        result.save(state)
        written.append(str(state))
    report(file, rounds.name, result, [*rounds.remarks, *warned], written, as_json)


def report(
    file: Path, name: str, result: RecalibratedStream, remarks: list[str], written: list[str], as_json: bool
) -> None:
    """Answer with the scores, what is proven, and which files were written."""
    scores = result.report()
    title, heading, rows, notes = scores._shown()
    warn(text for text in remarks if text not in notes)
    cells = [[cell if isinstance(cell, str) else f"{cell:.4f}" for cell in row] for row in rows]
    shown = table(f"{name}, {number(len(result.certificate))} rows. {title}", heading, cells)
    record = {**asdict(scores), "warnings": remarks, "files": written}
    answer(as_json, {"file": str(file), **record}, [shown, *notes, *written])
