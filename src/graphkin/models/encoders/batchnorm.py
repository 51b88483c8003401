"""Graph convolutions with batch norm, as BGRL and its successors use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphkin.errors import check_range, check_whole
from graphkin.models.encoders.gcn import GCNEncoder, gcn_widths
from graphkin.support.components import register


@register("BatchNormGCN")
@dataclass(frozen=True)
class BatchNormGCN:
    """Graph convolutions, each followed by batch norm and PReLU; the first layers are 2·hidden wide, the last one hidden.

    ``momentum`` is the share of a step in the running mean and variance that embedding uses.
    """

    hidden: int = 256
    layers: int = 2
    momentum: float = 0.99

    takes_sparse: ClassVar[bool] = True
    recordable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole("hidden", self.hidden, at_least=1, at_most=2**16)
        check_whole("layers", self.layers, at_least=1, at_most=64)
        check_range("momentum", self.momentum, above=0, at_most=1)

    @property
    def width(self) -> int:
        return self.hidden

    def build(self, num_features: int, generator: torch.Generator) -> GCNEncoder:
        widths = gcn_widths(num_features, self.hidden, self.layers)
        return GCNEncoder(widths, (NormPReLU(width, self.momentum) for width in widths[1:]), generator)

    def memory(self, nodes: int, edges: int) -> int:
        """Bytes of two views in a step, besides features and parameters."""
        wide = self.hidden * (2 if self.layers > 1 else 1)
        return 70 * edges + 4 * nodes * 6 * (wide * (self.layers - 1) + self.hidden)


class NormPReLU(nn.Module):
    def __init__(self, width: int, momentum: float) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width, momentum=momentum, dtype=torch.float32)
        self.slope = nn.Parameter(torch.tensor([0.25], dtype=torch.float32))

    def forward(self, x: Tensor, generator: torch.Generator | None = None, nodes: Tensor | None = None) -> Tensor:
        return F.prelu(self.norm(x), self.slope)
