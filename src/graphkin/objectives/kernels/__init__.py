"""The objective, computed fast: ``dispatch`` chooses among the forms, each of which has a file or a folder of its own."""

from graphkin.objectives.kernels.dispatch import (
    IMPLEMENTATIONS,
    TRUSTED_TAU,
    choose,
    loss_by,
    memory_needed,
    one_view_loss,
    two_view_loss,
)
from graphkin.objectives.kernels.fused.needs import why_no_fused_kernels
from graphkin.objectives.kernels.problem import Case, Problem

__all__ = [
    "IMPLEMENTATIONS",
    "TRUSTED_TAU",
    "Case",
    "Problem",
    "choose",
    "loss_by",
    "memory_needed",
    "one_view_loss",
    "two_view_loss",
    "why_no_fused_kernels",
]
