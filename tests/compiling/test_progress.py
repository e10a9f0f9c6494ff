"""Compiling that takes long is told on stderr, once; arrays without an owner in compiled code."""

import sys
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from numba import njit
from numba.core import config

from onlinecal.compiling import progress
from onlinecal.compiling.instructions import borrowed
from onlinecal.measures.smooth import fill_weights
from onlinecal.recalibration.flooring import _fill_nearest


@pytest.fixture
def listener(tmp_path, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    return progress.Listener()


def compile_for(listener, dispatcher, told):
    """As if the function was compiled, so long that people are told, or not; when they would be told."""
    event = SimpleNamespace(data={"dispatcher": dispatcher})
    listener.on_start(event)
    if (timer := listener.timer) is not None and told:
        timer.join()
    listener.begin -= 0.25
    listener.on_end(event)
    return None if timer is None else timer.interval


def test_long_compiling_is_told_once_a_package(listener, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    for dispatcher in (fill_weights, _fill_nearest, fill_weights):
        compile_for(listener, dispatcher, told=True)
    where = f"once (kept in {tmp_path / 'onlinecal'})"
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"onlinecal: compiling onlinecal.measures for some 5 seconds, {where}",
        f"onlinecal: compiling onlinecal.recalibration for some 5 seconds, {where}",
    ]


def test_short_compiling_adds_up(listener, capsys, monkeypatch):
    monkeypatch.setattr(progress, "QUIET_SECONDS", 1.0)
    waits = [compile_for(listener, fill_weights, told=False) for _ in range(3)]
    assert waits == pytest.approx([1.0, 0.75, 0.5], abs=0.1)
    assert capsys.readouterr() == ("", "")


def test_code_of_others_is_none_of_our_business(listener):
    console = njit(lambda x: x)
    console.py_func.__module__ = None
    assert [compile_for(listener, one, told=False) for one in (njit(compile_for), console)] == [None, None]


def test_where_nobody_is_there_to_read_or_no_thread_can_be_started_nothing_is_told(listener, monkeypatch):
    monkeypatch.setattr("sys.stderr", None)
    listener.tell("onlinecal.steering")
    monkeypatch.setattr(progress.threading.Thread, "start", Mock(side_effect=RuntimeError("no new thread")))
    compile_for(listener, fill_weights, told=False)
    assert listener.told == {"onlinecal.steering"}
    assert listener.spent == {"onlinecal.measures": pytest.approx(0.25, abs=0.1)}


@njit
def hand_over(values, number):
    values[number] += 1
    return values


@njit
def count(values):
    values = borrowed(values)
    for number in range(len(values)):
        if values[number] == 0:
            values = hand_over(values, number)
    return values.sum()


def test_a_borrowed_array_is_the_same_array_and_no_reference_is_kept_or_lost():
    values = np.array([0, 2, 0, 5])
    before = sys.getrefcount(values)
    assert [count(values) for _ in range(1000)] == [9] * 1000
    assert sys.getrefcount(values) == before
    assert values.tolist() == [1, 2, 1, 5]
