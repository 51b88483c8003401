"""How the fused kernels are cut: tiles of rows and columns, and splits of the columns."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from graphkin.objectives.kernels.fused.needs import PARTS_BYTES

KIB = 1024


class Chip(NamedTuple):
    """What of a GPU decides how the kernels are cut."""

    shared: int
    """bytes of shared memory that a program can have"""
    describes: bool = True
    """whether a copy engine brings tiles of tensors that were described before (compute capability 9.0)"""
    tensor_memory: bool = False
    """whether products are summed in a memory of 512 columns (compute capability 10.0)"""

    @property
    def is_hopper(self) -> bool:
        """One of those that the kernels were timed on."""
        return self.shared >= 227 * KIB and self.describes and not self.tensor_memory


HOPPER = Chip(227 * KIB)


@functools.cache
def chip_of(device: torch.device) -> Chip:
    if device.type != "cuda":
        return HOPPER
    found: Any = torch.cuda.get_device_properties(device)
    return Chip(found.shared_memory_per_block_optin, found.major >= 9, found.major in (10, 11))


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


def sums_tiles(width: int, precision: str, chip: Chip) -> Tiles:
    """The fastest of those that fit in an H200's shared memory (benchmarks/tune_fused.py).

    Other GPUs have what fits there and spills few registers (benchmarks/compile_ahead.py); none of them has been timed.
    """
    large = chip.shared >= HOPPER.shared
    if precision != "bf16":
        return Tiles(64, 32, 4, 2) if large else Tiles(32, 16, 4, 2)
    if large:
        return Tiles(256, 64, 8, 2) if width <= 128 else Tiles(128, 64, 8, 2)
    return Tiles(128, 64, 8, 2) if width <= 128 or chip.shared >= 163 * KIB else Tiles(64, 32, 8, 2)


def gradient_tiles(width: int, precision: str, chip: Chip) -> Tiles:
    if precision != "bf16":
        return Tiles(64, 32, 4, 2) if chip.is_hopper else Tiles(16, 16, 4, 2)
    if chip.is_hopper:
        return Tiles(128, 64, 8, 3) if width <= 128 else Tiles(128, 32, 8, 3)
    if chip.tensor_memory:
        return Tiles(128, 32, 8, 2) if width <= 128 else Tiles(64, 32, 8, 3)
    return Tiles(32, 32, 4, 2) if width <= 128 else Tiles(32, 32, 8, 2)


def kinship_gradient_tiles(width: int, precision: str, chip: Chip) -> Tiles:
    """Kinship's second pass reads no similarity, which leaves room for larger tiles."""
    if precision != "bf16" or chip.is_hopper:
        return gradient_tiles(width, precision, chip)
    return gradient_tiles(width, precision, HOPPER) if chip.tensor_memory else Tiles(128, 32, 8, 2)


def in_tiles(tensor: Tensor, chip: Chip, *tile: int) -> TensorDescriptor | Tensor:
    """A tensor that is read in tiles, with zeros beyond its end; where the chip describes none, the kernel does."""
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), list(tile)) if chip.describes else tensor


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
