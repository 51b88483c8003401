"""The adjacency of a graph, normalised, as one sparse matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from graphkin.graphs.arrays import inverse
from graphkin.support.sparse import SparseMatrix


def normalised_adjacency(
    edge_index: Tensor,
    num_nodes: int,
    self_loops: bool,
    dtype: torch.dtype = torch.float32,
    edge_weight: Tensor | None = None,
) -> SparseMatrix:
    r""":math:`\hat A = D^{-1/2} A D^{-1/2}` of an undirected graph; self loops have weight 1."""
    row, col = edge_index
    weight = torch.ones(len(row), dtype=dtype, device=row.device) if edge_weight is None else edge_weight.to(dtype)
    if self_loops:
        nodes = torch.arange(num_nodes, device=row.device)
        keys, order = torch.cat([row * num_nodes + col, nodes * (num_nodes + 1)]).sort()
        row, col = keys // num_nodes, keys % num_nodes
        weight = torch.cat([weight, torch.ones_like(nodes, dtype=dtype)])[order]
    degree = torch.zeros(num_nodes, dtype=dtype, device=row.device).index_add_(0, row, weight)
    scale = inverse(degree.sqrt())
    rowptr = torch.searchsorted(row, torch.arange(num_nodes + 1, device=row.device))
    matrix = SparseMatrix.from_parts(rowptr, col, scale[row] * weight * scale[col], (num_nodes, num_nodes))
    return SparseMatrix(matrix.csr, transposed=matrix.csr)
