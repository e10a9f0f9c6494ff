"""Blocks of every page run and print the figures beside them; tutorials and commands show what is theirs.

By default a few quick pages are run, and of all pages it is checked that what their blocks import, call and
type into a shell is there.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import typer
from matplotlib import pyplot

from onlinecal import adversaries
from onlinecal.adversaries import registry
from onlinecal.engine import Engine, decode_lines, encode_lines
from onlinecal.simulations.cli.console import app
from onlinecal.simulations.games import players
from tests import ROOT
from tests.adversaries.play import play_compiled, play_plainly, scripted_game
from tests.commands import run
from tests.pages import (
    BLOCK,
    PICTURES,
    Block,
    assert_drawn,
    assert_kept,
    assert_near,
    assert_pictured,
    assert_shown,
    blocks_of,
    columns_of,
    drawn,
    printed,
    promises,
    said_by_shell,
    with_commands,
)

PAGES = {
    **{path.stem: path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]},
    **{f"tutorials/{path.stem}": path for path in ROOT.glob("docs/tutorials/*.md")},
}
BLOCKS = {name: blocks for name, path in PAGES.items() if (blocks := blocks_of(path))}
AMONG_COMMANDS = ("from zlib", "read_parquet")
"""Pieces of blocks of the page `operate` that are run in their place among its commands."""


def before_http_engine() -> None:
    for name in ("starlette", "uvicorn", "httptools"):
        pytest.importorskip(name, reason="needs onlinecal[serve]")


def before_scale() -> None:
    pytest.importorskip("pyspark", reason="needs onlinecal[spark]")
    if shutil.which("java") is None:
        pytest.skip("needs Java")


def before_kafka() -> None:
    pytest.importorskip("confluent_kafka", reason="needs onlinecal[kafka]")


BEFORE = {"tutorials/http-engine": before_http_engine, "kafka": before_kafka, "scale": before_scale}
"""Pages that want more than the base dependencies, and say so: tried where these are."""


def after_own_adversary(_names: dict[str, Any]) -> None:
    """The page's own adversary is one like the others."""
    (name,) = set(registry.catalogue()) - registry._TWO_CLASSES.own_names
    adversary = adversaries.create(name, horizon=300, seed=1)
    plain = play_plainly(adversary, *scripted_game(300))
    assert plain == play_compiled(adversary, *scripted_game(300))
    assert set(plain) == {0, 1}


def after_scale(_names: dict[str, Any]) -> None:
    assert pl.read_parquet("answers/*.parquet")["type"].to_list() == ["forecast"]


AFTER = {"own-adversary": after_own_adversary, "scale": after_scale}
TRAINED = ("network",)
"""Pages with figures of a network that is trained on them. Its last bits depend on the processor's BLAS."""


def check(block: Block, names: dict[str, Any], page: Path) -> None:
    """A block runs, prints what stands beside it and below it, and draws the picture."""
    if block.language == "sh":
        text = said_by_shell(block.code, columns_of(page))
    else:
        told, lines = promises(block.code), printed(block.code, names)
        assert told.keys() <= {line for line, _ in lines}
        for line, one in lines:
            if line in told:
                assert_kept(told[line], one)
        text = "".join(f"{one}\n" for _, one in lines)
    if block.output is not None:
        (assert_near if page.stem in TRAINED else assert_shown)(block.output, text)
    if block.picture is not None and block.language != "sh":
        assert_pictured(page.parent / block.picture, drawn())
        pyplot.close("all")


def test_what_a_page_shows_is_right_to_the_last_digit():
    assert_shown("0.5307 ±.0279, 8,886 rows", "0.5308 ±.0280, 8,886 rows")
    pairs = ("0.5307", "0.5364"), ("±.0279", "±.0281"), ("8,886 rows", "8,894 rows"), ("round 97", "round 99")
    for told, found in pairs:
        with pytest.raises(AssertionError):
            assert_shown(told, found)
    assert_near("decision 0.0252", "decision 0.0246")
    with pytest.raises(AssertionError):
        assert_near("decision 0.5307", "decision 0.5364")


QUICK = (
    "README", "act-on-a-threshold", "adversaries", "alarms", "combine", "engine", "index", "late-labels",
    "operate", "own-adversary", "shares", "theory", "tutorials/first-stream", "windows",
)  # fmt: skip
"""Pages whose blocks run by default: in all they take a few seconds."""


CASES = [
    *(pytest.param(page, False, id=page) for page in QUICK),
    *(pytest.param(page, True, id=f"{page} whole", marks=pytest.mark.slow) for page in BLOCKS),
]


@pytest.mark.parametrize(("page", "with_shell"), CASES)
def test_the_blocks_of_a_page_run_in_an_empty_folder(page, with_shell, monkeypatch, tmp_path, request):
    """They print what stands beside them; commands take longer, so that quick forms leave them out."""
    if page not in BEFORE:
        request.getfixturevalue("without_extras")
    monkeypatch.chdir(tmp_path)
    pyplot.close("all")
    monkeypatch.setattr(registry._TWO_CLASSES, "entries", registry.catalogue())
    monkeypatch.setattr(players._CATALOGUE, "entries", players.catalogue())
    BEFORE.get(page, lambda: None)()
    names: dict[str, Any] = {"__name__": "page"}
    monkeypatch.setenv("PATH", with_commands())
    try:
        for block in BLOCKS[page]:
            if block.needs is not None or (block.language == "sh" and not with_shell):
                continue
            if with_shell or page != "operate" or not any(piece in block.code for piece in AMONG_COMMANDS):
                check(block, names, PAGES[page])
        AFTER.get(page, lambda names: None)(names)
        for name, place in PICTURES.items():
            if Path(place).exists():
                assert_drawn(ROOT / "docs" / "images" / f"{name}.png", Path(place))
    finally:
        for server in (value for value in names.values() if isinstance(value, subprocess.Popen)):
            server.kill()


NEEDS = {
    "CONTRIBUTING": ["a checkout"],
    "README": ["the network"],
    "engine": ["a checkout; serves until it is stopped"],
    "index": ["the network"],
    "proofs": ["a checkout, Coq"],
    "recalibrate": ["a file of the reader's"],
    "scale": ["a checkout, the network", "a checkout, the network", "a cluster", "a cluster"],
}


def test_blocks_that_are_not_run_are_few_and_say_what_they_need():
    found = {page: [block.needs for block in blocks if block.needs] for page, blocks in BLOCKS.items()}
    assert {page: needs for page, needs in found.items() if needs} == NEEDS


def test_no_page_reads_data_that_the_package_does_not_have():
    for path in PAGES.values():
        assert not re.search(r"shared/data|wideresnet|lenet|mlb_games", path.read_text(encoding="utf-8")), (
            path
        )


OPERATE = (ROOT / "docs/operate.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^```(sh|python)\n(.*?)^```", OPERATE, re.S | re.M)


def in_a_shell(line: str) -> None:
    """A line of a shell, as a reader runs it."""
    subprocess.run(line, shell=True, check=True)


def in_this_process(line: str) -> None:
    """The same with the command `onlinecal` run here."""
    name, *words = shlex.split(line)
    if name != "onlinecal":
        in_a_shell(line)
        return
    place = words.index(">") if ">" in words else len(words)
    answer = run(*words[:place])
    assert answer.exit_code == 0, (line, answer.stderr)
    if words[place:]:
        Path(words[-1]).write_bytes(answer.stdout_bytes)


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="needs the command sqlite3")
@pytest.mark.parametrize("run_line", [in_this_process, pytest.param(in_a_shell, marks=pytest.mark.slow)])
def test_the_commands_of_the_page_work_one_after_the_other(run_line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", with_commands())
    assert len(COMMANDS) > 7
    assert all(any(piece in block for _, block in COMMANDS) for piece in AMONG_COMMANDS)
    for language, block in COMMANDS:
        if language == "sh":
            for line in block.replace("\\\n", "").splitlines():
                run_line(line)
            continue
        told, lines = promises(block), printed(block, {})
        assert told
        for line, text in lines:
            assert_kept(told[line], text)
    assert (tmp_path / "answers.jsonl").read_text().count("forecast") == 3
    # and the page tells of every file that is deployed
    for path in ROOT.glob("deploy/*"):
        assert f"(../deploy/{path.name})" in OPERATE or path.suffix == ".dockerignore"


def test_the_page_of_the_engine_shows_what_is_answered_over_http(tmp_path):
    page = (ROOT / "docs/engine.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\$ curl -d '(.*)' http\S+/(query|outcome)\n(.*\n)", page, re.M)
    assert len(shown) == 2
    with Engine(tmp_path / "rain.db") as engine:
        for event, route, answer in shown:
            line = json.dumps({"type": route, **json.loads(event)}) + "\n"
            assert encode_lines(engine.handle(decode_lines(line.encode()))).decode() == answer
        certificate = engine.summary("rain/oslo").certificate
    assert f'"certificate":{certificate},' in page


def code_of(page: Path, is_shell: bool) -> str:
    """All blocks of a page of Python, or of shell, whether they are run by a test or not."""
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return "".join(match["code"] for match in found if (match["language"] == "sh") == is_shell)


def commands_of(page: Path) -> list[str]:
    """The lines of a page that run the command."""
    lines = code_of(page, is_shell=True).replace("\\\n", "").splitlines()
    return [line for line in lines if line.startswith("onlinecal ")]


CODE = {name: code for name, page in PAGES.items() if (code := code_of(page, is_shell=False))}
LINES = {name: lines for name, page in PAGES.items() if (lines := commands_of(page))}


def imported(tree: ast.Module) -> dict[str, Any]:
    """What the code imports, by the names that it has there."""
    names: dict[str, Any] = {}
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(statements, []), "page", "exec"), names)
    return names


def looked_up(node: ast.expr, names: dict[str, Any]) -> Any:
    """The imported thing that an expression of names and dots stands for; None if it is another one."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute) and (owner := looked_up(node.value, names)) is not None:
        return getattr(owner, node.attr)
    return None


@pytest.mark.parametrize("page", CODE)
def test_what_the_blocks_of_a_page_import_and_call_is_there(page):
    """Names that are imported exist, and functions and classes take the arguments that they are given."""
    if page == "scale":
        pytest.importorskip("pyspark", reason="needs onlinecal[spark]")
    tree = ast.parse(CODE[page])
    names = imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            looked_up(node, names)
        called = looked_up(node.func, names) if isinstance(node, ast.Call) else None
        if not (inspect.isclass(called) or inspect.isfunction(called)):
            continue
        if any(isinstance(one, ast.Starred) for one in node.args):
            continue
        try:
            signature = inspect.signature(called)
        except ValueError:  # of a type made in C
            continue
        options = {one.arg: None for one in node.keywords if one.arg is not None}
        signature.bind_partial(*[None] * len(node.args), **options)


@pytest.mark.parametrize("page", LINES)
def test_what_a_page_types_into_a_shell_are_verbs_with_their_options(page):
    for line in LINES[page]:
        words = shlex.split(line.partition(" | ")[0].partition(" > ")[0], comments=True)[1:]
        verb = typer.main.get_command(app)
        while hasattr(verb, "commands") and words and words[0] in verb.commands:
            verb = verb.commands[words.pop(0)]
        assert verb.name != "onlinecal", line
        with verb.context_class(verb) as context:
            # refuses an option that there is not, and one without its value
            verb.make_parser(context).parse_args(list(words))
