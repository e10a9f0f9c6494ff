"""Recorded streams from memory, from files and from river, also by spec."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from onlinecal.adversaries import create, replay_file, replay_river, replay_sequence
from tests.adversaries.play import GIVEN, RECORDED, play_compiled, play_plainly, scripted_game

ROWS = [
    {"date": "2024-03-02", "p": 0.25, "y": 1, "happened": True, "round": 10},
    {"date": "2024-03-01", "p": 0.5, "y": 0, "happened": 0, "round": 9},
    {"date": "2024-03-02", "p": 1.0, "y": 1, "happened": 1.0, "round": 11},
    {"date": "2024-02-29", "p": 1e-9, "y": 0, "happened": False, "round": 100},
]


@pytest.fixture
def path(tmp_path):
    return written(tmp_path / "games.jsonl", ROWS)


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n\n" for row in rows))
    return path


def test_a_file_is_read_in_its_order_or_sorted_by_a_column_and_equal_rows_stay_in_order(path):
    stream, bare = (
        replay_file(path, outcome="y", forecast="p", time="date"),
        replay_file(str(path), outcome="happened"),
    )
    assert (stream.name, len(stream)) == (path.name, 4)
    assert (stream.outcomes.dtype, stream.hints.dtype) == (np.uint8, np.float64)
    assert stream.outcomes.tolist() == bare.outcomes.tolist() == [1, 0, 1, 0]
    assert stream.hints.tolist() == [0.25, 0.5, 1.0, 1e-9]
    assert stream.times.tolist() == [row["date"] for row in ROWS]
    assert (bare.hints, bare.times) == (None, None)
    by_date = replay_file(path, outcome="y", forecast="p", time="date", sort="date")
    assert by_date.outcomes.tolist() == [0, 0, 1, 1]
    assert by_date.hints.tolist() == [1e-9, 0.5, 0.25, 1.0]
    assert by_date.times.tolist() == sorted(row["date"] for row in ROWS)
    # numbers are sorted as numbers, and a stream also by its own columns
    assert replay_file(path, outcome="y", forecast="p", sort="round").hints.tolist() == [0.5, 0.25, 1.0, 1e-9]
    assert replay_file(path, outcome="y", forecast="p", sort="p").hints.tolist() == [1e-9, 0.25, 0.5, 1.0]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"y": "maybe"}, "got 'maybe' at row 3"),
        ({"y": None}, "got nothing at row 3"),
        ({"date": None}, "cannot sort by 'date', which has no value at row 3"),
    ],
)
def test_rows_without_an_outcome_or_a_place_are_named(path, changes, message):
    written(path, [*ROWS[:3], {**ROWS[3], **changes}])
    with pytest.raises(ValueError, match=message):
        replay_file(path, outcome="y", sort="date" if "date" in changes else None)


@pytest.mark.parametrize("name, rounds", [("Phishing", 1250), ("Bananas", 5300)])
def test_rivers_own_datasets_are_streams_also_by_spec(name, rounds):
    stream = replay_river(name)
    assert (stream.name, len(stream), stream.hints) == (f"river:{name}", rounds, None)
    assert set(stream.outcomes.tolist()) == {0, 1}
    assert create(f"river:name={name}").outcomes().tolist() == stream.outcomes.tolist()


@pytest.mark.parametrize("name", ["Fishing", "ChickWeights", "Elec2", "base"])
def test_an_unknown_river_dataset_lists_the_usable_ones(name):
    with pytest.raises(ValueError, match=f"'{name}'.*Usable: Bananas.*Phishing"):
        replay_river(name)


@pytest.mark.parametrize("dtype", [bool, int, float, np.uint8])
def test_sequences_of_any_number_type_are_streams_with_copies_of_their_own(dtype):
    outcomes = np.array([1, 0, 1], dtype=dtype)
    stream = replay_sequence(outcomes, hints=[0.5, 0, 1])
    outcomes[:] = 0
    assert stream.outcomes.tolist() == [1, 0, 1]
    assert stream.hints.tolist() == [0.5, 0.0, 1.0]
    for wrong, hints in (([0, 2], None), ([0, 1], [0.5]), ([0, 1], [0.5, 1.5])):
        with pytest.raises(ValueError, match=r"outcomes|hints"):
            replay_sequence(wrong, hints=hints)


def test_a_stream_plays_as_an_adversary():
    T = 200
    recorded = np.random.default_rng(1).integers(0, 2, T)
    adversary = replay_sequence(recorded, name="coins").adversary()
    assert (adversary.name, adversary.power) == ("coins", "oblivious")
    assert adversary.horizon == adversary.rounds == T
    game = scripted_game(T)
    assert play_compiled(adversary, *game) == play_plainly(adversary, *game) == recorded.tolist()
    assert adversary.outcomes().tolist() == recorded.tolist()
    adversary.reset()
    assert adversary.outcome() == recorded[0]
    for twin in (copy.deepcopy(adversary), pickle.loads(pickle.dumps(adversary))):
        assert [twin.outcome() for _ in range(T - 1)] == recorded[1:].tolist()


def test_a_stream_ends():
    adversary = replay_sequence([1, 0]).adversary()
    assert [adversary.outcome(), adversary.outcome()] == [1, 0]
    for _ in range(2):
        with pytest.raises(ValueError, match="sequence is over: all of its 2 outcomes"):
            adversary.outcome()
        assert adversary.n_rounds == 2
    with pytest.raises(ValueError, match=r"T must be at most 2, .* got 3"):
        adversary.outcomes(3)
    with pytest.raises(ValueError, match="path must be the path of a file, got 5"):
        replay_file(5)
    with pytest.raises(ValueError, match="rounds must be a whole number of at least 1, got -1"):
        replay_sequence([1, 0]).phase(-1)
    (phase,) = adversary.phases
    assert phase.step(phase.state, 99, 0.5, 0.0, 0.0, 0.5) == 0


def test_a_file_by_spec_plays_the_stream():
    stream = replay_file(RECORDED, outcome="won", sort="game")
    assert stream.outcomes.tolist() != replay_file(RECORDED, outcome="won").outcomes.tolist()
    adversary = create(GIVEN["file"])
    assert (adversary.power, adversary.rounds, adversary.horizon) == ("oblivious", 300, None)
    assert adversary.outcomes().tolist() == stream.outcomes.tolist()
    assert create(GIVEN["file"], horizon=300).outcomes().tolist() == stream.outcomes.tolist()


@pytest.mark.parametrize("spec, rounds", [(GIVEN["file"], 300), (GIVEN["river"], 1250)])
def test_a_shorter_horizon_plays_the_first_rounds_a_longer_one_is_refused(spec, rounds):
    adversary = create(spec, horizon=70)
    assert adversary.rounds == 70
    assert adversary.outcomes().tolist() == create(spec).outcomes(70).tolist()
    with pytest.raises(ValueError, match=f"has only {rounds} rounds, and is to play {rounds + 1}:"):
        create(spec, horizon=rounds + 1)


@pytest.mark.parametrize(
    "name, setting", [("a, b.csv", "[a, b.csv]"), ("[1,2].csv", "[[1,2].csv]"), ("x=1:y.csv", "x=1:y.csv")]
)
def test_any_path_and_column_has_one_way_to_be_written(tmp_path, monkeypatch, name, setting):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text('round,"[a,b]"\n9,1\n8,0\n7,0\n6,1\n')
    adversary = create(f"file:path={setting},sort=[round],outcome=[[a,b]]")
    assert adversary.name == f"file:path={setting},outcome=[[a,b]],sort=round"
    assert adversary.outcomes().tolist() == [1, 0, 0, 1]
    for own in (adversary.name, f"mixture:second=[{adversary.name}]"):
        assert create(own).name == own


@pytest.mark.parametrize(
    "spec, message",
    [
        ("mixture:first=file", "file needs path: write file:path=..."),
        ("file:path=[]", "file: path must be a text, got ''"),
        ("river:name=Fishing", "did you mean 'Phishing'"),
        (f"file:path=[{RECORDED}],outcome=won,forecast=p", "has no column 'p'"),
        ("file:path=nowhere.csv", "no such file: nowhere.csv"),
    ],
)
def test_what_is_missing_or_wrong_is_said(spec, message):
    with pytest.raises((ValueError, FileNotFoundError)) as refusal:
        create(spec)
    assert message in str(refusal.value)


def test_importing_and_describing_stay_light_independent_and_read_no_file_and_no_dataset():
    script = (
        "import sys\n"
        "from onlinecal import adversaries\n"
        "from onlinecal.adversaries.kinds import genome\n"
        "rows = adversaries.describe()\n"
        "assert any(row['parameters'] == 'name=(required)' for row in rows)\n"
        "assert genome.stored_champions.cache_info().currsize == 0\n"
        "heavy = {'polars', 'river', 'onlinecal.forecasters', 'onlinecal.simulations', 'sklearn'}\n"
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
