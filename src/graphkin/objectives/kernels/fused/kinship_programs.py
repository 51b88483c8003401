"""The Triton code of Kinship: one pass that sums every anchor's exponentials, and one that computes the gradient of their log.

Side 0 has the rows of u with those of v as candidates, side 1 the reverse. e_ij = e^{(⟨z_i,z_j⟩ − 1)/τ} is the same from
both sides, at most 1 and at least e^{−2/τ}.
"""

from __future__ import annotations

import triton
import triton.language as tl

from graphkin.objectives.kernels.fused.tiled_programs import views_in_tiles


@triton.jit
def sums_kernel(
    sums,  # out [splits, sides, N]
    rows,  # [2, N, WIDTH] in tiles of ROWS
    columns,  # the same in tiles of COLUMNS
    count,
    columns_a_split,
    steepness,  # log2(e)/τ
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
    DESCRIBED: tl.constexpr,
):
    """Σ_j e_ij of every row i over the columns j of one split, on one side."""
    rows = views_in_tiles(rows, count, WIDTH, ROWS, DESCRIBED)
    columns = views_in_tiles(columns, count, WIDTH, COLUMNS, DESCRIBED)
    split, side = tl.program_id(1), tl.program_id(2)
    first_row = tl.program_id(0) * ROWS
    z = rows.load([side, first_row, 0]).reshape(ROWS, WIDTH)
    total = tl.zeros((ROWS,), tl.float32)
    start = split * columns_a_split
    for first in tl.range(start, tl.minimum(start + columns_a_split, count), COLUMNS, num_stages=STAGES):
        z_others = columns.load([1 - side, first, 0]).reshape(COLUMNS, WIDTH)
        e = tl.exp2(tl.dot(z, z_others.T, input_precision=PRECISION) * steepness - steepness)
        exists = first + tl.arange(0, COLUMNS) < count
        total += tl.sum(tl.where(exists[None, :], e, 0.0), axis=1)
    r = first_row + tl.arange(0, ROWS)
    tl.store(sums + (split * tl.num_programs(2) + side) * count + r, total, mask=r < count)


@triton.jit
def gradients_kernel(
    gradients,  # out [splits, 2, N, WIDTH]
    rows,  # [2, N, WIDTH] in tiles of ROWS
    columns,  # the same in tiles of COLUMNS; beyond the last they are zero and add nothing
    inverses,  # [2, N]: one over the sum of a row; zero for one that is no anchor
    count,
    columns_a_split,
    steepness,
    factor,
    WIDTH: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
    DESCRIBED: tl.constexpr,
):
    """Σ_j e_ij (1/sum_i + 1/sum_j) z_j · factor: each pair with i as anchor and with j as anchor."""
    rows = views_in_tiles(rows, count, WIDTH, ROWS, DESCRIBED)
    columns = views_in_tiles(columns, count, WIDTH, COLUMNS, DESCRIBED)
    split, side = tl.program_id(1), tl.program_id(2)
    first_row = tl.program_id(0) * ROWS
    r = first_row + tl.arange(0, ROWS)
    z = rows.load([side, first_row, 0]).reshape(ROWS, WIDTH)
    of_rows = tl.load(inverses + side * count + r, mask=r < count, other=0.0)[:, None]
    gradient = tl.zeros((ROWS, WIDTH), tl.float32)
    start = split * columns_a_split
    for first in tl.range(start, tl.minimum(start + columns_a_split, count), COLUMNS, num_stages=STAGES):
        c = first + tl.arange(0, COLUMNS)
        z_others = columns.load([1 - side, first, 0]).reshape(COLUMNS, WIDTH)
        e = tl.exp2(tl.dot(z, z_others.T, input_precision=PRECISION) * steepness - steepness)
        of_columns = tl.load(inverses + (1 - side) * count + c, mask=c < count, other=0.0)[None, :]
        shares = (e * (of_rows + of_columns)).to(z_others.dtype)
        gradient = tl.dot(shares, z_others, gradient, input_precision=PRECISION)
    place = (split * 2 + side) * count + r
    out = gradients + place.to(tl.int64)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    tl.store(out, gradient * factor, mask=(r < count)[:, None])
