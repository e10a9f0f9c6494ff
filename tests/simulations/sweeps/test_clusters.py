"""Sweeps on Dask and Ray: the same numbers whoever plays, and clear words when nobody does."""

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from simulations.cli.console import app
from simulations.games import extensions, players
from simulations.sweeps import clusters, connections
from simulations.sweeps.clusters import answer_as, identity, work_on
from simulations.sweeps.config import check_config, read_config
from simulations.sweeps.connections import Cluster
from simulations.sweeps.playing import play_for
from simulations.sweeps.results import TABLES, Store
from simulations.sweeps.sweep import planned_games, run_sweep

distributed = pytest.importorskip("distributed")

GRID = """forecasters = ["balanced", "adaptive"]
adversaries = ["coin", "threshold"]
rounds = [500, 1000]
seeds = [1, 2]
checkpoints = 20
"""
OWN = Path(__file__).parents[1] / "own_players.py"


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


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
    config = read_config(folder / "grid.toml")
    run_sweep(config, folder)
    Store(folder).write_tables(planned_games(config))
    return folder


def local_cluster(workers):
    return distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
        silence_logs=logging.CRITICAL,
    )


@pytest.fixture(scope="module")
def dask_cluster():
    """Two processes of Dask on this machine, which give a task up when one of them dies."""
    import dask

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        local_cluster(2) as cluster,
    ):
        yield cluster


@pytest.fixture
def dask(dask_cluster):
    return Cluster("dask", dask_cluster.scheduler_address)


@pytest.fixture
def no_port():
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return port


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
    for name in TABLES:
        mine, theirs = (Store(each).read_table(name) for each in (folder, other))
        assert mine.drop("seconds", strict=False).equals(theirs.drop("seconds", strict=False))


def test_dask_gives_the_same_numbers(alone, grid, dask, tmp_path):
    out = tmp_path / "out"
    answer = run("sweep", grid, "--out", out, "--backend", "dask", "--scheduler", dask.address)
    assert answer.exit_code == 0, answer.output
    assert answer.stdout.startswith("16 games: 16 played, 0 were there already.")
    assert "games finished: 16 of 16" in answer.stderr
    assert len(games(alone)) == 16
    assert_same(out, alone)


def test_ray_gives_the_same_numbers_and_says_nothing_of_its_own(alone, grid, tmp_path):
    pytest.importorskip("ray")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "simulations", "sweep", grid, "--out", out]
    answer = subprocess.run([*command, "--backend", "ray", "--jobs", "2"], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("16 games: 16 played, 0 were there already.")
    assert answer.stdout.count("\n") == 1
    told = [
        line for line in answer.stderr.splitlines() if not line.startswith(("games finished:", "compiled"))
    ]
    assert told == []
    assert_same(out, alone)


def test_a_sweep_goes_on_whoever_plays(alone, grid, dask, tmp_path):
    out = tmp_path / "out"
    grid.write_text(GRID.replace("[1, 2]", "[2]"))
    assert run("sweep", grid, "--out", out, "--jobs", 1).stdout.startswith("8 games: 8 played")
    grid.write_text(GRID)
    rest = run("sweep", grid, "--out", out, "--backend", "dask", "--scheduler", dask.address)
    assert rest.stdout.startswith("16 games: 8 played, 8 were there already")
    assert run("sweep", grid, "--out", out, "--backend", "ray").stdout.startswith("16 games: 0 played")
    assert_same(out, alone)


def interrupted(backend, tmp_path):
    """What an interrupt leaves of a long sweep on processes that were started for it; its stderr."""
    path, out = tmp_path / "grid.toml", tmp_path / "out"
    path.write_text(
        'forecasters = ["balanced"]\nadversaries = ["coin"]\n'
        "rounds = [1000, 30_000_000]\nseeds = [1, 2, 3, 4]\n"
    )
    command = [sys.executable, "-m", "simulations", "sweep", path, "--out", out, "--jobs", "1"]
    process = subprocess.Popen(
        [*command, "--backend", backend],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while len(list(out.glob("games/*.json"))) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        stdout, told = process.communicate(timeout=300)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert stdout == ""
    assert "interrupted: 4 of 8 games are kept" in told
    assert "Traceback" not in told
    deadline = time.monotonic() + 10
    while at_work(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert at_work(process.pid) == []


def at_work(session):
    """Processes of a session; one that is dead but not yet buried by its new parent is not at work."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,sid,stat"], capture_output=True, text=True).stdout
    family = [line.split() for line in listed.splitlines() if str(session) in line.split()]
    return [row for row in family if not row[3].startswith("Z")]


def test_an_interrupt_keeps_the_finished_games_and_ends_the_dask_we_started(tmp_path):
    interrupted("dask", tmp_path)


@pytest.mark.slow
def test_an_interrupt_keeps_the_finished_games_and_ends_the_ray_we_started(tmp_path):
    pytest.importorskip("ray")
    interrupted("ray", tmp_path)


def test_a_cluster_that_was_given_is_left_alone(dask, dask_cluster):
    answers = work_on(dask, time.sleep, [(0.01,)] * 50)
    next(answers)
    answers.close()
    assert dask_cluster.status.name == "running"
    assert sorted(work_on(dask, abs, [(-1,), (2,)])) == [1, 2]


def test_a_task_whose_worker_dies_is_told_and_not_waited_for(dask, dask_cluster):
    with pytest.raises(ConnectionError, match=r"Dask at tcp://127.0.0.1:\d+: Attempted to run task"):
        list(work_on(dask, os._exit, [(3,)]))
    assert list(work_on(dask, abs, [(-1,)])) == [1]


def test_what_a_task_raises_arrives_as_it_was(dask):
    with pytest.raises(ZeroDivisionError):
        list(work_on(dask, divmod, [(1, 0)]))


def test_workers_with_other_versions_refuse(dask, monkeypatch):
    other = identity() | {"numpy": "0.1", "rules": "00000000"}
    monkeypatch.setattr(clusters, "identity", lambda: other)
    with pytest.raises(
        ValueError, match=r"the worker on \S+ has rules [\w ]+ for 00000000, numpy \S+ for 0.1"
    ):
        list(work_on(dask, abs, [(1,)]))


def test_workers_without_the_package_are_named_and_live(dask, dask_cluster, monkeypatch, tmp_path):
    (tmp_path / "only_over_here.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(connections, "PLAYED_IN", "only_over_here")
    alive = set(dask_cluster.scheduler_info["workers"])
    with pytest.raises(ValueError, match=r"the worker tcp://\S+ lacks only_over_here: install there"):
        list(work_on(dask, abs, [(1,)]))
    assert set(dask_cluster.scheduler_info["workers"]) == alive


def test_a_process_answers_one_question_at_a_time_with_one_thread():
    import threadpoolctl

    at_work = []

    def question():
        at_work.append(1)
        most, threads = len(at_work), {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
        time.sleep(0.01)
        at_work.pop()
        return most, threads

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: answer_as(identity(), question), range(8)))
    assert answers == [(1, {1})] * 8


@pytest.fixture
def own(monkeypatch, tmp_path):
    """A sweep with players from a file, in catalogues of the test's own."""
    import adversaries
    from adversaries import registry

    monkeypatch.setattr(registry._CATALOGUE, "entries", adversaries.catalogue())
    monkeypatch.setattr(players._CATALOGUE, "entries", players.catalogue())
    monkeypatch.setattr(extensions, "_checksums", {})
    monkeypatch.setattr(extensions, "_owners", {})
    path = tmp_path / "mine.py"
    shutil.copy(OWN, path)
    return check_config(
        {"forecasters": ["last-outcome"], "adversaries": ["contrarian"], "rounds": [50]}, load=[path]
    )


def test_files_of_ones_own_must_be_where_the_worker_is(own, dask, tmp_path):
    (game,) = planned_games(own)
    Path(own.load[0]).rename(tmp_path / "away.py")
    with pytest.raises(FileNotFoundError, match=r"worker on \S+ misses .* the same place.*mine\.py"):
        run_sweep(own, tmp_path / "out", cluster=dask)
    (tmp_path / "away.py").rename(own.load[0])
    assert run_sweep(own, tmp_path / "out", cluster=dask) == 1
    with pytest.raises(ValueError, match="last-outcome or contrarian comes from other files than over there"):
        play_for(game, "0" * 24, own.load)


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_a_scheduler_that_is_not_there_is_told_at_once(backend, no_port, grid, tmp_path):
    pytest.importorskip(backend)
    address = f"127.0.0.1:{no_port}"
    begun = time.monotonic()
    answer = run("sweep", grid, "--out", tmp_path / "out", "--backend", backend, "--scheduler", address)
    assert time.monotonic() - begun < connections.PATIENCE
    assert answer.exit_code == 2
    assert f"no answer from {backend.capitalize()} at {address}: [Errno" in answer.stderr


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_somebody_else_at_the_address_is_not_waited_for(backend, monkeypatch):
    pytest.importorskip(backend)
    monkeypatch.setattr(connections, "PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ValueError, match=f"no answer from {backend.capitalize()} at {address}"):
            list(work_on(Cluster(backend, address), abs, [(1,)]))


def test_a_scheduler_without_workers_is_told(monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE", 2)
    with (
        local_cluster(0) as empty,
        pytest.raises(ValueError, match="0/1 workers"),
    ):
        list(work_on(Cluster("dask", empty.scheduler_address), abs, [(1,)]))


@pytest.mark.parametrize("backend,package", [("dask", "distributed"), ("ray", "ray")])
def test_a_missing_package_is_named_with_its_extra(backend, package, grid, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    answer = run("sweep", grid, "--out", tmp_path / "out", "--backend", backend)
    assert answer.exit_code == 2
    assert f"--backend {backend} needs {package}: pip install 'onlinecal[cluster]'" in answer.stderr


@pytest.mark.parametrize(
    "words,message",
    [
        (["--scheduler", "127.0.0.1:1"], "--scheduler needs --backend dask or ray"),
        (["--backend", "ray", "--scheduler", "127.0.0.1:1", "--jobs", 2], "--jobs and --scheduler exclude"),
        (["--backend", "dask", "--scheduler", "here"], "--scheduler must be HOST:PORT"),
        (["--backend", "spark"], "Invalid value for '--backend'"),
    ],
)
def test_what_does_not_go_together_is_refused(words, message, grid, tmp_path):
    answer = run("sweep", grid, "--out", tmp_path / "out", *words)
    assert answer.exit_code == 2
    assert message in answer.stderr
