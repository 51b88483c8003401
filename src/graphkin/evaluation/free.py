"""The honest bar: rows that cost no training, which an embedding must beat (docs/math.md, section 6).

All of them start from features whose rows have length 1. "best free" is the one that is best on validation nodes, split by
split: what a user without any training would take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import scipy.sparse
import torch
from torch import Tensor

from graphkin.errors import check_choice
from graphkin.evaluation.comparison import paired
from graphkin.evaluation.rows import Rows, as_scipy
from graphkin.evaluation.scores import Scores
from graphkin.graphs.adjacency import normalised_adjacency
from graphkin.graphs.arrays import SPARSE_BELOW, Features
from graphkin.graphs.diffusion import pagerank_diffusion, powers, unit_length
from graphkin.graphs.graph import Graph
from graphkin.graphs.recipes import prepared_graph
from graphkin.support.sparse import SparseMatrix


@dataclass(frozen=True)
class FreeRow:
    """Â^k X for each of ``hops``, side by side; with ``alpha``, PageRank diffusion instead."""

    hops: tuple[int, ...] = ()
    alpha: float | None = None
    unit_blocks: bool = False
    """the rows of each hop are scaled to length 1 before they stand side by side"""

    @property
    def pieces(self) -> str:
        """The setting ``free`` with which the method ``diffusion`` gives such rows."""
        if self.alpha is not None:
            return f"ppr{self.alpha}"
        return ",".join("x" if hop == 0 else f"hop{hop}" for hop in self.hops)


FREE: Mapping[str, FreeRow] = {
    "unit features": FreeRow(hops=(0,)),
    "1 hop": FreeRow(hops=(1,)),
    "2 hops": FreeRow(hops=(2,)),
    "4 hops": FreeRow(hops=(4,)),
    "8 hops": FreeRow(hops=(8,)),
    "PageRank 0.05": FreeRow(alpha=0.05),
    "PageRank 0.1": FreeRow(alpha=0.1),
    "PageRank 0.2": FreeRow(alpha=0.2),
    "PageRank 0.4": FreeRow(alpha=0.4),
    "hops 0-2": FreeRow(hops=(0, 1, 2)),
    "unit hops 0-2": FreeRow(hops=(0, 1, 2), unit_blocks=True),
}
"""by name; the names are in run files and in the keys of stored runs"""
BEST_FREE = "best free"


class FreeRows(Mapping[str, Rows]):
    """The rows of :data:`FREE` for a graph, each computed when it is asked for and not kept."""

    def __init__(self, graph: Graph) -> None:
        self.x = unit_length(prepared_graph(graph).x)
        self.adjacency = normalised_adjacency(graph.edge_index, graph.num_nodes, self_loops=True, edge_weight=graph.edge_weight)

    def bytes_of(self, name: str) -> int:
        """What a row takes at most, in float32 and in the float64 that it is scored in."""
        return (4 + 8) * self.x.shape[0] * self.x.shape[1] * max(len(FREE[name].hops), 1)

    def __iter__(self) -> Iterator[str]:
        return iter(FREE)

    def __len__(self) -> int:
        return len(FREE)

    def __getitem__(self, name: str) -> Tensor | Rows:
        check_choice("training-free row", name, FREE)
        row = FREE[name]
        if row.alpha is not None:
            return pagerank_diffusion(self.adjacency, self.x, row.alpha)
        parts = powers(self.adjacency, self.x, row.hops)
        return _side_by_side([unit_length(part) for part in parts] if row.unit_blocks else parts)


def _side_by_side(parts: Sequence[Features]) -> Tensor | Rows:
    """Sparse where few entries of the whole are filled."""
    filled = sum(part.values.numel() if isinstance(part, SparseMatrix) else part.numel() for part in parts)
    if filled < SPARSE_BELOW * sum(part.shape[0] * part.shape[1] for part in parts):
        return scipy.sparse.hstack([_as_scipy(part) for part in parts], format="csr")
    dense = [part.to_dense() if isinstance(part, SparseMatrix) else part for part in parts]
    return dense[0] if len(dense) == 1 else torch.cat(dense, dim=1)


def _as_scipy(part: Features) -> Any:
    return as_scipy(part) if isinstance(part, SparseMatrix) else scipy.sparse.csr_matrix(part.cpu().numpy())


def best_free(scores: Mapping[str, Scores]) -> Scores | None:
    """Of the free rows' scores, on every split those of the row that is best on validation nodes, the first of equals.

    None where the protocol has no validation nodes to choose by.
    """
    rows = {name: scores[name] for name in FREE if name in scores}
    if not rows:
        return None
    first = next(iter(rows.values()))
    measured = f"val_{next(iter(first.values))}"
    if measured not in first.values:
        return None
    repeats = range(len(first.test))
    chosen = tuple(max(rows, key=lambda name: rows[name].values[measured][repeat]) for repeat in repeats)
    values = {
        measure: tuple(rows[name].values[measure][repeat] for repeat, name in zip(repeats, chosen, strict=True))
        for measure in first.values
    }
    return Scores(first.protocol, values, chosen)


def named(chosen: Sequence[str]) -> str:
    """Which rows were chosen: "2 hops", "mostly 2 hops" on more than half of the splits, "2 hops or 1 hop", "... or others"."""
    counts = Counter(chosen).most_common()
    if len(counts) == 1:
        return counts[0][0]
    if 2 * counts[0][1] > len(chosen):
        return f"mostly {counts[0][0]}"
    names = [name for name, _ in counts]
    return f"{names[0]} or {names[1]}" if len(names) == 2 else f"{names[0]}, {names[1]} or others"


def settings_for(chosen: Sequence[str]) -> str:
    """Options of ``graphkin fit`` that give the row that was chosen most often."""
    often = Counter(chosen).most_common(1)[0][0]
    return f"--method diffusion --set free={FREE[often].pieces}"


def advice(embedding: Scores, best: Scores) -> str | None:
    """A line that says so where the best free row is significantly better than an embedding; None where it is not."""
    gain = paired(dict(enumerate(best.test)), dict(enumerate(embedding.test)))
    if gain is None or gain.points <= 0 or not gain.significant:
        return None
    what = "Features" if set(best.chosen) == {"unit features"} else "Smoothed features"
    return (
        f"{what} without training ({named(best.chosen)}) score higher here: {best.mean:.1f} % against "
        f"{embedding.mean:.1f} %. graphkin fit {settings_for(best.chosen)} gives them."
    )
