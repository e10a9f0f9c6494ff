"""Loss tables of decision makers: random ones, ones who may refrain, and tables with names from a file.

A loss table has one row per action and one column per class, shape (K, C): l[a, c] is the loss of action a
when the class is c. A family is a stack of tables, (n_losses, K, C). A `LossTable` is checked when it is made
and never changes.

Equal seeds give equal tables, so the order in which numbers are drawn may not change. What `write_csv`
writes, `read_csv` reads: it refuses names that would come back as others.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.decision.errors import decision_loss_gap
from onlinecal.measures.decision.losses import DecisionLosses, bayes_decisions, check_losses, decision_losses
from onlinecal.texts import counted
from onlinecal.validation import check_count, check_numbers, seed_sequence

REFRAIN_COSTS = tuple(np.linspace(0.05, 0.95, 19).round(2).tolist())
PRICES = (1.1, 1.5, 2.0, 4.0)


def gaussian_losses(n_actions: int, n_classes: int, n_losses: int = 500, random_state: int = 0) -> Floats:
    """Loss tables of standard normal random numbers, shape (n_losses, K, C), as in the paper's experiments.

    There are `n_losses` tables of K = `n_actions` rows and C = `n_classes` columns, each count at least 1;
    the loss of action a when the class is c is at [loss, a, c]. The same `random_state`, a whole number from
    0 on, gives the same tables. The paper is Zhao, Kim, Sahoo, Ma & Ermon, "Calibrating Predictions to
    Decisions" (2021).

    Raises
    ------
    ValueError
        A count below 1, or a bad random_state.
    """
    sizes = {"n_losses": n_losses, "n_actions": n_actions, "n_classes": n_classes}
    shape = [check_count(size, name) for name, size in sizes.items()]
    seed = seed_sequence(random_state, name="random_state")
    return np.random.default_rng(seed).standard_normal(shape)


def refrain_losses(n_classes: int, costs: ArrayLike = REFRAIN_COSTS) -> Floats:
    """Loss tables for naming a class or saying "I do not know" at a price, shape (len(costs), C + 1, C).

    C is `n_classes`; `costs` are the prices of not answering, shape (m,), each in [0, 1]. There is a table
    for each price, in their order, with the loss of action a when the class is c at [a, c]. Action a < C
    names class a: loss 0 if it is right, 1 if not. Action C refrains: its loss is the price. Probabilities
    are confidence calibrated (the largest is right as often as it says) exactly if no such table, for any
    price in [0, 1], has a gap between expected and true loss. It is L_r in Zhao, Kim, Sahoo, Ma & Ermon
    (2021).

    Raises
    ------
    ValueError
        A number of classes below 1, no cost at all, or a cost outside [0, 1].
    """
    n_classes = check_count(n_classes, "n_classes")
    prices = np.array(check_numbers(costs, "costs"), np.float64)
    bad = ~((prices >= 0.0) & (prices <= 1.0))
    if bad.any():
        place = int(bad.argmax())
        raise ValueError(f"costs must lie in [0, 1], got {float(prices[place])!r} at place {place}")
    naming = np.broadcast_to(1.0 - np.eye(n_classes), (len(prices), n_classes, n_classes))
    refraining = np.broadcast_to(prices[:, None, None], (len(prices), 1, n_classes))
    return np.concatenate([naming, refraining], axis=1)


def classwise_losses(n_classes: int, false_alarms: ArrayLike = PRICES, misses: ArrayLike = PRICES) -> Floats:
    """Loss tables for saying yes or no about one class, or refraining at price 1; shape (C A B, 3, C).

    C is `n_classes`; `false_alarms` and `misses` are the prices of the two errors, shapes (A,) and (B,).
    There is a table for each class c, false alarm's price and miss's price, in the order of classes, then of
    false alarms, then of misses. Its action 0 (yes) costs the false alarm's price when the class is not c,
    action 1 (no) the miss's price when it is c, and action 2 always 1; all else costs 0. Probabilities are
    classwise calibrated (each class comes as often as its probability says) exactly if no such table, for any
    prices, has a gap between expected and true loss.

    It is L_cr in appendix C of Zhao, Kim, Sahoo, Ma & Ermon (2021); their Table 1 has "y = c" and "y != c"
    exchanged.

    Raises
    ------
    ValueError
        A number of classes below 1, or prices that are none or not finite.
    """
    n_classes = check_count(n_classes, "n_classes")
    alarms, missed = check_numbers(false_alarms, "false_alarms"), check_numbers(misses, "misses")
    is_class = np.eye(n_classes)[:, None, None, :]
    shape = (n_classes, len(alarms), len(missed), n_classes)
    yes = np.broadcast_to(np.array(alarms)[None, :, None, None] * (1.0 - is_class), shape)
    no = np.broadcast_to(np.array(missed)[None, None, :, None] * is_class, shape)
    return np.stack([yes, no, np.ones(shape)], axis=3).reshape(-1, 3, n_classes)


@dataclass(frozen=True, eq=False)
class LossTable:
    """A decision maker: what each action costs if each class comes, with names.

    Attributes
    ----------
    values
        The loss of action a when the class is c, at [a, c]: shape (K, C), finite, float64.
    actions
        Names of the rows, a tuple; "action 0", "action 1", ... by default.
    classes
        Names of the columns, a tuple; the texts "0", "1", ... by default.

    Raises
    ------
    ValueError
        If the values are not a finite table (K, C), or names repeat or are not as many as rows or columns.

    Examples
    --------
    >>> clinic = LossTable([[0.2, 0.2], [0.0, 1.0]], actions=("treat", "wait"), classes=("well", "ill"))
    >>> [clinic.actions[a] for a in clinic.decide([[0.9, 0.1], [0.5, 0.5]])]
    ['wait', 'treat']
    """

    values: Floats
    actions: Sequence[str] = ()
    classes: Sequence[str] = ()

    def __post_init__(self) -> None:
        shape = np.shape(self.values)
        if len(shape) != 2:
            raise ValueError(f"values must be a table (actions, classes), got shape {shape}")
        object.__setattr__(self, "values", check_losses(self.values, shape[1], "values")[0])
        defaults = (f"action {a}" for a in range(shape[0])), map(str, range(shape[1]))
        for name, default, count in zip(("actions", "classes"), defaults, shape, strict=True):
            names = tuple(getattr(self, name)) or tuple(default)
            if len(names) != count:
                raise ValueError(
                    f"{name} must be {count} names, as values have shape {shape}, got {len(names)}"
                )
            if len(set(names)) != count:
                raise ValueError(
                    f"{name} must differ, got {next(x for x in names if names.count(x) > 1)!r} twice"
                )
            object.__setattr__(self, name, names)

    def decide(self, probabilities: ArrayLike) -> Ints:
        """The action with the least expected loss for each row of class probabilities, shape (n, C).

        Returns the actions' numbers from 0, integers of shape (n,), which are places in `actions`; of equal
        losses the first. Raises ValueError for bad probabilities, or another number of columns than
        `classes`.
        """
        return bayes_decisions(probabilities, self.values)

    def losses(self, probabilities: ArrayLike, labels: ArrayLike) -> DecisionLosses:
        """The average loss over rows of the decisions of `decide`: as predicted, and with labels that came.

        `probabilities` have shape (n, C), `labels` are class numbers 0..C-1, places in `classes`, shape (n,).
        Returns a `DecisionLosses` with two arrays of shape (1,): `predicted`, the expected loss by the
        probabilities, and `true`, the loss with the labels. Raises ValueError for bad arguments.
        """
        return decision_losses(probabilities, labels, self.values)

    def gap(self, probabilities: ArrayLike, labels: ArrayLike) -> float:
        """How far the decisions' expected loss is from the loss that came, relative to the size of the table.

        `probabilities` have shape (n, C), `labels` are class numbers 0..C-1, shape (n,). Each row's action is
        the one with the least expected loss. Returns a float of at least 0: the difference of both average
        losses over rows, divided by the largest l2 norm of an action's losses; 0 for a table of zeros. Raises
        ValueError for bad arguments.
        """
        return float(decision_loss_gap(probabilities, labels, self.values)[0])

    def write_csv(self, path: str | Path) -> None:
        """Write the table to the file `path`, which is replaced if it exists.

        The first line has the names of the classes. Then each action has a line with its name and losses.

        Raises
        ------
        ValueError
            For a name that `read_csv` would not give back: of an action that begins with `#`, as comments do,
            or of an action or class that is no text, or has spaces around it.
        OSError
            If the file cannot be written.
        """
        for name in (*self.actions, *self.classes):
            is_text = isinstance(name, str)
            if not is_text or name != name.strip() or (name.startswith("#") and name in self.actions):
                raise ValueError(
                    "names must be texts without spaces around them, and those of actions without # in "
                    f"front, or read_csv would not give them back, got {name!r}: change it"
                )
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["action", *self.classes])
            for action, row in zip(self.actions, self.values.tolist(), strict=True):
                writer.writerow([action, *row])

    @classmethod
    def read_csv(cls, path: str | Path) -> LossTable:
        """A table from the CSV file `path`, as `write_csv` writes it; lines that begin with # are left out.

        The first line has any first cell and then the names of the classes; each further line the name of an
        action and its loss for each class. Spaces around names are left out.

        Raises
        ------
        ValueError
            For a loss that is not a finite number, a line of another length, a name of a class or an action
            that comes twice, or what is no CSV in UTF-8: the error names the file and the line, from 1. For a
            file without classes or actions, it names the file.
        OSError
            If the file cannot be read.
        """
        data = Path(path).read_bytes()
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise ValueError(
                f"{path}, line {line}: must be UTF-8, got bytes that are not: save it as UTF-8"
            ) from error
        reader = csv.reader(io.StringIO(text, newline=""))
        try:
            lines = [(reader.line_num, cells) for cells in reader if cells and not cells[0].startswith("#")]
        except csv.Error as error:
            raise ValueError(f"{path}, line {reader.line_num}: must be CSV, {error}") from error
        if len(lines) < 2 or len(lines[0][1]) < 2:
            raise ValueError(
                f"{path} must have a line of classes, as action,well,ill, and at least one line of losses "
                f"below it, got {counted(len(lines), 'line')} in all"
            )
        (first, (_, *header)), *rest = lines
        classes = list[str]()
        for name in header:
            _add_name(classes, name, "classes", f"{path}, line {first}")
        actions, values = list[str](), []
        for number, (action, *cells) in rest:
            where = f"{path}, line {number}"
            if len(cells) != len(classes):
                raise ValueError(f"{where}: must have {len(classes)} losses, one a class, got {len(cells)}")
            _add_name(actions, action, "actions", where)
            values.append([_number(cell, where) for cell in cells])
        return cls(np.array(values), tuple(actions), tuple(classes))


def _add_name(names: list[str], cell: str, kind: str, where: str) -> None:
    """Add a name without the spaces around it; ValueError if it is there already."""
    name = cell.strip()
    if name in names:
        raise ValueError(f"{where}: {kind} must differ, got {name!r} twice")
    names.append(name)


def _number(cell: str, where: str) -> float:
    with suppress(ValueError):
        if math.isfinite(value := float(cell)):
            return value
    raise ValueError(f"{where}: losses must be finite numbers, got {cell!r}")
