"""Whether neighbours have more alike features than other nodes: read from features and edges alone, without labels."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from graphkin.graphs.arrays import SPARSE_BELOW, Features
from graphkin.graphs.diffusion import unit_length
from graphkin.graphs.graph import Graph
from graphkin.support.axes import principal_axes
from graphkin.support.randomness import generator, some_of
from graphkin.support.sparse import SparseMatrix

AXES, COUNTED = 64, 4
"""principal axes of the features that are looked at, and how many of them count: those in which neighbours are most alike"""
MOST_NODES, MOST_EDGES = 10_000, 30_000
"""that are looked at"""
ROWS = 8192
"""whose features are copied at a time"""
ROUNDING = 1e-5
"""Less variance than this share of the squared lengths is none."""
FEW = 50
"""features, each of which may say something of its own: they are never taken for noise"""


class Alikeness(NamedTuple):
    neighbours: float
    """how alike neighbours are: 1 if they agree, 0 if they are no more alike than other nodes"""
    features: float
    """variance along the first axis of the features, in times of the largest that independent noise would have; infinite where
    there are few"""


def alikeness(graph: Graph, x: Features) -> Alikeness | None:
    r"""The mean over the axes that count, of rows ``x`` of length 1; None without edges or without features that differ.

    Along an axis a with z_i = ⟨x_i − mean, a⟩, neighbours are as alike as the correlation over the ends of edges says:

    .. math:: \frac{\sum_{(i,j) \in E} z_i z_j}{\sum_{(i,j) \in E} (z_i^2 + z_j^2) / 2}

    The variance is compared with the edge of Marchenko and Pastur's law, (1 + √(F/N))² times the mean variance.
    """
    source = generator(0, "alikeness")
    rows = unit_length(_some_rows(x, _drawn(graph.num_nodes, MOST_NODES, source).to(x.device)))
    count, width = rows.shape
    exact_mean = _column_sums(rows) / count
    mean = exact_mean.float()
    turned = rows.T

    def gram(directions: Tensor) -> Tensor:
        found: Tensor = turned @ (rows @ directions) - count * mean[:, None] * (mean @ directions)
        return found

    total = float(_squares(rows) - count * exact_mean.square().sum())
    if graph.num_edges == 0 or total <= count * ROUNDING:
        return None
    axes = principal_axes(gram, width, min(AXES, width), rows.device)
    first = float(axes[:, 0] @ gram(axes[:, :1])[:, 0])
    noise = total / width * (1 + math.sqrt(width / count)) ** 2 if width > FEW else 0.0
    edges = graph.edge_index[:, _drawn(graph.edge_index.size(1), MOST_EDGES, source).to(graph.edge_index.device)]
    nodes, place = edges.unique(return_inverse=True)
    ends = torch.cat([unit_length(_some_rows(x, some)) @ axes for some in nodes.split(ROWS)])[place]
    neighbours = _correlation(*ends).topk(min(COUNTED, axes.size(1))).values.mean().item()
    return Alikeness(neighbours, first / noise if noise else math.inf)


def _correlation(one: Tensor, other: Tensor) -> Tensor:
    """Of every column over pairs of rows, which may stand either way round; 0 for a column without any variance."""
    mean = (one.mean(0) + other.mean(0)) / 2
    one, other = one - mean, other - mean
    variance = (one.square().mean(0) + other.square().mean(0)) / 2
    return torch.where(variance > 1e-9, (one * other).mean(0) / variance.clamp(min=1e-9), 0)


def _drawn(total: int, most: int, source: torch.Generator) -> Tensor:
    return torch.arange(total) if total <= most else some_of(total, most, source).sort().values


def _some_rows(x: Features, nodes: Tensor) -> Features:
    if not isinstance(x, SparseMatrix):
        return x[nodes]
    return x.some_rows(nodes) if x.density < SPARSE_BELOW else x.rows(nodes)


def _column_sums(x: Features) -> Tensor:
    if not isinstance(x, SparseMatrix):
        return x.sum(dim=0, dtype=torch.float64)
    sums = torch.zeros(x.shape[1], dtype=torch.float64, device=x.device)
    return sums.index_add_(0, x.columns, x.values.double())


def _squares(x: Features) -> Tensor:
    return (x.values if isinstance(x, SparseMatrix) else x).square().sum(dtype=torch.float64)
