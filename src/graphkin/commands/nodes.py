"""The nodes of a run by name, and files about them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphkin.commands.source import graph_record
from graphkin.errors import OutputError, SettingError
from graphkin.graphs.graph import Graph
from graphkin.training.embeddings import embeddings_file, read_embeddings, read_ids

TABLES = ("csv", "parquet")
MOST_COMPARED = 20_000
"""beyond so many nodes, no near name is looked for"""


@dataclass(frozen=True, eq=False)
class RunNodes:
    """The embeddings of a run with the names of their rows."""

    title: str
    """method and graph"""
    rows: np.ndarray
    ids: np.ndarray
    """indices, where nodes have no names"""
    named: bool

    def places(self, names: list[str]) -> list[int]:
        """Where the nodes are that a user names."""
        if not self.named:
            return [self._index(name) for name in names]
        wanted = dict.fromkeys(names)
        found = {str(name): place for place, name in enumerate(self.ids) if str(name) in wanted}
        for name in names:
            if name not in found:
                raise SettingError(f"unknown node {name!r}.{self._near(name)} Ids in this run look like {self._some()}.")
        return [found[name] for name in names]

    def plain(self, places: np.ndarray) -> list[Any]:
        """Names for JSON: whole numbers or text."""
        return [int(name) if isinstance(name, int | np.integer) else str(name) for name in self.ids[places]]

    def _index(self, name: str) -> int:
        if not (name.isascii() and name.isdigit() and len(name) < 19 and int(name) < len(self.ids)):
            raise SettingError(
                f"unknown node {name!r}. The nodes of this run have no ids: give indices in 0..{len(self.ids) - 1}."
            )
        return int(name)

    def _near(self, name: str) -> str:
        if len(self.ids) > MOST_COMPARED:
            return ""
        near = difflib.get_close_matches(name, [str(one) for one in self.ids], n=1)
        return f" Did you mean {near[0]!r}?" if near else ""

    def _some(self) -> str:
        return ", ".join(repr(str(name)[:40]) for name in self.ids[:3])


def nodes_of_run(folder: Path, graph: Graph | None = None) -> RunNodes:
    """From the folder alone, or in the order of a graph's nodes."""
    record = graph_record(folder)
    file = embeddings_file(folder)
    if graph is None:
        rows, ids = read_embeddings(file), read_ids(file)
    else:
        rows, ids = read_embeddings(file, graph.ids), graph.ids
    nodes = len(rows) if ids is None else len(ids)
    if graph is not None:
        nodes = graph.num_nodes
    if rows.ndim != 2 or len(rows) != nodes:
        raise OutputError(f"{file} must have one row for each of the {nodes} nodes, found shape {rows.shape}.")
    title = f"{record.get('method', 'embeddings')} on {record['graph']['name']}"
    return RunNodes(title, rows, np.arange(nodes) if ids is None else ids, ids is not None)
