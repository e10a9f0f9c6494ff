"""A flood of late-labelled events through `onlinecal stream`: events a second, memory, bytes, restarts.

ONLINECAL_LOAD is the number of queries, a million if it is not set.
"""

import gc
import os
import re
import time
from functools import partial
from pathlib import Path

import pytest

from onlinecal.engine import Engine, check_ledger, read_report
from tests.benchmarks.conftest import timed
from tests.engine.load import batches, engine_loop, plain_loop, run, write_load

QUERIES = int(os.environ.get("ONLINECAL_LOAD", "1000000"))
wall = partial(timed, clock=time.perf_counter)


@pytest.fixture(scope="module")
def startup(tmp_path_factory):
    """What a run without events takes."""
    folder = tmp_path_factory.mktemp("nothing")
    (folder / "none.jsonl").touch()
    return [run(folder / "ledger.db", folder / "none.jsonl", folder / "out") for _ in range(2)][1]


def told(name, done, startup, events):
    return (
        f"{name:50s} {events / (done.wall - startup.wall):9,.0f} events/s, "
        f"{events / (done.cpu - startup.cpu):9,.0f} a second of its core, peak {done.peak:5.0f} MiB "
        f"(without events {startup.peak:.0f} MiB), load average {os.getloadavg()[0]:.1f}"
    )


@pytest.mark.parametrize(
    "keys, hot_keys, most_memory",
    [(10_000, 20_000, 700), (10_000, 1_000, 700), (100_000, 1_000, 700), (100_000, 100_000, 1500)],
)
def test_a_flood_of_events(tmp_path, startup, note, keys, hot_keys, most_memory):
    write_load(tmp_path / "load.jsonl", QUERIES, keys)
    ledger, events = tmp_path / "ledger.db", 2 * QUERIES
    done = run(ledger, tmp_path / "load.jsonl", tmp_path / "out.jsonl", "--hot-keys", hot_keys)
    assert done.code == 0
    note(told(f"{keys:,} keys, {hot_keys:,} hot", done, startup, events))
    note(f"{'':50s} {ledger.stat().st_size / events:.1f} bytes an event in the ledger")
    assert done.peak <= most_memory
    assert ledger.stat().st_size <= 130 * events
    if hot_keys == 20_000:
        again = run(ledger, tmp_path / "load.jsonl", tmp_path / "again.jsonl")
        note(told("  the same again, all answered before", again, startup, events))
        assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()
        took, report = wall(lambda: read_report(ledger))
        assert report.total.rounds == QUERIES
        checked, check = wall(lambda: check_ledger(ledger))
        assert check.problems == []
        note(f"{'  report and check':50s} {took:9.2f} s, {checked:9.2f} s")


@pytest.mark.parametrize("hot_keys", [20_000, 1_000])
def test_a_restart_after_a_kill(tmp_path, note, hot_keys):
    write_load(tmp_path / "load.jsonl", QUERIES, 10_000)
    ledger = tmp_path / "ledger.db"
    run(ledger, tmp_path / "load.jsonl", tmp_path / "out", "--hot-keys", hot_keys, kill_after=12.0)
    behind = read_report(ledger).events
    wal = Path(f"{ledger}-wal").stat().st_size / 2**20
    took, engine = wall(lambda: Engine(ledger, hot_keys=hot_keys))
    note(f"restart at {behind:,} events, {hot_keys:,} keys hot{took:9.2f} s, {wal:.0f} MiB of commits to go")
    engine.close()


@pytest.mark.parametrize("hints", [True, False], ids=["hints", "no hints"])
@pytest.mark.parametrize("keys, hot_keys, least", [(10_000, 20_000, 0.5), (100_000, 1_000, 0.2)])
def test_beside_a_plain_loop(tmp_path, note, keys, hot_keys, least, hints):
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, 20, 100)
    try:
        write_load(tmp_path / "load.jsonl", QUERIES // 4, keys)
        parts = batches(tmp_path / "load.jsonl")
        if not hints:
            parts = [re.sub(rb'"hint":[0-9.]+,', b"", part) for part in parts]
        engine_loop(None, parts[:1], hot_keys)
        plain, _ = wall(lambda: plain_loop(tmp_path / "plain.db", parts))
        took, _ = wall(lambda: engine_loop(tmp_path / "ledger.db", parts, hot_keys))
    finally:
        gc.set_threshold(*thresholds)
    note(f"{keys:,} keys, {hot_keys:,} hot, hints {hints}: {plain / took:.2f} of a plain loop")
    assert plain / took >= least
