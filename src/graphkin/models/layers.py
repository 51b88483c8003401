"""What encoders and heads are made of. Every parameter is drawn from a generator that is passed in."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphkin.graphs.arrays import Features
from graphkin.models.noise import Noise, kept_entries
from graphkin.support.products import affine
from graphkin.support.sparse import SparseMatrix

ACTIVATIONS = ("relu", "prelu", "rrelu")
NORMS = ("none", "layer", "batch")


class ReLU(nn.Module):
    def forward(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return x.relu()


class PReLU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor([0.25], dtype=torch.float32))

    def forward(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return F.prelu(x, self.slope)


class RReLU(nn.Module):
    """Negative inputs are scaled by a slope drawn anew for each while training, by the mean slope otherwise."""

    low, high = 1 / 8, 1 / 3

    def forward(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        if not self.training:
            return F.leaky_relu(x, (self.low + self.high) / 2)
        slope = torch.empty_like(x).uniform_(self.low, self.high, generator=generator)
        return torch.where(x >= 0, x, x * slope)


def activation(name: str) -> nn.Module:
    activations: dict[str, type[nn.Module]] = {"relu": ReLU, "prelu": PReLU, "rrelu": RReLU}
    return activations[name]()


def norm_of(name: str, width: int) -> nn.Module:
    """A norm of :data:`NORMS`, in float32 whatever the default is."""
    if name == "none":
        return nn.Identity()
    return nn.LayerNorm(width, dtype=torch.float32) if name == "layer" else nn.BatchNorm1d(width, dtype=torch.float32)


def dropped(x: Features, rate: float, noise: Noise | None = None) -> Features:
    """Entries are zero with probability ``rate``, and the others grow by 1 / (1 − rate); of sparse features, those stored."""
    if rate == 0:
        return x
    values = x.values if isinstance(x, SparseMatrix) else x
    remaining: Tensor = _Masked.apply(values, kept_entries(x, rate, noise), 1 / (1 - rate))  # type: ignore[no-untyped-call]
    return x.with_values(remaining) if isinstance(x, SparseMatrix) else remaining


class _Masked(torch.autograd.Function):
    """``x * kept * factor`` in one pass less, forward and backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: Tensor, factor: float) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.factor = factor
        return (x * kept).mul_(factor)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (kept,) = ctx.saved_tensors
        return (grads[0] * kept).mul_(ctx.factor), None, None


def leaky(x: Tensor, slope: Tensor) -> Tensor:
    """``F.prelu(x, slope)`` with one slope, whose gradient PyTorch computes slowly on a CPU."""
    if x.device.type != "cpu":
        return F.prelu(x, slope)
    found: Tensor = _Leaky.apply(x, slope)  # type: ignore[no-untyped-call]
    return found


class _Leaky(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(x, slope)
        return F.prelu(x, slope)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        x, slope = ctx.saved_tensors
        grad = grads[0].contiguous()
        to_x = torch.ops.aten.leaky_relu_backward(grad, x, slope.item(), False)
        return to_x, (grad.flatten() @ x.clamp(max=0).flatten()).reshape(1)


def exact(x: Features) -> Features:
    """Features that are kept in bf16, in float32."""
    return x.float() if isinstance(x, Tensor) and x.dtype == torch.bfloat16 else x


class Projector(nn.Module):
    """The two-layer head behind the encoder that only training uses."""

    def __init__(self, width: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.inner = linear(width, hidden, generator)
        self.outer = linear(hidden, width, generator)

    def forward(self, hidden: Tensor) -> Tensor:
        projected: Tensor = self.outer(F.elu(self.inner(hidden)))
        return projected


def glorot(inputs: int, outputs: int, generator: torch.Generator) -> nn.Parameter:
    bound = math.sqrt(6 / (inputs + outputs))
    return nn.Parameter(torch.empty(inputs, outputs, dtype=torch.float32).uniform_(-bound, bound, generator=generator))


class Linear(nn.Linear):
    """``nn.Linear`` in the precision that is set around it. Its parameters have no values yet."""

    def reset_parameters(self) -> None:
        """Nothing, so that the global random state stays as it is."""

    def forward(self, x: Tensor) -> Tensor:
        return affine(x, self.weight, self.bias)


def linear(inputs: int, outputs: int, generator: torch.Generator) -> Linear:
    """With the usual initialisation, drawn from ``generator`` and not from the global state."""
    layer = Linear(inputs, outputs, dtype=torch.float32)
    bound = 1 / math.sqrt(inputs)
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        layer.bias.uniform_(-bound, bound, generator=generator)
    return layer
