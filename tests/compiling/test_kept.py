"""Compiled code on disk: found again, never stale, never a reason to fail."""

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from importlib import import_module, invalidate_caches

import numpy as np
import pytest
from numba.core import config, event

from adversaries.kinds.oblivious import coin_step
from onlinecal.compiling import compiled, counting, folder, kept_in, sources
from onlinecal.compiling.kept import KernelCache
from onlinecal.compiling.sources import _sources, fingerprint
from onlinecal.forecasters import AlmostOneStepAhead
from onlinecal.forecasters.binary.compiled import MACHINES
from onlinecal.forecasters.binary.grids.dyadic import FORMAT_DYADIC
from onlinecal.measures.lp import errors as multiclass
from onlinecal.recalibration.lp import kernels as lp_kernels
from simulations.games.duel import duel_loop

STEP = 1


def plus(x):
    return x + STEP


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of this test's own, and a folder for temporary files; no warning has been given yet."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(folder, "_told", False)
    return tmp_path / "cache" / "onlinecal"


def loops_compiled(function=plus, argument=1, answer=2):
    """How many loops a fresh process would have to compile for this call; the answer must be right."""
    with counting() as count:
        assert compiled(function)(argument) == answer
    return count.loops


def only_file(place):
    (file,) = place.glob("*.kernel")
    return file


def test_code_is_found_again_and_kept_for_each_type_of_arguments(cache):
    assert [loops_compiled(), loops_compiled(), loops_compiled(argument=1.5, answer=2.5)] == [1, 0, 1]
    assert len(list(cache.iterdir())) == 3  # one file for each, and when the folder was last swept
    assert kept_in() == cache


@pytest.mark.parametrize("damage", ["empty", "truncated", "garbage", "one bit", "zeros", "older format"])
def test_a_damaged_file_is_compiled_anew_and_written_anew(cache, damage):
    loops_compiled()
    file = only_file(cache)
    data = file.read_bytes()
    middle = len(data) // 2
    file.write_bytes(
        {
            "empty": b"",
            "truncated": data[:middle],
            "garbage": os.urandom(len(data)),
            "one bit": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
            "zeros": data[:100] + bytes(len(data) - 100),
            "older format": b"numba" + data,
        }[damage]
    )
    assert [loops_compiled(), loops_compiled()] == [1, 0]
    assert file.read_bytes()[:19] == data[:19]


@pytest.mark.parametrize("content", [b"no pickle", b"\x80\x04N."], ids=["unreadable", "something else"])
def test_a_right_checksum_on_wrong_content_is_no_reason_to_fail(cache, content):
    loops_compiled()
    folder.write(only_file(cache).stem, content)
    assert [loops_compiled(), loops_compiled()] == [1, 0]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders have no owners here")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_nothing_is_loaded_that_others_could_have_written(cache, tmp_path, what):
    loops_compiled()
    (only_file(cache) if what == "file" else cache).chmod(0o777)
    if what == "file":
        assert loops_compiled() == 1
        return
    with pytest.warns(RuntimeWarning, match="compiled code is kept in .*others can write there"):
        assert loops_compiled() == 1
    assert only_file(tmp_path / "tmp" / f"onlinecal-{os.geteuid()}").stat().st_mode & 0o022 == 0


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_nothing_is_loaded_that_belongs_to_somebody_else(cache, tmp_path):
    loops_compiled()
    os.chown(only_file(cache), 12345, 12345)
    assert loops_compiled() == 1
    squatted = tmp_path / "tmp" / "onlinecal-0"
    squatted.mkdir(mode=0o700)
    os.chown(squatted, 12345, 12345)
    os.chown(cache, 12345, 12345)
    with pytest.warns(RuntimeWarning, match="compiled code cannot be kept"):
        assert loops_compiled() == 1
    assert list(squatted.iterdir()) == []


def test_without_a_place_to_write_code_is_kept_in_a_temporary_folder_and_that_is_said_once(cache, tmp_path):
    cache.parent.write_text("no folder")
    with pytest.warns(RuntimeWarning) as said:
        assert [loops_compiled(), loops_compiled(), loops_compiled(argument=1.5, answer=2.5)] == [1, 0, 1]
    assert [str(one.message).startswith("compiled code is kept in") for one in said] == [True]
    temporary = tmp_path / "tmp" / f"onlinecal-{os.geteuid()}"
    assert temporary.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(temporary)
    temporary.write_text("no folder either")
    folder._told = False
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR may name a folder") as said:
        assert [loops_compiled(), loops_compiled()] == [1, 1]
    assert len(said) == 1


def test_readers_never_see_half_of_what_writers_write(cache):
    contents = [os.urandom(10 ** (place + 2)) for place in range(4)]
    seen = []

    def work(content):
        for _ in range(30):
            folder.write("shared", content)
            seen.append(folder.read("shared"))

    threads = [threading.Thread(target=work, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 120
    assert set(seen) <= set(contents)
    assert [file.name for file in cache.glob("*.part")] == []


def test_what_was_not_used_for_long_goes_and_the_oldest_of_too_much(cache, monkeypatch):
    now = time.time()
    ages = {"old": 100, "older": 200, "fresh": 0, "a": 3, "b": 4}
    for name, days in ages.items():
        folder.write(name, bytes(1000))
        os.utime(cache / f"{name}.kernel", (now - days * 86400,) * 2)
    (cache / "lost.part").write_bytes(b"")
    os.utime(cache / "lost.part", (now - 2 * 86400,) * 2)
    monkeypatch.setattr(folder, "MOST_BYTES", 3500)
    folder.write("new", bytes(1000))
    assert len(list(cache.glob("*.kernel"))) == 6, "it is swept once a day, not at every file"
    (cache / folder.SWEPT).unlink()
    folder.write("new", bytes(1000))
    assert sorted(file.name for file in cache.iterdir()) == [
        "a.kernel",
        "fresh.kernel",
        "new.kernel",
        "swept",
    ]


def test_reading_keeps_a_file_young(cache):
    loops_compiled()
    file = only_file(cache)
    os.utime(file, (time.time() - 80 * 86400,) * 2)
    assert loops_compiled() == 0
    assert time.time() - file.stat().st_mtime < 86400


def test_compiling_can_be_interrupted_and_taken_up_again():
    class Interrupt(event.Listener):
        def on_start(self, event):
            os.kill(os.getpid(), signal.SIGINT)

        def on_end(self, event):
            pass

    kernel = compiled(plus)
    with pytest.raises(KeyboardInterrupt), event.install_listener("numba:compile", Interrupt()):
        kernel(1)
    assert kernel(1) == 2


OWN = {
    "own_kernel.py": "from own_helper import helped\n\n\ndef kernel(x):\n    return helped(x)\n",
    "own_helper.py": "from numba.extending import register_jitable\n\nfrom own_constant import STEP\n\n\n"
    "@register_jitable\ndef helped(x):\n    return x + STEP\n",
    "own_constant.py": "STEP = 1\n",
}


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A user's kernel that calls a function of another file, which takes a constant from a third."""
    for name, content in OWN.items():
        (tmp_path / name).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    invalidate_caches()
    yield import_module("own_kernel")
    for name in OWN:
        sys.modules.pop(name.removesuffix(".py"))


def name_of(function):
    (context,) = {type(compiled(function).targetctx): compiled(function).targetctx}.values()
    return KernelCache(function)._name((), context.codegen())


@pytest.mark.parametrize("name", OWN)
def test_code_depends_on_every_source_behind_it(own, tmp_path, name):
    def loop(x):
        return own_kernel(x)

    own_kernel = own.kernel
    before = name_of(own.kernel), name_of(loop)
    assert before == (name_of(own.kernel), name_of(loop))
    (tmp_path / name).write_text("# a line more\n" + OWN[name])
    assert len({*before, name_of(own.kernel), name_of(loop)}) == 4


@pytest.mark.parametrize(
    "kernel, others",
    [
        (multiclass._error, {"onlinecal.measures.lp.level_sets"}),
        (lp_kernels.advance, {"onlinecal.measures.lp.level_sets", "onlinecal.recalibration.lp.statistics"}),
        (
            MACHINES[FORMAT_DYADIC].advance,
            {"onlinecal.forecasters.binary.grids.dyadic_search", "onlinecal.forecasters.binary.cells"},
        ),
        (
            duel_loop(AlmostOneStepAhead().rules, coin_step, 1),
            {"adversaries.kinds.oblivious", "simulations.games.foresight"},
        ),
    ],
    ids=["measures", "recalibration", "forecasters", "duels"],
)
def test_the_projects_own_kernels_depend_on_the_files_of_what_they_call(kernel, others):
    modules = set()
    fingerprint(kernel, modules)
    behind = _sources(modules)
    assert {kernel.py_func.__module__, *others} <= behind.keys()
    assert not any(name.startswith(("numpy", "numba", "onlinecal.cli")) for name in behind)


def test_code_of_a_source_that_changed_meanwhile_is_not_kept(own, cache):
    assert loops_compiled(own.kernel) == 1
    assert not cache.exists()


def test_kernels_differ_by_what_is_in_their_closures():
    def make(inner, number):
        def outer(x):
            return inner(x) + number

        return outer

    def twice(x):
        return 2 * x

    def thrice(x):
        return 3 * x

    array = np.arange(3)
    made = [make(twice, 1), make(thrice, 1), make(twice, 2), make(twice, 2.0), make(twice, array)]
    names = [name_of(one) for one in (*made, make(make(twice, 1), 1), make(twice, array + 1))]
    assert len(set(names)) == len(names)
    assert name_of(make(twice, 1)) == names[0]


def test_nothing_is_said_while_all_goes_well(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [loops_compiled(), loops_compiled()] == [1, 0]
    assert capsys.readouterr() == ("", "")


def test_a_process_loads_no_code_of_sources_that_are_newer_than_it(own, tmp_path, cache, monkeypatch):
    def loaded_before(seconds):
        monkeypatch.setattr(sources, "BEGAN", time.time() + seconds)

    old, began = {name.removesuffix(".py"): sys.modules.pop(name.removesuffix(".py")) for name in OWN}, 0
    time.sleep(0.05)
    began = time.time()
    time.sleep(0.05)
    (tmp_path / "own_constant.py").write_text("STEP = 100\n")
    invalidate_caches()
    loaded_before(0)
    assert loops_compiled(import_module("own_kernel").kernel, answer=101) == 1
    assert only_file(cache)
    sys.modules.update(old)
    monkeypatch.setattr(sources, "BEGAN", began)
    assert loops_compiled(own.kernel) == 1


def test_what_is_typed_into_a_console_depends_on_the_files_of_what_it_calls(own, tmp_path):
    console = {"__name__": "no_file", "helper": sys.modules["own_helper"], "helped": own.helped}
    exec("def plain(x): return helped(x)\ndef dotted(x): return helper.helped(x)", console)
    before = [name_of(console[name]) for name in ("plain", "dotted")]
    (tmp_path / "own_constant.py").write_text("STEP = 2  # and a line that is longer\n")
    assert [name_of(console[name]) for name in ("plain", "dotted")] != before
    assert not {name_of(console[name]) for name in ("plain", "dotted")} & set(before)


def test_an_import_that_is_tried_is_one(own, tmp_path):
    tried = (
        OWN["own_helper.py"]
        .replace("from own", "try:\n    from own")
        .replace("STEP\n\n", "STEP\nfinally:\n    pass\n\n")
    )
    (tmp_path / "own_helper.py").write_text(tried)
    before = name_of(own.kernel)
    (tmp_path / "own_constant.py").write_text("STEP = 2  # and a line that is longer\n")
    assert name_of(own.kernel) != before


def test_a_kernel_that_calls_itself_can_be_called():
    def make():
        @compiled
        def factorial(n):
            if n <= 1:
                return 1
            return n * factorial(n - 1)

        return factorial

    assert make()(5) == 120
