"""The Triton code: one pass that sums numerators and denominators, and one that computes gradients.

Weights are computed from a tile of similarity when the tile is needed. With e_ij = e^{(⟨z_i,z_j⟩ − 1)/τ} and rows of unit
length no running maximum is needed: e_ij is at most 1 and at least e^{−2/τ}.
"""

from __future__ import annotations

import triton
import triton.language as tl

from graphkin.objectives.kernels.fused.tiled_programs import pairs_in_tiles, views_in_tiles


@triton.jit
def _rows_of_program(first_row, last_row, ROWS: tl.constexpr):
    """Its first row in the strip, all its rows, and whether they exist."""
    strip_row = tl.program_id(0) * ROWS
    r = first_row + strip_row + tl.arange(0, ROWS)
    return strip_row, r, r < last_row


@triton.jit
def _attract_numbers(numbers, count, at, exists, AXIS: tl.constexpr):
    """Scale, level and unit of some nodes."""
    scale = tl.expand_dims(tl.load(numbers + at, mask=exists, other=0.0), AXIS)
    level = tl.expand_dims(tl.load(numbers + count + at, mask=exists, other=0.0), AXIS)
    unit = tl.expand_dims(tl.load(numbers + 2 * count + at, mask=exists, other=0.0), AXIS)
    return scale, level, unit


@triton.jit
def _repel_numbers(numbers, count, at, exists, AXIS: tl.constexpr):
    """Scale and level of some nodes."""
    scale = tl.expand_dims(tl.load(numbers + 3 * count + at, mask=exists, other=0.0), AXIS)
    level = tl.expand_dims(tl.load(numbers + 4 * count + at, mask=exists, other=0.0), AXIS)
    return scale, level


@triton.jit
def _similarity(similarity, row, column, TURNED: tl.constexpr):
    tile = similarity.load([column, row]).T if TURNED else similarity.load([row, column])
    return tile.to(tl.float32)


@triton.jit
def _attraction(similarity, numbers, SERIES: tl.constexpr):
    """w⁺ = (2^x − 1) · unit, with x = scale · similarity and unit = 2^{−level}; by its series where 2^x − 1 would cancel."""
    scale, level, unit = numbers
    x = similarity * scale
    weight = tl.exp2(x - level) - unit
    if SERIES:
        series = 0.6931471806 + x * (0.2402265070 + x * (0.0555041087 + x * (0.0096181291 + x * 0.0013333558)))
        weight = tl.where(x < 0.25, series * (x * unit), weight)
    return weight


@triton.jit
def _repulsion(similarity, numbers):
    """w⁻ = 2^{−scale · similarity − level}: at most N for a pair that counts, and finite for the others too."""
    scale, level = numbers
    return tl.exp2(tl.minimum(-similarity * scale - level, 30.0))


@triton.jit
def _column_weights(similarity, numbers, count, at, exists, ATTRACT: tl.constexpr, REPEL: tl.constexpr, SERIES: tl.constexpr):
    """w⁺ and w⁻ with the columns as anchors, as far as they are not trivial."""
    attraction = _attraction(similarity, _attract_numbers(numbers, count, at, exists, 0), SERIES) if ATTRACT else 0.0
    repulsion = _repulsion(similarity, _repel_numbers(numbers, count, at, exists, 0)) if REPEL else 1.0
    return attraction, repulsion


@triton.jit
def _row_inverses(inverses, view, count, at, exists, ATTRACT: tl.constexpr):
    """One over the numerators and the denominators of the rows in a view."""
    repels = tl.load(inverses + (2 + view) * count + at, mask=exists, other=0.0)[:, None]
    attracts = tl.load(inverses + view * count + at, mask=exists, other=0.0)[:, None] if ATTRACT else 0.0
    return attracts, repels


@triton.jit
def _row_coefficients(weights, of_rows, ATTRACT: tl.constexpr, REPEL: tl.constexpr):
    """c_ij = w⁻_ij / denominator_i − w⁺_ij / numerator_i; ``weights`` are w⁺ and w⁻, ``of_rows`` one over both sums."""
    attraction, repulsion = weights
    attracts, repels = of_rows
    coefficients = repulsion * repels if REPEL else repels
    if ATTRACT:
        coefficients -= attraction * attracts
    return coefficients


@triton.jit
def _coefficients(weights, of_rows, of_columns, from_rows, ATTRACT: tl.constexpr, REPEL: tl.constexpr, SHARED: tl.constexpr):
    """c_ij + c_ji. Where weights are SHARED, both have the same; else ``weights`` are the columns', and c_ij is ``from_rows``.

    ``of_columns`` is where to load one over the columns' sums: numerators there, denominators two counts behind.
    """
    attraction, repulsion = weights
    inverses, count, exists = of_columns
    repels = tl.load(inverses + 2 * count, mask=exists, other=0.0)[None, :]
    if SHARED:
        repels += of_rows[1]
    coefficients = repulsion * repels if REPEL else repels
    if ATTRACT:
        attracts = tl.load(inverses, mask=exists, other=0.0)[None, :]
        if SHARED:
            attracts += of_rows[0]
        coefficients -= attraction * attracts
    if not SHARED:
        coefficients += from_rows
    return coefficients


@triton.jit
def sums_kernel(
    sums,  # out [splits, 2, 2, strip]: numerator and denominator of both views, without the own counterpart
    rows,  # [2, R, WIDTH] in tiles of ROWS
    columns,  # [2, C, WIDTH] in tiles of COLUMNS
    similarity,  # [strip, C] in tiles of both: the rows from first_row up to last_row
    stride,  # of similarity
    row_nodes,  # [R]
    column_nodes,  # [C]
    row_numbers,  # [5, R]: scale, level and unit of attraction, scale and level of repulsion
    first_row,
    last_row,
    num_rows,
    num_columns,
    columns_a_split,
    steepness,  # log2(e)/τ
    WIDTH: tl.constexpr,
    ATTRACT: tl.constexpr,
    REPEL: tl.constexpr,
    SERIES: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
    DESCRIBED: tl.constexpr,
):
    """Σ_j w_ij e_ij of every row i over the columns j of one split, in one view."""
    rows = views_in_tiles(rows, num_rows, WIDTH, ROWS, DESCRIBED)
    columns = views_in_tiles(columns, num_columns, WIDTH, COLUMNS, DESCRIBED)
    if ATTRACT or REPEL:
        similarity = pairs_in_tiles(similarity, last_row - first_row, num_columns, stride, ROWS, COLUMNS, DESCRIBED)
    split, view = tl.program_id(1), tl.program_id(2)
    strip_row, r, exists = _rows_of_program(first_row, last_row, ROWS)
    z = rows.load([view, first_row + strip_row, 0]).reshape(ROWS, WIDTH)
    node = tl.load(row_nodes + r, mask=exists, other=-1)
    attract = _attract_numbers(row_numbers, num_rows, r, exists, 1) if ATTRACT else 0.0
    repel = _repel_numbers(row_numbers, num_rows, r, exists, 1) if REPEL else 0.0
    numerator = tl.zeros((ROWS,), tl.float32)
    denominator = tl.zeros((ROWS,), tl.float32)
    start = split * columns_a_split
    for first in tl.range(start, tl.minimum(start + columns_a_split, num_columns), COLUMNS, num_stages=STAGES):
        c = first + tl.arange(0, COLUMNS)
        other_node = tl.load(column_nodes + c, mask=c < num_columns, other=-1)
        both = tl.zeros((ROWS, COLUMNS), tl.float32)
        for other_view in tl.static_range(2):
            z_others = columns.load([other_view, first, 0]).reshape(COLUMNS, WIDTH)
            scores = tl.dot(z, z_others.T, input_precision=PRECISION)
            both += tl.exp2(scores * steepness - steepness)
        both = tl.where((node[:, None] != other_node[None, :]) & (other_node >= 0)[None, :], both, 0.0)
        s = _similarity(similarity, strip_row, first, False) if ATTRACT or REPEL else 0.0
        if ATTRACT:
            numerator += tl.sum(both * _attraction(s, attract, SERIES), axis=1)
        if REPEL:
            both *= _repulsion(s, repel)
        denominator += tl.sum(both, axis=1)
    strip = last_row - first_row
    out = sums + (split * 4 + view) * strip + r - first_row
    tl.store(out, numerator, mask=exists)
    tl.store(out + 2 * strip, denominator, mask=exists)


@triton.jit
def gradients_kernel(
    gradients,  # out [splits, 2, strip, WIDTH]
    rows,  # [2, R, WIDTH] in tiles of ROWS
    columns,  # [2, C, WIDTH] in tiles of COLUMNS; beyond the last they are zero and add nothing
    similarity,  # [strip, C] in tiles of both, or TURNED: [C, strip]
    stride,
    row_nodes,  # [R]
    column_nodes,  # [C]
    row_numbers,  # [5, R]
    column_numbers,  # [5, C]
    row_inverses,  # [2, 2, R]: one over the numerator and the denominator of both views; zero for a node that is no anchor
    column_inverses,  # [2, 2, C]
    first_row,
    last_row,
    num_rows,
    num_columns,
    columns_a_split,
    steepness,
    factor,
    WIDTH: tl.constexpr,
    ATTRACT: tl.constexpr,
    REPEL: tl.constexpr,
    SERIES: tl.constexpr,
    SHARED: tl.constexpr,  # all nodes have the same numbers, so that w_ij = w_ji
    TURNED: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
    DESCRIBED: tl.constexpr,
):
    """Σ_j e_ij (c_ij + c_ji) z_j · factor, with c_ij = w⁻_ij / denominator_i − w⁺_ij / numerator_i."""
    rows = views_in_tiles(rows, num_rows, WIDTH, ROWS, DESCRIBED)
    columns = views_in_tiles(columns, num_columns, WIDTH, COLUMNS, DESCRIBED)
    if ATTRACT or REPEL:
        if TURNED:
            similarity = pairs_in_tiles(similarity, num_columns, last_row - first_row, stride, COLUMNS, ROWS, DESCRIBED)
        else:
            similarity = pairs_in_tiles(similarity, last_row - first_row, num_columns, stride, ROWS, COLUMNS, DESCRIBED)
    split, view = tl.program_id(1), tl.program_id(2)
    strip_row, r, exists = _rows_of_program(first_row, last_row, ROWS)
    z = rows.load([view, first_row + strip_row, 0]).reshape(ROWS, WIDTH)
    node = tl.load(row_nodes + r, mask=exists, other=-1)
    of_rows = _row_inverses(row_inverses, view, num_rows, r, exists, ATTRACT)
    attract = _attract_numbers(row_numbers, num_rows, r, exists, 1) if ATTRACT else 0.0
    repel = _repel_numbers(row_numbers, num_rows, r, exists, 1) if REPEL else 0.0
    gradient = tl.zeros((ROWS, WIDTH), tl.float32)
    start = split * columns_a_split
    for first in tl.range(start, tl.minimum(start + columns_a_split, num_columns), COLUMNS, num_stages=STAGES):
        c = first + tl.arange(0, COLUMNS)
        in_range = c < num_columns
        apart = node[:, None] != tl.load(column_nodes + c, mask=in_range, other=-2)[None, :]
        s = _similarity(similarity, strip_row, first, TURNED) if ATTRACT or REPEL else 0.0
        repulsion = _repulsion(s, repel) if REPEL else 1.0
        weights = (_attraction(s, attract, SERIES) if ATTRACT else 0.0, repulsion)
        from_rows = 0.0 if SHARED else _row_coefficients(weights, of_rows, ATTRACT, REPEL)
        if not SHARED:
            weights = _column_weights(s, column_numbers, num_columns, c, in_range, ATTRACT, REPEL, SERIES)
        for other_view in tl.static_range(2):
            z_others = columns.load([other_view, first, 0]).reshape(COLUMNS, WIDTH)
            scores = tl.dot(z, z_others.T, input_precision=PRECISION)
            of_columns = (column_inverses + other_view * num_columns + c, num_columns, in_range)
            coefficients = _coefficients(weights, of_rows, of_columns, from_rows, ATTRACT, REPEL, SHARED)
            coefficients = tl.where(apart, coefficients * tl.exp2(scores * steepness - steepness), 0.0)
            gradient = tl.dot(coefficients.to(z_others.dtype), z_others, gradient, input_precision=PRECISION)
    place = (split * 2 + view) * (last_row - first_row) + r - first_row
    out = gradients + place.to(tl.int64)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    tl.store(out, gradient * factor, mask=exists[:, None])
