"""Files of one's own: loaded by every process, told apart by content, errors named with the line."""

from pathlib import Path

import pytest

import adversaries
from adversaries import registry
from simulations.games import players
from simulations.plots import SweepPictures
from simulations.sweeps.plan import PlannedGame, make_plan, read_plan
from simulations.sweeps.playing import Workers, play_games
from simulations.sweeps.results import Store, loaded_files, read_table

OWN = Path(__file__).parents[1] / "own_players.py"
GRID = {
    "forecasters": ["last-outcome", "balanced"],
    "adversaries": ["contrarian", "coin", "mixture:first=contrarian"],
    "rounds": [50, 500],
}


@pytest.fixture(autouse=True)
def catalogues(monkeypatch):
    """Catalogues of the test's own."""
    monkeypatch.setattr(registry._CATALOGUE, "entries", adversaries.catalogue())
    monkeypatch.setattr(players._CATALOGUE, "entries", players.catalogue())
    monkeypatch.setattr(players, "_checksums", {})
    monkeypatch.setattr(players, "_owners", {})


@pytest.mark.parametrize("jobs", [1, 2])
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
    assert SweepPictures.read(out).draw("matrix").exists()
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


@pytest.mark.parametrize(
    "name,text,error,message",
    [
        ("gone.py", None, FileNotFoundError, r"no such file: .*gone\.py"),
        ("own.txt", "", ValueError, r"own\.txt is no Python file"),
        ("bad.py", "x = 1\nx +\n", ValueError, r"bad\.py, line 2: SyntaxError"),
        ("bad.py", "def f():\n    1 / 0\n\n\nf()\n", ValueError, r"bad\.py, line 2: ZeroDivisionError"),
        (
            "bad.py",
            "from simulations.games import players\nplayers.register(players.Family('sign', '', None))\n",
            ValueError,
            r"bad\.py, line 2: ValueError: the name 'sign' is taken by another forecaster: the paper's rule",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, name, text, error, message):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(error, match=message):
        players.load(tmp_path / name)
