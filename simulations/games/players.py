"""The catalogues of forecasters, also of those from files of one's own, and the way from a spec to a player.

Those of several classes are the library's and two baselines, of which nothing is promised in every game.

Specs are written like those of adversaries. Each player knows the bound that was proven for it, as a
formula for tables and plots.

Such a file calls `simulations.games.players.register` and `adversaries.register`. It becomes a module under
a name that depends on its path alone, so that every process, today and tomorrow, finds the same functions
in it and loops compiled with them can be kept on disk.
"""

from __future__ import annotations

import math
import re
import sys
import traceback
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

import onlinecal.adversaries as adversaries
from onlinecal.arrays import Floats
from onlinecal.catalogue import Catalogue, Entry, Parameter, split_spec
from onlinecal.compiling import kernel_part
from onlinecal.forecasters import AlmostOneStepAhead, OneStepAhead, SimplexAlmostOneStepAhead, baselines
from onlinecal.forecasters.baselines.grid import MOST_CELLS as MOST_BASELINE_CELLS
from onlinecal.forecasters.binary.cells import REPORTS
from onlinecal.forecasters.binary.choice import MOST_CELLS, MOST_SLACK, RULES, Grid, Rule
from onlinecal.forecasters.binary.grid import GridForecaster
from onlinecal.forecasters.binary.windows import MOST_WINDOW
from onlinecal.forecasters.simplex.almost_one_step_ahead import SIMPLEX_REPORTS
from onlinecal.forecasters.simplex.guarantees import MOST_CELLS as MOST_SIMPLEX_CELLS
from onlinecal.forecasters.simplex.input import MOST_SLACK as MOST_SIMPLEX_SLACK
from onlinecal.forecasters.simplex.machine.rules import MulticlassRules
from onlinecal.forecasters.simplex.run import SimplexRun
from onlinecal.simulations.games.duel import DRAWS

Settings = Mapping[str, Any]
Playable = GridForecaster | baselines.Baseline
OUR_DRAWS = 1
"""Set beside the seed of a game for the forecaster's draws: those of the adversary use the seed alone."""

SLACK = Parameter("slack", 0.5, "how large a bias it lets pass", low=0.5, high=MOST_SLACK)
RULE = Parameter("rule", "balanced", "which biases it keeps small", form=RULES)
CELLS = Parameter("cells", None, "cells of its grid", low=1, high=MOST_CELLS, form="whole")
MIDPOINT = Parameter("report", "midpoint", "the point of a cell it announces", form=REPORTS)
LOWER = replace(MIDPOINT, default="lower")
OWN_REPORT = replace(
    MIDPOINT, default=None, about="the point of a cell it announces, instead of its grid's own"
)
WINDOW = Parameter(
    "window", None, "rounds that a certificate is also kept of", low=1, high=MOST_WINDOW, form="whole"
)
HINTS = Parameter(
    "hints",
    None,
    "whether it is made for rounds with hints, by default if there are any",
    form=("true", "false"),
)
BASELINE_CELLS = replace(CELLS, high=MOST_BASELINE_CELLS)
PRIOR = Parameter("prior", 1.0, "outcomes of each sort taken for granted", low=1e-9, high=1e9)
DRAW = Parameter("draw", "hidden", "whether adversaries are shown what it draws", form=DRAWS)


@dataclass(frozen=True)
class Family(Entry):
    """One entry of the catalogue.

    Attributes
    ----------
    name, summary
        In kebab-case as specs write it, and in one line what it does.
    build
        (settings, rounds, seed) -> a fresh forecaster. A setting `hints` is whether rounds may have hints. Of
        several classes there is a setting `n_classes`, k.
    parameters
        What a spec may set.
    kind
        "deterministic", "randomised" (its rates hold while its draws are hidden), or a "reference" that
        answers after the outcome: measured are its answers.
    rate
        What is known of it, in a few words for tables.
    source
        Where it comes from.
    square_of_factor
        (settings) -> f, when the distance to calibration is proven to be at most sqrt(f T) in every game;
        None where there is no such formula.
    """

    build: Callable[[Settings, int, int], Any]
    parameters: tuple[Parameter, ...] = ()
    kind: Literal["deterministic", "randomised", "reference"] = "deterministic"
    rate: str = ""
    source: str = "this library"
    square_of_factor: Callable[[Settings], float | None] = lambda settings: None

    @property
    def made_by(self) -> object:
        """What builds it."""
        return self.build


def _grid_family(
    name: str, summary: str, grid: Grid, rule: Rule, parameters: tuple[Parameter, ...], rate: str, source: str
) -> Family:
    """Almost-One-Step-Ahead with this rule on such a grid, a uniform one for the window if there is one."""

    def build(settings: Settings, rounds: int, seed: int) -> Playable:
        window = settings["window"]
        return AlmostOneStepAhead(
            horizon=rounds if grid == "uniform" and window is None else None,
            n_cells=settings.get("cells"),
            grid=grid,
            rule=settings.get("rule", rule),
            slack=settings.get("slack", 0.5),
            # on a uniform grid, which hints need, midpoints keep its bound
            report=settings["report"] or ("midpoint" if settings["hints"] else None),
            window=window,
            hints=settings["hints"],
        )

    def square_of_factor(settings: Settings) -> float | None:
        sign = settings.get("rule", rule) == "sign"
        reach = 0.5 if settings["report"] in (None, "midpoint") else 1.0
        if grid == "uniform":
            # 4 c d; the sign rule has 1.75^2 d
            bias = 1.75**2 / 4 if sign else float(settings["slack"])
            for_horizon = settings["cells"] is None and settings["window"] is None
            return 4.0 * bias * reach if for_horizon else None
        if sign:
            return 147 / 16 * reach
        return 12.0 * reach**2 if settings["slack"] == reach else None

    return Family(
        name,
        summary,
        build,
        (*parameters, WINDOW, HINTS),
        rate=rate,
        source=source,
        square_of_factor=square_of_factor,
    )


def _randomised(name: str, summary: str, forecaster: Any, rate: str, source: str) -> Family:
    """A baseline on a grid that draws its forecasts."""

    def build(settings: Settings, rounds: int, seed: int) -> Playable:
        return forecaster(horizon=rounds, n_cells=settings["cells"], seed=(seed, OUR_DRAWS))

    return Family(name, summary, build, (BASELINE_CELLS, DRAW), "randomised", rate, source)


PAPER = "Arunachaleswaran, Collina, Roth & Shi (2024)"
TWO_THIRDS = "E[ECE] ≤ T/(2m) + √((m+1)T), about 1.5 T^(2/3), while the draw is hidden"

FAMILIES = (
    _grid_family(
        "sign", "the paper's rule on a grid for T rounds", "uniform", "sign", (LOWER, CELLS),
        "distance ≤ 1.75√T in every game", PAPER,
    ),
    _grid_family(
        "balanced", "balanced biases on a grid for T rounds", "uniform", "balanced",
        (SLACK, MIDPOINT, CELLS), "distance ≤ √T in every game", f"this library, after {PAPER}",
    ),
    Family(
        "graded", "balanced biases on a grid for T rounds that is finer in the middle",
        lambda settings, rounds, seed: AlmostOneStepAhead(
            horizon=None if settings["window"] else rounds,
            grid="uniform" if settings["hints"] else "graded",
            slack=settings["slack"], window=settings["window"], hints=settings["hints"],
        ),
        (SLACK, WINDOW, HINTS),
        rate="distance ≤ √(T/2) + O(log T) in every game", source=f"this library, after {PAPER}",
    ),
    _grid_family(
        "nested", "no horizon: the grid doubles as rounds go by", "nested", "balanced",
        (SLACK, OWN_REPORT, RULE), "distance ≤ √(3t) in every game, at every t", "this library",
    ),
    _grid_family(
        "adaptive", "no horizon: the grid tunes itself", "adaptive", "balanced", (SLACK, MIDPOINT, RULE),
        "distance ≤ √(3t) in every game, at every t", "this library",
    ),
    Family(
        "constant", "the same forecast in every round",
        lambda settings, rounds, seed: baselines.ConstantForecaster(settings["at"]),
        (Parameter("at", 0.5, "the forecast", low=0.0, high=1.0),),
        rate="distance √T against fair coins, T/2 at worst", source="folklore",
    ),
    Family(
        "running-mean", "the share of ones so far",
        lambda settings, rounds, seed: baselines.RunningMean(settings["prior"]),
        (PRIOR,),
        rate="distance √T without drift, of order T at worst", source="Laplace (1774)",
    ),
    Family(
        "drift-corrected", "one half, moved by ε against the accumulated error",
        lambda settings, rounds, seed: baselines.DriftCorrectedHalf(rounds, settings["epsilon"]),
        (Parameter("epsilon", None, "the size of the correction", low=1e-9, high=0.5),),
        rate="distance T^(1/3) against fair coins, of order T at worst", source="after Qiao & Zheng (2024)",
    ),
    _randomised(
        "foster", "draws between neighbours that lean towards each other", baselines.FosterForecaster,
        TWO_THIRDS, "Foster (1999)",
    ),
    _randomised(
        "foster-hart", "draws between neighbours, hedging every error", baselines.FosterHartForecaster,
        "E[ECE] ≤ T/(2m) + √((m+1)T(1 + ln T/(m+1))), while the draw is hidden", "Foster & Hart (2021)",
    ),
    _randomised(
        "foster-vohra", "no internal regret: draws from a stationary distribution",
        baselines.FosterVohraForecaster, "E[ECE] of order T^(2/3) (literature), while the draw is hidden",
        "Foster & Vohra (1998)",
    ),
    _randomised(
        "linear-optimisation", "online linear optimisation on the vector of biases",
        baselines.LinearOptimisationForecaster, TWO_THIRDS, "Abernethy, Bartlett & Hazan (2011)",
    ),
    _randomised(
        "minimax", "the minimax mixture of each round", baselines.MinimaxForecaster, TWO_THIRDS,
        "after Hart (1995, 2025)",
    ),
    Family(
        "u-calibrated", "the share of ones with imagined outcomes: follow the perturbed leader",
        lambda settings, rounds, seed: baselines.UCalibratedForecaster(rounds, seed=(seed, OUR_DRAWS)),
        (DRAW,), "randomised",
        "regret ≤ 2√(2T) under every proper loss in [0, 1], while the draw is hidden; distance of order T",
        "Kleinberg, Paes Leme, Schneider & Teng (2023)",
    ),
    Family(
        "two-choices", "a reference: names two neighbours, answers after the outcome",
        lambda settings, rounds, seed: baselines.PowerOfTwoChoices(rounds, settings["cells"]),
        (BASELINE_CELLS,), "reference", "ECE ≤ T/(2m) + m + 1, about √(2T), after the outcome",
        "Gupta & Ramdas (2022)",
    ),
    Family(
        "one-step-ahead", "a reference: what balanced shadows, answers after the outcome",
        lambda settings, rounds, seed: OneStepAhead(
            rounds, settings["cells"], slack=settings["slack"], hints=settings["hints"]
        ),
        (SLACK, CELLS, HINTS), "reference", "ECE ≤ (m - 1)/2, after the outcome", PAPER,
    ),
)  # fmt: skip


_CATALOGUE: Catalogue[Family] = Catalogue("forecaster", FAMILIES)


SIMPLEX_SLACK = replace(SLACK, default=None, high=MOST_SIMPLEX_SLACK)
SIMPLEX_CELLS = replace(CELLS, about="cells of its grid on a side", high=MOST_SIMPLEX_CELLS)
SIMPLEX_REPORT = replace(MIDPOINT, default=None, form=SIMPLEX_REPORTS)


def _simplex_run(settings: Settings, rounds: int, seed: int, grid: Any = "nested") -> SimplexRun:
    """The library's forecaster of several classes, for so many rounds if it may have `cells`."""
    window = settings.get("window")
    return SimplexAlmostOneStepAhead(
        settings["n_classes"], settings.get("cells"),
        rounds if "cells" in settings and window is None else None, grid=grid, window=window,
        **{name: settings[name] for name in ("slack", "report", "hints")},
    ).new_run()  # fmt: skip


OF_SEVERAL: Catalogue[Family] = Catalogue(
    "forecaster of several classes",
    (
        Family(
            "simplex", "on a grid for T rounds", _simplex_run,
            (SIMPLEX_SLACK, SIMPLEX_CELLS, SIMPLEX_REPORT, WINDOW, HINTS),
        ),
        Family(
            "nested", "no horizon: the grid doubles as rounds go by", _simplex_run,
            (SIMPLEX_SLACK, SIMPLEX_REPORT, HINTS),
        ),
        Family(
            "adaptive", "no horizon: the grid is finer where few points are in use",
            partial(_simplex_run, grid="adaptive"), (SIMPLEX_SLACK, SIMPLEX_REPORT, HINTS),
        ),
        Family(
            "uniform", "all classes alike", lambda settings, rounds, seed: Baseline(settings["n_classes"]),
        ),
        Family(
            "frequencies", "how often each class came so far",
            lambda settings, rounds, seed: Baseline(settings["n_classes"], settings["prior"]), (PRIOR,),
        ),
    ),
)  # fmt: skip
"""What they build is played by its `MulticlassRules`."""


class Baseline:
    """A forecaster whose memory is [prior, sum of (p - y) of each class..., rounds of each class...].

    With prior 0 all classes are always equally likely. With a prior above 0 they are as frequent as they
    have been, with so many imaginary rounds for each class: the running frequencies.
    """

    def __init__(self, n_classes: int, prior: float = 0.0) -> None:
        self.memory: NDArray[np.float64] = np.array([prior, *[0.0] * (2 * n_classes)])
        self.rules = BASELINE

    @property
    def certificate(self) -> float:
        """NaN: nothing is proven as the game goes on."""
        return math.nan

    def grow(self) -> None:
        """Nothing grows."""

    def promise(self, rounds: int) -> float:
        """NaN: nothing is promised."""
        return math.nan


@kernel_part
def has_room(memory: Floats) -> bool:
    """Always."""
    return True


@kernel_part
def announce(memory: Floats, hint: Floats, forecast: Floats) -> int:
    """All alike, or the frequencies; hints are not heeded."""
    k, prior = len(forecast), memory[0]
    rounds = 0.0
    for c in range(k):
        rounds += memory[1 + k + c]
    for c in range(k):
        forecast[c] = (memory[1 + k + c] + prior) / (rounds + k * prior) if prior > 0.0 else 1.0 / k
    return 0


@kernel_part
def certificate_rises(memory: Floats, frame: int, forecast: Floats, rising: Floats) -> None:
    """By how much |sum of (p - y)|, summed over classes, would rise for each outcome."""
    k = len(forecast)
    for outcome in range(k):
        rising[outcome] = 0.0
        for c in range(k):
            bias = memory[1 + c]
            rising[outcome] += abs(bias + forecast[c] - (1.0 if c == outcome else 0.0)) - abs(bias)


@kernel_part
def point(memory: Floats, frame: int, forecast: Floats, outcome: int, charged: Floats) -> None:
    """The round is charged to its forecast."""
    for c in range(len(forecast)):
        charged[c] = forecast[c]


@kernel_part
def settle(memory: Floats, frame: int, forecast: Floats, outcome: int) -> None:
    """Count the outcome."""
    k = len(forecast)
    for c in range(k):
        memory[1 + c] += forecast[c]
    memory[1 + outcome] -= 1.0
    memory[1 + k + outcome] += 1.0


BASELINE = MulticlassRules(has_room, announce, certificate_rises, point, settle)
"""The rules of both."""


@dataclass(frozen=True)
class Player:
    """A forecaster that was chosen from a catalogue, to be built for any number of rounds.

    Attributes
    ----------
    spec
        In canonical form: the settings that differ from the defaults, in its order.
    family
        Its entry of the catalogue.
    settings
        Every parameter's value.
    """

    spec: str
    family: Family
    settings: Settings

    @classmethod
    def read(cls, catalogue: Catalogue[Family], spec: str) -> Self:
        """What a spec describes; ValueError for anything unknown, with a list of what is known."""
        family, settings = catalogue.read(spec)
        return cls(family.spec_of(settings), family, settings)

    def made_for(self, hinted: bool) -> Settings:
        """The settings for games with hints, or without; ValueError if hints=false does not go with them."""
        if "hints" not in self.settings:
            return self.settings
        said = self.settings["hints"]
        if hinted and said == "false":
            raise ValueError(f"{self.spec}: hints=false does not go with an adversary that gives hints")
        hints = hinted or said == "true" or (said is None and self.settings.get("report") == "hint")
        return {**self.settings, "hints": hints}

    def build(self, rounds: int, seed: int = 0, hinted: bool = False, n_classes: int | None = None) -> Any:
        """A fresh forecaster for so many rounds, with hints or not; a randomised one draws from this seed.

        ValueError if its settings do not go with the game.
        """
        settings = self.made_for(hinted)
        if n_classes is not None:
            settings = {**settings, "n_classes": n_classes}
        return self.family.build(settings, rounds, seed)

    @property
    def draw(self) -> str:
        """Whether its adversaries are shown what it draws: "hidden" or "seen"."""
        return str(self.settings.get("draw", "hidden"))

    @property
    def bound_label(self) -> str | None:
        """The proven bound on the distance to calibration after T rounds as a formula, if it has one."""
        factor = self.family.square_of_factor(self.settings)
        if factor is None:
            return None
        root = f"{math.sqrt(factor):g}"
        if float(root) ** 2 == factor:
            return f"{root if root != '1' else ''}√T"
        return f"√({factor:g}T)"

    def bound(self, rounds: int, hinted: bool = False) -> float | None:
        """The value of `bound_label`, a sum over rounds; without a formula the forecaster's own guarantee.

        That of games with hints also where it is above the formula: on uniform grids hints cost up to 1
        (Theorem 7a). None for a forecaster of which nothing is proven that holds for every game.
        """
        factor = self.family.square_of_factor(self.settings)
        formula = None if factor is None else math.sqrt(factor * rounds)
        if formula is not None and not self.made_for(hinted).get("hints"):
            return formula
        forecaster = self.build(rounds, hinted=hinted)
        promise = finite(forecaster.promise(rounds))
        return promise if formula is None or promise is None else max(formula, promise)


def finite(bound: float) -> float | None:
    """A bound as tables keep it: None where there is none."""
    return None if math.isnan(bound) else bound


def catalogue() -> dict[str, Family]:
    """Every family of forecasters by its name."""
    return dict(_CATALOGUE.entries)


def register(family: Family) -> None:
    """Add a family to the catalogue, or replace one whose `build` has the same module and name.

    Raises
    ------
    ValueError
        If the name is not in kebab-case, or belongs to the library or to somebody else.
    """
    _CATALOGUE.add(family)


def create(spec: str) -> Player:
    """The player that a spec describes.

    Raises
    ------
    ValueError
        For an unknown name, an unknown or repeated parameter, or a value that is not allowed; the message
        lists what is known.

    Examples
    --------
    >>> player = create("balanced:slack=0.50,cells=50")
    >>> player.spec
    'balanced:cells=50'
    >>> create("nested").bound_label
    '√(3T)'
    """
    player = Player.read(_CATALOGUE, spec)
    if player.settings.get("rule") == "sign" and "slack" in split_spec(spec, _CATALOGUE.noun)[1]:
        raise ValueError(f"{player.family.name}: slack belongs to the balanced rule, not to rule=sign")
    return player


def create_player(spec: str) -> Player:
    """The player of several classes that a spec describes, as `create`.

    Examples
    --------
    >>> create_player("simplex:slack=1.0").spec
    'simplex:slack=1'
    """
    return Player.read(OF_SEVERAL, spec)


_NAME = re.compile(r"[\w-]+")
_checksums: dict[str, int] = {}
_owners: dict[str, str] = {}


def load(path: Path | str) -> ModuleType:
    """Execute a file as a module, once per process and state of the file; the module.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no Python file, or if executing it raises an exception: the message has the line.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    if file.suffix != ".py":
        raise ValueError(f"{path} is no Python file: its name must end in .py")
    stem = re.sub(r"\W", "_", file.stem)
    # the same in every process
    name = f"onlinecal_own_{stem}_{zlib.crc32(str(file).encode()):08x}"
    checksum = zlib.crc32(file.read_bytes())
    if _checksums.get(name) == checksum:
        return sys.modules[name]
    known = _names()
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise ValueError(f"{path}, line {_line(error, file)}: {type(error).__name__}: {error}") from error
    _checksums[name] = checksum
    _owners.update(dict.fromkeys(_names() - known, name))
    return module


def load_all(paths: Iterable[Path | str]) -> None:
    """Load every file, in this order; errors as from `load`."""
    for path in paths:
        load(path)


def checksum(*specs: str) -> int:
    """A number that changes with the files that these specs rely on; 0 if they rely on none."""
    names = {name for spec in specs for name in _NAME.findall(spec)}
    return sum(_checksums[module] for module in {_owners[name] for name in names if name in _owners})


def _line(error: Exception, file: Path) -> int | str:
    """The file's line that an exception came from."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return error.lineno
    inside = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return inside[-1].lineno or "?" if inside else "?"


def _names() -> set[str]:
    return {*catalogue(), *adversaries.catalogue()}
