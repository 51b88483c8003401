"""From features and edges to representations: the GCN of GRACE and GCA, the MLP of Graph-MLP, the projector.

Every parameter is drawn from a generator that is passed in, and so is every random number of a forward pass.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphkin.errors import check_choice, check_range, check_whole
from graphkin.graphs.arrays import Features
from graphkin.models.neighbours import SampledView
from graphkin.models.views import View
from graphkin.support.randomness import chances, random_key
from graphkin.support.sparse import SparseMatrix

ACTIVATIONS = ("relu", "prelu", "rrelu")


@dataclass(frozen=True)
class GCN:
    """Graph convolutions: the first layers are 2·hidden wide, the last one hidden."""

    hidden: int = 256
    layers: int = 2
    activation: str = "relu"

    def __post_init__(self) -> None:
        check_whole("hidden", self.hidden, at_least=1, at_most=2**16)
        check_whole("layers", self.layers, at_least=1, at_most=64)
        check_choice("activation", self.activation, ACTIVATIONS)

    def build(self, num_features: int, generator: torch.Generator) -> GCNEncoder:
        return GCNEncoder(self, num_features, generator)


@dataclass(frozen=True)
class MLP:
    """Two layers with GELU, layer norm and dropout between them; it never sees an edge."""

    hidden: int = 256
    dropout: float = 0.6

    def __post_init__(self) -> None:
        check_whole("hidden", self.hidden, at_least=1, at_most=2**16)
        check_range("dropout", self.dropout, at_least=0, below=1)

    def build(self, num_features: int, generator: torch.Generator) -> MLPEncoder:
        return MLPEncoder(self, num_features, generator)


class GCNEncoder(nn.Module):
    def __init__(self, settings: GCN, num_features: int, generator: torch.Generator) -> None:
        super().__init__()
        widths = [num_features] + [2 * settings.hidden] * (settings.layers - 1) + [settings.hidden]
        pairs = itertools.pairwise(widths)
        self.weights = nn.ParameterList([glorot(inputs, outputs, generator) for inputs, outputs in pairs])
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(outputs, dtype=torch.float32)) for outputs in widths[1:]])
        self.activations = nn.ModuleList([_activation(settings.activation) for _ in self.weights])

    def forward(self, x: Features, view: View, generator: torch.Generator | None = None) -> Tensor:
        hidden: Tensor = x @ self._first(view.feature_mask)
        for layer, bias in enumerate(self.biases):
            if layer > 0:
                hidden = hidden @ self.weights[layer]
            hidden = self.activations[layer](view.adjacency @ hidden + bias, generator)
        return hidden

    def of_some_nodes(self, view: SampledView, generator: torch.Generator | None = None) -> Tensor:
        """The same for the nodes of a sampled view; neighbours are gathered before the first product, not after it."""
        received = view.inputs @ self._first(view.feature_mask)
        hidden: Tensor = self.activations[0](received + self.biases[0], generator, view.nodes[0])
        for layer, block in enumerate(view.blocks, start=1):
            received = block @ (hidden @ self.weights[layer])
            hidden = self.activations[layer](received + self.biases[layer], generator, view.nodes[layer])
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

    def _first(self, feature_mask: Tensor | None) -> Tensor:
        first: Tensor = self.weights[0]
        return first if feature_mask is None else feature_mask[:, None] * first


class MLPEncoder(nn.Module):
    def __init__(self, settings: MLP, num_features: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weights = nn.ParameterList(
            [glorot(num_features, settings.hidden, generator), glorot(settings.hidden, settings.hidden, generator)]
        )
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(settings.hidden, dtype=torch.float32)) for _ in self.weights])
        self.norm = nn.LayerNorm(settings.hidden, eps=1e-6, dtype=torch.float32)
        self.dropout = settings.dropout

    def forward(self, x: Features, generator: torch.Generator | None = None) -> Tensor:
        hidden: Tensor = self.norm(F.gelu(x @ self.weights[0] + self.biases[0]))
        if self.training:
            keep = torch.full_like(hidden, 1 - self.dropout)
            hidden = hidden * torch.bernoulli(keep, generator=generator) / (1 - self.dropout)
        output: Tensor = hidden @ self.weights[1] + self.biases[1]
        return output


class Projector(nn.Module):
    """The two-layer head behind the encoder that only training uses."""

    def __init__(self, width: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.inner = linear(width, hidden, generator)
        self.outer = linear(hidden, width, generator)

    def forward(self, hidden: Tensor) -> Tensor:
        projected: Tensor = self.outer(F.elu(self.inner(hidden)))
        return projected


class ReLU(nn.Module):
    def forward(self, x: Tensor, generator: torch.Generator | None = None, nodes: Tensor | None = None) -> Tensor:
        return x.relu()


class PReLU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor([0.25], dtype=torch.float32))

    def forward(self, x: Tensor, generator: torch.Generator | None = None, nodes: Tensor | None = None) -> Tensor:
        return F.prelu(x, self.slope)


class RReLU(nn.Module):
    """Negative inputs are scaled by a slope drawn anew for each while training, by the mean slope otherwise.

    With ``nodes``, the slopes of a row depend on its node and not on the other rows.
    """

    low, high = 1 / 8, 1 / 3

    def forward(self, x: Tensor, generator: torch.Generator | None = None, nodes: Tensor | None = None) -> Tensor:
        if not self.training:
            return F.leaky_relu(x, (self.low + self.high) / 2)
        if nodes is None or generator is None:
            slope = torch.empty_like(x).uniform_(self.low, self.high, generator=generator)
        else:
            chance = chances(random_key(generator), nodes[:, None], torch.arange(x.size(1), device=x.device))
            slope = (self.low + (self.high - self.low) * chance).to(x)
        return torch.where(x >= 0, x, x * slope)


def _activation(name: str) -> nn.Module:
    activations: dict[str, type[nn.Module]] = {"relu": ReLU, "prelu": PReLU, "rrelu": RReLU}
    return activations[name]()


def glorot(inputs: int, outputs: int, generator: torch.Generator) -> nn.Parameter:
    bound = math.sqrt(6 / (inputs + outputs))
    return nn.Parameter(torch.empty(inputs, outputs, dtype=torch.float32).uniform_(-bound, bound, generator=generator))


def linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    """``nn.Linear`` with its usual initialisation, drawn from ``generator`` and not from the global state."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs, dtype=torch.float32)
    bound = 1 / math.sqrt(inputs)
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer
