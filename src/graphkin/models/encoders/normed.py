"""A network on features alone with a norm behind every layer: the encoder of SIGNA."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphkin.errors import check_choice, check_range, check_whole
from graphkin.graphs.arrays import Features
from graphkin.models.branch import Branch
from graphkin.models.layers import NORMS
from graphkin.models.views import View
from graphkin.support.components import register
from graphkin.support.sparse import SparseMatrix


@register("NormedMLP")
@dataclass(frozen=True)
class NormedMLP:
    """Dropout, linear, PReLU and ``norm`` (none, layer, batch), twice: ``hidden`` and then ``width`` wide."""

    hidden: int = 2048
    width: int = 1024
    dropout: float = 0.4
    norm: str = "layer"

    takes_sparse: ClassVar[bool] = True
    recordable: ClassVar[bool] = True
    sees_edges: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("hidden", "width"):
            check_whole(name, getattr(self, name), at_least=1, at_most=2**16)
        check_range("dropout", self.dropout, at_least=0, below=1)
        check_choice("norm", self.norm, NORMS)

    def build(self, num_features: int, generator: torch.Generator) -> NormedEncoder:
        return NormedEncoder(self, num_features, generator)

    def memory(self, nodes: int, edges: int) -> int:
        """Bytes of two passes in a step, besides features and parameters."""
        return 4 * nodes * (16 * self.hidden + 12 * self.width)

    def parameter_bytes(self, num_features: int) -> int:
        return 4 * self.hidden * (num_features + self.width)


class NormedEncoder(nn.Module):
    def __init__(self, settings: NormedMLP, num_features: int, generator: torch.Generator) -> None:
        super().__init__()
        self.width = settings.width
        self.layers = Branch((num_features,), settings.hidden, settings.width, settings.dropout, settings.norm, generator)

    def forward(self, x: Features, view: View, generator: torch.Generator | None = None) -> Tensor:
        if view.feature_mask is not None:
            x = (x.to_dense() if isinstance(x, SparseMatrix) else x) * view.feature_mask
        encoded: Tensor = self.layers([x], generator)
        return encoded

    def in_blocks(self, x: Features, adjacency: SparseMatrix, size: int) -> Tensor:
        """``self(x, View(adjacency, None))``, ``size`` nodes at a time."""
        output = self.layers.bias.new_empty(x.shape[0], self.width)
        for first in range(0, x.shape[0], size):
            last = min(first + size, x.shape[0])
            rows = x.row_slice(first, last) if isinstance(x, SparseMatrix) else x[first:last]
            output[first:last] = self.layers([rows])
        return output
