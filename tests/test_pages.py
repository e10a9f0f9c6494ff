"""Every block of Python on every page runs, and prints the figures that stand beside it."""

from __future__ import annotations

import ast
import io
import re
import shutil
import sys
import tokenize
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import adversaries
from adversaries import registry
from simulations.games import players
from tests import DATA, ROOT
from tests.adversaries.play import play_compiled, play_plainly, scripted_game

PAGES = {path.stem: path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]}
BLOCKS = {
    name: blocks
    for name, path in PAGES.items()
    if (blocks := re.findall(r"^```(?:python|py)\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M))
}
NOT_RUN = {
    ("gallery", "results/arena/rates.parquet"): "reads what the sweep of the arena leaves after hours",
}
"""By page and a piece of the block, why not."""

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def borrowed(name: str) -> None:
    """A data set, as if it lay in the reader's folder."""
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not here")
    Path(name).symlink_to(DATA / name)


def before_readme() -> dict[str, Any]:
    return {"forecasts": [0.2, 0.8, 0.6], "probabilities": [0.4, 0.7, 0.7], "outcomes": [0, 1, 1]}


def before_adversaries() -> None:
    Path("games.csv").write_text("date,won\n2,0\n1,1\n3,1\n")


def before_scale() -> dict[str, Any]:
    pytest.importorskip("pyspark", reason="needs onlinecal[spark]")
    if shutil.which("java") is None:
        pytest.skip("needs Java")
    from onlinecal.engine.spark import local_session

    Path("events").mkdir()
    row = {"type": "query", "id": "a", "key": "k", "position": 0, "hint": 0.5, "value": None}
    pl.DataFrame([row], schema_overrides={"value": pl.String}).write_parquet("events/0.parquet")
    rng = np.random.default_rng(0)
    P, y = rng.dirichlet(np.ones(3), 60), rng.integers(0, 3, 60)
    frame = pl.DataFrame({"cat": P[:, 0], "dog": P[:, 1], "fox": P[:, 2], "p": P[:, 0], "y": y == 0})
    frame = frame.with_columns(
        pl.col("y").alias("clicked"),
        pl.Series("label", y),
        pl.Series("country", list("abc") * 20),
        pl.Series("device", ["phone", "desk"] * 30),
        pl.concat_list("cat", "dog", "fox").alias("probabilities"),
    )
    table = local_session(2).createDataFrame(frame.to_pandas())
    return {"table": table, "P": P, "y": y, "frame": frame}


BEFORE = {
    "README": before_readme,
    "adversaries": before_adversaries,
    "recalibrate": lambda: borrowed("wideresnet-16-4-cifar-10.npz"),
    "recalibrate-decisions": lambda: borrowed("lenet-5-cifar-10.npz"),
    "recalibrate-lp": lambda: borrowed("wideresnet-16-4-cifar-10.npz"),
    "recalibrate-stream": lambda: borrowed("nba_games.csv"),
    "scale": before_scale,
}
"""What a page takes for granted: files in the reader's folder, and names."""


def after_adversaries(_names: dict[str, Any]) -> None:
    """The page's own adversary is one like the others."""
    (name,) = set(registry.catalogue()) - registry._CATALOGUE.own_names
    adversary = adversaries.create(name, horizon=300, seed=1)
    plain = play_plainly(adversary, *scripted_game(300))
    assert plain == play_compiled(adversary, *scripted_game(300))
    assert set(plain) == {0, 1}


def after_baselines(names: dict[str, Any]) -> None:
    """The page's own baseline is one like the others."""
    assert players.create("rounded-mean:cells=10").spec == "rounded-mean"
    assert names["forecaster"].clone().n_cells == 10
    assert names["RoundedMean"]().replay([1, 1, 0, 1]).tolist() == [0.5, 0.7, 0.8, 0.6]


def after_scale(_names: dict[str, Any]) -> None:
    assert pl.read_parquet("answers/*.parquet")["type"].to_list() == ["forecast"]


AFTER = {"adversaries": after_adversaries, "baselines": after_baselines, "scale": after_scale}


def printed(block: str, names: dict[str, Any]) -> list[tuple[int, str]]:
    """What a block prints, with the lines that print it."""
    lines: list[tuple[int, str]] = []
    names["print"] = lambda *values: lines.append(
        (sys._getframe(1).f_lineno, " ".join(str(value) for value in values))
    )
    exec(compile(block, "page", "exec"), names)
    return lines


def promises(block: str) -> dict[int, str]:
    """The comments beside prints that tell figures, by the lines that print."""
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(block).readline)
        if token.type == tokenize.COMMENT
    }
    found = {
        node.lineno: comments.get(node.end_lineno or node.lineno, "")
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    return {
        line: told for line, told in found.items() if re.match(r"True|False", told) or NUMBER.search(told)
    }


def assert_kept(promise: str, text: str) -> None:
    """The promise begins with what is printed; numbers may be rounded to the decimals that it tells."""
    numbers = NUMBER.findall(text)
    told = NUMBER.findall(promise)[: len(numbers)]
    assert len(told) == len(numbers), (promise, text)
    for short, number in zip(told, numbers, strict=True):
        decimals = len(short.partition(".")[2])
        assert float(number) == pytest.approx(float(short), abs=0.51 * 10.0**-decimals), (promise, text)
    assert numbers or promise.startswith(text), (promise, text)


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] if page == "scale" else []) for page in BLOCKS]
)
def test_the_blocks_of_a_page_run_and_print_what_stands_beside_them(page, monkeypatch, tmp_path, request):
    if page != "scale":
        # by this page alone pandas and others are wanted, and it says so
        request.getfixturevalue("without_extras")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry._CATALOGUE, "entries", registry.catalogue())
    monkeypatch.setattr(players._CATALOGUE, "entries", players.catalogue())
    names: dict[str, Any] = {"__name__": "page", **(BEFORE.get(page, dict)() or {})}
    for block in BLOCKS[page]:
        if any(page == where and piece in block for where, piece in NOT_RUN):
            continue
        told, lines = promises(block), printed(block, names)
        assert told.keys() <= {line for line, _ in lines}
        for line, text in lines:
            if line in told:
                assert_kept(told[line], text)
    AFTER.get(page, lambda names: None)(names)


def test_what_is_not_run_is_there():
    for page, piece in NOT_RUN:
        assert [block for block in BLOCKS[page] if piece in block], (page, piece)
