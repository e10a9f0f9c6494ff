"""The simulations' verbs, one a file; what they do is imported when they are run, so that help is instant."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

Jobs = Annotated[int | None, Option(min=1, help="Processes; default: all cores.")]
Load = Annotated[
    list[Path] | None, Option(help="A Python file that registers forecasters or adversaries; repeatable.")
]
