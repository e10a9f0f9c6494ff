"""The verb `recalibrate` as its tests run it."""

from functools import partial

from tests import commands

ROWS = 1200
CLASSES = ("cat", "dog", "owl")

run, record, refused = (
    partial(call, "recalibrate") for call in (commands.run, commands.record, commands.refused)
)


def value(report, measure, part, column):
    return next(
        line["values"][column]
        for line in report["measures"]
        if line["measure"] == measure and line["part"] == part
    )
