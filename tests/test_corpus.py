"""What onlinecal answers is what it answered: digests of exact numbers, scores of fits, signatures.

Where a change is meant, `python -m tests.corpus --write` keeps the new answers, and the commit says why.
"""

import pytest

from onlinecal.elementary import in_turn
from tests.corpus.entries import corpus, kept, same
from tests.corpus.surface import SURFACE, surface

LONG = ("game/epochs/balanced",)
"""Entries that take seconds each; what they are made of is in others, too."""


@pytest.mark.parametrize(
    "part",
    [
        *sorted({name.split("/")[0] for name in kept()}),
        *(pytest.param(name, marks=pytest.mark.slow) for name in LONG),
    ],
)
def test_answers_are_what_they_were(part):
    without = () if part in LONG else LONG

    def asked(entries):
        return {name: one for name, one in entries.items() if f"{name}/".startswith(f"{part}/")}

    before = {name: one for name, one in asked(kept()).items() if name not in without}
    now = asked(corpus(part, without))
    assert now
    assert sorted(now) == sorted(before)
    assert [name for name in before if not same(before[name], now[name])] == []


def test_public_signatures_and_options_are_what_they_were():
    assert surface() == SURFACE.read_text().splitlines()


def test_sums_are_rounded_after_each_number_under_every_python():
    assert in_turn([0.1, 0.2, 0.3]) == 0.1 + 0.2 + 0.3 == 0.6000000000000001
    assert repr(in_turn([])) == "0"
