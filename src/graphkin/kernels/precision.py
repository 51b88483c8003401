"""In which precision embeddings are multiplied. Sums, logarithms and gradients are float32 in any case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

PRECISIONS = ("auto", "float32", "tf32", "bf16")


EXACT_UP_TO = 4096
"""nodes up to which a GPU's float32 products cost little"""


def resolved(precision: str, implementation: str, nodes: int) -> str:
    """ "auto" is bf16 for the fused kernels on more nodes than ``EXACT_UP_TO``, and float32 otherwise."""
    if precision != "auto":
        return precision
    return "bf16" if implementation == "fused" and nodes > EXACT_UP_TO else "float32"


def product(a: Tensor, b: Tensor, precision: str) -> Tensor:
    """``a @ b``; with "bf16" of rounded operands, which tensor cores and recent CPUs multiply several times faster."""
    return (a.bfloat16() @ b.bfloat16()).to(a.dtype) if precision == "bf16" else a @ b


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """PyTorch's products of float32 matrices on NVIDIA GPUs in TF32, unless float32 is wanted."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision != "float32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
