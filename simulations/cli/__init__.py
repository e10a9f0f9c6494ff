"""The verbs of the simulations, one in each file.

A verb imports what it needs when it is run, so that help is shown at once. `console.py` enters the verbs in
the command. What is here are options that several verbs share.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

Jobs = Annotated[
    int | None,
    Option(min=1, help="How many processes work at a time. Default: as many as this machine has cores."),
]
Load = Annotated[
    list[Path] | None,
    Option(help="A Python file that registers forecasters or adversaries of your own. May be repeated."),
]
