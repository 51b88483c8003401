"""``graphkin.fit`` takes what people hold, and says in Python's words what it does."""

from __future__ import annotations

import logging
import sys
import types
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

import graphkin
from graphkin import Graph, Split, fit, load
from graphkin.commands.cli import run
from graphkin.errors import GraphError, InputError, SettingError
from graphkin.graphs.inputs import as_graph
from tests.wording import told

QUICK: dict[str, Any] = {"epochs": 2, "hidden": 8}
N = 12
SOURCE, TARGET = np.arange(N), (np.arange(N) + 1) % N
X = np.stack([np.arange(N) * 1.5, 1000.0 * (np.arange(N) % 5)], axis=1)
EDGES = {"source": [f"n{i}" for i in SOURCE], "target": [f"n{i}" for i in TARGET]}
COLUMNS = {"height": X[:, 0], "weight": X[:, 1]}
NODES = {"id": [f"n{i}" for i in range(N)], **COLUMNS}


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
    frames = (
        (pd.DataFrame(EDGES), pd.DataFrame(NODES)),
        (pd.DataFrame(EDGES), pd.DataFrame(COLUMNS, NODES["id"])),
        (pa.table(EDGES), pa.table(NODES)),
    )
    sparse = (adjacency, X), (adjacency.tocsr(), X)
    held = [str(path), path, (path / "edges.csv", path / "nodes.csv"), networkx_graph(), data, *sparse, *frames]
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
    bare = [
        networkx.path_graph(9),
        adjacency,
        pd.DataFrame(EDGES),
        Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=3),
    ]
    for one in bare:
        with pytest.raises(GraphError, match="features='degree'"):
            fit(one)
        fitted = fit(one, features="degree", **QUICK)
        fitted.save(tmp_path / "model.graphkin")
        assert torch.equal(load(tmp_path / "model.graphkin").embed(one), fitted.embed(one))
    assert fit("cora-bundled", "diffusion", features="degree").features == "degree"
    with pytest.raises(SettingError, match=r"features must be.*\(adjacency, x\)"):
        fit(adjacency, features=X)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "thing", [7, None, [1, 2], (1, 2), ("cora", 3), torch.ones(3), np.ones((3, 3)), (pd.DataFrame(EDGES), X)]
)
def test_refused(thing: Any) -> None:
    with pytest.raises(InputError, match=r"a graph must be .*found"):
        as_graph(thing)


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
        notebook = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace(kernel=object()))
        monkeypatch.setitem(sys.modules, "IPython", notebook)
        fit(graph, **QUICK)
        assert "epoch 2/2" in capsys.readouterr().err


def test_what_fit_left_out_of_the_graph_is_told(caplog: pytest.LogCaptureFixture) -> None:
    data = Data(x=torch.tensor(X), edge_index=torch.tensor(np.stack([SOURCE, TARGET])), edge_attr=torch.ones(N, 3))
    with caplog.at_level(logging.INFO, "graphkin"):
        fit(data, **QUICK)
    assert told(caplog.text, "graph: ", "edge_attr left out", "weight='edge_attr'")


def test_short_words() -> None:
    graph = Graph.from_arrays(X, np.stack([SOURCE, TARGET]), np.arange(N) % 2)
    fitted = fit(graph, "grace", **QUICK)
    rows = fitted.embed(graph)
    train, val, test = torch.arange(N).split([4, 2, 6])
    splits = [Split(train, val, test, f"part {i}", i) for i in range(2)]
    words = {
        "Fitted('grace': 2 epochs, 3 features, seed 0)": fitted,
        "Method('grace': GCN, Contrast, ": fitted.method,
        "Graph('graph': 12 nodes, 12 edges, 2 features, 2 classes)": graph,
        "Split('part 0': 4 train, 2 val, 6 test, seed 0)": splits[0],
        "Scores('grace': accuracy ": graphkin.evaluate(rows, graph, splits=splits),
        "Clusters(12 nodes in 3, of sizes ": graphkin.cluster(rows, 3),
        "Similar(4 nearest of each of 2 nodes)": graphkin.similar(rows, [0, 1], 4),
        "Links(5 pairs, cosines ": graphkin.links(rows, graph, 5),
        "SparseMatrix(2 × 2, 2 entries)": graphkin.SparseMatrix(torch.eye(2).to_sparse_csr()),
        "Registry(protocol: grace, gca": graphkin.PROTOCOLS,
    }
    for word, thing in words.items():
        assert repr(thing).startswith(word), repr(thing)
        assert len(repr(thing)) < 160 and "\n" not in repr(thing)


def test_sparse_features_can_be_scored_and_clustered() -> None:
    cora = graphkin.bundled_cora()
    assert isinstance(cora.x, graphkin.SparseMatrix)
    assert graphkin.evaluate(cora.x, cora, protocol="public").mean > 40
    assert graphkin.similar(cora.x, 0, 3).indices.shape == (1, 3)


def test_edges_with_headers_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "likes.csv").write_text("User,Item,stars,day\n1,2,5,3\n2,2,1,4\n2,3,4,5\n")
    (tmp_path / "who.csv").write_text("name,age\n1,20\n2,30\n3,50\n")
    ends: Any = {"source": "User", "target": "item"}
    graph = graphkin.open_graph(tmp_path / "likes.csv", nodes=tmp_path / "who.csv", id="name", **ends)
    assert graph.ids is not None and graph.ids.tolist() == ["1", "2", "3"] and graph.edge_weight is None
    assert any("'stars', 'day'" in note and "weight='stars'" in note for note in graph.notes)
    weighted = graphkin.open_graph(tmp_path / "likes.csv", nodes=tmp_path / "who.csv", id="name", weight="Stars", **ends)
    assert weighted.edge_weight is not None and weighted.edge_weight.tolist() == [5, 5, 4, 4]
    assert any("'day'" in note for note in weighted.notes)
    for change, words in (({"source": "users"}, "users"), ({"weight": "heavy"}, "heavy"), ({"target": 3}, "target")):
        with pytest.raises(InputError, match=words):
            graphkin.open_graph(tmp_path / "likes.csv", features="degree", **{**ends, **change})
    assert run(["fit", str(tmp_path / "likes.csv"), "--features", "degree"]) == 2
    assert "--source user --target item" in capsys.readouterr().err


def test_both_kinds_of_nodes_of_a_bipartite_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """User 2 and item 2 are two nodes, which share an edge and no columns."""
    monkeypatch.chdir(tmp_path)
    Path("edges.csv").write_text("user,item\n" + "".join(f"{i},{(i + j) % 6}\n" for i in range(6) for j in (0, 1)))
    users = "".join(f"user:{i},{20 + i},\n" for i in range(6))
    Path("nodes.csv").write_text("id,age,price\n" + users + "".join(f"item:{i},,{100 * i}\n" for i in range(6)))
    graph = graphkin.open_graph(".", source="user", target="item", bipartite=True)
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (12, 12, 4)
    assert fit(graph, **QUICK).embed(graph).isfinite().all()
    options = [
        "edges.csv",
        "--source",
        "user",
        "--target",
        "item",
        "--bipartite",
        "--features",
        "positional",
        "--format",
        "csv",
    ]
    assert run(["fit", *options, "--epochs", "2", "--out", "run", "-q"]) == 0
    assert {line.split(",")[0] for line in Path("run/embeddings.csv").read_text().splitlines()} >= {'"user:2"', '"item:2"'}


def test_attributes_of_edges_are_weights_on_request_and_never_dropped_without_a_word() -> None:
    edges, x = torch.tensor([[0, 1], [1, 2]]), torch.rand(3, 4)
    data = Data(x=x, edge_index=edges, edge_attr=torch.tensor([[2.0], [3.0]]))
    assert any("edge_attr" in note for note in Graph.from_data(data).notes)
    graph = Graph.from_data(data, weight="edge_attr")
    assert graph.edge_weight is not None and graph.edge_weight.tolist() == [2, 2, 3, 3] and "edge_attr" not in str(graph.notes)
    with pytest.raises(GraphError, match=r"data\.size is missing"):
        Graph.from_data(data, weight="size")
    data.edge_attr = torch.rand(2, 5)
    with pytest.raises(GraphError, match="one weight per edge"):
        Graph.from_data(data, weight="edge_attr")
    made = networkx.Graph()
    made.add_edge("a", "b", strength=2.0, kind="x")
    assert any("'kind', 'strength'" in note for note in Graph.from_networkx(made, features="degree").notes)
    weighted = Graph.from_networkx(made, features="degree", weight="strength")
    assert weighted.edge_weight is not None and weighted.edge_weight.tolist() == [2, 2]
    with pytest.raises(GraphError, match=r"'size'.*'strength'"):
        Graph.from_networkx(made, features="degree", weight="size")
