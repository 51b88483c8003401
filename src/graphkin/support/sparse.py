"""A constant sparse matrix. Its product with a dense one has a gradient and needs no extension package."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from graphkin.errors import GraphError

# PyTorch warns once in a process that its CSR layout is in beta and unchecked; a user can do nothing about it.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), check_invariants=False)


def check_compressed(matrix: Any, what: str) -> None:
    """Refuse compressed rows or columns whose parts do not fit together; SciPy's own check lets some pass, and then crashes."""
    if not hasattr(matrix, "indptr"):
        return
    pointers, indices = np.asarray(matrix.indptr), np.asarray(matrix.indices)
    blocks = matrix.blocksize if matrix.format == "bsr" else (1, 1)
    lines, others = (matrix.shape[axis] // blocks[axis] for axis in ((1, 0) if matrix.format == "csc" else (0, 1)))
    whole = len(pointers) == lines + 1 and pointers[0] == 0 and bool((np.diff(pointers) >= 0).all())
    if not whole or pointers[-1] != len(indices) or len(matrix.data) != len(indices):
        raise GraphError(f"{what} must be valid compressed rows: the pointers do not fit the entries.")
    if len(indices) and (indices.min() < 0 or indices.max() >= others):
        raise GraphError(f"{what} must be valid compressed rows with indices 0..{others - 1}, found others.")


class SparseMatrix:
    """A constant matrix in compressed sparse rows.

    ``matrix @ dense`` is differentiable in ``dense``. ``matrix.csr`` is the ``torch.sparse_csr`` tensor,
    ``matrix.to_dense()`` a plain one, and ``matrix.to_scipy()`` SciPy's.
    """

    def __init__(self, csr: Tensor, transposed: Tensor | None = None, turned: _Turned | None = None) -> None:
        self.csr = csr
        self._transposed = transposed
        self._turned = _Turned() if turned is None else turned
        self._places: dict[tuple[int, int, int], tuple[slice, Tensor]] = {}

    def __repr__(self) -> str:
        return f"SparseMatrix({' × '.join(map(str, self.shape))}, {self.values.numel()} entries)"

    @classmethod
    def from_parts(cls, rowptr: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int]) -> SparseMatrix:
        return cls(torch.sparse_csr_tensor(rowptr, col, value, shape, check_invariants=False))

    @classmethod
    def from_scipy(cls, matrix: Any, dtype: torch.dtype = torch.float32) -> SparseMatrix:
        check_compressed(matrix, "a sparse matrix")
        csr = scipy.sparse.csr_matrix(matrix)
        csr.sum_duplicates()
        data = csr.data.astype(np.float64 if csr.dtype == np.longdouble else csr.dtype.newbyteorder("="), copy=False)
        return cls.from_parts(
            torch.from_numpy(csr.indptr.astype(np.int64)),
            torch.from_numpy(csr.indices.astype(np.int64)),
            torch.from_numpy(data).to(dtype),
            csr.shape,
        )

    @classmethod
    def from_dense(cls, dense: Tensor) -> SparseMatrix:
        row, col = dense.nonzero(as_tuple=True)
        counts = torch.bincount(row, minlength=dense.size(0))
        rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return cls.from_parts(rowptr, col, dense[row, col], (dense.size(0), dense.size(1)))

    @property
    def shape(self) -> torch.Size:
        return self.csr.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.csr.dtype

    @property
    def device(self) -> torch.device:
        return self.csr.device

    @property
    def values(self) -> Tensor:
        return self.csr.values()

    @property
    def density(self) -> float:
        """The share of entries that are stored."""
        return self.values.numel() / max(self.shape.numel(), 1)

    @property
    def columns(self) -> Tensor:
        return self.csr.col_indices()

    @property
    def counts(self) -> Tensor:
        """Of the values stored in each row."""
        return self.csr.crow_indices().diff()

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Row pointers, columns and values."""
        return self.csr.crow_indices(), self.columns, self.values

    def counts_of(self, index: Tensor) -> Tensor:
        """``counts[index]``, at the cost of these rows."""
        rowptr = self.csr.crow_indices()
        return rowptr[index + 1] - rowptr[index]

    @property
    def row_of_value(self) -> Tensor:
        """The row of every stored value, in storage order."""
        rowptr = self.csr.crow_indices()
        return torch.repeat_interleave(torch.arange(self.shape[0], device=rowptr.device), rowptr.diff())

    @property
    def T(self) -> SparseMatrix:  # noqa: N802
        if self._transposed is None:
            rowptr, columns, order = self._turned.of(self)
            shape = (self.shape[1], self.shape[0])
            self._transposed = torch.sparse_csr_tensor(rowptr, columns, self.values[order], shape, check_invariants=False)
        return SparseMatrix(self._transposed, self.csr)

    def with_values(self, values: Tensor) -> SparseMatrix:
        """Other values at the same places, which are turned once for all of them."""
        parts = (self.csr.crow_indices(), self.columns, values)
        csr = torch.sparse_csr_tensor(*parts, (self.shape[0], self.shape[1]), check_invariants=False)
        return SparseMatrix(csr, turned=self._turned)

    def scale_rows(self, factors: Tensor) -> SparseMatrix:
        return self.with_values(self.values * factors[self.row_of_value])

    def row_sums(self) -> Tensor:
        return self.values.new_zeros(self.shape[0]).index_add_(0, self.row_of_value, self.values)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> SparseMatrix:
        return SparseMatrix(self.csr.to(device=device, dtype=dtype))

    def short(self) -> SparseMatrix:
        """The same with 32-bit indices where they fit: PyTorch's products on a CPU make them of others at every call."""
        if self.device.type != "cpu" or max(*self.shape, self.values.numel()) > torch.iinfo(torch.int32).max:
            return self
        rowptr, columns, values = self.parts
        return SparseMatrix.from_parts(rowptr.int(), columns.int(), values, (self.shape[0], self.shape[1]))

    def to_dense(self) -> Tensor:
        return self.csr.to_dense()

    def rows(self, index: Tensor) -> Tensor:
        """The chosen rows as a dense block."""
        target, source = self.entries(index)
        block = self.values.new_zeros(index.numel(), self.shape[1])
        block[target, self.columns[source]] = self.values[source]
        return block

    @property
    def longest_row(self) -> int:
        """The most values that a row has."""
        return int(self.counts.max()) if self.shape[0] else 0

    def short_rows(self, index: Tensor, longest: int) -> Tensor:
        """``rows`` of a matrix whose rows have at most ``longest`` values, without waiting for the device."""
        rowptr = self.csr.crow_indices()
        place = rowptr[index][:, None] + torch.arange(longest, device=index.device)
        inside = place < rowptr[index + 1][:, None]
        place = torch.where(inside, place, 0)
        block = self.values.new_zeros(index.numel(), self.shape[1])
        return block.scatter_add_(1, self.columns[place], self.values[place] * inside)

    def some_rows(self, index: Tensor) -> SparseMatrix:
        """The chosen rows as a sparse matrix."""
        _, source = self.entries(index)
        counts = self.counts_of(index)
        rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        shape = (index.numel(), self.shape[1])
        return SparseMatrix.from_parts(rowptr, self.columns[source], self.values[source], shape)

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """The chosen rows and columns as a dense block."""
        columns, again = columns.unique(return_inverse=True)
        place = torch.full((self.shape[1],), -1, device=columns.device)
        place[columns] = torch.arange(columns.numel(), device=columns.device)
        target, source = self.entries(rows)
        column = place[self.columns[source]]
        found = column >= 0
        block = self.values.new_zeros(rows.numel(), columns.numel())
        block[target[found], column[found]] = self.values[source[found]]
        return block[:, again]

    def entries(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """For every stored value of the chosen rows, which of them it is in and where it is stored."""
        rowptr = self.csr.crow_indices()
        start, counts = rowptr[index], self.counts_of(index)
        target = torch.repeat_interleave(torch.arange(index.numel(), device=index.device), counts)
        offset = torch.arange(target.numel(), device=index.device) - (counts.cumsum(0) - counts)[target]
        return target, start[target] + offset

    def add_rows(self, block: Tensor, first: int, last: int, factor: float) -> None:
        """Add ``factor`` times the rows from ``first`` up to ``last`` to a dense block of them, in place.

        The places of the values are found once for rows that come in the same strips again; after that, nothing waits for the
        device.
        """
        step = block.stride(0)
        if (first, last, step) not in self._places:
            if first == 0:
                self._places.clear()
            begin, end = self.csr.crow_indices()[[first, last]].tolist()
            row = self._row_of(begin, end)
            self._places[first, last, step] = slice(begin, end), (row - first) * step + self.columns[begin:end]
        stored, places = self._places[first, last, step]
        flat = block.as_strided((len(block) * step,), (1,))
        flat.index_add_(0, places, self.values[stored], alpha=factor)

    def _row_of(self, begin: int, end: int) -> Tensor:
        """The rows of the stored values from ``begin`` up to ``end``."""
        return torch.searchsorted(self.csr.crow_indices(), torch.arange(begin, end, device=self.device), right=True) - 1

    def row_slice(self, first: int, last: int) -> SparseMatrix:
        """The rows from ``first`` up to ``last``; only their pointers are copied."""
        rowptr = self.csr.crow_indices()[first : last + 1]
        begin, end = int(rowptr[0]), int(rowptr[-1])
        shape = (last - first, self.shape[1])
        return SparseMatrix.from_parts(rowptr - begin, self.columns[begin:end], self.values[begin:end], shape)

    def times(self, other: Tensor | SparseMatrix) -> Tensor:
        """The dense product with a constant, which may be sparse."""
        product: Tensor
        if isinstance(other, Tensor):
            product = torch.sparse.mm(self.csr, other)
            return product
        if self.device.type == "cuda":
            product = torch.sparse.mm(self.csr, other.csr)
            return product.to_dense()
        return torch.from_numpy((self.to_scipy() @ other.to_scipy()).toarray())

    def to_scipy(self) -> Any:
        parts = (self.values.numpy(), self.columns.numpy(), self.csr.crow_indices().numpy())
        return scipy.sparse.csr_matrix(parts, shape=tuple(self.shape))

    def __matmul__(self, dense: Tensor) -> Tensor:
        product: Tensor = _Product.apply(dense, self)  # type: ignore[no-untyped-call]
        return product


class _Turned:
    """The places of a transpose, found when they are first asked for; then a GPU need not be waited for."""

    def __init__(self) -> None:
        self._parts: tuple[Tensor, Tensor, Tensor] | None = None

    def of(self, matrix: SparseMatrix) -> tuple[Tensor, Tensor, Tensor]:
        """Row pointers, columns, and the order of the values."""
        if self._parts is None:
            order = torch.argsort(matrix.columns, stable=True)
            counts = torch.bincount(matrix.columns, minlength=matrix.shape[1])
            self._parts = torch.cat([counts.new_zeros(1), counts.cumsum(0)]), matrix.row_of_value[order], order
        return self._parts


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        product: Tensor = torch.sparse.mm(matrix.csr, dense)
        return product

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return torch.sparse.mm(ctx.matrix.T.csr, grads[0].contiguous()), None
