"""The catalogue of forecasters: specs in, forecasters and bounds out; and those from one's own files."""

import math
from pathlib import Path

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead, adversaries
from onlinecal.adversaries import registry
from onlinecal.forecasters import ConstantForecaster
from onlinecal.simulations.games import players
from onlinecal.simulations.games.players import Family
from onlinecal.simulations.plots.sweeps import SweepPictures
from onlinecal.simulations.sweeps.plan import PlannedGame, make_plan, read_plan
from onlinecal.simulations.sweeps.playing import Workers, play_games, work
from onlinecal.simulations.sweeps.results import Store, loaded_files, read_table
from tests import ROOT

EVERY_KIND = [
    "paper", "balanced", "nested", "adaptive", "paper:report=midpoint", "paper:cells=7",
    "balanced:slack=2", "balanced:slack=1,report=hint", "balanced:cells=50", "nested:report=lower,rule=sign",
    "adaptive:slack=1,report=upper", "adaptive:slack=3", "paper:window=9", "adaptive:window=9",
]  # fmt: skip


@pytest.mark.parametrize("spec", EVERY_KIND)
@pytest.mark.parametrize("rounds", [1, 5, 10, 43, 1000, 4865, 123_457, 10**9])
def test_bound_is_at_least_the_guarantee(spec, rounds):
    player = players.create(spec)
    assert players.create(player.spec) == player
    bound, hinted = player.bound(rounds), player.bound(rounds, hinted=True)
    assert player.build(rounds)._promise(rounds) <= bound * (1 + 1e-12)
    assert player.build(rounds, hinted=True)._promise(rounds) <= hinted * (1 + 1e-12)
    # on grids without a horizon the guarantee with hints is within √(12 c d T), c the slack and d the reach
    made = player.build(rounds)
    reach = 0.5 if made.report == "midpoint" else 1.0
    theorem = math.sqrt(12 * float(made.slack) * reach * rounds) if player.bound_label is None else 0.0
    assert hinted < 1 + max(bound, theorem)


@pytest.mark.parametrize(
    "spec, label, bound",
    [
        ("paper", "1.75√T", 175), ("balanced", "√T", 100),
        ("two-choices:cells=10", None, 500 + 11), ("foster", None, None),
    ],
)  # fmt: skip
def test_published_bounds(spec, label, bound):
    player = players.create(spec)
    assert (player.bound_label, player.bound(10_000)) == (label, bound and pytest.approx(bound))


@pytest.mark.parametrize("spec", ["graded", "graded:slack=2", "graded:window=9", "nested", "adaptive"])
def test_without_a_formula_the_bound_is_the_forecasters_own_guarantee(spec):
    player = players.create(spec)
    assert (player.bound_label, players.create(player.spec)) == (None, player)
    for rounds in (1, 1000, 123_457):
        assert player.bound(rounds) == player.build(rounds)._promise(rounds)
    if spec.startswith("graded"):
        # with hints it is the uniform grid
        assert (player.build(9).grid, player.build(9, hinted=True).grid) == ("graded", "uniform")


def test_settings_reach_the_forecaster():
    forecaster = players.create("balanced:slack=2,report=hint,cells=30").build(99)
    assert (forecaster.slack, forecaster.report, forecaster.n_cells) == (2.0, "hint", 30)
    nested, plain = players.create("nested").build(300), AlmostOneStepAhead(grid="nested")
    assert np.array_equal(nested.memory, plain.memory)
    assert nested._promise(300) == plain._promise(300) == players.create("nested").bound(300)
    assert (players.create("nested:hints=true").build(99).hints, nested.hints) == (True, False)
    with pytest.raises(ValueError, match="hints must be true for an adversary that gives hints"):
        players.create("nested:hints=false").build(99, hinted=True)
    points = {"foster:draw=seen": 6, "minimax:cells=9,draw=seen": 10, "constant:at=0.25": None}
    for spec, n_points in (points | {"two-choices:cells=3": 4}).items():
        player = players.create(spec)
        assert (player.spec, player.draw) == (spec, "seen" if "seen" in spec else "hidden")
        assert getattr(player.build(100), "n_points", None) == n_points


def test_bad_specs_are_refused_with_what_is_known():
    for spec, message in (
        ("balancd", r"did you mean 'balanced'\? Known: adaptive, balanced, constant, "),
        ("balanced:slak=1", "balanced has no parameter 'slak'; it takes slack, report, cells"),
        ("balanced:slack=0.4", r"slack must be a number in \[0.5, 1000\], got '0.4'"),
        ("nested:rule=sign,slack=1", "slack is for rule=balanced"),
    ):
        with pytest.raises(ValueError, match=message):
            players.create(spec)


@pytest.mark.parametrize("name", players.catalogue())
def test_every_family_says_what_it_is_and_builds(name):
    family, player = players.catalogue()[name], players.create(name)
    assert all(text.strip() for text in (family.summary, family.rate, family.source))
    is_random = family.kind == "randomised"
    assert (family.name, player.spec, player.draw) == (name, name, "hidden")
    assert ("draw" in player.settings) == is_random
    for rounds in (1, 2, 1000):
        forecaster = player.build(rounds, seed=3)
        assert (forecaster.n_rounds, forecaster.certificate) == (0, 0.0)
        first, second, other = (player.build(rounds, seed)._draws(20).tolist() for seed in (3, 3, 4))
        assert first == second
        assert (first != other) == is_random


def test_register_adds_a_family_and_refuses_a_taken_name():
    mine = Family("always-a-third", "one third", lambda settings, rounds, seed: ConstantForecaster(1 / 3))
    for _ in range(2):
        players.register(mine)
    assert players.create("always-a-third").build(10).predict_proba_one({})[True] == 1 / 3
    for taken in ("always-a-third", "foster"):
        with pytest.raises(ValueError, match=f"the name '{taken}' is taken by another forecaster: "):
            players.register(Family(taken, "another", test_settings_reach_the_forecaster))


def test_the_page_on_baselines_has_every_family():
    page = (ROOT / "docs" / "baselines.md").read_text()
    ours = {"paper", "balanced", "graded", "nested", "adaptive", "one-step-ahead"}
    for family in players.FAMILIES:
        assert family.name in ours or f"`{family.name}`" in page


OWN = Path(__file__).parents[1] / "own_players.py"
GRID = {
    "forecasters": ["last-outcome", "balanced"],
    "adversaries": ["contrarian", "coin", "mixture:first=contrarian"],
    "rounds": [50, 500],
}


@pytest.fixture(autouse=True)
def catalogues(monkeypatch):
    """Catalogues of the test's own."""
    monkeypatch.setattr(registry._TWO_CLASSES, "entries", adversaries.catalogue())
    monkeypatch.setattr(players._CATALOGUE, "entries", players.catalogue())
    monkeypatch.setattr(players, "_checksums", {})
    monkeypatch.setattr(players, "_owners", {})


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_own_forecaster_and_adversary_are_played_by_every_process(tmp_path, jobs):
    text = "\n".join(f"{key} = {value!r}" for key, value in GRID.items())
    (tmp_path / "grid.toml").write_text(f"{text}\nload = ['own.py']\n")
    (tmp_path / "own.py").symlink_to(OWN)
    with pytest.raises(ValueError, match="unknown forecaster 'last-outcome'"):
        make_plan(GRID)
    plan, out = read_plan(tmp_path / "grid.toml"), tmp_path / "out"
    assert plan.load == make_plan(GRID, load=[OWN, OWN]).load == (str(OWN),)
    store = Store(plan, out)
    assert play_games(store, Workers(jobs=jobs)) == 12
    store.write_tables()
    beaten = read_table(out, "results").filter(forecaster="last-outcome", adversary="contrarian")
    # it says 0, 1, 0, 1, ... and hears 1, 0, 1, 0, ...: every round is wrong by 1
    for column, error in (("ece", 1), ("brier", 1), ("distance_upper", 1 / 2)):
        assert (beaten[column] == beaten["rounds"] * error).all()
    assert [path.resolve() for path in loaded_files(out)] == [OWN]
    pictures, names = SweepPictures.read(out), ["matrix", "overview"]
    drawn = work(pictures.render, [(name,) for name in names], Workers(jobs=jobs), ordered=True)
    for one, name in zip(drawn, names, strict=True):
        assert one.table.equals(pictures.render(name).table)
    assert play_games(Store(plan, out)) == 0


def test_a_changed_file_makes_other_games_of_its_own_players_only(tmp_path, monkeypatch):
    pairs = [("balanced", "coin"), ("balanced", "mixture:first=contrarian"), ("last-outcome", "coin")]
    cells = [PlannedGame(*pair, 50, 1, 1.0, 20) for pair in pairs]
    strangers = [cell.digest for cell in cells]
    players.load(OWN)
    known = [cell.digest for cell in cells]
    (name,) = players._checksums
    monkeypatch.setitem(players._checksums, name, 1)
    changed = [cell.digest for cell in cells]
    for one, other in ((strangers, known), (known, changed)):
        assert [a == b for a, b in zip(one, other, strict=True)] == [True, False, False]


def test_loading_twice_executes_once(tmp_path):
    path = tmp_path / "counted.py"
    path.write_text("loaded = []\n")
    first = players.load(path)
    first.loaded.append(1)
    assert players.load(path) is first
    path.write_text("loaded = ['anew']\n")
    assert players.load(path).loaded == ["anew"]


def test_what_a_file_registered_before_it_failed_is_its_own_once_it_is_mended(tmp_path, monkeypatch):
    monkeypatch.setattr(players._CATALOGUE, "entries", dict(players._CATALOGUE.entries))
    path = tmp_path / "mended.py"
    path.write_text(SIGN.replace("'paper'", "'mended'") + "1 / 0\n")
    with pytest.raises(ValueError, match="line 3: ZeroDivisionError"):
        players.load(path)
    path.write_text(SIGN.replace("'paper'", "'mended'"))
    players.load(path)
    assert players.checksum("mended") != 0


SIGN = (
    "from onlinecal.simulations.games import players\nplayers.register(players.Family('paper', '', None))\n"
)


@pytest.mark.parametrize(
    "name,text,error,message",
    [
        ("gone.py", None, FileNotFoundError, r"no such file: .*gone\.py"),
        ("own.txt", "", ValueError, r"own\.txt is not a Python file"),
        ("bad.py", "x = 1\nx +\n", ValueError, r"bad\.py, line 2: SyntaxError"),
        ("bad.py", "def f():\n    1 / 0\n\n\nf()\n", ValueError, r"bad\.py, line 2: ZeroDivisionError"),
        ("bad.py", SIGN, ValueError, r"bad\.py, line 2: ValueError: the name 'paper' is taken by another"),
    ],
)
def test_errors_name_their_line(tmp_path, name, text, error, message):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(error, match=message):
        players.load(tmp_path / name)
