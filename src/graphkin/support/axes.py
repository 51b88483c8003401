"""Principal axes of a matrix that is only ever multiplied with."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from graphkin.support.randomness import generator

EXACT_UP_TO = 512
"""columns of which all axes are found at once"""
EXTRA, ROUNDS = 32, 4
"""directions that are followed beside the wanted ones, and how often they are improved"""
TURNS = 15
"""rounds of varimax; on the paper's graphs more change little"""


def principal_axes(gram: Callable[[Tensor], Tensor], width: int, count: int, device: torch.device) -> Tensor:
    """The ``count`` leading eigenvectors [width, count] of MᵀM, the largest first; ``gram(v)`` is MᵀM v.

    Orthonormal whatever M is. From more than ``EXACT_UP_TO`` columns on, by subspace iteration from a fixed start.
    """
    if width <= max(EXACT_UP_TO, count + EXTRA):
        return _eigenvectors(gram(torch.eye(width, device=device)))[:, :count].contiguous()
    start = torch.randn(width, count + EXTRA, generator=generator(0, "axes"))
    basis: Tensor = torch.linalg.qr(start.to(device)).Q
    for _ in range(ROUNDS):
        basis = torch.linalg.qr(gram(basis)).Q
    return basis @ _eigenvectors(basis.T @ gram(basis))[:, :count]


def simple_axes(axes: Tensor) -> Tensor:
    """Axes [F, k] of the same space, orthonormal too, that each have few large entries: Kaiser's varimax.

    They maximise the variance of the squared entries. Each round replaces the turn by the orthogonal matrix nearest to the
    gradient.
    """
    turn = torch.eye(axes.size(1), dtype=torch.float64, device=axes.device)
    for _ in range(TURNS):
        turned = axes @ turn.to(axes.dtype)
        gradient = (axes.T @ (turned**3 - turned * turned.square().mean(0))).double()
        sizes, vectors = torch.linalg.eigh(gradient.T @ gradient)
        turn = gradient @ (vectors * sizes.clamp(min=float(sizes[-1]) * 1e-12 + 1e-300).rsqrt()) @ vectors.T
    nearest: Tensor = torch.linalg.qr(turn).Q
    return axes @ nearest.to(axes.dtype)


def _eigenvectors(matrix: Tensor) -> Tensor:
    """The largest first. In float64: LAPACK's float32 gives NaN for some matrices of low rank."""
    vectors: Tensor = torch.linalg.eigh(((matrix + matrix.T) / 2).double()).eigenvectors
    return vectors.flip(1).to(matrix.dtype)
