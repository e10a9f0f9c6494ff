"""The catalogues of forecasters, also from files of one's own: from spec strings to players.

Specs are written like those of adversaries. Each player knows the bound that was proven for it, as a formula
for tables and plots. The forecasters of several classes are the library's and two baselines, for which
nothing is proven that holds in every game.

A file of one's own calls `simulations.games.players.register` and `adversaries.register`. It becomes a module
with a name that depends only on its path. So every process, today and tomorrow, finds the same functions in
it, and loops that are compiled with them can be kept on disk.

What is kept here, by each process for itself: the two catalogues, and which files were loaded, with their
checksums and the names that they registered. The catalogues begin with the library's own families, which
stay. `register` adds to the one of two classes, or replaces a family of one's own; `load` calls it by way of
a file. A `Player` never changes; it makes a fresh forecaster for each game. Names of families, and names,
defaults and order of their settings, make canonical specs, which name games in the results of sweeps: a
family or setting that is renamed is another one there. `rate`, `summary` and `source` are words for tables.

Not to be changed without another answer: FORECASTER_DRAWS, and what `build` passes on. `square_of_factor`
must be a proven bound, since a game above it counts as broken.
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
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

import onlinecal.adversaries as adversaries
from onlinecal.arrays import Floats
from onlinecal.catalogue import Catalogue, CatalogueEntry, Parameter, split_spec
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
from onlinecal.simulations.games.duel import DRAW_CHOICES

SettingValues = Mapping[str, Any]
Playable: TypeAlias = GridForecaster | baselines.Baseline
FORECASTER_DRAWS = 1
"""Seeds of the forecaster's draws are the game's seed and this; the adversary's draws use the seed alone."""

SLACK_SETTING = Parameter("slack", 0.5, "how large a bias it lets pass", low=0.5, high=MOST_SLACK)
RULE_SETTING = Parameter("rule", "balanced", "which biases it keeps small", form=RULES)
CELLS_SETTING = Parameter("cells", None, "cells of its grid", low=1, high=MOST_CELLS, form="whole")
MIDPOINT_SETTING = Parameter("report", "midpoint", "the point of a cell it announces", form=REPORTS)
LOWER_SETTING = replace(MIDPOINT_SETTING, default="lower")
OWN_REPORT_SETTING = replace(
    MIDPOINT_SETTING, default=None, about="the point of a cell it announces, instead of its grid's own"
)
WINDOW_SETTING = Parameter(
    "window", None, "rounds that a certificate is also kept of", low=1, high=MOST_WINDOW, form="whole"
)
HINTS_SETTING = Parameter(
    "hints",
    None,
    "whether it is made for rounds with hints, by default if there are any",
    form=("true", "false"),
)
BASELINE_CELLS_SETTING = replace(CELLS_SETTING, high=MOST_BASELINE_CELLS)
PRIOR_SETTING = Parameter(
    "prior", 1.0, "imagined outcomes of each sort before the first round", low=1e-9, high=1e9
)
DRAW_SETTING = Parameter("draw", "hidden", "whether adversaries are shown what it draws", form=DRAW_CHOICES)


@dataclass(frozen=True)
class Family(CatalogueEntry):
    """An entry of the catalogue.

    Attributes
    ----------
    name, summary
        The name in kebab-case, as specs write it, and a line that says what the forecaster does.
    build
        Makes a fresh forecaster from (settings, rounds, seed). The setting `hints` says whether rounds may
        have hints. With several classes there is a setting `n_classes`, k.
    parameters
        The parameters that a spec may set.
    kind
        "deterministic", "randomised" (its rates hold while its draws are hidden), or a "reference" that
        answers after the outcome, and is measured by these answers.
    rate
        What is known of its errors, in a few words for tables.
    source
        Its origin: a paper, or "this library".
    square_of_factor
        Gives f from the settings if it is proven that the distance to calibration is at most sqrt(f T) in
        every game, and None if there is no such formula.
    """

    build: Callable[[SettingValues, int, int], Any]
    parameters: tuple[Parameter, ...] = ()
    kind: Literal["deterministic", "randomised", "reference"] = "deterministic"
    rate: str = ""
    source: str = "this library"
    square_of_factor: Callable[[SettingValues], float | None] = lambda settings: None

    @property
    def _made_by(self) -> object:
        """The function that builds its forecasters."""
        return self.build


def _grid_family(
    name: str, summary: str, grid: Grid, rule: Rule, parameters: tuple[Parameter, ...], rate: str, source: str
) -> Family:
    """Almost-One-Step-Ahead with this rule on this grid; a window makes a uniform grid one for the window."""

    def build(settings: SettingValues, rounds: int, seed: int) -> Playable:
        window = settings["window"]
        return AlmostOneStepAhead(
            horizon=rounds if grid == "uniform" and window is None else None,
            n_cells=settings.get("cells"),
            grid=grid,
            rule=settings.get("rule", rule),
            slack=settings.get("slack", 0.5),
            # hints need a uniform grid, on which midpoints keep the bound
            report=settings["report"] or ("midpoint" if settings["hints"] else None),
            window=window,
            hints=settings["hints"],
        )

    def square_of_factor(settings: SettingValues) -> float | None:
        if grid != "uniform" or settings["cells"] is not None or settings["window"] is not None:
            return None
        # the square is 4 c d T, and with the sign rule 1.75^2 d T
        bias = 1.75**2 / 4 if settings.get("rule", rule) == "sign" else float(settings["slack"])
        return 4.0 * bias * (0.5 if settings["report"] in (None, "midpoint") else 1.0)

    return Family(
        name,
        summary,
        build,
        (*parameters, WINDOW_SETTING, HINTS_SETTING),
        rate=rate,
        source=source,
        square_of_factor=square_of_factor,
    )


def _randomised(name: str, summary: str, forecaster: Any, rate: str, source: str) -> Family:
    """A baseline on a grid that draws its forecasts."""

    def build(settings: SettingValues, rounds: int, seed: int) -> Playable:
        return forecaster(horizon=rounds, n_cells=settings["cells"], seed=(seed, FORECASTER_DRAWS))

    return Family(name, summary, build, (BASELINE_CELLS_SETTING, DRAW_SETTING), "randomised", rate, source)


PAPER_SOURCE = "Arunachaleswaran, Collina, Roth & Shi (2024)"
TWO_THIRDS = "E[ECE] ≤ T/(2m) + √((m+1)T), about 1.5 T^(2/3), while the draw is hidden"

FAMILIES = (
    _grid_family(
        "paper", "the paper's Almost-One-Step-Ahead, on a grid for T rounds", "uniform", "sign",
        (LOWER_SETTING, CELLS_SETTING), "distance ≤ 1.75√T in every game", PAPER_SOURCE,
    ),
    _grid_family(
        "balanced", "balanced biases on a grid for T rounds", "uniform", "balanced",
        (SLACK_SETTING, MIDPOINT_SETTING, CELLS_SETTING), "distance ≤ √T in every game",
        f"this library, after {PAPER_SOURCE}",
    ),
    Family(
        "graded", "balanced biases on a grid for T rounds that is finer in the middle",
        lambda settings, rounds, seed: AlmostOneStepAhead(
            horizon=None if settings["window"] else rounds,
            grid="uniform" if settings["hints"] else "graded",
            slack=settings["slack"], window=settings["window"], hints=settings["hints"],
        ),
        (SLACK_SETTING, WINDOW_SETTING, HINTS_SETTING),
        rate="distance ≤ √(T/2) + O(log T) in every game", source=f"this library, after {PAPER_SOURCE}",
    ),
    _grid_family(
        "nested", "no horizon: the grid doubles as rounds go by", "nested", "balanced",
        (SLACK_SETTING, OWN_REPORT_SETTING, RULE_SETTING),
        "distance ≤ √(3t) in every game, at every t, and about 1.3√t later", "this library",
    ),
    _grid_family(
        "adaptive", "no horizon: the grid tunes itself", "adaptive", "balanced",
        (SLACK_SETTING, MIDPOINT_SETTING, RULE_SETTING), "distance ≤ √(3t) in every game, at every t",
        "this library",
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
        (PRIOR_SETTING,),
        rate="distance √T without drift, of order T at worst", source="Laplace (1774)",
    ),
    Family(
        "drift-corrected", "one half, moved by ε against the accumulated error",
        lambda settings, rounds, seed: baselines.DriftCorrectedHalf(rounds, epsilon=settings["epsilon"]),
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
        lambda settings, rounds, seed: baselines.UCalibratedForecaster(rounds, seed=(seed, FORECASTER_DRAWS)),
        (DRAW_SETTING,), "randomised",
        "regret ≤ 2√(2T) under every proper loss in [0, 1], while the draw is hidden; distance of order T",
        "Kleinberg, Paes Leme, Schneider & Teng (2023)",
    ),
    Family(
        "two-choices", "a reference: names two neighbours, answers after the outcome",
        lambda settings, rounds, seed: baselines.PowerOfTwoChoices(rounds, n_cells=settings["cells"]),
        (BASELINE_CELLS_SETTING,), "reference", "ECE ≤ T/(2m) + m + 1, about √(2T), after the outcome",
        "Gupta & Ramdas (2022)",
    ),
    Family(
        "one-step-ahead", "a reference: what balanced shadows, answers after the outcome",
        lambda settings, rounds, seed: OneStepAhead(
            rounds, n_cells=settings["cells"], slack=settings["slack"], hints=settings["hints"]
        ),
        (SLACK_SETTING, CELLS_SETTING, HINTS_SETTING), "reference", "ECE ≤ (m - 1)/2, after the outcome",
        PAPER_SOURCE,
    ),
)  # fmt: skip


_CATALOGUE: Catalogue[Family] = Catalogue("forecaster", FAMILIES)


SIMPLEX_SLACK_SETTING = replace(SLACK_SETTING, default=None, high=MOST_SIMPLEX_SLACK)
SIMPLEX_CELLS_SETTING = replace(CELLS_SETTING, about="cells of its grid on a side", high=MOST_SIMPLEX_CELLS)
SIMPLEX_REPORT_SETTING = replace(MIDPOINT_SETTING, default=None, form=SIMPLEX_REPORTS)


def _simplex_run(settings: SettingValues, rounds: int, seed: int, grid: Any = "nested") -> SimplexRun:
    """The library's forecaster of several classes; if it has a setting `cells` it is made for the rounds."""
    window = settings.get("window")
    return SimplexAlmostOneStepAhead(
        settings["n_classes"], n_cells=settings.get("cells"),
        horizon=rounds if "cells" in settings and window is None else None, grid=grid, window=window,
        **{name: settings[name] for name in ("slack", "report", "hints")},
    )._new_run()  # fmt: skip


MULTICLASS_CATALOGUE: Catalogue[Family] = Catalogue(
    "forecaster of several classes",
    (
        Family(
            "simplex", "on a grid for T rounds", _simplex_run,
            (SIMPLEX_SLACK_SETTING, SIMPLEX_CELLS_SETTING, SIMPLEX_REPORT_SETTING, WINDOW_SETTING,
             HINTS_SETTING),
        ),
        Family(
            "nested", "no horizon: the grid doubles as rounds go by", _simplex_run,
            (SIMPLEX_SLACK_SETTING, SIMPLEX_REPORT_SETTING, HINTS_SETTING),
        ),
        Family(
            "adaptive", "no horizon: the grid is finer where few points are in use",
            partial(_simplex_run, grid="adaptive"),
            (SIMPLEX_SLACK_SETTING, SIMPLEX_REPORT_SETTING, HINTS_SETTING),
        ),
        Family(
            "uniform", "all classes alike",
            lambda settings, rounds, seed: MulticlassBaseline(settings["n_classes"]),
        ),
        Family(
            "frequencies", "how often each class came so far",
            lambda settings, rounds, seed: MulticlassBaseline(settings["n_classes"], settings["prior"]),
            (PRIOR_SETTING,),
        ),
    ),
)  # fmt: skip
"""The forecasters of several classes; each of them has `MulticlassRules`, which play it."""


class MulticlassBaseline:
    """A forecaster whose memory is [prior, sum of (p - y) of each class..., rounds of each class...].

    With prior 0 all classes are always equally likely. With a prior above 0 the forecasts are the running
    frequencies, where each class has this many imaginary rounds more.
    """

    def __init__(self, n_classes: int, prior: float = 0.0) -> None:
        self.n_classes = n_classes
        self.memory: NDArray[np.float64] = np.array([prior, *[0.0] * (2 * n_classes)])
        self._rules = BASELINE_RULES

    @property
    def certificate(self) -> float:
        """NaN, since nothing is proven as the game goes on."""
        return math.nan

    def _grow(self) -> None:
        """Do nothing, since the memory always has room."""

    def _promise(self, rounds: int) -> float:
        """NaN, since nothing is promised."""
        return math.nan


@kernel_part
def has_room(memory: Floats) -> bool:
    """True, since the memory never grows."""
    return True


@kernel_part
def announce(memory: Floats, hint: Floats, forecast: Floats) -> int:
    """Write 1/k for each class, or the running frequencies, into `forecast`; hints are not used."""
    k, prior = len(forecast), memory[0]
    rounds = 0.0
    for c in range(k):
        rounds += memory[1 + k + c]
    for c in range(k):
        forecast[c] = (memory[1 + k + c] + prior) / (rounds + k * prior) if prior > 0.0 else 1.0 / k
    return 0


@kernel_part
def certificate_rises(memory: Floats, frame: int, forecast: Floats, rising: Floats) -> None:
    """Write how much |sum of (p - y)|, summed over classes, would rise for each outcome into `rising`."""
    k = len(forecast)
    for outcome in range(k):
        rising[outcome] = 0.0
        for c in range(k):
            bias = memory[1 + c]
            rising[outcome] += abs(bias + forecast[c] - (1.0 if c == outcome else 0.0)) - abs(bias)


@kernel_part
def point(memory: Floats, frame: int, forecast: Floats, outcome: int, charged: Floats) -> None:
    """Charge the round to its forecast."""
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


BASELINE_RULES = MulticlassRules(has_room, announce, certificate_rises, point, settle)
"""The rules of `MulticlassBaseline`, with and without a prior, in the order of the fields of
`MulticlassRules`."""


@dataclass(frozen=True)
class Player:
    """A forecaster that was chosen from a catalogue, to be built for any number of rounds.

    Attributes
    ----------
    spec
        The spec in canonical form: the settings that differ from the defaults, in the family's order.
    family
        Its entry in the catalogue.
    settings
        The value of every parameter.
    """

    spec: str
    family: Family
    settings: SettingValues

    @classmethod
    def read(cls, catalogue: Catalogue[Family], spec: str) -> Self:
        """The player that a spec describes; ValueError for anything unknown, with a list of what is known."""
        family, settings = catalogue.read(spec)
        return cls(family._spec_of(settings), family, settings)

    def made_for(self, hinted: bool) -> SettingValues:
        """The settings for games with or without hints; ValueError for games with hints if hints=false."""
        if "hints" not in self.settings:
            return self.settings
        asked = self.settings["hints"]
        if hinted and asked == "false":
            raise ValueError(
                f"{self.spec}: hints must be true for an adversary that gives hints, got false: leave it out"
            )
        hints = hinted or asked == "true" or (asked is None and self.settings.get("report") == "hint")
        return {**self.settings, "hints": hints}

    def build(self, rounds: int, seed: int = 0, hinted: bool = False, n_classes: int | None = None) -> Any:
        """A fresh forecaster for this number of rounds, with or without hints; the seed is that of its draws.

        Raises ValueError if its settings do not go with the game.
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

        For games with hints it is the larger of both, since hints cost up to 1 on uniform grids (Theorem 7a).
        It is None if nothing is proven that holds for every game.
        """
        factor = self.family.square_of_factor(self.settings)
        formula = None if factor is None else math.sqrt(factor * rounds)
        if formula is not None and not self.made_for(hinted).get("hints"):
            return formula
        forecaster = self.build(rounds, hinted=hinted)
        promise = none_for_nan(forecaster._promise(rounds))
        return promise if formula is None or promise is None else max(formula, promise)


def none_for_nan(bound: float) -> float | None:
    """A bound as tables keep it: None in place of NaN, which stands for no bound."""
    return None if math.isnan(bound) else bound


def catalogue() -> dict[str, Family]:
    """Every family of forecasters by its name."""
    return dict(_CATALOGUE.entries)


def register(family: Family) -> None:
    """Add a family to the catalogue, or replace one whose `build` has the same module and name.

    Raises
    ------
    ValueError
        If the name is not in kebab-case, or belongs to the library or to another family.
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
    >>> create("balanced").bound_label
    '√T'
    """
    player = Player.read(_CATALOGUE, spec)
    if player.settings.get("rule") == "sign" and "slack" in split_spec(spec, _CATALOGUE.noun)[1]:
        raise ValueError(f"{player.family.name}: slack is for rule=balanced, got rule=sign: leave one out")
    return player


def create_player(spec: str) -> Player:
    """The player of several classes that a spec describes, as `create`.

    Examples
    --------
    >>> create_player("simplex:slack=1.0").spec
    'simplex:slack=1'
    """
    return Player.read(MULTICLASS_CATALOGUE, spec)


_NAME = re.compile(r"[\w-]+")
_checksums: dict[str, int] = {}
"""By module: the state of the file that was executed last without an error."""
_owners: dict[str, str] = {}
"""By name of a forecaster or an adversary: the module whose file has registered it."""


def load(path: Path | str) -> ModuleType:
    """Execute a file as a module, once per process and state of the file, and return the module.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not a Python file, or if executing it raises an exception; the error names the line.
    """
    file = Path(path).resolve()
    if not file.is_file():
        raise FileNotFoundError(f"{'not a file' if file.exists() else 'no such file'}: {path}")
    if file.suffix != ".py":
        raise ValueError(f"{path} is not a Python file: its name must end in .py")
    stem = re.sub(r"\W", "_", file.stem)
    # the name is the same in every process
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
        # what it has registered before stays, and belongs to it when it is loaded again
        _owners.update(dict.fromkeys(_names() - known, name))
        raise ValueError(f"{path}, line {_line(error, file)}: {type(error).__name__}: {error}") from error
    _checksums[name] = checksum
    _owners.update(dict.fromkeys(_names() - known, name))
    return module


def load_all(paths: Iterable[Path | str]) -> None:
    """Load every file, in this order; raises what `load` raises."""
    for path in paths:
        load(path)


def checksum(*specs: str) -> int:
    """A number that changes with the files that these specs rely on; 0 if they rely on none."""
    names = {name for spec in specs for name in _NAME.findall(spec)}
    return sum(_checksums.get(module, 0) for module in {_owners[name] for name in names if name in _owners})


def _line(error: Exception, file: Path) -> int | str:
    """The line of the file from which an exception came."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return error.lineno
    inside = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return inside[-1].lineno or "?" if inside else "?"


def _names() -> set[str]:
    return {*catalogue(), *adversaries.catalogue()}
