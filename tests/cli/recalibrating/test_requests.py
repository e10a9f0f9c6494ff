"""What `recalibrate` is asked: methods, their settings, rows, and errors in one line."""

import pytest

from onlinecal.cli.recalibrating.asked import values_of
from onlinecal.cli.recalibrating.splits import split_of
from tests.cli.recalibrating.runs import refused

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")


NET, EVENTS = "net.csv", "events.csv"


@pytest.mark.parametrize(
    ("file", "arguments", "words"),
    [
        (NET, "--method lq", "unknown method 'lq'. Known: lp, decision, groups, boost"),
        (NET, "--method lp --label finding --set alpha=0.1", "--set: no setting 'alpha'. There are: p"),
        (NET, "--method groups --losses costs.csv", "--losses belongs to --method decision, not to"),
        (NET, "--method lp", "has no labels to fit to: name their column with --label"),
        (NET, "--method lp --label finding --set p=1", "p must be a number above 1, or inf, got 1"),
        (NET, "--method lp --label finding --split 0.999", "1200 rows are too few: 1 to fit"),
        (NET, "--method lp --label finding --split 0.2 --apply new.parquet", "exclude each other"),
        (NET, "--method decision --label finding --set n_actions=2 --losses costs.csv", "exclude each other"),
        (NET, "--method lp --label finding --out net.csv", "is a file, not a folder"),
        (EVENTS, "--method groups --outcome ill --group side", "--forecast is needed with --method groups"),
        (EVENTS, "--method groups --outcome ill --forecast risk", "--group is needed"),
        (EVENTS, "--method groups --forecast risk --group side", "--outcome is needed"),
        (EVENTS, "--method boost --outcome ill --features age,side", "column 'side' must hold numbers"),
        (EVENTS, "--method lp --probabilities risk,side --label ill", "'side' must be numbers, got '"),
        (EVENTS, "--method boost --outcome ill --features ill,age", "cannot be a feature too"),
        ("nowhere.csv", "", "no such file"),
        (NET, "--label finding --forecast p_cat", "--label and --forecast exclude each other"),
        (NET, "--label finding --set alpha=1", "--set belongs to --method lp and decision and groups and"),
        (NET, "--label finding --method lp --set p", "--set must be NAME=VALUE, like n_levels=5, got 'p'"),
        (NET, "--label finding --method lp --set p=2 --set p=3", "--set p is given twice"),
        (NET, "--label finding --method lp --choose lp", "--choose belongs to the comparison of all, not to"),
        (NET, "--label finding --split finding", "the column must say fit or test (or train"),
        (EVENTS, "", "which column has the outcomes? Name it with --outcome, or class"),
        (EVENTS, "--outcome ill --choose groups", "is none of the methods tried: --group names columns"),
    ],
)
def test_wrong_requests_are_refused_in_one_line(folder, file, arguments, words):
    files = {path.name for path in folder.iterdir()} | {"nowhere.csv"}
    texts = [str(folder / text) if text in files else text for text in arguments.split()]
    assert words in refused(folder / file, *texts)


def test_a_split_is_a_share_a_rule_or_a_column():
    assert split_of(None) == ("random", None)
    assert split_of("0.3") == ("random", 0.3)
    assert split_of("time") == ("time", None)
    assert split_of("time:0.2") == ("time", 0.2)
    assert split_of("a:b") == ("a:b", None)


def test_settings_are_numbers_words_or_texts():
    found = values_of(["p=inf", "n_levels=None", "start=none", "epsilon=0.1", "max_rounds=7", "x=True"])
    assert [*found.values()] == [float("inf"), None, "none", 0.1, 7, True]
    assert type(found["max_rounds"]) is int
