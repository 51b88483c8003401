"""The edges that fit held out, as a table in the folder of the run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from graphkin.errors import OutputError
from graphkin.graphs.arrow import need_columns, read_table, write_columns
from graphkin.graphs.graph import Graph
from graphkin.graphs.held_out import HeldOut, without
from graphkin.support.files import reading

FILE = "held-out-edges.csv"
COLUMNS = ("source", "target", "edge", "part")
PARTS = (("test", 1), ("test", 0), ("validation", 1), ("validation", 0))
"""of :meth:`HeldOut.parts`: what it is for, and whether its pairs are edges"""


def write_held_out(folder: Path, graph: Graph) -> None:
    """One row for each pair, with the ids of its nodes; nothing stays of an earlier run."""
    if graph.held_out is None:
        (folder / FILE).unlink(missing_ok=True)
        return
    pairs = graph.held_out.parts()
    ids = np.arange(graph.num_nodes) if graph.ids is None else graph.ids
    source, target = ids[torch.cat(pairs, dim=1).numpy()]
    sizes = [one.size(1) for one in pairs]
    part, edge = np.repeat([part for part, _ in PARTS], sizes), np.repeat([edge for _, edge in PARTS], sizes)
    write_columns(folder / FILE, dict(zip(COLUMNS, (source, target, edge, part), strict=True)))


def with_held_out(folder: Path, graph: Graph) -> Graph:
    """The graph as the run of this folder was trained on it."""
    path = folder / FILE
    with reading(path, "is not a readable table of held-out edges", OutputError):
        table = read_table(path, text=("source", "target", "part"))
        need_columns(path, table, COLUMNS)
        source, target, edge, part = (table.column(name).to_pylist() for name in COLUMNS)
        place = {str(name): i for i, name in enumerate(range(graph.num_nodes) if graph.ids is None else graph.ids)}
        unknown = next((name for name in (*source, *target) if name not in place), None)
        if unknown is not None:
            raise OutputError(f"its pairs must be nodes of the graph {graph.name}, found {unknown!r}.")
        pairs = torch.tensor([[place[name] for name in end] for end in (source, target)], dtype=torch.long).sort(0).values
        kinds = list(zip(part, edge, strict=True))
        if not set(kinds) <= set(PARTS):
            raise OutputError("its column part must be test or validation, and its column edge 1 or 0, found other values.")
        chosen = [torch.tensor([kind == one for kind in kinds], dtype=torch.bool) for one in PARTS]
        return without(graph, HeldOut(*(pairs[:, places] for places in chosen)))
