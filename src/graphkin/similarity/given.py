"""Similarities that are not computed from the graph: a user's own, and what labels say."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from graphkin.errors import GraphError, SettingError
from graphkin.graphs.arrays import checked_device, no_labels, numeric
from graphkin.graphs.inputs import GraphLike, as_graph
from graphkin.similarity.blocks import NodeSimilarity, Stored
from graphkin.support.components import register
from graphkin.support.sparse import SparseMatrix


def as_similarity(similarity: Any, num_nodes: int | None = None, device: torch.device | str = "cpu") -> NodeSimilarity:
    """A user's similarity, whatever its form: ours, a dense or sparse N×N matrix, or a function of row blocks.

    A tensor stays where it is; what is no tensor goes to ``device``.
    """
    if isinstance(similarity, NodeSimilarity):
        return similarity
    device = checked_device(device)
    if scipy.sparse.issparse(similarity):
        return Stored(SparseMatrix.from_scipy(similarity).to(device))
    if isinstance(similarity, np.ndarray):
        return Stored(numeric(similarity, "a similarity matrix").to(device, torch.get_default_dtype()))
    if isinstance(similarity, Tensor):
        if similarity.is_nested or similarity.is_meta or similarity.is_quantized or similarity.is_complex():
            raise SettingError("a similarity matrix must be a plain or a sparse tensor of real numbers, found another kind.")
        if similarity.dtype not in (torch.float32, torch.float64):
            similarity = similarity.float()
        if similarity.layout == torch.strided:
            return Stored(similarity.detach())
        return Stored(SparseMatrix(similarity.detach().to_sparse_coo().coalesce().to_sparse_csr()))
    if callable(similarity):
        if num_nodes is None:
            raise SettingError("a similarity given as a function also needs num_nodes.")
        return Computed(similarity, num_nodes, device)
    raise SettingError(
        "similarity must be a graphkin similarity, an N×N matrix or a function of node indices, "
        f"found {type(similarity).__name__}."
    )


class Computed(NodeSimilarity):
    """A user's function from node indices [B], on the CPU, to their similarity with every node [B, N]."""

    def __init__(self, rows_of: Callable[[Tensor], Tensor], num_nodes: int, device: torch.device | str = "cpu") -> None:
        self.rows_of, self.num_nodes, self.device = rows_of, num_nodes, torch.device(device)
        self.symmetric = False

    @functools.cached_property
    def dtype(self) -> torch.dtype:  # type: ignore[override]
        """Only the function can tell: that of the first node's row."""
        return self.block(torch.zeros(1, dtype=torch.int64)).dtype

    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        given = self.rows_of(rows.cpu())
        try:
            block = torch.as_tensor(given).to(self.device)
        except (RuntimeError, TypeError, ValueError) as error:
            raise SettingError(f"the similarity function must return numbers, found {type(given).__name__}.") from error
        if block.shape != (rows.numel(), self.num_nodes):
            raise SettingError(
                f"the similarity function must return [{rows.numel()}, {self.num_nodes}] for {rows.numel()} nodes, "
                f"found {tuple(block.shape)}."
            )
        if not torch.isfinite(block).all():
            raise SettingError("the similarity function must return finite numbers, found NaN or infinite ones.")
        block = block if block.dtype in (torch.float32, torch.float64) else block.float()
        return block.clamp(min=0) if columns is None else block[:, columns].clamp(min=0)


class LabelSimilarity(NodeSimilarity):
    """1 for nodes of one class, 0 for others; a node without a class is similar to itself alone."""

    def __init__(self, labels: Tensor) -> None:
        self.num_nodes, self.device = labels.numel(), labels.device
        nodes = torch.arange(self.num_nodes, device=labels.device)
        self.classes = torch.where(labels >= 0, labels, -1 - nodes)

    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        others = self.classes if columns is None else self.classes[columns]
        return (self.classes[rows, None] == others).float()

    def is_indicator(self) -> bool:
        return True


@register("Labels")
@dataclass(frozen=True)
class Labels:
    """The similarity that nobody has: whether two nodes are of one class. For studies of what weights could do at best."""

    def on(self, data: GraphLike, folder: Path | None = None) -> NodeSimilarity:
        graph = as_graph(data)
        if graph.y is None:
            raise GraphError(f"the ideal objective is made from labels, and {no_labels()}")
        return LabelSimilarity(graph.y)
