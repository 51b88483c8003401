"""DataFrames of pandas as people have them: in as a graph, out as embeddings."""

from __future__ import annotations

import datetime
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

import graphkin
from graphkin import Graph, fit
from graphkin.errors import GraphError, InputError
from graphkin.graphs.columns import MOST_VALUES
from graphkin.graphs.recipes import recipe_for
from tests.wording import refused

IDS = list("abcd")
EDGES = pd.DataFrame({"source": IDS, "target": [*IDS[1:], "a"]})


def nodes(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"id": IDS, **columns})


def read(values: Any, **reading: Any) -> tuple[str, list[list[float]]]:
    """The kind of a column, and the features that hold it."""
    graph = Graph.from_pandas(EDGES, nodes(column=values), **reading)
    (column,) = graph.columns
    return column.kind, graph.x.to_dense().tolist()


def test_a_pandas_user_in_five_lines(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    people = [f"p{i}" for i in range(30)]
    pd.DataFrame({"source": draw.choice(people, 80), "target": draw.choice(people, 80)}).to_csv("edges.csv", index=False)
    columns = {"id": people, "age": draw.normal(40, 9, 30), "city": draw.choice(["Rome", "Oslo"], 30)}
    pd.DataFrame(columns).to_csv("nodes.csv", index=False)
    monkeypatch.setattr(graphkin, "fit", lambda data: fit(data, epochs=2))

    edges, nodes = pd.read_csv("edges.csv"), pd.read_csv("nodes.csv")
    fitted = graphkin.fit((edges, nodes))
    z = fitted.embed_frame((edges, nodes))
    nodes["cluster"] = graphkin.cluster(z).numbers
    joined = nodes.join(z, on="id")

    assert z.index.tolist() == people and z.index.name == "id" and z.columns[:2].tolist() == ["e0", "e1"]
    np.testing.assert_array_equal(z, fitted.embed((edges, nodes)).numpy())
    assert joined.shape == (30, 4 + z.shape[1]) and not joined.isna().any(axis=None)


def test_nodes_without_ids_are_numbered_in_a_frame() -> None:
    graph = Graph.from_arrays(torch.rand(3, 2), [[0], [1]])
    assert fit(graph, "diffusion").embed_frame(graph).index.tolist() == [0, 1, 2]
    pairs = Graph.from_arrays(torch.rand(2, 2), [[0], [1]], ids=np.array([(1, 2), None], dtype=object)[[0, 0]][:2])
    frame = fit(pairs, "diffusion").embed_frame(pairs)
    assert frame.index.nlevels == 1 and frame.index[0] == (1, 2)


def test_pandas_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph.from_arrays(torch.rand(3, 2), [[0], [1]])
    fitted = fit(graph, "diffusion")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with refused(InputError, "pandas", "pip install pandas"):
        fitted.embed_frame(graph)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pd.array([1, None, 3, 4], dtype="Int64"), "number", [[1, 0], [0, 1], [3, 0], [4, 0]]),
        (pd.array([1.5, None, 3, 4], dtype="Float64"), "number", [[1.5, 0], [0, 1], [3, 0], [4, 0]]),
        (pd.array([1, None, 3, 4], dtype="int64[pyarrow]"), "number", [[1, 0], [0, 1], [3, 0], [4, 0]]),
        (np.array([1, np.nan, 3, 4]), "number", [[1, 0], [0, 1], [3, 0], [4, 0]]),
        ([Decimal("1.5"), None, Decimal(3), Decimal(4)], "number", [[1.5, 0], [0, 1], [3, 0], [4, 0]]),
        (pd.arrays.SparseArray([0, 0, 1.5, 2]), "number", [[0], [0], [1.5], [2]]),
        (pd.to_timedelta([36, 48, 24, 0], unit="h"), "number", [[1.5], [2], [1], [0]]),
        (pd.period_range("1970-02", periods=4, freq="M"), "number", [[1], [2], [3], [4]]),
        (pd.array([True, None, False, True], dtype="boolean"), "flag", [[1, 0], [0, 1], [0, 0], [1, 0]]),
        ([True, False, False, True], "flag", [[1], [0], [0], [1]]),
        (pd.to_datetime(["1970-01-02", None, "1970-01-03", "1970-01-05"]), "date", [[1, 0], [0, 1], [2, 0], [4, 0]]),
        (pd.date_range("1970-01-02", periods=4, tz="Etc/GMT-12"), "date", [[0.5], [1.5], [2.5], [3.5]]),
        ([datetime.date(1970, 1, day) for day in (1, 2, 3, 5)], "date", [[0], [1], [2], [4]]),
        (pd.array(["x", "y", "x", "y"], dtype="string"), "category", [[1, 0], [0, 1], [1, 0], [0, 1]]),
        (pd.array(["x", "y", "x", "y"], dtype="str"), "category", [[1, 0], [0, 1], [1, 0], [0, 1]]),
        (pd.Series(["x", "y", "x", "y"], dtype=object), "category", [[1, 0], [0, 1], [1, 0], [0, 1]]),
        (pd.Categorical(["x", None, "z", "x"]), "category", [[1, 0], [0, 0], [0, 1], [1, 0]]),
        (pd.Categorical([10, 20, 10, 30]), "category", [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]),
    ],
)
def test_types_of_columns(values: Any, kind: str, expected: list[list[float]]) -> None:
    assert read(values) == (kind, expected)


def test_a_categorical_that_hardly_repeats_is_judged_by_what_is_in_it() -> None:
    """Memory is saved by such columns too, and one feature for every node would be no feature."""
    many = 2 * MOST_VALUES
    edges = pd.DataFrame({"source": range(many), "target": range(many)})
    table = pd.DataFrame({"name": [f"name{i}" for i in range(many)], "age": range(many)}, dtype="category")
    with refused(GraphError, "'name'", "columns={'name': 'category'}"):
        Graph.from_pandas(edges, table)
    assert {column.kind for column in Graph.from_pandas(edges, table, ignore=["name"]).columns} == {"number"}
    assert Graph.from_pandas(edges, table, columns={"name": "category"}).num_features == many + 1


@pytest.mark.parametrize(
    "dates",
    [
        ["2026-01-01", "2026-01-03", "", "2026-01-05"],
        ["2026-01-01T06:00", "2026-01-03T06:00", None, "2026-01-05T06:00"],
        ["2026-01-01T06:00:00Z", "2026-01-03T06:00:00Z", None, "2026-01-05T06:00:00Z"],
    ],
)
def test_dates_are_text_in_what_pandas_reads(dates: list[str | None]) -> None:
    """``pd.read_csv`` leaves them so; as text, a date would be three words."""
    kind, ((first, _), (second, _), (_, missing), _) = read(dates)
    assert kind == "date" and missing and second - first == pytest.approx(2)
    assert read([*dates[:3], "soon"], columns={"column": "category"})[0] == "category"
    assert read(dates, columns={"column": "category"})[0] == "category", "as the user says"


def test_numbers_written_as_text() -> None:
    with refused(GraphError, "column", "numbers written as text"):
        read(["1.5", "2", "-3e5", "4"])
    assert read(["1.5", "2", "1.5", "2"], columns={"column": "category"})[0] == "category"


def test_what_the_user_says_decides_over_the_type() -> None:
    assert read(pd.Categorical([10, 20, 10, 30]), columns={"column": "number"}) == ("number", [[10], [20], [10], [30]])


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        ([1, "x", 2.5, None], ("object",)),
        (np.array([1j, 2, 3, 4]), ("complex128",)),
        ([[1], [2], [3], [4]], ("list", "ignore=['column']")),
        (pd.interval_range(0, 4), ("struct", "ignore=['column']")),
        ([np.nan] * 4, ("nothing", "ignore=['column']")),
        (pd.Categorical([None] * 4), ("nothing", "ignore=['column']")),
        ([1, 2, np.inf, 4], ("finite", "node 2")),
        (["w", "x", "y", "z"], ("hardly repeats", "label='column'")),
    ],
)
def test_columns_that_cannot_be_used(values: Any, facts: tuple[str, ...]) -> None:
    with refused(GraphError, *facts):
        read(values)


def test_ids_and_labels_of_every_type() -> None:
    numbered = EDGES.replace(dict(zip(IDS, [7, 8, 9, 10], strict=True))).astype(int)
    heights: Any = {"height": [1.0, 2, 3, 4]}
    for kind in ("category", "string", "str", "object", "string[pyarrow]"):
        graph = Graph.from_pandas(EDGES.astype(kind), nodes(**heights).astype({"id": kind}))
        assert graph.ids is not None and graph.ids.tolist() == IDS and graph.num_edges == 4
    for number in ("Int64", "int32", "category", "int64[pyarrow]"):
        graph = Graph.from_pandas(numbered.astype(number), pd.DataFrame(heights, index=[7, 8, 9, 10]))
        assert graph.ids is not None and graph.ids.tolist() == [7, 8, 9, 10]
    for labels in (pd.Categorical(["r", "b", None, "r"]), pd.array(["r", "b", None, "r"], dtype="string"), ["r", "b", "", "r"]):
        labelled = Graph.from_pandas(EDGES, nodes(**heights, label=labels))
        assert labelled.y is not None and labelled.y.tolist() == [1, 0, -1, 1] and labelled.class_names == ("b", "r")


def test_the_index_has_the_ids_where_no_column_has() -> None:
    column = {"height": [1.0, 2, 3, 4]}
    for table in (pd.DataFrame(column, index=IDS), pd.DataFrame(column, index=pd.Index(IDS, name="who"))):
        graph = Graph.from_pandas(EDGES, table)
        assert graph.ids is not None and graph.ids.tolist() == IDS and not any("ids" in note for note in graph.notes)
    shuffled = nodes(**column).set_index(pd.Index([7, 3, 9, 1]))
    doubled = nodes(**column).set_index(pd.MultiIndex.from_product([["x"], IDS]))
    for table in (shuffled, doubled, nodes(**column).rename(columns={"id": " ID "})):
        found = Graph.from_pandas(EDGES, table).ids
        assert found is not None and found.tolist() == IDS
    named = pd.DataFrame({"name": IDS, **column})
    by_name = Graph.from_pandas(EDGES, named, id="name").ids
    assert by_name is not None and by_name.tolist() == IDS
    numbered = Graph.from_pandas(pd.DataFrame({"source": [0, 1], "target": [1, 3]}), pd.DataFrame(column))
    assert any("'id'" in note and "row num" in note for note in numbered.notes), "user 7 of a column 'user' may not be row 7"


def test_frames_that_cannot_be_used() -> None:
    heights = nodes(height=[1.0, 2, 3, 4])
    twice = heights.assign(other=1.0).set_axis(["id", "height", "Height"], axis=1)
    levels = pd.MultiIndex.from_product([["x"], IDS])
    wrong: list[tuple[Any, Any, tuple[str, ...]]] = [
        (pd.DataFrame({"a": [1], "b": [2]}), None, ("edges", "source and target", "a, b", "source='a' target='b'")),
        (pd.DataFrame(), None, ("edges", "source and target", "none")),
        (EDGES["source"], None, ("edges", "DataFrame", "Series")),
        (pd.concat([EDGES, EDGES], axis=1), heights, ("edges", "'source' 2 times")),
        (EDGES, twice, ("nodes", "'height' 2 times")),
        (EDGES, heights.to_dict(), ("nodes", "DataFrame", "dict")),
        (EDGES, heights.drop(columns="id").set_index(levels), ("nodes", "'id'", "MultiIndex of 2 levels")),
        (EDGES, heights.set_axis(pd.MultiIndex.from_product([["x"], ["id", "height"]]), axis=1), ("nodes", "MultiIndex")),
        (EDGES, heights.iloc[:0], ("no nodes", "nodes")),
        (EDGES, pd.DataFrame(), ("no nodes", "nodes")),
        (EDGES.iloc[:0], None, ("no nodes", "edges")),
        (EDGES, heights.assign(id=["a", "b", "a", "d"]), ("nodes", "1 repeated", "'a'")),
        (EDGES, heights.assign(id=["a", "b", None, "d"]), ("nodes", "id", "found 1")),
        (EDGES, heights.assign(id=["a", "b", "", "d"]), ("nodes", "id", "found 1")),
        (EDGES.assign(target=["b", "c", "d", None]), heights, ("edges", "target", "found 1")),
        (EDGES.assign(target=["b", "c", "d", "eve"]), heights, ("edges", "target", "'eve'")),
        (EDGES.assign(weight=pd.array([1, 2, None, 4], dtype="Int64")), heights, ("weights", "found 1", "nan")),
        (EDGES.assign(weight=["heavy"] * 4), heights, ("edges", "'weight'")),
    ]
    for edges, table, facts in wrong:
        with refused(GraphError, *facts) as said:
            Graph.from_pandas(edges, table, features="degree" if table is None else None)
        assert "first line" not in said(), "frames have no lines"


def test_frames_without_edges() -> None:
    for columns in (["source", "target"], ["source", "target", "weight"]):
        graph = Graph.from_pandas(pd.DataFrame(columns=columns), nodes(height=[1.0, 2, 3, 4]))
        assert (graph.num_nodes, graph.num_edges) == (4, 0)
    assert Graph.from_pandas(EDGES.iloc[:0], nodes(height=[1.0, 2, 3, 4])).num_edges == 0


def test_numbers_as_names_of_columns() -> None:
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(4, 2)), index=IDS)
    assert Graph.from_pandas(EDGES, table).feature_names == ("0", "1")


def test_text_of_polars() -> None:
    """It is exported as Arrow's views of text."""
    view = pa.string_view()
    edges = pa.table({"source": pa.array(["a", "b"], view), "target": pa.array(["b", "c"], view)})
    table = pa.table({"id": pa.array(["a", "b", "c"], view), "city": pa.array(["x", "x", "x"], view)})
    graph = Graph.from_pandas(edges, table)
    assert graph.ids is not None and graph.ids.tolist() == ["a", "b", "c"]
    assert str(recipe_for(graph)) == "city one-hot"
