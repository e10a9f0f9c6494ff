"""What all grids share: the layout of their memory, the report and the distance it costs.

A grid works on a *memory*, one flat sequence of int64: a header, then the bias table. Flat, because it is
then its own snapshot, and because handing one array to compiled code costs 0.15 us where a tuple of four
costs 0.35. `contract` says what each grid does with it.

Who writes a memory: `header` and the grid's `new_memory` once; then the grid's `charge`, `charge_inside` and
`note_late`, and `to_units`, which adds to MOVED what rounding an outcome costs. A replay with a guide charges
by the functions of `guided_uniform` or `guided_dyadic` in place of the grid's. Nothing else writes. `refined`
and `enlarged` (`compiled`) make another memory, in smaller units or with more room, which then takes its
place. `propose`, `report` and all that computes a bound only read. A round is `note_late`, `propose` (without
hints just the current cell), `report`, and when the outcome is known `has_room`, then `charge` or
`charge_inside`. Other rounds may come in between.

What always holds between two calls: SPREAD is the sum of the biases' sizes, MOVED the distance from all
reports to the points that were charged, with what rounding outcomes costs, and the current cell, from LOWER
to LOWER + STEP, is one of the grid. So `certificate` needs no look at the table.

Pickles and the engine's ledger keep memories as they are. So whoever changes the order of fields, TABLE or
the numbers of reports raises STATE_FORMAT (`onlinecal.version`). How a function comes to its integers may
change freely, as long as these are the same.

Positions, outcomes, steps and biases are integers in units of 1/scale, so ties are exact and replays are
bit-identical. For every point the table keeps one integer

    sum = bias + tilt * position

because with it both rules read the same: a point accepts outcomes below it, as 0, iff sum <= HIGH and
outcomes above it, as 1, iff sum >= LOW. The balanced rule has tilt 1 (sum is the bias after one more zero),
HIGH = floor(slack * scale), LOW = scale - HIGH; the rule of the paper has tilt 0 and HIGH = LOW = 0.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from onlinecal.compiling import inlined, kernel_part, uncounted
from onlinecal.layout import Layout

Memory = Any
"""An int64 array, or a list of int when the interpreter runs a machine."""

HEADER = Layout()
"""The header. A unit is 1/SCALE; a place is an index of the memory. FORMAT, TILT and HINTED never change, and
up to FINE the fields change in `refined` alone, but for LOW and HIGH, which move apart where slack grows."""
FORMAT = HEADER.field("which kind of grid it is, see `machine_of`", "format")
SCALE = HEADER.field("the units are 1/SCALE", "units")
TILT = HEADER.field("1 for the balanced rule, 0 for that of the paper", "0 or 1")
LOW = HEADER.field("a point accepts outcomes above it from this sum on", "units")
HIGH = HEADER.field("a point accepts outcomes below it up to this sum", "units")
REPORT = HEADER.field("what is announced of a cell, see REPORT_KINDS", "choice")
FINE = HEADER.field("how much finer distances are counted", "factor")
LOWER = HEADER.field("lower end of the current cell", "units")
STEP = HEADER.field("width of the current cell", "units")
ROUNDS = HEADER.field("rounds settled", "count")
SPREAD = HEADER.field("sum of the sizes of all biases", "units")
MOVED = HEADER.field("distance from the reports to the charged points", "1/(2 SCALE FINE)")
HINTED = HEADER.field("whether rounds may have hints", "0 or 1")
LAST_MIDDLE = HEADER.field("the middle of the cell that was settled last; before any 1/2", "half units")
LATE = HEADER.field("the most others open when a forecast was asked for, where slack grows", "count")
GROWING_SLACK = HEADER.field("the slack without late labels, where it grows with them; else 0", "units")
END = HEADER.field("behind the last pair in use", "place")
BELOW = HEADER.field("the first pair not below the lower end of the current cell", "place")
ABOVE = HEADER.field("the first pair not below its upper end, so that a round needs no search", "place")
OWN = HEADER.end
"""Where the part of the header begins that a kind of grid declares for itself."""
TABLE = 28
"""Where the bias table begins."""

GAIN_BITS = 38
"""No accumulator grows by 2^GAIN_BITS or more in a round."""
BRIM = (1 << 63) - (1 << GAIN_BITS)
"""A round is only played while the accumulators are below this."""

ReportChoice = Literal["midpoint", "lower", "upper", "hint"]
REPORTS: tuple[ReportChoice, ...] = get_args(ReportChoice)
MIDPOINT, AT_LOWER, AT_UPPER, AT_HINT, OUTER = range(5)
REPORT_KINDS = (*REPORTS, "outer")
"""The reports by their number in REPORT. Graded grids have "outer", the end of a cell that is nearer to 0 or
1; none of their cells has 1/2 inside."""
NO_HINT = -1.0


@kernel_part
def clip(x: float, low: float, high: float) -> float:
    """The number in [low, high] nearest to x; numba takes longer to compile min and max."""
    if x < low:
        return low
    return high if x > high else x


@inlined
def lower_is_nearer(target: float, below: int, above: int, scale: int) -> bool:
    """Whether the lower one of two points on both sides of a target is at least as near to it in odds.

    All are in units of 1/scale. In odds the distance of two probabilities near 0 or 1 is how many times one
    is the other.
    """
    against = (scale - below) * (1.0 * scale - above)
    rest = scale - target
    return bool(target * target * against <= rest * rest * below * above)


@inlined
def report(memory: Memory, lower: int, step: int, hint: float) -> float:
    """The probability that is announced for the cell (lower, lower + step)."""
    kind = memory[REPORT]
    scale = memory[SCALE]
    middle = (2 * lower + step) / (2 * scale)
    if kind == AT_HINT:
        return clip(hint, lower / scale, (lower + step) / scale) if hint >= 0.0 else middle
    if kind == MIDPOINT:
        return middle
    if kind == AT_LOWER or (kind == OUTER and 2 * lower < scale):
        return lower / scale
    return (lower + step) / scale


@inlined
def travelled(memory: Memory, lower: int, step: int, point: int, reported: float) -> int:
    """|p - p~|, from the report to the charged point, in units of 1/(2 * scale * FINE).

    Exact for reports on the grid; rounded up when the report is the hint, so that a sum of them
    never understates the distance.
    """
    kind = memory[REPORT]
    fine = memory[FINE]
    if kind == MIDPOINT:
        return abs(2 * (point - lower) - step) * fine
    if kind == AT_HINT:
        return math.ceil(abs(reported * memory[SCALE] - point) * (2 * fine))
    if kind == AT_LOWER or (kind == OUTER and 2 * lower < memory[SCALE]):
        return 2 * fine * (point - lower)
    return 2 * fine * (lower + step - point)


@inlined
def nearest_unit(memory: Memory, share: float) -> int:
    """An outcome in [0, 1] in the memory's units, rounded."""
    return int(share * memory[SCALE] + 0.5)


@inlined
def to_units(memory: Memory, share: float) -> int:
    """The same, and what rounding changes is counted as distance."""
    y = nearest_unit(memory, share)
    memory[MOVED] += math.ceil(abs(share * memory[SCALE] - y) * (2 * memory[FINE]))
    return y


@inlined
def rises_at_ends(
    memory: Memory, lower: int, step: int, below: int, above: int, reported: float
) -> tuple[float, float]:
    """The certificate's rise with outcome 0 and 1, given the sums at the two ends of the cell."""
    scale = memory[SCALE]
    upper = lower + step
    below -= memory[TILT] * lower
    above -= memory[TILT] * upper
    moved_zero = travelled(memory, lower, step, lower, reported) / (2 * memory[FINE])
    moved_one = travelled(memory, lower, step, upper, reported) / (2 * memory[FINE])
    spread_zero = abs(below + lower) - abs(below)
    spread_one = abs(above + upper - scale) - abs(above)
    return (moved_zero + spread_zero) / scale, (moved_one + spread_one) / scale


@inlined
def certificate(memory: Memory) -> float:
    """Distance from the reports to the charged points plus the charged points' biases, a sum."""
    return memory[MOVED] / (2.0 * memory[SCALE] * memory[FINE]) + memory[SPREAD] / memory[SCALE]


def header(
    form: int, scale: int, fine: int, rule: str, slack: float, report: str, hints: bool = False
) -> list[int]:
    """The header before the first round; the slack is taken as the exact value of its double."""
    memory = [0] * TABLE
    memory[FORMAT], memory[SCALE], memory[FINE] = form, scale, fine
    memory[REPORT], memory[HINTED], memory[LAST_MIDDLE] = REPORT_KINDS.index(report), int(hints), scale
    if rule == "balanced":
        numerator, denominator = float(slack).as_integer_ratio()
        memory[TILT], memory[HIGH] = 1, numerator * scale // denominator
        memory[LOW] = scale - memory[HIGH]
    return memory


@kernel_part
def bias_part(memory: Memory) -> float:
    """Sum over points of |alpha|: the expected calibration error of the look-ahead sequence."""
    return float(memory[SPREAD] / memory[SCALE])


@uncounted
def find(memory: Memory, position: int) -> int:
    """The index of the first pair whose position is not below `position`."""
    first, last = 0, (memory[END] - TABLE) >> 1
    while first < last:
        middle = (first + last) >> 1
        if memory[TABLE + 2 * middle] < position:
            first = middle + 1
        else:
            last = middle
    return TABLE + 2 * first


def in_use(memory: Memory) -> Memory:
    """The part of a memory that is in use, without room to spare."""
    return memory[: memory[END]]
