"""What the verbs `column` and `combine` share where a column goes on, night by night, in a file of state.

The order is: `check_state`, then the file is read, `read_night`, and `gone_on`, which reads the state if
there is one. Nothing here writes: the verbs write the state whole, and last, behind the tables of --out. So a
job that was killed is run again, and a file that is given twice changes nothing. What may differ between two
files is said in `Growing._told_by`. Nobody keeps two jobs apart that run at the same time with one state.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from typer import Option

from onlinecal.tables.rounds import LETTERS

if TYPE_CHECKING:
    from onlinecal.arrays import Ints
    from onlinecal.tables.rounds import Rounds
    from onlinecal.wrappers.columns.growing import Growing

State = Annotated[
    Path | None,
    Option(
        help="A file that keeps the column from call to call: read if it is there, and written at the end."
    ),
]
StateId = Annotated[
    str | None,
    Option(
        "--id",
        help="With --state, and needed there: a column with a name or whole number for each row, under which "
        "later files give its outcome.",
    ),
]
G = TypeVar("G", bound="Growing")


def check_state(state: Path | None, id_: str | None, together: str | None) -> None:
    """ValueError for options that do not go with the state, or not without."""
    if (state is None) != (id_ is None):
        missing, other = ("--id", "--state") if id_ is None else ("--state", "--id")
        raise ValueError(
            f"{other} needs {missing}: --state is the file that keeps the column, --id the column that says "
            "which row is which"
        )
    if state is not None and together is not None:
        raise ValueError(
            "--together does not go with --state: leave it out, and name with --settled-at a column that "
            "says when each outcome became known"
        )
    if state is not None and state.is_dir():
        raise ValueError(f"--state must be a file, but {state} is a folder")


class Night(NamedTuple):
    """What a file says of its n rows beside forecasts: new ones, or earlier ones with their outcomes."""

    ids: list[Any]
    outcomes: Any
    """0, 1 or, where none has come, NaN."""
    times: Any
    """When forecasts were made; None if nothing says when outcomes become known."""
    settled_at: Any

    def at(self, rows: Ints) -> dict[str, Any]:
        """The times and ids of some rows, for `extend`."""
        given = {"times": self.times, "settled_at": self.settled_at}
        parts = {name: None if values is None else values[rows] for name, values in given.items()}
        return {**parts, "ids": [self.ids[row] for row in rows]}

    def rows_of(self, result: Growing) -> Ints:
        """The numbers that the file's rows have in the column."""
        return result._rows.places(self.ids)


def read_night(rounds: Rounds, id_: str | None, sort: str | None, settled_at: str | None) -> Night:
    """The columns of a file for a column that goes on."""
    assert id_ is not None
    times = settled = None
    if settled_at is not None:
        if sort is None or sort.startswith(LETTERS):
            raise ValueError(
                "--settled-at with --state needs --sort, a column with the times of the forecasts"
                f"{'' if sort is None else f', got {sort!r}'}: numbers of rows begin anew in each file"
            )
        times, settled = rounds.frame[sort], rounds.frame[settled_at]
    return Night(rounds.frame[id_].to_list(), rounds.outcomes.astype(float), times, settled)


def gone_on(state: Path, kind: type[G], begin: Callable[..., G], night: Night, said: Any) -> G:
    """The column with what a file says; `said` are the forecasts of its rows, (n,) or by model.

    Without a file of state it begins. Nothing is written.
    """
    import numpy as np

    if not state.exists():
        everything = night.at(np.arange(len(night.ids)))
        return begin(said, night.outcomes, missing="later", **everything)
    result = kind.load(state)
    if isinstance(said, dict) and [*said] != result.names:  # type: ignore[attr-defined]
        names = result.names  # type: ignore[attr-defined]
        raise ValueError(
            f"--forecast must name the models {names} of {state}, in this order, got {[*said]}; for other "
            "models begin another file of state"
        )
    columns = np.column_stack([*said.values()]) if isinstance(said, dict) else said
    told, new = result._told_by(night.ids, columns, night.outcomes)
    settled = None if night.settled_at is None else night.settled_at[told]
    result = result.observe([night.ids[row] for row in told], night.outcomes[told], settled_at=settled)
    parts = {name: column[new] for name, column in said.items()} if isinstance(said, dict) else said[new]
    extended: G = result.extend(parts, night.outcomes[new], **night.at(new))  # type: ignore[attr-defined]
    return extended
