"""How the fused kernels are cut: tiles of rows and columns, and splits of the columns."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from graphkin.objectives.kernels.fused.needs import PARTS_BYTES


class Tiles(NamedTuple):
    """Rows and columns of a tile, warps of a program, loads in flight."""

    rows: int
    columns: int
    warps: int
    stages: int

    @property
    def constants(self) -> dict[str, int]:
        """As a kernel takes them."""
        return {"ROWS": self.rows, "COLUMNS": self.columns, "STAGES": self.stages, "num_warps": self.warps}


def sums_tiles(width: int, precision: str) -> Tiles:
    """The fastest of those that fit in an H200's shared memory (benchmarks/tune_fused.py)."""
    if precision != "bf16":
        return Tiles(64, 32, 4, 2)
    return Tiles(256, 64, 8, 2) if width <= 128 else Tiles(128, 64, 8, 2)


def gradient_tiles(width: int, precision: str) -> Tiles:
    if precision != "bf16":
        return Tiles(64, 32, 4, 2)
    return Tiles(128, 64, 8, 3) if width <= 128 else Tiles(128, 32, 8, 3)


def in_tiles(tensor: Tensor, *tile: int) -> TensorDescriptor:
    """A tensor that the copy engine brings in tiles, with zeros beyond its end."""
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), list(tile))


class Splits(NamedTuple):
    """Into how many parts the columns go, and the columns of a part."""

    parts: int
    columns: int


@functools.lru_cache
def splits_of(rows: int, columns: int, width: int, tiles: Tiles, processors: int, views: int = 2) -> Splits:
    """So many that the programs, for rows of so many views, fill the device in whole waves."""
    programs = views * triton.cdiv(rows, tiles.rows)
    most = min(64, columns // (8 * tiles.columns), PARTS_BYTES // (8 * rows * width))

    def idle(splits: int) -> float:
        waves: int = triton.cdiv(programs * splits, processors)
        return float(waves * processors / (programs * splits) + 0.01 * splits)

    splits = min(range(1, max(most, 1) + 1), key=idle)
    a_split = triton.cdiv(triton.cdiv(columns, splits), tiles.columns) * tiles.columns
    return Splits(triton.cdiv(columns, a_split), a_split)


@functools.cache
def processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
