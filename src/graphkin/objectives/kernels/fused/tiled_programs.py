"""Tensors in tiles: those that the copy engine of a GPU brings are described before; elsewhere a kernel describes them."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def views_in_tiles(views, count, WIDTH: tl.constexpr, TILE: tl.constexpr, DESCRIBED: tl.constexpr):
    """[2, count, WIDTH] in tiles of TILE rows."""
    if DESCRIBED:
        return views
    else:  # noqa: RET505 - Triton compiles what follows a return
        return tl.make_tensor_descriptor(views, [2, count, WIDTH], [count * WIDTH, WIDTH, 1], [1, TILE, WIDTH])


@triton.jit
def pairs_in_tiles(pairs, rows, columns, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DESCRIBED: tl.constexpr):
    """[rows, columns] in tiles of both; ``stride`` is that of a row."""
    if DESCRIBED:
        return pairs
    else:  # noqa: RET505
        return tl.make_tensor_descriptor(pairs, [rows, columns], [stride, 1], [ROWS, COLUMNS])
