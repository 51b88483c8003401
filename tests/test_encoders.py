from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCNConv

from graphkin import Graph
from graphkin.errors import SettingError
from graphkin.models.encoders import GCN, MLP
from graphkin.models.layers import Projector, RReLU
from graphkin.models.views import View, isolated, whole_graph
from graphkin.support.sparse import SparseMatrix


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_gcn_is_pygs(small: Graph) -> None:
    """The same weights in PyTorch Geometric's layers give the same output."""
    encoder = GCN(hidden=8).build(16, draw())
    layers = [GCNConv(16, 16), GCNConv(16, 8)]
    assert isinstance(small.x, torch.Tensor)
    hidden = small.x
    for layer, weight, bias in zip(layers, encoder.weights, encoder.biases, strict=True):
        layer.lin.weight.data = weight.data.T.contiguous()
        layer.bias.data = bias.data
        hidden = layer(hidden, small.edge_index).relu()
    torch.testing.assert_close(encoder(small.x, whole_graph(small)), hidden, rtol=1e-5, atol=1e-6)


def test_masking_weights_is_masking_features(small: Graph) -> None:
    encoder = GCN(hidden=8, activation="prelu").build(16, draw())
    mask = (torch.rand(16, generator=draw()) < 0.5).float()
    view = whole_graph(small)
    assert isinstance(small.x, torch.Tensor)
    found = encoder(small.x, View(view.adjacency, mask))
    torch.testing.assert_close(found, encoder(small.x * mask, view))


def test_sparse_features_are_the_same_as_dense(cora: Graph) -> None:
    assert isinstance(cora.x, SparseMatrix)
    encoder = GCN(hidden=8).build(cora.num_features, draw())
    view = whole_graph(cora)
    sparse, dense = encoder(cora.x, view), encoder(cora.x.to_dense(), view)
    torch.testing.assert_close(sparse, dense)
    for one, other in zip(
        torch.autograd.grad(sparse.sum(), encoder.weights[0]),
        torch.autograd.grad(dense.sum(), encoder.weights[0]),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "prelu", "rrelu"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_blocks_of_nodes_change_no_embedding(small: Graph, activation: str, size: int) -> None:
    edges = small.edge_index[:, small.edge_index[0] < small.edge_index[1]]
    weighted = Graph.from_arrays(small.x, edges, edge_weight=0.2 + np.random.default_rng(0).random(edges.size(1)))
    encoder = GCN(hidden=5, layers=3, activation=activation).build(weighted.num_features, torch.Generator().manual_seed(0))
    encoder.eval()
    adjacency = whole_graph(weighted).adjacency
    torch.testing.assert_close(encoder.in_blocks(weighted.x, adjacency, size), encoder(weighted.x, View(adjacency, None)))


def test_rrelu_draws_slopes_in_training_only() -> None:
    activation = RReLU()
    x = -torch.ones(10_000)
    random = activation(x, draw())
    assert float(random.min()) >= -1 / 3
    assert float(random.max()) <= -1 / 8
    assert float(random.mean()) == pytest.approx(-(1 / 8 + 1 / 3) / 2, abs=2e-3)
    assert torch.equal(activation.eval()(x), torch.full_like(x, -(1 / 8 + 1 / 3) / 2))


def test_mlp_drops_out_in_training_only() -> None:
    mlp = MLP(hidden=8, dropout=0.5).build(4, draw())
    x = torch.ones(3, 4)
    assert not torch.equal(mlp(x, isolated(3), draw(1)), mlp(x, isolated(3), draw(2)))
    mlp.eval()
    assert torch.equal(mlp(x, isolated(3)), mlp(x, isolated(3)))


def test_building_leaves_the_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    one, two = (GCN(hidden=4).build(6, draw(7)) for _ in range(2))
    Projector(4, 5, draw())
    MLP(hidden=4).build(6, draw())
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


def test_refused_settings() -> None:
    with pytest.raises(SettingError, match="hidden must be a whole number >= 1 and <= 65536, found 0"):
        GCN(hidden=0)
    with pytest.raises(SettingError, match=r"hidden must be a whole number >= 1 and <= 65536, found 2\.5"):
        GCN(hidden=2.5)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="Did you mean 'prelu'"):
        GCN(activation="pRelu")
    with pytest.raises(SettingError, match="dropout must be"):
        MLP(dropout=1.0)
