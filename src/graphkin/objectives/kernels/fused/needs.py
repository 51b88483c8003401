"""What the fused kernels need: a device, a kind of problem, and memory."""

from __future__ import annotations

import functools
import importlib.util
import os

import torch

from graphkin.objectives.kernels import blocked
from graphkin.objectives.kernels.problem import Case
from graphkin.support.parallel import peers

SMALLEST_TAU = 0.035
"""e^{−2/τ} stays above 1e-25, so that no sum of float32 loses a term that counts"""
WIDEST = 256
"""embeddings whose tiles fit in shared memory"""
SMALLEST, SMALLEST_KINSHIP = 2048, 4096
"""nodes in a step from which "auto" compiles the kernels: a fit of fewer is over before a compiler is"""
PARTS_BYTES = 128 * 2**20
"""of partial gradients are written at most where the columns are split"""
NO_TRITON = "the package triton with tensor descriptors (3.4 or newer), which comes with PyTorch for NVIDIA GPUs"


def why_no_fused_kernels(device: torch.device) -> str | None:
    """What this device lacks for the fused kernels."""
    if device.type != "cuda":
        return f"embeddings on an NVIDIA GPU, found {device}"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return "a GPU of compute capability 8.0 or newer (Ampere)"
    return None if _has_triton() else NO_TRITON


def timed_in_float32(device: torch.device) -> bool:
    """Whether the kernels were timed with three TF32 products on such a GPU; on others these spill more registers."""
    return torch.cuda.get_device_capability(device)[0] == 9


def why_not(case: Case, precision: str, *, asked: bool) -> str | None:
    """What is missing for the fused kernels of the two-view objective.

    Where they are ``asked`` for by name, any size will do, and Triton's interpreter, which is for tests, is a device.
    """
    missing = _why_not_here(case, SMALLEST, asked=asked)
    if missing is not None:
        return missing
    if precision == "float32" and not asked and not timed_in_float32(case.device):
        return "products in TF32 or bf16 on this GPU"
    if case.own_candidates:
        return "all nodes as candidates"
    if not case.both_views:
        return "candidates of both views"
    return None if case.functions else "weights from one symmetric similarity"


def why_no_kinship(case: Case, *, asked: bool) -> str | None:
    """The same for those of Kinship."""
    missing = _why_not_here(case, SMALLEST_KINSHIP, asked=asked)
    if missing is None and peers().size > 1:
        return f"one process, found {peers().size}"
    return "candidates of the other view alone" if missing is None and case.both_views else missing


def _why_not_here(case: Case, smallest: int, *, asked: bool) -> str | None:
    on_cpu = case.device.type != "cuda" and asked and os.environ.get("TRITON_INTERPRET") == "1"
    missing = (None if _has_triton() else NO_TRITON) if on_cpu else why_no_fused_kernels(case.device)
    if missing is not None:
        return missing
    if not asked and case.nodes < smallest:
        return f"at least {smallest:,} nodes, to be worth compiling, found {case.nodes:,}"
    if case.tau < SMALLEST_TAU:
        return f"tau of at least {SMALLEST_TAU}, found {case.tau}"
    if case.width > WIDEST:
        return f"embeddings of at most {WIDEST} dimensions, found {case.width}"
    return "embeddings in float32, found float64" if case.dtype == torch.float64 else None


def memory(case: Case) -> int:
    """Bytes at the peak besides embeddings, similarity and stored weights; "mean" pooling makes blocks of weights."""
    makes_weights = case.pooling == "mean" and case.computes_weights
    blocks = blocked.BLOCKS_WITH_WEIGHTS if makes_weights else blocked.BLOCKS
    return blocks * 4 * blocked.BLOCK * case.nodes


@functools.cache
def _has_triton() -> bool:
    return all(importlib.util.find_spec(name) is not None for name in ("triton", "triton.tools.tensor_descriptor"))
