"""The page of live certificates in a real browser: it shows what the engine says, nothing without token."""

import asyncio
import queue
import threading
from contextlib import contextmanager, suppress
from decimal import ROUND_HALF_UP, Decimal
from functools import partial

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")
pytest.importorskip("playwright", reason="needs playwright")

from playwright.sync_api import expect

from onlinecal.engine import AsyncEngine, Engine, EngineConfig, Outcome, Query
from onlinecal.engine.http.server import serve

TOKEN = "correct-horse-battery"


@contextmanager
def served(engine, **settings):
    """The address of a server on a free port, in a thread."""
    addresses = queue.SimpleQueue()

    async def main():
        async with AsyncEngine(engine) as around:
            serving = asyncio.create_task(serve(around, port=0, ready=addresses.put, **settings))
            stop.append(partial(asyncio.get_running_loop().call_soon_threadsafe, serving.cancel))
            with suppress(asyncio.CancelledError):
                await serving

    stop = []
    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        yield addresses.get(timeout=20)
    finally:
        stop[0]()
        thread.join(20)
        assert not thread.is_alive()


def play(engine, keys, rounds, start=0):
    for i in range(start, start + rounds):
        names = [f"rain/{key}" for key in range(keys)]
        engine.handle([Query(f"{name}/{i}", name, ((i * 7 + len(name)) % 10) / 10) for name in names])
        engine.handle(
            [Outcome(f"{name}/{i}", (i * k) % 3 == 0) for k, name in enumerate(names) if (i + k) % 5]
        )


def whole(number):
    """As the page writes large numbers."""
    rounded = Decimal(number).quantize(Decimal("0.001"), ROUND_HALF_UP)
    return f"{float(rounded):,}".removesuffix(".0")


def small(number):
    """As the page writes a number of a single round."""
    return str(Decimal(number).quantize(Decimal("0.0001"), ROUND_HALF_UP))


def expect_what_the_engine_says(page, engine):
    total = engine.total()
    for name in ("events", "keys", "rounds", "open", "expired", "certificate", "guarantee"):
        expect(page.locator(f"#{name}")).to_have_text(whole(getattr(total, name)))
    expect(page.locator("#per-round")).to_have_text(small(total.certificate / total.rounds))
    expect(page.locator("#promised")).to_have_text(small(total.guarantee / total.rounds))
    overview = engine.overview()
    scores, low = overview.scores, overview.hints.distance[0] / overview.hints.rounds
    for id, number in (("brier", scores.brier), ("log-loss-hint", scores.log_loss_hint), ("low-hint", low)):
        expect(page.locator(f"#{id}")).to_have_text(small(number))
    expect(page.locator("#reliability circle")).to_have_count(
        len(overview.forecasts.bins) + len(overview.hints.bins)
    )
    for row, (name, summary) in enumerate(engine.largest(10)):
        scores = summary.watched.scores
        sums = summary.certificate / summary.rounds, summary.guarantee / summary.rounds
        means = map(small, (*sums, scores.brier, scores.brier_hint))
        cells = page.locator("#largest tr").nth(row).locator("th, td")
        expect(cells).to_have_text([name, *means, whole(summary.rounds), whole(summary.open)])


@pytest.mark.slow
def test_the_page_follows_the_engine_until_it_is_gone(page):
    with Engine() as engine:
        with served(engine) as address:
            page.goto(address)
            expect(page.locator("#state")).to_have_text("live")
            expect(page.locator("#events")).to_have_text("0")
            expect(page.locator("#chart-words")).to_have_text("Nothing is settled yet.")
            play(engine, keys=12, rounds=20)
            expect_what_the_engine_says(page, engine)
            play(engine, keys=12, rounds=70, start=20)
            expect_what_the_engine_says(page, engine)
            assert engine.total().events > 1_000
            expect(page.locator("#chart polyline")).to_have_count(2)
            expect(page.locator("#chart-words")).to_contain_text(page.locator("#per-round").inner_text())
            expect(page.locator("#speed")).not_to_have_text("–")
            assert page.complaints == []
        expect(page.locator("#state")).to_contain_text("no answer")


@pytest.mark.slow
def test_the_page_names_the_keys_that_raised_alarms_as_they_are_written(page):
    name = "<img src=x onerror=alert(1)>&amp;" + "k" * 150
    with Engine() as engine, served(engine) as address:
        page.goto(address)
        expect(page.locator("#no-alarms")).to_be_visible()
        for t in range(60):
            engine.handle([Query(f"q{t}", name, 0.9), Outcome(f"q{t}", 0), Outcome("nobody", 1)])
        watched = engine.summary(name).watched
        ago = engine.total().events - watched.last_hint.event
        expect(page.locator("#alarmed th")).to_have_text(name)
        expect(page.locator("#largest th")).to_have_text(name)
        assert page.locator("#largest img, #alarmed img").count() == 0
        cells = ["hints", watched.last_hint.direction, "everywhere", str(ago), str(watched.hint_alarms)]
        expect(page.locator("#alarmed td")).to_have_text(cells)
        expect(page.locator("#hint-alarms")).to_have_text(str(watched.hint_alarms))
        expect(page.locator("#refused")).to_have_text("60 unknown")
        assert page.complaints == []
        # and nothing sticks out of a narrow window
        for width in (320, 400, 1_280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_page_asks_for_the_token_and_keeps_it_for_its_tab(page):
    with Engine(config=EngineConfig(park=5)) as engine, served(engine, token=TOKEN) as address:
        play(engine, keys=2, rounds=3)
        page.goto(address)
        expect(page.locator("#token")).to_be_focused()
        expect(page.locator("#numbers")).to_be_hidden()
        page.keyboard.type("not the right token")
        page.keyboard.press("Enter")
        expect(page.locator("#wrong")).to_have_text("This is not the token.")
        expect(page.locator("#numbers")).to_be_hidden()
        page.locator("#token").fill(TOKEN)
        page.keyboard.press("Tab")
        expect(page.get_by_role("button", name="Show")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#login")).to_be_hidden()
        expect_what_the_engine_says(page, engine)
        page.reload()
        expect_what_the_engine_says(page, engine)
        assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
        assert TOKEN not in page.url
        # what turns the direction of text in a name turns nothing beside it
        turning = "\u202eolso/\u2067niar"
        engine.handle([Query("turning", turning, 0.5), Outcome("turning", 1)])
        name = page.locator("#largest th", has_text=turning)
        expect(name.locator("bdi")).to_have_text(turning)
        expect(name).to_have_attribute("title", f"\u2068{turning}\u2069")
        expect(page.locator("#parked")).to_have_text("none")
        engine.handle([Outcome("early", 1), Outcome("earlier", 1), Query("early", "k")])
        expect(page.locator("#parked")).to_have_text("1 wait, 1 settled")
