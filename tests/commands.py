"""The command as its tests run it, in this process."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import typer
from typer.testing import CliRunner, Result

from onlinecal.simulations.cli.console import app

# what runs an app makes its command anew for each test, of all verbs and their options: 20 ms
typer.testing._get_command = typer.main.get_command = cache(typer.main.get_command)


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


def record(*arguments: Any) -> Any:
    """What --json says."""
    answer = run(*arguments, "--json")
    assert answer.exit_code == 0, (answer.stderr, answer.exception)
    return json.loads(answer.stdout)


def refused(*arguments: Any) -> str:
    """The one line that says why the request is wrong."""
    answer = run(*arguments)
    assert answer.exit_code == 2, answer.stdout
    assert answer.stdout == ""
    (line,) = answer.stderr.splitlines()
    assert line.startswith("onlinecal: ")
    return line
