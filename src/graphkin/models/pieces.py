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
from itertools import chain
from typing import cast

import torch
from torch import Tensor

from graphkin.errors import SettingError, shown
from graphkin.graphs.adjacency import normalised_adjacency
from graphkin.graphs.arrays import Features
from graphkin.graphs.diffusion import REST, REST_OF_ROUNDED, column_blocks, pagerank_diffusions, powers, unit_length
from graphkin.graphs.graph import Graph
from graphkin.models.columns import fill_columns
from graphkin.support.axes import principal_axes, simple_axes
from graphkin.support.mapped import empty
from graphkin.support.parallel import ALONE, Peers
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
    """Several kinds of features of the same nodes, by name.

    Of several processes, ``among``, each may hold its share of the rows. ``lengths`` are the numbers of values that sparse
    features have in the rows of all ``nodes``, whoever holds them.
    """

    def __init__(
        self,
        parts: Mapping[str, Features],
        nodes: int | None = None,
        among: Peers = ALONE,
        lengths: Tensor | None = None,
    ) -> None:
        self.parts = dict(parts)
        self.nodes = len(self) if nodes is None else nodes
        self.among, self.lengths = among, lengths
        self.first, self.last = among.bounds(self.nodes)

    def __getitem__(self, name: str) -> Features:
        return self.parts[name]

    def __len__(self) -> int:
        return int(next(iter(self.parts.values())).shape[0])

    @property
    def device(self) -> torch.device:
        return next(iter(self.parts.values())).device

    @property
    def density(self) -> float | None:
        """The share of values that sparse features have in the rows of all nodes; None for dense features."""
        if self.lengths is None:
            return None
        return int(self.lengths.sum()) / max(self.nodes * self.parts[FEATURES].shape[1], 1)

    def mapped(self, function: Callable[[Features], Features]) -> Pieces:
        parts = {name: function(part) for name, part in self.parts.items()}
        return Pieces(parts, self.nodes, self.among, self.lengths)

    def some_rows(self, places: Tensor) -> Pieces:
        """Those at some places among the rows that are here."""
        return Pieces({name: some_rows(part, places) for name, part in self.parts.items()})

    def holds(self, nodes: Tensor) -> Tensor:
        """For each of some nodes, whether its row is here: at the place of the node's number less ``first``."""
        return (nodes >= self.first) & (nodes < self.last)


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


def _size(columns: Tensor) -> Tensor:
    return columns.square().mean(dim=0).sqrt()


def mean_length(x: Features) -> Tensor:
    """Of the rows [1]; 1 where all are zero."""
    found = _dense(x).norm(dim=1).mean().reshape(1)
    return torch.where(found > 0, found, 1)


def column_statistics(graph: Graph, x: Features, names: Iterable[str], length: Tensor) -> tuple[Tensor, Tensor]:
    """For each of the pieces in the order of their names, what :func:`pieces_of` takes as ``centre`` and ``scale`` [pieces, F].

    They give columns of mean 0, and rows whose mean square is 1 where all columns differ. One that does not differ is zero.
    """
    rows, wanted = _dense(x) / length, sorted(set(names))
    centre, scale = rows.new_zeros(2, len(wanted), rows.size(1))
    adjacency = _adjacency(graph).short()
    smoothed = [name for name in wanted if name != FEATURES]
    for first, block in column_blocks(rows):
        columns, own = slice(first, first + block.size(1)), [(FEATURES, block)] if FEATURES in wanted else []
        for name, found in chain(own, _smoothed_columns(adjacency, block, smoothed)):
            deviation, mean = torch.std_mean(found, dim=0, correction=0)
            differs = deviation > ROUNDING * torch.maximum(_size(found), _size(block))
            place = wanted.index(name)
            centre[place, columns] = mean
            scale[place, columns] = torch.where(differs, 1 / (deviation * rows.size(1) ** 0.5), 0)
    return centre, scale


def pieces_of(
    graph: Graph,
    x: Features,
    names: Iterable[str],
    basis: Tensor | None = None,
    length: Tensor | None = None,
    centre: Tensor | None = None,
    scale: Tensor | None = None,
    among: Peers = ALONE,
) -> Pieces:
    """The named pieces of a graph's features ``x``. With a ``length``, rows keep theirs, which that one divides.

    ``centre`` is then taken off the columns of every piece, and ``scale`` stretches them. Processes ``among`` which rows are
    shared out call it together.
    """
    x = unit_length(x) if length is None else _dense(x) / length
    wanted = sorted(set(names))
    parts: dict[str, Features] = {FEATURES: _own_rows(x, among)} if FEATURES in wanted else {}
    smoothed = [name for name in wanted if name != FEATURES]
    if smoothed:
        turned = x if basis is None else x @ basis
        parts |= _smoothed(_adjacency(graph), turned, smoothed, among, unit=length is None, rounds=centre is None)
    lengths = x.counts if FEATURES in parts and isinstance(x, SparseMatrix) else None
    if centre is not None and scale is not None:
        for name, mean, factor in zip(wanted, centre, scale, strict=True):
            cast(Tensor, parts[name]).sub_(mean).mul_(factor)
    return Pieces({name: parts[name] for name in wanted}, graph.num_nodes, among, lengths)


def some_rows(x: Features, places: Tensor) -> Features:
    return x.some_rows(places) if isinstance(x, SparseMatrix) else x[places]


def stored_as(numbers: int) -> torch.dtype:
    """How so many smoothed features are kept."""
    return torch.float32 if numbers <= EXACT_UP_TO else torch.bfloat16


def _smoothed(
    adjacency: SparseMatrix, x: Features, names: list[str], among: Peers, *, unit: bool, rounds: bool
) -> dict[str, Tensor]:
    """This process's rows; with ``unit``, they have length 1. Many are kept in bf16 where it ``rounds``."""
    kept = stored_as(x.shape[0] * x.shape[1]) if rounds and x.dtype == torch.float32 else x.dtype
    first, last = among.bounds(x.shape[0])
    found = {name: empty(last - first, x.shape[1], kept, x.device) for name in names}
    rest = REST_OF_ROUNDED if kept == torch.bfloat16 else REST
    adjacency = adjacency.short()
    fill_columns(found, x, lambda columns: _smoothed_columns(adjacency, columns, names, rest), among)
    for name, piece in found.items():
        for rows in piece.split(ROWS):
            values = rows.to(x.dtype)
            if name == HIGH_PASS:
                values = values.masked_fill(values.norm(dim=1, keepdim=True) < ROUNDING, 0)
            rows.copy_(unit_length(values) if unit else values)
    return found


def _own_rows(x: Features, among: Peers) -> Features:
    if among.size == 1:
        return x
    first, last = among.bounds(x.shape[0])
    return x.row_slice(first, last) if isinstance(x, SparseMatrix) else x[first:last].clone()


def _smoothed_columns(adjacency: SparseMatrix, x: Tensor, names: list[str], rest: float = REST) -> Iterator[tuple[str, Tensor]]:
    matches = [(name, NAME.fullmatch(name)) for name in names]
    hops = {name: int(match["hops"]) for name, match in matches if match and match["hops"]}
    yield from zip(hops, cast(list[Tensor], powers(adjacency, x, hops.values())), strict=True)
    alphas = {name: float(match["alpha"]) for name, match in matches if match and match["alpha"]}
    if alphas:
        yield from zip(alphas, pagerank_diffusions(adjacency, x, list(alphas.values()), rest), strict=True)
    if HIGH_PASS in names:
        yield HIGH_PASS, x - adjacency @ x


def _adjacency(graph: Graph) -> SparseMatrix:
    return normalised_adjacency(graph.edge_index, graph.num_nodes, self_loops=True, edge_weight=graph.edge_weight)


def _dense(x: Features) -> Tensor:
    return x.to_dense() if isinstance(x, SparseMatrix) else x
