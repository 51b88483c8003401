"""Linear layers, each followed by a number of hops over the graph: the encoders of CCA-SSG and MA-GCL."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphkin.errors import check_choice, check_range, check_whole
from graphkin.graphs.arrays import Features
from graphkin.models.layers import ACTIVATIONS, NORMS, activation, glorot, norm_of
from graphkin.models.views import View
from graphkin.support.components import register
from graphkin.support.sparse import SparseMatrix


@register("HopGCN")
@dataclass(frozen=True)
class HopGCN:
    r"""Layers of the width ``hidden``, the last of which is linear.

    .. math:: h^{(l+1)} = σ(F^k h^{(l)} W_l + b_l), \qquad F = λ I + (1 - λ) \hat A

    k is ``hops`` and λ is ``lazy``: with one hop and λ = 0 it is a GCN, without hops it is a network on features alone. Where a
    view has ``most_hops``, every layer draws its own k from 0 to that number in training. ``norm`` (none, layer, batch) stands
    before the activation of all layers but the last.
    """

    hidden: int = 512
    layers: int = 2
    activation: str = "relu"
    hops: int = 1
    lazy: float = 0.0
    norm: str = "none"

    takes_sparse: ClassVar[bool] = True
    recordable: ClassVar[bool] = True
    counts_hops: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole("hidden", self.hidden, at_least=1, at_most=2**16)
        check_whole("layers", self.layers, at_least=1, at_most=64)
        check_choice("activation", self.activation, ACTIVATIONS)
        check_whole("hops", self.hops, at_least=0, at_most=1000)
        check_range("lazy", self.lazy, at_least=0, below=1)
        check_choice("norm", self.norm, NORMS)

    @property
    def width(self) -> int:
        return self.hidden

    def build(self, num_features: int, generator: torch.Generator) -> HopEncoder:
        return HopEncoder(self, num_features, generator)

    def memory(self, nodes: int, edges: int) -> int:
        """Bytes of two views in a step, besides features and parameters; hops keep nothing for the gradient."""
        return 70 * edges + 4 * nodes * self.hidden * 8 * self.layers

    def parameter_bytes(self, num_features: int) -> int:
        return 4 * self.hidden * (num_features + (self.layers - 1) * self.hidden)


class HopEncoder(nn.Module):
    def __init__(self, settings: HopGCN, num_features: int, generator: torch.Generator) -> None:
        super().__init__()
        self.settings = settings
        widths = [num_features] + [settings.hidden] * settings.layers
        self.weights = nn.ParameterList([glorot(inputs, outputs, generator) for inputs, outputs in itertools.pairwise(widths)])
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(outputs, dtype=torch.float32)) for outputs in widths[1:]])
        self.norms = nn.ModuleList([norm_of(settings.norm, settings.hidden) for _ in range(settings.layers - 1)])
        self.activations = nn.ModuleList([activation(settings.activation) for _ in range(settings.layers - 1)])

    def forward(self, x: Features, view: View, generator: torch.Generator | None = None) -> Tensor:
        hidden: Tensor = x @ view.masking(self.weights[0])
        return self._layers(hidden, view.adjacency, self._hops(view, generator), generator)

    def _layers(
        self, hidden: Tensor, adjacency: SparseMatrix, hops: list[int], generator: torch.Generator | None = None
    ) -> Tensor:
        """All that follows the product of features and the first weights."""
        for layer, count in enumerate(hops):
            if layer > 0:
                hidden = self.activations[layer - 1](self.norms[layer - 1](hidden), generator) @ self.weights[layer]
            for _ in range(count):
                hidden = torch.lerp(adjacency @ hidden, hidden, self.settings.lazy)
            hidden = hidden + self.biases[layer]
        return hidden

    def _hops(self, view: View, generator: torch.Generator | None) -> list[int]:
        """The number of hops in every layer."""
        layers = self.settings.layers
        if view.most_hops is None or not self.training:
            return [self.settings.hops] * layers
        device = self.weights[0].device if generator is None else generator.device
        drawn: list[int] = torch.randint(view.most_hops + 1, (layers,), generator=generator, device=device).tolist()
        return drawn

    def in_blocks(self, x: Features, adjacency: SparseMatrix, size: int) -> Tensor:
        """``self(x, View(adjacency, None))``; the features are multiplied ``size`` nodes at a time."""
        hidden = self.biases[0].new_empty(x.shape[0], self.settings.hidden)
        for first in range(0, x.shape[0], size):
            last = min(first + size, x.shape[0])
            rows = x.row_slice(first, last) if isinstance(x, SparseMatrix) else x[first:last]
            hidden[first:last] = rows @ self.weights[0]
        return self._layers(hidden, adjacency, [self.settings.hops] * self.settings.layers)
