"""Which columns of a file have the forecasts, the outcomes and the labels, where nobody names them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onlinecal.tables.files import called, is_pipe, read_columns
from onlinecal.texts import cut

LABELS = ("label", "labels", "y", "y_true", "target", "class", "truth", "ground_truth", "outcome")
FORECASTS = (
    "forecast", "p", "prob", "prob1", "probability", "prediction", "hint", "risk",
    "forecast_prob", "forecast_probability", "predicted_probability", "predicted_prob", "prob_pred", "y_prob",
    "y_pred_proba", "pred_proba", "proba", "probability_yes", "prob_yes", "p_yes", "prob_win", "win_prob",
    "win_probability", "p_win",
)  # fmt: skip
RESULTS = ("outcome", "y", "label", "y_true", "target", "event", "result", "won", "resolution", "resolved")
OUTCOMES = (*RESULTS, "home_won", "prob1_outcome")
"""Names that such columns have in most files; tried in this order, whatever stands between their words."""


def usual(names: Sequence[str], known: Sequence[str]) -> str | None:
    """The first of the known names that a column has, as the file writes it."""
    by_name = {_bare(name): name for name in reversed(names)}
    return next((by_name[_bare(name)] for name in known if _bare(name) in by_name), None)


def _bare(name: str) -> str:
    """A name in small letters without what is none: probwin, Prob Win and prob_win are one."""
    return "".join(filter(str.isalnum, name.lower()))


def event_columns(
    file: Path,
    forecast: str | None,
    outcome: str | None,
    else_: str = "",
    names: Sequence[str] | None = None,
) -> tuple[str, str]:
    """The columns of forecasts and of outcomes, by their usual names where none is given.

    `names` are those of all columns of a file that was read. Else they are read here, but from a pipe, which
    is read once: its columns have to be given. ValueError says which option is missing, which columns there
    are, and what `else_` there is to do.
    """
    if forecast is None or outcome is None:
        known = read_columns(file) if names is None else names
        if names is not None or not is_pipe(file):
            forecast = forecast or usual(known, FORECASTS)
            outcome = outcome or usual(known, [one for one in OUTCOMES if one != forecast])
        if forecast is None or outcome is None:
            what, option = ("forecasts", "forecast") if forecast is None else ("outcomes", "outcome")
            missing = f"which column has the {what}? Name it with --{option}{else_}"
            raise ValueError(f"{called(file)}: {missing}. Its columns: {cut(', '.join(known))}")
    return forecast, outcome
