"""In which precision matrices are multiplied. Sums of exponentials and logarithms are float32 in any case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from graphkin.objectives.kernels.problem import Case

PRECISIONS = ("auto", "float32", "tf32", "bf16")
EXACT_UP_TO = 4096
"""nodes up to which a GPU's float32 products cost little"""


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


def product(a: Tensor, b: Tensor, precision: str) -> Tensor:
    """``a @ b``; with "bf16" of rounded operands, and rounded itself, which recent CPUs multiply several times faster."""
    return (a.bfloat16() @ b.bfloat16()).to(a.dtype) if precision == "bf16" else a @ b


@contextmanager
def products_in(precision: str, device: torch.device) -> Iterator[None]:
    """PyTorch's products of float32 matrices on NVIDIA GPUs in TF32 where less than float32 is wanted, else as they are set."""
    if device.type != "cuda" or precision == "float32":
        yield
        return
    switch: Any = torch.backends.cuda.matmul
    name, on = ("fp32_precision", "tf32") if hasattr(switch, "fp32_precision") else ("allow_tf32", True)
    before = getattr(switch, name)
    setattr(switch, name, on)
    try:
        yield
    finally:
        setattr(switch, name, before)
