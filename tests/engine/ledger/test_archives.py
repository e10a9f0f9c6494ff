"""Ledgers whose older events were moved to archives: nothing changes but what they weigh, killed or not."""

import json
import math
import random
import re
import shutil
import signal
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

from onlinecal.engine import (
    Engine,
    EngineConfig,
    KeyConfig,
    LedgerError,
    Outcome,
    Query,
    archive_ledger,
    check_ledger,
    export_ledger,
    read_report,
    repair_ledger,
)
from onlinecal.engine.ledger import archive
from onlinecal.engine.ledger.schema import loaded_outcome
from tests.engine.fault_tools import (
    INPUT,
    LINES,
    Points,
    assert_refused,
    changed,
    command,
    in_child,
    raises_for,
)
from tests.engine.scripts import CONFIG, assert_sound, batches, quick_folder, report_of, tables_of

ROOT = Path(__file__).parents[3]
HALF = len(LINES) // 2
SMALL = {"hot_keys": 5, "states_behind": 100}
ONE = "WHERE number = (SELECT {}(number) FROM {})"
PARTS = ("one.archive", "two.archive")


def feed(path, lines, seed=0):
    with Engine(path, CONFIG, **SMALL) as engine:
        return b"".join(engine.handle_lines(data) for data in batches(random.Random(seed), lines, 60))


def assert_whole(path, archives, sound):
    """A ledger and its archives hold what a ledger holds from which nothing was moved, and all is proven."""
    assert check_ledger(path, archives=archives).problems == []
    parts, whole = [tables_of(one) for one in (*archives, path)], tables_of(sound)
    for table, rows in whole.items():
        assert sorted({row for part in parts for row in part[table]}) == rows
    # what was moved is nowhere twice, but for queries that went on waiting
    assert sum(len(part["closings"]) for part in parts) == len(whole["closings"])
    found, expected = report_of(path), report_of(sound)
    # change points and reliability are of the rounds that are here, or since a repair
    since, forecasts, hints = found.since, expected.forecasts, expected.hints
    if since:
        forecasts, hints = found.forecasts, found.hints
    keys = [replace(key, change_point=line.change_point)
            for key, line in zip(expected.keys, found.keys, strict=True)]  # fmt: skip
    assert found == replace(expected, since=since, forecasts=forecasts, hints=hints, keys=keys)


@pytest.fixture(scope="module")
def kept():
    """The folder of a ledger that was archived between its events, twice, and its archives."""
    with quick_folder() as folder:
        path = folder / "moved.db"
        feed(path, LINES[:HALF])
        assert archive_ledger(path, folder / PARTS[0], keep=HALF // 3).events > HALF / 2
        feed(path, LINES[HALF:], 1)
        assert archive_ledger(path, folder / PARTS[1], keep=50).events > 100
        yield folder


@pytest.fixture
def moved(kept, folder):
    """Copies of them, to be damaged."""
    path, *archives = (shutil.copyfile(kept / name, folder / name) for name in ("moved.db", *PARTS))
    return path, archives


def test_what_is_archived_changes_no_answer_and_no_certificate(moved, sound, answers, folder):
    path, archives = moved
    assert_whole(path, archives, sound)
    assert_whole(archives[0], [], archives[0])
    again = folder / "again.db"
    told = feed(again, LINES[:HALF])
    archive_ledger(again, folder / "all.archive", keep=0)
    assert archive_ledger(again, folder / "more.archive", keep=0) is None
    told += feed(again, LINES[HALF:], 1)
    # lines that repeat archived events are the only ones with another answer
    pairs = zip(told.splitlines(), answers.splitlines(), strict=True)
    others = [json.loads(new)["reason"] for new, old in pairs if new != old]
    assert set(others) == {"archived"}
    assert len(others) < len(LINES) / 20


def test_an_archived_id_is_never_taken_for_a_new_one(moved, answers, monkeypatch):
    path, _ = moved
    before = tables_of(path)
    here = {row[1] for row in before["queries"]}
    asked = {json.loads(line)["id"] for line in answers.splitlines() if b'"forecast"' in line}
    with Engine(path) as engine:
        told = engine.handle_lines(INPUT).splitlines()
        # even if all ids had one hash, those that are here would be known
        monkeypatch.setattr(archive, "hash_of_id", lambda id, of=archive.hash_of_id: of("q0"))
        again = engine.handle_lines(INPUT).splitlines()
    for old, new, one_hash in zip(answers.splitlines(), told, again, strict=True):
        said = json.loads(new)
        if said["id"] in here:
            assert said["type"] != "forecast" or new == old
            assert one_hash == new
            assert said.get("reason") != "archived"
        elif said["id"] in asked:
            assert (said["type"], said["reason"]) == ("rejected", "archived")
    assert tables_of(path) == before


def test_a_ledger_that_is_archived_again_and_again_stays_small(folder):
    path, sizes = folder / "ledger.db", []
    for start in range(0, 6000, 1000):
        events = [Query(f"a long enough id, {start + n}", f"plain/{n % 9}") for n in range(1000)]
        with Engine(path) as engine:
            engine.handle([*events, *(Outcome(one.id, n % 2) for n, one in enumerate(events))])
        archive_ledger(path, folder / f"{start}.archive", keep=100)
        sizes.append(path.stat().st_size)
    # 16 bytes a forecast are left, its hash, of some 110
    assert (sizes[-1] - sizes[1]) / 4000 < 24
    assert (folder / "1000.archive").stat().st_size / 1000 > 80
    archive_ledger(path, folder / "last.archive", keep=0, shrink=True)
    # hashes and states are left, not the free pages
    assert path.stat().st_size < 0.55 * sizes[-1]
    assert_sound(path)


def test_who_names_an_archive_for_the_ledger_leaves_it_as_it_was(moved, folder):
    path, archives = moved
    before = [one.read_bytes() for one in archives]
    with pytest.raises(LedgerError, match="this is an archive, which is only read"):
        Engine(archives[0])
    for into in (archives[1], folder / "new.archive"):
        with pytest.raises(ValueError, match=r"only read: name the ledger itself$"):
            archive_ledger(archives[0], into, keep=0)
    assert [one.read_bytes() for one in archives] == before
    assert check_ledger(path, archives=archives).problems == []


@pytest.mark.parametrize("which", [0, 1])
def test_an_archive_that_was_changed_is_told_by_the_digest_in_the_ledger(moved, which):
    path, archives = moved
    data = bytearray(archives[which].read_bytes())
    data[len(data) // 2] ^= 1
    archives[which].write_bytes(data)
    assert check_ledger(path).problems == []
    [problem] = check_ledger(path, archives=archives).problems
    assert problem == f"{archives[which]} is not the archive of {path}, or it was changed"


DAMAGE = [
    "UPDATE checkpoints SET state = x''",
    "UPDATE states SET state = x''",
    "UPDATE states SET number = -5, oldest = 99999999",
    "UPDATE states SET rounds = rounds + 1 WHERE number <= (SELECT max(number) FROM archives)",
    "DELETE FROM states WHERE key = 1",
    "UPDATE keys SET config = 9223372036854775807",
    "UPDATE archives SET number = 9223372036854775807 WHERE number = (SELECT max(number) FROM archives)",
    "DELETE FROM archives " + ONE.format("max", "archives"),
    "UPDATE closings SET value = NULL " + ONE.format("min", "closings"),
    "UPDATE about SET value = 5 WHERE name = 'config'",
    "UPDATE about SET value = x'00' WHERE name = 'tail'",
    "DELETE FROM about",
]
"""What is wrong with a ledger that knows of archives, whatever these are."""
OF_ARCHIVES = {0, 2, 3, 6, 7, 9, 11}
"""The places of damage that `test_damaged.py` does not try by default on ledgers without archives."""

DISAGREEMENTS = [
    "UPDATE archives SET digest = zeroblob(32) " + ONE.format("min", "archives"),
    "UPDATE archives SET queries = queries + 1, closings = closings - 1",
    "UPDATE archives SET path = char(0), queries = -5, digest = x'00'",
    "UPDATE queries SET certificate = 99 " + ONE.format("min", "queries"),
    "DELETE FROM queries " + ONE.format("min", "queries"),
    "UPDATE checkpoints SET state = (SELECT state FROM checkpoints WHERE key = 2) WHERE key = 1",
    "DELETE FROM checkpoints WHERE key = 2",
    "DELETE FROM archived WHERE hash = (SELECT min(hash) FROM archived)",
    "DELETE FROM archives",
]
"""What is wrong beside its archives."""


@pytest.mark.parametrize(
    ("name", "statement", "seen"),
    [
        *(
            pytest.param(
                "moved.db", statement, "alone", marks=() if number in OF_ARCHIVES else pytest.mark.slow
            )
            for number, statement in enumerate(DAMAGE)
        ),
        *(("moved.db", statement, "beside archives") for statement in DISAGREEMENTS),
        *(pytest.param("two.archive", statement, "", marks=pytest.mark.slow) for statement in DAMAGE[1:]),
        ("two.archive", DAMAGE[0], ""),
        ("moved.db", "INSERT OR REPLACE INTO about VALUES ('archive', 7, 0)", ""),
    ],
)
def test_damage_beside_archives_is_said_in_words(moved, folder, name, statement, seen):
    path, archives = moved
    changed(folder / name, statement, with_sums=True)
    told = []
    for work in (
        lambda: told.append(check_ledger(path).problems),
        lambda: told.append(check_ledger(path, archives=archives).problems),
        lambda: [read_report(one) for one in (path, *archives)],
        lambda: repair_ledger(folder / name, folder / "repaired.db"),
        lambda: archive_ledger(path, archives[1], keep=5),
        lambda: archive_ledger(path, folder / "third.archive", keep=5),
        lambda: feed(path, LINES),
    ):
        try:
            work()
        except (LedgerError, ValueError) as error:
            assert str(folder) in str(error)  # noqa: PT017
            assert "\n" not in str(error)  # noqa: PT017
            told.append([str(error)])
    alone, beside_archives = told[:2]
    assert beside_archives or not seen
    assert alone or seen != "alone"


def test_an_archive_is_made_beside_a_writer_and_moved_when_there_is_none(ledger, folder, sound):
    into, before = folder / "new.archive", tables_of(ledger)
    with Engine(ledger, **SMALL) as engine:
        with raises_for(ledger, "The archive .* is complete; give the same command again"):
            archive_ledger(ledger, into, keep=100)
        assert tables_of(ledger) == before
        engine.query("late", "plain/0")
    moved = archive_ledger(ledger, into, keep=0)
    assert moved == archive_ledger(ledger, into, keep=0)
    assert moved.number == read_report(into).events == read_report(sound).events - 100
    assert check_ledger(ledger, archives=[into]).problems == []
    for work in (Engine, lambda path: archive_ledger(path, folder / "other.archive", keep=0)):
        with raises_for(into, "archive, which is only read"):
            work(into)
    with raises_for(sound, "exists and is not an archive"):
        archive_ledger(ledger, sound, keep=0)


def test_what_is_older_than_a_time_and_what_cannot_be_asked(ledger, folder):
    timed = [(one[0], one[4]) for one in tables_of(ledger)["queries"] if one[4] is not None]
    timed += [(one[0], one[3]) for one in tables_of(ledger)["closings"] if one[3] is not None]
    first = min(number for number, time in timed if time >= 250.0)
    assert archive_ledger(ledger, folder / "a", before=250.0).number == first - 1
    for wrong in ({}, {"keep": 1, "before": 1.0}, {"keep": -1}):
        with pytest.raises(ValueError, match="keep"):
            archive_ledger(ledger, folder / "b", **wrong)
    with pytest.raises(ValueError, match=r"before must be a finite number of seconds, .*, got '2026-01-31'"):
        archive_ledger(ledger, folder / "b", before="2026-01-31")
    given = ["--ledger", ledger, "--into", folder / "b", "--before", "inf"]
    assert_refused(command(folder, "stream", "archive", *given), "--before", "inf")
    feed(folder / "timeless.db", [b'{"type": "query", "id": "a", "key": "plain/0"}'])
    with pytest.raises(ValueError, match="needs events with times, and no event has one"):
        archive_ledger(folder / "timeless.db", folder / "b", before=0.0)


def test_a_damaged_ledger_with_archives_is_repaired_from_the_states_behind_them(moved, folder, sound):
    path, archives = moved
    changed(path, "UPDATE states SET state = zeroblob(40)")
    found = repair_ledger(path, folder / "saved.db")
    assert (found.lost, found.changed) == ([], [])
    assert_whole(folder / "saved.db", archives, sound)
    changed(path, "UPDATE checkpoints SET state = zeroblob(40) WHERE key = 3")
    with raises_for(path, "keeps of its archives"):
        repair_ledger(path, folder / "other.db")
    assert not (folder / "other.db").exists()


def of_classes(column):
    """Probabilities by class, as an export has them; None where there are none."""
    return None if column is None else {one["label"]: one["probability"] for one in column}


def expired_in(tables):
    """The numbers of the queries that have expired by the clocks of their keys, and what each was charged."""
    names, keys = {row[0]: row[1] for row in tables["keys"]}, {row[0]: row[2] for row in tables["queries"]}
    closed = {row[1] for row in tables["closings"]}
    asked, clocks = dict[int, float](), dict[int, float]()
    times = [(row[0], row[0], row[4]) for row in tables["queries"]]
    times += [(row[0], row[1], row[3]) for row in tables["closings"]]
    for number, query, time in sorted(times):
        key = keys[query]
        clocks[key] = max(time for time in (time, clocks.get(key), -math.inf) if time is not None)
        if number == query:
            asked[query] = clocks[key] if time is None else time
    settings = {query: CONFIG._at(CONFIG._place_for(names[keys[query]])) for query in asked.keys() - closed}
    return {
        query: one.expire_as
        for query, one in settings.items()
        if one.expire_after is not None and clocks[keys[query]] > asked[query] + one.expire_after
    }


def test_an_export_is_every_forecast_with_its_outcome(moved, sound, folder):
    for number, one in enumerate((*moved[1], moved[0], sound)):
        export_ledger(one, folder / f"{number}.parquet")
    whole, tables = pl.read_parquet(folder / "3.parquet"), tables_of(sound)
    ends = {query: (number, value, time) for number, query, value, time, _ in tables["closings"]}
    expired, statuses = expired_in(tables), set()
    rows = zip(whole.iter_rows(named=True), tables["queries"], strict=True)
    for line, (number, id, _, hint, time, probability, certificate, _) in rows:
        told = line["asked_number"], line["id"], line["asked_at"], line["certificate"]
        assert told == (number, id, time, certificate)
        for name, stored in (("hint", hint), ("probability", probability)):
            by_class = of_classes(line[f"{name}_of_classes"])
            stored = json.loads(stored) if isinstance(stored, str) else stored
            assert stored == (line[name] if by_class is None else by_class)
        given = line["outcome"], line["outcome_class"], of_classes(line["outcome_of_classes"])
        value = next((one for one in given if one is not None), None)
        settled, outcome, when = ends.get(number, (None, expired.get(number), None))
        wanted = settled, None if outcome is None else loaded_outcome(outcome), when
        assert (line["settled_number"], value, line["settled_at"]) == wanted
        status = "expired" if number in expired else "open"
        if settled is not None:
            status = "withdrawn" if outcome is None else "settled"
        assert line["status"] == status
        statuses.add((status, value is None))
    assert len(statuses) == 5
    # the parts together, where the last word on a forecast counts
    parts = pl.concat(pl.read_parquet(folder / f"{n}.parquet") for n in range(3))
    assert parts.unique("id", keep="last").sort("asked_number").equals(whole)


def archived_up_to(path, into, at, told):
    """Archive, but be killed at the point of that number; else tell of the points, and of those of files."""
    points = Points(at, "link", "unlink")
    archive_ledger(path, into, keep=40)
    told.write_text(json.dumps([points.passed, points.around]))


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_archiving_that_is_killed_anywhere_loses_and_doubles_nothing(folder, sound, every):
    begun, told, first = folder / "begun.db", folder / "points", folder / "one.archive"
    feed(begun, LINES[:HALF])
    archive_ledger(begun, first, keep=90)
    feed(begun, LINES[HALF:])
    # its writer was killed: states are behind the log
    changed(
        begun,
        "UPDATE about SET value = (SELECT max(number) FROM archives) WHERE name = 'tail'",
        "DELETE FROM states WHERE key % 2",
        f"ATTACH '{first}' AS archive",
        "INSERT INTO states SELECT * FROM archive.states WHERE key % 2",
        with_sums=True,
    )

    def run(at):
        path, into = folder / f"{at}.db", folder / f"{at}.archive"
        shutil.copyfile(begun, path)
        return path, into, in_child(lambda: archived_up_to(path, into, at, told))

    assert run(0)[2] == 0
    points, of_files = json.loads(told.read_text())
    # the move is in the last twenty
    some = points // 2, *of_files, *range(points - 14, points, every)
    for at in range(1, points + 1) if every == 1 else some:
        path, into, code = run(at)
        assert code == -signal.SIGKILL
        if not at % 4:
            assert_sound(path)
        archive_ledger(path, into, keep=40)
        assert_whole(path, [first, into], sound)
        assert not list(folder.glob(f".{into.name}.*"))


def test_the_recipe_of_the_page_gives_the_score_of_the_engine_where_silence_counts(
    folder, monkeypatch, capsys
):
    page, ledger, first = ROOT / "docs/operate.md", folder / "rain.db", folder / "rain-2026-01.archive"
    [recipe] = re.findall(r"```python\n(import polars as pl\n.*?)```", page.read_text("utf-8"), re.S)
    rng = random.Random(3)
    with Engine(ledger, EngineConfig(KeyConfig(expire_after=10.0, expire_as=0))) as engine:
        for i in range(200):
            engine.query(f"q{i}", "ad", 0.2, float(i))
            if rng.random() < 0.2:
                engine.outcome(f"q{i - rng.randrange(4)}", 1)
    archive_ledger(ledger, first, keep=100)
    for file in (ledger, first):
        export_ledger(file, file.with_suffix(".parquet"))
    monkeypatch.chdir(folder)
    exec(recipe, {})
    assert float(capsys.readouterr().out) == pytest.approx(read_report(ledger).scores.brier, rel=1e-12)
