"""The verb `measure`, called as tests call it."""

import json

from typer.testing import CliRunner

from simulations.cli.console import app


def run(*arguments):
    return CliRunner().invoke(app, ["measure", *map(str, arguments)])


def columns(*arguments):
    """What --json says about each column of forecasts."""
    answer = run(*arguments, "--json")
    assert answer.exit_code == 0, answer.stderr
    return json.loads(answer.stdout)["columns"]
