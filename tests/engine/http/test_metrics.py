"""`GET /metrics` and `GET /watch` say what the engine says, with a bounded number of series."""

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")

from prometheus_client.parser import text_string_to_metric_families

from onlinecal.engine import Engine, Outcome, Query
from tests.engine.http.clients import TOKEN, client_of


def values_of(text):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_prometheus_reads_what_the_engine_says(engine, client):
    odd = 'a "key"\\ with\nlines'
    for t in range(80):
        engine.handle([Query(f"q{t}", odd, 0.9), Outcome(f"q{t}", 0), Outcome("nobody", 1)])
    engine.handle([Query("open", "other", 0.5), Query("settled", "other", 0.25), Outcome("settled", 1)])
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found, overview = values_of(answer.text), engine.overview()
    assert found["onlinecal_events_total",] == 163
    assert found["onlinecal_keys",] == 2
    assert found["onlinecal_oldest_open_events",] == 163 - overview.oldest
    assert found["onlinecal_refused_total", ("reason", "unknown")] == 80
    assert found["onlinecal_alarms_total", ("of", "hints")] == overview.hint_alarms > 0
    assert found["onlinecal_brier_score", ("of", "hints")] == overview.scores.brier_hint
    assert found["onlinecal_key_alarms", ("key", odd)] >= overview.hint_alarms
    watch = client.get("/watch").json()
    assert watch["scores"]["brier"] == overview.scores.brier
    assert watch["alarmed"][0]["key"] == odd
    assert client.get("/watch?keys=1").json()["largest"] == watch["largest"][:1]
    for bad in ("0", "101", "x"):
        assert client.get(f"/metrics?keys={bad}").status_code == 400


def test_the_number_of_series_does_not_grow_with_the_keys():
    with Engine() as engine, client_of(engine, token=TOKEN) as client:
        names = [f"key {n}" for n in range(400)]
        engine.handle([Query(name, name, 0.5) for name in names])
        engine.handle([Outcome(name, 1) for name in names])
        assert client.get("/metrics").status_code == 401
        answer = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        found = values_of(answer.text)
        assert sum(name.startswith("onlinecal_key_") for name, *_ in found) == 10
        assert len(found) < 60
        assert found["onlinecal_rounds_total",] == 400
