"""Steering, and the wrapper, against the best online rival of each stream; what buckets that split cost."""

import json
from pathlib import Path

import numpy as np
import pytest

from onlinecal import recalibrate_stream
from onlinecal.steering.binary import hint_of, learn_outcome, new_steering
from onlinecal.wrappers.strategies.projection import Projection

STREAMS = Path(__file__).parents[3] / "shared" / "data" / "streams"
FRESH = STREAMS.parent / "fresh" / "rivals.json"
RIVALS, RIVALS_LATE = STREAMS / "rivals.json", STREAMS / "rivals_late.json"
FAMILIES = {
    "logistic regression": ("real_", "_lr"),
    "naive Bayes": ("real_", "_nb"),
    "Hoeffding trees, forests": ("real_", ("_ht", "_arf")),
    "generators that drift": ("syn_", ""),
    "the truth moves": ("shift_", ""),
    "1 in 200": ("rare_", ""),
    "the forecast is the truth": ("honest_", ""),
    "all": ("", ""),
}
SCORES = ("Brier", "log loss", "window")
OWN = ("steering", "slack 1", "slack 1.5", "slack 2")
PLAYERS = (*OWN, "base", "obs", "platt05", "win_beta", "calibeat20")


def steered(p, y):
    """What steering makes of each forecast."""
    state, found = new_steering(), []
    for raw, outcome in zip(p.tolist(), y.tolist(), strict=True):
        found.append(hint_of(state, raw))
        learn_outcome(state, outcome)
    return np.array(found)


def announced(p, y, slack):
    """What the wrapper announces of two labels."""
    part, found = Projection(slack, 1, None), []
    for raw, outcome in zip(p.tolist(), y.tolist(), strict=True):
        found.append(part.ask(raw))
        part.settle(outcome)
    return np.array(found)


def scores(q, y):
    """Brier score, log loss of forecasts at least 0.001 from wrong, worst bias of 1000 rounds."""
    w = min(1000, len(y) // 3)
    biases = np.abs(np.add.reduceat(q - y, np.arange(0, len(y), w)))[: len(y) // w] / w
    log_loss = -np.log(np.maximum(np.where(y == 1, q, 1.0 - q), 1e-3)).mean()
    return {"brier": ((q - y) ** 2).mean(), "log": log_loss, "window": biases.max()}


@pytest.mark.skipif(not RIVALS.exists(), reason="needs ../shared/data/streams")
def test_against_the_best_rival_in_hindsight(note):
    rows = {}
    for name, rivals in json.loads(RIVALS.read_text()).items():
        stream = np.load(STREAMS / f"{name}.npz")
        p, y = stream["p"].astype(float), stream["y"].astype(int)
        own = {"steering": scores(steered(p, y), y)}
        own |= {f"slack {slack:g}": scores(announced(p, y, slack), y) for slack in (1, 1.5, 2)}
        best = {kind: min(rival[kind] for rival in rivals.values()) for kind in ("brier", "log")}
        rows[name] = {
            player: (
                100.0 * (score["brier"] / best["brier"] - 1.0),
                100.0 * (score["log"] / best["log"] - 1.0),
                score["window"],
            )
            for player, score in (rivals | own).items()
        }
    note("% above the best rival of each stream, and the worst bias of 1000 rounds; means over the streams")
    note(f"streams, {', '.join(PLAYERS)}")
    for family, (start, end) in FAMILIES.items():
        names = [name for name in rows if name.startswith(start) and name.endswith(end)]
        means = np.array([[rows[name][player] for name in names] for player in PLAYERS]).mean(1).T
        for title, places, line in zip(SCORES, ("+.2f", "+.2f", ".4f"), means, strict=True):
            note(f"| {family}, {len(names)} | {title} | {' | '.join(format(x, places) for x in line)} |")
    for player in OWN:
        brier, log, window = np.array([row[player] for row in rows.values()]).T
        raw = np.array([row["base"] for row in rows.values()])
        above = (100.0 + np.array([brier, log])) / (100.0 + raw[:, :2].T) * 100.0 - 100.0
        note(
            f"{player}: Brier {brier.mean():+.2f}, median {np.median(brier):+.2f}, worst {brier.max():+.2f};"
            f" log loss mean {log.mean():+.2f}, worst {log.max():+.2f}; window {window.mean():.4f};"
            f" above the model at most {above[0].max():+.2f} (Brier), {above[1].max():+.2f} (log loss)"
        )
        if player != "slack 1":
            assert brier.mean() <= -2.3
            assert np.median(brier) <= 0.0
            assert brier.max() <= 1.0
            assert log.mean() <= -2.3
            assert window.mean() <= 0.0145
        if player in ("steering", "slack 1.5"):
            assert above.max() <= 1.0


@pytest.mark.skipif(not FRESH.exists(), reason="needs ../shared/data/fresh")
def test_kinds_of_streams_that_are_not_among_these(note):
    """Very rare, short, seasonal, switching, of few values, from models that are too timid."""
    above = []
    for name, rivals in json.loads(FRESH.read_text()).items():
        stream = np.load(FRESH.parent / f"{name}.npz")
        p, y = stream["p"].astype(float), stream["y"].astype(int)
        own = scores(announced(p, y, 1.5), y)
        above.append(
            [own[kind] / min(one[kind] for one in rivals.values()) - 1.0 for kind in ("brier", "log")]
        )
    means, worst = 100 * np.mean(above, 0), 100 * np.max(above, 0)
    note(f"fresh: Brier {means[0]:+.2f}, worst {worst[0]:+.2f}; log loss {means[1]:+.2f}, {worst[1]:+.2f}")
    assert means[0] <= -0.2
    assert worst[0] <= 3.0
    assert means[1] <= -0.3


DELAYS = {
    "10": ("10 rounds", -0.9, 4.0, -1.0),
    "100": ("100 rounds", 0.1, 8.0, 0.0),
    "day100": ("days of 100", 0.0, 8.0, 0.0),
    "day500": ("days of 500", 0.8, 12.0, 0.8),
}
"""By their names in the table of rivals: in words, and the most that is allowed, in %: the mean and the worst
Brier score, the mean log loss."""


def settled_at(rows, delay):
    """The row after which the outcome of each row is known."""
    t = np.arange(rows)
    return (t // int(delay[3:]) + 1) * int(delay[3:]) - 1 if delay.startswith("day") else t + int(delay)


@pytest.mark.skipif(not RIVALS_LATE.exists(), reason="needs ../shared/data/streams")
@pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning", "ignore::onlinecal.GuaranteeWarning")
def test_late_outcomes_against_the_best_rival_in_hindsight(note):
    """Columns of 20,000 rows; rivals and column learn an outcome when it is known."""
    tables = json.loads(RIVALS_LATE.read_text())
    note(
        "| outcomes known after | Brier: mean | worst | log loss: mean | above the input | guarantee a row |"
    )
    for delay, (title, mean, worst, log_mean) in DELAYS.items():
        rows = []
        for name, rivals in tables.items():
            stream = np.load(STREAMS / f"{name}.npz")
            p, y = stream["p"][:20_000].astype(float), stream["y"][:20_000].astype(int)
            result = recalibrate_stream(p, y, settled_at(len(p), delay))
            own, known = scores(result.probabilities, y), rivals[delay]
            best = [own[kind] / min(one[kind] for one in known.values()) for kind in ("brier", "log")]
            came_in = max(own[kind] / known["base"][kind] for kind in ("brier", "log"))
            rows.append([*best, came_in, result.guarantee / len(p) + 1.0])
        means, most = 100 * (np.mean(rows, axis=0) - 1), 100 * (np.max(rows, axis=0) - 1)
        note(
            f"| {title} | {means[0]:+.2f} % | {most[0]:+.1f} % | {means[1]:+.2f} % |"
            f" {most[2]:+.2f} % | {means[3] / 100:.2f} |"
        )
        assert means[0] <= mean
        assert most[0] <= worst
        assert means[1] <= log_mean
        assert most[2] <= 1.5


KINDS = ("real", "syn", "shift", "rare", "honest")


def bucketed(p, y, n_buckets):
    """Brier score, certificate and guarantee a round, and how many buckets were in use at the end."""
    wrapped, error = Projection(1.5, n_buckets, None), 0.0
    for raw, outcome in zip(p.tolist(), y.tolist(), strict=True):
        error += (wrapped.ask(raw) - outcome) ** 2
        wrapped.settle(outcome)
    return np.array([error, wrapped.certificate, wrapped.guarantee]) / len(p), (len(wrapped.tables) + 1) // 2


@pytest.mark.skipif(not RIVALS.exists(), reason="needs ../shared/data/streams")
def test_the_price_of_buckets_that_split(note):
    rows = {}
    for path in sorted(STREAMS.glob("*.npz")):
        stream = np.load(path)
        p, y = stream["p"].astype(float), stream["y"].astype(int)
        one, _ = bucketed(p, y, 1)
        split, used = bucketed(p, y, "auto")
        rows[path.stem] = [np.mean((p - y) ** 2), one[0], split[0], one[1], split[1], one[2], split[2], used]
    note("buckets that split: Brier of the model, of 1 bucket, of 'auto'; certificates; guarantees; buckets")
    for kind in (*KINDS, ""):
        chosen = np.array([row for name, row in rows.items() if name.startswith(kind)])
        better = int((chosen[:, 2] < chosen[:, 1]).sum())
        figures = "  ".join(f"{value:.4f}" for value in chosen[:, :-1].mean(0))
        note(
            f"{kind or 'all':8s} {len(chosen):3d}  {figures}  {chosen[:, -1].mean():.1f}  better on {better}"
        )
    _, one, split, certified, paid, _, _, _ = np.array(list(rows.values())).T
    assert split.mean() <= one.mean() + 0.0003
    assert (split <= one + 0.0015).all()
    assert (paid <= 2.5 * certified).all()
