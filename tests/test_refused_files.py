"""Small inputs that ask for huge work, and files that are damaged: refused in one line, before anything is allocated."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch
from safetensors.torch import save_file

import graphkin
from graphkin import Graph
from graphkin.errors import GraphError, ModelFileError, OutputError
from graphkin.support.adam import Adam
from graphkin.support.files import read_tensors
from tests.promised import QUICK, Capture, a_store, arrays, complaint, graphkin_run
from tests.wording import refused


def lying_archive(path: Path, shape: str = "(1000000000000, 4)") -> None:
    """An .npy member that promises more than it holds."""
    np.savez(path, **arrays())
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(
            "edge_weight.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + b"1234"
        )


def many_columns(folder: Path) -> None:
    Path("wide").mkdir()
    Path("wide/edges.csv").write_text("source,target\na,b\n")
    header = ",".join(f"f{i}" for i in range(100_000))
    Path("wide/nodes.csv").write_text(f"id,{header}\na,{','.join('1' * 100_000)}\nb,{','.join('2' * 100_000)}\n")


def big_shape(folder: Path) -> None:
    given = arrays()
    np.savez("f.npz", edge_index=given["edge_index"] % 10, x_indptr=np.zeros(11, int), x_indices=[], x_shape=[10, 10**10])


def grid(folder: Path) -> None:
    lines = ['title = "x"', 'protocol = "grace"', "seeds = 1", 'datasets = ["synthetic-60"]', 'measures = ["10 %"]']
    lines += ["[[rows]]", 'name = "a"', 'method = "grace"', "[rows.grid]"]
    lines += [f"{name} = {list(range(1, 41))}" for name in ("epochs", "hidden", "layers", "tau")]
    Path("grid.toml").write_text("\n".join(lines))


HUGE: list[tuple[Callable[[Path], Any], tuple[object, ...], tuple[str, ...]]] = [
    (many_columns, ("fit", "wide"), ("at most 50,000 columns", "found 100,001")),
    (big_shape, ("fit", "f.npz"), ("at most 16,777,216 features", "found 10,000,000,000")),
    (
        lambda folder: np.savez("f.npz", edge_index=[[0], [1]], num_nodes=2**31 - 1),
        ("fit", "f.npz", "--features", "degree"),
        ("degree features of 2,147,483,647 nodes", "GiB"),
    ),
    (
        lambda folder: np.savez("f.npz", edge_index=[[0], [1]], num_nodes=2**40),
        ("fit", "f.npz", "--features", "degree"),
        ("num_nodes must be a whole number", "<= 2147483647", "found 1099511627776"),
    ),
    (
        lambda folder: np.savez("f.npz", **arrays()),
        ("fit", "f.npz", "--epochs", 10**12),
        ("<= 10000000", "found 1000000000000"),
    ),
    (lambda folder: lying_archive(folder / "f.npz"), ("fit", "f.npz"), ("promises 16,000,000,000,000 bytes", "found 4")),
    (grid, ("reproduce", "grid.toml"), ("at most 10,000 rows", "found 2,560,000")),
]


@pytest.mark.parametrize(("make", "command", "facts"), HUGE)
def test_what_asks_for_huge_work_is_refused_at_once(
    folder: Path, capsys: Capture, make: Callable[[Path], Any], command: tuple[object, ...], facts: tuple[str, ...]
) -> None:
    make(folder)
    line = complaint(capsys, *command)
    assert all(fact in line for fact in facts), line


def test_a_lying_npy_file_is_refused_before_it_is_allocated(folder: Path, capsys: Capture) -> None:
    np.savez("f.npz", **arrays())
    lying_archive(folder / "lying.npz")
    with zipfile.ZipFile("lying.npz") as archive:
        Path("rows.npy").write_bytes(archive.read("edge_weight.npy"))
    assert "rows.npy is not a readable .npy file" in complaint(capsys, "evaluate", "rows.npy", "f.npz")
    lying_archive(folder / "open.npz", shape="(10, (")
    assert "open.npz is not a readable .npz archive" in complaint(capsys, "fit", "open.npz")
    with zipfile.ZipFile("open.npz") as archive:
        Path("open.npy").write_bytes(archive.read("edge_weight.npy"))
    assert "open.npy is not a readable .npy file" in complaint(capsys, "evaluate", "open.npy", "f.npz")


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")]
)
def test_a_lack_of_memory_is_a_sentence(
    folder: Path, error: Exception, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(*given: object, **named: object) -> None:
        raise error

    np.savez("f.npz", **arrays())
    monkeypatch.setattr(Adam, "step", too_large)
    assert "there is not enough memory" in complaint(capsys, "fit", "f.npz", "-q")


def test_a_cut_pagerank_part_is_named(folder: Path) -> None:
    graph = Graph.from_arrays(**arrays())
    settings: dict[str, Any] = {"epochs": 2, "hidden": 4, "top_k": 4, "steps": None, "checkpoint": "run"}
    graphkin.fit(graph, **settings)
    (part,) = Path("run.pagerank").rglob("*.npz")
    part.write_bytes(part.read_bytes()[:200])
    with refused(OutputError, "pagerank-0.npz", "damaged", "remove"):
        graphkin.fit(graph, **settings)


def test_two_names_for_one_end_of_an_edge_are_refused(folder: Path, capsys: Capture) -> None:
    Path("edges.csv").write_text("from,src,to\na,b,c\n")
    assert "edges.csv must name each column once, found 'source' 2 times" in complaint(capsys, "fit", "edges.csv")


def test_numbers_that_no_float_can_hold_are_refused(folder: Path, capsys: Capture) -> None:
    graph = networkx.path_graph(5)
    networkx.set_edge_attributes(graph, 10, "weight")
    networkx.write_graphml(graph, "g.graphml")
    Path("g.graphml").write_text(Path("g.graphml").read_text().replace(">10<", ">" + "9" * 400 + "<"))
    assert "g.graphml" in complaint(capsys, "fit", "g.graphml", "--features", "degree")


DAMAGE: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("an accuracy of 400 digits", lambda data: data["runs"][0].__setitem__(2, {"10 %": 10**400})),
    ("a seed of 30 digits", lambda data: data["runs"][0].__setitem__(1, 10**30)),
    ("neither method nor baseline", lambda data: data["tasks"]["t"].update(method=None)),
    ("a graph that is a list", lambda data: data["tasks"]["t"].update(graph=[])),
    ("a machine that is a word", lambda data: data["environments"]["1"].update(machine="x")),
    ("no runs", lambda data: data.pop("runs")),
    ("a run that is a number", lambda data: data["runs"].append(3)),
]


@pytest.mark.parametrize(("what", "damage"), DAMAGE, ids=[what for what, _ in DAMAGE])
def test_a_damaged_export_is_named(folder: Path, capsys: Capture, what: str, damage: Callable[[dict[str, Any]], Any]) -> None:
    assert graphkin_run("results", "export", a_store(folder / "r.sqlite"), "--out", "r.json") == 0
    data = json.loads(Path("r.json").read_text())
    damage(data)
    Path("bad.json").write_text(json.dumps(data))
    assert "bad.json" in complaint(capsys, "results", "merge", "new.sqlite", "bad.json")
    assert "bad.json" in complaint(capsys, "report", "bad.json")
    assert "bad.json" in complaint(capsys, "results", "export", "bad.json", "--out", "again.csv")
    assert not Path("again.csv").exists()


@pytest.fixture(scope="module")
def a_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("a") / "run"
    assert graphkin_run("fit", "synthetic-60", *QUICK, "--out", run) == 0
    return run


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: "[" * 100_000,
        lambda record: json.dumps({**record, "seconds": {}}),
        lambda record: json.dumps({**record, "seconds": {"train": "x"}}),
        lambda record: json.dumps({**record, "machine": "x"}),
        lambda record: json.dumps({**record, "graph": []}),
        lambda record: json.dumps({**record, "losses": [1.0, None]}),
        lambda record: json.dumps({**record, "scores": {**record["scores"], "accuracy_mean": 10**400}}),
        lambda record: json.dumps([record]),
        lambda record: json.dumps(record)[:-20],
    ],
)
def test_a_damaged_run_file_is_named(
    folder: Path, a_run: Path, capsys: Capture, damage: Callable[[dict[str, Any]], str]
) -> None:
    shutil.copytree(a_run, "run")
    path = Path("run/run.json")
    path.write_text(damage(json.loads(path.read_text())))
    assert "run/run.json" in complaint(capsys, "report", "run", "synthetic-60", "--layout", "pca")


def test_compressed_rows_that_do_not_fit_together_are_refused(folder: Path, capsys: Capture) -> None:
    """SciPy's own check lets these pass, and its next step reads beyond the arrays."""
    parts: dict[str, Any] = {"x_indptr": [0, 2**30, 0, 0], "x_indices": np.zeros(0, int), "x_data": np.zeros(0)}
    np.savez("f.npz", edge_index=[[0], [1]], x_shape=[3, 4], **parts)
    assert "f.npz" in complaint(capsys, "fit", "f.npz")
    matrix = scipy.sparse.csr_matrix((3, 3))
    matrix.indptr[:] = [0, 2**30, 0, 0]
    with refused(GraphError, "adjacency", "compressed rows"):
        Graph.from_scipy(matrix, np.ones((3, 2)))
    with refused(GraphError, "compressed rows"):
        Graph.from_arrays(matrix, [[0], [1]])


# Nothing that is not a number


def test_a_model_with_a_nan_is_refused(folder: Path, capsys: Capture) -> None:
    np.savez("f.npz", **arrays())
    assert graphkin_run("fit", "f.npz", *QUICK, "--method", "grace", "--out", "run") == 0
    metadata, tensors = read_tensors(Path("run/model.graphkin"))
    tensors["encoder.weights.0"][1, 2] = torch.nan
    save_file(tensors, "bad.graphkin", metadata)
    with refused(ModelFileError, "bad.graphkin", "encoder.weights.0", "finite"):
        graphkin.load("bad.graphkin")
    complaint(capsys, "embed", "bad.graphkin", "f.npz", "--out", "z.npy")
    assert not Path("z.npy").exists()


def test_embeddings_that_are_not_finite_are_not_written(folder: Path, capsys: Capture) -> None:
    given = arrays()
    np.savez("f.npz", **given)
    assert graphkin_run("fit", "f.npz", *QUICK, "--method", "grace", "-s", "feature_scale=none", "--out", "run") == 0
    np.savez("large.npz", **{**given, "x": np.full_like(given["x"], 3e38)})
    line = complaint(capsys, "embed", "run/model.graphkin", "large.npz", "--out", "z.npy")
    assert "embeddings must be finite" in line and not Path("z.npy").exists()


def test_a_checkpoint_with_a_nan_is_refused(folder: Path) -> None:
    graph = Graph.from_arrays(**arrays())
    settings: dict[str, Any] = {"epochs": 2, "hidden": 4, "checkpoint": "run"}
    graphkin.fit(graph, "grace", **settings)
    metadata, tensors = read_tensors(Path("run"))
    tensors["modules.encoder.weights.0"][0, 0] = torch.nan
    save_file(tensors, "run", metadata)
    with refused(OutputError, "run", "damaged"):
        graphkin.fit(graph, "grace", **settings)
