"""Similarity of content, the cosine of features, and its blend with that of structure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import torch
from torch import Tensor

from graphkin.errors import SettingError, check_range
from graphkin.graphs.arrays import Features, inverse, largest_of_rows, length_of_rows, smallest_entry
from graphkin.similarity.blocks import BLOCK, NodeSimilarity, Stored
from graphkin.support.sparse import SparseMatrix

SUMMED_BELOW, SAMPLED_NODES = 50_000, 4096
"""Up to so many nodes clipped cosines are all added up; beyond, so many nodes are compared with as many others."""
NUMBERS = 2**22
"""in rows of features that are multiplied pair by pair, at a time"""
DENSE_BELOW_BYTES = 2**30
"""Sparse features that take less than this as a dense matrix are one on a GPU, which multiplies it many times faster."""


def is_dense_on(device: torch.device, x: Features) -> bool:
    """Whether features are multiplied as a dense matrix there."""
    return isinstance(x, Tensor) or (device.type == "cuda" and 4 * x.shape[0] * x.shape[1] <= DENSE_BELOW_BYTES)


class FeatureCosine(NodeSimilarity):
    """cos(x_i, x_j), clipped at zero; a row of zeros is similar to nothing."""

    def __init__(self, x: Features) -> None:
        self.num_nodes, self.device, self.dtype = x.shape[0], x.device, x.dtype
        self.non_negative = smallest_entry(x) >= 0
        if isinstance(x, SparseMatrix) and is_dense_on(x.device, x):
            x = x.to_dense()
        for size in (largest_of_rows, length_of_rows):  # first the largest entry, so that no square overflows
            scale = inverse(size(x))
            x = x.scale_rows(scale) if isinstance(x, SparseMatrix) else x * scale[:, None]
        self.unit: Features = x

    def to(self, device: torch.device | str) -> Self:
        moved = super().to(device)
        if isinstance(moved.unit, SparseMatrix) and is_dense_on(moved.device, moved.unit):
            moved.unit = moved.unit.to_dense()
        return moved

    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        if isinstance(self.unit, SparseMatrix):
            if columns is None:
                return (self.unit @ self.unit.rows(rows).T).T.clamp(min=0)
            return (self.unit.rows(rows) @ self.unit.rows(columns).T).clamp(min=0)
        others = self.unit if columns is None else self.unit[columns]
        return (self.unit[rows] @ others.T).clamp(min=0)

    def at(self, places: SparseMatrix, rows: Tensor) -> Tensor:
        if isinstance(self.unit, SparseMatrix):
            return super().at(places, rows) if self.device.type != "cpu" else self._at_by_loops(self.unit, places, rows)
        row, stored = places.entries(rows)
        pairs = torch.stack([rows[row], places.columns[stored]]).split(NUMBERS // max(self.unit.size(1), 1) + 1, dim=1)
        return torch.cat([(self.unit[i] * self.unit[j]).sum(dim=1) for i, j in pairs]).clamp_(min=0)

    def _at_by_loops(self, unit: SparseMatrix, places: SparseMatrix, rows: Tensor) -> Tensor:
        from graphkin.similarity.feature_loops import products

        found = torch.empty(int(places.counts_of(rows).sum()), dtype=self.dtype)
        there, features = ([part.numpy() for part in matrix.parts] for matrix in (places, unit))
        products(rows.numpy(), *there[:2], *features, unit.shape[1], found.numpy(), torch.get_num_threads())
        return found.clamp_(min=0)

    def strip(self, first: int, last: int, out: Tensor, columns: Tensor | None = None, factor: float = 1.0) -> None:
        if isinstance(self.unit, SparseMatrix):
            super().strip(first, last, out, columns, factor)
        else:
            others = self.unit if columns is None else self.unit[columns]
            torch.addmm(out, self.unit[first:last], others.T, beta=0, alpha=factor, out=out)
            if not self.non_negative:
                out.clamp_(min=0)

    def total(self) -> float:
        r""":math:`\sum_{ij} \cos(x_i, x_j) = \|\sum_i x_i / \|x_i\|\|^2` when nothing had to be clipped."""
        if not self.non_negative:
            return super().total() if self.num_nodes <= SUMMED_BELOW else self._estimated_total()
        ones = torch.ones(self.num_nodes, 1, dtype=self.unit.dtype, device=self.device)
        summed = self.unit.T @ ones
        return float(summed.double().square().sum())

    def _estimated_total(self) -> float:
        """From the pairs of two samples of nodes; a node with itself counts on its own."""
        draw = torch.Generator().manual_seed(0)
        rows, columns = (torch.randint(self.num_nodes, (SAMPLED_NODES,), generator=draw).to(self.device) for _ in range(2))
        own = rows[:, None] == columns
        others = sum(float(self.block(part, columns).masked_fill(own[place], 0).double().sum()) for place, part in _parts(rows))
        share = others / (own.numel() - int(own.sum()))
        ones = float((length_of_rows(self.unit) > 0).sum())
        return ones + share * self.num_nodes * (self.num_nodes - 1)


class Blend(NodeSimilarity):
    r""":math:`βγ\,\mathrm{sim}_F + (1-β)\,\mathrm{sim}_G` with :math:`γ = Σ\,\mathrm{sim}_G / Σ\,\mathrm{sim}_F`."""

    def __init__(self, structure: NodeSimilarity, features: NodeSimilarity, beta: float) -> None:
        check_range("beta", beta, at_least=0, at_most=1)
        self.symmetric = structure.symmetric and features.symmetric
        self.structure, self.features, self.beta = structure, features, beta
        self.num_nodes, self.device, self.dtype = structure.num_nodes, structure.device, features.dtype
        feature_total = features.total()
        if feature_total <= 0:
            raise SettingError(
                f"beta must be 0 when no two nodes have similar features (all feature rows are zero), found {beta}."
            )
        self.gamma = structure.total() / feature_total

    def block(self, rows: Tensor, columns: Tensor | None = None) -> Tensor:
        content = self.features.block(rows, columns).mul_(self.beta * self.gamma)
        return content if self.beta == 1 else content.add_(self.structure.block(rows, columns), alpha=1 - self.beta)

    def at(self, places: SparseMatrix, rows: Tensor) -> Tensor:
        content = self.features.at(places, rows).mul_(self.beta * self.gamma)
        return content if self.beta == 1 else content.add_(self.structure.at(places, rows), alpha=1 - self.beta)

    def strip(self, first: int, last: int, out: Tensor, columns: Tensor | None = None, factor: float = 1.0) -> None:
        self.features.strip(first, last, out, columns, factor * self.beta * self.gamma)
        if self.beta == 1:
            return
        share = factor * (1 - self.beta)
        if columns is None and isinstance(self.structure, Stored) and isinstance(self.structure.matrix, SparseMatrix):
            self.structure.matrix.add_rows(out, first, last, share)
        else:
            out.add_(self.structure.block(torch.arange(first, last, device=self.device), columns), alpha=share)


def _parts(rows: Tensor) -> Iterator[tuple[slice, Tensor]]:
    for first in range(0, len(rows), BLOCK):
        yield slice(first, first + BLOCK), rows[first : first + BLOCK]
