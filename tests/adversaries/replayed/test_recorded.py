"""Recorded streams by spec: the same outcomes as the stream itself, for as long as it lasts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from adversaries import create, replay_file, replay_river
from tests.adversaries.play import GIVEN, RECORDED


def written(path, outcomes=(1, 0, 0, 1), column="outcome"):
    path.write_text(f'round,"{column}"\n' + "".join(f"{9 - i},{y}\n" for i, y in enumerate(outcomes)))
    return path


def test_a_file_by_spec_plays_the_stream():
    stream = replay_file(RECORDED, "won", sort="game")
    assert stream.outcomes.tolist() != replay_file(RECORDED, "won").outcomes.tolist()
    adversary = create(GIVEN["file"])
    assert (adversary.power, adversary.rounds, adversary.horizon) == ("oblivious", 300, None)
    assert adversary.outcomes().tolist() == stream.outcomes.tolist()
    assert create(GIVEN["file"], horizon=300).outcomes().tolist() == stream.outcomes.tolist()


def test_a_dataset_by_spec_plays_its_labels():
    stream = replay_river("Phishing")
    assert create("river:name=Phishing").outcomes().tolist() == stream.outcomes.tolist()


@pytest.mark.parametrize("spec", [GIVEN["file"], GIVEN["river"], "river:name=Bananas"])
def test_a_shorter_horizon_plays_the_first_rounds(spec):
    adversary = create(spec, horizon=70)
    assert adversary.rounds == 70
    assert adversary.outcomes().tolist() == create(spec).outcomes(70).tolist()


def test_a_longer_horizon_is_refused_with_both_numbers():
    for spec, rounds in ((GIVEN["file"], 300), ("river:name=Phishing", 1250)):
        with pytest.raises(
            ValueError, match=f"has only {rounds} rounds, fewer than the horizon of {rounds + 1}"
        ):
            create(spec, horizon=rounds + 1)


def test_a_part_of_a_game_needs_only_its_part_of_the_stream():
    spec = f"two-phase:first=[{GIVEN['file']}],second=river:name=Phishing"
    adversary = create(spec, horizon=600)
    expected = [*create(GIVEN["file"]).outcomes(), *create("river:name=Phishing").outcomes(300)]
    assert adversary.outcomes().tolist() == expected
    with pytest.raises(ValueError, match="only 300 rounds, fewer than the horizon of 301"):
        create(spec, horizon=602)


@pytest.mark.parametrize(
    "name, setting",
    [
        ("games.csv", "games.csv"),
        ("a, b.csv", "[a, b.csv]"),
        ("[1].csv", "[1].csv"),
        ("[1,2].csv", "[[1,2].csv]"),
        ("x=1.csv", "x=1.csv"),
        ("first:second.csv", "first:second.csv"),
    ],
)
def test_any_path_has_one_way_to_be_written(tmp_path, monkeypatch, name, setting):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / name, column="a,b")
    adversary = create(f"file:path={setting},sort=[round],outcome=[a,b]")
    assert adversary.name == f"file:path={setting},outcome=[a,b],sort=round"
    assert create(adversary.name).name == adversary.name
    assert adversary.outcomes().tolist() == [1, 0, 0, 1]
    nested = create(f"mixture:second=[{adversary.name}]")
    assert nested.name == f"mixture:second=[{adversary.name}]"
    assert create(nested.name).name == nested.name


def test_a_name_in_square_brackets_keeps_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "games.csv", column="[y]")
    adversary = create("file:path=games.csv,outcome=[[y]]")
    assert adversary.name == "file:path=games.csv,outcome=[[y]]"
    assert adversary.outcomes().tolist() == [1, 0, 0, 1]


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
        (f"file:path=[{RECORDED}],outcome=won,forecast=p", "it takes path, outcome, sort"),
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
