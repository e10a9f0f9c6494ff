"""Who belongs together: forecasters by what is proven of them, adversaries by what they see.

In pictures with many lines the colour says the group; names say the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.colors import to_rgb

import adversaries
from adversaries.protocol import POWERS
from onlinecal.plots.style import DASHES, MARKERS, Look
from simulations.games import players

PROVEN = "proven in every game"

FORECASTERS = {
    PROVEN: "#0072B2",
    "deterministic": "#D55E00",
    "randomised": "#009E73",
    "reference": "#777777",
}
"""Groups of forecasters in the order of the pictures, and their colours."""

FORECASTER_WORDS = {
    PROVEN: "distance proven in every game",
    "deterministic": "deterministic, nothing proven",
    "randomised": "randomised",
    "reference": "answers after the outcome",
}

ADVERSARIES = {
    "oblivious": "#0072B2",
    "adaptive": "#D55E00",
    "internal": "#CC79A7",
    "mixed": "#009E73",
}
"""Powers of adversaries in the order of the pictures, and their colours."""

ADVERSARY_WORDS = {
    "oblivious": "nothing",
    "adaptive": "forecasts",
    "internal": "certificates too",
    "mixed": "as its players do",
}


def forecaster_group(spec: str) -> str:
    """One of the keys of `FORECASTERS`."""
    player = players.create(spec)
    if player.family.kind != "deterministic":
        return player.family.kind
    return "deterministic" if player.bound(100) is None else PROVEN


def power(spec: str) -> str:
    """What an adversary sees; recorded streams and others that no catalogue knows see nothing."""
    kind = adversaries.catalogue().get(spec.partition(":")[0])
    return POWERS[0] if kind is None else kind.power


def order_forecasters(specs: Iterable[str]) -> list[str]:
    """By group, otherwise as they come."""
    groups = list(FORECASTERS)
    return sorted(specs, key=lambda spec: groups.index(forecaster_group(spec)))


def order_adversaries(specs: Iterable[str]) -> list[str]:
    """By power, otherwise as they come."""
    return sorted(specs, key=lambda spec: POWERS.index(power(spec)))


def forecaster_looks(specs: Sequence[str]) -> dict[str, Look]:
    """A look for each: the colour of its group, lighter and darker, with other dashes and markers."""
    answer = {}
    seen: dict[str, int] = {}
    for spec in specs:
        group = forecaster_group(spec)
        place = seen[group] = seen.get(group, -1) + 1
        red, green, blue = to_rgb(FORECASTERS[group])
        kind = place % len(MARKERS)
        text = (0.72 * red, 0.72 * green, 0.72 * blue)
        answer[spec] = Look(FORECASTERS[group], text, DASHES[kind], (*MARKERS, "D", "v", "P")[place % 6])
    return answer


def adversary_key(specs: Iterable[str]) -> list[tuple[str, str]]:
    """Words and colours of the powers that occur."""
    present = {power(spec) for spec in specs}
    return [(ADVERSARY_WORDS[name], colour) for name, colour in ADVERSARIES.items() if name in present]


def forecaster_key(specs: Iterable[str]) -> list[tuple[str, str]]:
    """Words and colours of the groups that occur."""
    present = {forecaster_group(spec) for spec in specs}
    return [(FORECASTER_WORDS[name], colour) for name, colour in FORECASTERS.items() if name in present]
