"""DataFrames: those that a user holds as Arrow tables, and embeddings as one of pandas, which is optional."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from graphkin.errors import GraphError, InputError, first_line
from graphkin.graphs.arrow import ID, checked_names

if TYPE_CHECKING:
    import pandas


def table_from(name: Path, frame: Any, index: str | None = None) -> pa.Table:
    """A table from a DataFrame of pandas or polars; an ``index`` becomes the column of that name where there is none."""
    if hasattr(frame, "iloc") and hasattr(frame, "columns"):
        table = _from_pandas(name, frame, index)
    elif isinstance(frame, pa.Table) or (hasattr(frame, "__arrow_c_stream__") and hasattr(frame, "columns")):
        table = pa.table(frame)
    else:
        raise GraphError(f"{name} must be a DataFrame or an Arrow table, found {type(frame).__name__}.")
    columns = [one.cast(pa.string()) if pa.types.is_string_view(one.type) else one for one in table.columns]
    return pa.table(columns, names=checked_names(name, table.column_names))


def numbers_rows(frame: Any, index: str) -> bool:
    """Whether its rows have no ids: no column ``index``, and the index that pandas makes by itself."""
    named = [str(column).strip().lower() for column in frame.columns]
    return index not in named and type(getattr(frame, "index", None)).__name__ == "RangeIndex"


def _from_pandas(name: Path, frame: Any, index: str | None) -> pa.Table:
    if frame.columns.nlevels > 1:
        raise GraphError(f"{name} must have a name for each column, found a MultiIndex of {frame.columns.nlevels} levels.")
    names = checked_names(name, [str(column) for column in frame.columns])
    arrays = [_column(name, column, frame.iloc[:, place]) for place, column in enumerate(names)]
    if index is not None and index not in names:
        if frame.index.nlevels > 1:
            raise GraphError(
                f"{name} must have a column {index!r}, or ids as its index, found a MultiIndex of {frame.index.nlevels} levels."
            )
        names, arrays = [index, *names], [_column(name, index, frame.index.to_series()), *arrays]
    return pa.table(arrays, names=names)


def _column(table: Path, name: str, values: Any) -> pa.Array:
    """From a pandas Series; of types that Arrow does not know, what it is stored as."""
    try:
        found = pa.array(values.to_numpy() if str(values.dtype).startswith("Sparse") else values, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        rule = f"the column {name!r} must be numbers, dates, categories or text"
        raise GraphError(f"{table}: {rule}, found {values.dtype}: {first_line(error)}") from error
    return found.storage if isinstance(found, pa.ExtensionArray) else found


def frame_of(rows: np.ndarray, names: Sequence[str], ids: np.ndarray | None) -> pandas.DataFrame:
    """Rows as a DataFrame with ids, or places where there are none, as its index."""
    try:
        import pandas
    except ImportError as error:
        raise InputError("a DataFrame needs pandas, which is not installed: pip install pandas.") from error
    index = pandas.RangeIndex(len(rows), name=ID) if ids is None else pandas.Index(ids, name=ID, tupleize_cols=False)
    return pandas.DataFrame(rows, index=index, columns=list(names))
