"""What notebooks show: well-formed, escaped, of all answers; and text stays what it was."""

from html.parser import HTMLParser

import numpy as np
import pytest

import onlinecal as oc
from onlinecal.engine import Engine, Outcome, Query, read_report
from onlinecal.html import MOST_ROWS_SHOWN, Table, isolated, render
from onlinecal.measures import multicalibration_report

EVIL = "<script>alert('1')</script>&"
P = np.linspace(0.05, 0.95, 60)
Y = np.arange(60) % 2


def answers(folder):
    monitor, alarm = oc.CalibrationMonitor(), oc.CalibrationAlarm()
    monitor.update_many(P, Y)
    alarm.update_many(P, Y)
    stream = oc.recalibrate_stream(P, Y, groups=[EVIL, "b"] * 30)
    with Engine(folder / "ledger") as engine:
        engine.handle([Query("1", EVIL, hint=0.3), Outcome("1", 1)])
        summary = engine.summary(EVIL)
    return [
        oc.AlmostOneStepAhead(hints=True).forecast(hint=0.7),
        oc.SimplexAlmostOneStepAhead(labels=[EVIL, "b", "c"]).forecast(),
        oc.calibration_distance(P, Y),
        oc.lower_calibration_distance(P, Y),
        oc.multiclass_calibration_distance(np.stack([P, 1 - P], axis=1), Y),
        monitor.calibration_distance(),
        oc.brier_decomposition(P, Y),
        oc.chance_level(P, "ece_bins", Y, n_draws=9),
        multicalibration_report(P, Y, (P > 0.5)[:, None], names=[EVIL]),
        alarm.finding,
        stream,
        stream.report(),
        summary,
        read_report(folder / "ledger"),
    ]


class Reader(HTMLParser):
    """What is open, and the words."""

    def __init__(self):
        super().__init__()
        self.open, self.words = [], []

    def handle_starttag(self, tag, attrs):
        assert tag in ("div", "strong", "table", "tbody", "tr", "th", "td", "span", "bdi"), tag
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def read(page):
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open
    return reader.words


@pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning")
def test_answers_are_shown_as_tables_with_their_figures_and_names_are_escaped(tmp_path):
    for answer in answers(tmp_path):
        shown = answer._repr_html_()
        assert "<script" not in shown
        words = read(shown)
        assert (EVIL in repr(answer)) <= any("alert" in word for word in words), answer
        assert "<div" not in repr(answer)
    report = oc.recalibrate_stream(P, Y).report()
    assert {f"{report.brier_in:.4g}", f"{report.log_loss_out:.4g}"} <= set(read(report._repr_html_()))


def test_long_tables_are_cut_and_say_so():
    assert "and 3 more rows" in read(
        render(Table("t", ("a",), [(row,) for row in range(MOST_ROWS_SHOWN + 3)]))
    )


def test_what_turns_the_direction_of_text_in_a_name_ends_with_it():
    turning = "\u202eolso"
    shown = render(Table("t", ("key", "n"), [(turning, 1), ({turning: 0.5, "b": 0.5}, 2)]))
    assert f"<bdi>{turning}</bdi>" in shown
    assert f"<bdi>\u2068{turning}\u2069: 0.5, b: 0.5</bdi>" in shown
    assert isolated("Ωmega é 7 日本_x/y") == "Ωmega é 7 日本_x/y"
    for name in ("\u2066", "\u200f", "שלום", "سلام", "\u2069"):
        assert isolated(name) == f"\u2068{name}\u2069"
