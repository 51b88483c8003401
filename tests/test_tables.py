from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import scipy.sparse
import torch

from graphkin import Graph, fit
from graphkin.commands.cli import run
from graphkin.errors import GraphError, OutputError, SettingError
from graphkin.graphs.readers import open_graph
from graphkin.training.embeddings import read_embeddings, write_embeddings

NODES = "id,height,label,width\nann,1.5,red,2\nbob,0,blue,3\n007,2.5,red,4\n"
EDGES = "source,target\nann,bob\nbob,007\n"


def written(folder: Path, edges: str = EDGES, nodes: str | None = NODES, suffix: str = ".csv") -> Path:
    (folder / f"edges{suffix}").write_text(edges, encoding="utf-8", newline="")
    if nodes is not None:
        (folder / f"nodes{suffix}").write_text(nodes, encoding="utf-8", newline="")
    return folder


def assert_is_the_example(graph: Graph) -> None:
    assert graph.ids is not None and graph.y is not None
    assert graph.ids.tolist() == ["ann", "bob", "007"]
    assert graph.x.to_dense().tolist() == [[1.5, 2], [0, 3], [2.5, 4]]
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert (graph.y.tolist(), graph.class_names) == ([1, 0, 1], ("blue", "red"))


def test_csv(tmp_path: Path) -> None:
    graph = open_graph(written(tmp_path))
    assert_is_the_example(graph)
    assert graph.name == tmp_path.name
    assert_is_the_example(open_graph(tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv"))
    assert_is_the_example(Graph.from_tables(tmp_path / "edges.csv", tmp_path / "nodes.csv"))


def test_tsv_parquet_and_what_spreadsheets_write(tmp_path: Path) -> None:
    for name in ("tsv", "parquet", "windows", "bom", "quoted", "spaces"):
        (tmp_path / name).mkdir()
    assert_is_the_example(open_graph(written(tmp_path / "tsv", EDGES.replace(",", "\t"), NODES.replace(",", "\t"), ".tsv")))
    assert_is_the_example(open_graph(written(tmp_path / "windows", EDGES.replace("\n", "\r\n"), NODES.replace("\n", "\r\n"))))
    assert_is_the_example(open_graph(written(tmp_path / "bom", "\ufeff" + EDGES, "\ufeff" + NODES)))
    assert_is_the_example(
        open_graph(written(tmp_path / "quoted", EDGES.replace("ann", '"ann"'), NODES.replace("red", '"red"')))
    )
    assert_is_the_example(open_graph(written(tmp_path / "spaces", EDGES, NODES.replace("id,height", " ID ,Height"))))
    for stem in ("edges", "nodes"):
        types = pa.csv.ConvertOptions(column_types={"id": pa.string(), "source": pa.string(), "target": pa.string()})
        table = pa.csv.read_csv(tmp_path / "windows" / f"{stem}.csv", convert_options=types)
        pa.parquet.write_table(table, tmp_path / "parquet" / f"{stem}.parquet")
    assert_is_the_example(open_graph(tmp_path / "parquet"))


def test_parquet_keeps_the_type_of_ids(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"source": [10, 20], "target": [20, 30]}), tmp_path / "edges.parquet")
    pa.parquet.write_table(pa.table({"id": [30, 10, 20], "f": [1.0, 2.0, 3.0]}), tmp_path / "nodes.parquet")
    graph = open_graph(tmp_path)
    assert graph.ids is not None
    assert graph.ids.tolist() == [30, 10, 20]
    assert graph.edge_index.tolist() == [[0, 1, 2, 2], [2, 2, 0, 1]]
    pa.parquet.write_table(pa.table({"id": ["30", "10", "20"], "f": [1.0, 2.0, 3.0]}), tmp_path / "nodes.parquet")
    assert open_graph(tmp_path).edge_index.tolist() == graph.edge_index.tolist()


def test_weights_duplicates_directions_and_loops_are_handled_and_told(tmp_path: Path) -> None:
    edges = "source,target,weight\nann,bob,1\nann,bob,2\nbob,ann,5\nbob,007,3\n007,007,9\n"
    graph = open_graph(written(tmp_path, edges))
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [4, 4, 3, 3]
    assert graph.notes == (
        "1 duplicate edge merged",
        "1 self loop removed",
        "1 reverse edge added to make it undirected",
    )
    assert torch.isfinite(fit(graph, "gca+", epochs=2, hidden=4).embed(graph)).all()


def test_weights_count() -> None:
    """A weight of 2 is two parallel edges: in PageRank and in the encoder's adjacency."""
    from graphkin.graphs.adjacency import normalised_adjacency
    from graphkin.models.views import TwoViews, whole_graph

    graph = Graph.from_arrays(torch.ones(3, 2), [[0, 1], [1, 2]], edge_weight=[2.0, 1.0])
    a = torch.tensor([[0.0, 2, 0], [2, 0, 1], [0, 1, 0]])
    scale = a.sum(1).rsqrt()
    found = normalised_adjacency(graph.edge_index, 3, self_loops=False, edge_weight=graph.edge_weight).to_dense()
    torch.testing.assert_close(found, scale[:, None] * a * scale)
    view = TwoViews(drop_edges=(0.0, 0.0)).plan(graph).draw(0, torch.Generator().manual_seed(0))
    torch.testing.assert_close(view.adjacency.to_dense(), whole_graph(graph).adjacency.to_dense())
    dropped = TwoViews(drop_edges=(0.5, 0.5)).plan(graph).draw(0, torch.Generator().manual_seed(1))
    torch.testing.assert_close(dropped.adjacency.T.to_dense(), dropped.adjacency.to_dense().T)


def test_edges_alone_need_features_to_be_made(tmp_path: Path) -> None:
    written(tmp_path, nodes=None)
    with pytest.raises(GraphError, match=r"no node features.*'degree'.*'positional'"):
        open_graph(tmp_path)
    graph = open_graph(tmp_path, features="degree")
    assert graph.ids is not None
    assert sorted(graph.ids.tolist()) == ["007", "ann", "bob"]
    with pytest.raises(SettingError, match=r"'degrees'.*'degree'"):
        open_graph(tmp_path, features="degrees")
    circle = np.stack([np.arange(12), (np.arange(12) + 1) % 12])
    ring = Graph.from_arrays(None, circle, features="positional", num_nodes=12)
    assert ring.x.shape == (12, 10)
    again = Graph.from_arrays(None, circle, features="positional", num_nodes=12)
    assert torch.equal(ring.x.to_dense(), again.x.to_dense())
    assert torch.isfinite(fit(ring, "grace+", epochs=2, hidden=4).embed(ring)).all()


def test_positional_features_are_eigenvectors() -> None:
    draw = np.random.default_rng(0)
    edges = draw.integers(0, 30, (2, 90))
    graph = Graph.from_arrays(None, edges, features="positional", num_nodes=30)
    adjacency = np.zeros((30, 30))
    adjacency[graph.edge_index[0], graph.edge_index[1]] = 1
    scale = 1 / np.sqrt(np.maximum(adjacency.sum(1), 1))
    values = np.linalg.eigvalsh(scale[:, None] * adjacency * scale)
    x = graph.x.to_dense().double().numpy()
    rayleigh = ((scale[:, None] * adjacency * scale) @ x * x).sum(0) / (x * x).sum(0)
    np.testing.assert_allclose(rayleigh, values[::-1][:28], atol=1e-5)


@pytest.mark.parametrize(
    ("edges", "nodes", "message"),
    [
        ("a,b\n1,2\n", NODES, r"edges\.csv .*source and target.* found: a, b"),
        (EDGES, "name,f\nann,1\n", r"nodes\.csv .*column id.* found: name, f"),
        ("source,target\nann,eve\n", NODES, r"edges\.csv: .*target.* found 1 .*'eve'"),
        ("source,target\n,bob\n", NODES, r"edges\.csv: .*source.* found 1"),
        (EDGES, "id,f\nann,1\nbob,2\nann,3\n007,1\n", r"nodes\.csv: .*id.* found 1 .*'ann'"),
        (EDGES, "id,f\nann,1\n,2\n", r"nodes\.csv: .*id.* found 1"),
        (EDGES, "id,f,city\nann,1,x\nbob,2,y\n007,1,z\n", r"nodes\.csv: .*found text.* 'city'.*ignore=\['city'\]"),
        (EDGES, "id,f\nann,\nbob,\n007,\n", r"nodes\.csv: .*nothing.* 'f'.*ignore=\['f'\]"),
        (EDGES, "id,f\nann,1\nbob,inf\n007,1\n", r"nodes\.csv: .*finite.* found 1"),
        (EDGES, "id,f,f\nann,1,1\nbob,2,2\n007,1,1\n", r"nodes\.csv .*column.* found 'f' 2 times"),
        (EDGES, "id,f\nann,1,7\nbob,2\n", r"nodes\.csv"),
        (EDGES, "", r"nodes\.csv"),
        ("", NODES, r"edges\.csv"),
        (EDGES, "id,f\n", "no nodes"),
        (EDGES, "id\nann\nbob\n007\n", "no node features"),
        ("source,target,weight\nann,bob,-1\n", NODES, r"weights .*> 0.* found 1 .*-1\.0"),
        ("source,target,weight\nann,bob,heavy\n", NODES, r"edges\.csv: .*'weight'.* found string"),
        ("source,target,weight\nann,bob,\n", NODES, r"edges\.csv.*weight"),
    ],
)
def test_refused_tables(tmp_path: Path, edges: str, nodes: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        open_graph(written(tmp_path, edges, nodes))


def test_refused_files(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"edges\.csv, edges\.tsv or edges\.parquet, found: nothing"):
        open_graph(tmp_path)
    written(tmp_path)
    (tmp_path / "edges.tsv").write_text("x")
    with pytest.raises(GraphError, match=r"edges.* found edges\.csv, edges\.tsv"):
        open_graph(tmp_path)
    (tmp_path / "graph.txt").write_text("x")
    with pytest.raises(GraphError, match=r"\.npz, .*found .*graph\.txt"):
        open_graph(tmp_path / "graph.txt")
    (tmp_path / "edges.tsv").unlink()
    (tmp_path / "nodes.csv").write_bytes(b"id,f\n\xff\xfe,1\n")
    with pytest.raises(GraphError, match=r"nodes\.csv"):
        open_graph(tmp_path)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(GraphError, match=r"broken\.parquet"):
        open_graph(tmp_path / "broken.parquet")
    with pytest.raises(GraphError, match=r"missing\.csv"):
        open_graph(tmp_path / "missing.csv")


def test_a_header_alone_is_a_graph_without_edges(tmp_path: Path) -> None:
    graph = open_graph(written(tmp_path, "source,target,weight\r\n"))
    assert (graph.num_nodes, graph.num_edges) == (3, 0)


def test_labels_and_columns_by_choice(tmp_path: Path) -> None:
    nodes = "id,f,city,kind\nann,1,x,3\nbob,2,y,\n007,1,z,10\n"
    graph = open_graph(written(tmp_path, EDGES, nodes), label="kind", ignore=["City"])
    assert graph.y is not None
    assert (graph.y.tolist(), graph.class_names) == ([0, -1, 1], ("3", "10"))
    assert graph.num_features == 1
    by_city = open_graph(tmp_path, label="city", ignore=["kind"])
    assert by_city.class_names == ("x", "y", "z")


def test_networkx_graphml_and_gexf(tmp_path: Path) -> None:
    source = networkx.Graph()
    for name, (height, label, width) in {"ann": (1.5, "red", 2), "bob": (0.0, "blue", 3), "007": (2.5, "red", 4)}.items():
        source.add_node(name, height=height, label=label, width=width)
    source.add_edges_from([("ann", "bob"), ("bob", "007")])
    assert_is_the_example(Graph.from_networkx(source))
    networkx.write_graphml(source, tmp_path / "g.graphml")
    assert_is_the_example(open_graph(tmp_path / "g.graphml"))
    networkx.write_gexf(source, tmp_path / "g.gexf")
    assert open_graph(tmp_path / "g.gexf").num_edges == 2
    (tmp_path / "bad.graphml").write_text("<graphml><graph>")
    with pytest.raises(GraphError, match=r"bad\.graphml"):
        open_graph(tmp_path / "bad.graphml")
    with pytest.raises(GraphError, match=r"missing\.gexf"):
        open_graph(tmp_path / "missing.gexf")
    source.nodes["ann"]["note"] = "hello"
    with pytest.raises(GraphError, match=r"found text.* 'note'"):
        Graph.from_networkx(source)
    with pytest.raises(GraphError, match="no nodes"):
        Graph.from_networkx(networkx.Graph())
    with pytest.raises(GraphError, match=r"NetworkX.* found dict"):
        Graph.from_networkx({})
    weighted = networkx.DiGraph()
    weighted.add_edge((1, 2), "b", weight=2.5)
    graph = Graph.from_networkx(weighted, features="degree")
    assert graph.ids is not None and graph.edge_weight is not None
    assert graph.ids.tolist() == [(1, 2), "b"]
    assert graph.edge_weight.tolist() == [2.5, 2.5]


def test_scipy() -> None:
    adjacency = scipy.sparse.csr_matrix(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    assert Graph.from_scipy(adjacency, np.eye(3)).num_edges == 2
    assert Graph.from_scipy(adjacency, np.eye(3)).edge_weight is None
    weighted = Graph.from_scipy(adjacency * 0.5, features="degree")
    assert weighted.edge_weight is not None
    assert weighted.edge_weight.tolist() == [0.5] * 4
    with pytest.raises(GraphError, match=r"adjacency .*square.* found ndarray"):
        Graph.from_scipy(np.eye(3))


def test_ids_come_back_in_every_format(tmp_path: Path) -> None:
    names = np.array(["ann", 'b "o" b', "00,7", "zoë"], dtype=object)
    rows = torch.rand(4, 3, generator=torch.Generator().manual_seed(0))
    for kind in ("csv", "parquet", "npy"):
        assert torch.equal(write_embeddings(tmp_path / f"z.{kind}", rows.split(3), 4, names), rows)
        found = read_embeddings(tmp_path / f"z.{kind}", names)
        np.testing.assert_allclose(found, rows.numpy(), rtol=1e-6)
    text = pa.csv.ConvertOptions(column_types={"id": pa.string()})
    for path in (tmp_path / "z.csv", tmp_path / "z.ids.csv"):
        assert pa.csv.read_csv(path, convert_options=text).column("id").to_pylist() == names.tolist()
    assert pa.parquet.read_table(tmp_path / "z.parquet").column("id").to_pylist() == names.tolist()
    backwards = read_embeddings(tmp_path / "z.csv", names[::-1])
    np.testing.assert_allclose(backwards, rows.numpy()[::-1], rtol=1e-6)
    with pytest.raises(GraphError, match=r"z\.csv .*4 nodes"):
        read_embeddings(tmp_path / "z.csv", np.array(["x", "y", "z", "w"]))


def test_rows_that_are_not_finite_leave_what_was_written_before(tmp_path: Path) -> None:
    names, rows = np.array(["a", "b", "c"], dtype=object), torch.ones(3, 2)
    write_embeddings(tmp_path / "z.npy", [rows], 3, names)
    with pytest.raises(OutputError, match=r"finite.*z\.npy"):
        write_embeddings(tmp_path / "z.npy", [rows[:2], torch.tensor([[torch.nan, 0]])], 3)
    np.testing.assert_array_equal(read_embeddings(tmp_path / "z.npy", names[::-1]), rows.numpy())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["z.ids.csv", "z.npy"]


def test_other_names_for_the_ends_of_edges(tmp_path: Path) -> None:
    for header in ("from,to", "src,dst", "Src , DST"):
        assert_is_the_example(open_graph(written(tmp_path, EDGES.replace("source,target", header))))


def test_embeddings_follow_their_ids_into_another_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same nodes in another order, and columns in another order: both are matched. Another column is refused."""
    monkeypatch.chdir(tmp_path)
    for name in ("one", "sorted", "columns"):
        (tmp_path / name).mkdir()
    rows = NODES.splitlines(keepends=True)
    one = open_graph(written(tmp_path / "one"))
    other = open_graph(written(tmp_path / "sorted", nodes="".join([rows[0], *sorted(rows[1:])])))
    assert run(["fit", "one", "--epochs", "1", "-q", "--out", "run", "--set", "hidden=4"]) == 0
    found = [read_embeddings(tmp_path / "run/embeddings.npy", graph.ids) for graph in (one, other)]
    assert one.ids is not None and other.ids is not None
    places = [one.ids.tolist().index(name) for name in other.ids.tolist()]
    np.testing.assert_array_equal(found[1], found[0][places])
    swapped = "id,width,label,height\nann,2,red,1.5\nbob,3,blue,0\n007,4,red,2.5\n"
    written(tmp_path / "columns", nodes=swapped)
    assert run(["embed", "run/model.graphkin", "columns", "--out", "z.npy"]) == 0
    np.testing.assert_allclose(np.load("z.npy"), np.load("run/embeddings.npy"), atol=1e-5)
    written(tmp_path / "columns", nodes=swapped.replace("width", "depth"))
    capsys.readouterr()
    assert run(["embed", "run/model.graphkin", "columns", "--out", "y.npy"]) == 2
    line = capsys.readouterr().err
    assert "'width'" in line and "'depth', 'height'" in line
    assert run(["evaluate", "run/embeddings.npy"]) == 2
    assert "3 nodes" in capsys.readouterr().err, "the graph of the run"


def test_one_command_from_csv_to_csv(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    command = ["fit", ".", "--epochs", "2", "--format", "csv", "--out", "run", "-q", "--method", "grace+", "--set", "hidden=4"]
    assert run(command) == 0, capsys.readouterr().err
    table: Any = pa.csv.read_csv("run/embeddings.csv", convert_options=pa.csv.ConvertOptions(column_types={"id": pa.string()}))
    assert table.column_names == ["id", "e0", "e1", "e2", "e3"]
    assert table.column("id").to_pylist() == ["ann", "bob", "007"]
    assert run(["embed", "run/model.graphkin", ".", "--out", "again.parquet"]) == 0
    np.testing.assert_allclose(
        pa.parquet.read_table("again.parquet").column("e1").to_numpy(), table.column("e1").to_numpy(), rtol=1e-5
    )
    assert run(["fit", ".", "--format", "xls"]) == 2
    assert "'xls'" in capsys.readouterr().err
