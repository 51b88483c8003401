"""A network on features alone, and PageRank diffusion of what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphkin.errors import check_choice, check_range, check_whole
from graphkin.graphs.arrays import Features
from graphkin.models.layers import NORMS, PReLU, dropped, linear, norm_of
from graphkin.models.views import View
from graphkin.support.components import register
from graphkin.support.sparse import SparseMatrix


@register("DiffusedMLP")
@dataclass(frozen=True)
class DiffusedMLP:
    r"""Two layers (``hidden``, ``width``) with ``dropout``, PReLU and a ``norm`` (none, layer, batch), then diffusion.

    .. math::
        h^{(0)} = z, \qquad h^{(k+1)} = (1 - α) \hat A h^{(k)} + α z, \qquad k < K

    α is ``restart`` and K is ``diffusion_steps``. Â is that of the view, in training too. With K = 0 it is the network alone.
    """

    hidden: int = 1024
    width: int = 512
    dropout: float = 0.5
    norm: str = "layer"
    restart: float = 0.2
    diffusion_steps: int = 8

    takes_sparse: ClassVar[bool] = True
    recordable: ClassVar[bool] = True
    sees_edges: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("hidden", "width"):
            check_whole(name, getattr(self, name), at_least=1, at_most=2**16)
        check_range("dropout", self.dropout, at_least=0, below=1)
        check_choice("norm", self.norm, NORMS)
        check_range("restart", self.restart, above=0, at_most=1)
        check_whole("diffusion_steps", self.diffusion_steps, at_least=0, at_most=1000)

    def build(self, num_features: int, generator: torch.Generator) -> DiffusedMLPEncoder:
        return DiffusedMLPEncoder(self, num_features, generator)

    def memory(self, nodes: int, edges: int) -> int:
        """Bytes of two views in a step, besides features and parameters; diffusion keeps nothing for the gradient."""
        return 70 * edges + 4 * nodes * (12 * self.hidden + 8 * self.width)

    def parameter_bytes(self, num_features: int) -> int:
        return 4 * self.hidden * (num_features + self.width)


class DiffusedMLPEncoder(nn.Module):
    def __init__(self, settings: DiffusedMLP, num_features: int, generator: torch.Generator) -> None:
        super().__init__()
        self.settings = settings
        first = linear(num_features, settings.hidden, generator)
        self.weight = nn.Parameter(first.weight.detach().T.contiguous())
        self.bias = first.bias
        self.activation, self.norm = PReLU(), norm_of(settings.norm, settings.hidden)
        self.second = linear(settings.hidden, settings.width, generator)

    def forward(self, x: Features, view: View, generator: torch.Generator | None = None) -> Tensor:
        return self.diffused(self.of_features(x, view, generator), view.adjacency)

    def of_features(self, x: Features, view: View, generator: torch.Generator | None = None) -> Tensor:
        """Before diffusion."""
        kept = dropped(x, self.settings.dropout if self.training else 0.0, generator)
        hidden = self.activation(kept @ view.masking(self.weight) + self.bias)
        output: Tensor = self.second(self.norm(hidden))
        return output

    def diffused(self, z: Tensor, adjacency: SparseMatrix) -> Tensor:
        h = z
        for _ in range(self.settings.diffusion_steps):
            h = torch.lerp(adjacency @ h, z, self.settings.restart)
        return h

    def in_blocks(self, x: Features, adjacency: SparseMatrix, size: int) -> Tensor:
        """``self(x, View(adjacency, None))``, the network on ``size`` nodes at a time."""
        whole = View(adjacency, None)
        z = self.bias.new_empty(x.shape[0], self.settings.width)
        for first in range(0, x.shape[0], size):
            last = min(first + size, x.shape[0])
            rows = x.row_slice(first, last) if isinstance(x, SparseMatrix) else x[first:last]
            z[first:last] = self.of_features(rows, whole)
        return self.diffused(z, adjacency)
