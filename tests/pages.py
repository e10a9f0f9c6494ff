"""Pages as programs: blocks of Python and of shell, what they print, and the pictures they make.

`python -m tests.pages docs/measures.md` runs a page in an empty folder and puts what it prints and draws in
place. A block that needs more than the installed package has a line `<!-- not run: what it needs -->` above
it, and is not run.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from PIL import Image

from tests import ROOT

NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|-?\.\d+")
"""As pages and commands write numbers: 8,886 or 0.2147 or .0039."""
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<needs>[^>]+) -->\n)?```(?P<language>python|sh)\n(?P<code>.*?)^```\n"
    r"(?:\n?```text\n(?P<output>.*?)^```\n)?(?:\n!\[[^]]*\]\((?P<picture>[^)]+)\)\n)?",
    re.S | re.M,
)
DPI = 110
PICTURES = {
    "decision-steps": "results/experiment/steps.png",
    "distance": "results/demo/distance.png",
    "ece": "results/demo/ece.png",
    "filmstrip": "results/film/filmstrip.png",
    "measure-transport": "results/nba-measures/transport.png",
    "overview": "results/demo/overview.png",
    "nba-reliability": "results/nba/reliability.png",
    "recalibrate-which": "results/digits/scoreboard.png",
    "regret": "results/demo/regret.png",
    "simplex-distance": "results/classes/simplex_distance.png",
    "simplex-triangle": "results/triangle/simplex_triangle.png",
    "trajectories": "results/demo/trajectories-longest.png",
    "worst": "results/worst/worst.png",
    "wrap-fold-reliability": "results/hard/reliability-fold-forecasts.png",
}
"""Of `docs/images`, where the command of a page leaves them."""
OTHER_COLOUR = 64
"""Of 255: colours that differ by no more may be one, since pictures are kept in few colours."""
MOST_OTHER_PIXELS = 0.005
"""The share of pixels that may have another colour: a word of the picture may stand elsewhere."""


@dataclass(frozen=True)
class Block:
    """Code on a page, and what stands below it: the text that it prints and the path of its picture.

    `needs` says what a block needs that is not here: a network, a cluster, a file of the reader's.
    """

    needs: str | None
    language: str
    code: str
    output: str | None
    picture: str | None


def blocks_of(page: Path) -> list[Block]:
    """The blocks of Python and of shell of a page, and what stands below them."""
    return [Block(**match.groupdict()) for match in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def is_tutorial(page: Path) -> bool:
    """Whether all that the blocks of a page print is shown, and in narrow lines."""
    return page.parent.name == "tutorials"


def columns_of(page: Path) -> int:
    """How wide the commands of a page print."""
    return 110 if is_tutorial(page) else 140


def printed(block: str, names: dict[str, Any]) -> list[tuple[int, str]]:
    """What a block prints, with the lines that print it."""
    lines: list[tuple[int, str]] = []
    names["print"] = lambda *values: lines.append(
        (sys._getframe(1).f_lineno, " ".join(str(value) for value in values))
    )
    # without the future statements of this module
    exec(compile(block, "page", "exec", dont_inherit=True), names)
    return lines


def with_commands() -> str:
    """The PATH on which the command onlinecal is that of this interpreter."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def said_by_shell(block: str, columns: int = 110) -> str:
    """What commands print, as wide as a page."""
    environment = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1"}
    ran = subprocess.run(["sh", "-ec", block], capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr
    # a table ends with an empty line, which pages leave out if it is the last one
    return "".join(f"{line.rstrip()}\n" for line in ran.stdout.rstrip().splitlines())


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


def numbers_in(text: str) -> list[tuple[float, float]]:
    """The numbers in a text, each with one unit of its last digit."""
    return [
        (float(number.replace(",", "")), 10.0 ** -len(number.partition(".")[2]))
        for number in NUMBER.findall(text)
    ]


def assert_kept(promise: str, text: str) -> None:
    """The promise begins with what is printed; numbers may be rounded to the decimals that it tells."""
    numbers = numbers_in(text)
    told = numbers_in(promise)[: len(numbers)]
    assert len(told) == len(numbers), (promise, text)
    for (short, unit), (number, _) in zip(told, numbers, strict=True):
        assert number == pytest.approx(short, abs=0.51 * unit), (promise, text)
    assert numbers or promise.startswith(text), (promise, text)


def assert_numbers(output: str, text: str, units: int) -> None:
    """The texts have the same numbers, decimals within so many units of the last digit, others within one."""
    for (told, unit), (found, _) in zip(numbers_in(output), numbers_in(text), strict=True):
        within = units * unit if unit < 1.0 else 1.0
        assert abs(told - found) <= 1.01 * within, (told, found)


def assert_shown(output: str, text: str) -> None:
    """The page shows what is printed; other machines may have another last digit, by one."""
    assert re.sub(r" +", " ", NUMBER.sub("0", output)) == re.sub(r" +", " ", NUMBER.sub("0", text)), text
    assert_numbers(output, text, units=1)


def assert_near(output: str, text: str) -> None:
    """What is printed begins each line as the page does; the last digit but one may be another, by one."""
    assert [line.split()[:1] for line in output.splitlines()] == [
        line.split()[:1] for line in text.splitlines()
    ]
    assert_numbers(output, text, units=10)


def drawn() -> Figure:
    """The figure that a block left open."""
    (number,) = pyplot.get_fignums()
    return pyplot.figure(number)


def drawing(figure: Figure) -> list[str]:
    """What is drawn, panel by panel: words, and of lines, dots and bars how many numbers, and their means."""

    def told(kind: str, *numbers: Any) -> str:
        return " ".join([kind, *(f"{len(one)}: {np.nanmean(one):.4g}" for one in numbers if len(one))])

    found = [text.get_text() for text in figure.texts]
    for axis in figure.axes:
        found += [axis.get_title(), axis.get_title(loc="left"), axis.get_xlabel(), axis.get_ylabel()]
        found += [text.get_text() for text in axis.texts]
        found += [told("line", *map(np.asarray, one.get_data())) for one in axis.lines]
        bars = [one.get_patch_transform().transform(one.get_path().vertices) for one in axis.patches]
        found += [told("bar", *bar.T) for bar in bars]
        for one in axis.collections:
            paths = [path.vertices for path in one.get_paths()]
            found.append(told("dots", *np.asarray(one.get_offsets(), np.float64).reshape(-1, 2).T))
            found.append(told("area", *np.concatenate([np.empty((0, 2)), *paths]).T))
    return [text for text in found if text]


def save(figure: Figure, picture: Path) -> None:
    """Write the picture, with what is drawn in it as its comment."""
    figure.savefig(picture, dpi=DPI, metadata={"Comment": "\n".join(drawing(figure))})


def assert_pictured(picture: Path, figure: Figure) -> None:
    """The file has the picture of the figure: the same words, and numbers to the last of four digits."""
    with Image.open(picture) as image:
        kept = image.text["Comment"].split("\n")
    found = "\n".join(drawing(figure)).split("\n")
    assert [NUMBER.sub("0", one) for one in found] == [NUMBER.sub("0", one) for one in kept], picture
    numbers, others = (np.array(numbers_in("\n".join(one)))[:, 0] for one in (found, kept))
    np.testing.assert_allclose(numbers, others, rtol=1e-3, err_msg=str(picture))


def assert_drawn(picture: Path, drawn_now: Path) -> None:
    """The picture of a page is the one that a command draws now: hardly a pixel has another colour."""
    with Image.open(picture) as kept, Image.open(drawn_now) as now:
        assert kept.size == now.size, picture
        kept_pixels, pixels = (np.asarray(image.convert("RGB"), np.int64) for image in (kept, now))
    others = (np.abs(pixels - kept_pixels).max(axis=2) > OTHER_COLOUR).mean()
    assert others <= MOST_OTHER_PIXELS, (picture, others)


def rewritten(page: Path) -> str:
    """A page whose blocks were run here, with what they print in place; what they draw is kept."""
    names: dict[str, Any] = {"__name__": "page"}

    def again(match: re.Match[str]) -> str:
        block = Block(**match.groupdict())
        if block.needs is not None:
            return match.group(0)
        if block.language == "sh":
            text = said_by_shell(block.code, columns_of(page))
        else:
            text = "".join(f"{line}\n" for _, line in printed(block.code, names))
        if block.output is None and not is_tutorial(page):  # figures stand in comments beside the prints
            text = ""
        answer = f"```{block.language}\n{block.code}```\n" + (f"\n```text\n{text}```\n" if text else "")
        if block.picture and block.language != "sh":
            save(drawn(), page.parent / block.picture)
            pyplot.close("all")
        return answer + (match.group(0)[match.group(0).rindex("\n![") :] if block.picture else "")

    return BLOCK.sub(again, page.read_text(encoding="utf-8"))


def rewrite(pages: list[Path]) -> None:
    """Run each page in an empty folder, and put all in place."""
    for page in [page.resolve() for page in pages]:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            page.write_text(rewritten(page), encoding="utf-8")
            for name, place in PICTURES.items():
                if Path(place).exists():
                    # in few colours, a third as large
                    picture = Image.open(place).convert("RGB").quantize(128)
                    picture.save(ROOT / "docs" / "images" / f"{name}.png", optimize=True)


if __name__ == "__main__":
    os.environ["PATH"] = with_commands()
    rewrite([Path(name) for name in sys.argv[1:]])
