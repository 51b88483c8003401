"""A check that plain data from a file has the shape that the program wrote."""

from __future__ import annotations

import math
from typing import Any

Shape = Any
"""A type; a tuple of alternatives; [shape] for a list; {key: shape} for a table, with ``...`` for any key and "key?" for one
that may be missing. A table may have other keys, too. ``float`` is any finite number, ``int`` one of 64 bits, None is None."""


def check_shape(value: Any, shape: Shape, name: str = "it") -> None:
    """A ValueError that says where the data differs."""
    if isinstance(shape, tuple):
        if not any(_has_shape(value, one) for one in shape):
            check_shape(value, shape[-1], name)
    elif isinstance(shape, list):
        _need(isinstance(value, list), name, "a list", value)
        for place, entry in enumerate(value):
            check_shape(entry, shape[0], f"{name}[{place}]")
    elif isinstance(shape, dict):
        _need(isinstance(value, dict), name, "a table", value)
        for key, wanted in shape.items():
            for found in value if key is ... else (key.rstrip("?"),):
                where = found if name == "it" else f"{name}.{found}"
                if found in value:
                    check_shape(value[found], wanted, where)
                else:
                    _need(key.endswith("?"), where, "there", None)
    else:
        _need(_is_a(value, shape), name, "null" if shape is None else shape.__name__, value)


def _has_shape(value: Any, shape: Shape) -> bool:
    try:
        check_shape(value, shape)
    except ValueError:
        return False
    return True


def _is_a(value: Any, shape: Shape) -> bool:
    if shape is None:
        return value is None
    if shape is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**1000 and math.isfinite(value)
    if shape is int:
        return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    return isinstance(value, shape)


def _need(holds: bool, name: str, wanted: str, found: Any) -> None:
    if not holds:
        raise ValueError(f"{name} must be {wanted}, found {'null' if found is None else type(found).__name__}")
