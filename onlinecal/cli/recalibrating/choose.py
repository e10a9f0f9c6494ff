"""All methods that apply to a file, fitted on some rows, compared on others, and one of them applied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from onlinecal.catalogue import did_you_mean
from onlinecal.cli.output import progress
from onlinecal.cli.recalibrating.candidates import Map
from onlinecal.cli.recalibrating.choice import Choice
from onlinecal.cli.recalibrating.comparison import Comparison, read_comparison
from onlinecal.cli.recalibrating.options import ChooseSettings, Rows
from onlinecal.cli.recalibrating.parts import gathered_warnings
from onlinecal.cli.recalibrating.scoreboard import Scoreboard, advice
from onlinecal.cli.recalibrating.weighted_scores import n_resamples, resamples

Floats = NDArray[np.float64]

LEAST_UNITS = 10
"""Of fewer values of --split-by in the tested rows, intervals say little."""


def recalibrate(file: Path, rows: Rows, settings: ChooseSettings) -> Choice:
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
        return [f"the tested rows have {units} values of --split-by only: intervals say little"]

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
                fitted: Map = comparison.methods[name](comparison.take("fit", np.arange(n)))
            self.warnings[name] = said
            return comparison.written(comparison.new, fitted(comparison.new))
        parts: list[Any] = [
            comparison.written(part, mapped)
            for part, mapped in zip(self.tested, self.mapped[name], strict=True)
        ]
        return pl.concat(parts).sort("row")
