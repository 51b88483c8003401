r"""Views of some nodes: for every node of a layer some of its neighbours, so that a step never touches the whole graph.

A node with d > c neighbours draws c of them with replacement, each counting d/c times: the sum over its neighbours is estimated
without bias. Edges are removed as in ``views.ViewPlan``, where they are drawn; degrees are those that remain on
average, :math:`1 + \sum_e w_e (1 - p_e)`, because the ones of a whole view would cost a look at every edge. What a node draws
in a layer depends on the node alone, not on the others that are drawn for: processes may share them out.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from graphkin.graphs.arrays import Features
from graphkin.graphs.graph import Graph
from graphkin.models.views import TwoViews
from graphkin.support.randomness import chances, random_key
from graphkin.support.sparse import SparseMatrix


class SampledView(NamedTuple):
    inputs: Tensor
    """features of the nodes of the first layer, gathered over their neighbours [nodes, F]"""
    blocks: list[SparseMatrix]
    """for each further layer, what its nodes receive from those of the layer before"""
    feature_mask: Tensor
    nodes: list[Tensor]
    """of every layer"""


class NeighbourPlan:
    """Draws views of some nodes of one graph, with ``count`` neighbours of every node in each of ``layers`` layers."""

    def __init__(self, graph: Graph, views: TwoViews, count: int, layers: int) -> None:
        self.count, self.layers = count, layers
        source, self.columns = graph.edge_index
        nodes, device = graph.num_nodes, source.device
        self.rowptr = torch.searchsorted(source, torch.arange(nodes + 1, device=device))
        self.weight = graph.edge_weight
        drop_edges, self.drop_features = views.rates(graph)
        if views.adaptive is None:
            self.keep_edges = [(1 - drop[:1]).expand_as(drop) for drop in drop_edges]
        else:
            reverse = torch.argsort(self.columns * nodes + source)
            self.keep_edges = [(1 - drop)[reverse] for drop in drop_edges]
        self.scale = [self._scale(keep, source, nodes) for keep in self.keep_edges]

    def _scale(self, keep: Tensor, source: Tensor, nodes: int) -> Tensor:
        amount = keep if self.weight is None else keep * self.weight
        return torch.ones(nodes, dtype=torch.float32, device=source.device).index_add_(0, source, amount).rsqrt()

    def draw(self, view: int, nodes: Tensor, x: Features, generator: torch.Generator) -> SampledView:
        """A view for the embeddings of ``nodes``."""
        blocks: list[SparseMatrix] = []
        of_layers = [nodes]
        for _ in range(self.layers - 1):
            rowptr, columns, values = self._received(view, nodes, generator)
            below, places = columns.unique(return_inverse=True)
            blocks.insert(0, SparseMatrix.from_parts(rowptr, places, values, (len(nodes), len(below))))
            nodes = below
            of_layers.insert(0, nodes)
        rowptr, columns, values = self._received(view, nodes, generator)
        gathered = SparseMatrix.from_parts(rowptr, columns, values, (len(nodes), x.shape[0])).times(x)
        mask = torch.bernoulli(1 - self.drop_features[view], generator=generator)
        return SampledView(gathered, blocks, mask, of_layers)

    def _received(self, view: int, nodes: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Compressed rows of what ``nodes`` receive, by the places of all nodes; each row begins with the node itself."""
        first, degree = self.rowptr[nodes], self.rowptr[nodes + 1] - self.rowptr[nodes]
        drawn = degree.clamp(max=self.count)
        rowptr = torch.nn.functional.pad((drawn + 1).cumsum(0), (1, 0))
        target = torch.repeat_interleave(torch.arange(len(nodes), device=nodes.device), drawn + 1)
        place = torch.arange(len(target), device=nodes.device) - rowptr[target] - 1
        which, whether = random_key(generator), random_key(generator)
        anywhere = (chances(which, nodes[target], place) * degree[target]).long()
        edge = first[target] + torch.where(degree[target] <= self.count, place, anywhere)
        itself = place < 0
        edge = torch.where(itself, 0, edge)
        columns = torch.where(itself, nodes[target], self.columns[edge])
        kept = (chances(whether, nodes[target], place) < self.keep_edges[view][edge]).float()
        amount = kept if self.weight is None else kept * self.weight[edge]
        amount = amount * (degree / drawn.clamp(min=1))[target].float()
        scale = self.scale[view]
        return rowptr, columns, torch.where(itself, 1, amount) * scale[nodes[target]] * scale[columns]
