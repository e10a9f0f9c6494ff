"""What a comparison of recalibrations leaves: one table for people, one record for machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onlinecal.cli.recalibrating.report import NONE, Picture
from onlinecal.cli.recalibrating.scoreboard import Advice, Scoreboard

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table


FIRST, WIDE = 14, 17
"""Signs that the first column takes at most, and another with its interval."""


@dataclass(frozen=True, eq=False)
class Choice:
    """Everything that a comparison of methods leaves.

    Attributes
    ----------
    file, contents, split
        What was compared on, what it was taken for, and how it was split, in words.
    n_rows
        Rows of each part.
    board
        The scores on rows that were not fitted.
    purposes
        By which measure a purpose is served.
    advice, chosen
        What is recommended, and what was taken.
    left_out
        Methods that were not tried, with the reason.
    n_resamples
        Of the intervals.
    probabilities
        Row numbers, probabilities before and after the chosen method, labels.
    warnings
        What looks wrong, and what the chosen method had to say.
    interrupted
        Whether methods are missing because somebody did not want to wait.
    """

    file: str
    contents: str
    split: str
    n_rows: dict[str, int]
    board: Scoreboard
    purposes: dict[str, str]
    advice: Advice
    chosen: str
    left_out: dict[str, str]
    n_resamples: int
    probabilities: pl.DataFrame
    warnings: list[str] = field(default_factory=list)
    interrupted: bool = False

    def mark(self, measure: str, method: str) -> str:
        """Whether a method is the one to take by a measure (*), tied with it (=), or neither."""
        verdict = self.board.verdict(measure)
        return "*" if method == verdict.take else "=" if method in verdict.tied else ""

    def scores(self) -> list[dict[str, Any]]:
        """A record for each method and measure; ends of intervals of 95 %."""
        found = []
        for method in self.board.methods:
            for measure in self.board.measures:
                value, half = self.board.value(measure, method)
                more, more_half = self.board.difference(measure, method, NONE)
                found.append(
                    {
                        "method": method,
                        "measure": measure,
                        "value": value,
                        "low": max(value - half, 0.0),
                        "high": value + half,
                        "difference": more,
                        "difference_low": more - more_half,
                        "difference_high": more + more_half,
                        "best": {"*": "take", "=": "tied", "": None}[self.mark(measure, method)],
                    }
                )
        return found

    def best(self) -> list[dict[str, Any]]:
        """A record for each purpose: the measure, the method to take, and those tied with it."""
        verdicts = {purpose: self.board.verdict(measure) for purpose, measure in self.purposes.items()}
        return [
            {
                "purpose": purpose,
                "measure": verdict.measure,
                "take": verdict.take,
                "tied": [name for name in verdict.tied if name != verdict.take],
            }
            for purpose, verdict in verdicts.items()
        ]

    def record(self) -> dict[str, Any]:
        """The comparison as plain values."""
        return {
            "file": self.file,
            "contents": self.contents,
            "split": self.split,
            "rows": self.n_rows,
            "methods": self.board.methods,
            "left_out": self.left_out,
            "resamples": self.n_resamples,
            "scores": self.scores(),
            "best": self.best(),
            "recommended": self.advice.method,
            "why": self.advice.why,
            "chosen": self.chosen,
            "warnings": self.warnings,
            "interrupted": self.interrupted,
        }

    def frame(self) -> pl.DataFrame:
        """The scores as a table: method, measure, value and the ends of its interval, and so on."""
        import polars as pl

        return pl.DataFrame(self.scores(), schema_overrides={"best": pl.String}, infer_schema_length=None)

    def pictures(self) -> list[Picture]:
        """The scoreboard, drawn."""
        from onlinecal.plots.recalibration import scoreboard

        table = scoreboard.prepare(
            self.frame(), self.file, self.chosen, "; ".join([self.contents, self.split])
        )
        return [Picture(scoreboard, table, "scoreboard")]


def choice_tables(choice: Choice, width: int) -> list[Table]:
    """The scoreboard, on a narrow terminal without intervals; who is best for what."""
    from onlinecal.cli.output import table

    sizes = ", ".join(f"{count:,} rows to {part}" for part, count in choice.n_rows.items())
    board = choice.board
    wide = width >= FIRST + WIDE * len(board.measures)
    lines = [
        [
            f"[bold]{method}[/bold]" if method == choice.chosen else method,
            *(_cell(choice, measure, method, wide) for measure in board.measures),
        ]
        for method in board.methods
    ]
    scores = table(f"{choice.file}: {choice.contents}, {sizes}", ["", *board.measures], lines)
    scores.caption_justify = "left"
    scores.caption = (
        f"On rows that were not fitted: {choice.split}. * the one to take, = tied with it: chance explains "
        "what is between them and the best."
    )
    if wide:
        scores.caption += f" ± half an interval of 95 %, by {choice.n_resamples} resamples."
    for column in scores.columns[1:]:
        column.overflow = "fold"
    if choice.left_out:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in choice.left_out.items())
        scores.caption += f"\nLeft out: {reasons}."
    best = [
        [one["purpose"], one["measure"], one["take"], ", ".join(one["tied"]) or "–"] for one in choice.best()
    ]
    return [scores, table(None, ["best for", "by", "take", "tied with it"], best, left=4)]


def sentence(choice: Choice) -> str:
    """What is recommended, and what was taken instead."""
    name = choice.advice.method
    what = f"Leave them as they came ({NONE})" if name == NONE else f"Take {name}"
    taken = "" if choice.chosen == name else f" Chosen: {choice.chosen}."
    return f"{what}: {choice.advice.why}.{taken}"


def _cell(choice: Choice, measure: str, method: str, wide: bool) -> str:
    value, half = choice.board.value(measure, method)
    largest = max(abs(choice.board.value(measure, name)[0]) for name in choice.board.methods)
    digits = 4 + (largest < 0.02) + (largest < 0.002)
    if wide:
        text = f"{value:.{digits}f} ±{f'{half:.{digits}f}'.removeprefix('0')}"
    else:
        text = f"{value:.{digits - 1}f}".removeprefix("0")
    return choice.mark(measure, method) + text
