"""The arrays of a graph from tables of edges and nodes, and from NetworkX, whose attributes are such a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphkin.errors import GraphError, SettingError, check_text, first_line, shown
from graphkin.graphs import arrow
from graphkin.graphs.arrow import ID, SUFFIXES
from graphkin.support.files import checked_path, reading

SOURCE, TARGET, WEIGHT = "source", "target", "weight"
ALIASES = {"from": SOURCE, "to": TARGET, "src": SOURCE, "dst": TARGET}
UNUSABLE = "holds what cannot be used"


def arrays_from_tables(
    edges: str | Path, nodes: str | Path | None, *, label: str, ignore: Sequence[str], needs_features: bool
) -> dict[str, Any]:
    """What :meth:`Graph.from_arrays` takes. Without a nodes table, the nodes are those that edges mention."""
    check_words(label, ignore)
    edge_path = checked_path(edges)
    with reading(edge_path, UNUSABLE, GraphError):
        ends, weight = _edges(edge_path)
        ids: Any = arrow.mentioned(ends) if nodes is None else None
    about: dict[str, Any] = {}
    if nodes is not None:
        node_path = checked_path(nodes)
        with reading(node_path, UNUSABLE, GraphError):
            ids, about = _nodes(node_path, label, ignore, needs_features)
    if len(ids) == 0:
        raise GraphError(f"the graph has no nodes: {edge_path} has no rows.")
    with reading(edge_path, UNUSABLE, GraphError):
        places = [arrow.places_of(edge_path, end, column, ids) for end, column in zip((SOURCE, TARGET), ends, strict=True)]
        names = ids.to_numpy(zero_copy_only=False)
    return {"x": None, **about, "edge_index": np.stack(places), "edge_weight": weight, "ids": names, "num_nodes": len(names)}


def check_words(label: object, ignore: object) -> None:
    check_text("label", label)
    if not isinstance(ignore, list | tuple) or not all(isinstance(column, str) for column in ignore):
        raise SettingError(f"ignore must be a list of names of columns, found {shown(ignore)}.")


def _edges(path: Path) -> tuple[list[Any], np.ndarray | None]:
    """Both ends of every edge, and weights where there are any."""
    table = arrow.read_table(path, text=(SOURCE, TARGET, *ALIASES))
    if not {SOURCE, TARGET} & set(table.column_names):
        table = table.rename_columns(arrow.checked_names(path, [ALIASES.get(name, name) for name in table.column_names]))
    arrow.need_columns(path, table, (SOURCE, TARGET))
    ends = [arrow.complete_column(path, table, end) for end in (SOURCE, TARGET)]
    return ends, arrow.numbers(path, table, WEIGHT) if WEIGHT in table.column_names else None


def _nodes(path: Path, label: str, ignore: Sequence[str], needs_features: bool) -> tuple[Any, dict[str, Any]]:
    """The ids, and what the other columns say."""
    table = arrow.read_table(path, text=(ID,))
    arrow.need_columns(path, table, (ID,))
    if table.num_rows == 0:
        raise GraphError(f"the graph has no nodes: {path} has no rows.")
    ids = arrow.ids_of(path, table)
    return ids, _about_nodes(path, table, label, [ID, *ignore], needs_features)


def _about_nodes(path: Path, table: Any, label: str, ignore: Sequence[str], needs_features: bool) -> dict[str, Any]:
    """Features and classes. Every column that is neither ignored nor the label is a feature, and must be numeric."""
    y, class_names = arrow.classes(table, label)
    ignored = {name.strip().lower() for name in (label, *ignore)}
    names = [name for name in table.column_names if name not in ignored] if needs_features else []
    text = [name for name in names if not arrow.is_number(arrow.column(table, name).type)]
    if text:
        listed = ", ".join(repr(name) for name in text[:5]) + (", ..." if len(text) > 5 else "")
        raise GraphError(
            f"{path}: features must be numbers, found text, dates or nothing in {listed}: encode them as numbers, "
            f"leave them out (--ignore {text[0]}), or name the class (--label {text[0]})."
        )
    x = arrow.matrix(path, table, names) if names else None
    return {"x": x, "y": y, "class_names": class_names, "feature_names": tuple(names)}


def find_tables(folder: Path) -> tuple[Path, Path | None]:
    """The edges and, if there, the nodes file of a folder."""
    found = {
        stem: [folder / (stem + suffix) for suffix in SUFFIXES if (folder / (stem + suffix)).is_file()]
        for stem in ("edges", "nodes")
    }
    if not found["edges"]:
        present = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
        raise GraphError(f"the folder {folder} has no edges.csv, edges.tsv or edges.parquet, found: {present}.")
    for stem, paths in found.items():
        if len(paths) > 1:
            raise GraphError(f"the folder {folder} must have one file of {stem}, found {', '.join(p.name for p in paths)}.")
    return found["edges"][0], found["nodes"][0] if found["nodes"] else None


def arrays_from_networkx(graph: Any, *, label: str, ignore: Sequence[str], needs_features: bool, name: str) -> dict[str, Any]:
    """What :meth:`Graph.from_arrays` takes: attributes of nodes are read by the rules of tables."""
    check_text("name", name)
    check_words(label, ignore)
    if not hasattr(graph, "nodes") or not hasattr(graph, "edges"):
        raise GraphError(f"the graph must be a NetworkX graph, found {type(graph).__name__}.")
    nodes = list(graph.nodes)
    if not nodes:
        raise GraphError("the graph has no nodes.")
    place = {node: i for i, node in enumerate(nodes)}
    edges = list(graph.edges(data=True))
    names = {str(key): key for _, attributes in graph.nodes(data=True) for key in attributes}
    columns = {text: [attributes.get(names[text]) for _, attributes in graph.nodes(data=True)] for text in sorted(names)}
    with reading(name, UNUSABLE, GraphError):
        table = arrow.table_of(columns, len(nodes))
        about = _about_nodes(Path(name), table, label, ignore, needs_features)
    ids = np.empty(len(nodes), dtype=object)
    ids[:] = nodes
    index = np.array([(place[a], place[b]) for a, b, _ in edges], dtype=np.int64).reshape(-1, 2).T
    return {**about, "edge_index": index, "edge_weight": _weights(edges, name), "ids": ids, "num_nodes": len(nodes)}


def _weights(edges: Sequence[tuple[Any, Any, dict[str, Any]]], name: str) -> np.ndarray | None:
    if not any(WEIGHT in attributes for _, _, attributes in edges):
        return None
    try:
        return np.array([float(attributes.get(WEIGHT, 1)) for _, _, attributes in edges])
    except (TypeError, ValueError, OverflowError) as error:
        raise GraphError(f"{name}: the weights of edges must be numbers: {first_line(error)}") from error
