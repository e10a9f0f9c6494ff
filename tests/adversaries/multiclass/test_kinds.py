"""What makes each adversary of several classes special, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from onlinecal.adversaries import create_multiclass, replay_labels, replay_river_labels, replay_table


def counts(spec, k, rounds=20_000, **settings):
    outcomes = create_multiclass(spec, k, rounds, **settings).outcomes()
    return np.bincount(outcomes, minlength=k) / rounds


def test_frequencies_are_what_the_settings_say():
    assert np.allclose(counts("uniform", 5), 0.2, atol=0.015)
    assert np.allclose(counts("weights", 4), [0.1, 0.2, 0.3, 0.4], atol=0.015)
    assert np.allclose(counts("weights:shares=[5,0,15]", 3), [0.25, 0.0, 0.75], atol=0.015)
    assert counts("weights:shares=[0,0,1]", 3).tolist() == [0, 0, 1]
    outcomes = create_multiclass("markov:stay=0.7", 4, 20_000).outcomes()
    stays = outcomes[1:] == outcomes[:-1]
    assert stays.mean() == pytest.approx(0.7, abs=0.015)
    jumps = (outcomes[1:] - outcomes[:-1])[~stays] % 4
    assert np.allclose(np.bincount(jumps) / len(jumps), [0, 1 / 3, 1 / 3, 1 / 3], atol=0.02)
    late = create_multiclass("late-class", 3, 10_000).outcomes()
    assert np.allclose(np.bincount(late[:5000], minlength=3) / 5000, [0.5, 0.5, 0.0], atol=0.03)
    assert (late[:5000] < 2).all()
    sudden = create_multiclass("late-class:start=40,weight=1", 3).outcomes(80)
    assert (sudden == 2).tolist() == [False] * 40 + [True] * 40
    assert np.allclose(np.bincount(late[5000:]) / 5000, [0.25, 0.25, 0.5], atol=0.03)
    nature = create_multiclass("categorical-forecast", 3, seed=2)
    drawn = [nature.outcome([0.6, 0.0, 0.4]) for _ in range(5000)]
    assert np.allclose(np.bincount(drawn) / 5000, [0.6, 0, 0.4], atol=0.03)


@pytest.mark.parametrize("k", [2, 3, 10])
def test_the_drift_starts_in_the_middle_and_moves_continuously_over_the_simplex(k):
    from onlinecal.adversaries.kinds.several import move, path_state

    state = path_state(k, 50.0)
    points = np.array([move(state, t, k).copy() for t in range(20_000)])
    assert np.allclose(points[0], 1 / k)
    assert points.min() >= 0
    assert np.allclose(points.sum(axis=1), 1)
    assert np.abs(np.diff(points, axis=0)).sum(axis=1).max() <= 2 / 50 + 1e-12
    corners = points[::50]
    # the means of Dirichlet(1, ..., 1), and of its squares
    assert np.allclose(corners.mean(axis=0), 1 / k, atol=0.02)
    assert np.allclose((corners**2).mean(axis=0), 2 / (k * (k + 1)), atol=0.02)


def test_answers_to_a_forecast():
    forecast, tied = [0.5, 0.2, 0.3], [0.4, 0.2, 0.2, 0.2]
    assert create_multiclass("least-likely", 3).outcome(forecast) == 1
    assert create_multiclass("least-likely", 4).outcome(tied) == 1
    assert create_multiclass("runner-up", 3).outcome(forecast) == 2
    assert create_multiclass("runner-up", 4).outcome(tied) == 1
    hugger = create_multiclass("boundary-hugger:first=2", 3)
    moves = ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5], [0.3, 0.1, 0.6], [0.3, 0.1, 0.6], [0.1, 0.2, 0.7])
    assert [hugger.outcome(move) for move in moves] == [2, 2, 1, 1, 0]
    builder = create_multiclass("bias-builder", 3)
    assert [builder.outcome(forecast) for _ in range(3)] == [1, 1, 1]
    assert builder.outcome([0.1, 0.7, 0.2]) == 0


def test_the_greedy_one_takes_the_largest_rise_and_breaks_ties_evenly():
    greedy = create_multiclass("certificate-greedy", 4, seed=1)
    assert greedy.outcome(None, [0.1, 0.2, 0.9, -1]) == 2
    tied = [greedy.outcome(None, [0.5, -1, 0.5 - 1e-15, 0.5]) for _ in range(3000)]
    assert np.allclose(np.bincount(tied) / 3000, [1 / 3, 0, 1 / 3, 1 / 3], atol=0.04)


@pytest.mark.parametrize(
    "spec, k, horizon, message",
    [
        ("least-likley", 3, 9, "unknown adversary of several classes 'least-likley'; did you mean 'least-l"),
        *(("uniform", k, 9, f"n_classes must be a whole number of at least 2, got {k}") for k in (1, 2.5)),
        ("weights:shares=[1,2]", 3, 9, "shares must be 3 numbers, one for each class, got .1,2."),
        ("weights:shares=[1,-2,3]", 3, 9, r"must be numbers of at least 0 with commas .* got '1,-2,3'"),
        ("weights:shares=[0,0,0]", 3, 9, "not all 0|at least 0"),
        ("dirichlet-drift", 3, None, r"needs a horizon, .* \(or spacing=...\)"),
        ("boundary-hugger:first=3", 3, 9, "first must be a class from 0 to 2, got 3"),
        ("river:name=ImageSegments", 3, 9, "n_classes must be at least 7, the classes of .*, got 3"),
    ],
)
def test_wrong_requests_are_refused(spec, k, horizon, message):
    with pytest.raises(ValueError, match=message):
        create_multiclass(spec, k, horizon)


def test_recorded_labels_are_played_once_and_in_order():
    stream = replay_labels([2, 0, 1], hints=[[0.2, 0.2, 0.6], [1, 0, 0], [0.3, 0.3, 0.4]])
    adversary = stream.adversary()
    assert [adversary.outcome() for _ in range(3)] == [2, 0, 1]
    with pytest.raises(ValueError, match="labels is over: all of its 3 outcomes"):
        adversary.outcome()
    assert replay_labels([0, 0]).n_classes == 2
    segments = replay_river_labels("ImageSegments")
    assert (len(segments), segments.n_classes, segments.classes[0]) == (2310, 7, "brickface")
    assert segments.adversary().outcomes().tolist() == segments.outcomes.tolist()


@pytest.mark.parametrize(
    "labels, hints, message",
    [
        ([], None, "labels is empty"),
        ([0, -1], None, "class numbers from 0 on, got -1 at row 1"),
        ([0, 2], [[0.5, 0.5], [0.5, 0.5]], r"class numbers 0..1, got 2 at row 1"),
        ([0, 1], [[0.5, 0.5]], r"hints must be probabilities of shape \(2, classes\), got shape \(1, 2\)"),
        ([0, 1], [[0.5, 0.5], [0.5, 0.6]], "hints must be probabilities with sum 1, .* at row 1"),
    ],
)
def test_labels_and_hints_are_checked(labels, hints, message):
    with pytest.raises(ValueError, match=message):
        replay_labels(labels, hints=hints)


def test_tables_are_checked(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        replay_table(tmp_path / "none.npz")
    text = tmp_path / "text.npz"
    text.write_text("p,y")
    with pytest.raises(ValueError, match="must be a numpy archive"):
        replay_table(text)
    np.savez(tmp_path / "half.npz", predictions=np.full((2, 2), 0.5))
    with pytest.raises(ValueError, match="must have an array 'ground_truth'; its arrays: predictions"):
        replay_table(tmp_path / "half.npz")
    np.savez(tmp_path / "wide.npz", predictions=np.full((2, 2), 0.5), ground_truth=[[0, 1], [1, 0]])
    with pytest.raises(ValueError, match=r"one class number a row in 'ground_truth', got the shape \(2, 2\)"):
        replay_table(tmp_path / "wide.npz")
    with pytest.raises(ValueError, match="path must be the path of a file, got 5"):
        replay_table(5)
    np.savez(tmp_path / "whole.npz", predictions=np.full((2, 3), 1 / 3), ground_truth=[[2], [0]])
    stream = replay_table(tmp_path / "whole.npz")
    assert (stream.name, stream.n_classes, stream.outcomes.tolist()) == ("whole", 3, [2, 0])
    spec = f"file:path=[{tmp_path / 'whole.npz'}]"
    assert create_multiclass(spec, 3, horizon=2).outcomes().tolist() == [2, 0]
