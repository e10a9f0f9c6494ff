"""Processes in which nothing of the project is loaded yet, as quick to have as they can be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

NURSERY = """
import json, os, sys, tempfile, traceback
import numba, numpy
from numba.core import config

# with this numba has looked up what it can compile, which takes a third of a second
numba.njit(lambda x: x.sum())(numpy.zeros((2, 2)))


def play(program, arguments, environment, folder, paths, limits):
    for number, path in enumerate(paths, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    for limit in limits:
        __import__("resource").setrlimit(*limit)
    os.environ.clear()
    os.environ.update(environment)
    config.CACHE_DIR = environment.get("NUMBA_CACHE_DIR", "")
    sys.path[0] = environment["PYTHONPATH"]
    sys.argv[1:] = arguments
    os.chdir(folder)
    try:
        exec(program, {"__name__": "__main__"})
        return 0
    except BaseException:
        traceback.print_exc()
        return 1


for line in sys.stdin:
    child = os.fork()
    if child == 0:
        code = play(*json.loads(line))
        sys.stdout.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Ended(NamedTuple):
    """A process that has ended."""

    returncode: int
    stdout: str
    stderr: str


Play = Callable[..., Ended]


@pytest.fixture(scope="package")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """Runs a program in a process of its own, a child of one that has loaded numba and nothing of ours."""
    if not hasattr(os, "fork"):
        pytest.skip("processes are not forked here")
    folder = tmp_path_factory.mktemp("said")
    paths = [str(folder / "stdout"), str(folder / "stderr")]
    command, pipe = [sys.executable, "-B", "-c", NURSERY], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd="/") as nursery:
        assert nursery.stdin is not None
        assert nursery.stdout is not None

        def run(
            program: str, *arguments: str, environment: dict[str, str], cwd: Any = "/", limits: Any = ()
        ) -> Ended:
            asked = program, arguments, environment, str(cwd), paths, limits
            print(json.dumps(asked), file=nursery.stdin, flush=True)
            code = int(nursery.stdout.readline())
            said = [Path(path).read_text() for path in paths]
            return Ended(code, *said)

        yield run
        nursery.stdin.close()
