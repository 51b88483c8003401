"""What is done to the columns of a table before training, learned from one graph and done again to others.

Numbers and dates are standardised, flags are -1 and 1, categories one-hot, text is TF-IDF, and counts are scaled by rows. Every
column then weighs about the same. Where there are numbers, a constant stands beside them: methods scale rows to length 1, which
would otherwise leave only the sign of a single number (docs/data.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
import torch

from graphkin.errors import GraphError, argument
from graphkin.graphs.arrays import Features, checked_features
from graphkin.graphs.columns import KINDS, NUMERIC, Column, kinds_of_numbers, side_by_side
from graphkin.graphs.graph import Graph
from graphkin.support.sparse import SparseMatrix

MOST_UNNAMED = 64
"""Arrays with more features than this are taken for vectors or words, not for columns."""
DIFFERENT_SCALES = 10.0
"""Features of an array are columns of different scale where their deviations differ by more."""
CONSTANT = "constant"
DONE = {
    "number": "standardised",
    "date": "as days, standardised",
    "flag": "as -1 and 1",
    "category": "one-hot",
    "text": "by TF-IDF",
    "count": "scaled by rows",
}


@dataclass(frozen=True)
class Ingredient:
    """A column with what was learned about it: mean and deviation of numbers, the weights of words."""

    column: Column
    mean: float = 0.0
    deviation: float = 1.0
    weights: tuple[float, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """What is done to each column; ``named`` unless the graph was made of arrays, whose features are known by their place."""

    ingredients: tuple[Ingredient, ...]
    named: bool = True

    @property
    def kinds(self) -> dict[str, str]:
        """What each column is, by name, as ``columns=`` takes it."""
        return {one.column.name: one.column.kind for one in self.ingredients} if self.named else {}

    def __str__(self) -> str:
        parts = []
        for kind in KINDS:
            names = [one.column.name for one in self.ingredients if one.column.kind == kind]
            if names:
                listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
                parts.append(f"{listed} {DONE[kind]}")
        missing = [one.column.name for one in self.ingredients if one.column.marks_missing]
        if missing:
            parts.append(
                f"missing values of {', '.join(missing[:5])}{', ...' * (len(missing) > 5)} replaced by the mean and marked"
            )
        return "; ".join(parts)

    def applied(self, graph: Graph) -> Graph:
        """The graph with features as they are trained on."""
        given = {column.name: column for column in columns_of(graph)}
        wanted = [one.column.name for one in self.ingredients]
        absent = [name for name in wanted if name not in given]
        if absent or (not self.named and len(given) != len(wanted)):
            model, found = (", ".join(names[:8]) or "none" for names in (wanted, list(given)))
            raise GraphError(f"the graph must have the model's columns ({model}), found {found}.")
        start, places = 0, {}
        for column in given.values():
            places[column.name] = start
            start += len(column.features)
        x = _columns(graph.x)
        blocks: list[Any] = []
        names: list[str] = []
        counts: list[Any] = []
        for one in self.ingredients:
            column = given[one.column.name]
            _check_kind(one.column, column)
            first = places[column.name]
            block = x[:, first : first + len(column.features)]
            if one.column.kind == "count":
                counts.append(block[:, :1])
                continue
            blocks.append(_prepared(one, column, block))
            names += one.column.features
        if counts:
            blocks.append(_unit_rows(scipy.sparse.hstack([scipy.sparse.csc_matrix(one) for one in counts], format="csc")))
            names += [one.column.name for one in self.ingredients if one.column.kind == "count"]
        numbers = sum(one.column.kind in ("number", "date") for one in self.ingredients)
        if numbers:
            blocks.append(np.full((x.shape[0], 1), math.sqrt(numbers)))
            names.append(CONSTANT)
        features = checked_features(side_by_side(blocks)).to(graph.edge_index.device)
        return replace(graph, x=features, feature_names=tuple(names), columns=(), prepared=True)

    def as_json(self) -> dict[str, Any]:
        rows = [
            [one.column.name, one.column.kind, list(one.column.features), one.mean, one.deviation, list(one.weights)]
            for one in self.ingredients
        ]
        return {"named": self.named, "columns": rows}


def recipe_from_json(data: Any) -> Recipe | None:
    """What :meth:`Recipe.as_json` gave; whatever does not fit raises a ValueError."""
    if data is None:
        return None
    found = []
    for name, kind, features, mean, deviation, weights in data["columns"]:
        numbers = [float(mean), float(deviation), *map(float, weights)]
        fits = len(features) in (1, 2) if kind in NUMERIC else len(features) > 0
        if kind not in KINDS or not fits or not all(map(math.isfinite, numbers)) or numbers[1] <= 0:
            raise ValueError(f"the column {name!r} is not one that graphkin writes")
        if len(weights) != (len(features) if kind == "text" else 0) or not all(isinstance(one, str) for one in features):
            raise ValueError(f"the column {name!r} is not one that graphkin writes")
        found.append(Ingredient(Column(str(name), kind, tuple(features)), numbers[0], numbers[1], tuple(numbers[2:])))
    return Recipe(tuple(found), bool(data["named"]))


def columns_of(graph: Graph) -> tuple[Column, ...]:
    """Those of the graph's table; of an array, every feature is a column, which is known by its place."""
    if graph.columns:
        return graph.columns
    return tuple(Column(f"feature {place}", "number", (f"feature {place}",)) for place in range(graph.num_features))


def needs_recipe(graph: Graph) -> bool:
    """Whether its features are columns that must not be scaled by rows together.

    A table's are, unless all of them are counts. Those of an array are where there are few and their scales are far apart, or
    where there is one.
    """
    if graph.prepared:
        return False
    if graph.columns:
        return any(column.kind != "count" for column in graph.columns)
    if graph.num_features > MOST_UNNAMED or isinstance(graph.x, SparseMatrix):
        return False
    values = graph.x.double().cpu().numpy()
    kinds = kinds_of_numbers({str(place): column for place, column in enumerate(values.T)})
    deviations = values.std(axis=0)[[kind == "number" for kind in kinds.values()]]
    deviations = deviations[deviations > 0]
    if len(deviations) == 0:
        return False
    return graph.num_features == 1 or bool(deviations.max() > DIFFERENT_SCALES * deviations.min())


def recipe_for(graph: Graph) -> Recipe:
    """Learned from this graph."""
    x, start, found = _columns(graph.x), 0, []
    for column in columns_of(graph):
        found.append(_learned(column, x[:, start : start + len(column.features)]))
        start += len(column.features)
    return Recipe(tuple(found), named=bool(graph.columns))


def prepared_graph(graph: Graph) -> Graph:
    """The graph with features as ``feature_scale="auto"`` makes them, before rows are scaled."""
    return recipe_for(graph).applied(graph) if needs_recipe(graph) else graph


def _learned(column: Column, block: Any) -> Ingredient:
    if column.kind in ("number", "date"):
        values = _dense(block)
        known = values[values[:, 1] == 0, 0] if column.marks_missing else values[:, 0]
        deviation = float(known.std()) if len(known) else 0.0
        mean = float(known.mean()) if len(known) else 0.0
        return Ingredient(column, mean, deviation if deviation > 1e-7 * abs(mean) else 1.0)
    if column.kind == "text":
        nodes = block.shape[0]
        having = np.diff(scipy.sparse.csc_matrix(block).indptr)
        return Ingredient(column, weights=tuple((np.log((1 + nodes) / (1 + having)) + 1).tolist()))
    return Ingredient(column)


def _prepared(one: Ingredient, column: Column, block: Any) -> Any:
    """The features that the model has for a column, from those that the graph has for it."""
    if one.column.kind in NUMERIC:
        values = _dense(block)
        missing = values[:, 1] if column.marks_missing else np.zeros(len(values))
        scaled = 2 * values[:, 0] - 1 if one.column.kind == "flag" else (values[:, 0] - one.mean) / one.deviation
        known = np.where(missing > 0, 0, scaled)
        return np.stack([known, missing][: len(one.column.features)], axis=1).astype(np.float32)
    place = {name: i for i, name in enumerate(one.column.features)}
    pairs = [(i, place[name]) for i, name in enumerate(column.features) if name in place]
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    chosen = scipy.sparse.csc_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(column.features), len(place)))
    matched = scipy.sparse.csc_matrix(block) @ chosen
    return _unit_rows(matched @ scipy.sparse.diags(one.weights)) if one.column.kind == "text" else matched


def _unit_rows(block: Any) -> Any:
    lengths = np.sqrt(np.asarray(block.multiply(block).sum(axis=1), dtype=np.float64)).ravel()
    return scipy.sparse.diags(np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)) @ block


def _columns(x: Features) -> Any:
    """What columns can be taken from: an array, or a SciPy matrix."""
    if isinstance(x, SparseMatrix):
        return scipy.sparse.csc_matrix(x.to(device="cpu").to_scipy())
    return x.to(device="cpu", dtype=torch.float32).numpy()


def _dense(block: Any) -> np.ndarray:
    """In float64."""
    values: np.ndarray = block if isinstance(block, np.ndarray) else block.toarray()
    return values.astype(np.float64)


def _check_kind(model: Column, found: Column) -> None:
    if model.kind == found.kind or (model.kind in NUMERIC and found.kind in NUMERIC):
        return
    raise GraphError(
        f"the column {model.name!r} must be of the kind {model.kind}, as in training, found {found.kind}: "
        f"read the graph with {argument('columns', {model.name: model.kind}, f'{model.name}={model.kind}')}."
    )
