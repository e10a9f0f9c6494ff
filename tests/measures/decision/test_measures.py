import math

import numpy as np
import pytest

from onlinecal.measures.decision.errors import (
    best_shift,
    decision_calibration_error,
    decision_loss_gap,
    loss_set_gaps,
    search,
)
from onlinecal.measures.decision.losses import (
    Partition,
    bayes_decisions,
    confidence_width,
    cut_intervals,
    decision_losses,
    error_of,
    loss_norms,
    mean_losses,
    residuals,
    row_losses,
)
from onlinecal.measures.fixed_order import BLOCK_COLUMNS, by_columns, dot
from onlinecal.recalibration.decision.losses import classwise_losses, gaussian_losses, refrain_losses
from tests.measures.decision.reference import population, supremum_by_brute_force, supremum_over_intervals


def draw(rng, n, n_classes, sharpness=1.0):
    table = rng.dirichlet(np.full(n_classes, sharpness), n)
    return table, rng.integers(0, n_classes, n)


def rotations(row):
    return [np.roll(row, shift) for shift in range(len(row))]


def swaps(row):
    return [np.roll(row[::-1], shift) for shift in range(len(row))]


def test_the_gap_is_predicted_minus_true_loss_of_the_cheapest_action():
    rng = np.random.default_rng(0)
    table, labels = draw(rng, 50, 4)
    losses = rng.standard_normal((6, 3, 4))
    gaps, crossed = decision_loss_gap(table, labels, losses), loss_set_gaps(table, labels, losses)
    for i, loss in enumerate(losses):
        for j, other in enumerate(losses):
            actions = [min(range(3), key=lambda a, other=other, p=p: other[a] @ p) for p in table]
            predicted = np.mean([loss[a] @ p for a, p in zip(actions, table, strict=True)])
            true = np.mean([loss[a, y] for a, y in zip(actions, labels, strict=True)])
            gap = abs(predicted - true) / max(np.linalg.norm(row) for row in loss)
            assert crossed[j, i] == pytest.approx(gap)
        assert crossed[i, i] == pytest.approx(gaps[i])
    # a table of zeros has no gap
    assert decision_loss_gap(table, labels, 0.0 * losses[:2]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("n_actions", [1, 2, 4])
def test_losses_of_blocks_of_rows_add_up_to_those_row_by_row(n_actions):
    rng = np.random.default_rng(1)
    table, labels = draw(rng, 2 * BLOCK_COLUMNS + 40, 3)
    losses, counts = rng.standard_normal((25, n_actions, 3)), rng.random(len(labels))
    _, *by_row = row_losses(table, labels, losses)
    for found, counted, rows in zip(
        decision_losses(table, labels, losses),
        mean_losses(table, labels, losses, counts),
        by_row,
        strict=True,
    ):
        np.testing.assert_allclose(found, rows.mean(axis=1), atol=1e-14)
        np.testing.assert_allclose(counted, np.average(rows, axis=1, weights=counts), atol=1e-14)


@pytest.mark.parametrize("n_actions", [1, 2, 3])
def test_proposition_2_the_error_is_the_largest_gap_of_any_loss_under_any_bayes_rule(n_actions):
    rng = np.random.default_rng(2)
    table, labels = draw(rng, 80, 3)
    error, partition = search(table, residuals(table, labels), n_actions, True, np.random.default_rng(0))
    assert error == decision_calibration_error(table, labels, n_actions, partition="hard")
    assert decision_loss_gap(table, labels, gaussian_losses(n_actions, 3, 500)).max() <= error + 1e-12
    # the rule of the loss -w, and the loss whose rows point along the mean errors of the rule's regions
    biases = partition(table).T @ residuals(table, labels)
    worst_loss = biases / np.linalg.norm(biases, axis=1, keepdims=True)
    gaps = loss_set_gaps(table, labels, np.stack([-partition.weights, worst_loss]))
    assert gaps[0, 1] == pytest.approx(error)


@pytest.mark.parametrize("seed", range(3))
def test_proposition_1_bayes_decisions_are_the_best_of_a_list_up_to_two_gaps(seed):
    """What another loss's decisions would save is at most both rules' gaps: predicted, one's own is least."""
    rng = np.random.default_rng(seed)
    table, labels = draw(rng, 80, 3, 0.7)
    losses = gaussian_losses(3, 3, 12, seed)
    gaps, norms = loss_set_gaps(table, labels, losses), loss_norms(losses)
    decisions, worst = (
        bayes_decisions(table, losses),
        decision_calibration_error(table, labels, 3, partition="hard"),
    )
    saved = np.empty((12, 12))
    for i, loss in enumerate(losses):
        came = loss[decisions, labels].mean(axis=1)
        saved[i] = (came[i] - came) / norms[i]
        assert (saved[i] <= gaps[i, i] + gaps[:, i] + 1e-12).all()
    assert 0.0 < saved.max() <= 2.0 * worst + 1e-12


@pytest.mark.parametrize("n_actions", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_two_classes_are_exact(n_actions, seed):
    rng = np.random.default_rng(seed)
    p = rng.choice([0.0, 0.1, 0.25, 0.5, 0.6, 0.9, 1.0], 12) if seed % 2 else rng.random(12)
    table, labels = np.column_stack([1 - p, p]), rng.integers(0, 2, 12)
    brute = supremum_over_intervals(table, labels, n_actions)
    error, partition = cut_intervals(table, residuals(table, labels), n_actions)
    assert {
        decision_calibration_error(table, labels, n_actions, partition=kind) for kind in ("soft", "hard")
    } == {error}
    assert error == pytest.approx(brute)
    assert error_of(partition(table), residuals(table, labels)) == pytest.approx(error)
    assert partition.n_actions == n_actions


@pytest.mark.parametrize(
    ("n", "n_classes", "n_actions", "seed"),
    [
        *((9, 3, 2, 0), (9, 3, 2, 1), (7, 3, 3, 2)),
        *(
            pytest.param(*sizes, seed, marks=pytest.mark.slow)
            for sizes in ((12, 3, 2), (8, 4, 3), (11, 4, 2), (9, 3, 2), (7, 3, 3))
            for seed in range(3)
        ),
    ],
)
def test_the_found_supremum_is_that_of_brute_force(n, n_classes, n_actions, seed):
    table, labels = draw(np.random.default_rng(seed), n, n_classes)
    found = decision_calibration_error(table, labels, n_actions, partition="hard")
    assert found == pytest.approx(supremum_by_brute_force(table, labels, n_actions), rel=1e-9)


@pytest.mark.parametrize(("n_actions", "action"), [(2, 0), (3, 2), (5, 1)])
def test_the_best_shift_of_one_actions_weights_has_the_largest_error_of_all_shifts(n_actions, action):
    rng = np.random.default_rng(n_actions)
    table, labels = draw(rng, 60, 4)
    residual = residuals(table, labels)
    weights, direction = rng.standard_normal((n_actions, 4)), rng.standard_normal(4)

    def error_at(shift):
        moved = weights.copy()
        moved[action] += shift * direction
        return error_of(Partition(moved, hard=True)(table), residual)

    found, best = best_shift(by_columns(table), residual, weights, action, direction)
    assert found == pytest.approx(error_at(best))
    assert found >= max(map(error_at, np.linspace(-9.0, 9.0, 400))) - 1e-12


def test_sums_of_products_have_the_bits_of_numpys():
    rng = np.random.default_rng(0)
    for n in range(400):
        first, second = rng.standard_normal((2, n))
        assert dot(first, second) == (first * second).sum()


def test_hard_roundings_are_on_average_at_least_as_bad_as_a_soft_partition():
    rng = np.random.default_rng(6)
    table, labels = draw(rng, 100, 4)
    residual = residuals(table, labels)
    weights = 4.0 * rng.standard_normal((3, 4))
    soft = Partition(weights, hard=False)
    rounded = [Partition(weights + rng.gumbel(size=(3, 1)), hard=True)(table) for _ in range(2000)]
    assert np.abs(np.mean(rounded, axis=0) - soft(table)).max() < 0.05
    assert np.mean([error_of(one, residual) for one in rounded]) >= error_of(soft(table), residual)
    found = [decision_calibration_error(table, labels, 3, partition=kind) for kind in ("soft", "hard")]
    assert 0.9 * found[1] < found[0] <= found[1]
    assert found == [
        decision_calibration_error(table, labels, 3, partition=kind) for kind in ("soft", "hard")
    ]


def test_confidence_calibration_is_no_gap_for_losses_that_may_refrain():
    # the top class is right as often as it says; what remains always goes to the next class
    forecasts = [*rotations([0.6, 0.3, 0.1]), *rotations([0.5, 0.3, 0.2])]
    calibrated = [*rotations([0.6, 0.4, 0.0]), *rotations([0.5, 0.4, 0.1])]
    refrain = refrain_losses(3, np.linspace(0, 1, 41))
    table, labels = population(forecasts, calibrated, 10)
    assert loss_set_gaps(table, labels, refrain).max() < 1e-12
    assert decision_loss_gap(table, labels, refrain).max() < 1e-12
    assert loss_set_gaps(table, labels, classwise_losses(3)).max() > 0.01
    table, labels = population(forecasts, [*rotations([0.4, 0.6, 0.0]), *calibrated[3:]], 10)
    assert decision_loss_gap(table, labels, refrain).max() > 0.01


def test_classwise_calibration_is_no_gap_for_losses_about_one_class():
    # every (class, probability) comes from a rotation and a swap, whose errors cancel
    forecasts = [*rotations([0.6, 0.3, 0.1]), *swaps([0.6, 0.3, 0.1])]
    error = np.array([0.1, -0.1, 0.0])
    truths = [f + error for f in forecasts[:3]] + [f - error for f in forecasts[3:]]
    prices = np.linspace(1.05, 8, 12)
    classwise = classwise_losses(3, prices, prices)
    table, labels = population(forecasts, truths, 10)
    assert decision_loss_gap(table, labels, classwise).max() < 1e-12
    assert loss_set_gaps(table, labels, classwise_losses(3)).max() < 1e-12
    # yet it is not distribution calibrated, and a decision maker with two actions can tell
    assert decision_calibration_error(table, labels, 2, partition="hard") > 0.01
    table, labels = population(forecasts, [*(f + error for f in forecasts[:3]), *forecasts[3:]], 10)
    assert decision_loss_gap(table, labels, classwise).max() > 0.01


def test_the_width_of_all_losses_is_twice_massarts_bound_and_mcdiarmids():
    """Symmetrisation costs the factor 2; (e n/d)^d patterns of signs, each and its mirror image."""
    n, n_actions, n_classes, delta = 10**8, 2, 3, 0.01
    dimension = 2 * n_actions * (n_classes + 1) * np.log2(3 * n_actions)
    massart = np.sqrt(2 * (np.log(2) + dimension * np.log(np.e * n / dimension)) / n)
    mcdiarmid = np.sqrt(2 * np.log(n_classes / delta) / n)
    for_one_region = confidence_width(n, n_actions, n_classes, delta) / (n_actions * np.sqrt(n_classes))
    assert for_one_region == pytest.approx(2 * massart + mcdiarmid, rel=1e-12)
    assert confidence_width(10, 2, 3) == np.sqrt(2)


@pytest.mark.parametrize("n_losses", [1, 5, 40])
@pytest.mark.parametrize("delta", [0.2, 0.01])
def test_the_width_of_a_list_of_losses_keeps_its_promise_by_hoeffding(n_losses, delta):
    """A row's gap lies within an interval of length 2 sqrt(2), on both sides, for each of the losses."""
    width = confidence_width(5_000, 2, 3, delta, n_losses)
    assert width < math.sqrt(2.0)
    failing = 2 * n_losses * math.exp(-2 * 5_000 * width**2 / 8.0)
    assert failing == pytest.approx(delta)


@pytest.mark.parametrize("prices", [iter, np.array, tuple, lambda values: dict.fromkeys(values).keys()])
def test_prices_are_any_sequence_of_numbers_and_nothing_without_an_order(prices):
    values = [0.2, 0.5, 0.7]
    assert (refrain_losses(3, prices(values)) == refrain_losses(3, values)).all()
    assert (classwise_losses(3, misses=prices(values)) == classwise_losses(3, misses=values)).all()


@pytest.mark.parametrize(
    "bad", [{0.2, 0.5}, {0.2: 1}, "01", 0.5, [[0.2, 0.5]], [], [True], ["0.2"], [np.nan]]
)
def test_prices_that_are_no_numbers_in_order_are_named(bad):
    with pytest.raises(ValueError, match="costs"):
        refrain_losses(3, bad)
    with pytest.raises(ValueError, match="false_alarms"):
        classwise_losses(3, bad)
