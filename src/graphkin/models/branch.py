"""A network on features alone: dropout, linear, PReLU and norm, twice."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from graphkin.graphs.arrays import Features
from graphkin.models.layers import dropped, exact, leaky, linear, norm_of
from graphkin.models.noise import Noise
from graphkin.support.products import times


class Branch(nn.Module):
    """Its first layer takes several kinds of features of a node, each with weights of its own."""

    def __init__(
        self, inputs: Sequence[int], hidden: int, outputs: int, dropout: float, norm: str, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.dropout = dropout
        first = linear(sum(inputs), hidden, generator)
        self.first = nn.ParameterList(
            [nn.Parameter(part.T.contiguous()) for part in first.weight.detach().split(list(inputs), dim=1)]
        )
        self.bias = first.bias
        self.second = linear(hidden, outputs, generator)
        self.slopes = nn.Parameter(torch.full((2,), 0.25, dtype=torch.float32))
        self.norms = nn.ModuleList([norm_of(norm, width) for width in (hidden, outputs)])

    def forward(self, parts: Sequence[Features], noise: Noise | None = None) -> Tensor:
        rate = self.dropout if self.training else 0.0
        hidden: Tensor = self.bias
        for part, weight in zip(parts, self.first, strict=True):
            hidden = hidden + times(dropped(exact(part), rate, noise), weight)
        hidden = self.norms[0](leaky(hidden, self.slopes[:1]))
        output: Tensor = self.norms[1](leaky(self.second(dropped(hidden, rate, noise)), self.slopes[1:]))
        return output
