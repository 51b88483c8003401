from __future__ import annotations

import math

import pytest
import torch

from graphkin import Graph
from graphkin.errors import SettingError
from graphkin.models.views import TwoViews, centrality, edge_drop_probability, feature_drop_probability, whole_graph
from graphkin.support.sparse import SparseMatrix


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def star(leaves: int = 4) -> Graph:
    edges = torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)])
    return Graph.from_arrays(torch.ones(leaves + 1, 3), edges)


@pytest.mark.slow
def test_a_view_is_normalised_by_what_remains(cora: Graph) -> None:
    """Against the formula: M[i,j] = 1/√(d_i d_j) with d the number of remaining incoming edges and one self loop."""
    view = TwoViews(drop_edges=(0.5, 0.5)).plan(cora).draw(0, draw())
    matrix = view.adjacency.to_dense()
    present = matrix > 0
    degree = present.sum(dim=1).double()
    expected = present / (degree[:, None] * degree).sqrt()
    torch.testing.assert_close(matrix.double(), expected, rtol=1e-6, atol=1e-7)
    assert present.diagonal().all()
    kept = int(present.sum()) - cora.num_nodes
    assert kept / (2 * cora.num_edges) == pytest.approx(0.5, abs=0.02)
    original = whole_graph(cora).adjacency.to_dense() > 0
    assert not (present & ~original).any()


def test_the_transpose_that_backward_uses_is_the_transpose(cora: Graph) -> None:
    adjacency = TwoViews(drop_edges=(0.4, 0.1)).plan(cora).draw(0, draw()).adjacency
    assert torch.equal(adjacency.T.to_dense(), adjacency.to_dense().T)
    dense = torch.randn(cora.num_nodes, 3, generator=draw()).requires_grad_()
    weight = torch.randn(cora.num_nodes, 3, generator=draw(1))
    (gradient,) = torch.autograd.grad(((adjacency @ dense) * weight).sum(), dense)
    torch.testing.assert_close(gradient, adjacency.to_dense().T @ weight)


def test_a_transpose_follows_the_values(cora: Graph) -> None:
    adjacency = whole_graph(cora).adjacency
    assert torch.equal(adjacency.T.to_dense(), adjacency.to_dense().T)
    other = adjacency.with_values(torch.randn(adjacency.values.shape, generator=draw()))
    assert torch.equal(other.T.to_dense(), other.to_dense().T)
    assert torch.equal(other.T.T.to_dense(), other.to_dense())


def test_rates_of_zero_keep_the_whole_graph(cora: Graph) -> None:
    view = TwoViews(drop_edges=(0.0, 0.0), drop_features=(0.0, 0.0)).plan(cora).draw(1, draw())
    torch.testing.assert_close(view.adjacency.to_dense(), whole_graph(cora).adjacency.to_dense())
    assert view.feature_mask is not None
    assert view.feature_mask.min() == 1


def test_features_are_masked_at_their_rate(cora: Graph) -> None:
    plan = TwoViews(drop_features=(0.3, 0.4)).plan(cora)
    for view, rate in ((0, 0.3), (1, 0.4)):
        mask = plan.draw(view, draw()).feature_mask
        assert mask is not None
        assert float(mask.mean()) == pytest.approx(1 - rate, abs=0.04)


def test_same_generator_same_view(cora: Graph) -> None:
    plan = TwoViews().plan(cora)
    one, two, other = plan.draw(0, draw(3)), plan.draw(0, draw(3)), plan.draw(0, draw(4))
    assert torch.equal(one.adjacency.values, two.adjacency.values)
    assert not torch.equal(one.adjacency.values, other.adjacency.values)


def test_adaptive_removal_is_the_formula() -> None:
    graph = star()
    degree = centrality(graph, "degree")
    assert degree.tolist() == [4, 1, 1, 1, 1]
    found = edge_drop_probability(graph, degree, 0.3, 0.7)
    scores = [math.log(degree[t]) for t in graph.edge_index[1].tolist()]
    distance = [(max(scores) - s) / (max(scores) - sum(scores) / len(scores)) for s in scores]
    mean = sum(distance) / len(distance)
    expected = [min(value / mean * 0.3, 0.7) for value in distance]
    assert found.tolist() == pytest.approx(expected)


def test_what_a_node_receives_is_removed_by_that_nodes_importance() -> None:
    """In a star, edges into the hub stay and edges into the leaves go: rows of the adjacency are the targets."""
    graph = star(7)
    plan = TwoViews(drop_edges=(0.5, 0.5), adaptive="degree").plan(graph)
    drawn = [plan.draw(0, draw(seed)).adjacency.to_dense() > 0 for seed in range(200)]
    kept = torch.stack(drawn).float().mean(dim=0)
    assert float(kept[0, 1:].mean()) == 1
    assert float(kept[1:, 0].mean()) < 0.5


def test_adaptive_removal_has_the_mean_rate_and_the_cap(cora: Graph) -> None:
    for kind in ("degree", "pagerank", "eigenvector"):
        importance = centrality(cora, kind)
        gentle = edge_drop_probability(cora, importance, 0.05, 0.7)
        assert float(gentle.mean()) == pytest.approx(0.05, rel=0.05)
        strong = edge_drop_probability(cora, importance, 0.6, 0.7)
        assert float(strong.max()) <= 0.7
        features = feature_drop_probability(cora.x, importance, 0.3, 0.7)
        assert torch.isfinite(features).all()
        assert 0 <= float(features.min()) <= float(features.max()) <= 0.7


def test_important_edges_and_features_survive_longer(cora: Graph) -> None:
    degree = centrality(cora, "degree")
    chance = edge_drop_probability(cora, degree, 0.3, 0.7)
    target = degree[cora.edge_index[1]]
    assert chance[target > 20].mean() < chance[target < 3].mean()
    assert isinstance(cora.x, SparseMatrix)
    dense = feature_drop_probability(cora.x.to_dense(), degree, 0.3, 0.7)
    torch.testing.assert_close(feature_drop_probability(cora.x, degree, 0.3, 0.7), dense, rtol=1e-4, atol=1e-4)


def test_regular_graphs_and_absent_features_are_no_trouble() -> None:
    ring = Graph.from_arrays(torch.tensor([[1.0, 0.0]] * 5), torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]]))
    for kind in ("degree", "pagerank", "eigenvector"):
        importance = centrality(ring, kind)
        assert edge_drop_probability(ring, importance, 0.3, 0.7).tolist() == pytest.approx([0.3] * 10)
        assert feature_drop_probability(ring.x, importance, 0.3, 0.7).tolist() == pytest.approx([0.3, 0.0])


def test_centralities_of_a_star() -> None:
    for kind in ("pagerank", "eigenvector"):
        values = centrality(star(), kind)
        assert values[0] > 1.5 * values[1]
        assert values[1:].tolist() == pytest.approx([float(values[1])] * 4, rel=1e-4)


def test_refused_settings() -> None:
    with pytest.raises(SettingError, match=r"drop_edges must be a number >= 0 and < 1, found 1\.5"):
        TwoViews(drop_edges=(0.1, 1.5))
    with pytest.raises(SettingError, match="must be two rates"):
        TwoViews(drop_features=0.3)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="Did you mean 'degree'"):
        TwoViews(adaptive="degre")
