"""The search finds what brute force finds, goes on after an interrupt; champions are as hard as they say."""

import json
import math

import msgspec
import numpy as np
import polars as pl
import pytest

import adversaries
from adversaries import Genome, stored_champions
from onlinecal.measures import calibration_distance
from simulations.games import players
from simulations.games.duel import play
from simulations.plots import champion as picture
from simulations.searching import breeding
from simulations.searching.breeding import MOST_BLOCKS, crossed, mutated, normalised, random_genome
from simulations.searching.fitness import Task, exact_distance, rate
from simulations.searching.records import read_found, read_history
from simulations.searching.search import reduced, search
from simulations.worst.enumeration import enumerate_games

ROUNDS = 40


def outcomes(genome, rounds=ROUNDS):
    return genome.outcomes(rounds).tolist()


@pytest.mark.parametrize("champion", stored_champions(), ids=lambda champion: str(champion.number))
def test_stored_champions_are_as_hard_as_it_says(champion):
    distance = exact_distance(champion.against, champion.genome, champion.rounds)
    assert distance / math.sqrt(champion.rounds) == pytest.approx(champion.distance_over_root, abs=5e-4)
    assert distance <= players.create(champion.against).bound(champion.rounds)


def test_against_each_grid_there_is_a_champion_that_beats_looking_ahead():
    for spec in ("sign", "balanced", "nested", "adaptive"):
        best = max(
            (champion for champion in stored_champions() if champion.against == spec),
            key=lambda champion: champion.distance_over_root,
        )
        ahead = adversaries.create("certificate-greedy:depth=5", best.rounds, 1)
        duel = play(players.create(spec).build(best.rounds), ahead, best.rounds, None, 1)
        reached = calibration_distance(duel.forecasts, duel.outcomes).upper
        assert best.distance_over_root > reached / math.sqrt(best.rounds)


def test_normalised_blocks_play_the_same():
    rng = np.random.default_rng(0)
    for _ in range(200):
        blocks = [(int(rng.integers(1, 9)), breeding._word(rng)) for _ in range(int(rng.integers(1, 12)))]
        genome = normalised(blocks, ROUNDS)
        assert outcomes(genome) == outcomes(Genome(tuple(blocks)))
        assert sum(share for share, _ in genome.blocks) == ROUNDS
        assert outcomes(reduced(genome)) == outcomes(genome)
        assert normalised(list(genome.blocks), ROUNDS) == genome


def test_equal_neighbours_become_one_and_words_are_short():
    assert normalised([(4, "0101"), (2, "01"), (3, "1")], 9).text == "6x01 3x1"
    assert normalised([(3, "01"), (2, "01")], 5).text == "3x01 2x01"
    assert len(normalised([(1, "01"), (1, "10")] * 100, 200).blocks) <= MOST_BLOCKS


@pytest.mark.parametrize("change", dict.fromkeys(breeding.MUTATIONS), ids=lambda change: change.__name__)
def test_every_mutation_changes_games_and_leaves_genomes(change):
    rng = np.random.default_rng(1)
    changed = 0
    for _ in range(60):
        blocks = list(random_genome(rng, ROUNDS).blocks)
        new = change(list(blocks), int(rng.integers(len(blocks))), rng, ROUNDS)
        changed += outcomes(normalised(new, ROUNDS)) != outcomes(Genome(tuple(blocks)))
    assert changed > 5


def test_a_child_is_one_parent_up_to_the_cut_and_the_other_from_there():
    rng = np.random.default_rng(2)
    for _ in range(100):
        one, other = random_genome(rng, ROUNDS), random_genome(rng, ROUNDS)
        child, first, second = outcomes(crossed(one, other, rng, ROUNDS)), outcomes(one), outcomes(other)
        assert any(child == first[:cut] + second[cut:] for cut in range(1, ROUNDS))


def test_mutants_stay_within_the_limits():
    rng = np.random.default_rng(3)
    genome = random_genome(rng, ROUNDS)
    for _ in range(500):
        genome = mutated(genome, rng, ROUNDS)
        assert len(genome.blocks) <= MOST_BLOCKS
        assert sum(share for share, _ in genome.blocks) == ROUNDS


def test_hopeless_genomes_are_recognised_without_error():
    task, rng = Task("balanced", ROUNDS), np.random.default_rng(4)
    genomes = [random_genome(rng, ROUNDS) for _ in range(40)]
    exact = [exact_distance("balanced", genome, ROUNDS) / math.sqrt(ROUNDS) for genome in genomes]
    threshold = float(np.median(exact))
    for genome, fitness, rated in zip(
        genomes, exact, rate(task, [genome.text for genome in genomes], threshold), strict=True
    ):
        assert (rated is not None) == (fitness > threshold), genome.text
        assert rated is None or rated == pytest.approx(fitness, abs=1e-9)


@pytest.mark.parametrize("spec", ["sign", "adaptive"])
def test_the_search_finds_the_worst_case_of_short_games(spec, tmp_path):
    worst = enumerate_games(spec, 10).longest
    found = search(Task(spec, 10, seed=3, population=20), 15, tmp_path).found
    assert found.distance == pytest.approx(worst.error)


def test_the_number_of_jobs_and_an_interrupt_change_nothing(tmp_path):
    task = Task("nested", ROUNDS, seed=5, population=8)
    whole = search(task, 6, tmp_path / "whole")
    search(task, 2, tmp_path / "parts", jobs=2)
    told = []
    parts = search(
        task, 6, tmp_path / "parts", resume=True, jobs=2, progress=lambda *news: told.append(news[:2])
    )
    assert parts == whole
    assert told == [(done, 6) for done in range(2, 7)]
    assert [line.generation for line in read_history(tmp_path / "parts")] == list(range(7))
    assert read_found(tmp_path / "parts") == whole.found
    best = [line.best for line in whole.history]
    assert best == sorted(best)
    assert whole.found.distance_over_root == pytest.approx(best[-1])


def test_a_search_goes_on_from_a_champion_alone(tmp_path):
    first = search(Task("sign", ROUNDS, seed=1, population=10), 4, tmp_path)
    (tmp_path / "population.json").unlink()
    again = search(Task("sign", ROUNDS, seed=2, population=10), 1, tmp_path, resume=True)
    assert again.found.distance >= first.found.distance - 1e-9


def test_randomised_forecasters_are_averaged_over_their_draws(tmp_path):
    found = search(Task("foster", 20, seed=2, population=4, draws=3), 2, tmp_path).found
    one = [exact_distance("foster", Genome.parse(found.genome), 20, seed) for seed in (2, 3, 4)]
    assert found.distance == pytest.approx(np.mean(one))
    assert found.bound is None


def test_what_does_not_go_together_is_refused(tmp_path):
    search(Task("constant", 5, population=2), 1, tmp_path)
    with pytest.raises(ValueError, match="has a search already: go on with --resume"):
        search(Task("constant", 5, population=2), 1, tmp_path)
    with pytest.raises(ValueError, match=r"constant in 5 rounds \(seed 0.*not for constant in 6 rounds"):
        search(Task("constant", 6, population=2), 1, tmp_path, resume=True)
    with pytest.raises(ValueError, match="unknown forecaster"):
        Task("nobody", 5)
    with pytest.raises(ValueError, match="rounds must be"):
        Task("sign", 0)
    with pytest.raises(FileNotFoundError, match=r"no champion\.json"):
        read_found(tmp_path / "nowhere")
    (tmp_path / "champion.json").write_text("{}")
    with pytest.raises(ValueError, match="is not what a search writes"):
        read_found(tmp_path)


def test_the_champion_can_be_drawn_from_its_folder(tmp_path):
    found = search(Task("balanced", ROUNDS, seed=1, population=6), 3, tmp_path).found
    path = picture.draw_champion(tmp_path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n")
    table = pl.read_csv(path.with_suffix(".csv"))
    assert table["outcome"].to_list() == outcomes(Genome.parse(found.genome))
    assert (table["forecast"] - table["witness"]).abs().sum() == pytest.approx(found.distance)
    course = table.drop_nulls("distance")
    assert course["distance"][-1] == pytest.approx(found.distance)
    assert (course["distance"] <= course["certificate"] + 1e-9).all()
    (tmp_path / "population.json").unlink()
    assert picture.draw_champion(tmp_path) == path


def test_broken_bounds_are_named(tmp_path):
    found = search(Task("balanced", 5, population=2), 1, tmp_path).found
    assert found.broken_bounds() == []
    assert "distance 9 > bound 2.2" in msgspec.structs.replace(found, distance=9.0).broken_bounds()[0]
    assert json.loads((tmp_path / "champion.json").read_text())["distance"] == found.distance
