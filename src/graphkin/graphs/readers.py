"""A graph from whatever a user names: a dataset, a folder, a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphkin.errors import GraphError, check_choice, unknown
from graphkin.graphs.catalogue import DATASETS
from graphkin.graphs.datasets import load_dataset
from graphkin.graphs.graph import Graph
from graphkin.graphs.structural import KINDS
from graphkin.graphs.synthetic import NAMED, community_graph
from graphkin.support.files import checked_path, reading

SUFFIXES = (".npz", ".csv", ".tsv", ".parquet", ".graphml", ".gexf")


def open_graph(
    name_or_path: str | Path,
    *,
    nodes: str | Path | None = None,
    label: str = "label",
    ignore: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    id: str | None = None,
    bipartite: bool = False,
    features: str | None = None,
    data_root: str | Path | None = None,
) -> Graph:
    """A dataset by name, "synthetic-N" for N nodes in communities, or your own graph.

    A path may be a folder with ``edges`` and ``nodes`` tables, an edges table (``nodes`` is then the file with the nodes), a
    ``.npz`` archive, or a ``.graphml`` or ``.gexf`` file. ``label`` is the column or attribute with the class, ``ignore`` names
    columns to leave out, ``columns`` says what columns are (``{"zip": "category"}``), ``source``, ``target``
    and ``weight`` name the columns of an edges table and ``id`` that of a nodes table, with ``bipartite`` equal ids of sources
    and targets are different nodes, and ``features`` makes features from the edges ("degree", "positional").
    """
    if features is not None:
        check_choice("features", features, KINDS)
    path = checked_path(name_or_path)
    if str(name_or_path) in DATASETS:
        return load_dataset(str(name_or_path), data_root)
    synthetic = NAMED.fullmatch(str(name_or_path))
    if synthetic and not path.exists():
        return community_graph(int(synthetic[1]))
    if not path.exists() and not path.suffix and len(path.parts) == 1:
        raise unknown("dataset (and no folder has that name)", str(name_or_path), DATASETS)
    suffix = path.suffix.lower()
    reads: dict[str, Any] = {"label": label, "ignore": ignore, "columns": columns, "weight": weight, "features": features}
    if path.is_dir() or suffix in (".csv", ".tsv", ".parquet"):
        return _from_tables(path, nodes, reads | {"source": source, "target": target, "id": id, "bipartite": bipartite})
    if suffix in (".graphml", ".gexf"):
        graph = _read_xml(path)
        with reading(path, "holds what cannot be used", GraphError):
            return Graph.from_networkx(graph, name=_name(path), **reads)
    if suffix == ".npz":
        return Graph.from_npz(path, _name(path), features=features)
    allowed = ", ".join(SUFFIXES)
    raise GraphError(f"a graph must be a dataset's name, a folder, or a file ending in {allowed}, found {path}.")


def _from_tables(path: Path, nodes: str | Path | None, columns: dict[str, Any]) -> Graph:
    from graphkin.graphs.tables import find_tables

    if not path.is_dir():
        return Graph.from_tables(path, nodes, name=_name(path), **columns)
    edges, found = find_tables(path)
    return Graph.from_tables(edges, found if nodes is None else nodes, name=path.resolve().name, **columns)


def _name(path: Path) -> str:
    """A file with a dataset's name is not that dataset, and must not get its settings."""
    return path.name if path.stem in DATASETS else path.stem


def _read_xml(path: Path) -> object:
    import networkx

    if not path.is_file():
        raise GraphError(f"no graph file at {path}.")
    read = networkx.read_graphml if path.suffix.lower() == ".graphml" else networkx.read_gexf
    with reading(path, f"cannot be read as {path.suffix[1:].lower()}", GraphError):
        return read(path)
