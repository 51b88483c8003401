"""Where the nodes are that a user names in an array, by id or by index."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import scipy.sparse
from torch import Tensor

from graphkin.errors import GraphError, SettingError, shown
from graphkin.graphs.arrays import as_array, plain_tensor
from graphkin.graphs.graph import Graph

WHOLE = re.compile(r"[+-]?\d+")


class NodePlaces:
    """Ids are compared as text. Whole numbers are indices, unless the graph has ids that are whole numbers themselves."""

    def __init__(self, graph: Graph) -> None:
        self.num_nodes = graph.num_nodes
        names = [] if graph.ids is None else [str(name) for name in graph.ids.tolist()]
        self.by_id = {name: place for place, name in enumerate(names)}
        if len(self.by_id) < len(names):
            twice = next(name for place, name in enumerate(names) if self.by_id[name] != place)
            raise GraphError(f"nodes can be named by ids that are all different, found {twice!r} more than once.")
        self.numbers_are_ids = any(WHOLE.fullmatch(name) for name in names)

    def of(self, nodes: Any, what: str) -> np.ndarray:
        """Indices [n] of nodes that were given as [n] or [n, 1]; ``what`` names them in messages."""
        if scipy.sparse.issparse(nodes):
            raise SettingError(f"{what} must be {self._wanted()}, found a sparse matrix of shape {nodes.shape}.")
        given = as_array(plain_tensor(nodes, what) if isinstance(nodes, Tensor) else nodes, what)
        column = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
        if column.ndim != 1 or len(column) == 0:
            raise SettingError(f"{what} must be {self._wanted()}, of shape [n] or [n, 1], found shape {given.shape}.")
        values = column.tolist()
        whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
        if whole and not self.numbers_are_ids:
            return self._indices(values, what)
        return self._named(values, what)

    def _indices(self, values: list[int], what: str) -> np.ndarray:
        outside = next((value for value in values if not 0 <= value < self.num_nodes), None)
        if outside is not None:
            raise SettingError(f"{what} must be {self._wanted()}, found {shown(outside)}.")
        return np.array(values, dtype=np.int64)

    def _named(self, values: list[Any], what: str) -> np.ndarray:
        places = [self.by_id.get(str(value), -1) for value in values]
        unknown = [value for value, place in zip(values, places, strict=True) if place < 0]
        if unknown:
            counted = f"{len(unknown)} unknown, the first {shown(unknown[0])}" if self.by_id else shown(unknown[0])
            raise SettingError(f"{what} must be {self._wanted()}, found {counted}.")
        return np.array(places, dtype=np.int64)

    def _wanted(self) -> str:
        indices = f"node indices in 0..{self.num_nodes - 1}"
        if not self.by_id:
            return f"{indices} (the graph has no ids)"
        ids = f"ids of nodes, such as {', '.join(map(shown, list(self.by_id)[:3]))}"
        return (
            f"{ids} (the graph has ids that are numbers, so numbers are ids)"
            if self.numbers_are_ids
            else f"{ids}, or {indices}"
        )
