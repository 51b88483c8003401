from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

from graphkin import Graph
from graphkin.errors import GraphError, SettingError
from graphkin.graphs.arrays import row_scaled
from graphkin.graphs.datasets import bundled_cora, load_dataset
from graphkin.graphs.inputs import as_graph
from graphkin.graphs.readers import open_graph
from graphkin.support.sparse import SparseMatrix

PATH = torch.tensor([[0, 1], [1, 2]])


def test_edges_are_made_undirected_unique_and_loop_free() -> None:
    edges = torch.tensor([[0, 1, 0, 2, 2], [1, 0, 1, 2, 1]])
    graph = Graph.from_arrays(torch.ones(3, 2), edges)
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph.num_edges == 2
    assert graph.notes == (
        "1 duplicate edge merged",
        "1 self loop removed",
        "1 reverse edge added to make it undirected",
    )


def test_features_from_every_kind_of_matrix() -> None:
    dense = np.zeros((3, 20))
    dense[0, 3], dense[2, 7] = 1.5, -2
    forms = [dense, torch.tensor(dense), scipy.sparse.csr_matrix(dense), torch.tensor(dense).to_sparse()]
    for form in forms:
        graph = Graph.from_arrays(form, PATH)
        assert isinstance(graph.x, SparseMatrix)
        assert torch.equal(graph.x.to_dense().double(), torch.tensor(dense))
    assert isinstance(Graph.from_arrays(np.ones((3, 2), dtype=np.int64), PATH).x, torch.Tensor)


def test_from_data() -> None:
    mask = torch.tensor([[True, False], [False, True], [False, True]])
    data = Data(x=torch.ones(3, 2), edge_index=PATH, y=torch.tensor([[0], [1], [1]]), train_mask=mask)
    graph = as_graph(data)
    assert graph.y is not None
    assert graph.y.tolist() == [0, 1, 1]
    assert graph.train_mask is not None
    assert graph.train_mask.tolist() == [True, False, False]
    assert as_graph(graph) is graph
    assert graph.num_classes == 2


@pytest.mark.parametrize("sparse", [False, True])
def test_to_data_and_back(cora: Graph, sparse: bool) -> None:
    data = cora.to_data(sparse=sparse)
    assert isinstance(data, Data) and isinstance(data.x, torch.Tensor)
    data.validate(raise_on_error=True)
    assert (data.num_nodes, data.num_features, data.is_undirected()) == (2708, 1433, True)
    assert data.x.layout == (torch.sparse_csr if sparse else torch.strided)
    assert as_graph(data).content == cora.content


def test_to_data_keeps_weights_splits_and_unknown_labels() -> None:
    given: dict[str, Any] = {"edge_weight": [2.0, 0.5], "y": [0, -1, 1]}
    for masks in ({}, {"train_mask": [True, False, False]}):
        graph = Graph.from_arrays(torch.ones(3, 2), PATH, **given | masks)
        assert as_graph(graph.to_data()).content == graph.content
    several = Graph.from_arrays(torch.ones(6, 2), PATH, **_two_splits(first_is_empty=False))
    assert len(several.public_splits) == 2 and several.to_data().train_mask.shape == (6, 2)
    behind_an_empty_one = Graph.from_arrays(torch.ones(6, 2), PATH, **_two_splits(first_is_empty=True))
    assert len(behind_an_empty_one.public_splits) == 1
    for graph in (several, behind_an_empty_one):
        assert as_graph(graph.to_data()).content == graph.content


def _two_splits(*, first_is_empty: bool) -> dict[str, Any]:
    parts = torch.tensor([[0, 0, 1, 1, 2, 2], [2, 2, 0, 0, 1, 1]]).T
    masks = {name: parts == part for part, name in enumerate(("train_mask", "val_mask", "test_mask"))}
    if first_is_empty:
        masks["val_mask"][:, 0] = False
    return masks


def test_unknown_labels() -> None:
    graph = Graph.from_arrays(torch.ones(3, 2), PATH, [0.0, float("nan"), 2.0])
    assert graph.y is not None
    assert graph.y.tolist() == [0, -1, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": [[0, 3], [1, 2]]}, r"edge_index .*0\.\.2 .*found 3"),
        ({"edge_index": [[0, -1], [1, 2]]}, r"edge_index .*found .*-1"),
        ({"edge_index": [[0.0, 1.0], [1.0, 2.0]]}, r"edge_index .*whole numbers.* found .*float64"),
        ({"edge_index": [[0, 1, 2]]}, r"edge_index .*\[2, edges\].* found \(1, 3\)"),
        ({"edge_index": [["a", "b"]]}, r"edge_index .*numbers.* found .*<U1"),
        ({"x": [[1.0], [float("nan")], [2.0]]}, r"features .*found 1 .*node 1, column 0"),
        ({"x": [[1.0], [float("inf")], [2.0]]}, r"features .*finite"),
        ({"x": scipy.sparse.csr_matrix([[0, np.nan], [0, 0], [0, 0]])}, r"features .*node 0, column 1"),
        ({"x": np.empty((0, 2)), "edge_index": []}, "no nodes"),
        ({"x": np.empty((3, 0))}, r"no features.* found \(3, 0\)"),
        ({"x": [1.0, 2.0, 3.0]}, r"features .*\[nodes, features\].* found \(3,\)"),
        ({"x": [["a"], ["b"], ["c"]]}, r"features .*numbers.* found .*<U1"),
        ({"x": torch.ones(3, 2, dtype=torch.complex64)}, r"features .*real numbers.* found .*complex64"),
        ({"y": [0, 1]}, r"labels .*\(3\).* found .*\(2,\)"),
        ({"y": [0.5, 1, 1]}, r"labels .*whole numbers.* found fractions"),
        ({"y": [0, 1, 10**12]}, r"labels .*100,000.* found 1000000000000"),
        ({"train_mask": [True]}, r"train_mask .*\(3\).* found .*\(1,\)"),
        ({"feature_names": "height"}, r"feature_names .*found 'height'"),
    ],
)
def test_refused(change: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"x": torch.ones(3, 2), "edge_index": PATH, **change}
    with pytest.raises(GraphError, match=message):
        Graph.from_arrays(**given)


def test_refused_objects() -> None:
    with pytest.raises(GraphError, match="found list"):
        as_graph([1, 2])
    with pytest.raises(GraphError, match=r"data\.x"):
        as_graph(Data(edge_index=PATH))
    with pytest.raises(GraphError, match=r"data\.edge_index"):
        as_graph(Data(x=torch.ones(2, 2)))


def test_row_scaling_keeps_zero_rows() -> None:
    x = torch.tensor([[1.0, 3.0], [0.0, 0.0]])
    expected = torch.tensor([[0.25, 0.75], [0.0, 0.0]])
    for scaled in (row_scaled(x), row_scaled(SparseMatrix.from_dense(x))):
        assert torch.equal(scaled.to_dense(), expected)


def test_bundled_cora(cora: Graph) -> None:
    assert (cora.num_nodes, cora.num_edges, cora.num_features, cora.num_classes) == (2708, 5278, 1433, 7)
    assert cora.class_names[0] == "Case_Based"
    assert cora.y is not None
    assert cora.train_mask is not None and cora.val_mask is not None and cora.test_mask is not None
    assert torch.bincount(cora.y[cora.train_mask]).tolist() == [20] * 7
    assert (int(cora.val_mask.sum()), int(cora.test_mask.sum())) == (500, 1000)
    assert not (cora.train_mask & cora.val_mask | cora.train_mask & cora.test_mask).any()
    assert not (cora.val_mask & cora.test_mask).any()
    degrees = torch.bincount(cora.edge_index[0], minlength=2708)
    assert int(degrees.min()) == 1
    same = cora.y[cora.edge_index[0]] == cora.y[cora.edge_index[1]]
    assert float(same.float().mean()) == pytest.approx(0.81, abs=0.01)


def test_bundled_cora_is_small() -> None:
    import graphkin

    packed = Path(graphkin.__file__).parent / "graphs" / "data" / "cora.npz"
    assert packed.stat().st_size <= 200_000


def test_npz_round_trip(tmp_path: Path) -> None:
    np.savez(tmp_path / "dense.npz", x=np.eye(3), edge_index=[[0, 1], [1, 2]], y=[0, 1, 1])
    graph = open_graph(str(tmp_path / "dense.npz"))
    assert (graph.name, graph.num_nodes, graph.num_edges) == ("dense", 3, 2)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.eye(3)}, "'edge_index'.* found: x"),
        ({"edge_index": np.zeros((2, 0))}, "features.* 'x'.* found: edge_index"),
        ({"edge_index": [[0], [1]], "x": np.array([[object()]])}, r"bad\.npz .*Python objects"),
        ({"edge_index": [[0], [1]], "x_indptr": [0, 9], "x_indices": [5], "x_shape": [1, 2]}, "compressed rows"),
        ({"edge_index": [[0], [1]], "num_nodes": [2, 3]}, r"num_nodes .*found .*\(2,\)"),
    ],
)
def test_refused_archives(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(GraphError, match=message):
        open_graph(str(tmp_path / "bad.npz"))


def test_arrays_of_other_machines(tmp_path: Path) -> None:
    np.savez(tmp_path / "big.npz", x=np.eye(3, dtype=">f8"), edge_index=np.array([[0, 1], [1, 2]], dtype=">i4"), y=[0, 1, 1])
    assert open_graph(tmp_path / "big.npz").num_edges == 2
    np.savez(tmp_path / "long.npz", x=np.eye(3, dtype=np.longdouble), edge_index=np.array([[0, 1], [1, 2]], dtype=np.uint64))
    assert open_graph(tmp_path / "long.npz").num_edges == 2


def test_refused_files(tmp_path: Path) -> None:
    np.save(tmp_path / "plain.npy", np.eye(3))
    (tmp_path / "plain.npy").rename(tmp_path / "plain.npz")
    with pytest.raises(GraphError, match=r"plain\.npz"):
        open_graph(tmp_path / "plain.npz")
    (tmp_path / "noise.npz").write_bytes(b"not an archive")
    with pytest.raises(GraphError, match=r"noise\.npz"):
        open_graph(str(tmp_path / "noise.npz"))
    whole = Path(__file__).parent.parent / "src/graphkin/graphs/data/cora.npz"
    (tmp_path / "cut.npz").write_bytes(whole.read_bytes()[:5000])
    with pytest.raises(GraphError, match=r"cut\.npz"):
        open_graph(str(tmp_path / "cut.npz"))
    with pytest.raises(GraphError, match=r"missing/graph\.npz"):
        open_graph("missing/graph.npz")
    with pytest.raises(SettingError, match=r"'cora-bundeld'.*'cora-bundled'"):
        open_graph("cora-bundeld")
    assert load_dataset("cora-bundled").num_nodes == bundled_cora().num_nodes
