"""Sweeps on Dask and Ray: the same numbers whoever plays, and clear words when nobody does.

By default Dask's workers are threads of this process, and Ray is played by a module that takes its place; the
long checks start processes.
"""

import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

from onlinecal.simulations.sweeps import playing
from onlinecal.simulations.sweeps.plan import read_plan
from onlinecal.simulations.sweeps.playing import Workers, play_games, work
from onlinecal.simulations.sweeps.results import TABLE_NAMES, Store, read_table
from tests.commands import run

distributed = pytest.importorskip("distributed")

GRID = """forecasters = ["balanced", "adaptive"]
adversaries = ["coin", "threshold"]
rounds = [500, 1000]
seeds = [1, 2]
checkpoints = 20
"""


@pytest.fixture
def grid(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    return path


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The grid's results as this process alone gets them."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "grid.toml").write_text(GRID)
    store = Store(read_plan(folder / "grid.toml"), folder)
    play_games(store)
    store.write_tables()
    return folder


@pytest.fixture
def threads():
    """Two workers of Dask in this process."""
    here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", **here
    ) as cluster:
        yield Workers("dask", cluster.scheduler_address)


@pytest.fixture(scope="module")
def dask_cluster():
    """Two processes of Dask on this machine, which give a task up when one of them dies."""
    import dask

    here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": logging.CRITICAL}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **here) as cluster,
    ):
        yield cluster


@pytest.fixture
def dask(dask_cluster):
    # one may have died in the test before: with a single worker this process would play by itself
    dask_cluster.wait_for_workers(2, timeout=120)
    return Workers("dask", dask_cluster.scheduler_address)


def games(folder):
    """The stored games, byte for byte but for the seconds they took, by the names of their files."""
    found = {}
    for path in (folder / "games").iterdir():
        game = json.loads(path.read_bytes())
        assert game["measured"].pop("seconds") > 0
        found[path.name] = json.dumps(game)
    return found


def assert_same(folder, other):
    assert games(folder) == games(other)
    for name in TABLE_NAMES:
        mine, theirs = (read_table(each, name) for each in (folder, other))
        assert mine.drop("seconds", strict=False).equals(theirs.drop("seconds", strict=False))


def test_workers_in_threads_play_with_the_same_numbers_and_what_a_task_raises_arrives(
    threads, grid, tmp_path
):
    (tmp_path / "grid.toml").write_text(GRID.replace(', "adaptive"', "").replace("[1, 2]", "[1]"))
    store = Store(read_plan(tmp_path / "grid.toml"), tmp_path / "out")
    told = []
    assert play_games(store, threads, lambda *numbers: told.append(numbers)) == 4
    assert told == [(number, 4) for number in range(5)]
    store.write_tables()
    alone = Store(store.plan, tmp_path / "alone")
    play_games(alone)
    alone.write_tables()
    assert_same(tmp_path / "out", tmp_path / "alone")
    answers = work(time.sleep, [(0.01,)] * 20, threads)
    next(answers)
    answers.close()
    with pytest.raises(ZeroDivisionError):
        list(work(divmod, [(1, 0)], threads))
    assert sorted(work(abs, [(-1,), (2,)], threads)) == [1, 2]
    (game, *_) = store.plan.games
    with pytest.raises(
        FileNotFoundError, match=r"worker on \S+ lacks a file .* the same path there.*away\.py"
    ):
        list(work(playing.play_game, [(game, playing.identity(game), ["away.py"])], threads))


def test_a_process_with_other_versions_refuses_to_play(grid):
    (game, *_) = read_plan(grid).games
    with pytest.raises(
        ValueError, match=r"worker on \S+ cannot play: .* numpy .* in place of numpy 0.1; install"
    ):
        playing.play_game(game, "numpy 0.1")


@pytest.fixture
def ray(monkeypatch):
    """In the place of Ray a module that works in threads; it keeps what it is called with."""
    from joblib.parallel import ThreadingBackend

    class RayError(Exception):
        pass

    calls = []
    module = ModuleType("ray")
    module.init = lambda **given: calls.append(given)
    module.shutdown = lambda: calls.append("shutdown")
    for name, found in {
        "ray": module,
        "ray.exceptions": SimpleNamespace(RayError=RayError),
        "ray.util": ModuleType("ray.util"),
        "ray.util.joblib": ModuleType("ray.util.joblib"),
        "ray.util.joblib.ray_backend": SimpleNamespace(RayBackend=ThreadingBackend),
    }.items():
        monkeypatch.setitem(sys.modules, name, found)
    return SimpleNamespace(calls=calls, module=module, RayError=RayError)


def test_a_ray_of_our_own_is_started_and_ended_and_what_it_says_of_a_loss_is_told(ray, monkeypatch, capsys):
    assert sorted(work(abs, [(-1,), (2,)], Workers("ray", jobs=2))) == [1, 2]
    started, ended = ray.calls
    assert (started["address"], started["num_cpus"], ended) == ("local", 2, "shutdown")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        list(work(abs, [(1,)], Workers("ray", address)))
        assert ray.calls[2]["address"] == address

    def lost(**given):
        print("of its own")
        raise ray.RayError("the node died\nand more")

    monkeypatch.setattr(ray.module, "init", lost)
    with pytest.raises(
        ConnectionError,
        match=r"^Ray on 2 processes: the node died: see that its workers run, and start again; games",
    ):
        list(work(abs, [(1,)], Workers("ray", jobs=2)))
    assert ray.calls[-1] == "shutdown"
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_a_sweep_goes_on_whoever_plays_with_the_same_numbers(alone, grid, dask, tmp_path):
    out = tmp_path / "out"
    grid.write_text(GRID.replace("[1, 2]", "[2]"))
    assert run("sweep", grid, "--out", out, "--jobs", 1).stdout.startswith("8 games: 8 played")
    grid.write_text(GRID)
    rest = run("sweep", grid, "--out", out, "--backend", "dask", "--scheduler", dask.address)
    assert rest.stdout.startswith("16 games: 8 played, 8 were there already"), rest.output
    assert "games finished: 16 of 16" in rest.stderr
    assert len(games(out)) == 16
    assert_same(out, alone)


@pytest.mark.slow
def test_ray_gives_the_same_numbers_and_says_nothing_of_its_own(alone, grid, tmp_path):
    pytest.importorskip("ray")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "onlinecal", "sweep", grid, "--out", out, "--backend", "ray"]
    answer = subprocess.run([*command, "--jobs", "2"], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("16 games: 16 played, 0 were there already.")
    assert answer.stdout.count("\n") == 1
    usual = ("games finished:", "compiled")
    assert [line for line in answer.stderr.splitlines() if not line.startswith(usual)] == []
    assert_same(out, alone)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_an_interrupt_keeps_the_finished_games_and_ends_the_workers(backend, grid, tmp_path):
    pytest.importorskip(backend)
    out = tmp_path / "out"
    grid.write_text(
        'forecasters = ["balanced"]\nadversaries = ["coin"]\n'
        # the long games are many, so that on a busy machine, too, the interrupt comes before their end
        "rounds = [1000, 30_000_000, 31_000_000, 32_000_000, 33_000_000]\nseeds = [1, 2, 3, 4]\n"
    )
    command = [sys.executable, "-m", "onlinecal", "sweep", grid, "--out", out, "--jobs", "1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    process = subprocess.Popen([*command, "--backend", backend], **pipes)
    try:
        deadline = time.monotonic() + 300
        while len(list(out.glob("games/*.json"))) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        stdout, told = process.communicate(timeout=300)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, stdout) == (130, "")
    assert "interrupted: 4 of 20 games are kept" in told
    assert "Traceback" not in told
    deadline = time.monotonic() + 60
    while at_work(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert at_work(process.pid) == []


def at_work(session):
    """Processes of a session; one that is dead but not yet buried by its new parent is not at work."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,sid,stat"], capture_output=True, text=True).stdout
    family = [line.split() for line in listed.splitlines() if str(session) in line.split()]
    return [row for row in family if not row[3].startswith("Z")]


@pytest.mark.slow
def test_a_cluster_is_left_alone_and_what_a_task_raises_arrives_as_it_was(dask, dask_cluster, monkeypatch):
    answers = work(time.sleep, [(0.01,)] * 50, dask)
    next(answers)
    answers.close()
    with pytest.raises(ZeroDivisionError):
        list(work(divmod, [(1, 0)], dask))
    assert dask_cluster.status.name == "running"
    assert sorted(work(abs, [(-1,), (2,)], dask)) == [1, 2]
    # a task whose worker dies is not waited for for ever
    monkeypatch.setattr(playing, "SECONDS_UNTIL_LOST", 3.0)
    with pytest.raises(ConnectionError, match=r"Dask at tcp://127.0.0.1:\d+: no answer within 3 s"):
        list(work(os._exit, [(3,)], dask))
    assert list(work(abs, [(-1,)], dask)) == [1]


@pytest.mark.slow
def test_workers_with_other_versions_refuse(dask, grid, tmp_path, monkeypatch):
    monkeypatch.setattr(playing, "identity", lambda game: "numpy 0.1")
    with pytest.raises(ValueError, match=r"worker on \S+ cannot play: .* numpy .* in place of numpy 0.1"):
        play_games(Store(read_plan(grid), tmp_path / "out"), dask)


@pytest.mark.slow
def test_files_of_ones_own_must_be_where_the_worker_is(dask, grid):
    (game, *_) = read_plan(grid).games
    with pytest.raises(
        FileNotFoundError, match=r"worker on \S+ lacks a file .* the same path there.*away\.py"
    ):
        list(work(playing.play_game, [(game, playing.identity(game), ["away.py"])], dask))


@pytest.mark.parametrize("address", ["nowhere", "host:", ":8786", "host:port", "host:99999", "[::1"])
def test_a_scheduler_that_is_no_address_is_refused(address):
    message = re.escape(f"scheduler must be HOST:PORT or SCHEME://HOST:PORT, got {address!r}")
    with pytest.raises(ValueError, match=message), playing._no_answer(Workers("dask", address)):
        pytest.fail("an address that is none was connected to")


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_scheduler_that_is_not_there_is_told_at_once(backend, grid, tmp_path, monkeypatch):
    pytest.importorskip(backend)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        if backend == "dask":
            # somebody else listens, and does not answer
            monkeypatch.setattr(playing, "SECONDS_TO_CONNECT", 0.5)
            with pytest.raises(ValueError, match=f"scheduler must answer, got none from Dask at {address}"):
                list(work(abs, [(1,)], Workers("dask", address)))
            monkeypatch.undo()
    # nobody listens any more
    begun = time.monotonic()
    given = ("--backend", backend, "--scheduler", address)
    answer = run("sweep", grid, "--out", tmp_path / "out", *given)
    assert time.monotonic() - begun < playing.SECONDS_TO_CONNECT
    assert (
        f"scheduler must answer, got none from {backend.capitalize()} at {address} ([Errno" in answer.stderr
    )


@pytest.mark.parametrize("backend,package", [("dask", "distributed"), ("ray", "ray")])
def test_a_missing_package_is_named_with_its_extra(backend, package, grid, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    answer = run("sweep", grid, "--out", tmp_path / "out", "--backend", backend)
    assert answer.exit_code == 2
    assert f"--backend {backend} needs {package}: in a checkout" in answer.stderr
