"""The arrays of a graph from tables of edges and nodes, and from NetworkX, whose attributes are such a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np

from graphkin.errors import GraphError, SettingError, argument, check_flag, check_text, first_line, shown
from graphkin.graphs import arrow, frames
from graphkin.graphs.arrow import ID, SUFFIXES
from graphkin.graphs.columns import (
    MOST_VALUES,
    NUMERIC,
    Column,
    checked_kinds,
    kind_of_text,
    kinds_of_numbers,
    nearly,
    of_categories,
    of_numbers,
    of_text,
    side_by_side,
)
from graphkin.support.files import checked_path, reading

SOURCE, TARGET, WEIGHT = "source", "target", "weight"
ALIASES = {"from": SOURCE, "to": TARGET, "src": SOURCE, "dst": TARGET}
LABEL = "label"
UNUSABLE = "holds what cannot be used"


class Words(TypedDict, total=False):
    """What a user says about tables, by name."""

    label: str
    ignore: Sequence[str]
    columns: Mapping[str, str] | None
    source: str | None
    target: str | None
    weight: str | None
    id: str | None
    bipartite: bool


@dataclass(frozen=True)
class Reading:
    """How to read tables: which columns there are, and what they are."""

    label: str = LABEL
    ignore: Sequence[str] = ()
    columns: Mapping[str, str] | None = None
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    id: str | None = None
    bipartite: bool = False
    needs_features: bool = True

    def __post_init__(self) -> None:
        check_text("label", self.label)
        check_flag("bipartite", self.bipartite)
        for name in ("source", "target", "weight", "id"):
            check_text(name, getattr(self, name), optional=True)
        if not isinstance(self.ignore, list | tuple) or not all(isinstance(column, str) for column in self.ignore):
            raise SettingError(f"ignore must be a list of column names, found {shown(self.ignore)}.")
        checked_kinds({} if self.columns is None else self.columns)


def arrays_from_tables(edges: str | Path, nodes: str | Path | None, how: Reading) -> dict[str, Any]:
    """What :meth:`Graph.from_arrays` takes. Without a nodes table, the nodes are those that edges mention."""
    edge_path = checked_path(edges)
    with reading(edge_path, UNUSABLE, GraphError):
        found = _edges(edge_path, how)
        ids: Any = arrow.mentioned(found.ends) if nodes is None else None
    about: dict[str, Any] = {}
    if nodes is not None:
        node_path = checked_path(nodes)
        with reading(node_path, UNUSABLE, GraphError):
            ids, about = _nodes(node_path, arrow.read_table(node_path, text=(ID, _plain(how.id or ID))), how)
    return _joined(edge_path, found, ids, about)


def arrays_from_frames(edges: Any, nodes: Any, how: Reading) -> dict[str, Any]:
    """The same from DataFrames or Arrow tables."""
    names = Path("edges"), Path("nodes")
    with reading(names[0], UNUSABLE, GraphError):
        found = _ends(names[0], frames.table_from(names[0], edges), how)
        ids: Any = arrow.mentioned(found.ends) if nodes is None else None
    about: dict[str, Any] = {}
    if nodes is not None:
        index = _plain(how.id or ID)
        with reading(names[1], UNUSABLE, GraphError):
            ids, about = _nodes(names[1], frames.table_from(names[1], nodes, index), how)
            if frames.numbers_rows(nodes, index):
                said = f"nodes have no column {index!r}: their ids are the row numbers, from 0"
                found = found._replace(notes=(*found.notes, said))
    return _joined(names[0], found, ids, about)


def _joined(path: Path, edges: Edges, ids: Any, about: dict[str, Any]) -> dict[str, Any]:
    if len(ids) == 0:
        raise GraphError(f"the graph has no nodes: {path} has no rows.")
    with reading(path, UNUSABLE, GraphError):
        places = [arrow.places_of(path, end, column, ids) for end, column in zip((SOURCE, TARGET), edges.ends, strict=True)]
        names = ids.to_numpy(zero_copy_only=False)
    found = {"edge_index": np.stack(places), "edge_weight": edges.weight, "notes": edges.notes}
    return {"x": None, **about, **found, "ids": names, "num_nodes": len(names)}


class Edges(NamedTuple):
    """Both ends of every edge, weights where there are any, and what was left out."""

    ends: list[Any]
    weight: np.ndarray | None
    notes: tuple[str, ...]


def _edges(path: Path, how: Reading) -> Edges:
    said = [_plain(name) for name in (how.source, how.target) if name is not None]
    return _ends(path, arrow.read_table(path, text=(SOURCE, TARGET, *ALIASES, *said)), how)


def _ends(path: Path, table: Any, how: Reading) -> Edges:
    said = [(SOURCE, how.source), (TARGET, how.target), (WEIGHT, how.weight)]
    names = {_plain(name): end for end, name in said if name is not None}
    arrow.need_columns(path, table, tuple(names))
    found = dict(zip(arrow.renamed(path, table.column_names, names, ALIASES), table.column_names, strict=True))
    if not {SOURCE, TARGET} <= set(found):
        listed = ", ".join(table.column_names[:8]) or "none"
        hint = ""
        if len(table.column_names) > 1:
            first, second = table.column_names[:2]
            hint = f"; to use other columns: {argument('source', first)} {argument('target', second)}"
        raise GraphError(f"{path} must have the columns source and target{arrow.in_header(path)}, found: {listed}{hint}.")
    table = table.rename_columns(list(found))
    ends = [arrow.complete_column(path, table, end) for end in (SOURCE, TARGET)]
    if how.bipartite:
        ends = [arrow.prefixed(column, f"{found[end]}:") for end, column in zip((SOURCE, TARGET), ends, strict=True)]
    weight = arrow.numbers(path, table, WEIGHT) if WEIGHT in found else None
    return Edges(ends, weight, _left_out([name for name in found if name not in (SOURCE, TARGET, WEIGHT)], weight is not None))


def _left_out(names: Sequence[str], weighted: bool) -> tuple[str, ...]:
    """Of what edges have besides; never dropped without a word."""
    if not names:
        return ()
    hint = "" if weighted else f" ({argument('weight', names[0])} uses {names[0]!r} as weights)"
    return (f"columns of edges left out: {_listed(names)}{hint}",)


def _plain(name: str) -> str:
    return name.strip().lower()


def _nodes(path: Path, table: Any, how: Reading) -> tuple[Any, dict[str, Any]]:
    """The ids, and what the other columns say."""
    wanted = _plain(how.id or ID)
    other = f"; to use another column: {argument('id', table.column_names[0])}" if how.id is None and table.column_names else ""
    arrow.need_columns(path, table, (wanted,), other)
    table = table.rename_columns(arrow.renamed(path, table.column_names, {wanted: ID}))
    if table.num_rows == 0:
        raise GraphError(f"the graph has no nodes: {path} has no rows.")
    ids = arrow.ids_of(path, table)
    return ids, _about_nodes(path, table.drop([ID]), how)


def _about_nodes(path: Path, table: Any, how: Reading) -> dict[str, Any]:
    """Features and classes. Every column that is neither ignored nor the label is a feature."""
    _check_named(path, table.column_names, how)
    y, class_names = arrow.classes(table, how.label)
    ignored = {_plain(name) for name in (how.label, *how.ignore)}
    names = [name for name in table.column_names if name not in ignored] if how.needs_features else []
    said = checked_kinds({} if how.columns is None else how.columns)
    categories = {name: "category" for name in names if arrow.is_category(table.column(name), MOST_VALUES)}
    as_written = {name for name, kind in {**categories, **said}.items() if kind in ("category", "text")}
    found = {name: arrow.column(table, name) for name in names}
    found |= {name: arrow.dates_in_text(column) for name, column in found.items() if name not in as_written}
    columns, x = _features(path, found, said, categories)
    return {"x": x, "y": y, "class_names": class_names, "columns": columns}


def _check_named(path: Path, there: Sequence[str], how: Reading) -> None:
    """A misspelt name would turn a label, or a column to leave out, into a feature."""
    named = {"ignore": how.ignore, "label": () if how.label == LABEL else (how.label,)}
    for option, names in named.items():
        absent = [name for name in names if _plain(name) not in there]
        if absent:
            said = argument(option, absent if option == "ignore" else absent[0], absent[0])
            raise GraphError(f"{path} must have the column that {said} names, found {_listed(there) or 'none'}.")


def _features(path: Path, found: dict[str, Any], said: dict[str, str], typed: dict[str, str]) -> tuple[tuple[Column, ...], Any]:
    """What each column is, by what the user says, by its type and else by what is in it, and the features that hold it."""
    absent = [name for name in said if name not in found]
    if absent and found:
        raise GraphError(f"{path} must have every column named in columns, found no {absent[0]!r} among {_listed(found)}.")
    kinds = {name: _kind(path, name, column, {**typed, **said}.get(name)) for name, column in found.items()}
    numbers = {name: arrow.as_numbers(found[name]) for name, kind in kinds.items() if kind in (*NUMERIC, "")}
    guessed = kinds_of_numbers({name: numbers[name] for name, kind in kinds.items() if kind == ""})
    kinds |= guessed
    unclear = [name for name, kind in kinds.items() if kind is None]
    if unclear:
        one = unclear[0]
        hint = f"leave it out ({argument('ignore', [one], one)})"
        if arrow.is_text(found[one].type):
            as_category = argument("columns", {one: "category"}, f"{one}=category")
            hint += f", say what it is ({as_category} or text), or that it is the class ({argument('label', one)})"
        raise GraphError(
            f"{path}: features must be numbers, dates, categories or text, found {_unclear(found[one])} in {_listed(unclear)}: "
            f"{hint}."
        )
    blocks = []
    for name, kind in kinds.items():
        if kind in NUMERIC:
            blocks.append(of_numbers(name, kind, numbers[name]))
        else:
            texts = arrow.as_texts(found[name])
            blocks.append(of_categories(name, texts) if kind == "category" else of_text(name, texts))
    if not blocks:
        return (), None
    return tuple(column for column, _ in blocks), side_by_side([block for _, block in blocks])


def _kind(path: Path, name: str, column: Any, said: str | None) -> str | None:
    """As the user says, or by the type of the column; "" for numbers, which are judged together; None where unclear."""
    number, date, text = (test(column.type) for test in (arrow.is_number, arrow.is_date, arrow.is_text))
    if column.null_count == len(column) or not (number or date or text):
        return None
    if said in NUMERIC and text:
        found = nearly(arrow.as_texts(column)) or "text"
        raise GraphError(f"{path}: the column {name!r} must be numbers or dates to be of the kind {said}, found {found}.")
    if said is not None:
        return said
    if text:
        return kind_of_text(arrow.as_texts(column))
    return "flag" if arrow.is_flag(column.type) else "date" if date else ""


def _unclear(column: Any) -> str:
    if column.null_count == len(column):
        return "nothing"
    if not arrow.is_text(column.type):
        return str(column.type)
    return nearly(arrow.as_texts(column)) or "text that hardly repeats"


def _listed(names: Iterable[str]) -> str:
    shown = [repr(name) for name in names]
    return ", ".join(shown[:5]) + (", ..." if len(shown) > 5 else "")


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


def arrays_from_networkx(graph: Any, how: Reading, name: str) -> dict[str, Any]:
    """What :meth:`Graph.from_arrays` takes: attributes of nodes are read by the rules of tables."""
    check_text("name", name)
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
        about = _about_nodes(Path(name), table, how)
    ids = np.empty(len(nodes), dtype=object)
    ids[:] = nodes
    index = np.array([(place[a], place[b]) for a, b, _ in edges], dtype=np.int64).reshape(-1, 2).T
    return {**about, "edge_index": index, **_about_edges(edges, how, name), "ids": ids, "num_nodes": len(nodes)}


def _about_edges(edges: Sequence[tuple[Any, Any, dict[str, Any]]], how: Reading, name: str) -> dict[str, Any]:
    wanted = WEIGHT if how.weight is None else how.weight
    names = {str(key): key for _, _, attributes in edges for key in attributes}
    if wanted not in names:
        if how.weight is not None:
            raise GraphError(f"{name}: edges must have the attribute {wanted!r}, found {_listed(names) or 'none'}.")
        return {"notes": _left_out(sorted(names), weighted=False)}
    try:
        weights = np.array([float(attributes.get(names[wanted], 1)) for _, _, attributes in edges])
    except (TypeError, ValueError, OverflowError) as error:
        raise GraphError(f"{name}: the weights of edges must be numbers: {first_line(error)}") from error
    return {"edge_weight": weights, "notes": _left_out(sorted(set(names) - {wanted}), weighted=True)}
