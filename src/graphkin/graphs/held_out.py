"""Edges that are held out before training, and as many pairs without an edge: what link prediction is scored on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from graphkin.errors import GraphError, SettingError, check_range, check_whole
from graphkin.graphs.graph import Graph
from graphkin.graphs.inputs import GraphLike, as_graph
from graphkin.graphs.structural import structural_features
from graphkin.support.randomness import generator


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Pairs of nodes [2, P], the lower index first. All pairs are different."""

    edges: Tensor
    """to test on; the graph does not have them any more"""
    others: Tensor
    """as many pairs that never had an edge"""
    val_edges: Tensor
    """to choose by"""
    val_others: Tensor

    def parts(self) -> tuple[Tensor, ...]:
        return self.edges, self.others, self.val_edges, self.val_others


def hold_out_edges(data: GraphLike, share: float = 0.1, *, val: float = 0.05, seed: int = 0) -> Graph:
    """The graph without a random ``share`` of its edges for testing, and ``val`` for choosing: fit and embed this one.

    ``evaluate(z, graph, protocol="links")`` then says how well embeddings tell them from as many random pairs of
    nodes without an edge. ``graph.held_out`` has all these pairs. Features that were made from the edges are made again.
    """
    graph = as_graph(data)
    check_range("share", share, above=0, below=1)
    check_range("val", val, above=0, below=1)
    if share + val >= 1:
        raise SettingError(f"share and val must leave edges to train on, found {share:g} + {val:g}.")
    check_whole("seed", seed, at_least=0)
    return without_random_edges(graph, share, val, seed)


def without_random_edges(graph: Graph, share: float, val: float, seed: int) -> Graph:
    """:func:`hold_out_edges` of what is checked; ``val`` may be 0."""
    if graph.held_out is not None:
        raise GraphError(f"edges of {graph.name} are held out already: start from the whole graph.")
    source = generator(seed, "held-out edges")
    index = graph.edge_index.cpu()
    once = index[:, index[0] < index[1]]
    sizes = [round(part * once.size(1)) for part in (share, val)]
    if sizes[0] < 1 or (val > 0 and sizes[1] < 1):
        shares = " and ".join(f"{part:g}" for part in (share, val) if part > 0)
        raise GraphError(f"holding out {shares} of the edges must take at least one each, found {once.size(1)} edges.")
    order = torch.randperm(once.size(1), generator=source)[: sum(sizes)]
    edges, val_edges = once[:, order].split(sizes, dim=1)
    others, val_others = _non_edges(once, graph.num_nodes, sum(sizes), source).split(sizes, dim=1)
    return without(graph, HeldOut(edges, others, val_edges, val_others))


def without(graph: Graph, held: HeldOut) -> Graph:
    """The graph without these edges, which it must have."""
    keys = _keys(graph.edge_index.cpu(), graph.num_nodes)
    gone = _keys(torch.cat([held.edges, held.val_edges], dim=1), graph.num_nodes)
    never = _keys(torch.cat([held.others, held.val_others], dim=1), graph.num_nodes)
    left = ~torch.isin(keys, gone)
    if int((~left).sum()) != 2 * len(gone) or bool(torch.isin(never, keys).any()):
        raise GraphError(
            f"held-out edges must be edges of {graph.name}, and the other pairs must not be, found a different graph."
        )
    left = left.to(graph.edge_index.device)
    index = graph.edge_index[:, left]
    made = graph.made_features
    return replace(
        graph,
        x=graph.x if made is None else structural_features(index.cpu(), graph.num_nodes, made).to(index.device),
        edge_index=index,
        edge_weight=None if graph.edge_weight is None else graph.edge_weight[left],
        held_out=held,
        notes=(*graph.notes, f"{len(gone):,} edges held out"),
    )


def known_edges(graph: Graph) -> Tensor:
    """All edges [2, E], the lower index first, in order: those of the graph and those that are held out."""
    index = graph.edge_index.cpu()
    once = index[:, index[0] < index[1]]
    if graph.held_out is None:
        return once
    every = torch.cat([once, graph.held_out.edges, graph.held_out.val_edges], dim=1)
    return every[:, _keys(every, graph.num_nodes).argsort()]


def _keys(pairs: Tensor, nodes: int) -> Tensor:
    """One number for each pair, whichever node comes first."""
    return pairs.amin(0) * nodes + pairs.amax(0)


def _non_edges(edges: Tensor, nodes: int, count: int, source: torch.Generator) -> Tensor:
    """Random pairs [2, count] of different nodes without an edge, each at most once."""
    every = nodes * (nodes - 1) // 2
    free = every - edges.size(1)
    if free < count:
        raise GraphError(
            f"{count:,} held-out edges need as many pairs of nodes without an edge, found {free:,}: "
            "nearly every pair of this graph has one."
        )
    known = _keys(edges, nodes)
    if 2 * free < every:  # few pairs are left: list them, which takes about the memory of the edges
        listed = torch.triu_indices(nodes, nodes, 1)
        listed = listed[:, ~torch.isin(_keys(listed, nodes), known)]
        return listed[:, torch.randperm(free, generator=source)[:count]]
    found = torch.empty(0, dtype=torch.long)
    while len(found) < count:
        pairs = torch.randint(nodes, (2, 2 * count), generator=source)
        keys = _keys(pairs, nodes)
        found = _distinct(torch.cat([found, keys[(pairs[0] != pairs[1]) & ~torch.isin(keys, known)]]))[:count]
    return torch.stack([found // nodes, found % nodes])


def _distinct(keys: Tensor) -> Tensor:
    """Each once, in the order of their first mention."""
    _, first = np.unique(keys.numpy(), return_index=True)
    return keys[torch.from_numpy(np.sort(first))]
