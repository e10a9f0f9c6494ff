"""All methods that apply to a file, fitted on some rows, compared on others, and one of them applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from sklearn.linear_model import LogisticRegression

from onlinecal.arrays import Bools, Floats
from onlinecal.catalogue import did_you_mean
from onlinecal.cli.output import progress, table
from onlinecal.cli.recalibrating.alone import (
    Map,
    as_they_came,
    fitted,
    gathered_warnings,
    isotonic,
    method_of,
)
from onlinecal.cli.recalibrating.asked import OF_CLASSES, Asked
from onlinecal.cli.recalibrating.groups import GroupColumns
from onlinecal.cli.recalibrating.reading import Chunks, Part, read_known, read_new, recognise
from onlinecal.cli.recalibrating.report import NONE, Picture, Report, sizes
from onlinecal.cli.recalibrating.scores import (
    Score,
    Scoreboard,
    advice,
    class_scores_of,
    confidences,
    event_scores_of,
    n_resamples,
    resamples,
    worst_group,
)
from onlinecal.cli.recalibrating.splits import Split, read_split
from onlinecal.recalibration.classical.linear import VectorScaling, chosen_dirichlet
from onlinecal.recalibration.classical.temperature import (
    PerClassIsotonic,
    TemperatureScaling,
    TopLabelIsotonic,
)
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.recalibration.groups.maker import GroupMaker
from onlinecal.recalibration.lp.recalibrator import LpRecalibrator
from onlinecal.tables import read_frame

if TYPE_CHECKING:
    from rich.table import Table

Fit = Callable[[Part], Map]
"""From a part with labels to a map of parts: their probabilities (n, k), or forecasts (n,)."""

MOST_DIRICHLET = 1_500_000
"""Rows to fit times classes squared, above which Dirichlet calibration would take minutes."""
MOST_DECISION = 2_000_000
"""Rows to fit times classes, above which decision recalibration would."""
N_LOSSES, ACTIONS = 100, 2
"""Gaussian losses of the decision gap, and their actions."""
WORST_GROUP = "worst group"
LEAST_UNITS = 10
"""Of fewer values of --together in the tested rows, intervals say little."""
FIRST, WIDE = 14, 17
"""Signs that the first column takes at most, and another with its interval."""


def class_methods(asked: Asked, n_fit: int, k: int) -> tuple[dict[str, Fit], dict[str, str]]:
    """The methods for probabilities of k classes, and which others are left out, with the reason.

    What is asked for is tried however long it takes.
    """
    methods: dict[str, Fit] = {
        NONE: lambda _: as_they_came,
        "temperature": lambda fit: fitted(TemperatureScaling(), fit),
        "vector": lambda fit: fitted(VectorScaling(), fit),
        "top-label": lambda fit: fitted(TopLabelIsotonic(), fit),
        "isotonic": lambda fit: fitted(PerClassIsotonic(), fit),
        "dirichlet": lambda fit: fitted(chosen_dirichlet(asked.seed), fit),
        **{name: of_method(name, asked) for name in OF_CLASSES},
    }
    left_out = {}
    if k == 2:
        left_out["top-label"] = "of two classes isotonic is all there is"
    if n_fit * k**2 > MOST_DIRICHLET and asked.choose != "dirichlet":
        left_out["dirichlet"] = (
            f"its {k * (k + 1):,} numbers take minutes to fit to {n_fit:,} rows; --choose dirichlet tries it"
        )
    if n_fit * k > MOST_DECISION and asked.choose != "decision":
        left_out["decision"] = f"its search takes minutes on {n_fit:,} rows; --choose decision tries it"
    return {name: one for name, one in methods.items() if name not in left_out}, left_out


def event_methods(asked: Asked) -> tuple[dict[str, Fit], dict[str, str]]:
    """The methods for a column of forecasts, and which others are left out, with the reason."""
    methods: dict[str, Fit] = {
        NONE: lambda _: as_they_came,
        "platt": platt_map,
        "beta": beta_map,
        "isotonic": lambda fit: fitted(isotonic(), fit),
    }
    left_out = {}
    if asked.group:
        methods["groups"] = of_method("groups", asked)
    else:
        left_out["groups"] = "--group names columns of groups"
    if asked.features is None:
        left_out["boost"] = "--features names columns of features"
    else:
        methods["boost"] = of_method("boost", asked)
    return methods, left_out


def of_method(name: str, asked: Asked) -> Fit:
    """One of the methods that can be asked for alone."""
    method = method_of(name)
    return lambda fit: fitted(method.model(asked, None), fit, method.view(asked, fit))


def by_odds(model: Any, fit: Part, features: Callable[[Floats], Floats]) -> Map:
    """The map that a model of two classes becomes by features of forecasts strictly between 0 and 1."""
    floor = least_forecast(fit.probabilities)
    curve = fitted(model, fit, lambda part: (features(part.probabilities.clip(floor, 1.0 - floor)),))
    return lambda part: curve(part)[:, 1]


def platt_map(fit: Part) -> Map:
    """A logistic curve in the log odds of the forecast (Platt, 1999)."""
    if fit.settled.min() == fit.settled.max():
        raise ValueError(f"all outcomes that are fitted are {fit.settled[0]}")
    # hardly a penalty: it keeps the slope finite where forecasts tell the outcomes without an error
    curve = LogisticRegression(C=1e4, solver="newton-cholesky")
    return by_odds(curve, fit, lambda p: np.log(p / (1.0 - p))[:, None])


def beta_map(fit: Part) -> Map:
    """A factor for log p, one for log(1 - p), and an offset (Kull et al., 2017): vector scaling of two."""
    return by_odds(VectorScaling(), fit, lambda p: np.column_stack([1.0 - p, p]))


def least_forecast(forecasts: Floats) -> float:
    """What a forecast of 0 is taken for where log odds are needed: 1/(n + 1), or the least of the others."""
    both = np.minimum(forecasts, 1.0 - forecasts)
    return min(1.0 / (len(both) + 1.0), float(both[both > 0.0].min(initial=1.0)))


def scoring(k: int, members: Bools | None) -> Callable[[Floats, Part], dict[str, Score]]:
    """What makes the scores, by name, of a part as a map maps it; `members` of all rows, shape (n, G)."""
    losses = gaussian_losses(ACTIONS, k or 2, N_LOSSES)
    usual = LpRecalibrator()

    def scores(mapped: Floats, part: Part) -> dict[str, Score]:
        if k:
            found = class_scores_of(mapped, part.settled, usual.p, usual.n_levels or 5, losses)
        else:
            found = event_scores_of(mapped, part.settled, losses)
        if members is not None:
            event, came = confidences(mapped, part.settled) if k else (mapped, part.settled)
            found[WORST_GROUP] = worst_group(event, came, members[part.rows])
        return found

    return scores


def group_members(file: Path, names: Sequence[str], n_rows: int) -> Bools | None:
    """Who is in which group that columns make, shape (n, G): everyone, each value, each pair of values."""
    if not names:
        return None
    frame = read_frame(file, names)
    if frame.height != n_rows:
        raise ValueError(f"{file}: --group {names[0]} has {frame.height:,} values for {n_rows:,} rows")
    return GroupMaker().fit(GroupColumns.of(frame, names)(frame), n_rows)


@dataclass(eq=False)
class Trial:
    """The methods of a comparison, fitted one after the other, the simplest first.

    Attributes
    ----------
    rows, split, methods, scores
        What is fitted and scored by turns.
    left_out
        Methods that were not tried, or could not be fitted, with the reason.
    board
        The scores on rows that were not fitted.
    mapped, said
        By method: what it made of the tested rows of each fold, and what it warned of.
    interrupted
        Whether methods are missing because somebody did not want to wait.
    """

    rows: Part
    split: Split
    methods: dict[str, Fit]
    left_out: dict[str, str]
    scores: Callable[[Floats, Part], dict[str, Score]]
    seed: int
    board: Scoreboard = field(default_factory=Scoreboard)
    mapped: dict[str, list[Floats]] = field(default_factory=dict)
    said: dict[str, list[str]] = field(default_factory=dict)
    interrupted: bool = False

    def __post_init__(self) -> None:
        self.tested = [self.rows.take("test", test) for _, test in self.split.folds]
        self.n_tested = sum(map(len, self.tested))

    @property
    def width(self) -> int:
        """Numbers a row."""
        return len(self.rows.classes) or 1

    def remarks(self) -> list[str]:
        """What is to be said of the intervals."""
        together = self.split.together
        if together is None:
            return []
        units = min(len(np.unique(together[part.rows])) for part in self.tested)
        text = f"the tested rows have {units} values of --together only: intervals say little"
        return [text] if units < LEAST_UNITS else []

    def run(self) -> None:
        """Fit and score everyone; whoever cannot be fitted is left out, and so are all after an interrupt."""
        with progress() as bar:
            task = bar.add_task("", total=len(self.methods) * len(self.tested))
            for name in self.methods:
                bar.update(task, description=name)
                try:
                    with gathered_warnings() as said:
                        self.mapped[name] = []
                        for at in range(len(self.tested)):
                            if not self.interrupted:
                                self._score(name, at)
                            bar.advance(task)
                except ValueError as error:
                    self._leave_out(name, str(error))
                except KeyboardInterrupt:
                    if not self.board.drawn or name == next(iter(self.methods)):
                        raise
                    self.interrupted = True
                if self.interrupted:
                    self._leave_out(name, "interrupted")
                self.said[name] = said

    def _score(self, name: str, at: int) -> None:
        """Fit a method on the rows of a fold, map and score the others."""
        part, together = self.tested[at], self.split.together
        mapped = self.methods[name](self.rows.take("fit", self.split.folds[at][0]))(part)
        self.mapped[name].append(mapped)
        scores = self.scores(mapped, part)
        found: dict[str, list[Floats]] = {measure: [] for measure in scores}
        own = None if together is None else together[part.rows]
        for weights in resamples(len(part), own, self.width, self.seed + at):
            for measure, score in scores.items():
                found[measure].append(score(weights))
        drawn = {measure: np.concatenate(values) for measure, values in found.items()}
        self.board.add(name, len(part) / self.n_tested, drawn)

    def _leave_out(self, name: str, reason: str) -> None:
        self.left_out[name] = reason
        self.board.drop(name)
        self.mapped.pop(name, None)

    def probabilities(self, name: str, new: Part | None) -> pl.DataFrame:
        """The tested rows as a method maps them, in the order of the file; or new ones, by all rows."""
        if new is None:
            both = zip(self.tested, self.mapped[name], strict=True)
            parts = [part.with_maps(part.probabilities, mapped) for part, mapped in both]
            return pl.concat(parts).sort("row")
        with gathered_warnings() as said:
            mapped = self.methods[name](self.rows)
        self.said[name] = said
        return new.with_maps(new.probabilities, mapped(new))


def recalibrate(asked: Asked) -> Report:
    """Fit all, compare, choose, and apply the one chosen."""
    from rich.text import Text

    of_classes, asked = recognise(asked)
    further = [*asked.group, *(asked.features or ())]
    rows, remarks = read_known(asked, of_classes, further)
    k, split = len(rows.classes), read_split(len(rows), asked, in_turn=True)
    n_fit = len(split.folds[0][0])
    methods, left_out = class_methods(asked, n_fit, k) if k else event_methods(asked)
    members = group_members(asked.file, asked.group, len(rows))
    new = None if asked.apply is None else read_new(asked, asked.apply, rows.classes, further)
    if asked.choose is not None and asked.choose not in methods:
        reason = left_out.get(asked.choose)
        known = f": {reason}" if reason else did_you_mean(asked.choose, methods, "They are")
        raise ValueError(f"--choose {asked.choose!r} is none of the methods tried{known}")
    trial = Trial(rows, split, methods, left_out, scoring(k, members), asked.seed)
    trial.run()
    board = trial.board
    purposes = {"probabilities": "log loss", "the top label": "top-label ECE", "decisions": "decision gap"}
    if not k:
        del purposes["the top label"]
    if members is not None:
        purposes["groups"] = WORST_GROUP
    recommended, why = advice(board, purposes, trial.n_tested)
    chosen = asked.choose or recommended
    if chosen not in board.methods:
        raise ValueError(f"--choose {chosen!r}: {trial.left_out.get(chosen, 'interrupted')}")
    probabilities = trial.probabilities(chosen, new)
    event = f"{asked.forecast} as forecasts of {asked.outcome}"
    counts = {"fit": n_fit, "test": trial.n_tested}
    record: dict[str, Any] = {
        "file": asked.file.name,
        "contents": f"probabilities of {k} classes" if k else event,
        "split": split.told,
        "rows": counts if len(split.folds) == 1 else {"fit and test": trial.n_tested},
        "methods": board.methods,
        "left_out": trial.left_out,
        "resamples": n_resamples(len(trial.tested[0]), trial.width),
        "scores": board.records(NONE),
        "best": [{"purpose": name, **board.verdict(measure).record()} for name, measure in purposes.items()],
        "recommended": recommended,
        "why": why,
        "chosen": chosen,
        "warnings": [*remarks, *trial.remarks(), *trial.said.get(chosen, [])],
        "interrupted": trial.interrupted,
    }
    frame = pl.DataFrame(record["scores"], schema_overrides={"best": pl.String}, infer_schema_length=None)
    return Report(
        record,
        frame,
        lambda width: [*board_tables(record, width), Text(sentence(record))],
        Chunks(probabilities.height, lambda some: probabilities[some]),
        lambda: pictures(record, frame),
        trial.interrupted,
    )


def pictures(record: dict[str, Any], frame: pl.DataFrame) -> list[Picture]:
    """The scoreboard, drawn."""
    from onlinecal.plots.recalibrations import draw_scoreboard

    below = "; ".join([record["contents"], record["split"]])
    said = {"title": record["file"], "below": below, "chosen": record["chosen"]}
    numbers = frame.with_columns(**{name: pl.lit(text) for name, text in said.items()})
    return [Picture(draw_scoreboard, numbers, "scoreboard")]


def board_tables(record: dict[str, Any], width: int) -> list[Table]:
    """The scoreboard, on a narrow terminal without intervals; who is best for what."""
    scored: dict[str, list[dict[str, Any]]] = {}
    for one in record["scores"]:
        scored.setdefault(one["measure"], []).append(one)
    wide = width >= FIRST + WIDE * len(scored)
    columns = [_cells(rows, wide) for rows in scored.values()]
    names = [f"[bold]{name}[/bold]" if name == record["chosen"] else name for name in record["methods"]]
    title = f"{record['file']}: {record['contents']}, {sizes(record)}"
    scores = table(title, ["", *scored], list(zip(names, *columns, strict=True)))
    scores.caption_justify = "left"
    scores.caption = (
        f"On rows that were not fitted: {record['split']}. * the one to take, = tied with it: chance "
        "explains what is between them and the best."
    )
    if wide:
        scores.caption += f" ± half an interval of 95 %, by {record['resamples']} resamples."
    for column in scores.columns[1:]:
        column.overflow = "fold"
    if record["left_out"]:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in record["left_out"].items())
        scores.caption += f"\nLeft out: {reasons}."
    best = [
        [one["purpose"], one["measure"], one["take"], ", ".join(one["tied"]) or "–"] for one in record["best"]
    ]
    return [scores, table(None, ["best for", "by", "take", "tied with it"], best, left=4)]


def _cells(rows: list[dict[str, Any]], wide: bool) -> list[str]:
    """What the table says of each method by a measure, with as many digits as the largest score needs."""
    largest = max(abs(row["value"]) for row in rows)
    digits = 3 + wide + (largest < 0.02) + (largest < 0.002)
    cells = []
    for row in rows:
        value, half = (f"{number:.{digits}f}" for number in (row["value"], row["high"] - row["value"]))
        text = f"{value} ±{half.removeprefix('0')}" if wide else value.removeprefix("0")
        cells.append({"take": "*", "tied": "=", None: ""}[row["best"]] + text)
    return cells


def sentence(record: dict[str, Any]) -> str:
    """What is recommended, and what was taken instead."""
    name, chosen = record["recommended"], record["chosen"]
    what = f"Leave them as given ({NONE})" if name == NONE else f"Take {name}"
    return f"{what}: {record['why']}." + ("" if chosen == name else f" Chosen: {chosen}.")
