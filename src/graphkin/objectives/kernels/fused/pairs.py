"""All pairs of nodes under given weights, and the two passes over them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from graphkin.objectives.kernels.fused import tiles as cut
from graphkin.objectives.kernels.fused.operands import INPUT_PRECISION, LOG2_E
from graphkin.objectives.kernels.fused.programs import gradients_kernel, sums_kernel
from graphkin.objectives.kernels.fused.tiles import Chip, Tiles, in_tiles
from graphkin.similarity import Stored, aligned_empty, aligned_rows
from graphkin.weights import FunctionWeights

STRIP_BYTES, STRIP_ROWS = 64 * 2**20, 512
"""of similarity are computed at a time where it is not stored, whichever is more"""


class Numbers(NamedTuple):
    """The numbers of all nodes, packed as the kernels read them."""

    functions: Tensor
    """Scale, level and unit of attraction, scale and level of repulsion [5, N]."""
    factors: Tensor
    """Of attraction and of repulsion [2, N]."""


def numbers_of(weights: FunctionWeights) -> Numbers:
    """Packed once, at the first step."""
    if weights not in _PACKED:
        attract = [weights.attract_scale, weights.attract_level, weights.attract_unit]
        functions = torch.stack([*attract, weights.repel_scale, weights.repel_level])
        _PACKED[weights] = Numbers(functions, torch.stack([weights.attract_factor, weights.repel_factor]))
    return _PACKED[weights]


_PACKED: WeakKeyDictionary[FunctionWeights, Numbers] = WeakKeyDictionary()


@dataclass(frozen=True)
class Side:
    """The nodes on one side of all pairs, and what the kernels know of each."""

    operands: Tensor
    """Embeddings in both views [2, R, WIDTH]."""
    nodes: Tensor
    functions: Tensor
    """[5, R], see :class:`Numbers`."""
    chosen: Tensor | None = None
    """The nodes as an index, if they are not all nodes of the graph."""
    inverses: Tensor | None = None
    """One over the numerator and the denominator in both views [2, 2, R]; zero for nodes that are not anchors."""

    def __len__(self) -> int:
        return self.nodes.numel()

    @property
    def width(self) -> int:
        return self.operands.size(2)

    def choose(self, nodes: Tensor | None) -> Side:
        if nodes is None:
            return self
        return Side(self.operands[:, nodes].contiguous(), self.nodes[nodes], self.functions[:, nodes].contiguous(), nodes)


class Strip(NamedTuple):
    """Some rows with all columns, and their similarity."""

    first: int
    last: int
    similarity: Tensor | None
    turned: bool = False
    """Whether similarity is stored columns by rows."""

    @property
    def size(self) -> int:
        return self.last - self.first

    def tiled(self, tiles: Tiles, chip: Chip) -> tuple[TensorDescriptor | Tensor | None, int]:
        """The similarity in tiles, and its stride."""
        if self.similarity is None:
            return None, 0
        tile = (tiles.columns, tiles.rows) if self.turned else (tiles.rows, tiles.columns)
        return in_tiles(self.similarity, chip, *tile), self.similarity.stride(0)


@dataclass(frozen=True)
class Pairs:
    weights: FunctionWeights
    attract: bool
    """Whether numerators are summed; the one of "mean" pooling is not."""
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
        chip = cut.chip_of(rows.operands.device)
        tiles = cut.sums_tiles(rows.width, self.precision, chip)
        operands = _operands_in_tiles(rows, columns, tiles, chip)
        sums = rows.functions.new_empty(2, 2, len(rows))
        for strip in self._strips(rows, columns):
            splits = cut.splits_of(strip.size, len(columns), rows.width, tiles, cut.processors(rows.operands.device))
            parts = sums.new_empty(splits.parts, 2, 2, strip.size)
            sums_kernel[(triton.cdiv(strip.size, tiles.rows), splits.parts, 2)](
                parts,
                *operands,
                *strip.tiled(tiles, chip),
                rows.nodes,
                columns.nodes,
                rows.functions,
                strip.first,
                strip.last,
                len(rows),
                len(columns),
                splits.columns,
                LOG2_E / self.tau,
                **self._constants(rows, tiles, chip),
            )
            torch.sum(parts, dim=0, out=sums[..., strip.first : strip.last])
        return sums

    def gradients(self, rows: Side, columns: Side, factor: float) -> Tensor:
        """Σ_j e_ij (c_ij + c_ji) z_j · factor of the rows in both views [2, R, WIDTH]."""
        chip = cut.chip_of(rows.operands.device)
        tiles = cut.gradient_tiles(rows.width, self.precision, chip)
        operands = _operands_in_tiles(rows, columns, tiles, chip)
        gradients = rows.functions.new_empty(2, len(rows), rows.width)
        for strip in self._strips(rows, columns):
            splits = cut.splits_of(strip.size, len(columns), rows.width, tiles, cut.processors(rows.operands.device))
            whole = splits.parts == 1 and strip.size == len(rows)
            parts = gradients[None] if whole else gradients.new_empty(splits.parts, 2, strip.size, rows.width)
            gradients_kernel[(triton.cdiv(strip.size, tiles.rows), splits.parts, 2)](
                parts,
                *operands,
                *strip.tiled(tiles, chip),
                rows.nodes,
                columns.nodes,
                rows.functions,
                columns.functions,
                rows.inverses,
                columns.inverses,
                strip.first,
                strip.last,
                len(rows),
                len(columns),
                splits.columns,
                LOG2_E / self.tau,
                factor,
                SHARED=self.weights.shared,
                TURNED=strip.turned,
                **self._constants(rows, tiles, chip),
            )
            if not whole:
                torch.sum(parts, dim=0, out=gradients[:, strip.first : strip.last])
            del parts
        return gradients

    def _strips(self, rows: Side, columns: Side) -> Iterator[Strip]:
        """All rows in strips; one where that costs no memory."""
        similarity = self.weights.similarity
        if similarity is None or not (self.attract or self.weights.repel):
            yield Strip(0, len(rows), None)
        elif isinstance(similarity, Stored) and isinstance(similarity.matrix, Tensor):
            if rows.chosen is None and columns.chosen is None:
                yield Strip(0, len(rows), similarity.matrix)
            else:
                yield Strip(0, len(rows), self.anchors_similarity, turned=columns.chosen is not None)
        else:
            height = min(max(STRIP_BYTES // (4 * len(columns)) // 256 * 256, STRIP_ROWS), len(rows))
            buffer = aligned_empty(height, len(columns), torch.float32, rows.operands.device)
            for first in range(0, len(rows), height):
                last = min(first + height, len(rows))
                block = buffer[: last - first]
                if rows.chosen is None:
                    similarity.strip(first, last, block, columns.chosen)
                else:
                    block.copy_(similarity.block(rows.chosen[first:last], columns.chosen))
                yield Strip(first, last, block)

    def _constants(self, rows: Side, tiles: Tiles, chip: Chip) -> dict[str, object]:
        return {
            "WIDTH": rows.width,
            "ATTRACT": self.attract,
            "REPEL": self.weights.repel,
            "SERIES": self.weights.largest_unit > (1024 if self.precision == "bf16" else 16),
            "PRECISION": INPUT_PRECISION[self.precision],
            "DESCRIBED": chip.describes,
            **tiles.constants,
        }


def _operands_in_tiles(
    rows: Side, columns: Side, tiles: Tiles, chip: Chip
) -> tuple[TensorDescriptor | Tensor, TensorDescriptor | Tensor]:
    return (
        in_tiles(rows.operands, chip, 1, tiles.rows, rows.width),
        in_tiles(columns.operands, chip, 1, tiles.columns, columns.width),
    )
