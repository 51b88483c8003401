from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from graphkin import Graph
from graphkin.models.encoders import GCN
from graphkin.models.neighbours import NeighbourPlan
from graphkin.models.views import TwoViews, View, whole_graph
from graphkin.support.sparse import SparseMatrix

KEEP_ALL = TwoViews(drop_edges=(0.0, 0.0), drop_features=(0.0, 0.0))


@pytest.fixture
def weighted(small: Graph) -> Graph:
    edges = small.edge_index[:, small.edge_index[0] < small.edge_index[1]]
    weight = 0.2 + np.random.default_rng(0).random(edges.size(1))
    return Graph.from_arrays(small.x, edges, edge_weight=weight)


def dense(x: Tensor | SparseMatrix) -> Tensor:
    return x.to_dense() if isinstance(x, SparseMatrix) else x


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("kind", ["small", "weighted"])
def test_all_neighbours_give_the_embeddings_of_the_whole_graph(kind: str, layers: int, request: pytest.FixtureRequest) -> None:
    graph: Graph = request.getfixturevalue(kind)
    encoder = GCN(hidden=6, layers=layers).build(graph.num_features, torch.Generator().manual_seed(0))
    plan = NeighbourPlan(graph, KEEP_ALL, 10**6, layers)
    nodes = torch.tensor([3, 4, 20, 39])
    view = plan.draw(0, nodes, graph.x, torch.Generator().manual_seed(0))
    torch.testing.assert_close(encoder.of_some_nodes(view), encoder(graph.x, whole_graph(graph))[nodes])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["small", "weighted"])
def test_what_a_node_receives_is_unbiased(kind: str, request: pytest.FixtureRequest) -> None:
    """Over draws of two neighbours, with edges removed: Σ_j keep · Â_ij x_j with the degrees that remain on average."""
    graph: Graph = request.getfixturevalue(kind)
    views = TwoViews(drop_edges=(0.3, 0.0), drop_features=(0.0, 0.0))
    plan = NeighbourPlan(graph, views, 2, 1)
    weight = torch.ones(graph.edge_index.size(1)) if graph.edge_weight is None else graph.edge_weight
    adjacency = torch.zeros(graph.num_nodes, graph.num_nodes)
    adjacency[graph.edge_index[0], graph.edge_index[1]] = 0.7 * weight
    adjacency += torch.eye(graph.num_nodes)
    scale = adjacency.sum(dim=1).rsqrt()
    wanted = scale[:, None] * adjacency * scale @ dense(graph.x)
    draw, nodes = torch.Generator().manual_seed(0), torch.arange(graph.num_nodes)
    found = torch.stack([plan.draw(0, nodes, graph.x, draw).inputs for _ in range(3000)])
    noise = found.std(dim=0) / 3000**0.5
    assert ((found.mean(dim=0) - wanted).abs() <= 5 * noise + 1e-6).all()
    assert noise.max() < 0.1 * wanted.max(), "or this proves nothing"


def test_adaptive_removal_is_of_what_a_node_receives(small: Graph) -> None:
    views = TwoViews(drop_edges=(0.4, 0.2), drop_features=(0.0, 0.0), adaptive="degree")
    plan = NeighbourPlan(small, views, 10**6, 1)
    (drop, _), _ = views.rates(small)
    source, target = small.edge_index.tolist()
    chance = {(a, b): float(p) for a, b, p in zip(source, target, drop, strict=True)}
    for place, keep in enumerate(plan.keep_edges[0].tolist()):
        assert keep == pytest.approx(1 - chance[target[place], source[place]])


def test_few_neighbours_keep_a_step_small(cora: Graph) -> None:
    plan = NeighbourPlan(cora, TwoViews(), 3, 2)
    view = plan.draw(1, torch.arange(10), cora.x, torch.Generator().manual_seed(0))
    (block,) = view.blocks
    assert view.inputs.shape[0] == block.shape[1] <= 10 * 4
    assert (block.csr.crow_indices().diff() <= 4).all()
    assert set(view.feature_mask.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("activation", ["relu", "prelu", "rrelu"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_blocks_of_nodes_change_no_embedding(weighted: Graph, activation: str, size: int) -> None:
    encoder = GCN(hidden=5, layers=3, activation=activation).build(weighted.num_features, torch.Generator().manual_seed(0))
    encoder.eval()
    adjacency = whole_graph(weighted).adjacency
    torch.testing.assert_close(encoder.in_blocks(weighted.x, adjacency, size), encoder(weighted.x, View(adjacency, None)))
