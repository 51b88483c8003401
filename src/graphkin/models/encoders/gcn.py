"""The encoder of GRACE and GCA: graph convolutions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphkin.errors import check_choice, check_whole
from graphkin.graphs.arrays import Features
from graphkin.models.layers import ACTIVATIONS, activation, glorot
from graphkin.models.views import View
from graphkin.support.components import register
from graphkin.support.sparse import SparseMatrix


@register("GCN")
@dataclass(frozen=True)
class GCN:
    """Graph convolutions: the first layers are 2·hidden wide, the last one hidden."""

    hidden: int = 256
    layers: int = 2
    activation: str = "relu"

    takes_sparse: ClassVar[bool] = True
    recordable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole("hidden", self.hidden, at_least=1, at_most=2**16)
        check_whole("layers", self.layers, at_least=1, at_most=64)
        check_choice("activation", self.activation, ACTIVATIONS)

    @property
    def width(self) -> int:
        return self.hidden

    def build(self, num_features: int, generator: torch.Generator) -> GCNEncoder:
        widths = gcn_widths(num_features, self.hidden, self.layers)
        return GCNEncoder(widths, (activation(self.activation) for _ in range(self.layers)), generator)

    def memory(self, nodes: int, edges: int) -> int:
        """Bytes of two views in a step, besides features and parameters."""
        wide = self.hidden * (2 if self.layers > 1 else 1)
        return 70 * edges + 4 * nodes * (4 * wide * (self.layers - 1) + 3 * self.hidden)


def gcn_widths(num_features: int, hidden: int, layers: int) -> list[int]:
    return [num_features] + [2 * hidden] * (layers - 1) + [hidden]


class GCNEncoder(nn.Module):
    """Layers of Â x W + b, each followed by an activation that is called with a generator."""

    def __init__(self, widths: Sequence[int], activations: Iterable[nn.Module], generator: torch.Generator) -> None:
        super().__init__()
        pairs = itertools.pairwise(widths)
        self.weights = nn.ParameterList([glorot(inputs, outputs, generator) for inputs, outputs in pairs])
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(outputs, dtype=torch.float32)) for outputs in widths[1:]])
        self.activations = nn.ModuleList(activations)

    def forward(self, x: Features, view: View, generator: torch.Generator | None = None) -> Tensor:
        hidden: Tensor = x @ view.masking(self.weights[0])
        for layer, bias in enumerate(self.biases):
            if layer > 0:
                hidden = hidden @ self.weights[layer]
            hidden = self.activations[layer](view.adjacency @ hidden + bias, generator)
        return hidden

    def in_blocks(self, x: Features, adjacency: SparseMatrix, size: int) -> Tensor:
        """``self(x, View(adjacency, None))``, layer by layer, ``size`` nodes at a time.

        What a layer gives is multiplied by the next layer's weights at once, which makes it narrower.
        """
        nodes = x.shape[0]
        below = torch.empty(0)
        for layer, bias in enumerate(self.biases):
            then = self.weights[layer + 1] if layer + 1 < len(self.weights) else None
            output = bias.new_empty(nodes, bias.numel() if then is None else then.size(1))
            for first in range(0, nodes, size):
                rows = adjacency.row_slice(first, min(first + size, nodes))
                received = rows.times(x) @ self.weights[0] if layer == 0 else rows.times(below)
                hidden = self.activations[layer](received + bias)
                output[first : first + size] = hidden if then is None else hidden @ then
            below = output
        return below
