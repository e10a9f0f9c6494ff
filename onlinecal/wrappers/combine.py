"""Several models of one event: one calibrated column of probabilities, never far behind the best model.

A `Mixture` has two states that belong together, that of `combining` and a projection: `ask` writes the
tickets of both, `settle` learns in both, and `take` and `present` move both tickets. So a round that waits is
taken out and put back as one. `learn_alone` writes the state of `combining` alone and leaves no ticket there,
so `CombinedClassifier` puts the open round aside before it. Reports and results never change.

The columns and `CombinedClassifier` play the same rules on the same states, in compiled code and step by
step. The fields of `Together`, under these names, are saved with a column (`columns/growing.py`).
`tests/corpus` keeps what columns answer. MOST_MODELS is a limit of what is accepted, and changes no answer.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from river import base, linear_model, naive_bayes

from onlinecal.arrays import Floats, Ints
from onlinecal.elementary import in_turn
from onlinecal.forecasters.binary.choice import check_slack
from onlinecal.html import Table
from onlinecal.measures.scores import log_loss
from onlinecal.remarks import unlearnt_remarks, warn_of
from onlinecal.restoring import Restored
from onlinecal.steering import combining
from onlinecal.steering.combining import TRACKING_PRIOR, combined, new_combining, regret_bound
from onlinecal.tables.columns import (
    check_number_column,
    check_outcomes,
    check_same_index,
    check_same_length,
    refuse,
)
from onlinecal.tables.frames import as_array, columns_of, like
from onlinecal.texts import counted
from onlinecal.wrappers.columns.growing import Growing, is_empty
from onlinecal.wrappers.columns.kept_rows import Arrays, check_plain
from onlinecal.wrappers.columns.reports import OF_ONE, ProvenReport
from onlinecal.wrappers.columns.rows import NEVER, Missing, Rows, check_missing, read_ids
from onlinecal.wrappers.labels import Label, Labels, check_pair, over, read_numbers
from onlinecal.wrappers.late_labels import MOST_WAITING, RoundsOfOneLabel
from onlinecal.wrappers.models import check_classifier
from onlinecal.wrappers.settling import completed, missing_of, read_moments
from onlinecal.wrappers.strategies.projection import Projection, Ticket

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onlinecal.plots import Picture

MOST_MODELS = 100
"""Time and memory of the stack grow with the square of their number."""


def new_projection(slack: float | None) -> Projection:
    """What makes calibrated forecasts of combined ones: its buckets split only where hints mislead."""
    return Projection(slack, 1, None, steers=False, splits=True)


def check_models(number: int, name: str) -> None:
    """ValueError unless there are so many models that they can be combined."""
    if number < 2:
        raise ValueError(
            f"{name} must be of at least 2 models, got {number}: a single one goes into "
            "recalibrate_stream or CalibratedClassifier"
        )
    if number > MOST_MODELS:
        raise ValueError(f"{name} must be of at most {MOST_MODELS} models, got {number}: leave out the worst")


def read_columns(columns: Any, expected: list[Any] | None = None) -> tuple[list[Any], Floats]:
    """The models' names and their probabilities, shape (T, N), NaN where they are missing.

    `expected` are the names of the models in earlier rows; in further ones a model may say nothing at all.
    """
    by_name = columns_of(columns)
    if by_name is None:
        table = as_array(columns, "columns", "a mapping, a DataFrame or an array of shape (T, N)")
        if table.ndim != 2:
            raise ValueError(
                f"columns must be a mapping, a DataFrame or an array of shape (T, N), got shape {table.shape}"
            )
        by_name = dict(enumerate(table.T))
        if expected is not None and len(by_name) == len(expected):
            by_name = dict(zip(expected, by_name.values(), strict=True))
    if expected is None:
        check_models(len(by_name), "columns")
    elif list(by_name) != expected:
        raise ValueError(
            f"columns must be {expected}, in this order, as in earlier rows, got {list(by_name)}: "
            "give a model that says nothing a column of NaN"
        )
    first, *others = by_name
    for other in others:
        check_same_index(by_name[first], by_name[other], f"columns {first!r} and {other!r}")
    numbers = {name: _numbers(name, values, expected is not None) for name, values in by_name.items()}
    first, *_ = numbers
    for name, column in numbers.items():
        check_same_length(numbers[first], column, f"columns {first!r} and {name!r}")
    return list(numbers), np.column_stack(list(numbers.values()))


def _numbers(name: Any, values: Any, may_be_silent: bool) -> Floats:
    """A column of probabilities, shape (T,), NaN where one is missing."""
    called = f"column {name!r}"
    array = check_number_column(values, called, "hold probabilities, or nothing where missing")
    silent = np.isnan(array)
    refuse(~silent & ~((array >= 0.0) & (array <= 1.0)), array, f"{called} must lie in [0, 1] or be missing")
    if silent.all() and not may_be_silent:
        raise ValueError(f"{called} has no probability in any of {len(array):,} rows: leave it out")
    return array


@dataclass(frozen=True)
class ModelScore:
    """What one of several models was worth, in the rows in which it spoke; averages over these rows."""

    n_rounds: int
    """In how many settled rows it spoke."""
    brier_in: float
    brier_alone: float
    """Of the model steered alone."""
    brier_out: float
    """Of what all models made together."""
    weight: float
    """How much it counted, on average over all rows, between 0 and 1."""


@dataclass(frozen=True)
class CombinedReport(ProvenReport):
    """What several models were worth, alone and together, and what is proven of it.

    Attributes
    ----------
    n_rounds
        How many rows are settled, that is have an outcome: all scores and bounds are of these.
    n_open
        How many rows are not settled, since no outcome has come.
    models
        A dict: by each model's name its scores in the settled rows in which it spoke. `n_rounds` is the
        number of these rows; averages over them of (p - y)^2 are `brier_in`, of its own probabilities,
        `brier_alone`, of these corrected by earlier outcomes without the other models ("steered alone"), and
        `brier_out`, of the combined forecasts. They are NaN if it never spoke. `weight` is its average weight
        in all rows, settled or not.
    brier_out, log_loss_out
        Averages over the n_rounds rows, of the combined forecasts: of (p - y)^2, and of -log(p), p the
        probability of what came, at least 1e-15. NaN without settled rows.
    remarks
        A sentence if nothing could be learnt, since by `settled_at` all outcomes came after the last
        forecast; else ().
    regret_bound
        A number that holds for each model: by how much the sum of squared errors of the mixture, before it is
        moved to calibrated forecasts, can at most exceed that of the model steered alone, over the settled
        rows in which the model speaks. It is proven of all probabilities, and all outcomes that come no later
        than these did.
    moved
        By how much the sum of squared errors over settled rows rose when the mixture was moved to calibrated
        forecasts; negative if it fell.
    certificate, guarantee
        Proven upper bounds on the distance to calibration of the combined forecasts, sums over settled rows.
        The certificate follows from what happened; the guarantee is what the certificate could not exceed,
        whatever the outcomes.
    """

    n_rounds: int
    models: dict[Any, ModelScore]
    brier_out: float
    log_loss_out: float
    regret_bound: float
    moved: float
    certificate: float
    guarantee: float
    n_open: int = 0
    remarks: tuple[str, ...] = ()

    @property
    def best(self) -> Any:
        """The name of the best model: its `brier_alone` lies lowest below, or least above, its `brier_out`.

        Both are averages over the rows in which that model spoke. Models that never spoke in a settled row
        come last; of equal ones, and without settled rows, it is the first.
        """
        ahead = {name: model.brier_alone - model.brier_out for name, model in self.models.items()}
        return min(ahead, key=lambda name: math.inf if math.isnan(ahead[name]) else ahead[name])

    norm = OF_ONE
    _HEADER = "", "rows", "before", "alone", "together", "weight"

    def _table(self) -> Table:
        rows = []
        for name, model in self.models.items():
            scores = [f"{score:.4f}" for score in (model.brier_in, model.brier_alone, model.brier_out)]
            rows.append((str(name), f"{model.n_rounds:,}", *scores, f"{model.weight:.2f}"))
        rows.append(("all together", f"{self.n_rounds:,}", "", "", f"{self.brier_out:.4f}", ""))
        title = f"{len(self.models)} models combined: Brier scores in the rows in which each spoke"
        n, notes = self.n_rounds, [self._proven()]
        if n:
            notes.append(
                f"proven: at most {self.regret_bound / n:.4f} per row behind the best model, recalibrated; "
                f"to be calibrated cost {self.moved / n:.4f} more"
            )
        if self.n_open:
            notes.append(f"{counted(self.n_open, 'row')} not settled yet, or never: nothing here is of these")
        return Table(title, self._HEADER, rows, [*notes, *self.remarks])


@dataclass(frozen=True, eq=False)
class CombinedForecasts(Growing):
    """What `combine_forecasts` made of T rows of N models' probabilities; it never changes.

    Attributes
    ----------
    probabilities
        The combined forecasts of outcome 1, shape (T,), float64: a Series of pandas, polars or another
        library if `outcomes` was one, else, and after `extend`, `observe` and `load`, a numpy array.
    weights
        Shape (T, N): how much each model counted in each row, known before its outcome; each row has the sum
        1, or 0 where no model spoke.
    names
        The names of the N models, in the order of their columns; of an array 0, ..., N-1.
    certificate
        Shape (T,): entry t is a proven upper bound on the distance to calibration of `probabilities` in the
        rows whose outcomes were known before row t + 1 was forecast, a sum over these; the last entry is of
        all settled rows.
    guarantee
        What the last certificate could not exceed, whatever the outcomes: a sum over settled rows.
    """

    probabilities: Any
    weights: Floats
    names: list[Any]
    certificate: Floats
    guarantee: float
    _report: CombinedReport = field(init=False, repr=False)
    _rows: Rows = field(init=False, repr=False)
    _slack: float | None = field(init=False, repr=False)
    _played: Together = field(init=False, repr=False)

    _KEPT_AS = "a column of combined forecasts"

    def report(self) -> CombinedReport:
        """What each model was worth, alone and together, and what is proven, as a `CombinedReport`.

        It is of the rows that are settled so far, whose outcomes this result knows.
        """
        return self._report

    def plot(self, ax: Axes | None = None) -> Picture:
        """Draw how much each model counted, row by row, as coloured areas one on the other.

        Parameters
        ----------
        ax
            The axes of matplotlib to draw on; None: those of a new figure.

        Returns
        -------
        Picture
            A pair: `ax`, the axes, and `table`, the numbers drawn, a data frame of polars. It has at most 300
            rows, each for a stretch of neighbouring rows: `row`, the last of them, from 1, and for each model
            a column with its average weight there.
        """
        from onlinecal.plots.over_rounds import model_weights

        return model_weights(self.weights, self.names, ax=ax)

    def extend(
        self,
        columns: Any,
        outcomes: ArrayLike | None = None,
        *,
        settled_at: ArrayLike | None = None,
        times: ArrayLike | None = None,
        ids: ArrayLike | None = None,
    ) -> Self:
        """A new result with n more rows, forecast after all others. This one stays as it is.

        Parameters
        ----------
        columns
            Probabilities of outcome 1 by the same N models, in the same order: a mapping from their names to
            columns of shape (n,), a DataFrame with these columns, or an array of shape (n, N). NaN, None or
            masked where a model says nothing, which may be in all rows.
        outcomes
            Shape (n,), each 0 or 1 or boolean; None, NaN or masked where none has come. None: in no row.
        settled_at
            Shape (n,): when each outcome became known: times like `times`, or without `times` row numbers,
            counted from 0 over all rows, the earlier ones included. None: each outcome is known to the next
            row's forecast; with `times` it must be given if an outcome has come.
        times, ids
            Shape (n,): when the forecasts were made, and names of the rows for `observe`. Each is given if
            earlier rows have it, and only then.

        Returns
        -------
        CombinedForecasts
            Of all rows, the earlier and the new ones: to the last digit what one call with all rows would
            have given. Its forecasts are a numpy array; those of earlier rows are as they were. With n = 0 it
            is this object itself.

        Raises
        ------
        ValueError
            For rows that are bad, or that do not go with those before them; the message names the argument,
            the value and its row, counted from 0 in the new rows or, for times, in all. Also if this version
            or machine would have given other forecasts of the rows so far.
        """
        if is_empty(columns):
            return self
        given = outcomes, settled_at, times, ids
        _, new = _read(columns, *given, self.names, self._rows.later)
        return self._continued(self._rows.followed_by(new))

    def _numbers_of(self, outcomes: Any) -> Ints:
        return check_outcomes(outcomes).astype(np.int64)

    def _play(self, rows: Rows) -> Self:
        after = _made(self.names, rows, self._slack, _play(rows, self._slack))
        warn_of(after._report.remarks)
        return after  # type: ignore[return-value]

    def _settings(self) -> dict[str, Any]:
        return {"names": check_plain(self.names, "names of columns"), "slack": self._slack}

    @classmethod
    def _restored(cls, settings: dict[str, Any], rows: Rows, answers: Arrays) -> Self:
        together = Together(*(answers[name] for name in Together._fields))
        return _made(settings["names"], rows, settings["slack"], together)  # type: ignore[return-value]


def combine_forecasts(
    columns: Any,
    outcomes: ArrayLike,
    *,
    settled_at: ArrayLike | None = None,
    times: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    missing: Missing = NEVER,
    slack: float | None = None,
) -> CombinedForecasts:
    """Make one calibrated column of several models' probabilities, each row by what was known before it.

    Each model's probabilities are corrected by the outcomes that followed similar ones so far. All are then
    mixed by weights that follow the best of them and by what they know together, and the mixture is moved to
    the nearest forecast that stays calibrated on any outcomes, with a running certificate. Whatever the
    models and outcomes, the mixture is never far behind the best model (docs/theory.md, Theorem 17g).

    Parameters
    ----------
    columns
        Probabilities of outcome 1, each made before its outcome, in the order in which they were made: a
        mapping from names of models to columns of shape (T,), a DataFrame with a column for each model, or an
        array of shape (T, N), 2 <= N <= 100. NaN, None or masked where a model says nothing; where none does,
        the share of ones so far is forecast.
    outcomes
        Shape (T,), each 0 or 1 or boolean; None, NaN or masked where none has come. Rows are matched by
        position; columns of pandas must have the same index.
    settled_at
        Shape (T,): when each outcome became known. With `times` a time like those: later forecasts know it.
        Without `times` a row number, from 0: forecasts of later rows know it. None: each outcome is known to
        the next row's forecast. Of rows without outcome it need not say anything.
    times
        Shape (T,), never decreasing: when each forecast was made. Numbers, dates, datetimes, spans or texts
        of ISO 8601. None: forecasts are counted. It needs `settled_at`; with missing="later" only once an
        outcome has come.
    ids
        Shape (T,): whole numbers or texts by which `CombinedForecasts.observe` knows the rows, no two alike.
        None: they are known by their numbers, from 0.
    missing
        What becomes of a row without outcome. "never": it is given up as soon as it is forecast. "later": it
        stays open, and `CombinedForecasts.observe` may tell its outcome.
    slack
        How far forecast minus outcome, added up over the rows with the same forecast, may be from 0: more
        slack follows the mixture more closely, for a weaker guarantee. From 0.5 to 1000; None: 1.5, more as
        more outcomes are late at once.

    Returns
    -------
    CombinedForecasts
        The forecasts, the models' weights, the certificate after each row, the guarantee and a report. A
        LabelWarning tells if nothing could be learnt, since by `settled_at` all outcomes came after the last
        forecast.

    Raises
    ------
    ValueError
        For bad columns, settings, or columns that do not go together; the message names the argument, the
        value and its row, counted from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinecal import combine_forecasts
    >>> rng = np.random.default_rng(0)
    >>> one, other = rng.normal(size=(2, 5000))
    >>> came = rng.random(5000) < 1 / (1 + np.exp(-one - other))
    >>> both = {"one": 1 / (1 + np.exp(-one)), "other": 1 / (1 + np.exp(-other))}
    >>> result = combine_forecasts(both, came)
    >>> scores = result.report().models
    >>> all(score.brier_out < score.brier_alone - 0.02 for score in scores.values())
    True

    References
    ----------
    docs/theory.md, section 6, Theorem 17g.
    """
    later = check_missing(missing)
    names, rows = _read(columns, outcomes, settled_at, times, ids, None, later)
    if slack is not None:
        check_slack(slack)
    result = _made(names, rows, slack, _play(rows, slack), outcomes)
    warn_of(result._report.remarks)
    return result


def _read(
    columns: Any,
    outcomes: Any,
    settled_at: Any,
    times: Any,
    ids: Any,
    expected: list[Any] | None,
    later: bool,
) -> tuple[list[Any], Rows]:
    """The models' names, and the rows; `expected` are the names in earlier rows."""
    named = {"outcomes": outcomes, "settled_at": settled_at, "times": times, "ids": ids}
    for name, column in named.items():
        for probabilities in columns.values() if isinstance(columns, Mapping) else [columns]:
            check_same_index(probabilities, column, f"columns and {name}")
    names, table = read_columns(columns, expected)
    came, missing = missing_of([None] * len(table) if outcomes is None else outcomes)
    y = check_outcomes(came if missing is None else completed(came, missing, 0)).astype(np.int64)
    check_same_length(table, y, "columns and outcomes")
    moments = read_moments(len(y), settled_at, times, None)
    numbered = None if ids is None else read_ids(ids, len(y))
    return names, Rows(table, y, missing, moments, None, numbered, later)


class Together(NamedTuple):
    """What came of T rows of N models."""

    forecasts: Floats
    """Shape (T,)."""
    hints: Floats
    """Shape (T,): the mixture, before it was moved to calibrated forecasts."""
    steered: Floats
    """Shape (T, N): each model steered alone, NaN where it says nothing."""
    weights: Floats
    """Shape (T, N)."""
    certificates: Floats
    """Shape (n + 1,): after so many settled rows."""
    guarantee: Floats
    """What the last of them cannot exceed, shape ()."""


def _play(rows: Rows, slack: float | None) -> Together:
    """Forecast all rows, each by what was known before it."""
    schedule = rows.parts[0].schedule
    state = new_combining(rows.table.shape[1])
    hints, steered, weights = combined(state, rows.table, rows.numbers.astype(np.uint8), schedule)
    projection = new_projection(slack)
    tapes = projection.replay(hints, rows.numbers == 1, schedule)
    certificates = np.concatenate([[0.0], tapes.certificates])
    guarantee = np.array(projection.guarantee)
    return Together(tapes.forecasts, hints, steered, weights, certificates, guarantee)


def _made(
    names: list[Any], rows: Rows, slack: float | None, together: Together, given: Any = None
) -> CombinedForecasts:
    """The result for users; forecasts are of the library that the `given` outcomes are of."""
    out, hints, steered, weights, certificates, promised = together
    settling, guarantee = rows.settling, float(promised)
    settles, y = settling.settles, rows.numbers
    models = {}
    for name, said, own, weight in zip(names, rows.table.T, steered.T, weights.T, strict=True):
        spoke = ~np.isnan(said) & settles
        before, alone, ours = (brier_of(p[spoke], y[spoke]) for p in (said, own, out))
        models[name] = ModelScore(int(spoke.sum()), before, alone, ours, float(weight.mean()))
    remarks = []
    if rows.moments.came is not None:
        remarks = unlearnt_remarks(settling.known, len(rows), "settled_at")
    most_late = int((settling.known - 1 - settling.rows).max(initial=0))
    came, given_out, mixed = y[settles], out[settles], hints[settles]
    n = len(came)
    report = CombinedReport(
        n,
        models,
        brier_of(given_out, came),
        log_loss(np.where(came == 1, given_out, 1.0 - given_out)) if n else math.nan,
        regret_bound((1.0 - TRACKING_PRIOR) / len(names), most_late),
        float(((given_out - came) ** 2 - (mixed - came) ** 2).sum()),
        float(certificates[-1]),
        guarantee,
        len(rows) - n,
        tuple(remarks),
    )
    settled = np.searchsorted(settling.known, np.arange(1, len(rows) + 1), side="right")
    result = CombinedForecasts(like(given, out), weights, names, certificates[settled], guarantee)
    return result._with(report=report, rows=rows, slack=slack, played=together)


def brier_of(forecasts: Floats, outcomes: Ints) -> float:
    """The mean squared error of forecasts of outcomes, both (n,); NaN of none."""
    return float(((forecasts - outcomes) ** 2).mean()) if len(outcomes) else math.nan


class Mixture(Restored):
    """What makes calibrated forecasts of one label of N models' probabilities, round by round."""

    def __init__(self, n_models: int, slack: float | None) -> None:
        self.n_models = n_models
        self.state = new_combining(n_models)
        self.projection = new_projection(slack)

    def ask(self, said: list[float]) -> float:
        """Forecast the label from what the models say of it, NaN where one says nothing."""
        return self.projection.ask(combining.ask(self.state, np.array(said)))

    def settle(self, outcome: int) -> None:
        """Charge the forecast that is here, and learn to combine."""
        self.projection.settle(outcome)
        combining.settle(self.state, self.n_models, outcome)

    def learn_alone(self, said: list[float], outcome: int) -> None:
        """Learn to combine from what models said to features that nobody asked about."""
        combining.ask(self.state, np.array(said))
        combining.settle(self.state, self.n_models, outcome)

    def take(self) -> tuple[Floats, Ticket]:
        """A copy of the forecast that is here, to wait for its label."""
        return self.state[: combining.ticket_size(self.n_models)].copy(), self.projection.ticket()

    def present(self, forecast: tuple[Floats, Ticket]) -> None:
        """Put a forecast that waited back in its place, to be settled next."""
        models, ticket = forecast
        self.state[: len(models)] = models
        self.projection.present(ticket)

    def weights(self) -> list[float]:
        """How much each model counted in the forecast that is here."""
        weights = np.empty(self.n_models)
        combining.weights_of(self.state, weights)
        return [float(weight) for weight in weights]


class CombinedForecast(NamedTuple):
    """A round whose label has not come: the label that is forecast, and those that the answer names.

    For an answer that names a single label nothing was asked, and there is no ticket.
    """

    event: Label
    names: tuple[Label, ...]
    probability: float
    ticket: tuple[Floats, Ticket] | None = None


class CombinedClassifier(RoundsOfOneLabel[CombinedForecast], base.Classifier):
    """Several classifiers of two labels as one whose probabilities are calibrated, with a proof.

    All learn every label. Each one's probabilities are corrected by the labels that followed similar ones so
    far. All are then mixed by weights that follow the best of them and by what they know together, and the
    mixture is moved to the nearest forecast that stays calibrated on any labels. A model whose answer is
    empty is left out of that round. Labels may come late: `learn_one` finds their forecasts by equal
    features, `observe` by the tokens that `forecast` gave.

    Parameters
    ----------
    classifiers
        A list of 2 to 100 different river classifiers that answer with probabilities. This one lets them
        learn, so give each to one wrapper only.
    slack
        How far forecast minus outcome, added up over the rounds with the same forecast, may be from 0: more
        slack follows the mixture more closely, for a weaker guarantee. From 0.5 to 1000; None: 1.5, more as
        more labels are late at once.
    most_waiting
        How many forecasts may wait for their labels, at least 1; beyond that the oldest are given up.
    classes
        The two labels, if they are known beforehand: the second is the positive one. None: labels are
        discovered as they come.

    Attributes
    ----------
    n_rounds
        Settled rounds: labels whose forecast had been given.
    n_unmatched
        Labels that came without their forecast.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    Notes
    -----
    The forecast is that of the positive label (True, or 1, or the greater of two numbers, or the first label
    that came). Until both labels are known an answer may name one alone, with probability 1: if the other one
    comes, the certificate grows by 1. An empty answer is no forecast: its label counts in `n_unmatched`, and
    in no certificate.

    Examples
    --------
    >>> from river import datasets, linear_model, naive_bayes, preprocessing
    >>> from onlinecal import CombinedClassifier
    >>> logistic = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    >>> model = CombinedClassifier([logistic, naive_bayes.GaussianNB()])
    >>> for x, y in datasets.Phishing():
    ...     p = model.predict_proba_one(x)
    ...     model.learn_one(x, y)
    >>> model.n_rounds, len(model.weights)
    (1250, 2)
    >>> model.certificate / model.n_rounds < 0.06
    True

    References
    ----------
    docs/theory.md, Theorem 17g.
    """

    def __init__(
        self,
        classifiers: Sequence[base.Classifier],
        *,
        slack: float | None = None,
        most_waiting: int = MOST_WAITING,
        classes: Sequence[Label] | None = None,
    ) -> None:
        if isinstance(classifiers, (str, bytes, dict)) or not hasattr(classifiers, "__len__"):
            raise ValueError(
                f"classifiers must be a list of river classifiers, got {type(classifiers).__name__}: write "
                "CombinedClassifier([one, other])"
            )
        check_models(len(classifiers), "classifiers")
        declared = () if classes is None else check_pair(classes)
        for place, model in enumerate(classifiers):
            check_classifier(model, f"classifiers[{place}]")
        first: dict[int, int] = {}
        for place, model in enumerate(classifiers):
            if first.setdefault(id(model), place) < place:
                raise ValueError(
                    "classifiers must be different objects, got the same at places "
                    f"{first[id(model)]} and {place}: it would learn twice. Give a copy, as model.clone()"
                )
        if slack is not None:
            check_slack(slack)
        super().__init__(most_waiting)
        self.classifiers, self.slack, self.classes = classifiers, slack, classes
        self._labels = Labels(declared)
        self._mixtures: dict[Label, Mixture] = {}
        """By the label that is forecast: which one that is may change with the first labels."""
        self._n_surprises = 0
        """Rounds whose answer named more than two labels, or not the one that came: each counts in full."""

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {"classifiers": [linear_model.LogisticRegression(), naive_bayes.GaussianNB()]}

    def clone(self, new_params: dict[str, Any] | None = None, include_attributes: bool = False) -> Self:
        """A new CombinedClassifier with the same parameters, which has learnt nothing.

        This one stays as it is. Its models are fresh, too, each made by the model's own method `clone`. A
        model without that method is copied with what it has learnt: then give fresh ones as
        `new_params={"classifiers": [...]}`.

        Parameters
        ----------
        new_params
            Values by the names of parameters, of which copies replace those of this object. None: all stay.
        include_attributes
            True: the new one also has a copy of what this one has learnt beside its models: rounds, open ones
            too, labels, certificates, and how to combine. False: nothing of it.

        Raises
        ------
        ValueError
            For a bad value in `new_params`. A name that is no parameter raises TypeError.
        """
        fresh = [
            model.clone() if hasattr(model, "clone") else copy.deepcopy(model) for model in self.classifiers
        ]
        return super().clone({"classifiers": fresh, **(new_params or {})}, include_attributes)

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Calibrated probabilities of the two labels for the features x, by label; they sum to 1.

        A label that is known alone has 1. Before the first label has come, and without `classes`, the dict is
        empty, unless the models name False and True, or 0 and 1, and nothing else.

        Asking, by `predict_one` too, opens a round, which the label of equal features settles in `learn_one`.
        Asking about the very same object again, with nothing else asked in between, answers for the same
        round anew: the last answer counts. Nothing is learnt. Keywords go to each of the models. Raises
        ValueError if one of them answers with something else than numbers by label.
        """
        answers = [
            read_numbers(model.predict_proba_one(x, **kwargs), place)
            for place, model in enumerate(self.classifiers)
        ]
        self._open(x)
        names, event, said = self._question(answers)
        self._is_empty = not names
        if len(names) < 2:
            self._here = CombinedForecast(names[0], names, 1.0) if names else None
            return dict.fromkeys(names, 1.0)
        p = self._mixture(event).ask(said)
        self._here = CombinedForecast(event, names, p)
        return over(names, event, p)

    @property
    def weights(self) -> list[float]:
        """How much each classifier counted in the round that was asked about or settled last.

        A list of numbers from 0 to 1 with sum 1, in the order of `classifiers`. All are 0 if none of the
        models answered, and before the first round that named two labels.
        """
        if not self._mixtures:
            return [0.0] * len(self.classifiers)
        return next(reversed(self._mixtures.values())).weights()

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration so far, a sum over the settled rounds.

        The distance is of the positive label's probabilities, as they were given in the answers.
        """
        return self._n_surprises + in_turn(
            mixture.projection.certificate for mixture in self._mixtures.values()
        )

    @property
    def guarantee(self) -> float:
        """What `certificate` cannot exceed, whatever the labels: a sum over the settled rounds.

        It includes what the largest number of forecasts that waited at once may cost.
        """
        return self._n_surprises + in_turn(
            mixture.projection.guarantee for mixture in self._mixtures.values()
        )

    def _mixture(self, event: Label) -> Mixture:
        if event not in self._mixtures:
            self._mixtures[event] = Mixture(len(self.classifiers), self.slack)
        return self._mixtures[event]

    def _question(self, answers: list[Mapping[Label, float]]) -> tuple[tuple[Label, ...], Label, list[float]]:
        """Over which labels one is forecast, which one, and what each model says of it, NaN for nothing."""
        labels = self._labels
        if labels.pair is not None:
            said = [labels.read(answer) if answer else math.nan for answer in answers]
            return labels.pair, labels.pair[1], said
        answers = [labels.named(answer) for answer in answers]
        names = labels.names({label: p for answer in answers for label, p in answer.items()})
        event = labels.event(names) if len(names) > 1 else None
        return names, event, [labels.probability(event, answer) if answer else math.nan for answer in answers]

    def _read(self, y: Any) -> Label:
        label, pair = self._labels.read_label(y), self._labels.pair
        if pair is not None and label not in pair:
            raise ValueError(
                f"y must be one of the two labels {pair!r}, got {y!r}: for more labels wrap one model in "
                "CalibratedClassifier"
            )
        return label

    def _settle(self, read: Label) -> None:
        round_here, self._here = self._here, None
        assert round_here is not None
        self._labels.meet(read)
        event, names, _, _ = round_here
        if len(names) == 2 and read in names:
            self._mixture(event).settle(int(read == event))
        else:
            # of three names the one that is forecast may turn out to be none of the two labels
            self._n_surprises += len(names) > 2 or read not in names

    def _says(self, x: Any) -> list[Mapping[Label, float]]:
        return [
            read_numbers(model.predict_proba_one(x), place) for place, model in enumerate(self.classifiers)
        ]

    def _learn_alone(self, said: list[Mapping[Label, float]] | None, read: Label) -> None:
        """Learn to combine, by what the models said."""
        self._make_way()
        self._labels.meet(read)
        names, event, said_of_it = self._question(said or [])
        if said and any(said) and len(names) > 1:
            self._mixture(event).learn_alone(said_of_it, int(read == event))

    def _teach(self, x: Any, y: Any, kwargs: dict[str, Any]) -> None:
        for model in self.classifiers:
            model.learn_one(x, y, **kwargs)

    def _take(self) -> CombinedForecast | None:
        round_here = super()._take()
        if round_here is None or len(round_here.names) < 2:
            return round_here
        return round_here._replace(ticket=self._mixture(round_here.event).take())

    def _present(self, forecast: CombinedForecast) -> None:
        super()._present(forecast)
        if forecast.ticket is not None:
            self._mixture(forecast.event).present(forecast.ticket)

    def _note_late(self, others: int) -> None:
        for mixture in self._mixtures.values():
            mixture.projection.note_late(others)
