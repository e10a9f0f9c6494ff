"""The flood of the benchmark, in small: nothing is lost in it."""

from tests.engine.load import run, write_load
from tests.engine.scripts import assert_counted_once, assert_same_ledgers, quick_folder


def test_a_flood_is_answered_to_the_last_line_however_few_keys_are_in_memory():
    with quick_folder() as folder:
        write_load(folder / "load.jsonl", 4_000, 300, late=200)
        done = run(folder / "ledger.db", folder / "load.jsonl", folder / "out.jsonl", "--hot-keys", 20)
        assert done.code == 0
        answers = (folder / "out.jsonl").read_bytes()
        assert answers.count(b"\n") == 8_000
        assert answers.count(b'"type":"settled"') == 4_000
        assert_counted_once(folder / "ledger.db", answers)
        again = run(folder / "other.db", folder / "load.jsonl", folder / "again.jsonl", "--batch", 77)
        assert again.code == 0
        assert (folder / "again.jsonl").read_bytes() == answers
        assert_same_ledgers(folder / "ledger.db", folder / "other.db")
