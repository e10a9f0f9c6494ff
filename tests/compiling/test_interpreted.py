"""Where nothing is compiled, as numba's way to debug asks for, every face answers what it does compiled."""

import json
import os
import subprocess
import sys

import pytest

from tests import ROOT
from tests.corpus.entries import kept, same

PLAY = """
import json, sys
from tests.corpus.entries import ALL_PARTS, PARTS, corpus

only = tuple(sys.argv[1:])
print(json.dumps(corpus(only, parts=ALL_PARTS if "" in only else PARTS)))
"""

WRONG = """
import numpy as np
from onlinecal import AlmostOneStepAhead

forecaster = AlmostOneStepAhead(horizon=100)
forecaster.memory = forecaster.memory[:20]
forecaster.replay(np.array([0, 1] * 20))
"""

QUICK = (
    "binary/default", "binary/nested", "binary/paper", "binary/window", "binary/replay", "binary/one step",
    "baseline", "simplex/default", "simplex/window", "distance/fine", "measure/expected",
    "measure/lp", "measure/groups", "wrapper/auto/0", "wrapper/simplex/0", "combined/late", "column/late",
    "table/simplex/late", "engine/lanes", "game/bias-lifter/balanced", "game/champion/adaptive", "game/worst",
)  # fmt: skip
"""Entries of the corpus, of every face some."""


def interpreted(program, *arguments):
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("only", [QUICK, pytest.param(("",), marks=pytest.mark.slow)], ids=["some", "all"])
def test_every_face_answers_the_same_bits(only):
    done = interpreted(PLAY, *only)
    assert done.returncode == 0, done.stderr
    answers, before = json.loads(done.stdout), kept()
    assert {name: answers[name] for name in answers if not same(before[name], answers[name])} == {}
    assert all(any(name.startswith(one) for name in answers) for one in only)


def test_an_error_inside_a_rule_shows_the_line_of_the_rule():
    done = interpreted(WRONG)
    assert done.returncode == 1
    *_, place, line, _, error = done.stderr.splitlines()
    assert "onlinecal/forecasters/binary/" in place
    assert "memory[" in line
    assert error.startswith("IndexError")
