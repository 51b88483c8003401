"""An epoch in the form that the paper's authors published, rewritten: the baseline of ``graphkin bench epoch``.

PyTorch Geometric's GCNConv on dense features, N×N matrices for every view pair, PyTorch's own gradient. As in their program,
GRACE+ pools positives by their weighted mean, computes every score matrix once for the denominator and once for the numerator,
and multiplies it with weights in float64 whose own pairs are cleared at each use. (Theirs also runs under PyTorch's anomaly
detection, which this one leaves out.)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import GCNConv
from torch_geometric.utils import dropout_edge

from graphkin.graphs.graph import Graph
from graphkin.methods import Method
from graphkin.models.encoder import width_of
from graphkin.support.sparse import SparseMatrix
from graphkin.weights import NodeWeights


class PublishedRun:
    def __init__(self, graph: Graph, method: Method, weights: NodeWeights, device: torch.device) -> None:
        assert method.views is not None
        objective: Any = method.objective
        self.tau, self.views = objective.tau, method.views
        self.x = (graph.x.to_dense() if isinstance(graph.x, SparseMatrix) else graph.x).to(device)
        self.edges = graph.edge_index.to(device)
        hidden = width_of(method.encoder, graph.num_features)
        self.convolutions = nn.ModuleList([GCNConv(graph.num_features, 2 * hidden), GCNConv(2 * hidden, hidden)]).to(device)
        self.projector = nn.Sequential(nn.Linear(hidden, hidden), nn.ELU(), nn.Linear(hidden, hidden)).to(device)
        parameters = [*self.convolutions.parameters(), *self.projector.parameters()]
        self.optimiser = torch.optim.Adam(parameters, lr=method.optimiser.learning_rate)
        self.weights: tuple[Tensor, Tensor] | None = None
        if method.similarity is not None:
            whole = weights.block()
            attract = whole.attract.exp() + torch.diag_embed(whole.own.exp())
            self.weights = F.normalize(attract, p=1, dim=1), whole.repel.exp()

    def epoch(self) -> None:
        self.optimiser.zero_grad()
        u, v = (F.normalize(self._project(view)) for view in (0, 1))
        loss = (self._loss(u, v) + self._loss(v, u)).mean() / 2
        loss.backward()
        self.optimiser.step()
        loss.item()

    def _project(self, view: int) -> Tensor:
        edges, _ = dropout_edge(self.edges, p=self.views.drop_edges[view])
        keep = torch.rand(self.x.size(1), device=self.x.device) >= self.views.drop_features[view]
        hidden = self.x * keep
        for convolution in self.convolutions:
            hidden = convolution(hidden, edges).relu()
        projected: Tensor = self.projector(hidden)
        return projected

    def _loss(self, anchor: Tensor, other: Tensor) -> Tensor:
        inter, intra = (anchor @ other.T / self.tau).exp(), (anchor @ anchor.T / self.tau).exp()
        if self.weights is None:
            return -torch.log(inter.diag() / (inter.sum(1) + intra.sum(1) - intra.diag()))
        attract, repel = self.weights
        negative = inter.diag() + _weighted(intra, repel) + _weighted(inter, repel)
        positive = (_weighted(anchor @ other.T, attract, own=True) / self.tau).exp()
        positive = positive + (_weighted(anchor @ anchor.T, attract) / self.tau).exp()
        return -torch.log(positive / negative)


def _weighted(scores: Tensor, weights: Tensor, *, own: bool = False) -> Tensor:
    exact = weights.to(torch.float64)
    return (scores * (exact if own else exact.fill_diagonal_(0))).sum(1)
