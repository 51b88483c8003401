"""Products of float32 matrices, in the precision that is set around them.

GPUs have TF32 for it. CPUs with instructions for bf16 multiply rounded matrices faster (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from graphkin.support.sparse import SparseMatrix

_rounded: ContextVar[bool] = ContextVar("_rounded", default=False)


def multiplies_bf16_fast(device: torch.device) -> bool:
    """Whether a CPU has instructions for it; PyTorch tells x86 processors only."""
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return device.type == "cpu" and any(getattr(torch.cpu, name, bool)() for name in names)


@contextmanager
def products_in(precision: str, device: torch.device) -> Iterator[None]:
    """Where less than float32 is wanted: PyTorch's own products in TF32 on NVIDIA GPUs, :func:`times` in bf16 on CPUs."""
    if precision == "float32" or (device.type != "cuda" and precision != "bf16"):
        yield
    elif device.type == "cuda":
        yield from _in_tf32()
    else:
        before = _rounded.set(True)
        try:
            yield
        finally:
            _rounded.reset(before)


def _in_tf32() -> Iterator[None]:
    switch: Any = torch.backends.cuda.matmul
    name, on = ("fp32_precision", "tf32") if hasattr(switch, "fp32_precision") else ("allow_tf32", True)
    before = getattr(switch, name)
    setattr(switch, name, on)
    try:
        yield
    finally:
        setattr(switch, name, before)


def times(a: Tensor | SparseMatrix, b: Tensor) -> Tensor:
    """``a @ b`` with its gradient; in ``products_in("bf16", cpu)`` of rounded matrices, unless they are sparse."""
    if isinstance(a, SparseMatrix) or not _rounded.get():
        return a @ b
    product: Tensor = _RoundedProduct.apply(a, b)  # type: ignore[no-untyped-call]
    return product


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``F.linear(x, weight, bias)`` by :func:`times`."""
    return times(x, weight.T) + bias if _rounded.get() else F.linear(x, weight, bias)


class _RoundedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.dtype = a.dtype
        a, b = a.bfloat16(), b.bfloat16()
        ctx.save_for_backward(a, b)
        return (a @ b).to(ctx.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b = ctx.saved_tensors
        grad = grads[0].bfloat16()
        to_a, to_b = ctx.needs_input_grad
        return (grad @ b.T).to(ctx.dtype) if to_a else None, (a.T @ grad).to(ctx.dtype) if to_b else None
