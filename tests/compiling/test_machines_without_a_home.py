"""Containers, archives: a read-only installation, no home, another user, a full disk."""

import os
import resource
import tempfile
import zipfile
from pathlib import Path

import pytest

from tests import ROOT

PLAY = """
import numpy as np
from onlinecal.compiling import counting
from onlinecal.measures.fixed_order import inner
with counting() as compiled:
    print(inner(np.array([[1.0, 2.0]]), np.array([[1.0], [2.0]])).tolist(), compiled.loops)
"""
NOBODY = 12345
BECOME_NOBODY = f"""
import os, sys
import numba, numpy
import onlinecal.measures.fixed_order
numba.njit(lambda x: x.sum())(numpy.zeros((2, 2)))
for name in [name for name in sys.modules if name.startswith("onlinecal")]:
    del sys.modules[name]
os.setgroups([])
os.setresgid({NOBODY}, {NOBODY}, {NOBODY})
os.setresuid({NOBODY}, {NOBODY}, {NOBODY})
"""
"""Another user need not be able to execute this Python, so libraries are loaded before."""


@pytest.fixture
def run(play):
    """Runs code in a fresh process that imports the project from a tree, with these folders."""

    def run(code, places, tree=ROOT, **options):
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tree)}
        environment |= {name: str(place) for name, place in places.items()}
        return play(code, environment=environment, **options)

    return run


@pytest.fixture
def open_folder():
    """A folder that everybody can write to, as /tmp is."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o1777)
        yield folder


as_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be somebody else"
)


@as_root
@pytest.mark.parametrize("temporary", [True, False], ids=["a folder for temporary files", "none"])
def test_a_read_only_installation_says_once_where_code_is_kept(run, open_folder, temporary):
    # without a home, NUMBA_CACHE_DIR is the only other place that somebody may have named
    places = {"HOME": "/nonexistent", "NUMBA_CACHE_DIR": "/nonexistent/cache"}
    places["TMPDIR"] = open_folder if temporary else "/nonexistent"
    code = BECOME_NOBODY + PLAY
    if not temporary:
        # python itself tries /tmp, /var/tmp, /usr/tmp and the working directory
        code = "import tempfile\ntempfile._candidate_tempdir_list = lambda: ['/nonexistent']\n" + code
    answer = run(code, places)
    assert (answer.returncode, answer.stdout) == (0, "[[5.0]] 1\n"), answer.stderr
    kept, lost = map(answer.stderr.count, ("so it is kept in", "so every process compiles anew"))
    assert (kept, lost) == ((1, 0) if temporary else (0, 1))
    if temporary:
        (folder,) = open_folder.iterdir()
        assert folder.name == f"onlinecal-{NOBODY}"
        assert (folder.stat().st_uid, folder.stat().st_mode & 0o777) == (NOBODY, 0o700)
        again = run(code, places)
        assert (again.returncode, again.stdout) == (0, "[[5.0]] 0\n")
        assert "RuntimeWarning" not in again.stderr


@as_root
def test_what_root_has_compiled_others_load(run, open_folder):
    places = {"NUMBA_CACHE_DIR": open_folder / "kernels", "TMPDIR": open_folder}
    assert run(PLAY, places).stdout == "[[5.0]] 1\n"
    answer = run(BECOME_NOBODY + PLAY, places)
    assert answer.stdout == "[[5.0]] 0\n", answer.stderr
    assert "RuntimeWarning" not in answer.stderr


def test_in_an_archive_code_is_kept_too(run, tmp_path):
    archive = tmp_path / "library.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in (ROOT / "onlinecal").rglob("*.*"):
            packed.write(path, path.relative_to(ROOT))
    for compiled in (1, 0):
        answer = run(PLAY, {"NUMBA_CACHE_DIR": tmp_path / "cache"}, archive)
        assert answer.stdout == f"[[5.0]] {compiled}\n", answer.stderr


def test_a_full_disk_costs_time_and_nothing_else(run, tmp_path):
    little_room = resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY)
    places = {"NUMBA_CACHE_DIR": tmp_path / "cache", "TMPDIR": tmp_path}
    answer = run(PLAY, places, limits=[little_room])
    assert (answer.returncode, answer.stdout) == (0, "[[5.0]] 1\n"), answer.stderr
    assert answer.stderr.count("File too large") == 2, "one warning, with the reason at either place"
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size] == []
