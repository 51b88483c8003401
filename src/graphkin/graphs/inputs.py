"""A graph from whatever a user holds: a name, a path, tables, or a graph of another library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import scipy.sparse

from graphkin.errors import GraphError, SettingError, check_choice, shown
from graphkin.graphs.graph import Graph
from graphkin.graphs.pyg import is_data
from graphkin.graphs.readers import open_graph
from graphkin.graphs.structural import KINDS, structural_features

GraphLike: TypeAlias = Any
"""A :class:`graphkin.Graph`; a dataset's name or a path, as :func:`graphkin.open_graph` takes them; a NetworkX graph; a
``torch_geometric.data.Data``; a DataFrame of edges; a SciPy adjacency; or a pair: edges and nodes as DataFrames or paths, or an
adjacency and features [N, F]."""
TAKEN = (
    "a graphkin.Graph, a dataset's name, a path, a NetworkX graph, a torch_geometric.data.Data, DataFrames (edges, nodes), or "
    "a SciPy matrix with features (adjacency, x)"
)


def as_graph(data: GraphLike, features: str | None = None, columns: Mapping[str, str] | None = None) -> Graph:
    """``features`` are made from the edges ("degree", "positional"); ``columns`` says what columns are, where there are any."""
    if features is not None:
        if not isinstance(features, str):
            raise SettingError(
                f"features must be {' or '.join(map(repr, KINDS))}, which are made from the edges, found {shown(features)}; "
                "features of your own go with the graph, as in fit((adjacency, x))."
            )
        check_choice("features", features, KINDS)
    if isinstance(data, Graph):
        return data if features is None else _with_made(data, features)
    if is_data(data):
        return Graph.from_data(data, features=features)
    first, second = data if isinstance(data, tuple) and len(data) == 2 else (data, None)
    if isinstance(first, str | Path) and (second is None or isinstance(second, str | Path)):
        found = open_graph(first, nodes=second, features=features, columns=columns)
        return found if features is None else _with_made(found, features)
    if scipy.sparse.issparse(first):
        return Graph.from_scipy(first, second, features=features)
    if is_table(first) and (second is None or is_table(second)):
        return Graph.from_pandas(first, second, features=features, columns=columns)
    if second is None and all(hasattr(first, name) for name in ("nodes", "edges", "adj")):
        return Graph.from_networkx(first, features=features, columns=columns)
    found_types = f"a pair of {type(first).__name__} and {type(second).__name__}" if first is not data else type(data).__name__
    raise GraphError(f"a graph must be {TAKEN}, found {found_types}.")


def is_table(thing: object) -> bool:
    """A DataFrame of pandas or polars, or an Arrow table."""
    return all(hasattr(thing, name) for name in ("columns", "shape", "__getitem__")) and not hasattr(thing, "todense")


def _with_made(graph: Graph, features: str) -> Graph:
    made = structural_features(graph.edge_index.cpu(), graph.num_nodes, features).to(graph.edge_index.device)
    return replace(graph, x=made, feature_names=(), columns=(), prepared=False, made_features=features)
