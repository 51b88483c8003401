"""What docs/reliability.md promises of inputs and of what is learned: no traceback, no lie, no lost result."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse
import torch
from torch_geometric.data import Data

import graphkin
from graphkin import Graph, InputError
from graphkin.errors import GraphError, SettingError
from graphkin.evaluation.evaluate import evaluate
from graphkin.graphs.readers import open_graph
from tests.promised import QUICK, Capture, arrays, complaint, graphkin_run, masked_array
from tests.wording import refused

# Every type that NumPy has, in every reader and every command


TYPES = [
    *("float16", "float64", "int64", ">f8"),
    *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("float32", "longdouble", "int8", "uint8", "uint64", "bool")),
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sparse", [False, True])
def test_features_of_every_type_are_trained_scored_and_embedded(folder: Path, dtype: str, sparse: bool) -> None:
    given = arrays(dtype)
    if sparse:
        rows = scipy.sparse.csr_matrix(given.pop("x").astype("float64"))
        given |= {"x_data": rows.data.astype(dtype), "x_indices": rows.indices, "x_indptr": rows.indptr, "x_shape": rows.shape}
    np.savez("f.npz", **given)
    assert graphkin_run("fit", "f.npz", *QUICK, "--out", "run") == 0
    assert "accuracy_mean" in json.loads(Path("run/run.json").read_text())["scores"]
    assert graphkin_run("embed", "run/model.graphkin", "f.npz", "--out", "again.npy") == 0
    assert np.array_equal(np.load("again.npy"), np.load("run/embeddings.npy"))
    assert graphkin_run("evaluate", "again.npy", "f.npz", "--splits", 1, "--no-baselines") == 0


@pytest.mark.parametrize("protocol", ["grace", pytest.param("gca", marks=pytest.mark.slow), "clustering", "search"])
def test_features_in_float64_are_scored_by_every_protocol(folder: Path, protocol: str) -> None:
    np.savez("f.npz", **arrays("float64"))
    np.save("rows.npy", arrays("float64")["x"])
    assert graphkin_run("evaluate", "rows.npy", "f.npz", "--splits", 1, "--protocol", protocol) == 0


@pytest.mark.parametrize("kind", ["degree", "positional"])
def test_structural_features_of_a_labelled_graph_are_scored(folder: Path, kind: str) -> None:
    np.savez("f.npz", **arrays())
    assert graphkin_run("fit", "f.npz", "--features", kind, *QUICK, "--out", "run") == 0
    assert "accuracy_mean" in json.loads(Path("run/run.json").read_text())["scores"]


def from_data(given: dict[str, Any]) -> Graph:
    tensors = {name: torch.from_numpy(np.asarray(value)) for name, value in given.items()}
    return Graph.from_data(Data(**tensors))


def from_networkx(given: dict[str, Any]) -> Graph:
    graph = networkx.Graph(list(zip(*given["edge_index"].tolist(), strict=True)))
    for node in range(len(given["y"])):
        graph.add_node(node, label=int(given["y"][node]), **{f"f{i}": given["x"][node, i].item() for i in range(6)})
    return Graph.from_networkx(graph)


def from_parquet(given: dict[str, Any]) -> Graph:
    source, target = given["edge_index"].astype(str)
    pa.parquet.write_table(pa.table({"source": source, "target": target}), "edges.parquet")
    columns = {f"f{i}": given["x"][:, i] for i in range(6)}
    pa.parquet.write_table(pa.table({"id": np.arange(60).astype(str), "label": given["y"], **columns}), "nodes.parquet")
    return open_graph(".")


READERS: list[Callable[[dict[str, Any]], Graph]] = [
    lambda given: Graph.from_arrays(**given),
    lambda given: Graph.from_arrays(masked_array(given["x"]), given["edge_index"], given["y"]),
    lambda given: Graph.from_arrays(scipy.sparse.csr_matrix(given["x"].astype("float64")), given["edge_index"], given["y"]),
    from_data,
    from_networkx,
    from_parquet,
]


@pytest.mark.parametrize("reader", range(len(READERS)))
@pytest.mark.parametrize(
    "dtype", ["float64", *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("float16", "int64", "bool"))]
)
def test_every_reader_takes_every_type(folder: Path, reader: int, dtype: str) -> None:
    graph = READERS[reader](arrays(dtype))
    assert graph.x.dtype == torch.float32
    fitted = graphkin.fit(graph, epochs=1, hidden=4)
    scores = evaluate(fitted.embed(graph), graph, splits=1)
    assert 0 <= scores.mean <= 100


# Whatever fails after training, the model and the embeddings are on the disk


@pytest.mark.parametrize(("failure", "status"), [(RuntimeError("a bug"), 1), (MemoryError(), 2), (KeyboardInterrupt(), 130)])
def test_what_was_learned_is_kept_when_scoring_fails(
    folder: Path, failure: BaseException, status: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: object) -> None:
        raise failure

    np.savez("f.npz", **arrays())
    monkeypatch.setattr("graphkin.commands.fit.scores_of", broken)
    assert graphkin_run("fit", "f.npz", *QUICK, "--out", "run") == status
    assert "model and embeddings are in run" in capsys.readouterr().err
    again = graphkin.load("run/model.graphkin").embed(open_graph("f.npz"))
    assert np.array_equal(again.numpy(), np.load("run/embeddings.npy"))
    assert "graphkin evaluate" in json.loads(Path("run/run.json").read_text())["scores"]["not_scored"]


def test_the_model_is_kept_when_embedding_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> Iterator[torch.Tensor]:
        yield torch.zeros(1, 2)
        raise RuntimeError("a bug")

    np.savez("f.npz", **arrays())
    monkeypatch.setattr("graphkin.training.plan.Prepared.embed_in_blocks", broken)
    assert graphkin_run("fit", "f.npz", *QUICK, "--out", "run") == 1
    assert [path.name for path in Path("run").iterdir()] == ["model.graphkin"]


def test_overwriting_leaves_nothing_of_the_run_before(folder: Path) -> None:
    np.savez("f.npz", **arrays())
    assert graphkin_run("fit", "f.npz", *QUICK, "--out", "run") == 0
    assert graphkin_run("fit", "f.npz", *QUICK, "--out", "run", "--overwrite", "--format", "csv") == 0
    assert sorted(path.name for path in Path("run").iterdir()) == ["embeddings.csv", "model.graphkin", "run.json"]


# No silent changes


def test_large_unsigned_numbers_stay_large() -> None:
    given = arrays()
    x = np.full((60, 2), 2**64 - 1, dtype=np.uint64)
    assert (Graph.from_arrays(x, given["edge_index"]).x.to_dense() == 2.0**64).all()
    with refused(GraphError, "labels", "100,000", 2**64):
        Graph.from_arrays(given["x"], given["edge_index"], x[:, 0])
    with refused(GraphError, "edge_index"):
        Graph.from_arrays(given["x"], np.full((2, 3), 2**64 - 1, dtype=np.uint64))


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_labels_are_refused(value: float) -> None:
    given = arrays()
    y = given["y"].astype(float)
    y[3] = value
    with refused(GraphError, "labels", "infinite"):
        Graph.from_arrays(given["x"], given["edge_index"], y)


def test_masked_arrays_keep_their_meaning() -> None:
    given = arrays()
    mask = np.arange(60) == 7
    y = Graph.from_arrays(given["x"], given["edge_index"], masked_array(given["y"], mask=mask)).y
    assert y is not None and int(y[7]) == -1 and int((y < 0).sum()) == 1
    masked = masked_array(given["x"], mask=np.repeat(mask[:, None], 6, axis=1))
    with refused(GraphError, "features", "6 masked"):
        Graph.from_arrays(masked, given["edge_index"])
    for name, told in (("train_mask", "train_mask"), ("ids", "id")):
        with refused(GraphError, told, "masked"):
            Graph.from_arrays(given["x"], given["edge_index"], **{name: masked_array(mask, mask=mask)})
    graph = Graph.from_arrays(**given)
    with refused(SettingError, "embeddings", "masked"):
        evaluate(masked, graph)


def test_control_characters_do_not_reach_the_terminal(folder: Path, capsys: Capture) -> None:
    Path("edges.csv").write_text("source,target\na,b\nb,c\n")
    Path("nodes.csv").write_text("id,\x1b[31mred\x07\na,x\nb,y\nc,z\n")
    assert "\\x1b[31mred\\x07" in complaint(capsys, "fit", "edges.csv", "--nodes", "nodes.csv")
    np.savez("f\x1b[2J.npz", **arrays())
    assert graphkin_run("fit", "f\x1b[2J.npz", "--epochs", 2, "-s", "hidden=4", "--out", "run") == 0
    shown = "".join(capsys.readouterr())
    assert "\x1b" not in shown and "f\\x1b[2J" in shown
    with pytest.raises(InputError) as caught:
        open_graph("nothing\x1b[2J.npz")
    assert "\x1b" not in str(caught.value)


# Wrong types from Python


@pytest.mark.parametrize(
    ("name", "value", "facts"),
    [
        ("method", 3, ["string"]),
        ("progress", 3, ["function", "bar", "lines"]),
        ("preset", 3, ["string"]),
        ("device", None, ["string"]),
        ("checkpoint", 3, ["path"]),
        ("memory", [], ["size"]),
        ("norm", 3, ["none", "layer", "batch"]),
        ("tau", "x", ["number"]),
    ],
)
def test_wrong_types_are_told(name: str, value: Any, facts: list[str]) -> None:
    named = [] if name == "checkpoint" else [name]
    with refused(InputError, *named, repr(value), *facts):
        graphkin.fit(Graph.from_arrays(**arrays()), **{"epochs": 1, name: value})


@pytest.mark.parametrize(
    ("x", "found"),
    [(torch.empty(60, 2, device="meta"), "meta"), (object(), "object"), ("x", "numbers"), ([[1], [2, 3]], "list")],
)
def test_features_that_are_none_are_told(x: Any, found: str) -> None:
    with refused(GraphError, "features", found):
        Graph.from_arrays(x, arrays()["edge_index"])


@pytest.mark.filterwarnings("ignore:torch.quantize")
def test_quantised_features_are_told() -> None:
    x = torch.quantize_per_tensor(torch.rand(60, 2), 0.1, 0, torch.qint8)
    with refused(GraphError, "features", "quantised"):
        Graph.from_arrays(x, arrays()["edge_index"])


def test_attributes_with_keys_of_several_types_are_features(folder: Path) -> None:
    graph = networkx.path_graph(4)
    for node in graph:
        graph.nodes[node].update({1: float(node), "a": 2.0})
    assert Graph.from_networkx(graph).feature_names == ("1", "a")
