"""Embeddings as the tensor cores take them."""

from __future__ import annotations

import math

import torch
import triton
from torch import Tensor

LOG2_E = math.log2(math.e)
INPUT_PRECISION = {"float32": "tf32x3", "tf32": "tf32", "bf16": "tf32"}
"""how tensor cores multiply float32 operands; three TF32 products have the accuracy of float32"""


def operands(u: Tensor, v: Tensor, precision: str) -> Tensor:
    """Both views [2, N, WIDTH], in the precision wanted and a power of two wide."""
    width = max(triton.next_power_of_2(u.size(1)), 16)
    # Triton's interpreter cannot multiply bfloat16: there the rounded numbers are float32.
    rows = u.new_zeros(2, len(u), width, dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
    rows[0, :, : u.size(1)] = u
    rows[1, :, : u.size(1)] = v
    return rows if u.is_cuda else rows.float()
