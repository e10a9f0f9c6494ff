"""Forecasts of two classes or more as tokens: settled in any order, each once, and bounded when late."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead, SimplexAlmostOneStepAhead, calibration_distance
from onlinecal.forecasters.binary.cells import HIGH, SCALE
from onlinecal.forecasters.binary.guarantees import Biases
from tests.forecasters.configurations import configs, fresh, play_late
from tests.forecasters.simplex.play import outcomes_of, parts_of, soft_labels, worth
from tests.properties import examples

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.remarks.GuaranteeWarning")
SIMPLEX = [
    {"n_classes": 4},
    {"n_classes": 4, "n_cells": 3},
    {"n_classes": 4, "horizon": 300},
    {},
    {"n_cells": 4},
    *({"n_classes": 4, **more} for more in ({"grid": "adaptive"}, {"report": "barycentre"})),
    {"n_classes": 4, "n_cells": 3, "slack": 1.0},
]


@settings(max_examples=examples(150), deadline=None)
@given(
    configs,
    st.booleans(),
    st.lists(st.integers(0, 1), min_size=1, max_size=120),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
)
def test_with_late_labels_certificate_and_guarantee_still_hold(config, hinted, outcomes, most_open, seed):
    hinted = hinted or config.get("hints", False)
    forecaster, rng = fresh(config, hints=hinted), np.random.default_rng(seed)
    rule = Biases.under(forecaster.rule, forecaster.memory[HIGH] / forecaster.memory[SCALE])
    settled = play_late(forecaster, outcomes, most_open, rng, rng.random if hinted else lambda: None)
    points, biases = forecaster.look_ahead
    charge = np.maximum(points, 1 - points)
    bound = rule.slack + rule.corners * charge
    if hinted or config.get("grid") == "adaptive":
        # slack may have grown, and a point that was free may have been charged once
        slack = forecaster.memory[HIGH] / forecaster.memory[SCALE]
        bound = np.maximum(rule.corners or slack, charge)
    assert (np.abs(biases) <= bound + (most_open - 1) * charge + 1e-9).all()
    forecasts = [token.probability for token, _ in settled]
    distance = calibration_distance(forecasts, [y for _, y in settled], method="exact").exact
    assert distance <= forecaster.certificate + 1e-9
    assert forecaster.certificate <= forecaster.guarantee + 1e-9
    assert forecaster.n_open == 0


class Noting(SimplexAlmostOneStepAhead):
    """Notes after each settled round how many classes have come."""

    def observe(self, token, outcome):
        super().observe(token, outcome)
        self.came = [*getattr(self, "came", []), len(self.classes)]


@settings(max_examples=examples(80), deadline=None)
@given(
    st.sampled_from(SIMPLEX),
    st.booleans(),
    st.integers(1, 200),
    st.integers(1, 9),
    st.integers(0, 2**32 - 1),
)
def test_so_they_do_of_several_classes_also_discovered_ones(config, soft, rounds, most_open, seed):
    """The certificate is that of what tokens say, of labels and of distributions."""
    numbers = outcomes_of("drift", 4, rounds, seed).tolist()
    labels = soft_labels(4, rounds, seed, 0.3) if soft else np.eye(4)[numbers]
    labels[labels < 0.05] = 0.0
    labels /= labels.sum(axis=1, keepdims=True)
    outcomes = [{c: p for c, p in enumerate(row.tolist()) if p} for row in labels] if soft else numbers
    forecaster = Noting(**config, hints=True)
    rng = np.random.default_rng(seed)

    def hint():
        return rng.dirichlet(np.ones(len(forecaster.classes))) if forecaster.classes else None

    settled = play_late(forecaster, outcomes, most_open, rng, hint)
    assert (forecaster.n_open, forecaster.n_rounds) == (0, rounds)
    assert forecaster.certificate <= forecaster.guarantee + 1e-9
    pickle.loads(pickle.dumps(forecaster))
    parts = []
    for (token, y), came in zip(settled, forecaster.came, strict=True):
        shares = y if soft else {y: 1.0}
        parts.append(parts_of(token, [shares.get(label, 0.0) for label in forecaster.classes], came))
    due = worth(parts)
    # soft labels are rounded to parts of 2^-16, and that is counted: the certificate is the bound for rounded
    # labels and how far they were rounded, a little more or less than that for the labels as given
    rounding = 1e-6 + soft * rounds * 8 * 2.0**-16
    assert due - rounding <= forecaster.certificate <= due + rounding


@pytest.mark.parametrize("delay", [0, 1, 10])
@pytest.mark.parametrize(
    ("kind", "config"),
    [
        *((AlmostOneStepAhead, config) for config in ({"horizon": 3000}, {"grid": "nested"}, {})),
        *((SimplexAlmostOneStepAhead, config) for config in SIMPLEX[:4]),
    ],
)
def test_who_knows_the_delay_breaks_no_guarantee(kind, config, delay):
    forecaster = kind(**config)
    for t in range(3000 // (delay + 1) if kind is AlmostOneStepAhead else 300):
        tokens = [forecaster.forecast() for _ in range(delay + 1)]
        if kind is AlmostOneStepAhead:
            y = int(tokens[0].probability < 0.5)
        else:
            y = min(tokens[0].probabilities, key=tokens[0].probabilities.get, default=0)
            if "n_classes" not in config and t in (3, 100):
                y = f"new at {t}"
        for token in tokens:
            forecaster.observe(token, y)
        assert forecaster.certificate <= forecaster.guarantee + 1e-9


BOTH = [
    (lambda: AlmostOneStepAhead(hints=True), [2, -1, "1", None, float("nan"), [1]], "a number in"),
    (lambda: SimplexAlmostOneStepAhead(3, hints=True), [3, None, [1], float("nan")], "one of the classes"),
]


@pytest.mark.parametrize(("build", "bad", "allowed"), BOTH)
def test_a_token_is_settled_once_by_its_own_forecaster_with_an_outcome(build, bad, allowed):
    forecaster, other = build(), build()
    other.forecast()
    first, second, third = (forecaster.forecast() for _ in range(3))
    with pytest.raises(ValueError, match="issued by another forecaster"):
        other.observe(first, 1)
    with pytest.raises(ValueError, match=r"must be a (Binary|Simplex)Forecast"):
        forecaster.observe(0.5, 1)
    for outcome in bad:
        with pytest.raises(ValueError, match=f"outcome must be {allowed}"):
            forecaster.observe(first, outcome)
    assert (other.n_rounds, forecaster.n_open) == (0, 3)
    forecaster.withdraw(first)
    assert (forecaster.n_rounds, forecaster.n_open) == (0, 2)
    forecaster.observe(second, 1)
    before = forecaster.memory.tolist()
    for settled, number in ((first, 0), (second, 1)):
        for settle in (forecaster.withdraw, lambda token: forecaster.observe(token, 1)):
            with pytest.raises(ValueError, match=f"forecast {number} has been settled, with"):
                settle(settled)
    assert forecaster.memory.tolist() == before
    forecaster.observe(third, 1)
    assert (forecaster.n_rounds, forecaster.n_open) == (2, 0)


VECTORS = [[0.5, 0.5], [0.5, 0.5, 0.1], [1.5, -0.5, 0.0], [float("nan"), 0.5, 0.5], [[1.0, 0.0, 0.0]]]


@pytest.mark.parametrize(
    ("build", "hint", "message"),
    [
        *((BOTH[0][0], hint, "hint") for hint in (-0.1, 1.1, float("nan"), float("inf"), "0.5", 2)),
        *((BOTH[1][0], hint, "hint") for hint in (*VECTORS, {"a": 1.0}, {0: 0.4}, 0.5, "abc")),
        *((lambda: SimplexAlmostOneStepAhead(hints=True), hint, "hint") for hint in ([0.5, 0.5], 0.5)),
        (AlmostOneStepAhead, 0.5, "make it with hints=True"),
        (lambda: SimplexAlmostOneStepAhead(2), [0.5, 0.5], "make it with hints=True"),
    ],
)
def test_a_bad_or_unexpected_hint_issues_nothing(build, hint, message):
    forecaster = build()
    before = forecaster.memory.tolist()
    with pytest.raises(ValueError, match=message):
        forecaster.forecast(hint)
    assert (forecaster.memory.tolist(), forecaster.n_open) == (before, 0)


def test_a_token_tells_its_cell():
    token = AlmostOneStepAhead(n_cells=10, hints=True).forecast(0.4)
    assert token.lower <= token.probability <= token.upper == pytest.approx(token.lower + 0.1)
    assert (float(token), token.hint) == (token.probability, 0.4)
    token = SimplexAlmostOneStepAhead(labels=["a", "b", "c"], n_cells=10).forecast()
    assert token["a"] == token.probabilities["a"] == token.vector[0]
    assert hash(token) == hash(token)
    vertices = np.array(token.cell.vertices)
    assert (vertices.sum(axis=1) == token.cell.scale).all()
    assert (np.diagonal(vertices) > 0).all()


@pytest.mark.parametrize("late", [8, 99])
def test_slack_that_nobody_set_grows_with_the_most_forecasts_that_were_open(late):
    """By the root of 1 + D: a true model is then moved less than with a slack of 4, and biases say why.

    A copy goes on with what it has grown to.
    """
    rng, moved, lowest = np.random.default_rng(late), {}, {}
    truth = rng.dirichlet(np.ones(3), 2000)
    labels = (truth.cumsum(1) < rng.random(2000)[:, None]).sum(1).tolist()
    for slack in (None, 4.0):
        forecaster = SimplexAlmostOneStepAhead(3, n_cells=8, slack=slack, hints=True)
        tokens = [forecaster.forecast(row) for row in truth[:late]]
        for i, row in enumerate(truth[late:]):
            if i % 500 == 0:
                forecaster = pickle.loads(pickle.dumps(forecaster))
            tokens.append(forecaster.forecast(row))
            forecaster.observe(tokens[i], labels[i])
        moved[slack] = np.abs(np.array([token.vector for token in tokens]) - truth).sum(axis=1).mean()
        lowest[slack] = forecaster.look_ahead.biases.min()
        assert forecaster.certificate <= forecaster.guarantee
    assert moved[None] < 0.8 * moved[4.0]
    assert -4.0 * (1 + late) ** 0.5 <= lowest[None] < 2.0 * lowest[4.0]
