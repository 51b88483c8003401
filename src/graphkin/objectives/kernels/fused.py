"""The two-view objective in two Triton kernels that write nothing of size N×N (derivation: docs/performance.md).

The first pass sums every anchor's numerator and denominator, the second computes all scores again and turns them into
gradients. Weights are computed from a tile of similarity when the tile is needed. With e_ij = e^{(⟨z_i,z_j⟩ − 1)/τ} and rows of
unit length no running maximum is needed: e_ij is at most 1 and at least e^{−2/τ}.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from graphkin.objectives.kernels.pooled import Positives
from graphkin.similarity import Stored, aligned_empty, aligned_rows
from graphkin.weights.node import FunctionWeights

SMALLEST_TAU = 0.035
"""e^{−2/τ} stays above 1e-25, so that no sum of float32 loses a term that counts"""
WIDEST = 256
STRIP_BYTES, STRIP_ROWS = 64 * 2**20, 512
"""of similarity are computed at a time where it is not stored, whichever is more"""
PARTS_BYTES = 128 * 2**20
"""of partial gradients are written at most where the columns are split"""
LOG2_E = math.log2(math.e)
INPUT_PRECISION = {"float32": "tf32x3", "tf32": "tf32", "bf16": "tf32"}
"""how tensor cores multiply float32 operands; three TF32 products have the accuracy of float32"""


class Tiles(NamedTuple):
    """How a kernel is cut: rows and columns of a tile, warps of a program, loads in flight."""

    rows: int
    columns: int
    warps: int
    stages: int


def sums_tiles(width: int, precision: str) -> Tiles:
    """The fastest of those that fit in an H200's shared memory (benchmarks/tune_fused.py)."""
    if precision != "bf16":
        return Tiles(64, 32, 4, 2)
    return Tiles(256, 64, 8, 2) if width <= 128 else Tiles(128, 64, 8, 2)


def gradient_tiles(width: int, precision: str) -> Tiles:
    if precision != "bf16":
        return Tiles(64, 32, 4, 2)
    return Tiles(128, 64, 8, 3) if width <= 128 else Tiles(128, 32, 8, 3)


@triton.jit
def _attraction(similarity, scale, level, unit, SERIES: tl.constexpr):
    """w⁺ = (2^x − 1) · unit, with x = scale · similarity and unit = 2^{−level}; by its series where 2^x − 1 would cancel."""
    x = similarity * scale
    weight = tl.exp2(x - level) - unit
    if SERIES:
        series = 0.6931471806 + x * (0.2402265070 + x * (0.0555041087 + x * (0.0096181291 + x * 0.0013333558)))
        weight = tl.where(x < 0.25, series * (x * unit), weight)
    return weight


@triton.jit
def _repulsion(similarity, scale, level):
    """w⁻ = 2^{−scale · similarity − level}: at most N for a pair that counts, and finite for the others too."""
    return tl.exp2(tl.minimum(-similarity * scale - level, 30.0))


@triton.jit
def _sums(
    sums,  # out [splits, 2, 2, strip]: numerator and denominator of both views, without the own counterpart
    rows,  # [2, R, WIDTH] in tiles of ROWS
    columns,  # [2, C, WIDTH] in tiles of COLUMNS
    similarity,  # [strip, C] in tiles of both: the rows from first_row up to last_row
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
):
    """Σ_j w_ij e_ij of every row i over the columns j of one split, in one view."""
    split, view = tl.program_id(1), tl.program_id(2)
    strip_row = tl.program_id(0) * ROWS
    r = first_row + strip_row + tl.arange(0, ROWS)
    exists = r < last_row
    z = rows.load([view, first_row + strip_row, 0]).reshape(ROWS, WIDTH)
    node = tl.load(row_nodes + r, mask=exists, other=-1)
    if ATTRACT:
        attract_scale = tl.load(row_numbers + r, mask=exists, other=0.0)[:, None]
        attract_level = tl.load(row_numbers + num_rows + r, mask=exists, other=0.0)[:, None]
        attract_unit = tl.load(row_numbers + 2 * num_rows + r, mask=exists, other=0.0)[:, None]
    if REPEL:
        repel_scale = tl.load(row_numbers + 3 * num_rows + r, mask=exists, other=0.0)[:, None]
        repel_level = tl.load(row_numbers + 4 * num_rows + r, mask=exists, other=0.0)[:, None]

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
        if ATTRACT or REPEL:
            s = similarity.load([strip_row, first]).to(tl.float32)
        if ATTRACT:
            numerator += tl.sum(both * _attraction(s, attract_scale, attract_level, attract_unit, SERIES), axis=1)
        if REPEL:
            denominator += tl.sum(both * _repulsion(s, repel_scale, repel_level), axis=1)
        else:
            denominator += tl.sum(both, axis=1)
    strip = last_row - first_row
    out = sums + (split * 4 + view) * strip + r - first_row
    tl.store(out, numerator, mask=exists)
    tl.store(out + 2 * strip, denominator, mask=exists)


@triton.jit
def _gradients(
    gradients,  # out [splits, 2, strip, WIDTH]
    rows,  # [2, R, WIDTH] in tiles of ROWS
    columns,  # [2, C, WIDTH] in tiles of COLUMNS
    similarity,  # [strip, C] in tiles of both, or TURNED: [C, strip]
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
    SHARED: tl.constexpr,
    TURNED: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Σ_j e_ij (c_ij + c_ji) z_j · factor, with c_ij = w⁻_ij / denominator_i − w⁺_ij / numerator_i.

    SHARED says that all nodes have the same numbers, so that w_ij = w_ji. Columns beyond the last are zero and add nothing.
    """
    split, view = tl.program_id(1), tl.program_id(2)
    strip_row = tl.program_id(0) * ROWS
    r = first_row + strip_row + tl.arange(0, ROWS)
    exists = r < last_row
    z = rows.load([view, first_row + strip_row, 0]).reshape(ROWS, WIDTH)
    node = tl.load(row_nodes + r, mask=exists, other=-1)
    row_repels = tl.load(row_inverses + (2 + view) * num_rows + r, mask=exists, other=0.0)[:, None]
    if ATTRACT:
        row_attracts = tl.load(row_inverses + view * num_rows + r, mask=exists, other=0.0)[:, None]
        attract_scale = tl.load(row_numbers + r, mask=exists, other=0.0)[:, None]
        attract_level = tl.load(row_numbers + num_rows + r, mask=exists, other=0.0)[:, None]
        attract_unit = tl.load(row_numbers + 2 * num_rows + r, mask=exists, other=0.0)[:, None]
    if REPEL:
        repel_scale = tl.load(row_numbers + 3 * num_rows + r, mask=exists, other=0.0)[:, None]
        repel_level = tl.load(row_numbers + 4 * num_rows + r, mask=exists, other=0.0)[:, None]

    gradient = tl.zeros((ROWS, WIDTH), tl.float32)
    start = split * columns_a_split
    for first in tl.range(start, tl.minimum(start + columns_a_split, num_columns), COLUMNS, num_stages=STAGES):
        c = first + tl.arange(0, COLUMNS)
        in_range = c < num_columns
        other_node = tl.load(column_nodes + c, mask=in_range, other=-2)
        apart = node[:, None] != other_node[None, :]
        if ATTRACT or REPEL:
            s = similarity.load([first, strip_row]).T if TURNED else similarity.load([strip_row, first])
            s = s.to(tl.float32)
        if REPEL:
            repulsion = _repulsion(s, repel_scale, repel_level)
        if ATTRACT:
            attraction = _attraction(s, attract_scale, attract_level, attract_unit, SERIES)
        if not SHARED:
            from_rows = repulsion * row_repels if REPEL else tl.zeros((ROWS, COLUMNS), tl.float32) + row_repels
            if ATTRACT:
                from_rows -= attraction * row_attracts
                scale = tl.load(column_numbers + c, mask=in_range, other=0.0)[None, :]
                level = tl.load(column_numbers + num_columns + c, mask=in_range, other=0.0)[None, :]
                unit = tl.load(column_numbers + 2 * num_columns + c, mask=in_range, other=0.0)[None, :]
                attraction = _attraction(s, scale, level, unit, SERIES)
            if REPEL:
                scale = tl.load(column_numbers + 3 * num_columns + c, mask=in_range, other=0.0)[None, :]
                level = tl.load(column_numbers + 4 * num_columns + c, mask=in_range, other=0.0)[None, :]
                repulsion = _repulsion(s, scale, level)
        for other_view in tl.static_range(2):
            z_others = columns.load([other_view, first, 0]).reshape(COLUMNS, WIDTH)
            scores = tl.dot(z, z_others.T, input_precision=PRECISION)
            inverses = column_inverses + other_view * num_columns + c
            repels = tl.load(inverses + 2 * num_columns, mask=in_range, other=0.0)[None, :]
            if SHARED:
                repels += row_repels
            coefficient = repulsion * repels if REPEL else repels
            if ATTRACT:
                attracts = tl.load(inverses, mask=in_range, other=0.0)[None, :]
                if SHARED:
                    attracts += row_attracts
                coefficient -= attraction * attracts
            if not SHARED:
                coefficient += from_rows
            coefficient = tl.where(apart, coefficient * tl.exp2(scores * steepness - steepness), 0.0)
            gradient = tl.dot(coefficient.to(z_others.dtype), z_others, gradient, input_precision=PRECISION)
    place = (split * 2 + view) * (last_row - first_row) + r - first_row
    out = gradients + place.to(tl.int64)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    tl.store(out, gradient * factor, mask=exists[:, None])


@dataclass(frozen=True)
class Side:
    """The nodes on one side of all pairs, and what the kernels know of each."""

    operands: Tensor
    """embeddings in both views [2, R, WIDTH]"""
    nodes: Tensor
    numbers: Tensor
    """[5, R], see :class:`FunctionWeights`"""
    chosen: Tensor | None = None
    """the nodes again, where they are not all of the graph"""
    inverses: Tensor | None = None
    """one over the numerator and the denominator in both views [2, 2, R], zero for nodes that are no anchors"""

    def __len__(self) -> int:
        return self.nodes.numel()

    @property
    def width(self) -> int:
        return self.operands.size(2)

    def choose(self, nodes: Tensor | None) -> Side:
        if nodes is None:
            return self
        return Side(self.operands[:, nodes].contiguous(), self.nodes[nodes], self.numbers[:, nodes].contiguous(), nodes)


@dataclass(frozen=True)
class Pairs:
    """All pairs of nodes under given weights, and the two passes over them."""

    weights: FunctionWeights
    tau: float
    precision: str
    anchors: Tensor | None = None

    @functools.cached_property
    def anchors_similarity(self) -> Tensor:
        """Rows of a stored similarity [B, N], read by both passes."""
        assert self.anchors is not None and isinstance(self.weights.similarity, Stored)
        matrix = self.weights.similarity.matrix
        assert isinstance(matrix, Tensor)
        return aligned_rows(matrix, self.anchors)

    def sums(self, rows: Side, columns: Side) -> Tensor:
        """Numerators and denominators of the rows in both views, without the own counterpart [2, 2, R]."""
        tiles = sums_tiles(rows.width, self.precision)
        operands = _operands_in_tiles(rows, columns, tiles)
        sums = rows.numbers.new_empty(2, 2, len(rows))
        for first, last, similarity, _ in self._strips(rows, columns):
            splits, a_split = _splits(last - first, len(columns), rows.width, tiles, _processors(rows.operands.device))
            parts = sums.new_empty(splits, 2, 2, last - first)
            _sums[(triton.cdiv(last - first, tiles.rows), splits, 2)](
                parts,
                *operands,
                None if similarity is None else _in_tiles(similarity, tiles.rows, tiles.columns),
                rows.nodes,
                columns.nodes,
                rows.numbers,
                first,
                last,
                len(rows),
                len(columns),
                a_split,
                LOG2_E / self.tau,
                **self._constants(rows, tiles),
            )
            torch.sum(parts, dim=0, out=sums[..., first:last])
        return sums

    def gradients(self, rows: Side, columns: Side, factor: float) -> Tensor:
        """Σ_j e_ij (c_ij + c_ji) z_j · factor of the rows in both views [2, R, WIDTH]."""
        tiles = gradient_tiles(rows.width, self.precision)
        operands = _operands_in_tiles(rows, columns, tiles)
        gradients = rows.numbers.new_empty(2, len(rows), rows.width)
        for first, last, similarity, turned in self._strips(rows, columns):
            tile = (tiles.columns, tiles.rows) if turned else (tiles.rows, tiles.columns)
            splits, a_split = _splits(last - first, len(columns), rows.width, tiles, _processors(rows.operands.device))
            whole = splits == 1 and last - first == len(rows)
            parts = gradients[None] if whole else gradients.new_empty(splits, 2, last - first, rows.width)
            _gradients[(triton.cdiv(last - first, tiles.rows), splits, 2)](
                parts,
                *operands,
                None if similarity is None else _in_tiles(similarity, *tile),
                rows.nodes,
                columns.nodes,
                rows.numbers,
                columns.numbers,
                rows.inverses,
                columns.inverses,
                first,
                last,
                len(rows),
                len(columns),
                a_split,
                LOG2_E / self.tau,
                factor,
                SHARED=self.weights.shared,
                TURNED=turned,
                **self._constants(rows, tiles),
            )
            if not whole:
                torch.sum(parts, dim=0, out=gradients[:, first:last])
            del parts
        return gradients

    def _strips(self, rows: Side, columns: Side) -> Iterator[tuple[int, int, Tensor | None, bool]]:
        """First row, last row and similarity of a strip of rows with all columns, and whether it is turned, columns by rows.

        One strip where that costs no memory.
        """
        similarity = self.weights.similarity
        if similarity is None or not (self.weights.attract or self.weights.repel):
            yield 0, len(rows), None, False
        elif isinstance(similarity, Stored) and isinstance(similarity.matrix, Tensor):
            if rows.chosen is None and columns.chosen is None:
                yield 0, len(rows), similarity.matrix, False
            else:
                yield 0, len(rows), self.anchors_similarity, columns.chosen is not None
        else:
            height = min(max(STRIP_BYTES // (4 * len(columns)) // 256 * 256, STRIP_ROWS), len(rows))
            buffer = aligned_empty(height, len(columns), torch.float32, rows.operands.device)
            for first in range(0, len(rows), height):
                last = min(first + height, len(rows))
                strip = buffer[: last - first]
                if rows.chosen is None:
                    similarity.strip(first, last, strip, columns.chosen)
                else:
                    strip.copy_(similarity.block(rows.chosen[first:last], columns.chosen))
                yield first, last, strip, False

    def _constants(self, rows: Side, tiles: Tiles) -> dict[str, object]:
        return {
            "WIDTH": rows.width,
            "ATTRACT": self.weights.attract,
            "REPEL": self.weights.repel,
            "SERIES": self.weights.largest_unit > (1024 if self.precision == "bf16" else 16),
            "PRECISION": INPUT_PRECISION[self.precision],
            "ROWS": tiles.rows,
            "COLUMNS": tiles.columns,
            "STAGES": tiles.stages,
            "num_warps": tiles.warps,
        }


def all_candidates(
    u: Tensor,
    v: Tensor,
    weights: FunctionWeights,
    tau: float,
    anchors: Tensor | None = None,
    precision: str = "float32",
    positives: Positives | None = None,
) -> tuple[Tensor, Tensor]:
    """Loss and gradient of ``objective.enhanced(u, v, weights.block(anchors), tau, pooling, anchors)``, rows of unit length.

    ``positives`` is the numerator of ``pooling="mean"`` and its gradient; without it, pooling is "sum".
    """
    if positives is not None:
        weights = weights._replace(attract=False)
    pairs = Pairs(weights, tau, precision, anchors)
    nodes = torch.arange(len(u), dtype=torch.int32, device=u.device)
    everyone = Side(_operands(u, v, precision), nodes, weights.numbers)
    anchoring = everyone.choose(anchors)
    own_weight, factors = weights.own, weights.factors
    mine = (u, v)
    if anchors is not None:
        own_weight, factors, mine = own_weight[anchors], factors[:, anchors], (u[anchors], v[anchors])

    own = ((mine[0] * mine[1]).sum(dim=1) - 1).div_(tau).exp_()
    sums = pairs.sums(anchoring, everyone) * factors[:, None] + torch.stack([own_weight * own, own])[:, None]
    log_numerator = sums[0].log() if positives is None else positives.log_numerator - 1 / tau
    scale = 1 / (2 * len(anchoring))
    loss = (sums[1].log() - log_numerator).sum() * scale

    inverses = 1 / sums
    own_gradient = own * inverses[1].sum(dim=0)
    if positives is None:
        own_gradient -= own * own_weight * inverses[0].sum(dim=0)
    own_gradient = (own_gradient * (scale / tau))[:, None]
    inverses *= factors[:, None]
    if anchors is None:
        anchoring = replace(everyone, inverses=inverses)
        gradient = pairs.gradients(anchoring, anchoring, scale / tau)[..., : u.size(1)]
        for view in (0, 1):
            gradient[view].addcmul_(own_gradient, mine[1 - view])
    else:
        anchoring = replace(anchoring, inverses=inverses)
        others = replace(everyone, inverses=inverses.new_zeros(2, 2, len(everyone)))
        of_anchors = pairs.gradients(anchoring, others, scale / tau)[..., : u.size(1)]
        gradient = pairs.gradients(others, anchoring, scale / tau)[..., : u.size(1)]
        for view in (0, 1):
            gradient[view].index_add_(0, anchors, of_anchors[view].addcmul_(own_gradient, mine[1 - view]))
    if positives is not None:
        gradient = gradient - positives.gradient * scale
    return loss, gradient


def _operands(u: Tensor, v: Tensor, precision: str) -> Tensor:
    """Embeddings as the tensor cores take them: in the precision wanted, and a power of two wide."""
    width = max(triton.next_power_of_2(u.size(1)), 16)
    # Triton's interpreter cannot multiply bfloat16: there the rounded numbers are float32.
    operands = u.new_zeros(2, len(u), width, dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
    operands[0, :, : u.size(1)] = u
    operands[1, :, : u.size(1)] = v
    return operands if u.is_cuda else operands.float()


def _operands_in_tiles(rows: Side, columns: Side, tiles: Tiles) -> tuple[TensorDescriptor, TensorDescriptor]:
    return (
        _in_tiles(rows.operands, 1, tiles.rows, rows.width),
        _in_tiles(columns.operands, 1, tiles.columns, columns.width),
    )


def _in_tiles(tensor: Tensor, *tile: int) -> TensorDescriptor:
    """A tensor that the copy engine brings in tiles, with zeros beyond its end."""
    return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), list(tile))


@functools.lru_cache
def _splits(rows: int, columns: int, width: int, tiles: Tiles, processors: int) -> tuple[int, int]:
    """Into how many parts the columns go, so that the programs fill the device in whole waves, and the columns of a part."""
    programs = 2 * triton.cdiv(rows, tiles.rows)
    most = min(64, columns // (8 * tiles.columns), PARTS_BYTES // (8 * rows * width))

    def idle(splits: int) -> float:
        waves: int = triton.cdiv(programs * splits, processors)
        return float(waves * processors / (programs * splits) + 0.01 * splits)

    splits = min(range(1, max(most, 1) + 1), key=idle)
    a_split = triton.cdiv(triton.cdiv(columns, splits), tiles.columns) * tiles.columns
    return triton.cdiv(columns, a_split), a_split


@functools.cache
def _processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
