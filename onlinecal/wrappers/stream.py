"""Columns of probabilities and one of outcomes: better probabilities, with a proof, in one call.

Everything here is made for one call: no state is kept from one to the next, and a report never changes. A
column is read and checked whole before the first row is played. The rows of each group are then played as a
wrapper would play them, in the order of their forecasts, and outcomes in the order of `settling.py`.

The fields of `Recalibration` and of `Played`, under these names, are saved with a column
(`columns/growing.py`). `tests/corpus` keeps what columns and tables answer, to the last bit; certificates of
several groups are added up in long doubles, so that those of a single group come out as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.arrays import Floats, Ints
from onlinecal.elementary import in_turn
from onlinecal.remarks import unlearnt_remarks, warn_of
from onlinecal.tables.columns import check_same_index
from onlinecal.tables.frames import like
from onlinecal.texts import shown
from onlinecal.validation import as_whole
from onlinecal.wrappers.columns.growing import Growing, is_empty
from onlinecal.wrappers.columns.kept_rows import Arrays, check_plain
from onlinecal.wrappers.columns.reading import Classes, read_stream
from onlinecal.wrappers.columns.reports import OF_ONE, StreamReport, reports_of
from onlinecal.wrappers.columns.rows import NEVER, Missing, Rows, check_missing, read_ids
from onlinecal.wrappers.labels import Labels, Prior, corrected_rows, prior_weights
from onlinecal.wrappers.settling import read_keys, read_moments
from onlinecal.wrappers.strategies.binary import Binary
from onlinecal.wrappers.strategies.choice import (
    KINDS,
    StrategyName,
    check_settings,
    chosen,
    warn_if_empty,
)
from onlinecal.wrappers.strategies.strategy import Settings, Strategy


@dataclass(frozen=True, eq=False)
class Recalibration:
    """How the rows of a column are recalibrated, whichever and however many there are."""

    classes: Classes
    absent: int
    """The number of the class that silence means."""
    kind: str
    """The strategy's name."""
    slack: float | None
    horizon: int | None
    weights: list[float] | None
    """What `prior` multiplies the probability of each class by."""

    def new_strategy(self) -> Strategy:
        """What forecasts a group."""
        return KINDS[self.kind](Settings(Labels(self.classes.names), self.slack, 1, self.horizon))

    @property
    def norm(self) -> str:
        """What certificates are of."""
        return OF_ONE if self.classes.is_column else KINDS[self.kind].norm

    def asked(self, rows: Rows) -> Floats:
        """The probabilities that are steered: those of the rows, or what `prior` makes of them."""
        return rows.table if self.weights is None else corrected_rows(rows.table, np.array(self.weights))

    def came(self, rows: Rows) -> Ints:
        """The number of what each row was settled as, shape (T,)."""
        return np.where(rows.settling.silent, self.absent, rows.numbers)


@dataclass(frozen=True, eq=False)
class RecalibratedStream(Growing):
    """What `recalibrate_stream` made of T rows of probabilities; it never changes.

    Attributes
    ----------
    probabilities
        The recalibrated probabilities, float64, of the shape that was given, (T,) of outcome 1 or (T, k) of k
        classes: a Series or DataFrame of pandas, polars or another library if such were given (with index and
        names), else, and after `extend`, `observe` and `load`, a numpy array.
    certificate
        Shape (T,): entry t is a proven upper bound on the distance to calibration of `probabilities` in the
        rows whose outcomes counted before row t + 1 was forecast, a sum over these; the last entry is of all
        settled rows. With groups the groups' bounds are added up. `report().norm` says in words what the
        distance is of: of a column the probability of outcome 1; of a table, by strategy, the probability of
        each class, added up ("classwise"), all of them as a vector, differences added up ("simplex"), the
        second class ("binary"), the greatest of each row ("top-label"), or halves of the classes ("tree").
    guarantee
        What the last certificate could not exceed, whatever the outcomes: a sum over settled rows, of groups
        added up. Of two outcomes, with a `horizon` that is still to come, it is the bound at the horizon. How
        far "classwise" and "top-label" moved probabilities to make rows with sum 1 is added as it was.

    Examples
    --------
    >>> from onlinecal import recalibrate_stream
    >>> monday = recalibrate_stream([0.8, 0.3, 0.6], [1, 0, None], missing="later")
    >>> tuesday = monday.observe([2], [1]).extend([0.7, 0.4])
    >>> tuesday.probabilities.shape, tuesday.report().n_rounds
    ((5,), 3)
    """

    probabilities: Any
    certificate: Floats
    guarantee: float
    _report: StreamReport = field(init=False, repr=False)
    _by_group: Callable[[], dict[Any, StreamReport]] | None = field(init=False, repr=False)
    _rows: Rows = field(init=False, repr=False)
    _how: Recalibration = field(init=False, repr=False)
    _played: Played = field(init=False, repr=False)

    _KEPT_AS = "a recalibrated column"

    def report(self) -> StreamReport:
        """Scores before and after, remarks and what is proven, as a `StreamReport`.

        It is of the rows that are settled so far, by an outcome or as absent; with groups also of each group.
        """
        return self._whole_report

    @cached_property
    def _whole_report(self) -> StreamReport:
        """It is made when it is first asked for: there may be many groups."""
        return self._report if self._by_group is None else replace(self._report, groups=self._by_group())

    def extend(
        self,
        probabilities: ArrayLike,
        outcomes: ArrayLike | None = None,
        *,
        settled_at: ArrayLike | None = None,
        times: ArrayLike | None = None,
        due: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        ids: ArrayLike | None = None,
    ) -> Self:
        """A new result with n more rows, forecast after all others. This one stays as it is.

        Parameters
        ----------
        probabilities
            Shape (n,), of outcome 1, or (n, k), of the same k classes in the same order, as earlier rows have
            it; columns of a DataFrame must have the same names.
        outcomes
            Shape (n,): 0, 1 or boolean; of a table numbers of classes, 0, ..., k-1, or their names. None, NaN
            or masked where none has come. None: in no row.
        settled_at
            Shape (n,): when each outcome became known: times like `times`, or without `times` row numbers,
            counted from 0 over all rows, the earlier ones included. None: each outcome is known to the next
            row's forecast; with `times` (and without `due`) it must be given if an outcome has come.
        times, groups, ids
            Shape (n,): when the forecasts were made, keys of groups, and names of the rows for `observe`.
            Each is given if earlier rows have it, and only then.
        due
            Shape (n,): when each row is due. It is given if earlier rows have such times; a span that was
            given for them holds on, and `due` is left out.

        Returns
        -------
        RecalibratedStream
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
        if is_empty(probabilities):
            return self
        given = outcomes, settled_at, times, due, groups, ids
        new, _ = _read(probabilities, *given, self._how.classes, self._rows.later)
        return self._continued(self._rows.followed_by(new))

    def _numbers_of(self, outcomes: Any) -> Ints:
        return self._how.classes.numbers_of(outcomes)

    def _play(self, rows: Rows) -> Self:
        after = _made(self._how, rows, _play(self._how, rows))
        warn_of(after._report.remarks)
        return after  # type: ignore[return-value]

    def _settings(self) -> dict[str, Any]:
        classes = self._how.classes._replace(names=check_plain(self._how.classes.names, "classes"))
        return {**vars(self._how), "classes": classes._asdict()}

    @classmethod
    def _restored(cls, settings: dict[str, Any], rows: Rows, answers: Arrays) -> Self:
        how = Recalibration(**{**settings, "classes": Classes(**settings["classes"])})
        return _made(how, rows, Played(*(answers[name] for name in Played._fields)))  # type: ignore[return-value]


def recalibrate_stream(
    probabilities: ArrayLike,
    outcomes: ArrayLike,
    *,
    settled_at: ArrayLike | None = None,
    times: ArrayLike | None = None,
    due: Any = None,
    absent: Hashable = None,
    prior: Prior | None = None,
    groups: ArrayLike | None = None,
    ids: ArrayLike | None = None,
    missing: Missing = NEVER,
    strategy: StrategyName = "auto",
    slack: float | None = None,
    horizon: int | None = None,
) -> RecalibratedStream:
    """Make columns of probabilities better, row by row: each by outcomes known before it, none by its own.

    Each probability is first corrected by the outcomes that followed similar ones so far ("steered"), then
    moved to the nearest forecast that stays calibrated on any outcomes, with a running certificate. They are
    the forecasts of a `CalibratedClassifier` around a model with these probabilities that was told all
    `classes`. A LabelWarning says each remark of the report, as that the recalibrated probabilities score
    worse than the given ones, or than the best constant.

    Parameters
    ----------
    probabilities
        Each made before its outcome, in the order in which they were made. Shape (T,), of outcome 1: a numpy
        array, a list, a Series. Or a table of shape (T, k), of k >= 2 classes, each row with sum 1 (up to
        1e-6): an array, a list of rows, or a DataFrame, the names of whose columns are the classes.
    outcomes
        Shape (T,), each 0 or 1 or boolean; of a table, numbers of classes 0, ..., k-1 or names of columns
        (names only if some are numbers, but not 0, ..., k-1). Rows are matched by position; columns of
        pandas must have the index of the probabilities. None, NaN, null or masked where none has come: such a
        row is forecast, and settled when it is `due`, or else as `missing` says.
    settled_at
        Shape (T,): when each outcome became known. Row numbers, from 0: forecasts of later rows know it. Or,
        with `times`, times: forecasts made later than that know it. Rows that share an outcome, as those of
        one match do, must also share when it became known, or it leaks into their forecasts. None: each
        outcome is known to the next row's forecast. Of rows without outcome it need not say anything.
    times
        Shape (T,), never decreasing: when each forecast was made, in the units of `settled_at` and `due`.
        Numbers, dates, datetimes, spans or texts of ISO 8601; what can be read in two ways is refused. None:
        forecasts are counted. It needs `settled_at` or `due`; with missing="later" only once an outcome has
        come.
    due
        When each row is settled: with its outcome, if that has come by then, else with `absent`. An outcome
        that came earlier waits until its row is due, and one that comes later does not count. So rows whose
        outcomes are reported soon do not count more than those of which only silence tells. A time, or
        without `times` a row number, for each row, shape (T,); or one span after each row's forecast: a
        number, of rows if there are no `times`, or a timedelta. Rows are open until a later forecast or
        outcome shows that their time is over. None: rows are settled when their outcome comes, and `missing`
        says what becomes of the others.
    absent
        The outcome that silence means: 0 by default, or 1; of a table a class, which must be named.
    prior
        A pair: the share of outcome 1 in the table that the model was trained on, and in this stream, as
        (0.5, 0.01), if they are known to differ, since rows were left out, repeated or weighted before
        training. (Weights change a model's probabilities so only if it was trained to the end, and not in
        boosting that is stopped early.) Of a table of classes each is a dict with the share of every class.
        The odds are put right before anything is learnt. The report has scores of the corrected
        probabilities, and a remark if their mean is far from what came. None: nothing is put right.
    groups
        Shape (T,): a key for each row; each key has a forecaster of its own. None: one for all rows.
    ids
        Shape (T,): whole numbers or texts by which `RecalibratedStream.observe` knows the rows, no two alike.
        None: they are known by their numbers, from 0.
    missing
        What becomes of a row without outcome where nothing is `due`. "never": it is given up as soon as it is
        forecast, and costs no guarantee. "later": it stays open, and `observe` may tell its outcome.
    strategy
        What of a table is calibrated: "binary", the probability of the second of two classes; "classwise",
        that of each class; "simplex", all as a vector, for few classes; "top-label", the greatest of each
        row; "tree", halves of the classes, for many. "auto": binary for two classes, classwise for up to
        ten, top-label for more; with a horizon and more than two it may be simplex or tree, see
        `CalibratedClassifier`. A column takes "auto" or "binary".
    slack
        How far forecast minus outcome, added up over the rows with the same forecast, may be from 0: more
        slack follows the given probabilities more closely, for a weaker guarantee. From 0.5 to 1000; None:
        1.5, more as more outcomes are late at once, 1 with a horizon, and 4 for "simplex".
    horizon
        How many rows each group will have, if known, at least 1: the guarantee is then smaller. None:
        unknown.

    Returns
    -------
    RecalibratedStream
        The forecasts, the certificate after each row, the guarantee and a report.

    Raises
    ------
    ValueError
        For bad columns, settings, or columns that do not go together; the message names the argument, the
        value and its row, counted from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinecal import recalibrate_stream
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> result = recalibrate_stream(p, rng.random(5000) < p**2)
    >>> report = result.report()
    >>> bool(report.brier_out < report.brier_in - 0.02)
    True
    >>> bool(result.certificate[-1] <= result.guarantee)
    True

    References
    ----------
    docs/theory.md, sections 2 to 6; docs/theory-simplex.md.
    """
    if due is None and absent is not None:
        raise ValueError(
            f"absent={shown(absent)} needs due, when a missing outcome counts as absent, got None: give due, "
            "or leave absent out"
        )
    later = check_missing(missing)
    rows, classes = _read(probabilities, outcomes, settled_at, times, due, groups, ids, None, later)
    silence = classes.silence(absent)
    if due is not None and absent is None and not classes.is_column:
        raise ValueError(
            f"absent must be one of the classes {list(classes.names)} where due is given, got None: name the "
            "class that silence means"
        )
    check_settings(slack, 1, strategy, horizon)
    horizon = as_whole(horizon)
    settings = Settings(Labels(classes.names), slack, 1, horizon)
    k = len(classes.names)
    kind = chosen(strategy, k, lambda name: KINDS[name](settings), None, horizon)
    warn_if_empty(KINDS[kind](settings), k, horizon)
    if classes.is_column and kind != Binary.name:
        raise ValueError(
            f"strategy {strategy!r} is for probabilities of shape (T, k), got a column of them: "
            "use 'auto', or give each class a column"
        )
    if kind == Binary.name and k > 2:
        raise ValueError(
            f"strategy {strategy!r} is for two classes, got probabilities of {k}: use 'auto', 'classwise', "
            "'simplex', 'top-label' or 'tree'"
        )
    weights = None if prior is None else prior_weights(prior, classes.names).tolist()
    how = Recalibration(classes, silence, kind, slack, horizon, weights)
    result = _made(how, rows, _play(how, rows), probabilities)
    warn_of(result._report.remarks)
    return result


def _read(
    probabilities: Any,
    outcomes: Any,
    settled_at: Any,
    times: Any,
    due: Any,
    groups: Any,
    ids: Any,
    expected: Classes | None,
    later: bool,
) -> tuple[Rows, Classes]:
    """The rows as users give them, see `recalibrate_stream`; `expected` are the classes of earlier rows."""
    named = {
        "outcomes": outcomes,
        "settled_at": settled_at,
        "times": times,
        "due": due,
        "groups": groups,
        "ids": ids,
    }
    for name, column in named.items():
        check_same_index(probabilities, column, f"probabilities and {name}")
    read = read_stream(probabilities, outcomes, expected)
    length = len(read.table)
    moments = read_moments(length, settled_at, times, due)
    keys = None if groups is None else read_keys(groups, length)
    numbered = None if ids is None else read_ids(ids, length)
    return Rows(read.table, read.numbers, read.missing, moments, keys, numbered, later), read.classes


class Played(NamedTuple):
    """What came of the rows."""

    forecasts: Floats
    """Shape (T, k)."""
    running: Floats
    """The certificate after each row, shape (T,)."""
    bounds: Floats
    """By group the certificate and the guarantee, shape (G, 2)."""


def _play(how: Recalibration, rows: Rows) -> Played:
    """Forecast all rows, each by what was known before it."""
    asked, came, bounds = how.asked(rows), how.came(rows), []
    out, jumps = np.empty_like(asked), np.zeros(len(rows), np.longdouble)
    for part in rows.parts:
        strategy = how.new_strategy()
        tapes = strategy.replay(asked[part.rows], came[part.rows], part.schedule)
        out[part.rows] = tapes.forecasts
        # sums of differences of doubles: in more digits, so that of one group they are its certificates again
        rises = np.diff(tapes.certificates.astype(np.longdouble), prepend=0.0)
        np.add.at(jumps, part.known - 1, rises)
        proven = list(strategy.bounded())
        certificate = in_turn(bound.certificate for bound in proven)
        bounds.append((certificate, in_turn(bound.guarantee for bound in proven)))
    return Played(out, np.cumsum(jumps).astype(np.float64), np.array(bounds))


def _made(how: Recalibration, rows: Rows, played: Played, given: Any = None) -> RecalibratedStream:
    """The result for users; forecasts are of the library that the `given` probabilities are of."""
    bounds = [(float(certificate), float(guarantee)) for certificate, guarantee in played.bounds]
    certificate, guarantee = (float(in_turn(each)) for each in zip(*bounds, strict=True))
    corrected = None if how.weights is None else how.asked(rows)
    reports = partial(reports_of, rows, how.came(rows), how.classes, corrected, played.forecasts, how.norm)
    report = reports({None: np.arange(len(rows))}, [(certificate, guarantee)])[None]
    if rows.moments.came is not None:
        unlearnt = unlearnt_remarks(rows.settling.known, len(rows), "settled_at")
        report = replace(report, remarks=(*unlearnt, *report.remarks))
    forecasts = played.forecasts[:, 1].copy() if how.classes.is_column else played.forecasts
    streams = {part.key: part.rows for part in rows.parts}
    by_group = None if rows.groups is None else partial(reports, streams, bounds)
    result = RecalibratedStream(like(given, forecasts), played.running, guarantee)
    return result._with(report=report, by_group=by_group, rows=rows, how=how, played=played)
