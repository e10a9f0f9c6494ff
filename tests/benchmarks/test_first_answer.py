"""How long a first answer takes, from an empty cache: in units of work that every machine has.

Each row is played by a fresh process, whose import is not counted. A unit is sorting ten million numbers.
`BEFORE` is of a time when nothing was interpreted first.
"""

import os
import subprocess
import sys

import pytest

from tests import ROOT
from tests.benchmarks.conftest import LINES

MEASURE = """
import sys, time
import numpy as np
{imports}

numbers = np.random.default_rng(0).random(10**7)
units = []
for _ in range(3):
    begin = time.process_time()
    np.sort(numbers, kind="stable")
    units.append(time.process_time() - begin)
begin = time.process_time()
{lines}
sys.stderr.write(f"\\nunits {{(time.process_time() - begin) / min(units)}}\\n")
"""

BARE = (
    "from onlinecal import AlmostOneStepAhead",
    """
forecaster = AlmostOneStepAhead()
forecaster.observe(forecaster.forecast(), 1)
""",
)
RIVER = (
    "from river import datasets, linear_model, preprocessing\nfrom onlinecal import CalibratedClassifier",
    """
model = CalibratedClassifier(preprocessing.StandardScaler() | linear_model.LogisticRegression())
for x, y in datasets.Phishing():
    p = model.predict_proba_one(x)
    model.learn_one(x, y)
""",
)
COLUMN = (
    "import polars as pl\nfrom onlinecal import recalibrate_stream\nfrom onlinecal.datasets import NBAGames",
    """
games = pl.read_csv(NBAGames().path, try_parse_dates=True)
days = games["date"]
print(recalibrate_stream(games["forecast"], games["home_won"], settled_at=days, times=days).report())
""",
)
THREE = (
    "from river import naive_bayes\nfrom onlinecal import CalibratedClassifier",
    """
model = CalibratedClassifier(naive_bayes.GaussianNB())
for t in range(40):
    model.predict_proba_one({"x": t % 5})
    model.learn_one({"x": t % 5}, t % 3)
""",
)
COMBINE = (
    "from onlinecal import combine_forecasts",
    """
p = numbers[:2000]
combine_forecasts({"one": p, "other": p**2}, numbers[2000:4000] < p)
""",
)
ENGINE = (
    "from onlinecal.engine import Engine, Outcome, Query",
    """
with Engine() as engine:
    engine.handle([Query("q", "k", 0.8)])
    engine.handle([Outcome("q", 1)])
""",
)


def verb(*words, modules):
    """A verb of the command, which imports these modules when it is called."""
    return (
        f"from onlinecal.simulations.cli.console import main\nimport rich.table, {modules}",
        f"sys.argv = ['onlinecal', *{words}]\ntry:\n    main()\nexcept SystemExit:\n    pass",
    )


ROWS = {
    "bare": (BARE, 1 / 20),
    "river": (RIVER, 1 / 4),
    "column": (COLUMN, 1 / 3),
    "three classes": (THREE, 3 / 4),
    "combine": (COMBINE, 3 / 4),
    "engine": (ENGINE, 3 / 4),
    "measure": (verb("measure", "nba", modules="polars, scipy.optimize, onlinecal.measures.summary"), 3 / 4),
    "simulate": (verb("simulate", modules="onlinecal.simulations.games.command"), 3 / 4),
}
"""What is played, and the share of the time before that it may take."""
BEFORE = {
    "bare": 3.4, "river": 5.4, "column": 5.8, "three classes": 7.2, "combine": 9.7, "engine": 12.8,
    "measure": 6.8, "simulate": 13.6,
}  # fmt: skip
"""What it took before, in those units."""


@pytest.mark.parametrize("row", ROWS)
def test_a_first_answer_takes_a_share_of_the_time_before(row, tmp_path):
    (imports, lines), share = ROWS[row]
    program = MEASURE.format(imports=imports, lines=lines)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    units = float(done.stderr.split()[-1])
    LINES.append(f"{row:20s} {units:7.2f} units, before {BEFORE[row]:7.2f}, at most {share:.3f} of it")
    assert units <= share * BEFORE[row], LINES[-1]
