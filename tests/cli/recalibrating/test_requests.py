"""What `recalibrate` is asked: methods named in two ways, their options, errors in one line, help."""

import dataclasses
import re

import pytest

from onlinecal.cli.recalibrate import method_first
from onlinecal.cli.recalibrating.options import METHODS
from tests.cli.recalibrating.runs import record, refused, run

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")


NET, EVENTS = "net.csv", "events.csv"


@pytest.mark.parametrize(
    ("file", "arguments", "words"),
    [
        (NET, "--method lq", "unknown method 'lq'; known: lp, decision, groups, boost"),
        (NET, "--method lp --label finding --alpha 0.1", "--alpha belongs to --method groups and boost, not"),
        (NET, "--method groups --losses costs.csv", "--losses belongs to --method decision, not to"),
        (NET, "--method boost --group side", "--group belongs to --method groups, not to --method boost"),
        (NET, "--method lp", "has no labels to fit to: name their column with --label"),
        (NET, "--method lp --label result", "has no column 'result'. Its columns: p_cat"),
        (NET, "--method lp --label finding --probabilities a,b", "has no column 'a'"),
        (NET, "--method lp --label finding --p 1", "p must be a number above 1, or inf, got 1.0"),
        (NET, "--method lp --label finding --test-share 0.999", "1200 rows are too few: 1 to fit"),
        (NET, "--method lp --label finding --test-share 1", "--test-share must be a number between 0 and 1"),
        (NET, "--method lp --label finding --test-share 0.2 --apply new.parquet", "exclude each other"),
        (NET, "--method lp --label finding --within shift --estimation pools", "within='shift' needs"),
        (NET, "--method decision --label finding --actions 2 --losses costs.csv", "exclude each other"),
        (NET, "--method decision --label finding --losses nowhere.csv", "nowhere.csv"),
        (NET, "--method lp --label finding --out net.csv", "is a file, not a folder"),
        (EVENTS, "--method groups --outcome ill --group side", "--forecast is needed with --method groups"),
        (EVENTS, "--method groups --outcome ill --forecast risk", "--group is needed"),
        (EVENTS, "--method groups --forecast risk --group side", "--outcome is needed"),
        (EVENTS, "--method groups --forecast risk --outcome ill --group town", "no column 'town'"),
        (
            EVENTS,
            "--method groups --forecast age --outcome ill --group side",
            "'age' must lie in [0, 1]",
        ),
        (
            EVENTS,
            "--method lp --probabilities risk,side --label ill",
            "events.csv: column 'side' must be numbers, got '",
        ),
        (EVENTS, "--method groups --forecast risk --outcome side --group old", "must be 0, 1 or boolean"),
        (EVENTS, "--method boost --outcome ill --features age,side", "column 'side' must hold numbers"),
        (EVENTS, "--method boost --outcome ill --features ill,age", "cannot be a feature too"),
        ("net.npz", "--method boost --outcome ill", "has no column 'ill'"),
        ("nowhere.csv", "", "no such file"),
        (NET, "--label finding --forecast p_cat", "--label and --forecast exclude each other"),
        (NET, "", "has no labels to fit to: name their column with --label"),
        (NET, "--label finding --alpha 0.1", "--alpha belongs to --method groups and boost, not to the"),
        (NET, "--label finding --choose boost", "--choose 'boost' is none of the methods tried"),
        (NET, "--label finding --split finding", "the column must say fit or test (or train"),
        (NET, "--label finding --split-by town", "has no column 'town'"),
        (NET, "--method lp --label finding --split time --apply new.parquet", "--apply and --split exclude"),
        (EVENTS, "--outcome side", "'side' must be 0, 1 or boolean"),
        (EVENTS, "", "cannot tell which column has the outcomes (--outcome)"),
        (EVENTS, "--outcome ill --choose groups", "is none of the methods tried: --group names columns"),
        (EVENTS, "--outcome ill --split side --test-share 0.5", "--test-share and --split side exclude"),
    ],
)
def test_wrong_requests_are_refused_in_one_line(folder, file, arguments, words):
    files = {path.name for path in folder.iterdir()} | {"nowhere.csv"}
    texts = [str(folder / text) if text in files else text for text in arguments.split()]
    assert words in refused(folder / file, *texts)


@pytest.mark.parametrize(
    "arguments, same",
    [
        ("net.csv --method lp --levels 3", "lp net.csv --levels 3"),
        ("--seed 1 net.csv --method=lp", "lp --seed 1 net.csv"),
        ("--method lp net.csv", "lp net.csv"),
        ("lp net.csv", "lp net.csv"),
        ("--method lp -- --method", "lp -- --method"),
        ("lp -- --method boost", "lp -- --method boost"),
        ("net.csv --method", "net.csv --method"),
        ("net.csv --seed 1", "choose net.csv --seed 1"),
        ("--label y net.csv", "choose --label y net.csv"),
        ("choose net.csv", "choose net.csv"),
        ("lq net.csv", "lq net.csv"),
        ("--help", "--help"),
        ("", ""),
    ],
)
def test_a_method_may_be_named_first_or_with_an_option(arguments, same):
    assert method_first(arguments.split()) == same.split()


def test_both_ways_to_name_a_method_say_the_same(folder):
    rest = ["--label", "finding", "--levels", 3]
    assert record("lp", folder / NET, *rest) == record(folder / NET, "--method", "lp", *rest)


@pytest.mark.parametrize("method", METHODS)
def test_a_methods_help_shows_its_options_and_no_others(method):
    shown = set(re.findall(r"^│ (--[a-z-]+)", run(method, "--help").stdout, re.M))
    shared = {"--test-share", "--split", "--split-by", "--seed", "--apply", "--out", "--plot", "--json"}
    own = {f"--{field.name}" for field in dataclasses.fields(METHODS[method])}
    assert shown == own | shared | {"--help"}


def test_losses_without_one_of_the_classes_are_refused(folder, tmp_path):
    (tmp_path / "costs.csv").write_text("action,cat,dog,fox\nleave,0,0,4\n")
    words = refused(
        folder / "net.csv", "--method", "decision", "--label", "finding", "--losses", tmp_path / "costs.csv"
    )
    assert "has no losses for class 'owl'; it has cat, dog, fox" in words
