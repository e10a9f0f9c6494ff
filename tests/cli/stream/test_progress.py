"""What `onlinecal stream` says while it works, on a terminal and in a log."""

import os

from onlinecal.cli.stream import progress as stream_progress
from tests.cli.stream.events import late, lines_of, query, started, stream


def test_a_log_gets_a_line_every_while_and_a_summary(tmp_path, monkeypatch):
    monkeypatch.setattr(stream_progress, "BETWEEN_LINES", 0.0)
    file = tmp_path / "events.jsonl"
    file.write_bytes(late(20, delay=4) + b"no event\n")
    answer = stream("--ledger", tmp_path / "ledger.db", "--input", file, "--batch", 10)
    *lines, summary = answer.stderr.splitlines()
    assert len(lines) == 4
    assert [line.split(",")[0] for line in lines] == [f"events: {n}" for n in (10, 20, 30, 37)]
    assert "1 rejected, 3 keys hot, 4 forecasts open" in lines[-1]
    assert summary.startswith("events: 37 in ")
    assert "20 forecast, 16 settled, 1 rejected; all keys: 16 rounds, 4 open, certificate" in summary


def test_a_terminal_sees_one_line_that_moves(tmp_path):
    master, slave = os.openpty()
    with started("--ledger", tmp_path / "ledger.db", stderr=slave) as process:
        os.close(slave)
        seen = b""
        for number in range(30):
            process.stdin.write(lines_of([query(number)]))
            process.stdout.readline()
        while b"keys hot" not in seen:
            # the line is also drawn while nothing comes
            seen += os.read(master, 1 << 16)
        process.stdin.close()
        assert process.wait(60) == 0
    while b"all keys" not in seen:
        seen += os.read(master, 1 << 16)
    os.close(master)
    assert b"30 forecast; all keys: 0 rounds, 30 open" in seen.replace(b"\r\n", b"")
