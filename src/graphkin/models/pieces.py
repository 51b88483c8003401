"""Features as they are, and smoothed over the graph: what branches take, and what needs no training.

A piece has a name: "x" are the features, "hop2" is Â²x, "ppr0.1" is PageRank diffusion with restart probability 0.1, "high" is
x − Âx, in which a node differs from its neighbours. Rows of every piece have length 1, unless they are to keep their lengths.

More features than ``axes`` are turned to the principal axes of Â²x before they are smoothed, which then costs edges times axes.
Within their space the axes are turned once more, until each is about few features: dropout then takes topics from a node, as it
takes words from one whose features stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor

from graphkin.errors import SettingError, shown
from graphkin.graphs.adjacency import normalised_adjacency
from graphkin.graphs.arrays import Features
from graphkin.graphs.diffusion import column_blocks, pagerank_diffusions, powers, unit_length
from graphkin.graphs.graph import Graph
from graphkin.support.axes import principal_axes, simple_axes
from graphkin.support.sparse import SparseMatrix

FEATURES = "x"
HIGH_PASS = "high"
NAME = re.compile(r"x|high|hop(?P<hops>[1-9]\d?)|ppr(?P<alpha>0?\.\d+)", re.ASCII)
ROUNDING = 1e-5
"""A difference of rows of length 1 that is shorter is none."""
SMALLEST_RESTART = 0.001
"""With less, diffusion takes thousands of steps."""
EXACT_UP_TO = 2**27
"""numbers of a smoothed piece that are kept in float32; more of them are rounded to bf16, in half the memory"""
ROWS = 2**16
"""that are scaled at a time"""


class Pieces:
    """Several kinds of features of the same nodes, by name."""

    def __init__(self, parts: Mapping[str, Features]) -> None:
        self.parts = dict(parts)

    def __getitem__(self, name: str) -> Features:
        return self.parts[name]

    def __len__(self) -> int:
        return int(next(iter(self.parts.values())).shape[0])

    @property
    def device(self) -> torch.device:
        return next(iter(self.parts.values())).device

    def mapped(self, function: Callable[[Features], Features]) -> Pieces:
        return Pieces({name: function(part) for name, part in self.parts.items()})


def check_piece(name: str) -> None:
    found = NAME.fullmatch(name) if isinstance(name, str) else None
    if found is None or (found["alpha"] is not None and float(found["alpha"]) < SMALLEST_RESTART):
        raise SettingError(
            f"smoothed features must be x, high, hop1 to hop99, or ppr with a share from {SMALLEST_RESTART} on such as ppr0.1, "
            f"found {shown(name)}."
        )


def width_of_piece(name: str, num_features: int, axes: int) -> int:
    return num_features if name == FEATURES else min(num_features, axes)


def basis_of(graph: Graph, x: Features, axes: int) -> Tensor:
    """Turns features [F, axes] for smoothing; only where there are more of them than ``axes``."""
    adjacency, x = _adjacency(graph), unit_length(x)
    turned = x.T

    def gram(directions: Tensor) -> Tensor:
        rows = x @ directions
        for _ in range(4):
            rows = adjacency @ rows
        return turned @ rows

    return simple_axes(principal_axes(gram, x.shape[1], axes, x.device))


def mean_length(x: Features) -> Tensor:
    """Of the rows [1]; 1 where all are zero."""
    found = _dense(x).norm(dim=1).mean().reshape(1)
    return torch.where(found > 0, found, 1)


def pieces_of(
    graph: Graph, x: Features, names: Iterable[str], basis: Tensor | None = None, length: Tensor | None = None
) -> Pieces:
    """The named pieces of a graph's features ``x``. With a ``length``, rows keep theirs, which that one divides."""
    x = unit_length(x) if length is None else _dense(x) / length
    wanted = sorted(set(names))
    parts: dict[str, Features] = {FEATURES: x} if FEATURES in wanted else {}
    smoothed = [name for name in wanted if name != FEATURES]
    if smoothed:
        parts |= _smoothed(_adjacency(graph), x if basis is None else x @ basis, smoothed, unit=length is None)
    return Pieces({name: parts[name] for name in wanted})


def stored_as(numbers: int) -> torch.dtype:
    """How so many smoothed features are kept."""
    return torch.float32 if numbers <= EXACT_UP_TO else torch.bfloat16


def _smoothed(adjacency: SparseMatrix, x: Features, names: list[str], *, unit: bool) -> dict[str, Tensor]:
    """Some columns at a time, so that little more than the result is held; with ``unit``, rows have length 1."""
    kept = stored_as(x.shape[0] * x.shape[1]) if x.dtype == torch.float32 else x.dtype
    found = {name: torch.empty(x.shape[0], x.shape[1], dtype=kept, device=x.device) for name in names}
    for first, block in column_blocks(x):
        for name, columns in _smoothed_columns(adjacency, block, names):
            assert isinstance(columns, Tensor)
            found[name][:, first : first + block.size(1)] = columns
    for name, piece in found.items():
        for rows in piece.split(ROWS):
            values = rows.to(x.dtype)
            if name == HIGH_PASS:
                values = values.masked_fill(values.norm(dim=1, keepdim=True) < ROUNDING, 0)
            rows.copy_(unit_length(values) if unit else values)
    return found


def in_columns(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Replace columns by a function of them, some at a time, computed in float32 where ``x`` is bf16."""
    for first, block in column_blocks(x):
        x[:, first : first + block.size(1)] = function(block.float())
    return x


def _smoothed_columns(adjacency: SparseMatrix, x: Tensor, names: list[str]) -> Iterator[tuple[str, Features]]:
    matches = [(name, NAME.fullmatch(name)) for name in names]
    hops = {name: int(match["hops"]) for name, match in matches if match and match["hops"]}
    yield from zip(hops, powers(adjacency, x, hops.values()), strict=True)
    alphas = {name: float(match["alpha"]) for name, match in matches if match and match["alpha"]}
    if alphas:
        yield from zip(alphas, pagerank_diffusions(adjacency, x, list(alphas.values())), strict=True)
    if HIGH_PASS in names:
        yield HIGH_PASS, x - adjacency @ x


def _adjacency(graph: Graph) -> SparseMatrix:
    return normalised_adjacency(graph.edge_index, graph.num_nodes, self_loops=True, edge_weight=graph.edge_weight)


def _dense(x: Features) -> Tensor:
    return x.to_dense() if isinstance(x, SparseMatrix) else x
