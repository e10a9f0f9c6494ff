"""The catalogue: every adversary by its name, and the way from a spec string to a player."""

from __future__ import annotations

from adversaries.adversary import Adversary
from adversaries.catalogues import Kinds, Row
from adversaries.kinds import adaptive, bisection, certificate_aware, oblivious
from adversaries.kinds.genome import GENOME
from adversaries.kinds.mixed import TWO_PHASE
from adversaries.kinds.mixture import MIXTURE
from adversaries.phased import Seed
from adversaries.protocol import Kind
from adversaries.replayed import streams
from adversaries.replayed.champions import CHAMPION
from onlinecal.validation import check_count

_CATALOGUE: Kinds[Kind] = Kinds(
    "adversary",
    (
        *oblivious.KINDS,
        *bisection.KINDS,
        GENOME,
        CHAMPION,
        *streams.KINDS,
        *adaptive.KINDS,
        *certificate_aware.KINDS,
        TWO_PHASE,
        MIXTURE,
    ),
)


def catalogue() -> dict[str, Kind]:
    """Every kind of adversary by name: the library's, the oblivious ones first, then those registered."""
    return dict(_CATALOGUE.entries)


def describe() -> list[Row]:
    """One row per adversary for a table: name, power, parameters with defaults, summary and source."""
    return _CATALOGUE.rows()


def register(kind: Kind) -> None:
    """Enter an adversary of one's own in the catalogue: `create`, `describe` and `catalogue` then know it.

    Registering again what has the same name and a step (or `compose`) of the same module and name replaces
    the earlier kind, so that a module may be reloaded and a notebook cell run twice. The names of the
    library's own adversaries cannot be taken.

    Parameters
    ----------
    kind
        Its step has to be decorated with `numba.extending.register_jitable` to be played by compiled loops,
        and to stand at the top level of a module to be pickled.

    Raises
    ------
    ValueError
        If the name is not in kebab-case or belongs to somebody else, if the power is none of the four, if
        there is neither a step with an `initial` nor a `compose` that can be called, or if `depth_parameter`
        or `horizon_unless` names no parameter.
    """
    if not isinstance(kind, Kind):
        raise ValueError(f"only a Kind can be registered, got {kind!r}")
    _CATALOGUE.add(kind)


def create(spec: str, horizon: int | None = None, seed: Seed = 0) -> Adversary:
    """Make the adversary that a spec string describes.

    Parameters
    ----------
    spec
        A name, or a name with settings: "coin", "coin:bias=0.7", "two-phase:first=coin,second=threshold". A
        setting with commas in it (a spec, a path) goes in square brackets.
    horizon
        The number of rounds to be played, at least 1. Some adversaries cannot do without it.
    seed
        A seed of `numpy.random.default_rng`, but not None. Equal specs, horizons and seeds make identical
        adversaries.

    Returns
    -------
    Adversary
        Before its round 0. Its `name` is the spec in canonical form: the settings that differ from the
        defaults, in the catalogue's order.

    Raises
    ------
    ValueError
        For an unknown name, an unknown or repeated parameter, a value that is not allowed, settings that do
        not go together, a missing or impossible horizon, or an unusable seed.
    FileNotFoundError
        If a spec names a file that is not there.

    Examples
    --------
    >>> create("coin:bias=0.70", seed=1).name
    'coin:bias=0.7'
    >>> create("alternating").outcomes(6)
    array([0, 1, 0, 1, 0, 1], dtype=uint8)
    """
    kind, values = _CATALOGUE.read(spec)
    rounds = None if horizon is None else check_count(horizon, "horizon")
    return Adversary(kind.spec_of(values), kind, _CATALOGUE.phases(kind, values, (), rounds), seed, rounds)
