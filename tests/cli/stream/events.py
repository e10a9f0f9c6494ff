"""Events for the tests of `onlinecal stream`, and the command: in this process, and as a shell runs it."""

import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial

import pytest

from onlinecal.__main__ import main
from onlinecal.engine import Engine, check_ledger
from tests.commands import run
from tests.copies import be_process, load_command

COMMAND = [sys.executable, "-m", "onlinecal", "stream"]


def query(number, keys=3, **more):
    hint = (number * 7 % 10) / 10
    return {"type": "query", "id": f"q{number}", "key": f"key/{number % keys}", "hint": hint, **more}


def outcome(number, **more):
    return {"type": "outcome", "id": f"q{number}", "value": int(number % 3 == 0), **more}


def lines_of(events):
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def append(path, data):
    with open(path, "ab") as file:
        file.write(data)


def late(count, delay=20, keys=3):
    """Lines of `count` queries, each with its outcome some queries later; the last outcomes never come."""
    events = []
    for number in range(count):
        events.append(query(number, keys))
        if number >= delay:
            events.append(outcome(number - delay))
    return lines_of(events)


def expected(lines):
    """What an engine without a ledger answers."""
    with Engine() as engine:
        return engine.handle_lines(lines)


def stream(*arguments):
    """Run the command here, on files: exit_code, stdout_bytes, stderr."""
    return run("stream", *arguments)


def piped(data, *arguments):
    """Run the command as a process with these bytes on its standard input: returncode, stdout, stderr."""
    return subprocess.run([*COMMAND, *map(str, arguments)], input=data, capture_output=True, timeout=300)


@contextmanager
def started(*arguments, **settings):
    """Run the command with pipes; it is killed if it has not ended after two minutes, or at the end."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [*COMMAND, *map(str, arguments)]
    with subprocess.Popen(command, bufsize=0, **{**pipes, **settings}) as process:
        # a test that waits for a line that never comes must fail, not wait for ever
        patience = threading.Timer(120, process.kill)
        patience.start()
        try:
            yield process
        finally:
            patience.cancel()
            process.kill()


def copied(*arguments, **settings):
    """The same in a copy of this process, which has loaded what the command needs: a tenth of the time."""
    load_command()
    begin = partial(be_process, main, ["stream", *map(str, arguments)])
    return started(*arguments, preexec_fn=begin, **settings)


started_as_asked = pytest.mark.parametrize("started", [copied, pytest.param(started, marks=pytest.mark.slow)])
"""By default in a copy of this process, in the long form as a shell starts it."""


def is_sound(ledger):
    return check_ledger(ledger).problems == []
