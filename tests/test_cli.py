from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphkin import Graph, load
from graphkin.commands.cli import run
from graphkin.commands.graphs import parse_settings
from graphkin.errors import SettingError
from graphkin.support.sparse import SparseMatrix
from graphkin.training import loop

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
    assert "grace+: trained for 3 epochs" in captured.out
    assert "protocol grace, 5 times" in captured.out
    assert "propagated features" in captured.out
    assert "epoch 3/3" in captured.err
    record = json.loads((folder / "run/run.json").read_text())
    assert record["method"] == "grace+"
    assert record["settings"]["hidden"] == 8
    assert record["settings"]["epochs"] == 3
    assert len(record["losses"]) == 3
    assert record["versions"]["torch"] == torch.__version__
    assert 0 < record["scores"]["accuracy_mean"] <= 100
    embeddings = np.load(folder / "run/embeddings.npy")
    assert np.array_equal(load(folder / "run/model.graphkin").embed(small).numpy(), embeddings)


def test_nodes_that_nothing_tells_apart_are_said(folder: Path, capsys: Capture) -> None:
    nodes = torch.arange(12)
    ring = torch.cat([torch.stack([nodes, nodes.roll(1)]), torch.stack([nodes.roll(1), nodes])], dim=1)
    np.savez("ring.npz", x=np.ones((12, 3), np.float32), edge_index=ring.numpy())
    for name, warning in (("small", None), ("ring", "all nodes have the same embedding: features and neighbours do not")):
        assert graphkin("fit", f"{name}.npz", "--epochs", 3, "--out", name, "--set", "hidden=8") == 0
        out, said = capsys.readouterr().out, json.loads((folder / name / "run.json").read_text())["warning"]
        assert said is None if warning is None else said.startswith(warning)
        assert ("\nwarning: all nodes" in out) is (warning is not None)


def test_json_is_one_object_on_standard_output(folder: Path, capsys: Capture) -> None:
    assert graphkin("fit", "small.npz", "--epochs", 2, "--json", "-s", "hidden=8") == 0
    captured = capsys.readouterr()
    record = json.loads(captured.out)
    assert record["out"] == "runs/small-graceplus-seed0"
    assert record["graph"]["nodes"] == 40
    assert graphkin("fit", "small.npz", "--epochs", 2, "--json", "-q", "-s", "hidden=8") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["out"] == "runs/small-graceplus-seed0-2"
    assert captured.err == ""


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
    assert set(record["baselines"]) == {"raw features", "propagated features", "untrained encoder"}
    assert graphkin("embed", "run/model.graphkin", "small.npz", "--out", "again.npy", "--overwrite", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"out": "again.npy", "nodes": 40, "dimensions": 8}


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
    assert "not scored: evaluation needs labels" in capsys.readouterr().out
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


@pytest.mark.parametrize("command", ["fit", "embed", "evaluate", "datasets"])
def test_help_teaches(command: str, capsys: Capture) -> None:
    assert graphkin(command, "--help") == 0
    text = capsys.readouterr().out
    assert "Usage: graphkin" in text
    if command != "datasets":
        assert f"graphkin {command} " in text.split("Example", 1)[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "gracce"], "unknown method 'gracce'. Did you mean 'grace'?"),
        (["--set", "pooling=summ"], "unknown pooling 'summ'. Did you mean 'sum'?"),
        (["--set", "bta=0.5"], "unknown setting for grace+ 'bta'. Did you mean 'beta'?"),
        (["--set", "tau_pos=0"], "tau_pos must be a number > 0, found 0."),
        (["--set", "tau=-0.5"], "tau must be a number > 0, found -0.5."),
        (["--set", "tau=nan"], "tau must be a number > 0, found nan."),
        (["--set", "tau=inf"], "tau must be a number > 0, found inf."),
        (["--set", "tau=" + "9" * 400], "tau must be a number > 0, found 999"),
        (["--set", "self=1"], "unknown setting for grace+ 'self'"),
        (["--set", "hidden=1000000000000"], "hidden must be a whole number >= 1 and <= 65536"),
        (["--set", "learning_rate=1e38"], "learning_rate must be a number > 0 and <= 1000000.0"),
        (["--set", "alpha=1"], "alpha must be a number > 0 and < 1, found 1."),
        (["--set", "beta=1.5"], "beta must be a number >= 0 and <= 1, found 1.5."),
        (["--set", "beta"], "--set takes NAME=VALUE"),
        (["--epochs", "0"], "epochs must be a whole number >= 1 and <= 10000000, found 0."),
        (["--epochs", "many"], "Invalid value for '--epochs'"),
        (["--seed", "-3"], "seed must be a whole number >= 0, found -3."),
        (["--device", "gpu"], "device must be auto, cpu, cuda or cuda:N, found 'gpu'."),
        (["--preset", "coraa"], "unknown preset for grace 'coraa'. Did you mean 'cora'?"),
        (["--splits", "0"], "splits must be a whole number >= 1 and <= 100000, found 0."),
        (["--metod", "grace"], "No such option: --metod"),
        (["--method", "graph-mlp", "--set", "tau_pos=1"], "unknown setting for graph-mlp 'tau_pos'"),
    ],
)
def test_mistakes_in_options(folder: Path, capsys: Capture, arguments: list[str], message: str) -> None:
    assert message in complaint(capsys, "fit", "small.npz", "--out", "run", *arguments)
    assert not (folder / "run" / "run.json").exists()


def test_mistakes_in_names(folder: Path, capsys: Capture) -> None:
    assert "no folder is called so) 'cora-bundl'. Did you mean 'cora-bundled'?" in complaint(capsys, "fit", "cora-bundl")
    assert "no graph file at missing.npz" in complaint(capsys, "fit", "missing.npz")
    assert "No such command 'fitt'" in complaint(capsys, "fitt")
    assert "no model file at nothing.graphkin" in complaint(capsys, "embed", "nothing.graphkin", "small.npz")
    assert "no embeddings at nothing.npy" in complaint(capsys, "evaluate", "nothing.npy", "small.npz")


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({"edge_index": [[0, 40], [1, 2]]}, [], "must hold node indices 0..39 (40 nodes), found 40"),
        ({"edge_index": [[0, -2], [1, 2]]}, [], "found the negative index -2"),
        ({"edge_index": [[0.5, 1], [1, 2]]}, [], "must hold whole numbers"),
        ({"x": np.full((40, 2), np.nan)}, [], "found 80 NaN or infinite values"),
        ({"x": np.full((40, 2), np.inf)}, [], "features must be finite"),
        ({"x": np.empty((0, 2)), "edge_index": np.empty((2, 0))}, [], "has no nodes"),
        ({"edge_index": np.empty((2, 0), dtype=int)}, [], "the graph has no edges"),
        ({"y": None}, ["--method", "graph-mlp"], "trained with labels, and the graph has none"),
        ({"y": np.full(40, -1)}, ["--method", "graph-mlp"], "every node in train_mask needs a label"),
        ({"x": np.ones((40, 2)) * -1}, ["--set", "feature_scale=rows"], "needs features >= 0"),
    ],
)
def test_mistakes_in_graphs(
    folder: Path, capsys: Capture, small: Graph, change: dict[str, Any], arguments: list[str], message: str
) -> None:
    save(folder / "bad.npz", small, **change)
    assert message in complaint(capsys, "fit", "bad.npz", *arguments)


def test_no_edges_are_allowed_with_features_alone(folder: Path, small: Graph) -> None:
    save(folder / "edgeless.npz", small, edge_index=np.empty((2, 0), dtype=int))
    assert graphkin("fit", "edgeless.npz", "--epochs", 2, "-q", "-s", "beta=1", "-s", "hidden=8") == 0


def test_mistakes_in_models_and_embeddings(folder: Path, capsys: Capture, small: Graph) -> None:
    assert graphkin("fit", "small.npz", "--epochs", 1, "--out", "run", "-q", "-s", "hidden=8") == 0
    capsys.readouterr()
    save(folder / "narrow.npz", small, x=np.ones((40, 3)))
    assert "must have the model's 16 features a node, found 3" in complaint(capsys, "embed", "run/model.graphkin", "narrow.npz")
    (folder / "cut.graphkin").write_bytes((folder / "run/model.graphkin").read_bytes()[:300])
    assert "is not a graphkin model, or is cut off" in complaint(capsys, "embed", "cut.graphkin", "small.npz")
    assert "is not a graphkin model" in complaint(capsys, "embed", "small.npz", "small.npz")
    assert "not a readable .npy file" in complaint(capsys, "evaluate", "run/run.json", "small.npz")
    np.save("objects.npy", np.array([{}]), allow_pickle=True)
    assert "not a readable .npy file" in complaint(capsys, "evaluate", "objects.npy", "small.npz")
    np.save("short.npy", np.ones((3, 2)))
    assert "one row for each of the 40 nodes, found shape (3, 2)" in complaint(capsys, "evaluate", "short.npy", "small.npz")
    shares = ("--train", 0.5, "--val", 0.6)
    assert "add up to 1, found train 0.5, val 0.6" in complaint(capsys, "evaluate", "run/embeddings.npy", "small.npz", *shares)


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
    assert "already holds a run" in complaint(capsys, "fit", "small.npz", "--seed", 1, *quick)
    assert (folder / "run/embeddings.npy").read_bytes() == before
    assert graphkin("fit", "small.npz", "--seed", 1, "--overwrite", *quick) == 0
    assert (folder / "run/embeddings.npy").read_bytes() != before
    capsys.readouterr()
    assert "exists already" in complaint(capsys, "embed", "run/model.graphkin", "small.npz", "--out", "run/embeddings.npy")
    assert "must be a file, found the folder" in complaint(capsys, "embed", "run/model.graphkin", "small.npz", "--out", "run")


def test_interrupted_run_is_kept(folder: Path) -> None:
    """The whole program: Ctrl-C, and the results of the epochs so far are there; status 130."""
    command = [sys.executable, "-m", "graphkin", "fit", "small.npz", "--epochs", "1000000", "--out", "run"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    deadline = time.monotonic() + 120
    while not (folder / "run").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.5)
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
    assert "stopped by Ctrl-C after 3 epochs" in out and "the same command goes on from here" in out
    run = folder / "runs/small-graceplus-seed0"
    checkpoint = (run / "checkpoint.graphkin").read_bytes()
    assert "cut off: add --checkpoint-every to go on" in complaint(capsys, *command[:-2], "--out", run)
    assert graphkin(*command[:-2]) == 0, "another run, in a folder of its own"
    assert (run / "checkpoint.graphkin").read_bytes() == checkpoint
    first = json.loads((run / "run.json").read_text())["seconds"]["train"]
    assert graphkin(*command) == 0
    assert (run / "embeddings.npy").read_bytes() == (folder / "unbroken/embeddings.npy").read_bytes()
    record = json.loads((run / "run.json").read_text())
    assert record["epochs"] == 6 and record["seconds"]["train"] > first, "of both parts"
    assert not (run / "checkpoint.graphkin").exists()
    assert sorted(path.name for path in (folder / "runs").iterdir()) == [run.name, f"{run.name}-2"]


def test_a_failure_of_ours_says_so(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("graphkin.commands.graphs.fit", broken)
    assert graphkin("fit", "small.npz") == 1
    assert "please report it" in capsys.readouterr().err


def test_values_of_settings() -> None:
    parsed = parse_settings(["a=1", "b=0.5", "c=none", "drop-edges=0.1,0.2", "e=word", "f=true", "g=1e-3"])
    assert parsed == {"a": 1, "b": 0.5, "c": None, "drop_edges": (0.1, 0.2), "e": "word", "f": True, "g": 1e-3}
    with pytest.raises(SettingError, match="NAME=VALUE"):
        parse_settings(["=3"])
