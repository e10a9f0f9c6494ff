"""An edit recompiles what is made of what was edited, and nothing else; of sweeps it forgets such games."""

import os
import shutil
import subprocess
import sys
from textwrap import dedent

import pytest

from tests import ROOT

CHAIN = {
    "first": """
        from onlinecal.chain.second import doubled
        from onlinecal.compiling import compiled

        def make(share=0.5):
            @compiled
            def kernel(x, add=1):
                return share * doubled(x) + add

            return kernel

        kernel = make()

        @compiled
        def bystander(x):
            return x
    """,
    "second": """
        from onlinecal.chain import third
        from onlinecal.compiling import inlined

        @inlined
        def doubled(x):
            '''Twice the number.'''
            return third.times(x)
    """,
    "third": """
        from onlinecal.chain.fourth import FACTOR
        from onlinecal.compiling import kernel_part

        @kernel_part
        def times(x):
            return FACTOR * x
    """,
    "fourth": "FACTOR = 2",
}
"""A kernel whose constant is three imports away, and one beside it."""

PLAY = """
from onlinecal.chain.first import bystander, kernel
from onlinecal.compiling import counting
from onlinecal.compiling.ingredients import modules_digest

with counting() as kernels:
    answer = kernel(3.0)
with counting() as bystanders:
    bystander(3.0)
print(answer, kernels.loops, bystanders.loops, modules_digest("onlinecal.chain.first"))
"""


def said(code, tree, **settings):
    """The words that a fresh process prints, which imports the library from a tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree), **settings}
    command = [sys.executable, "-B", "-c", code]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def after(tree, *edits):
    """Write the chain, edited, and play it."""
    for name, source in CHAIN.items():
        text = dedent(source).lstrip("\n")
        for place, before, now in edits:
            if place == name:
                assert before in text
                text = text.replace(before, now)
        (tree / "onlinecal" / "chain" / f"{name}.py").write_text(text)
    return said(PLAY, tree, NUMBA_CACHE_DIR=str(tree / "kernels"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The library in a folder of its own, with room for the chain."""
    tree = tmp_path_factory.mktemp("edited")
    shutil.copytree(ROOT / "onlinecal", tree / "onlinecal", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "onlinecal" / "chain").mkdir()
    (tree / "onlinecal" / "chain" / "__init__.py").touch()
    return tree


@pytest.fixture(scope="module")
def digest(tree):
    """That of the chain as it stands; then its kernels are kept, and nothing else is in the tree."""
    files = set(tree.rglob("*.*"))
    answer, kernels, bystanders, digest = after(tree)
    assert (answer, kernels, bystanders) == ("4.0", "1", "1")
    assert {path.parent for path in set(tree.rglob("*.*")) - files} <= {
        tree / "onlinecal" / "chain",
        *(tree / "kernels" / "onlinecal").iterdir(),
    }
    return digest


WORDS = [
    ("second", "Twice the number.", "Two times the number."),
    ("second", "@inlined", "# twice\n\n@inlined"),
    ("third", "from onlinecal.chain", "'''The third.'''\n\nfrom onlinecal.chain"),
    ("first", "return x", "'''The same.'''\n\n    return x"),
]


def test_after_an_edit_of_docstrings_comments_and_blank_lines_nothing_is_compiled(tree, digest):
    assert after(tree, *WORDS) == ["4.0", "0", "0", digest]


EDITS = {
    "a constant three imports away": (("fourth", "2", "4"), "7.0"),
    "a default": (("first", "add=1", "add=2"), "5.0"),
    "a factory's default": (("first", "share=0.5", "share=1.0"), "7.0"),
    "a part": (("third", "FACTOR * x", "FACTOR + x"), "3.5"),
    "how a part is compiled": (("second", "@inlined", "@inlined(optimised=False)"), "4.0"),
}


@pytest.mark.parametrize("edit, answer", EDITS.values(), ids=EDITS)
def test_after_an_edit_what_is_made_of_it_is_compiled_and_nothing_else(tree, digest, edit, answer):
    found = after(tree, edit)
    assert found[:3] == [answer, "1", "0"]
    assert found[3] != digest


def test_a_game_of_a_sweep_is_made_of_what_plays_and_measures_it():
    code = """
from onlinecal.compiling.ingredients import modules_of
print(*modules_of("simulations.sweeps.playing"))
"""
    modules = said(code, ROOT)
    assert {
        "adversaries.kinds.binary",
        "onlinecal.forecasters.binary.cells",
        "onlinecal.forecasters.simplex.machine.walk",
        "onlinecal.measures.distance.exact",
        "simulations.games.duel",
    } <= set(modules)
    assert not [name for name in modules if name.startswith(("onlinecal.cli", "onlinecal.wrappers"))]
