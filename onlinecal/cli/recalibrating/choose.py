"""All methods that apply to a file, fitted on some rows, compared on others, and one of them applied."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from onlinecal.arrays import Floats
from onlinecal.catalogue import did_you_mean
from onlinecal.cli.output import progress
from onlinecal.cli.recalibrating.comparison import Comparison, read_comparison
from onlinecal.cli.recalibrating.jobs import gathered_warnings
from onlinecal.cli.recalibrating.options import Rows, Settings
from onlinecal.cli.recalibrating.report import NONE, Picture
from onlinecal.cli.recalibrating.scores import Advice, Scoreboard, advice, n_resamples, resamples

if TYPE_CHECKING:
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
        return pl.DataFrame(self.scores(), schema_overrides={"best": pl.String}, infer_schema_length=None)

    def shown(self, width: int) -> list[Any]:
        """What people see on so many columns: tables, and the advice."""
        return [*choice_tables(self, width), sentence(self)]

    def pictures(self) -> list[Picture]:
        """The scoreboard, drawn."""
        from onlinecal.plots.recalibration.rounds import draw_scoreboard, prepare_scoreboard

        table = prepare_scoreboard(
            self.frame(), self.file, self.chosen, "; ".join([self.contents, self.split])
        )
        return [Picture(draw_scoreboard, table, "scoreboard")]


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


LEAST_UNITS = 10
"""Of fewer values of --together in the tested rows, intervals say little."""


def recalibrate(file: Path, rows: Rows, settings: Settings) -> Choice:
    """Fit all, compare, choose, and apply the one chosen."""
    comparison = read_comparison(file, rows, settings)
    if settings.choose is not None and settings.choose not in comparison.methods:
        reason = comparison.left_out.get(settings.choose)
        known = f": {reason}" if reason else did_you_mean(settings.choose, comparison.methods, "They are")
        raise ValueError(f"--choose {settings.choose!r} is none of the methods tried{known}")
    # one core: BLAS sums in another order on several
    with threadpool_limits(1, "blas"):
        trial = Trial(comparison, rows.seed)
        trial.run()
        found = advice(trial.board, comparison.purposes, trial.n_tested)
        chosen = settings.choose or found.method
        if chosen not in trial.board.methods:
            raise ValueError(f"--choose {chosen!r}: {trial.left_out.get(chosen, 'interrupted')}")
        probabilities = trial.rows_of(chosen)
    return Choice(
        file=comparison.file,
        contents=comparison.contents,
        split=comparison.split.told,
        n_rows=trial.n_rows,
        board=trial.board,
        purposes=comparison.purposes,
        advice=found,
        chosen=chosen,
        left_out=trial.left_out,
        n_resamples=n_resamples(len(comparison.split.folds[0][1]), comparison.width),
        probabilities=probabilities,
        warnings=[*comparison.remarks, *trial.remarks, *trial.warnings.get(chosen, [])],
        interrupted=trial.interrupted,
    )


class Trial:
    """The methods of a comparison, fitted one after the other, the simplest first."""

    def __init__(self, comparison: Comparison, seed: int) -> None:
        self.comparison, self.seed = comparison, seed
        self.board = Scoreboard()
        self.left_out = dict(comparison.left_out)
        self.warnings: dict[str, list[str]] = {}
        self.interrupted = False
        folds = comparison.split.folds
        self.tested = [comparison.take("test", test) for _, test in folds]
        self.mapped: dict[str, list[Floats]] = {}
        self.n_tested = sum(len(test) for _, test in folds)
        self.n_rows = {"fit": len(folds[0][0]), "test": self.n_tested}
        if len(folds) > 1:
            self.n_rows = {"fit and test": self.n_tested}

    @property
    def remarks(self) -> list[str]:
        """What is to be said of the intervals."""
        together = self.comparison.split.together
        if together is None:
            return []
        units = min(len(np.unique(together[test])) for _, test in self.comparison.split.folds)
        if units >= LEAST_UNITS:
            return []
        return [f"the tested rows have {units} values of --together only: intervals say little"]

    def run(self) -> None:
        """Fit and score everyone; whoever cannot be fitted is left out, and so are all after an interrupt."""
        folds = self.comparison.split.folds
        with progress() as bar:
            task = bar.add_task("", total=len(self.comparison.methods) * len(folds))
            for name in self.comparison.methods:
                bar.update(task, description=name)
                try:
                    with gathered_warnings() as said:
                        self.mapped[name] = []
                        for at in range(len(folds)):
                            self.one(name, at)
                            bar.advance(task)
                except ValueError as error:
                    self.leave_out(name, str(error))
                except KeyboardInterrupt:
                    if not self.board.drawn or name == next(iter(self.comparison.methods)):
                        raise
                    self.interrupted = True
                    for late in list(self.comparison.methods)[list(self.comparison.methods).index(name) :]:
                        self.leave_out(late, "interrupted")
                    return
                self.warnings[name] = said

    def one(self, name: str, at: int) -> None:
        """Fit a method on the rows of a fold, map and score the others."""
        fit, test = self.comparison.split.folds[at]
        part = self.tested[at]
        mapped = self.comparison.methods[name](self.comparison.take("fit", fit))(part)
        self.mapped[name].append(mapped)
        scores = self.comparison.scores(mapped, part, test)
        together = self.comparison.split.together
        found: dict[str, list[Floats]] = {measure: [] for measure in scores}
        own = None if together is None else together[test]
        for weights in resamples(len(test), own, self.comparison.width, self.seed + at):
            for measure, score in scores.items():
                found[measure].append(score(weights))
        drawn = {measure: np.concatenate(values) for measure, values in found.items()}
        self.board.add(name, len(test) / self.n_tested, drawn)

    def leave_out(self, name: str, reason: str) -> None:
        """Forget a method."""
        self.left_out[name] = reason
        self.board.drop(name)
        self.mapped.pop(name, None)

    def rows_of(self, name: str) -> pl.DataFrame:
        """The tested rows as a method maps them, in the order of the file; or the new file's, by all rows."""
        comparison = self.comparison
        if comparison.new is not None:
            n = sum(len(one) for one in comparison.split.folds[0])
            with gathered_warnings() as said:
                fitted = comparison.methods[name](comparison.take("fit", np.arange(n)))
            self.warnings[name] = said
            return comparison.written(comparison.new, fitted(comparison.new))
        parts = [
            comparison.written(part, mapped)
            for part, mapped in zip(self.tested, self.mapped[name], strict=True)
        ]
        return pl.concat(parts).sort("row")
