"""Usual names of the columns of forecasts, outcomes and labels, for files whose columns nobody names.

These words are only looked for if nobody names a column. More may be added at the end; to take one away, or
to move one, changes which column of a file is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onlinecal.tables.files import called, is_pipe, read_columns
from onlinecal.texts import cut

LABEL_NAMES = ("label", "labels", "y", "y_true", "target", "class", "truth", "ground_truth", "outcome")
FORECAST_NAMES = (
    "forecast", "p", "prob", "prob1", "probability", "prediction", "hint", "risk",
    "forecast_prob", "forecast_probability", "predicted_probability", "predicted_prob", "prob_pred", "y_prob",
    "y_pred_proba", "pred_proba", "proba", "probability_yes", "prob_yes", "p_yes", "prob_win", "win_prob",
    "win_probability", "p_win",
)  # fmt: skip
OUTCOME_NAMES = (
    "outcome", "y", "label", "y_true", "target", "event", "result", "won", "resolution", "resolved",
    "home_won", "prob1_outcome",
)  # fmt: skip
"""Usual names of columns, tried in this order. What stands between the words of a name does not count."""


def usual(names: Sequence[str], known: Sequence[str]) -> str | None:
    """The first of the known names that a column has, as the file writes it."""
    by_name = {_bare(name): name for name in reversed(names)}
    return next((by_name[_bare(name)] for name in known if _bare(name) in by_name), None)


def _bare(name: str) -> str:
    """A name's letters and digits, in small letters: probwin, Prob Win and prob_win become the same."""
    return "".join(filter(str.isalnum, name.lower()))


def event_columns(
    file: Path,
    forecast: str | None,
    outcome: str | None,
    else_: str = "",
    names: Sequence[str] | None = None,
) -> tuple[str, str]:
    """The columns of forecasts and of outcomes: those that are given, else those with a usual name.

    `names` are all columns of a file that was read before. Without them the file's names are read here; but a
    pipe can be read only once, so that its columns have to be given. ValueError says which option is missing,
    which columns there are, and, in `else_`, what else there is to do.
    """
    if forecast is None or outcome is None:
        known = read_columns(file) if names is None else names
        if names is not None or not is_pipe(file):
            forecast = forecast or usual(known, FORECAST_NAMES)
            outcome = outcome or usual(known, [name for name in OUTCOME_NAMES if name != forecast])
        if forecast is None or outcome is None:
            what, option = ("forecasts", "forecast") if forecast is None else ("outcomes", "outcome")
            missing = f"which column has the {what}? Name it with --{option}{else_}"
            raise ValueError(f"{called(file)}: {missing}. Its columns: {cut(', '.join(known))}")
    return forecast, outcome
