"""The encoder of MVGRL: one layer that sees the edges, and one that sees their PageRank diffusion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from graphkin.errors import check_choice, check_range, check_whole
from graphkin.graphs.arrays import Features
from graphkin.graphs.diffusion import pagerank_diffusion
from graphkin.models.layers import ACTIVATIONS, activation, glorot
from graphkin.models.views import View
from graphkin.support.components import register
from graphkin.support.sparse import SparseMatrix


@register("TwoSights")
@dataclass(frozen=True)
class TwoSights:
    r"""Two layers of their own, side by side in training and added up in embeddings.

    .. math:: h^1 = σ(\hat A x W_1 + b_1), \qquad h^2 = σ(S x W_2 + b_2), \qquad S = α (I - (1 - α) \hat A)^{-1}

    α is ``restart``. S is applied to x W₂ by ``graphs.diffusion``, to 1e-4, and never stored.
    """

    hidden: int = 512
    restart: float = 0.2
    activation: str = "prelu"

    takes_sparse: ClassVar[bool] = True
    recordable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole("hidden", self.hidden, at_least=1, at_most=2**16)
        check_range("restart", self.restart, above=0, at_most=1)
        check_choice("activation", self.activation, ACTIVATIONS)

    @property
    def width(self) -> int:
        return self.hidden

    def trained_widths(self) -> tuple[int, ...]:
        return (self.hidden, self.hidden)

    def build(self, num_features: int, generator: torch.Generator) -> TwoSightsEncoder:
        return TwoSightsEncoder(self, num_features, generator)

    def memory(self, nodes: int, edges: int) -> int:
        """Bytes of two passes in a step, besides features and parameters; diffusion keeps nothing for the gradient."""
        return 70 * edges + 4 * nodes * self.hidden * 20

    def parameter_bytes(self, num_features: int) -> int:
        return 2 * 4 * self.hidden * num_features


class TwoSightsEncoder(nn.Module):
    def __init__(self, settings: TwoSights, num_features: int, generator: torch.Generator) -> None:
        super().__init__()
        self.restart = settings.restart
        self.weights = nn.ParameterList([glorot(num_features, settings.hidden, generator) for _ in range(2)])
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(settings.hidden, dtype=torch.float32)) for _ in range(2)])
        self.activations = nn.ModuleList([activation(settings.activation) for _ in range(2)])

    def forward(self, x: Features, view: View, generator: torch.Generator | None = None) -> Tensor:
        return torch.cat(self._both(x, view, generator), dim=1)

    def embed(self, x: Features, view: View) -> Tensor:
        near, far = self._both(x, view)
        return near + far

    def _both(self, x: Features, view: View, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        near, far = (x @ view.masking(weight) for weight in self.weights)
        near, far = view.adjacency @ near, self._diffused(far, view.adjacency)
        return (
            self.activations[0](near + self.biases[0], generator),
            self.activations[1](far + self.biases[1], generator),
        )

    def _diffused(self, z: Tensor, adjacency: SparseMatrix) -> Tensor:
        found: Tensor = _Diffusion.apply(z, adjacency, self.restart)  # type: ignore[no-untyped-call]
        return found


class _Diffusion(torch.autograd.Function):
    """A polynomial in Â, so that its gradient is the same one in the transpose, and no step has to be remembered."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, adjacency: SparseMatrix, restart: float) -> Tensor:
        ctx.adjacency, ctx.restart = adjacency, restart
        return pagerank_diffusion(adjacency, z, restart)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return pagerank_diffusion(ctx.adjacency.T, grads[0], ctx.restart), None, None
