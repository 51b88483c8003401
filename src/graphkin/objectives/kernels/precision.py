"""In which precision matrices are multiplied. Sums of exponentials and logarithms are float32 in any case."""

from __future__ import annotations

import torch
from torch import Tensor

from graphkin.objectives.kernels.problem import Case
from graphkin.support.products import multiplies_bf16_fast

PRECISIONS = ("auto", "float32", "tf32", "bf16")
EXACT_UP_TO = 4096
"""nodes up to which a GPU's float32 products cost little"""
FEW_ROWS = 1024
"""rows of features in a step up to which float32 products cost little"""


def resolved(precision: str, implementation: str, case: Case) -> str:
    """What is computed with: "auto" is bf16 for the fused kernels on more nodes than ``EXACT_UP_TO``, and float32 otherwise.

    The reference knows float32 only, and TF32 is a mode of NVIDIA GPUs.
    """
    if precision == "auto":
        return "bf16" if implementation == "fused" and case.nodes > EXACT_UP_TO else "float32"
    on_gpu = case.device.type == "cuda" or implementation == "fused"
    unknown = implementation == "reference" or (precision == "tf32" and not on_gpu)
    return "float32" if unknown else precision


def of_encoder(precision: str, nodes: int) -> str:
    """That of the encoder's products beside ``precision`` in the objective: TF32 where that may be less than float32."""
    exact = nodes <= EXACT_UP_TO if precision == "auto" else precision == "float32"
    return "float32" if exact else "tf32"


def of_rows(precision: str, rows: int, device: torch.device) -> str:
    """What the objective of steps that take so many rows of features computes with.

    "auto" is TF32 on a GPU and bf16 on a CPU that multiplies it fast; float32 where there are few rows, or neither.
    """
    on_gpu = device.type == "cuda"
    if precision == "auto":
        fast = "tf32" if on_gpu else "bf16" if multiplies_bf16_fast(device) else "float32"
        return fast if rows > FEW_ROWS else "float32"
    return "float32" if precision == "tf32" and not on_gpu else precision


def encoder_of_rows(precision: str, rows: int, device: torch.device) -> str:
    """The same of their encoder, which multiplies in TF32 at least on a GPU."""
    found = of_rows(precision, rows, device)
    return "tf32" if device.type == "cuda" and found == "bf16" else found


def product(a: Tensor, b: Tensor, precision: str) -> Tensor:
    """``a @ b``; with "bf16" of rounded operands, and rounded itself, which recent CPUs multiply several times faster."""
    return (a.bfloat16() @ b.bfloat16()).float() if precision == "bf16" else a @ b


def operand(a: Tensor, precision: str) -> Tensor:
    """``a`` as :func:`product` takes it, for one that is multiplied several times."""
    return a.bfloat16() if precision == "bf16" else a
