"""Who may ask the engine over HTTP, from which page, and how much."""

import json

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")

from onlinecal.engine import AsyncEngine
from onlinecal.engine.http.app import create_app
from tests.engine.http.clients import TOKEN, client_of


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
    with pytest.raises(ValueError, match="token"):
        create_app(AsyncEngine(engine), token=token)


def test_a_name_that_was_made_to_mean_this_machine_is_refused(client):
    strangers = ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "[::2]", "", ":80", "[]"]
    strangers += ["[::1]evil.com", "[::1]:80evil.com", "[::1]:80@evil.com", "[::1", "::1", "[::1]]"]
    strangers += ["127.0.0.1:80@evil.com", "127.0.0.1:evil.com", "127.0.0.1 .evil.com", "localhost:80:80"]
    for host in strangers:
        assert client.get("/certificate", headers={"host": host}).status_code == 421
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:8765", "[::1]:8765"):
        assert client.get("/certificate", headers={"host": host}).status_code == 200
    two = [("host", "127.0.0.1"), ("host", "evil.example")]
    for pair in (two, two[::-1]):
        answer = client.get("/certificate", headers=pair)
        assert (answer.status_code, "one Host header" in answer.json()["error"]) == (400, True)


def test_pages_of_other_origins_cannot_send_events(client, engine):
    event = {"id": "q", "key": "k"}
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999"):
        assert client.post("/query", json=event, headers={"origin": origin}).status_code == 403
    assert engine.total().events == 0
    assert client.post("/query", json=event, headers={"origin": "http://127.0.0.1:8765"}).status_code == 200


def test_large_and_compressed_bodies_are_refused(engine):
    with client_of(engine, largest_body=1_000) as client:
        event = json.dumps({"id": "q", "key": "k"}).encode()
        assert client.post("/query", content=event.ljust(1_000)).status_code == 200
        answer = client.post("/query", content=event.ljust(1_001))
        assert (answer.status_code, answer.headers["connection"]) == (413, "close")
        assert "1000" in answer.json()["error"]
        assert client.post("/query", content=iter([b" " * 600] * 5)).status_code == 413
        assert client.post("/query", content=event, headers={"content-encoding": "gzip"}).status_code == 415
