"""What the columns of a table of nodes are, and the features that hold them: numbers as they stand, a feature for each category
and word. Nothing is scaled here; :mod:`graphkin.graphs.recipes` does that, so that a model can do it again to another graph."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import scipy.sparse

from graphkin.errors import GraphError, SettingError, argument, shown, unknown

KINDS = ("number", "count", "flag", "date", "category", "text")
NUMERIC = ("number", "count", "flag", "date")
"""kinds of one feature, which can be read as one another"""
FEWEST_COUNTS = 8
"""so many columns that are >= 0 and mostly 0 are counts or words; fewer are numbers"""
MOST_VALUES = 100
"""a category has at most so many, unless the user says that it is one"""
MOST_WORDS = 5000
WORD = re.compile(r"\w\w+")
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Column:
    """A column of the user's table, and the features of the graph that hold it."""

    name: str
    kind: str
    features: tuple[str, ...]

    @property
    def marks_missing(self) -> bool:
        """The second feature is then 1 where the value is missing, and the first one 0."""
        return self.kind in NUMERIC and len(self.features) == 2


def check_columns(columns: object, width: int) -> None:
    """That they describe so many features, if there are any."""
    if not isinstance(columns, list | tuple) or not all(isinstance(one, Column) for one in columns):
        raise GraphError(f"columns must be those of another graph (graph.columns), found {shown(columns)}.")
    described = sum(len(one.features) for one in columns)
    if columns and described != width:
        raise GraphError(f"columns must describe the {width} features, found {described}.")


def checked_kinds(columns: object) -> dict[str, str]:
    """What the user says that columns are."""
    if not isinstance(columns, Mapping) or not all(isinstance(name, str) for name in columns):
        raise SettingError(f"columns must say what columns are, as in {{'age': 'number'}}, found {shown(columns)}.")
    for name, kind in columns.items():
        if not isinstance(kind, str) or kind not in KINDS:
            raise unknown(f"kind of the column {name!r}:", kind if isinstance(kind, str) else shown(kind), KINDS)
    return {name.strip().lower(): kind for name, kind in columns.items()}


def kinds_of_numbers(values: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Of columns of numbers, NaN where one is missing: flags are 0 and 1, and many columns that are mostly 0 are counts."""
    kinds = {}
    for name, column in values.items():
        known = column[~np.isnan(column)]
        zeros = int((known == 0).sum())
        if len(known) and known.min() >= 0 and 2 * zeros >= len(known):
            kinds[name] = "count"
        else:
            kinds[name] = "number"
    few = sum(kind == "count" for kind in kinds.values()) < FEWEST_COUNTS
    for name, column in values.items():
        if few:
            kinds[name] = "flag" if np.isin(column[~np.isnan(column)], (0, 1)).all() else "number"
    return kinds


def kind_of_text(values: Sequence[str | None]) -> str | None:
    """A category where values come again, text where they are of several words; None where it is neither, or nearly dates."""
    known = [value for value in values if value]
    distinct = len(set(known))
    if mostly(known, DATE.fullmatch):
        return None
    if 0 < distinct <= min(MOST_VALUES, len(known) // 2):
        return "category"
    words = sum(len(WORD.findall(value)) for value in known)
    return "text" if known and words >= 3 * len(known) else None


def nearly(values: Sequence[str | None]) -> str | None:
    """Of text that is mostly dates or numbers: which, and the first value that is not; None for other text."""
    for what, like, exact, advice in (
        ("dates", DATE.fullmatch, _iso_date, "write dates as 2026-01-31"),
        ("numbers", NUMBER.fullmatch, NUMBER.fullmatch, "leave the cell empty where a value is missing"),
    ):
        if mostly([value for value in values if value], like):
            odd = next(((row, value) for row, value in enumerate(values, 1) if value and not exact(value)), None)
            return f"{what} written as text" if odd is None else f"{what} with {odd[1]!r} in row {odd[0]} ({advice})"
    return None


def _iso_date(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def mostly(values: Sequence[str], like: Callable[[str], object]) -> bool:
    return 2 * sum(like(value) is not None for value in values) > len(values)


def of_numbers(name: str, kind: str, values: np.ndarray) -> tuple[Column, Any]:
    """NaN is a missing value: 0, with a second feature that says so. A missing count is 0."""
    missing = np.isnan(values)
    with np.errstate(over="ignore"):  # infinite values are refused with the features
        filled = np.where(missing, 0, values).astype(np.float32)
    if not missing.any() or kind == "count":
        return Column(name, kind, (name,)), filled[:, None]
    return Column(name, kind, (name, f"{name} missing")), np.stack([filled, missing], axis=1, dtype=np.float32)


def of_categories(name: str, values: Sequence[str | None]) -> tuple[Column, Any]:
    """A missing value is of no category."""
    return _indicators(name, "=", "category", [[value] if value else [] for value in values], {v for v in values if v})


def _leave_out(name: str) -> str:
    return f"leave it out ({argument('ignore', [name], name)})"


def of_text(name: str, values: Sequence[str | None]) -> tuple[Column, Any]:
    """How often each word stands there, of the words that at least two nodes have."""
    bags = [WORD.findall(value.lower()) if value else [] for value in values]
    nodes = Counter(word for bag in bags for word in set(bag))
    common = [word for word, count in nodes.most_common(MOST_WORDS) if count > 1]
    if not common:
        raise GraphError(f"the column {name!r} cannot be text: no two nodes share a word in it; {_leave_out(name)}.")
    return _indicators(name, ":", "text", bags, common)


def _indicators(name: str, sign: str, kind: str, bags: Sequence[Sequence[str]], wanted: Iterable[str]) -> tuple[Column, Any]:
    values = sorted(wanted)
    if not values:
        raise GraphError(f"the column {name!r} has no values; {_leave_out(name)}.")
    place = {value: i for i, value in enumerate(values)}
    pairs = [(row, place[value]) for row, bag in enumerate(bags) for value in bag if value in place]
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    matrix = scipy.sparse.csc_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(bags), len(values)))
    return Column(name, kind, tuple(f"{name}{sign}{value}" for value in values)), matrix


def side_by_side(blocks: Sequence[Any]) -> Any:
    """One matrix in float32 from dense and sparse ones, dense where that is smaller."""
    if all(isinstance(block, np.ndarray) for block in blocks):
        return np.hstack(blocks, dtype=np.float32)
    whole = scipy.sparse.hstack([scipy.sparse.csc_matrix(block) for block in blocks], format="csr")
    return whole.toarray().astype(np.float32) if 4 * whole.nnz > whole.shape[0] * whole.shape[1] else whole
