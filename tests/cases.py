"""Small random graphs and embeddings with everything awkward in them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from graphkin import Graph
from graphkin.execution import Stored
from graphkin.methods import Method
from graphkin.similarity import NodeSimilarity
from graphkin.weights import NodeWeights


@dataclass(frozen=True)
class Case:
    """A graph of at most 12 nodes: isolated nodes, zero feature rows and negative features among them."""

    n: int
    edges: list[tuple[int, int]]
    x: Tensor
    u: Tensor
    v: Tensor
    seed: int

    def graph(self) -> Graph:
        index = torch.tensor(self.edges, dtype=torch.long).reshape(-1, 2).T
        return Graph.from_arrays(self.x, index)

    @property
    def draw(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)


def make_case(seed: int, n: int | None = None, *, negative: bool = False, width: int = 4) -> Case:
    draw = torch.Generator().manual_seed(seed)
    n = n or int(torch.randint(2, 13, (1,), generator=draw))
    pairs = [(i, j) for i in range(n) for j in range(i)]
    density = float(torch.rand(1, generator=draw))
    chosen = torch.rand(len(pairs), generator=draw) < density
    edges = [pair for pair, take in zip(pairs, chosen.tolist(), strict=True) if take] or [(1, 0)]
    x = torch.rand(n, 5, generator=draw, dtype=torch.float64)
    if negative:
        x = x - 0.5
    x[torch.rand(n, generator=draw) < 0.2] = 0
    x[0] = x[0].abs() + 0.1
    x = x.float().double()  # a graph keeps features in float32
    u, v = (unit(torch.randn(n, width, generator=draw, dtype=torch.float64)) for _ in range(2))
    return Case(n, edges, x, u, v, seed)


def weights_for(
    graph: Graph, method: Method, similarity: NodeSimilarity | None = None, stored: Stored = "weights"
) -> NodeWeights:
    """The weights that a method prepares for a graph where so much is stored."""
    ways = method.objective.ways(graph, method, graph.edge_index.device, adapt=False)
    weights: NodeWeights = method.objective.prepare(graph, next(way for way in ways if way.stored == stored), similarity)
    return weights


def unit(rows: Tensor) -> Tensor:
    return torch.nn.functional.normalize(rows, dim=1)


cases = st.builds(make_case, st.integers(0, 10**6), negative=st.booleans())
taus = st.floats(0.2, 2.0)
