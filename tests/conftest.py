"""What tests of every folder may ask for."""

from __future__ import annotations

import faulthandler
import gc
import importlib
import shutil
import sys
from typing import Any

import pytest

from onlinecal.compiling import beginning, ingredients, progress
from tests.ids import pytest_make_parametrize_id as pytest_make_parametrize_id
from tests.properties import load_profiles

load_profiles()

# which test is the first to need a loop depends on the order of tests: what this process prints must not
progress.QUIET_SECONDS = 3600.0
# kernels of tests are kept and found again as those of the library are
ingredients.PACKAGES = (*ingredients.PACKAGES, "tests")

FIRST = (
    "engine/spark/test_stream.py",
    "engine/spark/test_batch.py",
    "compiling/",
    "simulations/sweeps/test_clusters.py",
    "recalibration/test_boosted.py",
    "test_estimators.py",
    "test_pages.py",
    "simulations/cli/",
    "test_documentation.py",
    "cli/recalibrating/",
    "engine/ledger/",
    "test_certificates.py",
    "simulations/games/",
    "cli/",
    "recalibration/groups/",
    "recalibration/lp/",
    "measures/distance/",
    "engine/",
    "simulations/",
)
"""Files that take the longest: none should be the last on one core while another has nothing to do.

Two that need the same loops are apart: else both would compile them where there is no compiled code.
"""


MOST_LETTERS = 100
"""In the name of a test, its case included: a list of failures is then one line each."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first."""
    too_long = [item.nodeid for item in items if len(item.name) > MOST_LETTERS]
    if too_long:
        raise pytest.UsageError(f"names of more than {MOST_LETTERS} letters: {too_long[0]}")
    places = [f"tests/{path}" for path in FIRST]
    files = {item.nodeid.partition("::")[0] for item in items}
    turn = {at: next((i for i, one in enumerate(places) if at.startswith(one)), len(FIRST)) for at in files}
    items.sort(key=lambda item: turn[item.nodeid.partition("::")[0]])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Long checks and benchmarks take the time that they take: nothing ends them."""
    if item.get_closest_marker("slow") or item.get_closest_marker("speed"):
        faulthandler.cancel_dump_traceback_later()


def pytest_collection() -> None:
    """Until all tests are known nearly nothing is garbage, and looking for it took a tenth of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """A million objects are here to stay once all tests are known: collections of garbage pass them by.

    Afterwards garbage is looked for less often than Python does, which took a twentieth of the time.
    """
    gc.enable()
    gc.set_threshold(20_000)
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def kernels_compiled_at_once():
    """What tests compare with the interpreter is compiled; `compiling/test_beginning.py` has beginnings."""
    with beginning.compiled_at_once():
        yield


EXTRAS = ("pandas", "pyarrow", "pyspark", "starlette", "uvicorn", "httptools", "dask", "distributed", "ray")
"""What `pip install onlinecal` does not bring, by the names they are imported by."""


class Blind:
    """A finder of modules that does not see the extras."""

    def __init__(self, finder: Any) -> None:
        self.finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self.finder, name)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.partition(".")[0] in EXTRAS else self.finder.find_spec(name, path, target)


@pytest.fixture
def without_extras(monkeypatch):
    """Only the base dependencies are found, as if the extras were not installed."""
    # river offers less if scikit-learn has seen pandas, and pandas is hidden when river is imported
    importlib.import_module("river.compat")
    for name in [name for name in sys.modules if name.partition(".")[0] in EXTRAS]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Blind(finder) for finder in sys.meta_path])


WORKS = {
    "narrowing": (
        "USUAL_NODES",
        "ROUNDING_WORK",
        "LEAST_WORK",
        "FIRST_LOOK_WORK",
        "SEARCH_WORK",
        "LATTICE_WORK_AT_ONCE",
    ),
    "multiclass": ("LOWER_WORK", "PRICES_WORK", "UPPER_WORK"),
}
"""How much work a bracket of the distance may cost at budget 1, by module."""


@pytest.fixture
def wide_brackets(request, monkeypatch):
    """Distances at a fiftieth of the work: brackets are wider, and just as proven; not in long forms.

    For tests of what is said of a distance, and not of how narrow it can be had.
    """
    if request.node.get_closest_marker("slow"):
        return
    for name, works in WORKS.items():
        module = importlib.import_module(f"onlinecal.measures.distance.{name}")
        for work in works:
            monkeypatch.setattr(module, work, getattr(module, work) / 50)


@pytest.fixture
def few_corrections(request, monkeypatch):
    """Wrappers that are recalibrated to decisions correct themselves four times a fit; not in long forms.

    For tests of what is said of every estimator, and not of how good its answers are.
    """
    if not request.node.get_closest_marker("slow"):
        maps = importlib.import_module("onlinecal.wrappers.maps")
        monkeypatch.setitem(maps.ALL_OF_IT, "max_rounds", 4)


@pytest.fixture
def quick_pictures(monkeypatch):
    """All that is in a picture is placed and drawn once, on nothing: its PNG is one dot, and its SVG empty.

    For tests of which pictures a verb writes; `tests/plots` and `tests/simulations/plots` look at pictures.
    """
    from matplotlib.figure import Figure

    savefig = Figure.savefig

    def save(figure: Figure, file: Any, **settings: Any) -> None:
        if settings["format"] != "svg":
            figure.draw_without_rendering()
            savefig(Figure(figsize=(1, 1), layout="none"), file, format="png", dpi=1)

    monkeypatch.setattr(Figure, "savefig", save)


BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    """A real browser, without a window."""
    pytest.importorskip("playwright", reason="needs playwright")
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=ARGUMENTS)
        yield browser
        browser.close()


def watched(context: Any) -> Any:
    """A page that must not complain; what it does complain of is in `page.complaints`."""
    page = context.new_page()
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda message: message.type == "error" and page.complaints.append(message.text))
    page.on("requestfailed", lambda request: page.complaints.append(f"{request.url}: {request.failure}"))
    return page


@pytest.fixture
def page(browser):
    """A watched page of its own."""
    context = browser.new_context()
    yield watched(context)
    context.close()
