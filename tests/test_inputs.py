"""``graphkin.fit`` takes what people hold, and says in Python's words what it does."""

from __future__ import annotations

import logging
import sys
import types
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

import graphkin
from graphkin import Graph, fit, load
from graphkin.commands.cli import run
from graphkin.errors import GraphError, InputError, SettingError
from graphkin.graphs.inputs import as_graph

QUICK: dict[str, Any] = {"epochs": 2, "hidden": 8}
N = 12
SOURCE, TARGET = np.arange(N), (np.arange(N) + 1) % N
X = np.stack([np.arange(N) * 1.5, 1000.0 * (np.arange(N) % 5)], axis=1)
EDGES = {"source": [f"n{i}" for i in SOURCE], "target": [f"n{i}" for i in TARGET]}
COLUMNS = {"height": X[:, 0], "weight": X[:, 1]}
NODES = {"id": [f"n{i}" for i in range(N)], **COLUMNS}


class Frame:
    """As much of a pandas DataFrame as graphkin uses."""

    def __init__(self, columns: dict[str, Any], index: Any = None) -> None:
        self.held = {
            name: np.array(values, dtype=object if isinstance(values[0], str) else None) for name, values in columns.items()
        }
        self.columns = list(columns)
        self.shape = (len(self.held[self.columns[0]]), len(columns))
        self.index = np.arange(self.shape[0]) if index is None else np.array(index, dtype=object)

    def __getitem__(self, name: str) -> Any:
        return types.SimpleNamespace(to_numpy=lambda: self.held[name])


def networkx_graph() -> Any:
    made = networkx.Graph(list(zip(EDGES["source"], EDGES["target"], strict=True)))
    for node, height, weight in zip(*NODES.values(), strict=True):
        made.nodes[node].update({"height": float(height), "weight": float(weight)})
    return made


def folder(path: Path) -> Path:
    for name, table in (("edges", EDGES), ("nodes", NODES)):
        rows = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
        (path / f"{name}.csv").write_text("\n".join([",".join(table), *rows]) + "\n")
    return path


def test_fit_takes_what_people_hold(tmp_path: Path) -> None:
    adjacency = scipy.sparse.coo_matrix((np.ones(N), (SOURCE, TARGET)), shape=(N, N))
    data = Data(x=torch.tensor(X), edge_index=torch.tensor(np.stack([SOURCE, TARGET])))
    path = folder(tmp_path)
    held = [
        str(path), path, (path / "edges.csv", path / "nodes.csv"), networkx_graph(), data, (adjacency, X),
        (adjacency.tocsr(), X), (Frame(EDGES), Frame(NODES)), (Frame(EDGES), Frame(COLUMNS, NODES["id"])), (pa.table(EDGES), pa.table(NODES)),
    ]  # fmt: skip
    expected = fit(Graph.from_arrays(X, np.stack([SOURCE, TARGET])), "grace", **QUICK)
    rows = expected.embed(data)
    for one in held:
        fitted = fit(one, "grace", **QUICK)
        torch.testing.assert_close(fitted.embed(one), rows)
        torch.testing.assert_close(graphkin.NodeEmbedder("grace", **QUICK).fit_transform(one), rows.numpy())


def test_a_dataset_by_name() -> None:
    assert repr(as_graph("cora-bundled")) == "Graph('cora-bundled': 2708 nodes, 5278 edges, 1433 features, 7 classes)"


def test_features_where_the_message_sends_people(tmp_path: Path) -> None:
    adjacency = scipy.sparse.coo_matrix((np.ones(N), (SOURCE, TARGET)), shape=(N, N))
    bare = [networkx.path_graph(9), adjacency, Frame(EDGES), Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3)]
    for one in bare:
        with pytest.raises(GraphError, match="features='degree'"):
            fit(one)
        fitted = fit(one, features="degree", **QUICK)
        fitted.save(tmp_path / "model.graphkin")
        assert torch.equal(load(tmp_path / "model.graphkin").embed(one), fitted.embed(one))
    assert fit("cora-bundled", "diffusion", features="degree").features == "degree"
    with pytest.raises(SettingError, match=r"features must be.*\(adjacency, x\)"):
        fit(adjacency, features=X)  # type: ignore[arg-type]


@pytest.mark.parametrize("thing", [7, None, [1, 2], (1, 2), ("cora", 3), torch.ones(3), np.ones((3, 3)), (Frame(EDGES), X)])
def test_refused(thing: Any) -> None:
    with pytest.raises(InputError, match=r"a graph must be .*found"):
        as_graph(thing)


def test_frames_that_cannot_be_used() -> None:
    with pytest.raises(GraphError, match=r"edges must have the columns source and target.*found: a, b"):
        Graph.from_pandas(Frame({"a": [1], "b": [2]}))
    with pytest.raises(GraphError, match=r"nodes must be a DataFrame.*found dict"):
        Graph.from_pandas(Frame(EDGES), NODES)
    mixed = Frame({"a": ["x", "y"]})
    mixed.held["a"] = np.array(["x", 3.5], dtype=object)
    with pytest.raises(GraphError, match="'a'"):
        Graph.from_pandas(Frame(EDGES), mixed)
    graph = Graph.from_pandas(Frame({"user": [1, 2], "item": [2, 3]}), source="user", target="item", features="degree")
    assert graph.ids is not None and graph.ids.tolist() == [1, 2, 3]


def test_messages_speak_the_language_of_the_caller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder(tmp_path) / "nodes.csv").write_text("id,name\n" + "".join(f"n{i},name{i}\n" for i in range(N)))
    with pytest.raises(GraphError, match=r"ignore=\['name'\].*columns=\{'name': 'category'\}.*label='name'"):
        graphkin.open_graph(tmp_path)
    assert run(["fit", str(tmp_path)]) == 2
    line = capsys.readouterr().err
    assert "--ignore name" in line and "--columns name=category" in line and "--label name" in line


def test_plan_and_progress(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    graph = Graph.from_arrays(X, np.stack([SOURCE, TARGET]))
    with caplog.at_level(logging.INFO, "graphkin"):
        fit(graph, **QUICK)
        assert "plan: " in caplog.text and "standardised" in caplog.text and "epoch 2/2" in caplog.text
        caplog.clear()
        fit(graph, progress=False, **QUICK)
        assert not caplog.text and not capsys.readouterr().err
        fit(graph, progress=True, **QUICK)
        assert "plan: " in capsys.readouterr().err and not caplog.text
        monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
        fit(graph, **QUICK)
        assert "epoch 2/2" in capsys.readouterr().err


def test_short_words_for_a_model() -> None:
    graph = Graph.from_arrays(X, np.stack([SOURCE, TARGET]))
    assert repr(fit(graph, "grace", **QUICK)) == "Fitted('grace': 2 epochs, 3 features, seed 0)"
