r"""The largest PageRanks of every node, without N×N work (docs/math.md, section 2).

PageRank from node i spreads along edges. With weighted degrees d, all amounts here are divided by the degree of the node that
holds them, so that one threshold θ serves all nodes: what is at most θ is not spread further. Because d is stationary under the
walk, a rest of at most θ everywhere can add at most θ d_j to node j, and so

.. math:: 0 ≤ P_{ij} - \tilde P_{ij} ≤ ε \sqrt{d_i d_j}

with θ = ε / (1−α) for the exact P, and θ = ε / (K (1−α)) for K steps, in each of which a rest may be left behind.
The work for a node is at most about 1 / (α θ) edges, whatever the size of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor

from graphkin.errors import check_range, check_whole
from graphkin.similarity.pagerank_folder import FinishedParts
from graphkin.similarity.pagerank_loops import push, step
from graphkin.similarity.pagerank_rows import Rows, empty_rows

SMALLEST_ALPHA = 1e-3
"""of exact PageRanks: pushing takes at most 1/(αθ) edges"""
NODES_AT_A_TIME = 2**16
"""that are finished together, and written together"""


class Walk(NamedTuple):
    """A graph as the kernels take it; a self loop is no edge here, but part of the degree."""

    rowptr: np.ndarray
    columns: np.ndarray
    passed: np.ndarray
    """what an edge passes on of a unit at its source, divided by the degree of its target: (1−α) w / d [E]"""
    looped: np.ndarray
    """what a self loop passes on of a unit: (1−α) / d [N]"""
    root: np.ndarray
    """√d [N]"""

    def identity(self) -> list[Any]:
        """Numbers that tell this graph from others."""
        return [len(self.root), len(self.columns), self.passed.sum(dtype=np.float64), self.columns.sum(dtype=np.int64)]


def top_pagerank(
    edge_index: Tensor,
    num_nodes: int,
    k: int,
    *,
    alpha: float = 0.1,
    steps: int | None = None,
    self_loops: bool = True,
    edge_weight: Tensor | None = None,
    error: float = 1e-4,
    nodes: Tensor | None = None,
    folder: Path | None = None,
    say: Callable[[int], None] = lambda nodes: None,
) -> Rows:
    r"""``PageRank(...).block(nodes).topk(k)``, each entry too small by at most ``error`` :math:`\sqrt{d_i d_j}`.

    ``edge_index`` holds every edge in both directions, sorted by source. ``steps=None`` is the exact PageRank, ``nodes=None``
    are all nodes.
    With a ``folder``, finished nodes are written there, and the same call resumes where a killed one stopped.
    """
    if steps is None:
        check_range("alpha", alpha, at_least=SMALLEST_ALPHA, below=1)
    else:
        check_range("alpha", alpha, above=0, below=1)
    check_range("pagerank_error", error, above=0)
    check_whole("k", k, at_least=1)
    k = min(k, num_nodes)
    walk = _walk(edge_index, num_nodes, alpha, self_loops, edge_weight)
    starts = np.arange(num_nodes, dtype=np.int32) if nodes is None else nodes.cpu().numpy().astype(np.int32)
    rows = empty_rows(len(starts), k)
    threshold = error / (1 - alpha) / (1 if steps is None else steps)
    identity = [*walk.identity(), k, alpha, steps or 0, self_loops, error, starts.sum(dtype=np.int64)]
    finished = None if folder is None else FinishedParts(folder, identity, num_nodes)
    threads = min(torch.get_num_threads(), numba.get_num_threads())
    for first in range(0, len(starts), NODES_AT_A_TIME):
        last = min(first + NODES_AT_A_TIME, len(starts))
        part = Rows(rows.columns[first:last], rows.values[first:last])
        if finished is None or not finished.read(first, part):
            if steps is None:
                push(walk, starts[first:last], alpha, threshold, part.columns, part.values, threads)
            else:
                step(walk, starts[first:last], alpha, threshold, steps, part.columns, part.values, threads)
            if finished is not None:
                finished.write(first, part)
        say(last)
    return rows


def _walk(edge_index: Tensor, num_nodes: int, alpha: float, self_loops: bool, edge_weight: Tensor | None) -> Walk:
    source, target = edge_index.cpu()
    rowptr = torch.searchsorted(source, torch.arange(num_nodes + 1)).numpy()
    weight = None if edge_weight is None else edge_weight.double().cpu().numpy()
    degree = np.diff(rowptr).astype(np.float64) if weight is None else np.bincount(source.numpy(), weight, num_nodes)
    degree += self_loops
    inverse = np.divide(1 - alpha, degree, out=np.zeros_like(degree), where=degree > 0)
    columns = target.numpy().astype(np.int32)
    passed = inverse.astype(np.float32)[columns] if weight is None else (inverse[columns] * weight).astype(np.float32)
    return Walk(rowptr, columns, passed, (inverse * self_loops).astype(np.float32), np.sqrt(degree).astype(np.float32))
