"""Graphs from tables, and embeddings to tables: CSV, TSV and Parquet through Apache Arrow, without a Python loop over rows.

Ids are text in CSV and TSV files, exactly as they stand there ("007" stays "007"), and whatever they are in Parquet files.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from torch import Tensor

from graphkin.errors import GraphError, SettingError, check_text, first_line, shown
from graphkin.graphs.graph import Graph
from graphkin.support.files import check_memory, checked_path, reading, write_whole

SUFFIXES = (".csv", ".tsv", ".parquet")
SOURCE, TARGET, WEIGHT, ID = "source", "target", "weight", "id"
UNUSABLE = "holds what cannot be used"
MOST_COLUMNS = 50_000
ALIASES = {"from": SOURCE, "to": TARGET, "src": SOURCE, "dst": TARGET}


def graph_from_tables(
    edges: str | Path,
    nodes: str | Path | None = None,
    *,
    label: str = "label",
    ignore: Sequence[str] = (),
    features: str | None = None,
    name: str | None = None,
) -> Graph:
    _check_words(label, ignore, name)
    edge_path, node_path = checked_path(edges), None if nodes is None else checked_path(nodes)
    with reading(edge_path, UNUSABLE, GraphError):
        ends, weight = _edges(edge_path)
        found = _Nodes(_mentioned(ends) if node_path is None else pa.array([]))
    if node_path is not None:
        with reading(node_path, UNUSABLE, GraphError):
            found = _nodes(node_path, label, ignore, features is None)
    if len(found.ids) == 0:
        raise GraphError(f"the graph has no nodes: {edge_path} has no rows.")
    with reading(edge_path, UNUSABLE, GraphError):
        places = [_positions(edge_path, end, column, found.ids) for end, column in zip((SOURCE, TARGET), ends, strict=True)]
        ids = found.ids.to_numpy(zero_copy_only=False)
    with reading(edge_path if node_path is None else f"{edge_path} and {node_path}", UNUSABLE, GraphError):
        built = Graph.from_arrays(
            found.x,
            np.stack(places),
            found.y,
            edge_weight=weight,
            features=features,
            num_nodes=len(ids),
            ids=ids,
            name=name or edge_path.stem,
            class_names=found.class_names,
        )
    return replace(built, feature_names=found.feature_names)


def _check_words(label: object, ignore: object, name: object) -> None:
    check_text("label", label)
    check_text("name", name, optional=True)
    if not isinstance(ignore, list | tuple) or not all(isinstance(column, str) for column in ignore):
        raise SettingError(f"ignore must be a list of names of columns, found {shown(ignore)}.")


class _Nodes(NamedTuple):
    ids: pa.Array
    x: np.ndarray | None = None
    feature_names: tuple[str, ...] = ()
    y: np.ndarray | None = None
    class_names: tuple[str, ...] = ()


def _edges(path: Path) -> tuple[list[pa.ChunkedArray], np.ndarray | None]:
    """Both ends of every edge, and weights where there are any."""
    table = read_table(path, text=(SOURCE, TARGET, *ALIASES))
    if not {SOURCE, TARGET} & set(table.column_names):
        names = [ALIASES.get(column, column) for column in table.column_names]
        _check_names(path, names)
        table = table.rename_columns(names)
    _need_columns(path, table, (SOURCE, TARGET))
    ends = [_column(table, end) for end in (SOURCE, TARGET)]
    for end, column in zip((SOURCE, TARGET), ends, strict=True):
        _no_missing(path, end, column)
    return ends, _numbers(path, table, WEIGHT) if WEIGHT in table.column_names else None


def _mentioned(ends: Sequence[pa.ChunkedArray]) -> pa.Array:
    """The ids in the order in which edges name them."""
    source, target = ends
    return pc.unique(pa.chunked_array([*source.chunks, *_as_type(target, source.type).chunks], source.type))


def _nodes(path: Path, label: str, ignore: Sequence[str], needed: bool) -> _Nodes:
    table = read_table(path, text=(ID,))
    _need_columns(path, table, (ID,))
    if table.num_rows == 0:
        raise GraphError(f"the graph has no nodes: {path} has no rows.")
    ids = _checked_ids(path, _column(table, ID))
    y, class_names = _classes(table, label)
    x, feature_names = _features(path, table, [ID, label, *ignore], needed)
    return _Nodes(ids, x, feature_names, y, class_names)


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


def graph_from_networkx(
    graph: Any, *, label: str = "label", ignore: Sequence[str] = (), features: str | None = None, name: str = "graph"
) -> Graph:
    """Node attributes become a table, so that the rules are those of tables."""
    check_text("name", name)
    _check_words(label, ignore, name)
    if not hasattr(graph, "nodes") or not hasattr(graph, "edges"):
        raise GraphError(f"the graph must be a NetworkX graph, found {type(graph).__name__}.")
    nodes = list(graph.nodes)
    if not nodes:
        raise GraphError("the graph has no nodes.")
    position = {node: i for i, node in enumerate(nodes)}
    edges = list(graph.edges(data=True))
    index = np.array([(position[a], position[b]) for a, b, _ in edges], dtype=np.int64).reshape(-1, 2).T
    weighted = any(WEIGHT in attributes for _, _, attributes in edges)
    names = {str(key): key for _, attributes in graph.nodes(data=True) for key in attributes}
    where = Path(name)
    try:
        weight = np.array([float(a.get(WEIGHT, 1)) for _, _, a in edges]) if weighted else None
        columns = {text: pa.array([a.get(names[text]) for _, a in graph.nodes(data=True)]) for text in sorted(names)}
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise GraphError(f"{name}: the attributes of nodes and edges must be of one type each: {first_line(error)}") from error
    table = pa.table(columns) if columns else pa.table({"": pa.nulls(len(nodes))}).drop([""])
    y, class_names = _classes(table, label)
    x, feature_names = _features(where, table, [label, *ignore], features is None)
    built = Graph.from_arrays(
        x,
        index,
        y,
        edge_weight=weight,
        features=features,
        num_nodes=len(nodes),
        ids=_object_array(nodes),
        name=name,
        class_names=class_names,
    )
    return replace(built, feature_names=feature_names)


def read_table(path: Path, text: Sequence[str] = ()) -> pa.Table:
    """A table with lower-case column names; ``text`` names the columns that a CSV or TSV file must not turn into numbers."""
    if not path.is_file():
        raise GraphError(f"no file at {path}.")
    with reading(path, "cannot be read as a table", GraphError):
        return _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_text(path, text)


def _read_parquet(path: Path) -> pa.Table:
    about = pa.parquet.read_metadata(path)
    names = _check_names(path, about.schema.to_arrow_schema().names)
    check_memory(f"a table of {about.num_rows:,} rows and {len(names):,} columns", 4 * about.num_rows * len(names))
    return pa.parquet.read_table(path).rename_columns(names)


def _read_text(path: Path, text: Sequence[str]) -> pa.Table:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file, delimiter=delimiter), [])
    names = _check_names(path, header)
    types = {raw: pa.string() for raw, name in zip(header, names, strict=True) if name in text}
    if header and _has_one_line(path):
        return pa.table([pa.array([], types.get(raw, pa.float64())) for raw in header], names)
    table = pa.csv.read_csv(
        path,
        read_options=pa.csv.ReadOptions(column_names=header, skip_rows=1),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter),
        convert_options=pa.csv.ConvertOptions(column_types=types, null_values=["", "NA", "NaN", "nan", "null"]),
    )
    return table.rename_columns(names)


def _check_names(path: Path, given: Sequence[str]) -> list[str]:
    """Names of columns in lower case, each of them once."""
    if len(given) > MOST_COLUMNS:
        raise GraphError(
            f"{path} may have at most {MOST_COLUMNS:,} columns, found {len(given):,}: put wide features into a .npz file."
        )
    names = [name.strip().lower() for name in given]
    for name, count in Counter(names).items():
        if count > 1:
            raise GraphError(f"{path} must name each column once, found {name!r} {count} times.")
    return names


def write_table(path: Path, embeddings: Tensor, ids: np.ndarray | None) -> None:
    """Columns id, e0, e1, ... as Parquet or CSV, by the suffix of ``path``."""
    rows = embeddings.cpu().numpy()
    names = np.arange(len(rows)) if ids is None else ids
    columns = {ID: _id_array(names), **{f"e{i}": pa.array(rows[:, i]) for i in range(rows.shape[1])}}
    table = pa.table(columns)
    if path.suffix.lower() == ".parquet":
        write_whole(path, lambda file: pa.parquet.write_table(table, file))
    else:
        write_whole(path, lambda file: pa.csv.write_csv(table, file))


def _id_array(names: np.ndarray) -> pa.Array:
    """Whole numbers stay what they are; anything else is written as text."""
    return pa.array(names) if names.dtype.kind in "iu" else pa.array([str(name) for name in names], pa.string())


def read_ids(path: Path) -> pa.Array:
    table = read_table(path, text=(ID,))
    _need_columns(path, table, (ID,))
    return _checked_ids(path, _column(table, ID)).cast(pa.string())


def in_order(path: Path, rows: np.ndarray, written: pa.Array, ids: np.ndarray) -> np.ndarray:
    """``rows``, which belong to the ids ``written``, in the order of ``ids``."""
    order = pc.index_in(pa.array([str(name) for name in ids], pa.string()), value_set=written)
    if order.null_count or len(written) != len(ids) or rows.shape[:1] != (len(ids),):
        raise GraphError(f"{path} must have one row for each of the graph's {len(ids)} nodes, found other ids.")
    ordered: np.ndarray = rows[order.to_numpy()]
    return ordered


def read_embedding_table(path: Path, ids: np.ndarray | None) -> np.ndarray:
    """What :func:`write_table` wrote, in the order of ``ids``."""
    table = read_table(path, text=(ID,))
    names = [name for name in table.column_names if name != ID]
    if not names:
        raise GraphError(f"{path} must have columns of numbers beside {ID}, found none.")
    rows = np.stack([_feature(path, name, _column(table, name)) for name in names], axis=1)
    if ids is None or ID not in table.column_names:
        return rows
    return in_order(path, rows, _checked_ids(path, _column(table, ID)).cast(pa.string()), ids)


def _need_columns(path: Path, table: pa.Table, wanted: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in table.column_names]
    if missing:
        found = ", ".join(table.column_names[:8]) or "none"
        columns = f"column{'s' * (len(wanted) > 1)} {' and '.join(wanted)}"
        raise GraphError(f"{path} must have the {columns} in its first line, found: {found}.")


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    column = table.column(name)
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _no_missing(path: Path, name: str, column: pa.ChunkedArray) -> None:
    missing = column.null_count
    if pa.types.is_string(column.type):
        missing += pc.sum(pc.equal(column, "")).as_py() or 0
    if missing:
        raise GraphError(f"{path}: every row needs a {name}, found {missing} without one.")


def _checked_ids(path: Path, ids: pa.ChunkedArray) -> pa.Array:
    _no_missing(path, ID, ids)
    whole = ids.combine_chunks()
    repeated = len(whole) - pc.count_distinct(whole).as_py()
    if repeated:
        counts = pc.value_counts(whole)
        first = next(entry["values"] for entry in counts.to_pylist() if entry["counts"] > 1)
        raise GraphError(f"{path}: every node must have an id of its own, found {repeated} repeated, the first {first!r}.")
    return whole


def _positions(path: Path, end: str, column: pa.ChunkedArray, ids: pa.Array) -> np.ndarray:
    """The place of every id of an edge's end in ``ids``."""
    if column.type != ids.type:
        column, ids = column.cast(pa.string()), ids.cast(pa.string())
    index = pc.index_in(column, value_set=ids)
    if index.null_count:
        first = column.filter(pc.is_null(index))[0].as_py()
        raise GraphError(
            f"{path}: every {end} must be the id of a node, found {index.null_count} unknown, the first {first!r}."
        )
    positions: np.ndarray = index.to_numpy().astype(np.int64)
    return positions


def _as_type(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    return column if column.type == kind else column.cast(kind)


def _numbers(path: Path, table: pa.Table, name: str) -> np.ndarray:
    column = _column(table, name)
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise GraphError(f"{path}: the column {name!r} must be numbers, found {kind}.")
    numbers: np.ndarray = column.cast(pa.float64()).to_numpy()
    return numbers


def _classes(table: pa.Table, label: str) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Class numbers in the order of the sorted labels, -1 where there is none."""
    name = label.strip().lower()
    if name not in table.column_names:
        return None, ()
    column = _column(table, name)
    if not _is_number(column.type):
        column = column.cast(pa.string())
        column = pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)
    values = pc.unique(column.drop_null()).to_pylist()
    values.sort(key=lambda value: (str(type(value)), value))
    if not values:
        return None, ()
    codes = pc.index_in(column, value_set=pa.array(values, column.type))
    return pc.fill_null(codes, -1).to_numpy().astype(np.int64), tuple(str(value) for value in values)


def _features(path: Path, table: pa.Table, excluded: Sequence[str], needed: bool) -> tuple[np.ndarray | None, tuple[str, ...]]:
    left_out = {name.strip().lower() for name in excluded}
    names = [name for name in table.column_names if name not in left_out]
    numeric: list[str] = []
    text: list[str] = []
    for name in names:
        (numeric if _is_number(_column(table, name).type) else text).append(name)
    if text and needed:
        listed = ", ".join(repr(name) for name in text[:5]) + (", ..." if len(text) > 5 else "")
        raise GraphError(
            f"{path}: features must be numbers, found text, dates or nothing in {listed}: encode them as numbers, "
            f"leave them out (--ignore {text[0]}), or name the class (--label {text[0]})."
        )
    if not numeric or not needed:
        return None, ()
    return np.stack([_feature(path, name, _column(table, name)) for name in numeric], axis=1), tuple(numeric)


def _feature(path: Path, name: str, column: pa.ChunkedArray) -> np.ndarray:
    if not _is_number(column.type):
        raise GraphError(f"{path}: the column {name!r} must be numbers, found {column.type}.")
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise GraphError(
            f"{path}: features must be complete, found {column.null_count} missing in {name!r}, the first in row {row + 1}."
        )
    feature: np.ndarray = column.cast(pa.float32(), safe=False).to_numpy()
    return feature


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _object_array(values: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _has_one_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.readline()
        return not file.read(64).strip()
