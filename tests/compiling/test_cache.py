"""Compiled code on disk: found again, never stale, never a reason to fail."""

import os
import shutil
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba.core import config, event

from onlinecal.compiling import compiled, counting, folder, ingredients, kept_in
from onlinecal.compiling.ingredients import NotKept, fingerprint
from onlinecal.measures.smooth import fill_weights

STEP = 1


def plus(x):
    return x + STEP


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of this test's own, and a folder for temporary files; functions here count as the library's."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(folder, "_told", [])
    monkeypatch.setattr(ingredients, "is_ours", lambda path: path == __file__)
    folder._sweep.cache_clear()
    return tmp_path / "cache" / "onlinecal"


def loops_compiled(function=plus, argument=1, answer=2):
    """How many loops a fresh process would have to compile for this call; the answer must be right."""
    with counting() as count:
        assert compiled(function)(argument) == answer
    return count.loops


def only_file(place):
    (file,) = place.glob("*/*.kernel")
    return file


def test_code_is_found_again_and_kept_for_each_type_of_arguments(cache, capsys, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [loops_compiled(), loops_compiled(), loops_compiled(argument=1.5, answer=2.5)] == [1, 0, 1]
    # code that checks places in arrays is other code
    monkeypatch.setattr(config, "BOUNDSCHECK", 1)
    assert [loops_compiled(), loops_compiled()] == [1, 0]
    assert len(list(cache.glob("*/*"))) == 3
    assert kept_in() == cache
    assert capsys.readouterr() == ("", "")


def test_a_damaged_file_is_compiled_anew_and_written_anew(cache):
    loops_compiled()
    file = only_file(cache)
    whole = file.read_bytes()
    middle = len(whole) // 2
    one_bit = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for damaged in (b"", whole[:middle], one_bit):
        file.write_bytes(damaged)
        assert [loops_compiled(), loops_compiled()] == [1, 0]
    for no_code in (b"nothing", b"\x80\x04N."):
        # with a right checksum; the other is a pickle
        folder.write(file.stem, no_code)
        assert [loops_compiled(), loops_compiled()] == [1, 0]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders have no owners here")
@pytest.mark.parametrize("what", ["file", "folder", "place"])
def test_nothing_is_loaded_that_others_could_have_written(cache, tmp_path, what):
    loops_compiled()
    file = only_file(cache)
    {"file": file, "folder": file.parent, "place": cache}[what].chmod(0o777)
    if what == "place":
        with pytest.warns(RuntimeWarning, match="cannot be .*others can write there, .*, so it is kept in"):
            assert loops_compiled() == 1
        assert only_file(tmp_path / "tmp" / f"onlinecal-{os.geteuid()}").stat().st_mode & 0o022 == 0
    else:
        assert loops_compiled() == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_nothing_is_loaded_that_belongs_to_somebody_else(cache, tmp_path):
    loops_compiled()
    os.chown(only_file(cache), 12345, 12345)
    assert loops_compiled() == 1
    (tmp_path / "theirs").mkdir(mode=0o700)
    squatted = tmp_path / "tmp" / "onlinecal-0"
    squatted.symlink_to(tmp_path / "theirs")
    os.chown(squatted, 12345, 12345, follow_symlinks=False)
    os.chown(cache, 12345, 12345)
    with pytest.warns(RuntimeWarning, match="compiled code cannot be kept"):
        assert loops_compiled() == 1
    assert list(squatted.iterdir()) == []


def test_without_a_place_to_write_code_is_kept_in_a_temporary_folder_and_that_is_said_once(cache, tmp_path):
    cache.parent.write_text("no folder")
    with pytest.warns(RuntimeWarning) as said:
        assert [loops_compiled(), loops_compiled(), loops_compiled(argument=1.5, answer=2.5)] == [1, 0, 1]
    assert [str(one.message).startswith(f"compiled code cannot be kept in {cache}") for one in said] == [True]
    temporary = tmp_path / "tmp" / f"onlinecal-{os.geteuid()}"
    assert temporary.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(temporary)
    temporary.write_text("no folder either")
    folder._told.clear()
    with pytest.warns(RuntimeWarning, match="compiles anew, .* NUMBA_CACHE_DIR may name") as said:
        assert [loops_compiled(), loops_compiled()] == [1, 1]
    assert len(said) == 1


def test_readers_never_see_half_of_what_writers_write(cache):
    contents, seen = [os.urandom(10 ** (place + 2)) for place in range(4)], []

    def work(content):
        for _ in range(30):
            folder.write("shared", content)
            seen.append(folder.read("shared"))

    with ThreadPoolExecutor(len(contents)) as threads:
        list(threads.map(work, contents))
    assert len(seen) == 120
    assert set(seen) <= set(contents)
    assert list(cache.glob("*/*.part")) == []


def test_code_that_is_no_longer_used_goes(cache, monkeypatch):
    def kept(name, days):
        folder.write(name, b"")
        file = next(cache.glob(f"*/{name}.kernel"))
        os.utime(file, (time.time() - days * 86400,) * 2)
        return file

    other_versions = cache / ("a" * 40)
    other_versions.mkdir(parents=True)
    (cache / "not ours").mkdir()
    files = {days: kept(f"old-{days}", days) for days in (61, 59, 3, 2)}
    # a file that is read is in use
    assert folder.read("old-59") == b""
    monkeypatch.setattr(folder, "MOST_KERNELS", 2)
    folder._sweep.cache_clear()
    folder.write("new", b"")
    assert [days for days, file in files.items() if file.exists()] == [59, 2]
    assert folder.read("new") == b""
    assert not other_versions.exists()
    assert (cache / "not ours").exists()


def test_compiling_can_be_interrupted_and_taken_up_again():
    class Interrupt(event.Listener):
        def on_start(self, event):
            raise KeyboardInterrupt

        def on_end(self, event):
            pass

    kernel = compiled(plus)
    with pytest.raises(KeyboardInterrupt), event.install_listener("numba:compile", Interrupt()):
        kernel(1)
    assert kernel(1) == 2


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
    pairs = [(twice, 1), (thrice, 1), (twice, 2), (twice, 2.0), (twice, array), (twice, array + 1)]
    pairs += [(make(twice, 1), 1), (twice, (1, 2)), (compiled(thrice), 2)]
    assert len({fingerprint(make(*pair)) for pair in pairs}) == len(pairs)
    assert fingerprint(make(compiled(twice), 1)) == fingerprint(make(twice, 1))


def test_kernels_of_a_users_functions_are_not_kept(cache, monkeypatch):
    def make(inner):
        return lambda x: inner(x)

    console = {"__name__": "__main__"}
    exec("def theirs(x): return x + 1", console)
    theirs = console["theirs"]
    for kernel in (theirs, make(theirs), make(compiled(theirs)), make(object())):
        with pytest.raises(NotKept):
            fingerprint(kernel)
    assert [loops_compiled(theirs), loops_compiled(theirs)] == [1, 1]
    monkeypatch.undo()
    # to users these tests are none of the packages
    monkeypatch.setattr(ingredients, "PACKAGES", ("onlinecal",))
    with pytest.raises(NotKept):
        fingerprint(plus)
    assert fingerprint(fill_weights)
    assert not cache.exists()


def test_what_is_compiled_is_what_this_process_has_loaded(cache, monkeypatch):
    assert [loops_compiled(), loops_compiled()] == [1, 0]
    monkeypatch.setitem(globals(), "STEP", 2)
    assert [loops_compiled(answer=3), loops_compiled(answer=3)] == [1, 0]
    monkeypatch.undo()


def test_a_kernel_that_calls_itself_can_be_called():
    @compiled
    def factorial(n):
        if n <= 1:
            return 1
        return n * factorial(n - 1)

    assert factorial(5) == 120
