"""The catalogue of forecasters: specs in, forecasters and proven bounds out."""

import math

import pytest

from simulations import players

EVERY_KIND = [
    "sign", "balanced", "nested", "adaptive", "sign:report=midpoint", "sign:cells=7",
    "balanced:slack=2", "balanced:slack=1,report=hint", "balanced:cells=50", "nested:report=lower,rule=sign",
    "adaptive:slack=1,report=upper", "adaptive:slack=3",
]  # fmt: skip


@pytest.mark.parametrize("spec", EVERY_KIND)
@pytest.mark.parametrize("rounds", [1, 10, 1000, 123_457])
def test_bound_is_at_least_the_guarantee(spec, rounds):
    player = players.create(spec)
    assert player.build(rounds).promise(rounds) <= player.bound(rounds) * (1 + 1e-12)


@pytest.mark.parametrize(
    "spec,label,factor",
    [
        ("sign", "2√T", 2),
        ("balanced", "√T", 1),
        ("nested", "√(3T)", math.sqrt(3)),
        ("adaptive", "√(3T)", 3**0.5),
    ],
)
def test_published_bounds(spec, label, factor):
    player = players.create(spec)
    assert player.bound_label == label
    assert player.bound(10_000) == pytest.approx(100 * factor)


@pytest.mark.parametrize("spec", EVERY_KIND)
def test_canonical_spec_makes_the_same_player(spec):
    player = players.create(spec)
    assert players.create(player.spec) == player


def test_settings_reach_the_forecaster():
    forecaster = players.create("balanced:slack=2,report=hint,cells=30").build(99)
    assert (forecaster.slack, forecaster.report, forecaster.n_cells) == (2.0, "hint", 30)
    assert players.create("nested").build(99).horizon is None
    assert players.create("sign").build(99).rule == "sign"


@pytest.mark.parametrize(
    "spec,message",
    [
        ("balancd", r"did you mean 'balanced'\? Known: sign, balanced, nested, adaptive"),
        ("balanced:slak=1", "balanced has no option 'slak'; it takes slack, report, cells"),
        ("balanced:slack=0.4", "slack must be a number from 0.5 to 1000, got '0.4'"),
        ("balanced:slack=nan", "slack must be a number"),
        ("balanced:cells=2.5", "cells must be a whole number"),
        ("sign:report=middle", "report must be one of midpoint, lower, upper, hint, got 'middle'"),
        ("sign:report", "expected key=value"),
        ("balanced:", "expected key=value"),
        ("balanced:cells=2,cells=3", "cells is given twice"),
        ("nested:rule=sign,slack=1", "slack belongs to the balanced rule"),
        (3, "must be a string"),
    ],
)
def test_bad_specs_are_refused_with_what_is_known(spec, message):
    with pytest.raises(ValueError, match=message):
        players.create(spec)
