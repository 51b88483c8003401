"""Columns of a table are prepared by what they are, and a model does the same to another graph."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphkin
from graphkin import Graph, evaluate, fit, load
from graphkin.commands.cli import run
from graphkin.errors import GraphError, SettingError
from graphkin.graphs.columns import kind_of_text, kinds_of_numbers
from graphkin.graphs.recipes import needs_recipe, prepared_graph, recipe_for, recipe_from_json
from graphkin.graphs.splits import random_split
from graphkin.support.sparse import SparseMatrix
from graphkin.training.plan import plan
from tests.wording import refused, told

QUICK: dict[str, Any] = {"epochs": 20, "hidden": 32, "progress": "none"}
NODES = 300


def drawn(seed: int = 0) -> tuple[np.random.Generator, np.ndarray, str]:
    """Two classes, and edges of which some more stay inside a class."""
    draw = np.random.default_rng(seed)
    y = draw.integers(0, 2, NODES)
    source, other = draw.integers(0, NODES, (2, 2 * NODES))
    kin = draw.permutation(NODES)
    kin = kin[np.argsort(y[kin], kind="stable")]
    rank = np.argsort(kin)
    near = kin[np.clip(rank[source] + draw.integers(-20, 21, len(source)), 0, NODES - 1)]
    target = np.where(draw.random(len(source)) < 0.5, near, other)
    return draw, y, "source,target\n" + "".join(f"n{a},n{b}\n" for a, b in zip(source, target, strict=True))


def folder_with(folder: Path, columns: dict[str, Any], edges: str, y: np.ndarray) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "edges.csv").write_text(edges)
    rows = zip(*columns.values(), strict=True)
    lines = [f"n{i}," + ",".join(map(str, row)) + f",class {y[i]}" for i, row in enumerate(rows)]
    (folder / "nodes.csv").write_text(f"id,{','.join(columns)},label\n" + "\n".join(lines) + "\n")
    return folder


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """Age and income, whose scales are a thousand apart, tell the classes apart; their ratio does not."""
    draw, y, edges = drawn()
    age = np.round(draw.normal(40, 4, NODES) + 12 * y)
    income = np.round(draw.normal(40_000, 4_000, NODES) + 12_000 * y)
    return folder_with(tmp_path / "people", {"age": age, "income": income}, edges, y)


@pytest.mark.parametrize("method", ["kin", "grace+", "diffusion"])
def test_one_numeric_column_is_not_scaled_away(tmp_path: Path, method: str) -> None:
    draw, y, edges = drawn()
    graph = graphkin.open_graph(folder_with(tmp_path / "one", {"height": draw.normal(150, 10, NODES) + 40 * y}, edges, y))
    settings = {"progress": "none"} if method == "diffusion" else QUICK
    assert evaluate(fit(graph, method, **settings).embed(graph), graph, splits=3).mean > 90
    assert evaluate(fit(graph, method, feature_scale="rows", **settings).embed(graph), graph, splits=3).mean < 75


@pytest.mark.parametrize("method", ["kin", "grace+"])
def test_age_and_income_count_alike(people: Path, method: str) -> None:
    graph = graphkin.open_graph(people)
    fitted = fit(graph, method, **QUICK)
    assert fitted.method.feature_scale == "columns"
    assert str(fitted.recipe) == "age, income standardised"
    assert evaluate(fitted.embed(graph), graph, splits=3).mean > 90
    by_rows = fit(graph, method, feature_scale="rows", **QUICK)
    assert evaluate(by_rows.embed(graph), graph, splits=3).mean < 75, "the larger scale alone would decide"


def test_an_array_with_one_column_or_scales_far_apart_is_standardised_too(people: Path) -> None:
    table = graphkin.open_graph(people)
    graph = Graph.from_arrays(table.x, table.edge_index, table.y)
    assert needs_recipe(graph)
    assert torch.equal(prepared_graph(graph).x.to_dense(), prepared_graph(table).x.to_dense())
    assert needs_recipe(Graph.from_arrays(table.x.to_dense()[:, :1], table.edge_index))
    for other in (torch.rand(9, 4), torch.eye(9), torch.rand(9, 80) * torch.logspace(0, 5, 80)):
        assert not needs_recipe(Graph.from_arrays(other, [[0], [1]]))
    assert not needs_recipe(Graph.from_arrays(None, [[0, 1, 2], [1, 2, 3]], num_nodes=30, features="degree"))
    assert fit(Graph.from_arrays(torch.rand(9, 4), [[0], [1]]), feature_scale="columns", **QUICK).recipe is not None


def test_mean_and_deviation_are_kept_in_the_model(people: Path, tmp_path: Path) -> None:
    """One node of another graph is what it was in training, whatever its neighbours are like."""
    graph = graphkin.open_graph(people)
    fitted = fit(graph, "grace", **QUICK)
    fitted.save(tmp_path / "model.graphkin")
    again = load(tmp_path / "model.graphkin")
    assert again.recipe == fitted.recipe and fitted.recipe is not None
    torch.testing.assert_close(again.embed(graph), fitted.embed(graph))
    ages = graph.x.to_dense()[:, 0].double().numpy()
    assert fitted.recipe.ingredients[0].mean == pytest.approx(ages.mean())
    assert fitted.recipe.ingredients[0].deviation == pytest.approx(ages.std())
    few = Graph.from_arrays(graph.x.to_dense()[:7], [[0], [1]], columns=graph.columns)
    expected = prepared_graph(graph).x.to_dense()[:7]
    torch.testing.assert_close(fitted.recipe.applied(few).x.to_dense(), expected)


def test_embed_matches_columns_by_name(people: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["fit", "people", "--epochs", "2", "--out", "run", "-q", "--no-baselines"]) == 0
    rows = [line.split(",") for line in (people / "nodes.csv").read_text().splitlines()]
    for name, order in (("swapped", (0, 2, 1)), ("short", (0, 1))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "edges.csv").write_text((people / "edges.csv").read_text())
        (tmp_path / name / "nodes.csv").write_text("".join(",".join(row[i] for i in order) + "\n" for row in rows))
    assert run(["embed", "run/model.graphkin", "swapped", "--out", "z.npy"]) == 0
    np.testing.assert_allclose(np.load("z.npy"), np.load("run/embeddings.npy"), atol=1e-5)
    assert run(["embed", "run/model.graphkin", "short", "--out", "y.npy"]) == 2


def test_every_kind_of_column(tmp_path: Path) -> None:
    draw, y, edges = drawn()
    words = np.array(["long winter nights", "winter and summer days", "days like long nights"])
    columns: dict[str, Any] = {
        "age": [("" if i == 4 else str(20 + i % 50)) for i in range(NODES)],
        "city": draw.choice(["Rome", "Oslo", ""], NODES),
        "member": draw.choice(["true", "false"], NODES),
        "since": [f"20{10 + i % 10}-05-{1 + i % 28:02}" for i in range(NODES)],
        "bio": [f"{draw.choice(words)} word{i}" for i in range(NODES)],
    }
    graph = graphkin.open_graph(folder_with(tmp_path / "g", columns, edges, y))
    kinds = {column.name: column.kind for column in graph.columns}
    assert kinds == {"age": "number", "city": "category", "member": "flag", "since": "date", "bio": "text"}
    assert graph.feature_names[:6] == ("age", "age missing", "city=Oslo", "city=Rome", "member", "since")
    recipe = recipe_for(graph)
    assert "missing values of age" in str(recipe) and "city one-hot" in str(recipe) and "bio by TF-IDF" in str(recipe)
    x = recipe.applied(graph).x.to_dense()
    assert x[4, 0] == 0 and x[4, 1] == 1 and x[:, 1].sum() == 1
    known = torch.arange(NODES) != 4
    assert x[known, 0].mean().abs() < 1e-5 and x[known, 0].std(correction=0) == pytest.approx(1, abs=1e-5)
    assert set(x[:, 4].tolist()) == {-1.0, 1.0}
    assert x[:, 5].std(correction=0) == pytest.approx(1, abs=1e-5)
    torch.testing.assert_close(x[:, 6:-1].norm(dim=1), torch.ones(NODES))
    assert recipe_from_json(recipe.as_json()) == recipe
    fitted = fit(graph, **QUICK)
    other = folder_with(tmp_path / "h", columns | {"city": ["Rome"] * 9 + ["Bern"] * 291, "age": range(NODES)}, edges, y)
    assert fitted.embed(graphkin.open_graph(other)).isfinite().all()
    wrong = graphkin.open_graph(other, columns={"city": "text"})
    with pytest.raises(GraphError, match=r"'city'.*category.*found text"):
        fitted.embed(wrong)


def column_of(kind: str, y: np.ndarray, draw: np.random.Generator) -> list[Any]:
    """A column of a kind that tells the classes apart, but for one node in twenty."""
    told = np.where(draw.random(NODES) < 0.95, y, 1 - y).tolist()
    words = (["rain", "snow", "cold"], ["sun", "beach", "warm"])
    made: dict[str, Any] = {
        "number": lambda one: 1_000_000 + one + draw.normal(0, 0.2),
        "flag": lambda one: bool(one),
        "date": lambda one: f"20{10 + one}-0{draw.integers(1, 10)}-11",
        "category": lambda one: draw.choice(("Rome", "Bari")) if one else draw.choice(("Oslo", "Bergen")),
        "text": lambda one: f"{' '.join(draw.choice(words[one], 3))} number{draw.integers(10**9)}",
        "missing": lambda one: draw.normal(1e6, 1) if one else "",
    }
    return [made[kind](one) for one in told]


@pytest.mark.parametrize("kind", ["number", "flag", "date", "category", "text", "missing"])
def test_each_kind_of_column_counts_beside_a_large_number(tmp_path: Path, kind: str) -> None:
    """Beside incomes that say nothing, whose scale would hide it, and on a graph that says little."""
    draw, y, edges = drawn()
    columns = {"income": draw.normal(40_000, 9_000, NODES), "column": column_of(kind, y, draw)}
    graph = graphkin.open_graph(folder_with(tmp_path / "g", columns, edges, y))
    assert {column.name: column.kind for column in graph.columns}["column"] == {"missing": "number"}.get(kind, kind)
    scores = [
        evaluate(fit(graph, "diffusion", feature_scale=scale, progress=False).embed(graph), graph, splits=3).mean
        for scale in ("auto", "rows")
    ]
    assert scores[0] > 85
    if kind in ("category", "text"):  # one small feature of several; the others are a column beside the incomes
        assert scores[1] < 75


def test_codes_are_categories_where_the_user_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of ten codes it is tells the classes apart; how large it is does not."""
    monkeypatch.chdir(tmp_path)
    draw, y, edges = drawn()
    codes = 10 * draw.integers(0, 5, NODES) + 5 * np.where(draw.random(NODES) < 0.95, y, 1 - y)
    folder_with(tmp_path / "g", {"zip": codes}, edges, y)
    for name, options in (("number", []), ("category", ["--columns", "zip=category"])):
        command = ["fit", "g", "--method", "diffusion", "--out", name, "--no-baselines", "--splits", "3", "-q", *options]
        assert run(command) == 0
    found = {name: json.loads(Path(name, "run.json").read_text())["scores"] for name in ("number", "category")}
    assert found["category"]["accuracy_mean"] > 85 > 75 > found["number"]["accuracy_mean"]


def test_counts_stay_scaled_by_rows(tmp_path: Path) -> None:
    draw, y, edges = drawn()
    counts = {f"w{i}": draw.poisson(0.3, NODES) for i in range(9)}
    graph = graphkin.open_graph(folder_with(tmp_path / "g", counts, edges, y))
    assert {column.kind for column in graph.columns} == {"count"} and not needs_recipe(graph)
    assert graph.content == Graph.from_arrays(graph.x, graph.edge_index, graph.y).content
    assert fit(graph, **QUICK).method.feature_scale == "rows"
    mixed = graphkin.open_graph(folder_with(tmp_path / "h", {**counts, "age": draw.normal(40, 9, NODES)}, edges, y))
    assert str(recipe_for(mixed)) == "age standardised; w0, w1, w2, w3, w4 and 4 more scaled by rows"


def test_kinds() -> None:
    numbers = {"few": np.array([0.0, 0, 3]), "flag": np.array([0.0, 1, np.nan]), "size": np.array([1.5, 2, 3])}
    assert kinds_of_numbers(numbers) == {"few": "number", "flag": "flag", "size": "number"}
    assert kind_of_text(["a", "b", "a", "b", None]) == "category"
    assert kind_of_text([f"name{i}" for i in range(9)]) is None
    assert kind_of_text([f"name{i} is a long one" for i in range(9)]) == "text"


def test_what_the_user_says_decides(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = graphkin.open_graph(people, columns={"Age": "category"})
    assert graph.columns[0].kind == "category" and len(graph.columns[0].features) > 20
    for columns, words in (({"age": "colour"}, "colour"), ({"agee": "number"}, "agee"), ("age", "columns")):
        with pytest.raises((GraphError, SettingError), match=words):
            graphkin.open_graph(people, columns=columns)  # type: ignore[arg-type]
    assert run(["fit", str(people), "--columns", "age"]) == 2
    assert "--columns takes NAME=KIND" in capsys.readouterr().err


def test_a_constant_column_and_large_numbers_do_no_harm(tmp_path: Path) -> None:
    draw, y, edges = drawn()
    columns = {"same": [7] * NODES, "huge": draw.normal(1e30, 1e29, NODES), "empty": [""] * 299 + ["3"]}
    graph = graphkin.open_graph(folder_with(tmp_path / "g", columns, edges, y))
    x = prepared_graph(graph).x
    dense = x.to_dense() if isinstance(x, SparseMatrix) else x
    assert dense.isfinite().all() and dense[:, 0].abs().max() == 0
    assert fit(graph, **QUICK).embed(graph).isfinite().all()


@pytest.mark.parametrize("change", [{"kind": 3}, {"deviation": 0.0}, {"mean": float("nan")}, {"weights": [1.0]}])
def test_a_damaged_recipe_is_refused(people: Path, change: dict[str, Any]) -> None:
    data = recipe_for(graphkin.open_graph(people)).as_json()
    places = {"kind": 1, "mean": 3, "deviation": 4, "weights": 5}
    for name, value in change.items():
        data["columns"][0][places[name]] = value
    with pytest.raises(ValueError, match="age"):
        recipe_from_json(data)


def test_the_probe_finds_few_columns_on_any_scale() -> None:
    """Features of a table, given as rows to score: their directions alone say nothing."""
    draw, y, _ = drawn()
    graph = Graph.from_arrays(np.eye(NODES), [[0], [1]], y)
    age, income = draw.normal(40, 4, NODES) + 12 * y, draw.normal(40_000, 4_000, NODES) + 12_000 * y
    graph = replace(graph, public_splits=(random_split(NODES, seed=1),))
    for rows in (age[:, None], np.stack([age, income], axis=1), np.stack([age, 1e-9 * income], axis=1), 1e9 * age[:, None]):
        for protocol in ("grace", "gca", "public", "few-labels"):
            splits = {"splits": 3} if protocol in ("grace", "gca") else {}
            assert evaluate(rows, graph, protocol=protocol, **splits).mean > 85, protocol


@pytest.mark.parametrize("mark", ["", "NA", "n/a", "N/A", "-", "?", "null"])
def test_marks_of_missing_numbers(tmp_path: Path, mark: str) -> None:
    """A column of numbers with such marks would be a category otherwise."""
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    (tmp_path / "nodes.csv").write_text(f"id,age,code\na,3,x\nb,{mark},-\nc,4.5,x\n")
    age, code = Graph.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", columns={"code": "category"}).columns
    assert (age.kind, age.features) == ("number", ("age", "age missing"))
    assert code.features == ("code=-", "code=x"), "among text they are as written"


@pytest.mark.parametrize(
    ("option", "facts"),
    [({"label": "knid"}, ["label='knid'", "'age'", "'kind'"]), ({"ignore": ["aeg"]}, ["ignore=['aeg']", "'age'"])],
)
def test_a_misspelt_column_is_told(tmp_path: Path, option: dict[str, Any], facts: list[str]) -> None:
    """It would make a feature of the label, or of a column to leave out."""
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    (tmp_path / "nodes.csv").write_text("id,age,kind\na,3,x\nb,4,y\nc,5,x\n")
    with refused(GraphError, *facts):
        Graph.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", **option)


def test_embed_tells_what_it_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "edges.csv").write_text("source,target,hours\na,b,1\nb,c,5\n")
    (tmp_path / "nodes.csv").write_text("id,age\na,3\nb,4\nc,5\n")
    fitted = fit(Graph.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", weight="hours"), **QUICK)
    fitted.save(tmp_path / "model.graphkin")
    assert run(["embed", str(tmp_path / "model.graphkin"), str(tmp_path), "--out", str(tmp_path / "z.csv")]) == 0
    assert told(capsys.readouterr().out, "3 nodes", "hours", "--weight hours")


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        (["2019-01-09", "09/01/2019", "2020-03-04"], ["'09/01/2019'", "row 2", "2026-01-31"]),
        (["3.12.2021", "4.12.2021", "5.12.2021"], ["'3.12.2021'", "row 1", "2026-01-31"]),
        (["2019-01-09", "2019-13-45", "2020-03-04"], ["'2019-13-45'", "row 2", "2026-01-31"]),
        (["58900", "65400", "unknown"], ["'unknown'", "row 3", "empty"]),
    ],
)
def test_one_value_in_the_way_is_named(tmp_path: Path, values: list[str], facts: list[str]) -> None:
    """Dates in another form would be three words each, and numbers with a word among them no numbers."""
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    rows = zip("abc", values, strict=True)
    (tmp_path / "nodes.csv").write_text("id,column\n" + "".join(f"{one},{value}\n" for one, value in rows))
    for said in ({}, {"column": "date"}):
        with refused(GraphError, "'column'", *facts):
            Graph.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv", columns=said)


def test_names_of_columns_do_not_steer_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n", encoding="utf-8")
    (tmp_path / "nodes.csv").write_text("id,\x1b[31mage\na,1.5\nb,2.5\nc,9\n", encoding="utf-8")
    lines = plan(tmp_path, "kin").lines()
    assert any("columns: " in line and r"\x1b[31mage" in line for line in lines)
    assert not any("\x1b" in line for line in lines)
