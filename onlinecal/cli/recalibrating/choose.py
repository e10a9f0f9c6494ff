"""All methods that apply to a file, fitted on some rows, compared on others, and one of them applied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

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
from onlinecal.cli.recalibrating.reading import File, Part, known_rows, new_rows, recognise
from onlinecal.cli.recalibrating.report import NONE, Picture, Report, sizes
from onlinecal.cli.recalibrating.scores import (
    RESAMPLES,
    Score,
    Scoreboard,
    advice,
    class_scores_of,
    confidences,
    event_scores_of,
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
from onlinecal.recalibration.groups.patches import Start
from onlinecal.recalibration.groups.start import StartMap, nearest_ends
from onlinecal.recalibration.lp.recalibrator import LpRecalibrator

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
        "platt": curve_of("platt"),
        "beta": curve_of("beta"),
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


def curve_of(kind: Start) -> Fit:
    """A curve in the log odds of forecasts, strictly between 0 and 1, as groups start from it, too."""

    def fit_curve(fit: Part) -> Map:
        edge, _ = nearest_ends(fit.probabilities, len(fit))
        within = fit.probabilities.clip(edge, 1.0 - edge)
        curve = StartMap(kind).fit(within, fit.settled, np.ones(len(fit)))
        return lambda part: curve(part.probabilities.clip(edge, 1.0 - edge), edge)

    return fit_curve


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

    def run(self) -> None:
        """Fit and score everyone; whoever cannot be fitted is left out, and so are all after an interrupt."""
        with progress() as bar:
            task = bar.add_task("", total=len(self.methods) * len(self.tested))
            for name, method in self.methods.items():
                bar.update(task, description=name)
                try:
                    if not self.interrupted:
                        with gathered_warnings() as self.said[name]:
                            self._try(name, method)
                except ValueError as error:
                    self.left_out[name] = str(error)
                except KeyboardInterrupt:
                    if not self.mapped:
                        raise
                    self.interrupted = True
                if self.interrupted:
                    self.left_out[name] = "interrupted"
                bar.advance(task, len(self.tested))

    def _try(self, name: str, method: Fit) -> None:
        """Fit a method on the rows of each fold, map and score the others."""
        together, width = self.split.together, len(self.rows.classes) or 1
        maps, found = [], dict[str, Floats]()
        for at, (part, (fit, _)) in enumerate(zip(self.tested, self.split.folds, strict=True)):
            maps.append(method(self.rows.take("fit", fit))(part))
            scores = self.scores(maps[-1], part)
            drawn: dict[str, list[Floats]] = {measure: [] for measure in scores}
            own = None if together is None else together[part.rows]
            for weights in resamples(len(part), own, width, self.seed + at):
                for measure, score in scores.items():
                    drawn[measure].append(score(weights))
            for measure, values in drawn.items():
                share = len(part) / self.n_tested
                found[measure] = found.get(measure, 0.0) + share * np.concatenate(values)
        self.mapped[name] = maps
        for measure, total in found.items():
            self.board.drawn.setdefault(measure, {})[name] = total

    def probabilities(self, name: str, new: Part | None) -> pl.DataFrame:
        """The tested rows as a method maps them, in the order of the file; or new ones, by all rows."""
        if new is None:
            both = zip(self.tested, self.mapped[name], strict=True)
            return pl.concat([part.with_maps(part.probabilities, after) for part, after in both]).sort("row")
        with gathered_warnings() as self.said[name]:
            mapped = self.methods[name](self.rows)
        return new.with_maps(new.probabilities, mapped(new))


def recalibrate(asked: Asked) -> Report:
    """Fit all, compare, choose, and apply the one chosen."""
    from rich.text import Text

    file = File.read(asked.file, asked.probabilities)
    of_classes, asked = recognise(asked, file)
    rows, remarks = known_rows(asked, file, of_classes)
    k, split = len(rows.classes), read_split(file.frame, asked, in_turn=True)
    n_fit = len(split.folds[0][0])
    methods, left_out = class_methods(asked, n_fit, k) if k else event_methods(asked)
    members = None
    if asked.group:
        members = GroupMaker().fit(GroupColumns.of(rows.frame, asked.group)(rows.frame), len(rows))
    new = None if asked.apply is None else new_rows(asked, asked.apply, rows.classes)
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
        raise ValueError(f"--choose {chosen!r}: {left_out[chosen]}")
    probabilities = trial.probabilities(chosen, new)
    best = []
    for purpose, measure in purposes.items():
        take, tied = board.verdict(measure)
        others = [name for name in tied if name != take]
        best.append({"purpose": purpose, "measure": measure, "take": take, "tied": others})
    counts = {"fit": n_fit, "test": trial.n_tested}
    record: dict[str, Any] = {
        "file": asked.file.name,
        "contents": f"probabilities of {k} classes"
        if k
        else f"{asked.forecast} as forecasts of {asked.outcome}",
        "split": split.told,
        "rows": counts if len(split.folds) == 1 else {"fit and test": trial.n_tested},
        "methods": board.methods,
        "left_out": left_out,
        "resamples": RESAMPLES,
        "scores": board.records(NONE),
        "best": best,
        "recommended": recommended,
        "why": why,
        "chosen": chosen,
        "warnings": [*remarks, *trial.said[chosen]],
        "interrupted": trial.interrupted,
    }
    frame = pl.DataFrame(record["scores"], schema_overrides={"best": pl.String}, infer_schema_length=None)
    shown = [*board_tables(record), Text(sentence(record))]
    return Report(record, frame, shown, probabilities, lambda: pictures(record, frame), trial.interrupted)


def pictures(record: dict[str, Any], frame: pl.DataFrame) -> list[Picture]:
    """The scoreboard, drawn."""
    from onlinecal.plots.recalibrations import draw_scoreboard

    below = "; ".join([record["contents"], record["split"]])
    said = {"title": record["file"], "below": below, "chosen": record["chosen"]}
    numbers = frame.with_columns(**{name: pl.lit(text) for name, text in said.items()})
    return [Picture(draw_scoreboard, numbers, "scoreboard")]


def board_tables(record: dict[str, Any]) -> list[Table]:
    """The scoreboard; who is best for what."""
    scored: dict[str, list[dict[str, Any]]] = {}
    for one in record["scores"]:
        scored.setdefault(one["measure"], []).append(one)
    names = [f"[bold]{name}[/bold]" if name == record["chosen"] else name for name in record["methods"]]
    title = f"{record['file']}: {record['contents']}, {sizes(record)}"
    scores = table(title, ["", *scored], list(zip(names, *map(_cells, scored.values()), strict=True)))
    scores.caption_justify = "left"
    scores.caption = (
        f"On rows that were not fitted: {record['split']}. * the one to take, = tied with it: chance "
        "explains what is between them and the best. ± half an interval of 95 %, by "
        f"{record['resamples']} resamples."
    )
    if record["left_out"]:
        reasons = "; ".join(f"{name} ({reason})" for name, reason in record["left_out"].items())
        scores.caption += f"\nLeft out: {reasons}."
    best = [
        [one["purpose"], one["measure"], one["take"], ", ".join(one["tied"]) or "–"] for one in record["best"]
    ]
    return [scores, table(None, ["best for", "by", "take", "tied with it"], best, left=4)]


def _cells(rows: list[dict[str, Any]]) -> list[str]:
    """What the table says of each method by a measure, with as many digits as the largest score needs."""
    largest = max(abs(row["value"]) for row in rows)
    digits = 4 + (largest < 0.02) + (largest < 0.002)
    cells = []
    for row in rows:
        value, half = (f"{number:.{digits}f}" for number in (row["value"], row["high"] - row["value"]))
        mark = {"take": "*", "tied": "=", None: ""}[row["best"]]
        cells.append(f"{mark}{value} ±{half.removeprefix('0')}")
    return cells


def sentence(record: dict[str, Any]) -> str:
    """What is recommended, and what was taken instead."""
    name, chosen = record["recommended"], record["chosen"]
    what = f"Leave them as given ({NONE})" if name == NONE else f"Take {name}"
    return f"{what}: {record['why']}." + ("" if chosen == name else f" Chosen: {chosen}.")
