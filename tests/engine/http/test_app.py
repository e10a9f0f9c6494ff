"""The engine over HTTP: routes and statuses, numbers for Prometheus; who may ask, and how much."""

import json
import re
import tomllib
import warnings
from unittest.mock import Mock

import msgspec
import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("prometheus_client", reason="needs the extra serve")

from prometheus_client.parser import text_string_to_metric_families

from onlinecal.engine import (
    AsyncEngine,
    Engine,
    EngineConfig,
    KeyConfig,
    LedgerError,
    Outcome,
    Query,
    Rejected,
    Withdraw,
)
from onlinecal.engine.http import app
from onlinecal.engine.http.app import STATUS, create_app
from tests import ROOT

with warnings.catch_warnings():
    # newer starlettes would rather have another httpx
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

TOKEN = "correct-horse-battery"


def client_of(engine, **settings):
    """A client of the application, without a server between them."""
    return TestClient(create_app(AsyncEngine(engine), **settings), base_url="http://127.0.0.1:8765")


@pytest.fixture
def engine():
    with Engine() as engine:
        yield engine


@pytest.fixture
def client(engine):
    with client_of(engine) as client:
        yield client


def test_a_forecast_is_asked_for_and_settled(client):
    answer = client.post("/query", json={"id": "q1", "key": "rain/oslo", "hint": 0.7, "time": 0})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    with Engine() as alone:
        forecast = alone.query("q1", "rain/oslo", 0.7, 0)
    assert answer.json() == {"type": "forecast", **msgspec.to_builtins(forecast)}
    settled = client.post("/outcome", json={"id": "q1", "value": 1, "time": 86_400})
    assert (settled.status_code, settled.json()) == (200, {"type": "settled", "id": "q1"})
    client.post("/query", json={"id": "q2", "key": "rain/oslo"})
    withdrawn = client.post("/withdraw", json={"id": "q2"})
    assert (withdrawn.status_code, withdrawn.json()) == (200, {"type": "withdrawn", "id": "q2"})


def test_an_outcome_that_comes_first_is_taken_for_later():
    with Engine(config=EngineConfig(park=5)) as engine, client_of(engine) as client:
        parked = client.post("/outcome", json={"id": "q1", "value": 1})
        assert (parked.status_code, parked.json()) == (202, {"type": "parked", "id": "q1"})
        other = client.post("/outcome", json={"id": "q1", "value": 0})
        assert (other.status_code, other.json()["reason"]) == (409, "parked")
        assert client.post("/withdraw", json={"id": "q1"}).status_code == 409
        assert client.get("/watch").json()["parking"]["waiting"] == 1
        assert client.post("/query", json={"id": "q1", "key": "k"}).status_code == 200
        settled = client.post("/outcome", json={"id": "q1", "value": 1})
        assert (settled.status_code, settled.json()) == (200, {"type": "settled", "id": "q1"})
        assert client.get("/certificate").json()["rounds"] == 1


@pytest.mark.parametrize(
    ("path", "body", "status", "reason", "id"),
    [
        ("/query", b'{"id": "q"', 400, "malformed", None),
        ("/query", b'{"id": "x", "key": "k", "colour": 1}', 400, "malformed", "x"),
        ("/query", b'{"type": "outcome", "id": "x", "value": 1}', 400, "malformed", "x"),
        ("/query", b'{"id": "x", "key": "%s"}' % (b"k" * (1 << 16)), 400, "malformed", None),
        ("/query", b'{"id": "x", "key": "k", "hint": 1.5}', 422, "invalid", "x"),
        ("/query", b'{"id": "open", "key": "other"}', 409, "duplicate", "open"),
        ("/outcome", b'{"id": "never", "value": 1}', 404, "unknown", "never"),
        ("/outcome", b'{"id": "withdrawn", "value": 0}', 409, "withdrawn", "withdrawn"),
        ("/withdraw", b'{"id": "settled"}', 409, "settled", "settled"),
    ],
)
def test_what_is_rejected_has_such_a_status(client, engine, path, body, status, reason, id):
    engine.handle([*(Query(name, "k") for name in ("open", "settled", "withdrawn")), Withdraw("withdrawn")])
    engine.outcome("settled", 1)
    before = engine.total()
    answer = client.post(path, content=body)
    found = answer.json()
    assert (answer.status_code, found["type"], found["reason"]) == (status, "rejected", reason)
    assert found["id"] == id
    assert found["detail"]
    assert engine.total() == before


def test_every_reason_has_a_status():
    assert sorted(re.findall(r'"(\w+)"', Rejected.__doc__)) == sorted(STATUS)


def test_arrays_and_lines_are_answered_in_kind(client):
    queries = [{"id": f"q{i}", "key": "k"} for i in range(3)]
    answer = client.post("/query", json=[*queries, {"id": 7.5, "key": "k"}])
    assert answer.status_code == 200
    assert [one.get("reason", one["id"]) for one in answer.json()] == ["q0", "q1", "q2", "malformed"]
    lines = "".join(json.dumps({"id": f"q{i}", "value": i % 2}) + "\n" for i in range(3)) + "{}\n"
    as_lines = {"content-type": "application/x-ndjson"}
    for headers in ({}, as_lines):
        answer = client.post("/outcome", content=lines, headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
        types = [json.loads(line)["type"] for line in answer.text.splitlines()]
        assert types == [*["settled"] * 3, "rejected"]
    one = client.post("/withdraw", content='{"id": "q0"}\n', headers=as_lines)
    assert one.text.count("\n") == 1
    assert client.post("/query", json=[]).json() == []
    pretty = client.post("/query", content=json.dumps({"id": "p", "key": "k"}, indent=4))
    assert pretty.json()["type"] == "forecast"
    # empty lines cost nothing
    nothing = client.post("/events", content=b"\n" * (1 << 20))
    assert (nothing.status_code, nothing.content) == (200, b"")
    gaps = client.post("/query", content=b'\n{"id": "a", "key": "k"}\n \r\n\n{"id": "b", "key": "k"}\n\n')
    assert [json.loads(answer)["id"] for answer in gaps.text.splitlines()] == ["a", "b"]


def test_events_of_all_types_go_through_one_route_as_through_the_engine(client):
    lines = b'{"type":"query","id":"a","key":"k","hint":0.4}\n{"type":"outcome","id":"a","value":1}\n'
    lines += b'nonsense\n{"type":"query","id":"b","key":"k"}\n{"type":"withdraw","id":"b"}\n'
    lines += b"".join(b'{"type":"query","id":"m%d","key":"k%d"}\n' % (i, i % 5) for i in range(5_000))
    answer = client.post("/events", content=lines)
    with Engine() as alone:
        assert answer.content == alone.handle_lines(lines)
    assert answer.status_code == 200


def test_certificates_and_keys_are_those_of_the_engine(client, engine):
    for i in range(30):
        engine.handle([Query(f"q{i}", f"key {i % 7}", (i % 5) / 5)])
        if i % 3:
            engine.outcome(f"q{i}", i % 2)
    total = client.get("/certificate").json()
    assert total == {name: getattr(engine.total(), name) for name in total}
    assert (total["events"], total["keys"], total["rounds"], total["open"]) == (50, 7, 20, 10)
    one = client.get("/certificate", params={"key": "key 3"}).json()
    assert one == {"key": "key 3", **msgspec.to_builtins(engine.summary("key 3"))}
    assert one["watched"]["scores"]["rounds"] == one["rounds"] == 2
    listed = client.get("/keys").json()["keys"]
    assert [line["key"] for line in listed] == [f"key {i}" for i in range(7)]
    assert listed[3] == one
    assert client.get("/keys?offset=2&limit=3").json()["keys"] == listed[2:5]
    largest = client.get("/keys?order=largest").json()["keys"]
    ratios, wanted = ([one["certificate"] / one["rounds"] for one in some] for some in (largest, listed))
    assert ratios == sorted(wanted, reverse=True)
    assert client.get("/health").json() == {"status": "ok"}


def test_lines_of_keys_that_are_not_in_memory_have_their_windows(tmp_path):
    path, names = tmp_path / "ledger.db", [f"key {i}" for i in range(4)]
    with Engine(path, EngineConfig(KeyConfig(window=5)), hot_keys=1) as engine, client_of(engine) as client:
        for t in range(10):
            engine.handle([Query(f"{name}/{t}", name, 0.5) for name in names])
            engine.handle([Outcome(f"{name}/{t}", t % 2) for name in names])
        for route in ("/watch", "/keys?order=largest", "/keys"):
            found = client.get(route).json()
            lines = {line.pop("key"): line for line in found.get("keys", found.get("largest"))}
            assert lines == {name: msgspec.to_builtins(engine.summary(name)) for name in names}
            assert lines["key 0"]["window_certificate"] > 0


def test_health_does_not_wait_for_an_engine_at_work_but_not_for_ever(client, engine, monkeypatch):
    monkeypatch.setattr(app, "PROMPT", 0.05)
    with engine._mutex:
        assert client.get("/health").json() == {"status": "ok"}
        monkeypatch.setattr(app, "STUCK", 0.0)
        answer = client.get("/health")
        assert (answer.status_code, "not answered" in answer.json()["error"]) == (503, True)
    monkeypatch.setattr(app, "PROMPT", 20.0)
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("path", "status", "named"),
    [
        ("/certificate?key=none", 404, "'none'"),
        ("/certificate?key=k%00", 400, r"'k\x00'"),
        ("/certificate?key=" + "k" * 201, 400, "200"),
        ("/metrics?keys=101", 400, "keys"),
        ("/watch?keys=0", 400, "keys"),
        ("/keys?limit=0", 400, "limit"),
        ("/keys?limit=1001", 400, "limit"),
        ("/keys?limit=%C2%B2", 400, "limit"),
        ("/keys?offset=-1", 400, "offset"),
        ("/keys?offset=99999999999999999999", 400, "offset"),
        ("/keys?order=size", 400, "order"),
        ("/keys?order=largest&offset=3", 400, "offset"),
        ("/nothing", 404, "Not Found: GET /nothing"),
        ("/../engine.py", 404, "Not Found"),
        ("/query", 405, "Method Not Allowed: "),
    ],
)
def test_questions_that_cannot_be_answered_are_refused(client, path, status, named):
    answer = client.get(path)
    assert answer.status_code == status
    assert named in answer.json()["error"]
    assert answer.headers.get("allow", "") == ("POST" if status == 405 else "")


def test_more_events_than_a_body_may_hold_are_refused_before_they_are_read(engine):
    events = [{"id": f"q{i}", "key": "k"} for i in range(11)]
    lines = "".join(f"{json.dumps(one)}\n" for one in events)
    with client_of(engine, most_events=10) as client:
        for body in (json.dumps(events), "[" + "1," * 10 + "1]", lines):
            answer = client.post("/query", content=body)
            told = "a body may hold 10 events, this one has 11: send them in several"
            assert (answer.status_code, answer.json()["error"]) == (413, told)
        assert client.post("/events", content=b"x\n" * 11).status_code == 413
        assert engine.total().events == 0
        assert len(client.post("/query", json=events[1:]).json()) == 10


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("kye=a", "unknown parameter 'kye'"),
        ("=", "unknown parameter ''"),
        ("key", "key must be|unknown"),
        ("key=a&key=b", "once|unknown"),
        ("key=%ff", "UTF-8, .* got 'key=%ff'"),
    ],
)
def test_a_parameter_that_a_route_does_not_know_is_refused_by_every_route(client, engine, query, named):
    for route in client.app.app.routes:
        for method in route.methods:
            event = {"json": {"id": "q", "key": "k"}} if method == "POST" else {}
            answer = client.request(method, f"{route.path}?{query}", **event)
            assert answer.status_code == 400
            assert method == "HEAD" or re.search(named, answer.json()["error"])
    assert engine.total().events == 0


def test_a_parameter_of_one_route_is_unknown_to_another_which_says_what_it_takes(client):
    answer = client.get("/keys", params={"key": "k"})
    told = "unknown parameter 'key': GET /keys takes offset and limit and order"
    assert (answer.status_code, answer.json()["error"]) == (400, told)
    assert client.get("/certificate?limit=3").json()["error"].endswith("GET /certificate takes key")
    assert client.get("/health?verbose=1").json()["error"].endswith("GET /health takes no parameters")


def test_what_leads_to_the_contract_is_the_address_of_its_page(client):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = client.get("/nothing").json()["error"].partition(", see ")[2]
    assert page == f"{project['urls']['Documentation']}/engine-contract.html"
    assert (ROOT / "docs" / "engine-contract.md").exists()


def test_a_ledger_that_cannot_be_written_is_a_503(client, engine, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(engine._ledger, "commit", Mock(side_effect=LedgerError("the disk is full")))
        answer = client.post("/query", json={"id": "q", "key": "k"})
        assert (answer.status_code, answer.json()) == (503, {"error": "the disk is full"})
    assert client.post("/query", json={"id": "q", "key": "k"}).status_code == 200


def test_every_answer_has_the_security_headers_and_none_opens_to_other_origins(client):
    for answer in (client.get("/"), client.get("/page.js"), client.get("/nothing"), client.post("/query")):
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert not any(name.startswith("access-control") for name in answer.headers)


def test_a_token_is_needed_for_all_data_and_for_nothing_else(engine):
    with client_of(engine, token=TOKEN) as client:
        for path in ("/certificate", "/keys", "/nothing"):
            answer = client.get(path)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        for path in ("/query", "/outcome", "/withdraw", "/events"):
            assert client.post(path, json={"id": "q", "key": "k"}).status_code == 401
        for wrong in (f"Bearer {TOKEN}x", "Bearer", f"Basic {TOKEN}", TOKEN, "Bearer \xe9"):
            headers = {"authorization": wrong.encode("latin-1")}
            assert client.get("/certificate", headers=headers).status_code == 401
        for path in ("/", "/page.js", "/page.css", "/icon.svg", "/health"):
            assert client.get(path).status_code == 200
        assert engine.total().events == 0
        right = {"authorization": f"Bearer {TOKEN}"}
        assert client.post("/query", json={"id": "q", "key": "k"}, headers=right).status_code == 200
        assert client.get("/certificate", headers=right).json()["events"] == 1


@pytest.mark.parametrize("token", ["", "short", "with a space in it", "söme-umläuts-in-it"])
def test_weak_tokens_are_refused(engine, token):
    with pytest.raises(ValueError, match=r"token must have .* got one with [0-9]+ characters.*: make"):
        create_app(AsyncEngine(engine), token=token)


def test_a_name_that_was_made_to_mean_this_machine_is_refused(client):
    strangers = ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "[::2]", "", ":80", "[]"]
    strangers += ["[::1]evil.com", "[::1]:80evil.com", "[::1]:80@evil.com", "[::1", "::1", "[::1]]"]
    strangers += ["127.0.0.1:80@evil.com", "127.0.0.1:evil.com", "127.0.0.1 .evil.com", "localhost:80:80"]
    for host in strangers:
        answer = client.get("/certificate", headers={"host": host})
        assert answer.status_code == 421
        assert f"must be one of 127.0.0.1, [::1], localhost, got {host!r}: use" in answer.json()["error"]
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:8765", "[::1]:8765"):
        assert client.get("/certificate", headers={"host": host}).status_code == 200
    two = [("host", "127.0.0.1"), ("host", "evil.example")]
    for pair in (two, two[::-1]):
        answer = client.get("/certificate", headers=pair)
        assert (answer.status_code, "one Host header" in answer.json()["error"]) == (400, True)


def test_pages_of_other_origins_cannot_send_events(client, engine):
    event = {"id": "q", "key": "k"}
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999"):
        answer = client.post("/query", json=event, headers={"origin": origin})
        assert answer.status_code == 403
        assert f"got {origin!r}: pages of another origin" in answer.json()["error"]
    assert engine.total().events == 0
    assert client.post("/query", json=event, headers={"origin": "http://127.0.0.1:8765"}).status_code == 200


def test_large_and_compressed_bodies_are_refused(engine):
    with client_of(engine, largest_body=1_000) as client:
        event = json.dumps({"id": "q", "key": "k"}).encode()
        assert client.post("/query", content=event.ljust(1_000)).status_code == 200
        answer = client.post("/query", content=event.ljust(1_001))
        assert (answer.status_code, answer.headers["connection"]) == (413, "close")
        assert "may have 1000 bytes, this one has 1001: send fewer" in answer.json()["error"]
        assert client.post("/query", content=iter([b" " * 600] * 5)).status_code == 413
        assert client.post("/query", content=event, headers={"content-encoding": "gzip"}).status_code == 415


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


def test_outcomes_are_counted_apart_from_what_was_settled_without_one(monkeypatch):
    monkeypatch.setattr(app, "FRESH", -1.0)
    config = EngineConfig(KeyConfig(expire_after=10.0, expire_as=0))
    with Engine(config=config) as engine, client_of(engine) as client:
        for t in range(9):
            engine.handle([Query(f"q{t}", "key", time=100.0 * t), Query(f"w{t}", "key", time=100.0 * t)])
            engine.handle([Withdraw(f"w{t}"), Outcome("nobody", 1)])
        found = values_of(client.get("/metrics").text)
        assert (found["onlinecal_rounds_total",], found["onlinecal_outcomes_total",]) == (8, 0)
        for _ in range(2):
            engine.handle([Outcome("q8", 0)])
        engine.handle([Query(f"r{t}", "key") for t in range(90)] + [Outcome(f"r{t}", 1) for t in range(90)])
        assert client.get("/watch").json()["outcomes"] == engine.overview().outcomes == 91


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
