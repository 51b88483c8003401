from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from graphkin import Graph, Similarity
from graphkin.errors import SettingError
from graphkin.similarity import PageRank
from graphkin.smooth import WithTail, smooth_vectors
from graphkin.synthetic import community_graph


@pytest.fixture(scope="module")
def communities() -> Graph:
    return community_graph(600, seed=1)


def pagerank(graph: Graph, steps: int | None = None) -> PageRank:
    return PageRank(graph.edge_index, graph.num_nodes, steps=steps, dtype=torch.float64, edge_weight=graph.edge_weight)


def correlation(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack([one.double(), other.double()]))[0, 1])


@pytest.mark.parametrize("steps", [None, 4])
def test_all_vectors_give_the_positive_part_of_pagerank(small: Graph, steps: int | None) -> None:
    of_graph = pagerank(small, steps)
    values, vectors = np.linalg.eigh(of_graph.adjacency.to_dense().numpy())
    response = np.diag(vectors.T @ of_graph.block(torch.arange(40)).numpy() @ vectors)
    positive = values > 1e-7
    wanted = (vectors[:, positive] * (response[positive] - 0.1)) @ vectors[:, positive].T
    found = smooth_vectors(of_graph.adjacency, 40, 0.1, steps, smallest=0)[0].double()
    np.testing.assert_allclose((found @ found.T).numpy(), wanted, atol=1e-5)


def test_the_leading_vectors_of_many_nodes_are_taken(communities: Graph) -> None:
    adjacency = pagerank(communities).adjacency
    found = smooth_vectors(adjacency, 8, 0.1, None, 0)[0].double()
    values = np.linalg.eigvalsh(adjacency.to_dense().numpy())[-8:]
    np.testing.assert_allclose(found.square().sum(dim=0).sort().values.numpy(), 0.1 / (1 - 0.9 * values) - 0.1, rtol=0.02)
    unit = found / found.norm(dim=0)
    np.testing.assert_allclose((unit.T @ unit).numpy(), np.eye(8), atol=1e-3)


def test_components_that_are_kept_whole_have_no_vectors() -> None:
    ring = torch.stack([torch.arange(20), (torch.arange(20) + 1) % 20])
    pair = torch.tensor([[20], [21]])
    graph = Graph.from_arrays(torch.ones(23, 2), torch.cat([ring, pair], dim=1))
    vectors, _ = smooth_vectors(pagerank(graph).adjacency, 5, 0.1, None, smallest=8)
    assert (vectors[:20].abs().sum(dim=1) > 0).all() and not vectors[20:].any()
    nothing, _ = smooth_vectors(pagerank(graph).adjacency, 5, 0.1, None, smallest=20)
    assert nothing.shape == (23, 0)
    both = Similarity(beta=0, top_k=20, steps=None, tail=5).on(graph)
    assert both.block(torch.arange(23)).equal(Similarity(beta=0, top_k=20, steps=None).on(graph).block(torch.arange(23)))


def test_the_largest_stay_and_the_rest_has_its_sum(communities: Graph) -> None:
    nodes = torch.arange(600)
    settings = Similarity(beta=0, top_k=8, steps=None)
    largest = settings.on(communities).block(nodes)
    tailed = replace(settings, tail=16).on(communities)
    assert isinstance(tailed, WithTail)
    block = tailed.block(nodes)
    assert block[largest > 0].equal(largest[largest > 0])
    assert block.min() >= 0
    assert float(block.double().sum()) == pytest.approx(tailed.total(), rel=0.02)
    assert tailed.total() == pytest.approx(pagerank(communities).total(), rel=1e-4)
    assert tailed.block(nodes[5:9], nodes[::7]).equal(block[5:9, ::7])
    torch.testing.assert_close(tailed.own(nodes), largest.diagonal())


def test_the_rest_is_told_apart(communities: Graph) -> None:
    """Beyond the largest entries, PageRank and its stand-in agree on what is nearer."""
    nodes = torch.arange(600)
    exact = pagerank(communities).block(nodes)
    tailed = Similarity(beta=0, top_k=8, steps=None, tail=16).on(communities)
    assert isinstance(tailed, WithTail)
    rest = tailed.largest.block(nodes) == 0
    assert correlation(tailed.block(nodes)[rest], exact[rest]) > 0.8


def test_nodes_of_different_components_are_not_similar() -> None:
    """Eigenvectors of one eigenvalue mix the components that share it."""
    parts = [community_graph(60, seed=seed).edge_index + 60 * seed for seed in range(8)]
    graph = Graph.from_arrays(torch.rand(480, 4), torch.cat(parts, dim=1))
    nodes = torch.arange(480)
    exact = pagerank(graph).block(nodes)
    tailed = Similarity(beta=0, top_k=6, steps=None, tail=5).on(graph)
    assert isinstance(tailed, WithTail)
    found = tailed.block(nodes)
    assert not found[exact == 0].any()
    rest = (tailed.largest.block(nodes) == 0) & (exact > 0)
    assert float(found[rest].double().sum()) == pytest.approx(float(exact[rest].sum()), rel=0.05)


@pytest.mark.parametrize(
    "settings", [{"tail": 4}, {"tail": 4, "top_k": 8, "structure": "ppr-cosine"}, {"tail": -1, "top_k": 8}]
)
def test_a_tail_needs_a_head(settings: dict[str, object]) -> None:
    with pytest.raises(SettingError, match="tail"):
        Similarity(**settings)  # type: ignore[arg-type]
