"""A very long day: what memory the engine has must not grow with the ledger.

ONLINECAL_SOAK is the number of events of the long version, 10^8 if it is not set; it takes a core for half an
hour, and 55 bytes an event of disk in the folder for temporary files (`-s` shows how far it is).
"""

import os
import resource
from pathlib import Path

import pytest

from onlinecal.engine import Engine, Query, read_report
from tests.engine.load import flood

EVENTS = int(os.environ.get("ONLINECAL_SOAK", "100000000"))


def resident():
    """MiB of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


@pytest.mark.parametrize(
    "events, keys, hot_keys",
    [
        (20_000, 500, 100),
        pytest.param(60_000, 500, 100, marks=pytest.mark.slow),
        pytest.param(EVENTS, 10_000, 20_000, marks=pytest.mark.slow),
    ],
)
def test_memory_does_not_grow_with_the_ledger(tmp_path, events, keys, hot_keys):
    ledger, done, alone, memory = tmp_path / "ledger.db", 0, 0, []
    with Engine(ledger, hot_keys=hot_keys) as engine:
        for data in flood(events // 2, keys):
            answers = engine.handle_lines(data)
            assert b'"rejected"' not in answers
            done += answers.count(b"\n")
            engine.handle([Query(f"single{alone}", f"sensor/{alone % keys}", 0.5)])
            alone += 1
            if done >= (len(memory) + 1) * events // 20:
                memory.append(resident())
                print(f"{done:,} events, {memory[-1]:.0f} MiB", flush=True)
        total = engine.total()
    assert (total.rounds, total.open, total.keys) == (done // 2, alone, keys)
    assert read_report(ledger).total.rounds == done // 2 == events // 2
    # SQLite's pages and remembered promises reach their bounds in the first quarter or soon after. The grid
    # of a key gets finer with its rounds, to 4 KiB and as much room; 2 bytes an event lost would be more.
    assert max(memory) - memory[len(memory) // 4] < 24 + keys * 8 / 1024
