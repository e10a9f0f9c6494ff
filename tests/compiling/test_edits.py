"""An edit recompiles what is made of what was edited, and nothing else; of sweeps it forgets such games."""

import json
import os
import shutil
from textwrap import dedent

import pytest

from onlinecal.compiling.ingredients import modules_of, substance
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

WORDS = (
    ("second", "Twice the number.", "Two times the number."),
    ("second", "@inlined", "# twice\n\n@inlined"),
    ("third", "from onlinecal.chain", "'''The third.'''\n\nfrom onlinecal.chain"),
    ("first", "return x", "'''The same.'''\n\n    return x"),
)
EDITS = {
    "nothing": (),
    "docstrings, comments, blank lines": WORDS,
    "a constant three imports away": (("fourth", "2", "4"),),
    "a default": (("first", "add=1", "add=2"),),
    "a factory's default": (("first", "share=0.5", "share=1.0"),),
    "a part": (("third", "FACTOR * x", "FACTOR + x"),),
    "how a part is compiled": (("second", "@inlined", "@inlined(optimised=False)"),),
}
ANSWERS = {"a constant three imports away": 7.0, "a default": 5.0, "a factory's default": 7.0, "a part": 3.5}
"""What the kernel answers, if that is not what it was."""

PLAY = """
import json, os
from pathlib import Path
from onlinecal.compiling import counting
from onlinecal.compiling.ingredients import modules_digest

for name, texts in json.loads(Path("edits.json").read_text()).items():
    for module, text in texts.items():
        Path("onlinecal", "chain", f"{module}.py").write_text(text)
    child = os.fork()
    if child == 0:
        from onlinecal.chain.first import bystander, kernel

        with counting() as kernels:
            answer = kernel(3.0)
        with counting() as bystanders:
            bystander(3.0)
        said = name, answer, kernels.loops, bystanders.loops, modules_digest("onlinecal.chain.first")
        os.write(1, json.dumps(said).encode() + b"\\n")
        os._exit(0)
    os.waitpid(child, 0)
"""


def edited(edits):
    """The texts of the chain after edits."""
    texts = {name: dedent(source).lstrip("\n") for name, source in CHAIN.items()}
    for place, before, after in edits:
        assert before in texts[place]
        texts[place] = texts[place].replace(before, after)
    return texts


@pytest.fixture(scope="module")
def played(play, tmp_path_factory):
    """By edit: the answer, how many loops were compiled for it, and beside it, and the digest of the chain.

    Each is played by a child of one process, from a copy of the library that has no compiled code before.
    """
    tree = tmp_path_factory.mktemp("edited")
    shutil.copytree(ROOT / "onlinecal", tree / "onlinecal", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "onlinecal" / "chain").mkdir()
    (tree / "onlinecal" / "chain" / "__init__.py").touch()
    files = set((tree / "onlinecal").rglob("*"))
    (tree / "edits.json").write_text(json.dumps({name: edited(edits) for name, edits in EDITS.items()}))
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tree)}
    environment["NUMBA_CACHE_DIR"] = str(tree / "kernels")
    done = play(PLAY, environment=environment, cwd=tree)
    assert done.returncode == 0, done.stderr
    # nothing is left beside the sources
    left = set((tree / "onlinecal").rglob("*")) - files
    assert left == {tree / "onlinecal" / "chain" / f"{name}.py" for name in CHAIN}
    return {name: said for name, *said in map(json.loads, done.stdout.splitlines())}


def test_after_an_edit_of_docstrings_comments_and_blank_lines_nothing_is_compiled(played):
    *first, digest = played["nothing"]
    assert first == [4.0, 1, 1]
    assert played["docstrings, comments, blank lines"] == [4.0, 0, 0, digest]


@pytest.mark.parametrize("edit", list(EDITS)[2:])
def test_after_an_edit_what_is_made_of_it_is_compiled_and_nothing_else(played, edit):
    *found, digest = played[edit]
    assert found == [ANSWERS.get(edit, 4.0), 1, 0]
    assert digest != played["nothing"][-1]


def test_a_set_of_constants_has_no_order_of_its_own():
    code = (lambda x: x in {0, 8}).__code__

    def told(values):
        consts = tuple(values if isinstance(one, frozenset) else one for one in code.co_consts)
        # not what is remembered of code that is equal
        return substance.__wrapped__(code.replace(co_consts=consts))

    # eight places apart, so the first that came has the first place
    one, other = frozenset([0, 8]), frozenset([8, 0])
    assert list(one) != list(other)
    assert told(one) == told(other) != told(frozenset([0, 9]))


def test_a_game_of_a_sweep_is_made_of_what_plays_and_measures_it():
    modules = modules_of("onlinecal.simulations.sweeps.playing")
    assert {
        "onlinecal.adversaries.kinds.binary",
        "onlinecal.forecasters.binary.cells",
        "onlinecal.forecasters.simplex.machine.walk",
        "onlinecal.measures.distance.exact",
        "onlinecal.simulations.games.duel",
    } <= modules.keys()
    assert not [name for name in modules if name.startswith(("onlinecal.cli", "onlinecal.wrappers"))]


def test_what_decides_about_waiting_is_no_part_of_compiled_code():
    modules = modules_of("onlinecal.compiling.kernels", "onlinecal.compiling.instructions")
    assert "onlinecal.compiling.cache" in modules
    others = {f"onlinecal.compiling.{name}" for name in ("beginning", "filling", "progress")}
    assert not others & modules.keys()
