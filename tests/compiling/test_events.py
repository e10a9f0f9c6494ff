"""Compiling that takes long is told on stderr, once, by the name that people have for it."""

import pytest
from numba.core import config

from onlinecal.compiling import events
from onlinecal.measures.smooth import maximal_intervals
from onlinecal.recalibration.lp.kernels import advance


@pytest.fixture
def crier(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    return events._Crier()


def compile_for(crier, dispatcher, told):
    """As if the dispatcher's function was compiled, so long that people are told, or not."""
    crier.begins(dispatcher)
    if crier.timer is not None and told:
        crier.timer.join()
    crier.ends(dispatcher, 0.25)


def test_long_compiling_is_told_once_a_family(crier, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(events, "LONG", 0.0)
    for dispatcher in (maximal_intervals, advance, maximal_intervals):
        compile_for(crier, dispatcher, told=True)
    where = f"once (kept in {tmp_path / 'onlinecal'})"
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"onlinecal: compiling the measures, {where}",
        f"onlinecal: compiling the recalibrators, {where}",
    ]


def test_short_compiling_adds_up(crier, capsys):
    waits = []
    for _ in range(3):
        crier.begins(maximal_intervals)
        waits.append(crier.timer.interval)
        crier.ends(maximal_intervals, 0.25)
    assert waits == [1.0, 0.75, 0.5]
    assert capsys.readouterr().out == ""


def test_code_of_others_is_none_of_our_business(crier):
    from numba import njit

    crier.begins(njit(compile_for))
    assert crier.timer is None


def test_nobody_needs_to_be_there_to_read_it(crier, monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    crier.tell("measures")
    assert crier.told == {"measures"}


def test_where_no_thread_can_be_started_nothing_is_told(crier, monkeypatch):
    def refused(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(events.threading.Thread, "start", refused)
    compile_for(crier, maximal_intervals, told=False)
    assert crier.spent == {"measures": 0.25}
