"""Tables: CSV, TSV and Parquet files through Apache Arrow, without a Python loop over rows.

Ids are text in CSV and TSV files, exactly as they stand there ("007" stays "007"), and whatever they are in Parquet files.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from graphkin.errors import GraphError, first_line
from graphkin.support.files import check_memory, reading, write_whole

SUFFIXES = (".csv", ".tsv", ".parquet")
ID = "id"
MOST_COLUMNS = 50_000
MISSING = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "-", "?"]
"""among numbers and dates; text stays as it is written"""


def read_table(path: Path, text: Sequence[str] = ()) -> pa.Table:
    """A table with lower-case column names; ``text`` names the columns that a CSV or TSV file must not turn into numbers."""
    if not path.is_file():
        raise GraphError(f"no file at {path}.")
    with reading(path, "cannot be read as a table", GraphError):
        return _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_text(path, text)


def _read_parquet(path: Path) -> pa.Table:
    about = pa.parquet.read_metadata(path)
    names = checked_names(path, about.schema.to_arrow_schema().names)
    check_memory(f"a table of {about.num_rows:,} rows and {len(names):,} columns", 4 * about.num_rows * len(names))
    return pa.parquet.read_table(path).rename_columns(names)


def _read_text(path: Path, text: Sequence[str]) -> pa.Table:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = next(csv.reader(file, delimiter=delimiter), [])
    names = checked_names(path, header)
    types = {raw: pa.string() for raw, name in zip(header, names, strict=True) if name in text}
    if header and _has_one_line(path):
        return pa.table([pa.array([], types.get(raw, pa.float64())) for raw in header], names)
    table = pa.csv.read_csv(
        path,
        read_options=pa.csv.ReadOptions(column_names=header, skip_rows=1),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter),
        convert_options=pa.csv.ConvertOptions(column_types=types, null_values=MISSING),
    )
    return table.rename_columns(names)


def _has_one_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.readline()
        return not file.read(64).strip()


def checked_names(path: Path, given: Sequence[str]) -> list[str]:
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


def table_of(columns: Mapping[str, Iterable[Any]], rows: int) -> pa.Table:
    """A table from Python values, None where one is missing; each column must be of one type."""
    try:
        arrays = {name: pa.array(values) for name, values in columns.items()}
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise GraphError(f"attributes must be of one type each: {first_line(error)}") from error
    return pa.table(arrays) if arrays else pa.table({"": pa.nulls(rows)}).drop([""])


def write_table(path: Path, ids: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
    """As Parquet or CSV, by the suffix. Ids that are not whole numbers are written as text."""
    write_columns(path, {ID: ids, **columns})


def write_columns(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """As Parquet or CSV, by the suffix. What is not a number is written as text."""
    table = pa.table({name: _numbers_or_text(values) for name, values in columns.items()})
    if path.suffix.lower() == ".parquet":
        write_whole(path, lambda file: pa.parquet.write_table(table, file))
    else:
        write_whole(path, lambda file: pa.csv.write_csv(table, file))


def _numbers_or_text(values: np.ndarray) -> pa.Array:
    return pa.array(values) if values.dtype.kind in "biuf" else pa.array([str(value) for value in values], pa.string())


def renamed(path: Path, names: Sequence[str], said: Mapping[str, str], otherwise: Mapping[str, str] | None = None) -> list[str]:
    """The names of columns after those that are ``said`` took others; a column that had such a name keeps out of their way."""
    taken = {new for old, new in said.items() if old != new}
    found = [said.get(name, f"{name} (column)" if name in taken else name) for name in names]
    if otherwise and not set(otherwise.values()) & set(found):
        found = [otherwise.get(name, name) for name in found]
    return checked_names(path, found)


def prefixed(column: pa.ChunkedArray, prefix: str) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(prefix, column.cast(pa.string()), "")


def need_columns(path: Path, table: pa.Table, wanted: Sequence[str], hint: str = "") -> None:
    missing = [name for name in wanted if name not in table.column_names]
    if missing:
        found = ", ".join(table.column_names[:8]) or "none"
        columns = f"column{'s' * (len(wanted) > 1)} {' and '.join(wanted)}"
        raise GraphError(f"{path} must have the {columns}{in_header(path)}, found: {found}{hint}.")


def in_header(path: Path) -> str:
    """Where a file names its columns; a DataFrame has no suffix, and no lines."""
    return " in its first line" if path.suffix else ""


def column(table: pa.Table, name: str) -> pa.ChunkedArray:
    found = table.column(name)
    return found.cast(found.type.value_type) if pa.types.is_dictionary(found.type) else found


def complete_column(path: Path, table: pa.Table, name: str) -> pa.ChunkedArray:
    found = column(table, name)
    missing = found.null_count
    if is_text(found.type):
        missing += pc.sum(pc.equal(found, "")).as_py() or 0
    if missing:
        raise GraphError(f"{path}: every row needs a {name}, found {missing} without one.")
    return found


def ids_of(path: Path, table: pa.Table) -> pa.Array:
    """The column of ids, each of which names one row."""
    need_columns(path, table, (ID,))
    ids = complete_column(path, table, ID).combine_chunks()
    repeated = len(ids) - pc.count_distinct(ids).as_py()
    if repeated:
        counts = pc.value_counts(ids)
        first = next(entry["values"] for entry in counts.to_pylist() if entry["counts"] > 1)
        raise GraphError(f"{path}: every node must have an id of its own, found {repeated} repeated, the first {first!r}.")
    return ids


def mentioned(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """The distinct values of all columns, in the order of their first mention."""
    kind = columns[0].type
    chunks = [chunk for one in columns for chunk in (one if one.type == kind else one.cast(kind)).chunks]
    return pc.unique(pa.chunked_array(chunks, kind))


def places_of(path: Path, end: str, wanted: pa.ChunkedArray, ids: pa.Array) -> np.ndarray:
    """Where each of the ``wanted`` values, which are one end of the edges, is among the ids."""
    if wanted.type != ids.type:
        wanted, ids = wanted.cast(pa.string()), ids.cast(pa.string())
    index = pc.index_in(wanted, value_set=ids)
    if index.null_count:
        first = wanted.filter(pc.is_null(index))[0].as_py()
        raise GraphError(
            f"{path}: every {end} must be the id of a node, found {index.null_count} unknown, the first {first!r}."
        )
    places: np.ndarray = index.to_numpy().astype(np.int64)
    return places


def order_of(ids: np.ndarray, written: pa.Array) -> np.ndarray | None:
    """Where each of ``ids`` is among the ids ``written``, both as text; None unless these are the same ids."""
    order = pc.index_in(pa.array([str(name) for name in ids], pa.string()), value_set=written.cast(pa.string()))
    return None if order.null_count or len(written) != len(ids) else order.to_numpy()


def numbers(path: Path, table: pa.Table, name: str) -> np.ndarray:
    """A column in float64, NaN where it is missing."""
    found = column(table, name)
    if not (pa.types.is_integer(found.type) or pa.types.is_floating(found.type)) and len(found):
        raise GraphError(f"{path}: the column {name!r} must be numbers, found {found.type}.")
    values: np.ndarray = found.cast(pa.float64()).to_numpy()
    return values


def classes(table: pa.Table, label: str) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Class numbers in the order of the sorted labels, -1 where there is none, and the labels."""
    name = label.strip().lower()
    if name not in table.column_names:
        return None, ()
    found = column(table, name)
    if not is_number(found.type):
        found = found.cast(pa.string())
        found = pc.if_else(pc.equal(found, ""), pa.scalar(None, found.type), found)
    values = pc.unique(found.drop_null()).to_pylist()
    values.sort(key=lambda value: (str(type(value)), value))
    if not values:
        return None, ()
    codes = pc.index_in(found, value_set=pa.array(values, found.type))
    return pc.fill_null(codes, -1).to_numpy().astype(np.int64), tuple(str(value) for value in values)


def matrix(path: Path, table: pa.Table, names: Sequence[str]) -> np.ndarray:
    """The named columns, complete and numeric, side by side in float32."""
    return np.stack([_feature(path, name, column(table, name)) for name in names], axis=1)


def _feature(path: Path, name: str, found: pa.ChunkedArray) -> np.ndarray:
    if not is_number(found.type):
        raise GraphError(f"{path}: the column {name!r} must be numbers, found {found.type}.")
    if found.null_count:
        row = pc.index(pc.is_null(found), True).as_py()
        raise GraphError(
            f"{path}: features must be complete, found {found.null_count} missing in {name!r}, the first in row {row + 1}."
        )
    values: np.ndarray = found.cast(pa.float32(), safe=False).to_numpy()
    return values


def as_numbers(found: pa.ChunkedArray) -> np.ndarray:
    """In float64, dates as days since 1970 and durations as days, NaN where a value is missing."""
    if pa.types.is_duration(found.type):
        found = pc.divide(found.cast(pa.duration("ms"), safe=False).cast(pa.int64()).cast(pa.float64()), 86_400_000.0)
    elif pa.types.is_temporal(found.type):
        found = pc.divide(pc.cast(pc.cast(found, pa.timestamp("ms"), safe=False), pa.int64()).cast(pa.float64()), 86_400_000.0)
    values: np.ndarray = found.cast(pa.float64(), safe=False).to_numpy()
    return values


def as_texts(found: pa.ChunkedArray) -> list[str | None]:
    """None where a value is missing."""
    return [value or None for value in found.cast(pa.string()).to_pylist()]


def dates_in_text(found: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text that is a date in every row (2026-01-31, also with a time), as it is read from CSV; other columns as they are."""
    if not is_text(found.type) or found.null_count == len(found):
        return found
    written = pc.if_else(pc.equal(found, ""), None, found)
    for zone in (None, "UTC"):
        try:
            return written.cast(pa.timestamp("ms", zone))
        except pa.ArrowInvalid:
            continue
    return found


def is_category(found: pa.ChunkedArray, most: int) -> bool:
    """Whether its type says that it is one, and its values are few or repeat; ``most`` are few."""
    if not pa.types.is_dictionary(found.type):
        return False
    distinct = pc.count_distinct(found.cast(found.type.value_type)).as_py()
    return bool(distinct <= max(most, (len(found) - found.null_count) // 2))


def is_date(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def is_flag(kind: pa.DataType) -> bool:
    return bool(pa.types.is_boolean(kind))


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_duration)
    return any(test(kind) for test in tests)
