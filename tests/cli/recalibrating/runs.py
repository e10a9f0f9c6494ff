"""The verb `recalibrate` as its tests run it."""

import json

from typer.testing import CliRunner

from simulations.cli.console import app

ROWS = 1200
CLASSES = ("cat", "dog", "owl")


def run(*arguments, verb="recalibrate"):
    return CliRunner().invoke(app, [verb, *map(str, arguments)])


def record(*arguments, verb="recalibrate"):
    answer = run(*arguments, "--json", verb=verb)
    assert answer.exit_code == 0, (answer.stderr, answer.exception)
    return json.loads(answer.stdout)


def refusal(*arguments, verb="recalibrate"):
    answer = run(*arguments, verb=verb)
    assert answer.exit_code == 2, answer.stdout
    assert answer.stdout == ""
    assert answer.stderr.count("\n") == 1
    return answer.stderr


def value(report, measure, part, column):
    return next(
        line["values"][column]
        for line in report["measures"]
        if line["measure"] == measure and line["part"] == part
    )
