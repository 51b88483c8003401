"""How a graph is trained on: what is stored, sampled, recorded and in which precision, decided once within a memory."""

from graphkin.execution.decision import (
    SMALL_STEP,
    TOGETHER,
    Execution,
    MethodLike,
    Stored,
    as_asked,
    decide,
    rows_among,
    together_on,
)
from graphkin.execution.memory import parse_memory
from graphkin.execution.sampling import Sampling

__all__ = [
    "SMALL_STEP",
    "TOGETHER",
    "Execution",
    "MethodLike",
    "Sampling",
    "Stored",
    "as_asked",
    "decide",
    "parse_memory",
    "rows_among",
    "together_on",
]
