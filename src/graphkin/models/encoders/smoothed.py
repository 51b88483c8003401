"""Graph convolutions whose embeddings are smoothed once more: the encoder of SGRL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from graphkin.errors import check_whole
from graphkin.graphs.arrays import Features
from graphkin.models.encoders.gcn import GCN, GCNEncoder, gcn_widths
from graphkin.models.layers import activation
from graphkin.models.views import View
from graphkin.support.components import register
from graphkin.support.sparse import SparseMatrix


@register("SmoothedGCN")
@dataclass(frozen=True)
class SmoothedGCN(GCN):
    r"""A GCN whose embeddings are :math:`h + \hat A^k h` of what it gives in training; k is ``after_hops``, and 0 leaves h."""

    hidden: int = 1024
    layers: int = 1
    activation: str = "prelu"
    after_hops: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("after_hops", self.after_hops, at_least=0, at_most=1000)

    def build(self, num_features: int, generator: torch.Generator) -> SmoothedEncoder:
        widths = gcn_widths(num_features, self.hidden, self.layers)
        activations = (activation(self.activation) for _ in range(self.layers))
        return SmoothedEncoder(widths, activations, generator, after_hops=self.after_hops)


class SmoothedEncoder(GCNEncoder):
    def __init__(self, *args: Any, after_hops: int) -> None:
        super().__init__(*args)
        self.after_hops = after_hops

    def smoothed(self, hidden: Tensor, adjacency: SparseMatrix) -> Tensor:
        spread = hidden
        for _ in range(self.after_hops):
            spread = adjacency @ spread
        return hidden + spread if self.after_hops else hidden

    def embed(self, x: Features, view: View) -> Tensor:
        return self.smoothed(self(x, view), view.adjacency)
