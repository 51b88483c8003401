"""What habits of published evaluations do to a number, beside the honest one; and several measures of one embedding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from graphkin import Graph, evaluate
from graphkin.evaluation.probe import probe, probe_adam, refitted
from graphkin.evaluation.protocols import HABITS, PROTOCOLS
from graphkin.graphs.splits import Split, random_split
from graphkin.graphs.synthetic import community_graph
from tests.test_probe import clusters

SPLITS = range(5)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return community_graph(400, seed=0)


@pytest.fixture(scope="module")
def rows(graph: Graph) -> torch.Tensor:
    assert graph.y is not None
    draw = torch.Generator().manual_seed(0)
    return torch.nn.functional.one_hot(graph.y).float() + torch.randn(400, int(graph.y.max()) + 1, generator=draw)


def with_other_labels(graph: Graph, nodes: torch.Tensor) -> Graph:
    assert graph.y is not None
    labels = graph.y.clone()
    labels[nodes] = labels[nodes][torch.randperm(len(nodes), generator=torch.Generator().manual_seed(0))]
    return Graph.from_arrays(graph.x, graph.edge_index, labels)


def test_refit_is_a_fit_on_training_and_validation_nodes() -> None:
    rows, labels = clusters(300, 3, 6, spread=2)
    split = random_split(300, train=0.2, val=0.2)
    both = torch.cat([split.train, split.val]).numpy()
    strength = probe(rows, labels, split).strength
    fit = OneVsRestClassifier(LogisticRegression(solver="liblinear", C=strength, random_state=0, tol=1e-8))
    expected = fit.fit(rows[both], labels[both]).score(rows[split.test], labels[split.test])
    assert refitted(rows, labels, split) == pytest.approx(100 * expected)


def test_swapped_scores_the_validation_nodes(graph: Graph, rows: torch.Tensor) -> None:
    splits = [random_split(400, seed=seed) for seed in SPLITS]
    turned = [Split(split.train, split.test, split.val) for split in splits]
    swapped = evaluate(rows, graph, protocol="habit-swapped", splits=splits)
    assert swapped.test == evaluate(rows, graph, splits=turned).test
    assert swapped.test == evaluate(rows, graph, protocol="habit-swapped", splits=len(SPLITS)).test


def test_the_best_epoch_by_test_is_never_worse_than_the_honest_one(graph: Graph, rows: torch.Tensor) -> None:
    honest, best = (evaluate(rows, graph, protocol=name, splits=len(SPLITS)).test for name in ("gca", "habit-best-test"))
    assert all(one <= other for one, other in zip(honest, best, strict=True)) and honest != best


def test_the_best_epoch_by_test_is_the_largest_of_all_epochs() -> None:
    values, labels = clusters(150, 3, 6, spread=2)
    split = random_split(150, train=0.3, val=0.3)
    found = [probe_adam(values, labels, split, epochs=epochs, every=epochs).test for epochs in range(20, 301, 20)]
    assert probe_adam(values, labels, split, epochs=300, by_test=True).test == max(found)


@pytest.mark.parametrize("name", HABITS)
def test_a_habit_gives_nothing_to_choose_by_and_says_what_it_is(name: str) -> None:
    protocol = PROTOCOLS[name]
    assert not protocol.validates and list(protocol.measures) == ["accuracy"]
    assert protocol.description.startswith("not for own claims")


def test_a_leaderboard_scores_the_same_rows_by_three_protocols(graph: Graph, rows: torch.Tensor) -> None:
    found = evaluate(rows, graph, protocol="leaderboard", splits=3).values
    assert found["accuracy"] == evaluate(rows, graph, splits=3).test
    clustered = evaluate(rows, graph, protocol="clustering", splits=3).values
    assert (found["nmi"], found["ari"]) == (clustered["nmi"], clustered["ari"])
    assert set(found["sim@5"]) == set(evaluate(rows, graph, protocol="search").test)


def test_habits_see_labels_that_an_honest_probe_does_not(graph: Graph, rows: torch.Tensor) -> None:
    """Wrong validation labels spoil a refit probe; the honest one has only its C to lose."""
    split = random_split(400, train=0.2, val=0.4, seed=0)
    spoiled = with_other_labels(graph, split.val)
    honest, refit = (evaluate(rows, spoiled, protocol=name, splits=[split]).mean for name in ("grace", "habit-refit"))
    assert refit < honest and np.isfinite(refit)
