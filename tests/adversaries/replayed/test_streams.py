"""Recorded streams from memory, from files and from river, also by spec."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from adversaries import create, replay_file, replay_river, replay_sequence
from tests.adversaries.play import GIVEN, RECORDED, play_compiled, play_plainly, scripted_game

ROWS = [
    {"date": "2024-03-02", "p": 0.25, "y": 1, "happened": True},
    {"date": "2024-03-01", "p": 0.5, "y": 0, "happened": False},
    {"date": "2024-03-02", "p": 1.0, "y": 1, "happened": True},
    {"date": "2024-02-29", "p": 0.0, "y": 0, "happened": False},
]


def write(path, rows):
    frame = pl.DataFrame(rows, infer_schema_length=None, strict=False)
    if path.suffix == ".csv":
        frame.write_csv(path)
    elif path.suffix in {".jsonl", ".ndjson"}:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        frame.write_parquet(path)
    return path


@pytest.fixture(params=["csv", "jsonl", "ndjson", "parquet", "pq"])
def path(request, tmp_path):
    return tmp_path / f"games.{request.param}"


@pytest.mark.parametrize("column", ["y", "happened"])
def test_a_file_is_read_in_its_order(path, column):
    stream = replay_file(write(path, ROWS), column, "p", time="date")
    assert stream.name == path.name
    assert len(stream) == 4
    assert stream.outcomes.dtype == np.uint8
    assert stream.outcomes.tolist() == [1, 0, 1, 0]
    assert stream.hints.dtype == np.float64
    assert stream.hints.tolist() == [0.25, 0.5, 1.0, 0.0]
    assert [str(time)[:10] for time in stream.times] == [row["date"] for row in ROWS]
    bare = replay_file(str(path), column)
    assert (bare.hints, bare.times) == (None, None)


def test_sorting_is_stable_and_takes_everything_along(path):
    stream = replay_file(write(path, ROWS), "y", "p", time="date", sort="date")
    assert stream.outcomes.tolist() == [0, 0, 1, 1]
    assert stream.hints.tolist() == [0.0, 0.5, 0.25, 1.0]
    assert [str(time)[:10] for time in stream.times] == sorted(row["date"] for row in ROWS)


def test_numbers_sort_as_numbers_and_a_stream_may_be_sorted_by_its_own_columns(path):
    rows = [
        {"y": 0, "p": 0.5, "round": 10},
        {"y": 1, "p": 1e-9, "round": 9},
        {"y": 1, "p": 0.25, "round": 11},
    ]
    stream = replay_file(write(path, rows), "y", "p", time="p", sort="p")
    assert stream.hints.tolist() == stream.times.tolist() == [1e-9, 0.25, 0.5]
    assert replay_file(path, "y", "p", sort="y").hints.tolist() == [0.5, 1e-9, 0.25]
    assert replay_file(path, "y", "p", sort="round").hints.tolist() == [1e-9, 0.5, 0.25]


def test_json_lines_may_mix_numbers_and_booleans_but_not_words(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"y": true}\n{"y": 0}\n\n{"y": 1.0}\n')
    assert replay_file(file, "y").outcomes.tolist() == [1, 0, 1]
    file.write_text('{"y": 1}\n{"y": 0}\n{"y": "maybe"}\n')
    with pytest.raises(ValueError, match="got 'maybe' at row 2"):
        replay_file(file, "y")
    file.write_text('{"x": 1}\n{"x": 0, "y": 1}\n')
    with pytest.raises(ValueError, match="got nothing at row 0"):
        replay_file(file, "y")


def test_a_stream_cannot_be_sorted_by_missing_values(path):
    rows = [*ROWS[:3], {**ROWS[3], "date": None}]
    with pytest.raises(ValueError, match="cannot sort by 'date', which has no value at row 3"):
        replay_file(write(path, rows), "y", sort="date")


@pytest.mark.parametrize("name, rounds", [("Phishing", 1250), ("Bananas", 5300)])
def test_rivers_own_datasets_are_streams_also_by_spec(name, rounds):
    stream = replay_river(name)
    assert stream.name == f"river:{name}"
    assert len(stream) == rounds
    assert set(stream.outcomes.tolist()) == {0, 1}
    assert stream.hints is None
    assert create(f"river:name={name}").outcomes().tolist() == stream.outcomes.tolist()


def test_an_unknown_river_dataset_lists_the_usable_ones():
    with pytest.raises(ValueError, match=r"'Fishing'.*did you mean 'Phishing'\?.*Bananas.*Phishing"):
        replay_river("Fishing")
    for unusable in ("ChickWeights", "Elec2", "base"):
        with pytest.raises(ValueError, match="Usable:"):
            replay_river(unusable)


@pytest.mark.parametrize("dtype", [bool, int, float, np.uint8])
def test_sequences_of_any_number_type_are_streams_with_copies_of_their_own(dtype):
    outcomes = np.array([1, 0, 1], dtype=dtype)
    stream = replay_sequence(outcomes, [0.5, 0, 1])
    outcomes[:] = 0
    assert stream.outcomes.tolist() == [1, 0, 1]
    assert stream.outcomes.dtype == np.uint8
    assert stream.hints.tolist() == [0.5, 0.0, 1.0]


@pytest.mark.parametrize(
    "outcomes, hints, message",
    [
        ([], None, "outcomes is empty"),
        ([0, 2], None, "outcomes must be 0/1 or boolean, got 2 at row 1"),
        ([[0, 1]], None, r"outcomes must be one-dimensional, got shape \(1, 2\)"),
        ([[0], [0, 1]], None, "outcomes must be a flat sequence"),
        (["a"], None, "outcomes must be 0/1 or boolean, got 'a' at row 0"),
        ([0, 1], [0.5], "same length, got 2 and 1"),
        ([0, 1], [0.5, 1.5], r"hints must lie in \[0, 1\], got 1.5 at row 1"),
    ],
)
def test_a_bad_sequence_is_refused(outcomes, hints, message):
    with pytest.raises(ValueError, match=message):
        replay_sequence(outcomes, hints)


def test_a_stream_plays_as_an_adversary():
    T = 200
    recorded = np.random.default_rng(1).integers(0, 2, T)
    adversary = replay_sequence(recorded, name="coins").adversary()
    assert (adversary.name, adversary.power) == ("coins", "oblivious")
    assert adversary.horizon == adversary.rounds == T
    game = scripted_game(T)
    assert play_compiled(adversary, *game) == recorded.tolist()
    assert play_plainly(adversary, *game) == recorded.tolist()
    assert adversary.outcomes().tolist() == recorded.tolist()
    adversary.reset()
    assert adversary.outcome() == recorded[0]
    for twin in (copy.deepcopy(adversary), pickle.loads(pickle.dumps(adversary))):
        assert [twin.outcome() for _ in range(T - 1)] == recorded[1:].tolist()


def test_a_stream_ends():
    adversary = replay_sequence([1, 0]).adversary()
    assert [adversary.outcome(), adversary.outcome()] == [1, 0]
    for _ in range(2):
        with pytest.raises(ValueError, match="sequence is over: it has 2 outcomes"):
            adversary.outcome()
        assert adversary.n_rounds == 2
    with pytest.raises(ValueError, match="has only 2 outcomes, 3 were asked for"):
        adversary.outcomes(3)
    (phase,) = adversary.phases
    assert phase.step(phase.state, 99, 0.5, 0.0, 0.0, 0.5) == 0


def test_a_file_by_spec_plays_the_stream():
    stream = replay_file(RECORDED, "won", sort="game")
    assert stream.outcomes.tolist() != replay_file(RECORDED, "won").outcomes.tolist()
    adversary = create(GIVEN["file"])
    assert (adversary.power, adversary.rounds, adversary.horizon) == ("oblivious", 300, None)
    assert adversary.outcomes().tolist() == stream.outcomes.tolist()
    assert create(GIVEN["file"], horizon=300).outcomes().tolist() == stream.outcomes.tolist()


@pytest.mark.parametrize("spec, rounds", [(GIVEN["file"], 300), (GIVEN["river"], 1250)])
def test_a_shorter_horizon_plays_the_first_rounds_and_a_longer_one_is_refused(spec, rounds):
    adversary = create(spec, horizon=70)
    assert adversary.rounds == 70
    assert adversary.outcomes().tolist() == create(spec).outcomes(70).tolist()
    with pytest.raises(ValueError, match=f"has only {rounds} rounds, fewer than the horizon of {rounds + 1}"):
        create(spec, horizon=rounds + 1)


def test_a_part_of_a_game_needs_only_its_part_of_the_stream():
    spec = f"two-phase:first=[{GIVEN['file']}],second=river:name=Phishing"
    adversary = create(spec, horizon=600)
    expected = [*create(GIVEN["file"]).outcomes(), *create("river:name=Phishing").outcomes(300)]
    assert adversary.outcomes().tolist() == expected
    with pytest.raises(ValueError, match="only 300 rounds, fewer than the horizon of 301"):
        create(spec, horizon=602)


@pytest.mark.parametrize(
    "name, setting, column, outcome",
    [
        ("games.csv", "games.csv", "a,b", "[a,b]"),
        ("a, b.csv", "[a, b.csv]", "a,b", "[a,b]"),
        ("[1].csv", "[1].csv", "a,b", "[a,b]"),
        ("[1,2].csv", "[[1,2].csv]", "a,b", "[a,b]"),
        ("x=1.csv", "x=1.csv", "a,b", "[a,b]"),
        ("first:second.csv", "first:second.csv", "[y]", "[[y]]"),
    ],
)
def test_any_path_and_column_has_one_way_to_be_written(tmp_path, monkeypatch, name, setting, column, outcome):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(f'round,"{column}"\n9,1\n8,0\n7,0\n6,1\n')
    adversary = create(f"file:path={setting},sort=[round],outcome={outcome}")
    assert adversary.name == f"file:path={setting},outcome={outcome},sort=round"
    assert create(adversary.name).name == adversary.name
    assert adversary.outcomes().tolist() == [1, 0, 0, 1]
    nested = create(f"mixture:second=[{adversary.name}]")
    assert nested.name == f"mixture:second=[{adversary.name}]"
    assert create(nested.name).name == nested.name


@pytest.mark.parametrize(
    "spec, message",
    [
        ("file", "file needs path: file:path=..."),
        ("file:outcome=won", "file needs path"),
        ("river", "river needs name: river:name=..."),
        ("mixture:first=file", "file needs path"),
        ("file:path=[]", "file: path must be a text, got ''"),
        ("river:name=Fishing", "did you mean 'Phishing'"),
        (f"file:path=[{RECORDED}]", "no column 'outcome'"),
        (f"file:path=[{RECORDED}],outcome=won,forecast=p", "has no column 'p'"),
    ],
)
def test_what_is_missing_or_wrong_is_said(spec, message):
    with pytest.raises(ValueError) as refusal:
        create(spec)
    assert message in str(refusal.value)


def test_a_missing_file_is_named():
    with pytest.raises(FileNotFoundError, match=r"no such file: nowhere\.csv"):
        create("file:path=nowhere.csv")


def test_describing_reads_no_file_and_no_dataset():
    script = (
        "import sys, adversaries; from adversaries.kinds import genome; rows = adversaries.describe()\n"
        "assert any(row['parameters'] == 'name=(required)' for row in rows)\n"
        "assert genome.stored_champions.cache_info().currsize == 0\n"
        "sys.exit(bool({'polars', 'river'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
