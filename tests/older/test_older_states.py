"""States that older versions put down: they open, and go on as they did in the version that wrote them.

`write_states.py` wrote them, `going_on.py` says what is done with each. Answers are compared to the last bit,
or within `TOLERANCE` where numbers go through BLAS, a solver or the C library.
"""

from __future__ import annotations

import base64
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from going_on import ARCHIVES, assert_close, go_on, read, turns

from onlinecal.engine import Engine, check_ledger, decode_lines, encode_lines, read_config
from onlinecal.recalibration import DecisionRecalibrator

# scikit-learn says so of the isotonic regression inside TopLabelIsotonic
pytestmark = pytest.mark.filterwarnings("ignore:Trying to unpickle estimator")


def version_of(archive: Path) -> str:
    return archive.name.removesuffix(".tar.xz")


INDEX = {archive: json.loads(read(archive, "index.json")) for archive in ARCHIVES}
STATES = [
    pytest.param(archive, name, entry["way"], entry["exact"], id=f"{version_of(archive)}-{name}")
    for archive, index in INDEX.items()
    for name, entry in index.items()
]
each_archive = pytest.mark.parametrize("archive", ARCHIVES, ids=version_of)


def test_there_are_older_states():
    assert ARCHIVES
    assert all(INDEX.values())


@pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("archive", "name", "way", "exact"), STATES)
def test_an_older_state_goes_on_as_it_did(archive: Path, name: str, way: str, exact: bool):
    state = pickle.loads(read(archive, f"pickles/{name}.pickle"))
    wanted = read(archive, f"pickles/{name}.json").decode()
    found = go_on(way, state, wanted)
    if exact:
        assert found == wanted
    else:
        assert_close(json.loads(found), json.loads(wanted))


@pytest.mark.parametrize(("archive", "name", "way", "exact"), STATES)
def test_an_older_state_is_put_down_again(archive: Path, name: str, way: str, exact: bool):
    state = pickle.loads(read(archive, f"pickles/{name}.pickle"))
    assert type(pickle.loads(pickle.dumps(state))) is type(state)


@pytest.fixture
def ledger(archive: Path, tmp_path: Path) -> Path:
    path = tmp_path / "ledger"
    path.write_bytes(read(archive, "engine/ledger"))
    return path


def answers_to(engine: Engine, archive: Path, name: str) -> bytes:
    return encode_lines(engine.handle(list(decode_lines(read(archive, f"engine/{name}.jsonl")))))


@each_archive
def test_an_older_ledger_answers_as_it_did_and_goes_on(archive: Path, ledger: Path):
    with Engine(ledger) as engine:
        assert answers_to(engine, archive, "first") == read(archive, "engine/first_answers.jsonl")
        assert answers_to(engine, archive, "further") == read(archive, "engine/further_answers.jsonl")


@each_archive
def test_an_older_ledger_is_what_its_log_amounts_to(archive: Path, ledger: Path):
    assert not check_ledger(ledger).problems


@pytest.fixture
def config(archive: Path, tmp_path: Path) -> Any:
    path = tmp_path / "config.toml"
    path.write_bytes(read(archive, "engine/config.toml"))
    return read_config(path)


@each_archive
def test_an_older_checkpoint_of_a_key_goes_on_as_it_did(archive: Path, config: Any):
    for turn in json.loads(read(archive, "turns.json")):
        before, after = (base64.b64decode(turn[when]) for when in ("before", "after"))
        assert before[0] == turn["edition"]
        found, answers = turns(config, turn["key"], before, turn["events"].encode())
        assert [line.decode() for line in answers] == turn["answers"]
        assert found == after


@each_archive
def test_an_older_file_of_arrays_maps_as_it_did(archive: Path, tmp_path: Path):
    path = tmp_path / "decision.npz"
    path.write_bytes(read(archive, "decision.npz"))
    assert go_on("recalibrated", DecisionRecalibrator.load(path)) == read(archive, "decision.json").decode()
