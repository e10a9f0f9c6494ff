"""Processes that begin with the interpreter: a child compiles, once, for all, and none is left behind."""

import os
import shutil
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
from numba.core import config

from tests import ROOT

BEGIN = """
import os, sys, time
import numpy as np
from onlinecal.compiling import beginning, counting, filling

beginning.LOAD_AFTER = beginning.CHILD_AFTER = beginning.LOOKS_APART = 1e-3
OUTCOMES = np.random.default_rng(0).integers(0, 2, 10**6, np.uint8).tobytes()
forecaster = fresh()
for each in beginning.BEGINNINGS.values():
    each.next_look = beginning.LOAD_AFTER


def compiles_soon(seconds):
    for each in beginning.BEGINNINGS.values():
        for entry in each.entries.values():
            entry.compiling = seconds


def is_interpreted():
    return isinstance(forecaster.machine.advance, beginning.Entry)


def play(seconds=100.0, stop=lambda: not is_interpreted()):
    # until it is compiled, and some rounds more
    end = time.monotonic() + seconds
    while time.monotonic() < end and not stop():
        begun = forecaster.n_rounds
        for _ in range(20):
            forecaster.learn_one({}, OUTCOMES[forecaster.n_rounds])
        assert forecaster.n_rounds == begun + 20
        # the processor is for the child
        time.sleep(0.005)
    for _ in range(100):
        forecaster.learn_one({}, OUTCOMES[forecaster.n_rounds])


def told():
    # whether it is compiled, and whether its memory is that of one that was compiled from the first round
    with beginning.compiled_at_once():
        twin = fresh()
        for outcome in OUTCOMES[: forecaster.n_rounds]:
            twin.learn_one({}, outcome)
    return not is_interpreted(), bool((twin.memory == forecaster.memory).all())
"""

FORECASTER = """
from onlinecal import AlmostOneStepAhead
def fresh(): return AlmostOneStepAhead(n_cells=4)
"""
"""A forecaster whose kernel is compiled in a second or two."""
COUNTER = "from tests.compiling.light import Counter as fresh"
"""What has a kernel that is compiled in a moment, where it matters who compiles it and not what it does."""


def words(play, program, folder, played=COUNTER):
    """What a program says in a fresh process, whose compiled code is kept in a folder."""
    places = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder)}
    done = play(played + BEGIN + program, environment=places)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture
def run(play, tmp_path):
    """Runs a program so, with the folder of the test."""
    return partial(words, play, folder=tmp_path)


def kept(folder):
    return [path.name.partition("-")[0] for path in folder.rglob("*.kernel")]


COUNTED = """
# so that who does not wait for its child compiles itself
compiles_soon(0.01)
with counting() as compiled:
    play()
print(compiled.loops, beginning.filling._running is None, *told())
"""


@pytest.fixture(scope="module")
def first(play, tmp_path_factory):
    """What the first process says, and the folder with what its child has kept."""
    folder = tmp_path_factory.mktemp("first")
    return words(play, COUNTED, folder, FORECASTER), folder


def test_a_child_compiles_and_the_next_process_loads_what_it_kept(first, run, tmp_path):
    said, folder = first
    assert said == ["0", "False", "True", "True"]
    assert "advance" in kept(folder)
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    assert run(COUNTED, played=FORECASTER) == ["0", "True", "True", "True"]


ALONE = """
import subprocess
def refuse(*given, **named):
    raise PermissionError("no processes here")
"""


@pytest.mark.parametrize(
    "refusal", ["subprocess.Popen = refuse", "sys.executable = ''", "filling.kept_in = lambda: None"]
)
def test_where_no_child_can_be_started_the_process_compiles_itself(run, refusal):
    program = f"{ALONE}\n{refusal}\n{COUNTED}"
    assert run(program) == ["1", "True", "True", "True"]


def test_what_is_damaged_is_compiled_anew(run, tmp_path):
    program = f"sys.executable = ''\n{COUNTED}"
    assert run(program) == ["1", "True", "True", "True"]
    for path in tmp_path.rglob("take_in*.kernel"):
        path.write_bytes(b"of another time")
    assert [run(program)[0] for again in range(2)] == ["1", "0"]


def test_a_child_that_fails_costs_nothing_but_time(run):
    program = ALONE + "filling.PROGRAM = 'raise SystemExit(3)'\n" + COUNTED
    assert run(program) == ["1", "False", "True", "True"]


FORKED = """
play(stop=filling.is_busy)
child = os.fork()
if child == 0:
    play()
    print(*told(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
play()
print(*told())
"""


def test_a_fork_goes_on_by_itself_and_leaves_its_parents_child_alone(run):
    assert run(FORKED) == ["True"] * 4


THREADS = """
import threading
forecasters = [fresh() for _ in range(4)]
def learn(one):
    end = time.monotonic() + 100.0
    while is_interpreted() and time.monotonic() < end:
        for _ in range(20):
            one.learn_one({}, OUTCOMES[one.n_rounds])
        time.sleep(0.005)
threads = [threading.Thread(target=learn, args=(one,)) for one in forecasters]
for thread in threads: thread.start()
for thread in threads: thread.join()
for forecaster in forecasters:
    print(*told())
"""


def test_threads_change_to_the_kernel_together(run):
    assert run(THREADS) == ["True"] * 8


FIRST_ANSWERS = """
import sys
import numpy as np
from river import naive_bayes
from onlinecal import AlmostOneStepAhead, CalibratedClassifier, recalibrate_stream
from onlinecal.compiling import counting
from onlinecal.engine import Engine, Outcome, Query

with counting() as compiled:
    forecaster = AlmostOneStepAhead()
    forecaster.observe(forecaster.forecast(), 1)
    forecaster.replay(np.array([0, 1]))
    model = CalibratedClassifier(naive_bayes.GaussianNB())
    model.predict_proba_one({"x": 1.0})
    model.learn_one({"x": 1.0}, True)
    recalibrate_stream([0.2, 0.7], [0, 1])
    with Engine(LEDGER) as engine:
        engine.handle([Query("a", "k", 0.8), Query("b", "j")])
        engine.handle([Outcome("a", 1)])
        engine.summary("k"), engine.total()
    with Engine(LEDGER) as engine:
        engine.handle([Query(f"more {i}", "k", 0.5) for i in range(30)])
print(compiled.loops, "sklearn" in sys.modules)
"""


def test_first_answers_that_the_page_on_waiting_names_neither_compile_nor_load_scikit_learn(play, tmp_path):
    program = FIRST_ANSWERS.replace("LEDGER", repr(str(tmp_path / "first.ledger")))
    done = play(program, environment=environment(tmp_path))
    assert done.stdout.split() == ["0", "False"], done.stderr


PARALLEL = """
import joblib
def one(number):
    play()
    return told()
if __name__ == "__main__":
    print(*[x for pair in joblib.Parallel(2)(joblib.delayed(one)(i) for i in range(2)) for x in pair])
"""


def environment(folder):
    return {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(folder)}


@pytest.mark.slow
def test_in_processes_of_joblib_it_is_the_same(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(FORECASTER + BEGIN + PARALLEL)
    done = subprocess.run([sys.executable, path], env=environment(tmp_path), capture_output=True, text=True)
    assert done.stdout.split() == ["True"] * 4, done.stderr


AT_ONCE = """
child = os.fork()
with beginning.compiled_at_once(), counting() as compiled:
    forecaster.learn_one({}, 1)
os.write(1, f"{compiled.loops}\\n".encode())
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
"""


def test_two_processes_at_once_do_not_compile_the_same(run):
    # with a kernel that takes a moment the first would have kept it before the other one asks
    assert sorted(run(AT_ONCE, played=FORECASTER)) == ["0", "1"]


ENDED = """
# the child waits, as if another process compiled its kernel, and does not end by itself
WAIT = "import time; from onlinecal.compiling import folder; folder.take_turn = lambda name: time.sleep(1e6)"
filling.PROGRAM = filling.PROGRAM.replace("filling.fill", WAIT + "; filling.fill")
play(stop=filling.is_busy)
print(filling._running._process.pid, flush=True)
if len(sys.argv) > 1:
    time.sleep(100)
"""


@pytest.mark.parametrize("killed", [False, True], ids=["by itself", "killed"])
def test_no_child_is_left_behind(tmp_path, monkeypatch, killed):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    command = [sys.executable, "-c", COUNTER + BEGIN + ENDED, *["wait"] * killed]
    with subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        if killed:
            parent.send_signal(signal.SIGKILL)
        parent.wait()
    end = time.monotonic() + 30.0
    while is_alive(child) and time.monotonic() < end:
        time.sleep(0.05)
    assert not is_alive(child)


def is_alive(process):
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


INTERRUPTED = """
import signal
from onlinecal.forecasters.binary.cells import ROUNDS
signals = []
def interrupt(*given):
    signals.append(True)
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
machine, memory = forecaster.machine, forecaster.memory
rng = np.random.default_rng(1)
beginning.filling.is_possible = lambda: False
# on a slow machine a round takes longer, so the time until a signal grows
while len(signals) < 200 or memory[ROUNDS] == 0:
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-6 + 3e-5 * rng.random() * (1 + len(signals) / 200))
        while True:
            machine.advance(memory, OUTCOMES[memory[ROUNDS]])
    except KeyboardInterrupt:
        pass
twin = fresh()
twin.replay(list(OUTCOMES[: memory[ROUNDS]]))
print(is_interpreted(), (twin.memory == memory).all())
"""


def test_an_interrupt_finds_whole_rounds(run):
    assert run(INTERRUPTED, played=FORECASTER) == ["True", "True"]
