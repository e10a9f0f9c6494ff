"""The site in a real browser, wide and narrow, light and dark: it is legible and searchable, offline."""

from __future__ import annotations

import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests import ROOT
from tests.conftest import watched

SITE = ROOT / "site"
LEGIBLE = (Path(__file__).parent / "legible.js").read_text(encoding="utf-8")
LOOKS = {"light": (1280, 900), "dark": (390, 844)}
"""On a desk by day, on a telephone at night."""
WRITTEN = [path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").glob("**/*.md")]
GENERATED = [
    "names/onlinecal",
    "names/onlinecal.CalibratedClassifier",
    "names/onlinecal.adversaries.Step",
    "verbs/measure",
]
PAGES = sorted(
    [str(page) for page in WRITTEN if page.parent.name not in ("names", "verbs")]
    + [f"reference/{name}" for name in GENERATED]
)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    if not (SITE / "index.html").exists():
        pytest.skip("there is no site: make docs")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def page(browser, address):
    """One for all addresses, which then share what they load; it asks nobody but the site."""
    context = browser.new_context()
    context.route(lambda url: not url.startswith((address, "data:")), lambda route: route.abort())
    yield watched(context)
    context.close()


@pytest.fixture
def visited(page):
    # what the last address was still loading is given up
    page.goto("about:blank")
    page.complaints.clear()
    page.set_viewport_size({"width": 1280, "height": 900})
    yield page
    page.emulate_media(color_scheme="light")


SHOWN = ("index", "windows", "reference/names/onlinecal.CalibratedClassifier")
"""Pages that are shown by default: the first, one with formulas, one that is made of a docstring."""


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_made_and_has_a_title(address, name):
    text = (SITE / f"{name}.html").read_text(encoding="utf-8")
    assert re.search(r"<title>[^<]*\w", text)
    assert text.count("<h1>") == 1


@pytest.mark.parametrize(
    "name", [name if name in SHOWN else pytest.param(name, marks=pytest.mark.slow) for name in PAGES]
)
def test_a_page_can_be_read(visited, address, name):
    visited.goto(f"{address}/{name}.html")
    if visited.locator(".math").count():
        visited.wait_for_function("MathJax.startup?.promise")
        visited.evaluate("MathJax.startup.promise")
    visited.add_style_tag(content="* { transition: none !important }")
    for theme, (width, height) in LOOKS.items():
        visited.set_viewport_size({"width": width, "height": height})
        visited.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        assert visited.evaluate(LEGIBLE) == [], theme
    assert visited.complaints == []


def test_the_search_finds_a_name(visited, address):
    visited.goto(f"{address}/search.html?q=CalibratedClassifier")
    found = visited.locator("#search-results li a")
    found.first.wait_for()
    assert "reference/names/onlinecal.CalibratedClassifier.html" in found.first.get_attribute("href")
    assert visited.complaints == []


def test_the_dark_theme_is_that_of_the_system(visited, address):
    visited.emulate_media(color_scheme="dark")
    visited.goto(f"{address}/index.html")
    assert visited.evaluate("document.documentElement.dataset.theme") == "dark"
