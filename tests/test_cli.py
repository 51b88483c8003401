from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphkin import Graph, load
from graphkin.commands.cli import run
from graphkin.commands.options.fit import parse_settings
from graphkin.errors import SettingError
from graphkin.evaluation.free import BEST_FREE, FREE
from graphkin.evaluation.protocols import PROTOCOLS
from graphkin.evaluation.scores import Scores
from graphkin.support.sparse import SparseMatrix
from graphkin.training import loop
from tests.wording import told

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, small: Graph, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with the small graph in small.npz."""
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "small.npz", small)
    return tmp_path


def save(path: Path, graph: Graph, **changes: Any) -> None:
    assert not isinstance(graph.x, SparseMatrix)
    arrays = {"x": graph.x, "edge_index": graph.edge_index, "y": graph.y}
    masks = {name: getattr(graph, name) for name in ("train_mask", "val_mask", "test_mask")}
    given: dict[str, Any] = {**arrays, **masks, **changes}
    present: dict[str, Any] = {key: np.asarray(value) for key, value in given.items() if value is not None}
    np.savez(path, **present)


def graphkin(*arguments: object) -> int:
    return run([str(argument) for argument in arguments])


def complaint(capsys: Capture, *arguments: object) -> str:
    """The one line that a mistake gets."""
    assert graphkin(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("graphkin: ")
    return line


def test_fit_writes_a_run_and_prints_scores(folder: Path, capsys: Capture, small: Graph) -> None:
    assert graphkin("fit", "small.npz", "--epochs", 3, "--out", "run", "--set", "hidden=8") == 0
    captured = capsys.readouterr()
    assert "small: 40 nodes" in captured.out
    assert "kin: trained for 3 epochs" in captured.out
    assert "protocol grace, 5 times" in captured.out
    assert "best free: " in captured.out and "untrained encoder" in captured.out
    assert "PageRank 0.05  " not in captured.out, "of the free rows only the best is printed"
    assert "epoch 3/3" in captured.err
    record = json.loads((folder / "run/run.json").read_text())
    assert record["method"] == "kin"
    assert record["settings"]["hidden"] == 8
    assert record["settings"]["epochs"] == 3
    assert len(record["losses"]) == 3
    assert record["versions"]["torch"] == version("torch")
    assert 0 < record["scores"]["accuracy_mean"] <= 100
    embeddings = np.load(folder / "run/embeddings.npy")
    assert np.array_equal(load(folder / "run/model.graphkin").embed(small).numpy(), embeddings)


def test_nodes_that_nothing_tells_apart_get_a_warning(folder: Path, capsys: Capture) -> None:
    nodes = torch.arange(12)
    ring = torch.cat([torch.stack([nodes, nodes.roll(1)]), torch.stack([nodes.roll(1), nodes])], dim=1)
    np.savez("ring.npz", x=np.ones((12, 3), np.float32), edge_index=ring.numpy())
    for name, alike in (("small", False), ("ring", True)):
        assert graphkin("fit", f"{name}.npz", "--epochs", 3, "--out", name, "--set", "hidden=8") == 0
        out, warning = capsys.readouterr().out, json.loads((folder / name / "run.json").read_text())["warning"]
        assert (warning is not None) is alike
        assert ("\nwarning: " in out) is alike


def test_json_is_one_object_on_standard_output(folder: Path, capsys: Capture) -> None:
    assert graphkin("fit", "small.npz", "--epochs", 2, "--json", "-s", "hidden=8") == 0
    captured = capsys.readouterr()
    record = json.loads(captured.out)
    assert record["out"] == "runs/small-kin-seed0"
    assert record["graph"]["nodes"] == 40
    assert graphkin("fit", "small.npz", "--epochs", 2, "--json", "-q", "-s", "hidden=8") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["out"] == "runs/small-kin-seed0-2"
    assert captured.err == ""


@pytest.mark.slow
def test_embed_and_evaluate(folder: Path, capsys: Capture) -> None:
    assert graphkin("fit", "small.npz", "--epochs", 2, "--out", "run", "-q", "-s", "hidden=8") == 0
    assert graphkin("embed", "run/model.graphkin", "small.npz", "--out", "again.npy") == 0
    assert np.array_equal(np.load("again.npy"), np.load("run/embeddings.npy"))
    capsys.readouterr()
    assert graphkin("evaluate", "again.npy", "small.npz", "--train", 0.3, "--val", 0.2, "--splits", 2) == 0
    assert "protocol grace, 2 times" in capsys.readouterr().out
    assert graphkin("evaluate", "again.npy", "small.npz", "--train", 0.3, "--val", 0.2, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert len(record["accuracy"]) == 10
    assert set(record["baselines"]) == {BEST_FREE, *FREE}, "nobody knows which encoder made this file"
    assert set(record["baselines"][BEST_FREE]["chosen"]) <= set(FREE)
    assert graphkin("embed", "run/model.graphkin", "small.npz", "--out", "again.npy", "--overwrite", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "out": "again.npy",
        "nodes": 40,
        "dimensions": np.load("run/embeddings.npy").shape[1],
        "notes": [],
    }


def test_smoothed_features_that_are_better_are_named(folder: Path, capsys: Capture) -> None:
    """Classes that only show in features averaged over neighbours, and an embedding that is noise."""
    draw = np.random.default_rng(0)
    labels = np.arange(300) % 3
    chance = np.where(labels[:, None] == labels, 0.1, 0.002)
    edges = np.argwhere(np.triu(draw.random((300, 300)) < chance, 1)).T
    features = (draw.normal(size=(300, 8)) + 1.5 * np.eye(3, 8)[labels]).astype(np.float32)
    np.savez("noisy.npz", x=features, edge_index=edges, y=labels)
    np.save("noise.npy", draw.normal(size=(300, 4)))
    assert graphkin("evaluate", "noise.npy", "noisy.npz", "--splits", 5) == 0
    printed = capsys.readouterr().out
    assert told(printed, "embeddings", "best free: ", *FREE) and "untrained" not in printed
    assert told(printed, "Smoothed features without training", " % against ", "graphkin fit --method diffusion")
    assert graphkin("evaluate", "noise.npy", "noisy.npz", "--splits", 5, "--json") == 0
    assert json.loads(capsys.readouterr().out)["advice"] in " ".join(printed.split())
    assert graphkin("evaluate", "noise.npy", "noisy.npz", "--splits", 2, "--protocol", "clustering") == 0
    clusters = capsys.readouterr().out
    assert told(clusters, *FREE) and "best free" not in clusters, "nothing to choose by"


def test_graph_mlp_is_scored_on_the_test_mask_alone(folder: Path, capsys: Capture, small: Graph) -> None:
    """Random labels cannot be predicted; random splits would show labels that training has seen."""
    save(folder / "random.npz", small, y=np.random.default_rng(0).integers(0, 2, 40))
    assert graphkin("fit", "random.npz", "-m", "graph-mlp+", "--epochs", 60, "-q", "--json", "-s", "hidden=16") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["scores"]["protocol"] == "own classifier on the test mask"
    assert len(record["scores"]["accuracy"]) == 1
    assert record["scores"]["accuracy_mean"] < 80


def test_strange_paths(folder: Path, capsys: Capture) -> None:
    quick = ("--epochs", 1, "-q", "-s", "hidden=4", "--no-baselines")
    assert graphkin("fit", "small.npz", "--out", "x[/b][red]", *quick) == 0
    assert "x[/b][red]/embeddings.npy" in capsys.readouterr().out
    assert "File name too long" in complaint(capsys, "fit", "a" * 300 + ".npz")
    assert "File name too long" in complaint(capsys, "embed", "a" * 300, "small.npz")


def test_a_file_called_like_a_dataset_does_not_get_its_settings(folder: Path, capsys: Capture, small: Graph) -> None:
    save(folder / "cora.npz", small)
    assert graphkin("fit", "cora.npz", "--epochs", 1, "-q", "--json", "-s", "hidden=4") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["settings"]["effective_positives"] == 10


def test_a_graph_without_labels_is_embedded_and_says_so(folder: Path, capsys: Capture, small: Graph) -> None:
    save(folder / "bare.npz", small, y=None, train_mask=None, val_mask=None, test_mask=None)
    assert graphkin("fit", "bare.npz", "--epochs", 2, "--out", "run", "-q", "-s", "hidden=8") == 0
    assert told(capsys.readouterr().out, "not scored: ", "no labels", "wrote", "graphkin cluster run")
    assert "not_scored" in json.loads((folder / "run/run.json").read_text())["scores"]


def test_datasets_and_version(capsys: Capture) -> None:
    assert graphkin("datasets") == 0
    assert "cora-bundled" in capsys.readouterr().out
    assert graphkin("datasets", "--json") == 0
    entry, *others = json.loads(capsys.readouterr().out)["datasets"]
    assert len(others) == 8
    assert (entry["state"], others[-1]["name"]) == ("bundled", "wikics")
    assert (entry["nodes"], entry["edges"], entry["features"], entry["classes"]) == (2708, 5278, 1433, 7)
    assert graphkin("--version") == 0
    assert capsys.readouterr().out.startswith("graphkin ")


@pytest.mark.parametrize("command", ["fit", "embed", "evaluate", "similar", "cluster", "map", "links", "datasets"])
def test_help_teaches(command: str, capsys: Capture) -> None:
    assert graphkin(command, "--help") == 0
    text = capsys.readouterr().out
    assert "Usage: graphkin" in text
    if command != "datasets":
        assert f"graphkin {command} " in text.split("Example", 1)[1]


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--method", "gracce"], ["method", "'gracce'", "'grace'"]),
        (["--method", "grace", "--set", "pooling=summ"], ["pooling", "'summ'", "'sum'"]),
        (["--set", "bta=0.5"], ["kin", "'bta'", "'beta'"]),
        (["--set", "tau_pos=0"], ["tau_pos", "> 0", "found 0"]),
        (["--set", "tau=-0.5"], ["tau", "> 0", "found -0.5"]),
        (["--set", "tau=nan"], ["tau", "> 0", "found nan"]),
        (["--set", "tau=inf"], ["tau", "> 0", "found inf"]),
        (["--set", "tau=" + "9" * 400], ["tau", "> 0", "found 999"]),
        (["--set", "self=1"], ["kin", "'self'"]),
        (["--set", "hidden=1000000000000"], ["hidden", ">= 2", "<= 65536", "found 1000000000000"]),
        (["--set", "learning_rate=1e38"], ["learning_rate", "> 0", "<= 1000000.0"]),
        (["--set", "alpha=1"], ["alpha", "> 0", "< 1", "found 1"]),
        (["--set", "beta=1.5"], ["beta", ">= 0", "<= 1", "found 1.5"]),
        (["--set", "beta"], ["--set", "NAME=VALUE", "'beta'"]),
        (["--epochs", "0"], ["epochs", ">= 1", "<= 10000000", "found 0"]),
        (["--epochs", "many"], ["--epochs", "integer"]),
        (["--seed", "-3"], ["seed", ">= 0", "found -3"]),
        (["--device", "gpu"], ["device", "cuda:N", "'gpu'"]),
        (["--method", "grace+", "--preset", "coraa"], ["preset", "grace", "'coraa'", "'cora'"]),
        (["--splits", "0"], ["splits", ">= 1", "<= 100000", "found 0"]),
        (["--metod", "grace"], ["--metod"]),
        (["--method", "graph-mlp", "--set", "tau_pos=1"], ["graph-mlp", "'tau_pos'"]),
    ],
)
def test_mistakes_in_options(folder: Path, capsys: Capture, arguments: list[str], facts: list[str]) -> None:
    line = complaint(capsys, "fit", "small.npz", "--out", "run", *arguments)
    assert all(fact in line for fact in facts), line
    assert not (folder / "run" / "run.json").exists()


def test_mistakes_in_names(folder: Path, capsys: Capture) -> None:
    line = complaint(capsys, "fit", "cora-bundl")
    assert "'cora-bundl'" in line and "'cora-bundled'" in line
    assert "missing.npz" in complaint(capsys, "fit", "missing.npz")
    assert "'fitt'" in complaint(capsys, "fitt")
    assert "nothing.graphkin" in complaint(capsys, "embed", "nothing.graphkin", "small.npz")
    assert "nothing.npy" in complaint(capsys, "evaluate", "nothing.npy", "small.npz")


@pytest.mark.parametrize(
    ("change", "arguments", "facts"),
    [
        ({"edge_index": [[0, 40], [1, 2]]}, [], ["edge_index", "0..39", "found 40"]),
        ({"edge_index": [[0, -2], [1, 2]]}, [], ["edge_index", "-2"]),
        ({"edge_index": [[0.5, 1], [1, 2]]}, [], ["edge_index", "whole numbers", "float64"]),
        ({"x": np.full((40, 2), np.nan)}, [], ["features", "finite", "80", "node 0, column 0"]),
        ({"x": np.full((40, 2), np.inf)}, [], ["features", "finite", "80"]),
        ({"x": np.empty((0, 2)), "edge_index": np.empty((2, 0))}, [], ["no nodes"]),
        ({"edge_index": np.empty((2, 0), dtype=int)}, [], ["no edges"]),
        ({"y": None}, ["--method", "graph-mlp"], ["graph-mlp", "labels", "--label"]),
        ({"y": np.full(40, -1)}, ["--method", "graph-mlp"], ["graph-mlp", "train_mask", "label", "found 10"]),
        ({"x": np.ones((40, 2)) * -1}, ["--set", "feature_scale=rows"], ["feature_scale", ">= 0"]),
    ],
)
def test_mistakes_in_graphs(
    folder: Path, capsys: Capture, small: Graph, change: dict[str, Any], arguments: list[str], facts: list[str]
) -> None:
    save(folder / "bad.npz", small, **change)
    line = complaint(capsys, "fit", "bad.npz", *arguments)
    assert all(fact in line for fact in facts), line


def test_no_edges_are_allowed_with_features_alone(folder: Path, small: Graph) -> None:
    save(folder / "edgeless.npz", small, edge_index=np.empty((2, 0), dtype=int))
    assert graphkin("fit", "edgeless.npz", "--epochs", 2, "-q", "-s", "beta=1", "-s", "hidden=8") == 0


def test_mistakes_in_models_and_embeddings(folder: Path, capsys: Capture, small: Graph) -> None:
    assert graphkin("fit", "small.npz", "--epochs", 1, "--out", "run", "-q", "-s", "hidden=8") == 0
    capsys.readouterr()
    save(folder / "narrow.npz", small, x=np.ones((40, 3)))
    line = complaint(capsys, "embed", "run/model.graphkin", "narrow.npz")
    assert "16 features" in line and "found 3" in line
    (folder / "cut.graphkin").write_bytes((folder / "run/model.graphkin").read_bytes()[:300])
    assert "cut.graphkin" in complaint(capsys, "embed", "cut.graphkin", "small.npz")
    assert "small.npz" in complaint(capsys, "embed", "small.npz", "small.npz")
    np.save("objects.npy", np.array([{}]), allow_pickle=True)
    for name in ("run/run.json", "objects.npy"):
        line = complaint(capsys, "evaluate", name, "small.npz")
        assert name in line and ".npy" in line
    np.save("short.npy", np.ones((3, 2)))
    line = complaint(capsys, "evaluate", "short.npy", "small.npz")
    assert "40 nodes" in line and "(3, 2)" in line
    line = complaint(capsys, "evaluate", "run/embeddings.npy", "small.npz", "--train", 0.5, "--val", 0.6)
    assert "train 0.5" in line and "val 0.6" in line


def test_outputs_that_cannot_be_written_are_found_before_training(folder: Path, capsys: Capture) -> None:
    """The epochs asked for would take days: the answer must come first."""
    (folder / "file").write_text("mine")
    for out in ("file/run", "/proc/run"):
        line = complaint(capsys, "fit", "small.npz", "--epochs", 10**7, "--out", out)
        assert "cannot be written" in line
    assert (folder / "file").read_text() == "mine"


def test_a_run_is_never_overwritten_unasked(folder: Path, capsys: Capture) -> None:
    quick = ("--epochs", 1, "-q", "-s", "hidden=8", "--out", "run")
    assert graphkin("fit", "small.npz", *quick) == 0
    before = (folder / "run/embeddings.npy").read_bytes()
    capsys.readouterr()
    line = complaint(capsys, "fit", "small.npz", "--seed", 1, *quick)
    assert "run.json" in line and "--overwrite" in line
    assert (folder / "run/embeddings.npy").read_bytes() == before
    assert graphkin("fit", "small.npz", "--seed", 1, "--overwrite", *quick) == 0
    assert (folder / "run/embeddings.npy").read_bytes() != before
    capsys.readouterr()
    line = complaint(capsys, "embed", "run/model.graphkin", "small.npz", "--out", "run/embeddings.npy")
    assert "run/embeddings.npy" in line and "--overwrite" in line
    assert "the folder run" in complaint(capsys, "embed", "run/model.graphkin", "small.npz", "--out", "run")


@pytest.mark.slow
def test_interrupted_run_is_kept(folder: Path) -> None:
    """The whole program: Ctrl-C, and the results of the epochs so far are there; status 130."""
    quick = ("--epochs", "1000000", "--checkpoint-every", "2", "--splits", "1", "--no-baselines", "-s", "hidden=4", "-q")
    command = [sys.executable, "-m", "graphkin", "fit", "small.npz", *quick, "--out", "run"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while not (folder / "run/checkpoint.graphkin").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "stopped by Ctrl-C after" in out
    record = json.loads((folder / "run/run.json").read_text())
    assert record["interrupted"]
    assert 0 < record["epochs"] < 1_000_000
    assert np.isfinite(np.load(folder / "run/embeddings.npy")).all()


def test_after_ctrl_c_the_same_command_goes_on(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("fit", "small.npz", "--epochs", 6, "-q", "-s", "hidden=8", "--no-baselines", "--checkpoint-every", 1)
    assert graphkin(*command, "--out", "unbroken") == 0
    original = loop._Run.step

    def step(run: loop._Run) -> None:
        original(run)
        if run.epoch == 3:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(loop._Run, "step", step)
        capsys.readouterr()
        assert graphkin(*command) == 130
    out = capsys.readouterr().out
    assert "stopped by Ctrl-C after 3 epochs" in out and "the same command" in out
    run = folder / "runs/small-kin-seed0"
    checkpoint = (run / "checkpoint.graphkin").read_bytes()
    assert "--checkpoint-every" in complaint(capsys, *command[:-2], "--out", run)
    assert graphkin(*command[:-2]) == 0, "another run, in a folder of its own"
    assert (run / "checkpoint.graphkin").read_bytes() == checkpoint
    first = json.loads((run / "run.json").read_text())["seconds"]["train"]
    assert graphkin(*command) == 0
    assert (run / "embeddings.npy").read_bytes() == (folder / "unbroken/embeddings.npy").read_bytes()
    record = json.loads((run / "run.json").read_text())
    assert record["epochs"] == 6 and record["seconds"]["train"] > first, "of both parts"
    assert not (run / "checkpoint.graphkin").exists()
    assert sorted(path.name for path in (folder / "runs").iterdir()) == [run.name, f"{run.name}-2"]


def test_only_the_options_that_were_given_reach_the_protocol(
    folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A protocol has its own defaults, and refuses options that it does not have."""
    asked: list[dict[str, Any]] = []

    def evaluate(rows: Any, graph: Graph, **options: Any) -> Scores:
        asked.append(options)
        return Scores("a protocol", {"accuracy": (50.0,)})

    monkeypatch.setattr("graphkin.commands.evaluate.evaluate", evaluate)
    np.save("rows.npy", np.ones((40, 2)))
    common = {"protocol": "grace", "splits": 10, "seed": 0}
    for given in ({}, {"val": 0.2}, {"ratio": 0.02, "train": 0.3}):
        options = [word for name, value in given.items() for word in (f"--{name}", value)]
        assert graphkin("evaluate", "rows.npy", "small.npz", "--no-baselines", *options) == 0
        assert asked.pop() == common | given


def test_protocols_are_listed(capsys: Capture) -> None:
    assert graphkin("evaluate", "--protocols") == 0
    assert capsys.readouterr().out.split() == list(PROTOCOLS)


def test_an_internal_error_is_called_so(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("graphkin.training.plan.Plan.fit_and_embed", broken)
    assert graphkin("fit", "small.npz") == 1
    assert "please report it" in capsys.readouterr().err


def test_values_of_settings() -> None:
    parsed = parse_settings(["a=1", "b=0.5", "c=none", "drop-edges=0.1,0.2", "e=word", "f=true", "g=1e-3"])
    assert parsed == {"a": 1, "b": 0.5, "c": None, "drop_edges": (0.1, 0.2), "e": "word", "f": True, "g": 1e-3}
    with pytest.raises(SettingError, match="NAME=VALUE"):
        parse_settings(["=3"])


def test_two_tables_are_told_how_to_name_the_second(capsys: Capture) -> None:
    for arguments, facts in ((("fit", "a.csv", "b.csv"), ("b.csv", "--nodes")), (("cluster", "a", "b"), ("cluster --help",))):
        assert graphkin(*arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert told(line, *facts) and ("--nodes" in line) == ("--nodes" in facts)
