"""Kinship's loss and gradient: the logarithms from two passes over all pairs, the positives from products with p."""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from graphkin.objectives.kernels.fused import tiles as cut
from graphkin.objectives.kernels.fused.kinship_programs import gradients_kernel, sums_kernel
from graphkin.objectives.kernels.fused.operands import INPUT_PRECISION, LOG2_E, operands
from graphkin.objectives.kernels.fused.tiles import Splits, Tiles, in_tiles
from graphkin.objectives.kernels.kinship import Form, Shares, in_blocks


def fused_loss_and_gradient(u: Tensor, v: Tensor, shares: Shares | None, form: Form) -> tuple[Tensor, Tensor]:
    """The same as the blocked form's, for candidates of the other view."""
    z, sides = operands(u, v, form.precision), 2 if form.symmetric else 1
    scale = 1 / (sides * len(u))
    sums = sums_of(z, sides, form)
    inverses = sums.new_zeros(2, len(u))
    inverses[:sides] = 1 / sums
    gradient = gradients_of(z, inverses, scale / form.tau, form)[..., : u.size(1)]
    attracted = _attract(torch.stack([u, v]), shares, sides, gradient, scale / form.tau)
    return (sums.log() + 1 / form.tau).sum() * scale - attracted, gradient


def sums_of(z: Tensor, sides: int, form: Form) -> Tensor:
    """Σ_j e_ij of the anchors on each side [sides, N]."""
    tiles = cut.sums_tiles(z.size(2), form.precision, cut.chip_of(z.device))
    splits = _splits(z, tiles, sides)
    parts = z.new_empty(splits.parts, sides, z.size(1), dtype=torch.float32)
    sums_kernel[_grid(z, tiles, splits, sides)](
        parts, *_in_tiles(z, tiles), z.size(1), splits.columns, LOG2_E / form.tau, **_constants(z, tiles, form)
    )
    return parts.sum(dim=0)


def gradients_of(z: Tensor, inverses: Tensor, factor: float, form: Form) -> Tensor:
    """Of Σ log sum · factor · τ in both views [2, N, WIDTH]."""
    tiles = cut.kinship_gradient_tiles(z.size(2), form.precision, cut.chip_of(z.device))
    splits = _splits(z, tiles, 2)
    parts = inverses.new_empty(splits.parts, *z.shape)
    gradients_kernel[_grid(z, tiles, splits, 2)](
        parts,
        *_in_tiles(z, tiles),
        inverses,
        z.size(1),
        splits.columns,
        LOG2_E / form.tau,
        factor,
        **_constants(z, tiles, form),
    )
    return parts[0] if splits.parts == 1 else parts.sum(dim=0)


def _attract(views: Tensor, shares: Shares | None, sides: int, gradient: Tensor, factor: float) -> Tensor:
    """Σ_ij p_ij ⟨z_i,z_j⟩ · factor over the sides, whose gradient is taken off."""
    if shares is None:
        gradient.sub_(views.flip(0), alpha=factor * sides)
        return (views[0] * views[1]).sum() * (factor * sides)
    total = views.new_zeros(())
    for nodes, rows in in_blocks(views.size(1), views.device):
        p = shares(nodes)
        for side in range(sides):
            mine, pooled = views[side, rows], p @ views[1 - side]
            total += (mine * pooled).sum()
            gradient[side, rows] -= pooled * factor
            gradient[1 - side].addmm_(p.T, mine, alpha=-factor)
    return total * factor


def _splits(z: Tensor, tiles: Tiles, sides: int) -> Splits:
    return cut.splits_of(z.size(1), z.size(1), z.size(2), tiles, cut.processors(z.device), sides)


def _grid(z: Tensor, tiles: Tiles, splits: Splits, sides: int) -> tuple[int, int, int]:
    return triton.cdiv(z.size(1), tiles.rows), splits.parts, sides


def _in_tiles(z: Tensor, tiles: Tiles) -> tuple[TensorDescriptor | Tensor, TensorDescriptor | Tensor]:
    chip, width = cut.chip_of(z.device), z.size(2)
    return in_tiles(z, chip, 1, tiles.rows, width), in_tiles(z, chip, 1, tiles.columns, width)


def _constants(z: Tensor, tiles: Tiles, form: Form) -> dict[str, Any]:
    precision, described = INPUT_PRECISION[form.precision], cut.chip_of(z.device).describes
    return {"WIDTH": z.size(2), "PRECISION": precision, "DESCRIBED": described, **tiles.constants}
