"""What a similarity is: blocks of node pairs, computed when they are asked for or read from a matrix."""

from __future__ import annotations

import copy
import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Self

import torch
from torch import Tensor

from graphkin.errors import SettingError
from graphkin.support.parallel import peers
from graphkin.support.sparse import SparseMatrix

BLOCK, BLOCK_PAIRS = 1024, 2**26
"""nodes and pairs of nodes that are compared at a time, whichever is less"""
BLOCK_OF_SIMILAR = 128
"""nodes that are compared at a time with the similar nodes of any of them"""
DIGEST_ROWS = 256
"""Rows that are hashed for a similarity that is not stored."""


class NodeSimilarity(ABC):
    """sim(i, j) ≥ 0 for all pairs of ``num_nodes`` nodes.

    A similarity of your own needs ``num_nodes``, ``device`` and :meth:`block`, whose results are finite, at least zero, of
    type ``dtype`` and on ``device``. Say ``symmetric = False`` if sim(i, j) and sim(j, i) differ, and ``dtype`` if it is not
    float32. All else has a default that asks for blocks; override what you can compute faster, such as :meth:`total` or
    :meth:`own`. Tensors that you hold as attributes are moved by :meth:`to`.

    >>> class SameParity(NodeSimilarity):
    ...     num_nodes, device = 4, torch.device("cpu")
    ...
    ...     def block(self, rows, columns=None):
    ...         others = torch.arange(self.num_nodes) if columns is None else columns
    ...         return (rows[:, None] % 2 == others % 2).float()
    >>> SameParity().block(torch.tensor([1]))
    tensor([[0., 1., 0., 1.]])
    """

    num_nodes: int
    device: torch.device
    dtype: torch.dtype = torch.float32
    """Of the blocks."""
    symmetric: bool = True
    """Whether sim(i, j) = sim(j, i), up to rounding."""

    @abstractmethod
    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        """sim(i, j) for i in ``rows`` and j in ``columns`` (all nodes if None): [rows, columns]."""

    def strip(self, first: int, last: int, out: Tensor, columns: Tensor | None = None, factor: float = 1.0) -> None:
        """Write ``factor`` times the block of the nodes from ``first`` up to ``last`` to ``out``."""
        torch.mul(self.block(torch.arange(first, last, device=self.device), columns), factor, out=out)

    def at(self, places: SparseMatrix, rows: Tensor) -> Tensor:
        """sim(i, j) for i in ``rows`` and each j stored in row i of ``places``, in the order of ``places.entries(rows)``."""
        found = [torch.empty(0, dtype=self.dtype, device=self.device)]
        for some in rows.split(BLOCK_OF_SIMILAR):
            row, stored = places.entries(some)
            columns, column = places.columns[stored].unique(return_inverse=True)
            found.append(self.block(some, columns)[row, column])
        return torch.cat(found)

    def own(self, rows: Tensor) -> Tensor:
        """sim(i, i) for i in ``rows``."""
        return torch.cat([self.block(part, part).diagonal() for part in rows.split(BLOCK)])

    def total(self) -> float:
        """Σ sim over all pairs, in float64."""
        return sum(float(self.block(rows).double().sum()) for rows in self.row_blocks())

    def row_blocks(self) -> Iterator[Tensor]:
        yield from self._in_blocks(torch.arange(self.num_nodes, device=self.device))

    def shared_row_blocks(self) -> Iterator[Tensor]:
        """Those of the rows that are this process's share."""
        yield from self._in_blocks(peers().share(torch.arange(self.num_nodes, device=self.device)))

    def _in_blocks(self, rows: Tensor) -> Iterator[Tensor]:
        yield from rows.split(max(min(BLOCK, BLOCK_PAIRS // self.num_nodes), 16)) if len(rows) else ()

    def top(self, count: int) -> Stored:
        """The ``count`` largest of every row, its own included, and of every column: a sparse, symmetric similarity.

        Every row is computed once; no N×N matrix is made.
        """
        keys, values = [], []
        for rows in self.row_blocks():
            largest, columns = self.block(rows).topk(min(count, self.num_nodes), dim=1)
            similar = largest > 0
            row = rows[:, None].expand_as(columns)[similar]
            keys += [row * self.num_nodes + columns[similar], columns[similar] * self.num_nodes + row]
            values += [largest[similar]] * 2
        key, order = torch.cat(keys).sort(stable=True)
        first = torch.ones_like(key, dtype=torch.bool)
        first[1:] = key[1:] != key[:-1]
        key, value = key[first], torch.cat(values)[order][first]
        rowptr = torch.searchsorted(key // self.num_nodes, torch.arange(self.num_nodes + 1, device=self.device))
        matrix = SparseMatrix.from_parts(rowptr, key % self.num_nodes, value, (self.num_nodes, self.num_nodes))
        return Stored(matrix, symmetric=True)

    def stored(self, dtype: torch.dtype | None = None) -> Stored:
        """The same similarity as one N×N matrix, for graphs where that fits; ``torch.bfloat16`` halves the matrix."""
        matrix = aligned_empty(self.num_nodes, self.num_nodes, dtype or self.dtype, self.device)
        for rows in self.shared_row_blocks():
            matrix[rows] = self.block(rows).to(matrix.dtype)
        return Stored(peers().complete(matrix), self.symmetric)

    def to(self, device: torch.device | str) -> Self:
        """The same similarity on another device. Moves every tensor, sparse matrix and similarity among its attributes."""
        device = torch.empty(0, device=device).device  # "cuda" is "cuda:0"
        if device == self.device:
            return self
        moved = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor) and value.dim() == 2 and is_aligned(value):
                setattr(moved, name, aligned_copy(value, device))
            elif isinstance(value, Tensor | SparseMatrix | NodeSimilarity):
                setattr(moved, name, value.to(device))
        moved.device = device
        return moved

    def is_indicator(self) -> bool:
        """Whether every value is 0 or 1."""
        return all(bool(((block == 0) | (block == 1)).all()) for block in map(self.block, self.row_blocks()))

    def digest(self) -> str:
        """A hash of the similarity's content: of the rows of up to 256 evenly spaced nodes, as float32."""
        nodes = torch.linspace(0, self.num_nodes - 1, min(self.num_nodes, DIGEST_ROWS), dtype=torch.float64).long()
        return _digest([str(self.num_nodes)], (self.block(rows).float() for rows in nodes.to(self.device).split(16)))


class Stored(NodeSimilarity):
    """A similarity that is stored as a matrix: a user's own, or one computed before."""

    def __init__(self, matrix: Tensor | SparseMatrix, symmetric: bool | None = None, total: float | None = None) -> None:
        """``total`` is the sum that counts where the matrix holds a part of it."""
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
            raise SettingError(f"a similarity matrix must be square, found shape {tuple(matrix.shape)}.")
        values = matrix.values if isinstance(matrix, SparseMatrix) else matrix
        smallest, largest = _range(values) if values.numel() else (0.0, 0.0)
        if not (math.isfinite(smallest) and math.isfinite(largest)):
            raise SettingError("a similarity matrix must be finite, found NaN or infinite entries.")
        if smallest < 0:
            matrix = matrix.with_values(values.clamp(min=0)) if isinstance(matrix, SparseMatrix) else matrix.clamp(min=0)
        self.matrix = matrix
        self.num_nodes, self.device = matrix.shape[0], matrix.device
        self.dtype = matrix.dtype if matrix.dtype.itemsize >= 4 else torch.float32
        self.symmetric = _is_symmetric(matrix) if symmetric is None else symmetric
        self._total = total

    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        if isinstance(self.matrix, SparseMatrix):
            return self.matrix.rows(rows) if columns is None else self.matrix.block(rows, columns)
        return (self.matrix[rows] if columns is None else self.matrix[rows][:, columns]).to(self.dtype)

    def strip(self, first: int, last: int, out: Tensor, columns: Tensor | None = None, factor: float = 1.0) -> None:
        if columns is None and isinstance(self.matrix, SparseMatrix):
            self.matrix.add_rows(out.zero_(), first, last, factor)
        else:
            super().strip(first, last, out, columns, factor)

    def at(self, places: SparseMatrix, rows: Tensor) -> Tensor:
        if places is not self.matrix:
            return super().at(places, rows)
        return places.values[places.entries(rows)[1]].to(self.dtype)

    def total(self) -> float:
        if self._total is not None:
            return self._total
        return float(self.matrix.values.double().sum()) if isinstance(self.matrix, SparseMatrix) else super().total()

    def stored(self, dtype: torch.dtype | None = None) -> Stored:
        dense = self.matrix.to_dense() if isinstance(self.matrix, SparseMatrix) else self.matrix
        dtype = dtype or dense.dtype
        if dense is self.matrix and dtype == dense.dtype and is_aligned(dense):
            return self
        return Stored(aligned_copy(dense, self.device, dtype), self.symmetric)

    def is_indicator(self) -> bool:
        values = self.matrix.values if isinstance(self.matrix, SparseMatrix) else self.matrix
        return bool(((values == 0) | (values == 1)).all())

    def digest(self) -> str:
        """A hash of the whole matrix."""
        known = [str(tuple(self.matrix.shape)), str(self.matrix.dtype)]
        if isinstance(self.matrix, SparseMatrix):
            parts: Iterable[Tensor] = (self.matrix.csr.crow_indices(), self.matrix.columns, self.matrix.values)
        else:
            parts = self.matrix.split(BLOCK)
        return _digest(known, parts)


def _range(values: Tensor) -> tuple[float, float]:
    """The smallest and the largest, some rows at a time: PyTorch copies rows that do not lie one behind the other."""
    parts = values.split(BLOCK) if values.dim() == 2 else [values]
    ends = torch.stack([torch.stack(part.aminmax()) for part in parts])
    return float(ends[:, 0].min()), float(ends[:, 1].max())


def _digest(words: Iterable[str], parts: Iterable[Tensor]) -> str:
    found = hashlib.sha256("\n".join(words).encode())
    for part in parts:
        found.update(part.cpu().contiguous().view(torch.uint8).numpy().data)
    return found.hexdigest()


def aligned_copy(matrix: Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    return aligned_empty(matrix.size(0), matrix.size(1), dtype or matrix.dtype, device).copy_(matrix)


def aligned_empty(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """An empty matrix whose rows begin at multiples of 16 bytes, as a GPU's copy engine and fastest products ask for."""
    return torch.empty(rows, -(-columns // 16) * 16, dtype=dtype, device=device)[:, :columns]


def aligned_rows(matrix: Tensor, rows: Tensor) -> Tensor:
    """Some rows of a matrix, in an aligned one; rows that lie behind each other without a gap are copied fastest."""
    (count, columns), step = matrix.shape, matrix.stride(0)
    there = matrix.untyped_storage().nbytes() // matrix.element_size() - matrix.storage_offset()
    if is_aligned(matrix) and columns <= step and count * step <= there:
        return matrix.as_strided((count, step), (step, 1)).index_select(0, rows)[:, :columns]
    chosen = aligned_empty(rows.numel(), columns, matrix.dtype, matrix.device)
    return torch.index_select(matrix, 0, rows, out=chosen)


def is_aligned(matrix: Tensor) -> bool:
    step, inner = matrix.stride()
    return inner == 1 and step * matrix.element_size() % 16 == 0 and matrix.data_ptr() % 16 == 0


def _is_symmetric(matrix: Tensor | SparseMatrix) -> bool:
    """Up to the rounding of float32."""
    if isinstance(matrix, SparseMatrix):
        one, other = matrix.csr, matrix.T.csr
        same_places = torch.equal(one.crow_indices(), other.crow_indices()) and torch.equal(
            one.col_indices(), other.col_indices()
        )
        return same_places and torch.allclose(one.values(), other.values(), rtol=1e-5, atol=0)
    noise = 1e-7 * float(matrix.amax())
    return all(
        torch.allclose(matrix[rows], matrix[:, rows].T, rtol=1e-5, atol=noise)
        for rows in (slice(first, first + BLOCK) for first in range(0, len(matrix), BLOCK))
    )
