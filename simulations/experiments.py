"""The experiments of the decision paper, on any table of predictions, and drifts of such tables.

The drifts replace a benchmark of corrupted images. Each drift has a severity, one value of which changes
nothing. Its random numbers are drawn once per split, so that two severities differ in nothing else.

Zhao, Kim, Sahoo, Ma & Ermon, "Calibrating Predictions to Decisions" (2021), section 5 and appendix B, with
skin lesions (HAM10000) and ImageNet. Losses are Gaussian, divided by max_a ||l(., a)||_2 as in equation (10).

Nothing here has a state: a split is drawn from its seed alone, methods are fitted on its fitted rows, and
what comes out are rows of a table, whose columns the pictures read by name. Splits may be played in any
order, or at the same time.

For a seed s the streams of random numbers are [s, 20] the made-up table, [s, 21] labels by chance, [s, 22]
the order of classes, and [s, 23, number of the drift]. Another stream, another order of DRIFTS, or other
numbers above `Experiment` give other figures than those on the pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from onlinecal.arrays import Floats, Ints
from onlinecal.cli.recalibrating.comparing import rivals
from onlinecal.cli.recalibrating.methods import drawn_labels
from onlinecal.cli.recalibrating.report import AS_GIVEN
from onlinecal.cli.recalibrating.splitting import LEAST_PART_ROWS, part_sizes, split_rows
from onlinecal.measures.decision.losses import decision_losses, loss_norms
from onlinecal.recalibration.classical.linear import ChosenDirichlet, VectorScaling
from onlinecal.recalibration.classical.temperature import ADDED_BEFORE_LOG, tempered
from onlinecal.recalibration.decision.losses import gaussian_losses
from onlinecal.recalibration.decision.recalibrator import MOST_CAUTIOUS_ROUNDS, DecisionRecalibrator
from onlinecal.tables.classes import Part
from onlinecal.threads import one_thread

Corruption = Callable[[Floats, Ints, float, np.random.Generator], tuple[Floats, Ints]]
"""Makes n corrupted rows from probabilities (n, C), labels (n,), a severity and a random generator."""


def factor_on_logits(
    table: Floats, labels: Ints, factor: float, rng: np.random.Generator
) -> tuple[Floats, Ints]:
    """Rows proportional to p^factor: the network becomes surer (above 1) or less sure; its answers stay."""
    return tempered(table, factor), labels


def label_shift(table: Floats, labels: Ints, ratio: float, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """As many rows, drawn again by class: the classes, in a random order, have weights from 1 to `ratio`.

    The weights are geometric in the place of the class in that order. All rows of a class are drawn with
    equal weight, so that the distribution of probabilities given the class stays as it was.
    """
    n, k = table.shape
    weights = float(ratio) ** (rng.permutation(k) / max(k - 1, 1))
    order = rng.permutation(n)
    order = order[np.argsort(labels[order], kind="stable")]
    ends = np.cumsum(weights[labels[order]])
    # evenly spaced picks: each class, and each of its rows, comes as often as its weight says, up to rounding
    picks = order[np.searchsorted(ends, (np.arange(n) + rng.random()) / n * ends[-1], side="right")]
    return table[picks], labels[picks]


def noise_on_logits(
    table: Floats, labels: Ints, deviation: float, rng: np.random.Generator
) -> tuple[Floats, Ints]:
    """Gaussian noise of this standard deviation on every log-probability."""
    noise = rng.standard_normal(table.shape)
    return softmax(np.log(table + ADDED_BEFORE_LOG) + deviation * noise, axis=1), labels


@dataclass(frozen=True)
class Drift:
    """A corruption, the severities to try, the one that changes nothing, and the words in its panels."""

    corrupt: Corruption
    severities: tuple[float, ...]
    clean: float
    title: str
    axis: str
    logarithmic: bool = True


DRIFTS = {
    "temperature": Drift(
        factor_on_logits, (0.5, 0.71, 1.0, 1.41, 2.0, 2.83), 1.0,
        "Temperature: surer or less sure", "factor on the logits",
    ),
    "label shift": Drift(
        label_shift, (1.0, 2.0, 4.0, 8.0, 16.0, 32.0), 1.0,
        "Label shift: classes drawn unevenly", "commonest class : rarest class",
    ),
    "noise": Drift(
        noise_on_logits, (0.0, 0.5, 1.0, 1.5, 2.0, 3.0), 0.0,
        "Noise on the logits", "noise on the logits (standard deviation, nats)", logarithmic=False,
    ),
}  # fmt: skip


ResultRows = list[dict[str, Any]]
ProbabilityMap = Callable[[Floats], Floats]

N_ROWS, N_CLASSES = 4000, 6
SURENESS = 2.0
"""The made-up network's logits are too large by this factor."""

CHANCE = "chance"
"""The name for the gaps that perfect probabilities would show on the same number of rows."""
CHANCE_DRAWS = 4
PAPER_STEPS, HOUSE_STEPS = "full steps", "shrunk steps"
TEST_SHARE = 0.5
"""The share of the rows that is tested in each split."""
NEVER = 1e-9
"""An epsilon that is never reached: the curves show what further rounds would do."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """The settings that all figures share.

    `table` has probabilities (n, C) and labels. There are `n_splits` random splits into fitted and tested
    rows; split s has seed `seed` + s. `n_actions` is K, 3 in the paper's figures. `n_rounds` is the length of
    the curves in `steps`. Gaps are taken over `n_losses` random losses, which are the same for every split.
    """

    table: Part
    n_actions: int = 3
    n_rounds: int = 32
    n_splits: int = 5
    seed: int = 0
    n_losses: int = 500


@dataclass(frozen=True, eq=False)
class SplitRows:
    """The fitted and the tested rows of one split, and the number of losses that gaps are taken over."""

    seed: int
    fit: tuple[Floats, Ints]
    test: tuple[Floats, Ints]
    n_losses: int

    @property
    def sizes(self) -> dict[str, int]:
        """How many rows are fitted and tested."""
        return {"n_fit": len(self.fit[1]), "n_test": len(self.test[1])}

    def losses(self, n_actions: int) -> Floats:
        """The losses for this number of actions; they are equal for all splits."""
        return gaussian_losses(n_actions, self.fit[0].shape[1], self.n_losses)


def halves(experiment: Experiment, split: int, chosen: Ints | None = None) -> SplitRows:
    """Split the rows of the table, or only those of the chosen classes."""
    table, labels = experiment.table.probabilities, _labels(experiment)
    if chosen is not None:
        table, labels = restricted(table, labels, chosen)
    seed = experiment.seed + split
    fit, test = split_rows(len(table), TEST_SHARE, seed)
    return SplitRows(seed, (table[fit], labels[fit]), (table[test], labels[test]), experiment.n_losses)


def score(table: Floats, labels: Ints, losses: Floats) -> dict[str, float]:
    """Mean and worst gap, and the mean loss that comes true, over losses divided by their norms."""
    norms = loss_norms(losses)
    predicted, true = decision_losses(table, labels, losses)
    gaps = np.abs(predicted - true) / norms
    return {
        "mean_gap": float(gaps.mean()),
        "worst_gap": float(gaps.max()),
        "loss": float((true / norms).mean()),
    }


def chance_score(table: Floats, losses: Floats, seed: int) -> dict[str, float]:
    """Gaps of labels drawn from the probabilities themselves, which no method can be told to undercut."""
    rng = np.random.default_rng([seed, 21])
    draws = [score(table, drawn_labels(table, rng), losses) for _ in range(CHANCE_DRAWS)]
    return {name: float(np.mean([draw[name] for draw in draws])) for name in ("mean_gap", "worst_gap")}


def fitted_maps(both: SplitRows, n_actions: int | None) -> dict[str, ProbabilityMap]:
    """The maps of all methods, fitted on the same rows, by name: AS_GIVEN first; decision last, if K is
    given."""
    models: dict[str, Any] = rivals(both.fit[0].shape[1])
    models |= {"vector scaling": VectorScaling(), "Dirichlet": ChosenDirichlet(both.seed)}
    if n_actions is not None:
        models["decision"] = DecisionRecalibrator(n_actions=n_actions, random_state=both.seed)
    maps: dict[str, ProbabilityMap] = {AS_GIVEN: lambda table: table}
    return maps | {name: model.fit(*both.fit).predict_proba for name, model in models.items()}


def steps(experiment: Experiment, split: int) -> ResultRows:
    """Gaps and losses after each round, with the paper's full steps and with the defaults' shrunk ones.

    The columns are method, part, step (None for methods without steps), and kept: the rounds that the folds
    keep, with the defaults' cap.
    """
    both, k = halves(experiment, split), experiment.n_actions
    losses = both.losses(k)
    common: dict[str, Any] = {"epsilon": NEVER, "max_rounds": experiment.n_rounds, "random_state": both.seed}
    # the answers are the rounds' alone, without a share of the start
    common |= {"share": 1.0, "keep": 0.0, "limit": np.inf}
    cap = min(experiment.n_rounds, MOST_CAUTIOUS_ROUNDS)
    kept = DecisionRecalibrator(n_actions=k, **{**common, "max_rounds": cap}).fit(*both.fit)
    models = {
        PAPER_STEPS: DecisionRecalibrator.as_in_paper(k, start="temperature", **common).fit(*both.fit),
        HOUSE_STEPS: DecisionRecalibrator(n_actions=k, cv=0, **common).fit(*both.fit),
    }
    dirichlet = ChosenDirichlet(both.seed).fit(*both.fit)
    rows: ResultRows = []
    for part, (P, y) in (("fit", both.fit), ("test", both.test)):
        for method, mapped in ((AS_GIVEN, P), ("Dirichlet", dirichlet.predict_proba(P))):
            rows.append({"method": method, "part": part, "step": None, **score(mapped, y, losses)})
        for method, model in models.items():
            scores: dict[str, float] = {}
            stages = list(model.staged_predict_proba(P))
            for step in step_stops(experiment.n_rounds):
                # after the last stage the search has found nothing more, so the scores stay
                if step < len(stages):
                    scores = score(stages[step], y, losses)
                rows.append({"method": method, "part": part, "step": step, **scores})
    chance = chance_score(kept.predict_proba(both.test[0]), losses, both.seed)
    rows.append({"method": CHANCE, "part": "test", "step": None, **chance})
    return [{**row, "kept": kept.n_rounds_, **both.sizes} for row in rows]


def step_stops(n_rounds: int) -> list[int]:
    """The numbers of rounds to score: 0 to 8, every second up to 16, then every fourth, and the last."""
    return [at for at in range(n_rounds + 1) if at <= 8 or at == n_rounds or at % (2 if at < 16 else 4) == 0]


def actions(experiment: Experiment, split: int) -> ResultRows:
    """Every method's gaps on the tested rows for 1 to C actions; columns count, n_fit, n_test."""
    both = halves(experiment, split)
    others = fitted_maps(both, None)
    mapped = {name: map_(both.test[0]) for name, map_ in others.items()}
    rows: ResultRows = []
    for count in counts(1, len(experiment.table.classes)):
        model = DecisionRecalibrator(n_actions=count, random_state=both.seed).fit(*both.fit)
        mapped["decision"] = model.predict_proba(both.test[0])
        rows += _counted(both, mapped, count, count)
    return rows


def classes(experiment: Experiment, split: int) -> ResultRows:
    """Every method's gaps for 2 to C of the classes: their columns, brought to sum 1, and their rows.

    The classes are the first ones of a random order, which differs between splits. Counts with too few rows
    in any split are left out.
    """
    order = class_order(experiment, split)
    rows: ResultRows = []
    for count in class_counts(experiment):
        both = halves(experiment, split, order[:count])
        mapped = {name: m(both.test[0]) for name, m in fitted_maps(both, experiment.n_actions).items()}
        rows += _counted(both, mapped, experiment.n_actions, count)
    return rows


def class_order(experiment: Experiment, split: int) -> Ints:
    """The order in which `classes` takes the classes in."""
    rng = np.random.default_rng([experiment.seed + split, 22])
    return rng.permutation(len(experiment.table.classes))


def class_counts(experiment: Experiment) -> list[int]:
    """The numbers of classes that `classes` tries: they have enough rows to fit and to test in all splits."""
    sizes = np.bincount(_labels(experiment), minlength=len(experiment.table.classes))
    orders = [class_order(experiment, split) for split in range(experiment.n_splits)]
    fewest = {
        count: min(int(sizes[order[:count]].sum()) for order in orders) for count in counts(2, len(sizes))
    }
    return [count for count, n in fewest.items() if min(part_sizes(n, TEST_SHARE)) >= LEAST_PART_ROWS]


def restricted(table: Floats, labels: Ints, chosen: Ints) -> tuple[Floats, Ints]:
    """The rows whose label is among the chosen classes, with columns in that order, brought to sum 1."""
    places = np.full(table.shape[1], -1)
    places[chosen] = np.arange(len(chosen))
    chosen_rows = places[labels] >= 0
    part = table[np.ix_(chosen_rows, chosen)]
    sums = part.sum(axis=1, keepdims=True)
    equal = np.full_like(part, 1.0 / len(chosen))
    return np.divide(part, sums, out=equal, where=sums > 0.0), places[labels[chosen_rows]]


def counts(low: int, high: int) -> list[int]:
    """All numbers from low to high if high is at most 12, else 1, 2, 5, 10, 20, 50, ... and high."""
    if high <= 12:
        return list(range(low, high + 1))
    series = [digit * 10**power for power in range(len(str(high))) for digit in (1, 2, 5)]
    return [*(count for count in series if low <= count < high), high]


def _counted(both: SplitRows, mapped: dict[str, Floats], n_actions: int, count: int) -> ResultRows:
    y, losses = both.test[1], both.losses(n_actions)
    rows: ResultRows = [{"method": name, **score(table, y, losses)} for name, table in mapped.items()]
    rows.append({"method": CHANCE, **chance_score(mapped["decision"], losses, both.seed)})
    return [{**row, "count": count, **both.sizes} for row in rows]


def drift(experiment: Experiment, split: int) -> ResultRows:
    """Every method's gaps, fitted on clean and tested on corrupted rows; columns drift, severity, method."""
    both = halves(experiment, split)
    losses = both.losses(experiment.n_actions)
    maps = fitted_maps(both, experiment.n_actions)
    rows: ResultRows = []
    for number, (name, kind) in enumerate(DRIFTS.items()):
        for severity in kind.severities:
            rng = np.random.default_rng([both.seed, 23, number])
            P, y = both.test if severity == kind.clean else kind.corrupt(*both.test, severity, rng)
            rows += [
                {
                    "drift": name,
                    "severity": severity,
                    "method": method,
                    **score(map_(P), y, losses),
                    **both.sizes,
                }
                for method, map_ in maps.items()
            ]
    return rows


EXPERIMENTS: dict[str, Callable[[Experiment, int], ResultRows]] = {
    "steps": steps,
    "actions": actions,
    "classes": classes,
    "drift": drift,
}


def _labels(experiment: Experiment) -> Ints:
    assert experiment.table.labels is not None
    return experiment.table.labels


def play_split(name: str, experiment: Experiment, split: int) -> ResultRows:
    """The rows of one split; columns file, n_actions, n_losses, split."""
    # products of thin matrices gain nothing from threads, and lose much if cores are shared
    with one_thread():
        rows = EXPERIMENTS[name](experiment, split)
    columns = {
        "file": experiment.table.name,
        "n_actions": experiment.n_actions,
        "n_losses": experiment.n_losses,
        "split": split,
    }
    return [{**columns, **row} for row in rows]


def play(name: str, experiment: Experiment, jobs: int = 1) -> Iterator[ResultRows]:
    """Yields the rows of every split in order, each as soon as it is finished."""
    from onlinecal.simulations.sweeps.playing import Workers, work

    tasks = ((name, experiment, split) for split in range(experiment.n_splits))
    yield from work(play_split, tasks, Workers(jobs=min(jobs, experiment.n_splits)), ordered=True)


def made_up_table(n_rows: int = N_ROWS, n_classes: int = N_CLASSES, seed: int = 0) -> Part:
    """Probabilities that are too sure and favour some classes, and labels drawn from the true ones."""
    rng = np.random.default_rng([seed, 20])
    truth = rng.dirichlet(np.full(n_classes, 0.4), n_rows)
    labels = (truth.cumsum(axis=1) < rng.random((n_rows, 1))).sum(axis=1).clip(max=n_classes - 1)
    favour = np.linspace(0.0, 1.5, n_classes)
    logits = SURENESS * np.log(truth + 1e-6) + favour + 0.5 * rng.standard_normal(truth.shape)
    classes = tuple(map(str, range(n_classes)))
    return Part("made-up table", np.arange(n_rows), softmax(logits, axis=1), labels, classes)
