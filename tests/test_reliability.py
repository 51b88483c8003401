"""What docs/reliability.md promises: no traceback, no lie, no lost result, whatever the input is."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse
import torch
from safetensors.torch import load_file, save_file
from torch_geometric.data import Data

import graphkin
from graphkin import Graph, InputError
from graphkin.commands.cli import run
from graphkin.errors import GraphError, ModelFileError, OutputError, SettingError
from graphkin.evaluation.evaluate import evaluate
from graphkin.experiments import store as stores
from graphkin.experiments.outcomes import Outcome
from graphkin.experiments.store import Store
from graphkin.graphs.readers import open_graph
from graphkin.support import files
from graphkin.support.files import read_tensors, remove_leftovers, write_whole
from tests.killed_at import ended, started
from tests.wording import refused

masked_array: Any = np.ma.array
Capture = pytest.CaptureFixture[str]
TYPES = [
    *("float16", "float64", "int64", ">f8"),
    *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("float32", "longdouble", "int8", "uint8", "uint64", "bool")),
]
QUICK = ("--epochs", "2", "--splits", "1", "-q", "-s", "hidden=4")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def a_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("a") / "run"
    assert graphkin_run("fit", "synthetic-60", *QUICK, "--out", run) == 0
    return run


def arrays(dtype: str = "float32", nodes: int = 60) -> dict[str, Any]:
    """Two communities with features that every type can hold."""
    draw = np.random.default_rng(0)
    y = np.arange(nodes) % 2
    x = (draw.random((nodes, 6)) < 0.3 + 0.4 * (np.arange(6) % 2 == y[:, None])).astype(dtype)
    edges = draw.integers(0, nodes // 2, (2, 4 * nodes)) * 2 + draw.integers(0, 2, 4 * nodes)
    return {"x": x, "edge_index": edges, "y": y}


def graphkin_run(*arguments: object) -> int:
    return run([str(argument) for argument in arguments])


def complaint(capsys: Capture, *arguments: object) -> str:
    capsys.readouterr()
    assert graphkin_run(*arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("graphkin: ") and line.isprintable()
    return line


def program(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "graphkin", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


# Every type that NumPy has, in every reader and every command


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


@pytest.mark.parametrize("protocol", ["grace", "gca", "clustering", "search"])
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
@pytest.mark.parametrize("dtype", ["float16", "float64", "int64", "bool"])
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
    def broken(*given: object) -> None:
        raise RuntimeError("a bug")

    np.savez("f.npz", **arrays())
    monkeypatch.setattr("graphkin.training.fitted.Fitted.embed", broken)
    assert graphkin_run("fit", "f.npz", *QUICK, "--out", "run") == 1
    assert [path.name for path in Path("run").iterdir()] == ["model.graphkin"]


def test_overwriting_leaves_nothing_of_the_run_before(folder: Path) -> None:
    np.savez("f.npz", **arrays())
    assert graphkin_run("fit", "f.npz", *QUICK, "--out", "run") == 0
    assert graphkin_run("fit", "f.npz", *QUICK, "--out", "run", "--overwrite", "--format", "csv") == 0
    assert sorted(path.name for path in Path("run").iterdir()) == ["embeddings.csv", "model.graphkin", "run.json"]


# Small inputs that ask for huge work


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


@pytest.mark.slow
def test_a_worker_that_is_killed_is_told(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ['title = "x"', 'protocol = "grace"', "seeds = 2", 'datasets = ["synthetic-60"]', 'measures = ["10 %"]']
    Path("e.toml").write_text("\n".join([*lines, "[[rows]]", 'name = "a"', 'method = "grace"', "settings = { hidden = 4 }"]))
    monkeypatch.setattr("graphkin.experiments.reproduce._one", _dies)
    assert graphkin_run("reproduce", "e.toml", "--jobs", 2, "--epochs", 1, "-q", "--store", "r.sqlite") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "a process that trained was killed" in line and "the same command goes on" in line


def _dies(*given: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


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
    monkeypatch.setattr(torch.optim.Adam, "step", too_large)
    assert "there is not enough memory" in complaint(capsys, "fit", "f.npz", "-q")


# A boundary for reading


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


def a_store(path: Path) -> Path:
    task = {"graph": "synthetic-60", "content": "c", "protocol": "grace", "baseline": None, "method": {"name": "grace"}}
    environment = json.dumps({"machine": {"system": "s"}, "versions": {"torch": "2"}, "commit": None})
    with_runs = Store(path)
    for seed in range(2):
        run = Outcome(
            "t", seed, {"10 %": 80.0}, {"10 %": 81.0}, (1.0, 0.5), 1.5, None, "2026-01-01T00:00:00+00:00", environment
        )
        with_runs.add(run, json.dumps(task))
    with_runs.close()
    return path


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
    assert graphkin_run("fit", "f.npz", *QUICK, "--out", "run") == 0
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
    assert graphkin_run("fit", "f.npz", *QUICK, "-s", "feature_scale=none", "--out", "run") == 0
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


# Files


@pytest.mark.parametrize(("umask", "mode"), [(0o077, "0o600"), (0o022, "0o644")])
def test_files_have_the_permissions_of_the_users_umask(folder: Path, umask: int, mode: str) -> None:
    np.savez("f.npz", **arrays())
    before = os.umask(umask)
    try:
        for kind in ("npy", "parquet", "csv"):
            assert graphkin_run("fit", "f.npz", *QUICK, "--format", kind, "--out", kind) == 0
        assert graphkin_run("report", "npy", "f.npz", "--layout", "pca") == 0
    finally:
        os.umask(before)
    written = [path for path in folder.rglob("*/*") if path.is_file()]
    assert len(written) == 10
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in written} == {mode}


@pytest.mark.slow
def test_what_a_killed_process_was_writing_is_removed_by_the_next(folder: Path) -> None:
    for name in ("checkpoint.graphkin", "embeddings.npy", "run.json"):
        assert ended(started(_killed_while_writing, folder / name)) == -signal.SIGKILL
    left = [path.name for path in folder.iterdir()]
    assert len(left) == 3 and all(name.startswith(".") for name in left)
    write_whole("run.json", lambda file: file.write_text("whole"))
    assert len(list(folder.iterdir())) == 3, "another file's leftovers may be those of a process elsewhere"
    remove_leftovers(folder)
    assert [path.name for path in folder.iterdir()] == ["run.json"]
    Path(f".run.json.{files._here()}-{os.getpid()}.part").write_text("being written")
    Path(".run.json.elsewhere-1.part").write_text("by another machine")
    remove_leftovers(folder)
    assert len(list(folder.iterdir())) == 3


def _killed_while_writing(path: Path) -> None:
    def write(file: Path) -> None:
        file.write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)

    write_whole(path, write)


def test_a_store_on_a_full_disk_is_not_called_damaged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = stores._connect

    def full(path: str) -> sqlite3.Connection:
        database = connect(path)
        database.execute("PRAGMA max_page_count = 1")
        return database

    monkeypatch.setattr(stores, "_connect", full)
    with refused(OutputError, "new.sqlite", "full"):
        Store(folder / "new.sqlite")
    monkeypatch.undo()
    kept = Store(a_store(folder / "old.sqlite"))
    (pages,) = kept._database.execute("PRAGMA page_count").fetchone()
    kept._database.execute(f"PRAGMA max_page_count = {pages}")
    with refused(OutputError, "old.sqlite", "full"):
        kept.merge(store_with_many_runs(folder / "many.sqlite"))
    assert len(kept.finished()) == 2, "what was finished stays"


def store_with_many_runs(path: Path) -> Store:
    many = Store(a_store(path))
    long = "x" * 5000
    for seed in range(2, 40):
        many.add(Outcome(f"t{seed}", seed, {"a": 1.0}, {"a": 1.0}, (1.0,), 1.0, long, "f", "{}"), descriptions())
    return many


def descriptions() -> str:
    return json.dumps({"graph": "g", "content": "c", "protocol": "grace", "baseline": "raw features", "method": None})


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_that_the_disk_refuses_is_not_called_damaged(
    folder: Path, read_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = a_store(folder / "r.sqlite")
    connect = stores._connect
    monkeypatch.setattr(stores, "_connect", lambda given: connect("file:/nowhere/r.sqlite?mode=ro"))
    with refused(OutputError, "r.sqlite", "unable to open"):
        Store(path, read_only=read_only)
    path.write_bytes(b"")
    monkeypatch.setattr(stores, "_connect", lambda given: connect(f"{given}?mode=ro"))
    with refused(OutputError, "r.sqlite", "readonly"):
        Store(path)


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


# Streams, signals and processes


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """A command line in which ``graphkin`` stands for the program."""
    program = command.replace("graphkin", f"{shlex.quote(sys.executable)} -m graphkin")
    return subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
def test_closed_streams_do_no_harm(folder: Path) -> None:
    np.savez("f.npz", **arrays())
    done = shell("graphkin fit f.npz --epochs 2 -s hidden=4 --splits 1 --out run <&- >&- 2>&-")
    assert done.returncode == 0
    assert np.isfinite(np.load("run/embeddings.npy")).all()
    assert json.loads(Path("run/run.json").read_text())["epochs"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["2>&-", ">&-"])
def test_one_closed_stream_leaves_the_other(closed: str) -> None:
    done = shell(f"graphkin datasets {closed}")
    assert (done.returncode, done.stderr) == (0, "")
    assert ("pubmed" in done.stdout) == (closed == "2>&-")


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_failure() -> None:
    done = shell("graphkin datasets | true; echo ${PIPESTATUS[0]}")
    assert done.stdout.strip() in ("0", "141") and done.stderr == ""
    done = shell("graphkin datasets > /dev/full")
    assert done.returncode == 2 and "No space left on device" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kibibytes", [300_000, 500_000])
def test_too_little_memory_to_start_is_a_sentence(kibibytes: int) -> None:
    done = shell(f"ulimit -v {kibibytes}; OPENBLAS_NUM_THREADS=1 graphkin fit synthetic-60")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("graphkin: ") and "memory" in line


@pytest.mark.slow
@pytest.mark.parametrize(("library", "number"), [("typer", signal.SIGINT), ("torch", signal.SIGINT), ("torch", signal.SIGTERM)])
def test_signals_while_libraries_are_imported(tmp_path: Path, library: str, number: signal.Signals) -> None:
    """A module that stands in for a library sends them."""
    (tmp_path / f"{library}.py").write_text(f"import os, time\nos.kill(os.getpid(), {int(number)})\ntime.sleep(60)\n")
    interruptible: Any = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    path = os.pathsep.join([str(tmp_path), str(Path(graphkin.__file__).parents[1])])
    done = program("fit", env={**os.environ, "PYTHONPATH": path}, preexec_fn=interruptible)
    assert done.returncode == 128 + number
    assert done.stderr == f"graphkin: {'interrupted' if number == signal.SIGINT else 'terminated'} before the end.\n"


def signalled(monkeypatch: pytest.MonkeyPatch, *numbers: signal.Signals, epoch: int = 3) -> None:
    """Signals arrive in a known epoch."""
    original, epochs = torch.optim.Adam.step, itertools.count(1)

    def step(adam: torch.optim.Adam, *given: Any, **named: Any) -> Any:
        if next(epochs) == epoch:
            for number in numbers:
                signal.raise_signal(number)
        return original(adam, *given, **named)

    monkeypatch.setattr(torch.optim.Adam, "step", step)


def test_ctrl_c_twice_leaves_at_once(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez("f.npz", **arrays())
    signalled(monkeypatch, signal.SIGINT, signal.SIGINT)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert graphkin_run("fit", "f.npz", "-q", "--epochs", 9, "-s", "hidden=4", "--out", "run") == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "graphkin: interrupted before the end.\n"
    assert list(Path("run").iterdir()) == []


def test_sigterm_keeps_a_checkpoint_and_leaves(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez("f.npz", **arrays())
    command = ("fit", "f.npz", "-q", "--epochs", 6, "-s", "hidden=4", "--splits", 1, "--checkpoint-every", 100)
    assert graphkin_run(*command, "--out", "unbroken") == 0
    handler = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        signalled(patch, signal.SIGTERM)
        assert graphkin_run(*command, "--out", "run") == 143
    assert signal.getsignal(signal.SIGTERM) is handler
    assert Path("run/checkpoint.graphkin").exists()
    assert "not_scored" in json.loads(Path("run/run.json").read_text())["scores"], "there may be seconds left"
    assert graphkin_run(*command, "--out", "run") == 0
    assert Path("run/embeddings.npy").read_bytes() == Path("unbroken/embeddings.npy").read_bytes()
    assert "accuracy_mean" in json.loads(Path("run/run.json").read_text())["scores"]


def test_in_a_program_of_ones_own_sigterm_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class EndedError(Exception): ...

    def end(number: int, frame: object) -> None:
        raise EndedError

    before = signal.signal(signal.SIGTERM, end)
    try:
        signalled(monkeypatch, signal.SIGTERM)
        with pytest.raises(EndedError):
            graphkin.fit(Graph.from_arrays(**arrays()), "grace", epochs=9, hidden=4)
    finally:
        signal.signal(signal.SIGTERM, before)


def lone_process(monkeypatch: pytest.MonkeyPatch, **changes: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    for name, value in {**given, "MASTER_PORT": str(port), **changes}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("graphkin.support.parallel.JOIN_WAIT", timedelta(seconds=2))


@pytest.mark.slow
def test_a_missing_process_is_named(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    lone_process(monkeypatch)
    assert graphkin_run("fit", "synthetic-60") == 1
    assert "process 1 of 2 (WORLD_SIZE) did not come to 127.0.0.1:" in capsys.readouterr().err
    lone_process(monkeypatch, RANK="1", LOCAL_RANK="1")
    assert graphkin_run("fit", "synthetic-60") == 1
    assert "does not answer: was process 0 started?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [("MASTER_PORT", "no", "65535"), ("MASTER_PORT", "99999", "65535"), ("RANK", "2", "WORLD_SIZE")],
)
def test_wrong_variables_are_named(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, name: str, value: str, allowed: str
) -> None:
    lone_process(monkeypatch, **{name: value})
    line = complaint(capsys, "fit", "synthetic-60")
    assert all(fact in line for fact in (name, value, allowed)), line


# Wrong types from Python


@pytest.mark.parametrize(
    ("name", "value", "facts"),
    [
        ("method", None, ["text"]),
        ("method", 3, ["text"]),
        ("progress", True, ["function", "bar", "lines"]),
        ("preset", 3, ["text"]),
        ("device", None, ["text"]),
        ("checkpoint", 3, ["path"]),
        ("memory", [], ["size"]),
        ("pooling", 3, ["sum", "mean"]),
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


@pytest.mark.slow
def test_one_and_two_threads_give_the_same_bits(folder: Path) -> None:
    np.savez("f.npz", **arrays(nodes=300))
    command = ["fit", "f.npz", *QUICK, "--set", "top_k=8", "--set", "steps=none"]
    assert torch.get_num_threads() == 1
    assert graphkin_run(*command, "--out", "run1") == 0
    two = {**os.environ, "OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}
    assert program(*command, "--out", "run2", env=two).returncode == 0
    machine = json.loads(Path("run2/run.json").read_text())["machine"]
    assert machine["threads"] == 2
    one, other = (load_file(f"run{threads}/model.graphkin") for threads in (1, 2))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert Path("run1/embeddings.npy").read_bytes() == Path("run2/embeddings.npy").read_bytes()
