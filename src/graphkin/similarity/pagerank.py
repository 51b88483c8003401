r"""The largest PageRanks of every node, without N×N work (docs/math.md, section 2).

PageRank from node i spreads along edges. With weighted degrees d, all amounts here are divided by the degree of the node that
holds them, so that one threshold θ serves all nodes: what is at most θ is not spread further. Because d is stationary under the
walk, a rest of at most θ everywhere can add at most θ d_j to node j, and so

.. math:: 0 ≤ P_{ij} - \tilde P_{ij} ≤ ε \sqrt{d_i d_j}

with θ = ε / (1−α) for the exact P, and θ = ε / (K (1−α)) for K steps, in each of which a rest may be left behind.
The work for a node is at most about 1 / (α θ) edges, whatever the size of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from torch import Tensor

from graphkin.errors import OutputError, check_range, check_whole
from graphkin.support.files import check_writable, read_arrays, reading, write_whole
from graphkin.support.parallel import peers

SMALLEST_ALPHA = 1e-3
"""of exact PageRanks: pushing takes at most 1/(αθ) edges"""
SMALLEST = 2e-45
"""a float32 above zero: what has arrived at a node that was visited is not zero, however little it was"""
NODES_AT_A_TIME = 2**16
"""that are finished together, and kept together on disk"""


class Walk(NamedTuple):
    """A graph as the kernels take it; a self loop is no edge here, but part of the degree."""

    rowptr: np.ndarray
    columns: np.ndarray
    passed: np.ndarray
    """what an edge passes on of a unit at its source, divided by the degree of its target: (1−α) w / d [E]"""
    kept: np.ndarray
    """what a self loop keeps of a unit: (1−α) / d [N]"""
    root: np.ndarray
    """√d [N]"""


class Rows(NamedTuple):
    """The largest entries of every row, in increasing order of columns; −1 where a row has fewer [N, k]."""

    columns: np.ndarray
    values: np.ndarray


def top_pagerank(
    edge_index: Tensor,
    num_nodes: int,
    k: int,
    *,
    alpha: float = 0.1,
    steps: int | None = None,
    self_loops: bool = True,
    edge_weight: Tensor | None = None,
    error: float = 1e-4,
    nodes: Tensor | None = None,
    keep: Path | None = None,
    say: Callable[[int], None] = lambda nodes: None,
) -> Rows:
    r"""``PageRank(...).block(nodes).topk(k)``, each entry too small by at most ``error`` :math:`\sqrt{d_i d_j}`.

    ``edge_index`` holds every edge in both directions, sorted by source. ``steps=None`` is the exact PageRank, ``nodes=None``
    are all nodes.
    With a folder ``keep``, finished nodes are kept there, and the same call goes on where a killed one stopped.
    """
    if steps is None:
        check_range("alpha", alpha, at_least=SMALLEST_ALPHA, below=1)
    else:
        check_range("alpha", alpha, above=0, below=1)
    check_range("pagerank_error", error, above=0)
    check_whole("k", k, at_least=1)
    k = min(k, num_nodes)
    walk = _walk(edge_index, num_nodes, alpha, self_loops, edge_weight)
    starts = np.arange(num_nodes, dtype=np.int32) if nodes is None else nodes.cpu().numpy().astype(np.int32)
    rows = _empty_rows(len(starts), k)
    threshold = error / (1 - alpha) / (1 if steps is None else steps)
    kept = None if keep is None else _Kept(keep, walk, (k, alpha, steps or 0, self_loops, error, starts.sum(dtype=np.int64)))
    threads = min(torch.get_num_threads(), numba.get_num_threads())
    for first in range(0, len(starts), NODES_AT_A_TIME):
        last = min(first + NODES_AT_A_TIME, len(starts))
        part = Rows(rows.columns[first:last], rows.values[first:last])
        if kept is None or not kept.read(first, part):
            if steps is None:
                _push(walk, starts[first:last], alpha, threshold, part.columns, part.values, threads)
            else:
                _step(walk, starts[first:last], alpha, threshold, steps, part.columns, part.values, threads)
            if kept is not None:
                kept.write(first, part)
        say(last)
    return rows


def cosine_rows(rows: Rows, k: int, nodes: Tensor | None = None) -> Rows:
    """The ``k`` largest cosines between rows, as far as their entries were kept; those of ``nodes`` (None: of all)."""
    num_nodes = len(rows.columns)
    k = min(k, num_nodes)
    starts = np.arange(num_nodes, dtype=np.int32) if nodes is None else nodes.cpu().numpy().astype(np.int32)
    length = np.sqrt(np.square(rows.values, dtype=np.float64).sum(axis=1))
    unit = rows.values / np.maximum(length, 1e-30)[:, None].astype(np.float32)
    rowptr, sources, values = _transposed(rows.columns, unit)
    found = _empty_rows(len(starts), k)
    _cosines(starts, rows.columns, unit, rowptr, sources, values, found.columns, found.values, torch.get_num_threads())
    return found


def gathered_rows(mine: Rows, num_nodes: int) -> Rows:
    """The rows of all nodes, from the shares of all processes."""
    columns, values = (peers().gather(torch.from_numpy(part), num_nodes).numpy() for part in mine)
    return Rows(columns, values)


def symmetric_csr(rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compressed rows with every entry in both places, the larger value where both were found."""
    rowptr, sources, values = _transposed(rows.columns, rows.values)
    sizes = _merged_sizes(rows.columns, rowptr, sources)
    merged = np.concatenate([[0], np.cumsum(sizes)])
    columns, entries = np.empty(merged[-1], np.int64), np.empty(merged[-1], np.float32)
    _merge(rows.columns, rows.values, rowptr, sources, values, merged, columns, entries)
    return merged, columns, entries


def _empty_rows(count: int, k: int) -> Rows:
    return Rows(np.full((count, k), -1, np.int32), np.zeros((count, k), np.float32))


def _walk(edge_index: Tensor, num_nodes: int, alpha: float, self_loops: bool, edge_weight: Tensor | None) -> Walk:
    source, target = edge_index.cpu()
    rowptr = torch.searchsorted(source, torch.arange(num_nodes + 1)).numpy()
    weight = None if edge_weight is None else edge_weight.double().cpu().numpy()
    degree = np.diff(rowptr).astype(np.float64) if weight is None else np.bincount(source.numpy(), weight, num_nodes)
    degree += self_loops
    inverse = np.divide(1 - alpha, degree, out=np.zeros_like(degree), where=degree > 0)
    columns = target.numpy().astype(np.int32)
    passed = inverse.astype(np.float32)[columns] if weight is None else (inverse[columns] * weight).astype(np.float32)
    return Walk(rowptr, columns, passed, (inverse * self_loops).astype(np.float32), np.sqrt(degree).astype(np.float32))


class _Kept:
    """Finished parts in a folder, each whole or not there; what another graph or other settings left is not used."""

    def __init__(self, folder: Path, walk: Walk, settings: tuple[Any, ...]) -> None:
        check_writable(folder)
        self.folder, self.num_nodes = folder, len(walk.root)
        edges = [len(walk.root), len(walk.columns), walk.passed.sum(dtype=np.float64), walk.columns.sum(dtype=np.int64)]
        self.identity = np.array([*edges, *settings], np.float64)

    def read(self, first: int, part: Rows) -> bool:
        path = self._path(first)
        if not path.exists():
            return False
        with reading(path, "is no part of a PageRank, or is damaged: remove it to start anew", OutputError):
            found = read_arrays(path)
            if not np.array_equal(found["identity"], self.identity):
                raise OutputError(f"{path} is of another graph or of other settings: remove it to start anew.")
            for name, rows in part._asdict().items():
                if found[name].shape != rows.shape or found[name].dtype != rows.dtype:
                    raise ValueError(f"its {name} are {found[name].dtype} of shape {found[name].shape}")
            self._check_entries(found["columns"], found["values"])
            part.columns[:], part.values[:] = found["columns"], found["values"]
        return True

    def _check_entries(self, columns: np.ndarray, values: np.ndarray) -> None:
        """What the compiled loops rely on: nodes in increasing order, then −1."""
        after, before = columns[:, 1:], columns[:, :-1]
        ordered = bool((((after > before) & (before >= 0)) | (after == -1)).all())
        if columns.min() < -1 or columns.max() >= self.num_nodes or not ordered or not np.isfinite(values).all():
            raise ValueError("its entries are not those of a PageRank")

    def write(self, first: int, part: Rows) -> None:
        def write(file: Path) -> None:
            with file.open("wb") as stream:
                np.savez(stream, identity=self.identity, columns=part.columns, values=part.values)

        write_whole(self._path(first), write)

    def _path(self, first: int) -> Path:
        return self.folder / f"pagerank-{first}.npz"


def _compiled(parallel=False):
    """Compiled once for all processes, or in each of them where nothing can be kept on disk."""

    def compiled(function):
        try:
            return numba.njit(parallel=parallel, cache=True)(function)
        except RuntimeError:
            return numba.njit(parallel=parallel)(function)

    return compiled


@_compiled(parallel=True)
def _push(walk, starts, alpha, threshold, columns, values, threads):
    """Rests wait in a queue and are spread until none is above the threshold. A rest waits if and only if it is above it."""
    num_nodes = len(walk.root)
    for thread in numba.prange(threads):
        amounts = np.zeros((num_nodes, 2), np.float32)  # what waits, what has arrived
        queue, touched = np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32)
        for place in range(thread, len(columns), threads):
            start = starts[place]
            if walk.root[start] == 0:
                columns[place, 0], values[place, 0] = start, alpha
                continue
            amounts[start, 0] = 1 / walk.root[start] ** 2
            queue[0], touched[0] = start, start
            head, waiting, count = 0, 1, 1
            while waiting:
                node = queue[head]
                head = head + 1 if head + 1 < num_nodes else 0
                waiting -= 1
                amount = amounts[node, 0]
                amounts[node, 1] += max(alpha * amount, SMALLEST)
                amounts[node, 0] = 0
                for edge in range(walk.rowptr[node] - 1, walk.rowptr[node + 1]):
                    loop = edge < walk.rowptr[node]
                    other = node if loop else walk.columns[edge]
                    before = amounts[other, 0]
                    after = before + amount * (walk.kept[node] if loop else walk.passed[edge])
                    if before == 0 and amounts[other, 1] == 0 and after > 0 and count < num_nodes:
                        touched[count] = other
                        count += 1
                    amounts[other, 0] = after
                    if before <= threshold and after > threshold:
                        tail = head + waiting
                        queue[tail if tail < num_nodes else tail - num_nodes] = other
                        waiting += 1
            for node in touched[:count]:
                amounts[node, 1] += alpha * amounts[node, 0]
                amounts[node, 0] = amounts[node, 1]
            _take_largest(amounts, touched[:count], walk.root, walk.root[start], columns[place], values[place])
            amounts[touched[:count]] = 0


@_compiled(parallel=True)
def _step(walk, starts, alpha, threshold, steps, columns, values, threads):
    """The walk step by step; after each, what is at most the threshold is not spread further."""
    num_nodes = len(walk.root)
    for thread in numba.prange(threads):
        amounts = np.zeros((num_nodes, 3), np.float32)  # what has arrived, what is at a node now, and after the next step
        here, there, touched = np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32), np.empty(num_nodes, np.int32)
        for place in range(thread, len(columns), threads):
            start = starts[place]
            if walk.root[start] == 0:
                columns[place, 0], values[place, 0] = start, alpha
                continue
            amounts[start, 1] = 1 / walk.root[start] ** 2
            here[0], touched[0] = start, start
            size, count = 1, 1
            for _ in range(steps):
                reached = 0
                for node in here[:size]:
                    amount = amounts[node, 1]
                    amounts[node, 0] += max(alpha * amount, SMALLEST)
                    amounts[node, 1] = 0
                    if amount <= threshold:
                        continue
                    for edge in range(walk.rowptr[node] - 1, walk.rowptr[node + 1]):
                        loop = edge < walk.rowptr[node]
                        other = node if loop else walk.columns[edge]
                        passed = amount * (walk.kept[node] if loop else walk.passed[edge])
                        if passed == 0:
                            continue
                        if amounts[other, 2] == 0:
                            there[reached] = other
                            reached += 1
                            if amounts[other, 0] == 0 and amounts[other, 1] == 0 and count < num_nodes:
                                touched[count] = other
                                count += 1
                        amounts[other, 2] += passed
                here, there, size = there, here, reached
                for node in here[:size]:
                    amounts[node, 1] = amounts[node, 2]
                    amounts[node, 2] = 0
            for node in here[:size]:
                amounts[node, 0] += amounts[node, 1]
            _take_largest(amounts, touched[:count], walk.root, walk.root[start], columns[place], values[place])
            amounts[touched[:count]] = 0


@_compiled()
def _take_largest(amounts, nodes, root, factor, columns, values):
    """The largest of amounts[:, 0] · root · factor among ``nodes``, by column; values is a heap with its smallest first."""
    k, size = len(columns), 0
    for node in nodes:
        value = amounts[node, 0] * root[node] * factor
        if size < k:
            place = size
            size += 1
            while place > 0 and values[(place - 1) // 2] > value:
                columns[place], values[place] = columns[(place - 1) // 2], values[(place - 1) // 2]
                place = (place - 1) // 2
        elif value > values[0]:
            place = 0
            while True:
                below = 2 * place + 1
                if below >= k:
                    break
                if below + 1 < k and values[below + 1] < values[below]:
                    below += 1
                if values[below] >= value:
                    break
                columns[place], values[place] = columns[below], values[below]
                place = below
        else:
            continue
        columns[place], values[place] = node, value
    order = np.argsort(columns[:size])
    columns[:size], values[:size] = columns[:size][order], values[:size][order]


@_compiled()
def _transposed(columns, values):
    """Compressed rows of the transpose; sources come in increasing order."""
    num_nodes, k = columns.shape
    rowptr = np.zeros(num_nodes + 1, np.int64)
    for column in columns.flat:
        if column >= 0:
            rowptr[column + 1] += 1
    rowptr = np.cumsum(rowptr)
    sources, entries = np.empty(rowptr[-1], np.int32), np.empty(rowptr[-1], np.float32)
    filled = rowptr[:-1].copy()
    for node in range(num_nodes):
        for place in range(k):
            column = columns[node, place]
            if column < 0:
                break
            sources[filled[column]], entries[filled[column]] = node, values[node, place]
            filled[column] += 1
    return rowptr, sources, entries


@_compiled()
def _merged_sizes(columns, rowptr, sources):
    num_nodes, k = columns.shape
    sizes = np.empty(num_nodes, np.int64)
    for node in range(num_nodes):
        mine, other, size = 0, rowptr[node], 0
        while (mine < k and columns[node, mine] >= 0) or other < rowptr[node + 1]:
            more, others = mine < k and columns[node, mine] >= 0, other < rowptr[node + 1]
            take = more and (not others or columns[node, mine] <= sources[other])
            drop = others and (not more or sources[other] <= columns[node, mine])
            mine, other, size = mine + take, other + drop, size + 1
        sizes[node] = size
    return sizes


@_compiled()
def _merge(columns, values, rowptr, sources, entries, merged, out_columns, out_values):
    num_nodes, k = columns.shape
    for node in range(num_nodes):
        mine, other, place = 0, rowptr[node], merged[node]
        while place < merged[node + 1]:
            more, others = mine < k and columns[node, mine] >= 0, other < rowptr[node + 1]
            take = more and (not others or columns[node, mine] <= sources[other])
            drop = others and (not more or sources[other] <= columns[node, mine])
            value = np.float32(0)
            if take:
                out_columns[place], value = columns[node, mine], values[node, mine]
            if drop:
                out_columns[place], value = sources[other], max(value, entries[other])
            out_values[place] = value
            mine, other, place = mine + take, other + drop, place + 1


@_compiled(parallel=True)
def _cosines(starts, columns, values, rowptr, sources, entries, out_columns, out_values, threads):
    """For each of ``starts`` the products of its row with all rows that share a column."""
    num_nodes, k = columns.shape
    ones = np.ones(num_nodes, np.float32)
    for thread in numba.prange(threads):
        sums = np.zeros((num_nodes, 1), np.float32)
        touched = np.empty(num_nodes, np.int32)
        for out in range(thread, len(starts), threads):
            node, count = starts[out], 0
            for place in range(k):
                column = columns[node, place]
                if column < 0:
                    break
                for entry in range(rowptr[column], rowptr[column + 1]):
                    other = sources[entry]
                    if sums[other, 0] == 0:
                        touched[count] = other
                        count += 1
                    sums[other, 0] += values[node, place] * entries[entry]
            _take_largest(sums, touched[:count], ones, np.float32(1), out_columns[out], out_values[out])
            sums[touched[:count]] = 0
