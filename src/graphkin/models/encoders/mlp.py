"""The encoder of Graph-MLP: features alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphkin.errors import check_range, check_whole
from graphkin.graphs.arrays import Features
from graphkin.models.layers import glorot
from graphkin.models.views import View
from graphkin.support.components import register


@register("MLP")
@dataclass(frozen=True)
class MLP:
    """Two layers with GELU, layer norm and dropout between them; it never sees an edge."""

    hidden: int = 256
    dropout: float = 0.6

    takes_sparse: ClassVar[bool] = True
    recordable: ClassVar[bool] = True
    sees_edges: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_whole("hidden", self.hidden, at_least=1, at_most=2**16)
        check_range("dropout", self.dropout, at_least=0, below=1)

    @property
    def width(self) -> int:
        return self.hidden

    def build(self, num_features: int, generator: torch.Generator) -> MLPEncoder:
        return MLPEncoder(self, num_features, generator)

    def memory(self, nodes: int, edges: int) -> int:
        """Bytes of two views in a step, besides features and parameters."""
        return 16 * 4 * nodes * self.hidden


class MLPEncoder(nn.Module):
    def __init__(self, settings: MLP, num_features: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weights = nn.ParameterList(
            [glorot(num_features, settings.hidden, generator), glorot(settings.hidden, settings.hidden, generator)]
        )
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(settings.hidden, dtype=torch.float32)) for _ in self.weights])
        self.norm = nn.LayerNorm(settings.hidden, eps=1e-6, dtype=torch.float32)
        self.dropout = settings.dropout

    def forward(self, x: Features, view: View, generator: torch.Generator | None = None) -> Tensor:
        hidden: Tensor = self.norm(F.gelu(x @ view.masking(self.weights[0]) + self.biases[0]))
        if self.training:
            keep = torch.full_like(hidden, 1 - self.dropout)
            hidden = hidden * torch.bernoulli(keep, generator=generator) / (1 - self.dropout)
        output: Tensor = hidden @ self.weights[1] + self.biases[1]
        return output
