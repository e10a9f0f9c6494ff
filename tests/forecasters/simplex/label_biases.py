"""Adds up the largest biases of the labels, by the machine's own rule, for a table of the package.

`python -m tests.forecasters.simplex.label_biases` prints `label_biases.txt`; it takes some five minutes.
"""

import numpy as np

from onlinecal.compiling import compiled
from onlinecal.forecasters.simplex.machine import memory as layout
from onlinecal.forecasters.simplex.machine.memory import new_memory

LAST = {3: 128, 4: 64, 5: 40, 6: 32, 7: 24, 8: 20}
"""The table has every m up to this, or up to 16, and these powers of two."""
POWERS = {3: (256, 512), 4: (128, 256), 5: (64, 128), 6: (64,), 7: (32,), 8: (32,), 9: (32,), 10: (32,)}


@compiled
def largest_bias(memory, record, seen):
    """The largest sum of absolute biases that the record's point ever has, in units of 1/SCALE."""
    s, scale = memory[record + layout.SUPPORT], memory[layout.SCALE]
    x, biases = record + layout.POINT, record + layout.POINT + s
    for c in range(s):
        memory[biases + c], seen[c] = 0, 0
    label, largest = layout.fresh_label(memory, x), 0
    while True:
        total = 0
        for c in range(s):
            memory[biases + c] += memory[x + c] - (scale if c == label else 0)
            total += abs(memory[biases + c])
        largest = max(largest, total)
        if total == 0:
            if seen[label]:
                return largest
            seen[label] = 1
        label = layout.earned_label(memory, record, label)


@compiled
def sum_over_points(memory, record, seen):
    """The sum of `largest_bias` over all points of the grid whose coordinates are all above zero."""
    s = memory[record + layout.SUPPORT]
    x, rest = record + layout.POINT, record + layout.POINT + s - 1
    for c in range(s - 1):
        memory[x + c] = 1
    memory[rest] = memory[layout.SCALE] - s + 1
    total = 0
    while True:
        total += largest_bias(memory, record, seen)
        c = s - 2
        memory[x + c] += 1
        memory[rest] -= 1
        while memory[rest] == 0:
            memory[rest] += memory[x + c] - 2
            memory[x + c] = 1
            c -= 1
            if c < 0:
                return total
            memory[x + c] += 1


def summed(s, m):
    """The same for s classes on the grid of m >= s, in units of 1/m."""
    memory = new_memory(s, m, 1, None)
    record = int(memory[layout.RECORDS])
    memory[record + layout.SUPPORT] = s
    return int(sum_over_points(memory, record, np.zeros(s, np.int64)))


def rows():
    """Rows of the file: s, the first m, and the sums for that m and the ones after it."""
    sizes = [(s, s, LAST.get(s, 16)) for s in range(3, 17)]
    sizes += [(s, m, m) for s, powers in POWERS.items() for m in powers]
    for s, first, last in sorted(sizes):
        yield f"{s} {first}: " + " ".join(str(summed(s, m)) for m in range(first, last + 1))


if __name__ == "__main__":
    print("\n".join(rows()))
