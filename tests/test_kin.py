"""The methods kin and diffusion: epochs by the size of a graph, training-free runs, files, and the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphkin import Graph, Optimiser, SparseMatrix, fit, load, method_named
from graphkin.commands.cli import run
from graphkin.commands.runs import write_run
from graphkin.errors import SettingError
from graphkin.methods import METHODS, from_json, key_form, presets, read_settings, to_json
from graphkin.methods.optimiser import EPOCHS_A_FEATURE, FEWEST_EPOCHS
from graphkin.methods.saved import write_settings
from graphkin.training import loop
from graphkin.training.plan import plan
from tests.wording import told

Capture = pytest.CaptureFixture[str]
QUICK: dict[str, Any] = {"hidden": 12, "branch_width": 6, "width": 16, "axes": 8, "early": 2, "projector": 8}
SET = [part for name, value in QUICK.items() for part in ("--set", f"{name}={value}")]
NAMES = ("kin", "diffusion")


# epochs by the number of nodes that share a feature


@given(st.floats(0.01, 1000), st.integers(2, 10**6), st.integers(1, 10**5), st.integers(1, 5000))
def test_epochs_follow_the_rule(ratio: float, nodes: int, features: int, most: int) -> None:
    found = Optimiser(epochs=most, epochs_by_ratio=ratio).epochs_on(nodes, features)
    assert 1 <= found <= most and found >= min(FEWEST_EPOCHS, most)
    if FEWEST_EPOCHS < found < most:
        assert abs(found - min(ratio * nodes / features, EPOCHS_A_FEATURE * features)) <= 0.5
    assert found <= Optimiser(epochs=most, epochs_by_ratio=ratio).epochs_on(nodes + 1, features)
    assert Optimiser(epochs=most).epochs_on(nodes, features) == most


@pytest.mark.parametrize(
    ("nodes", "features", "epochs"), [(40, 16, 125), (20, 16, 100), (2708, 1433, 100), (10**6, 100, 600), (10**6, 7, 100)]
)
def test_epochs_on_graphs(nodes: int, features: int, epochs: int) -> None:
    assert Optimiser(epochs=600, epochs_by_ratio=50).epochs_on(nodes, features) == epochs


def test_a_number_of_epochs_is_meant_as_it_is(small: Graph) -> None:
    def epochs(**settings: Any) -> tuple[int, Any]:
        optimiser = plan(small, "kin", device="cpu", **settings).method.optimiser
        return optimiser.epochs, optimiser.epochs_by_ratio

    by_rule = method_named("kin").optimiser.epochs_on(40, 16)
    assert epochs() == (by_rule, None), "what is recorded is what was trained"
    assert epochs(epochs=7) == (7, None)
    assert epochs(epochs=700, epochs_by_ratio=60) == (150, None)
    assert epochs(epochs=700, epochs_by_ratio=80) == (160, None), "ten for each feature"
    assert epochs(epochs_by_ratio="none") == (method_named("kin").optimiser.epochs, None)
    asked = method_named("kin").configure(tau=0.3)
    assert asked.optimiser.epochs_by_ratio == method_named("kin").optimiser.epochs_by_ratio is not None
    for bad in (0, -1, "many", True):
        with pytest.raises(SettingError, match="epochs_by_ratio must be"):
            asked.configure(epochs_by_ratio=bad)


def test_a_run_has_the_epochs_of_its_graph(small: Graph, tmp_path: Path) -> None:
    method = method_named("kin").configure(**QUICK)
    fitted = fit(small, replace(method, optimiser=Optimiser(epochs=110, epochs_by_ratio=2)), device="cpu", branches="hop1")
    assert len(fitted.losses) == FEWEST_EPOCHS == fitted.method.optimiser.epochs
    assert write_run(tmp_path, fitted, small)["settings"]["epochs"] == FEWEST_EPOCHS


# as data


@pytest.mark.parametrize("name", NAMES)
def test_they_are_values_in_files(name: str, tmp_path: Path) -> None:
    for method in (METHODS[name], method_named(name), method_named(name).configure(free="hop2", axes=7)):
        assert from_json(json.loads(json.dumps(to_json(method)))) == method
        assert key_form(method) == to_json(method), "no earlier version knew it"
        write_settings(tmp_path / "settings.toml", method, ["from a test"])
        assert read_settings(tmp_path / "settings.toml").settings() == method.settings()
    assert to_json(METHODS[name])["encoder"]["type"] == "Branches" and f"{name}+" not in METHODS
    assert "default" in presets(name)


def test_epochs_by_ratio_is_told_only_where_it_is_set() -> None:
    assert "epochs_by_ratio" not in to_json(Optimiser()) and "epochs_by_ratio" not in to_json(METHODS["grace"])["optimiser"]
    assert to_json(method_named("kin"))["optimiser"]["epochs_by_ratio"] > 0


# without training


def graphs(small: Graph) -> dict[str, Graph]:
    assert isinstance(small.x, Tensor)
    return {
        "small": small,
        "no edges": replace(small, edge_index=torch.empty(2, 0, dtype=torch.int64)),
        "two nodes": Graph.from_arrays([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]], [[0], [1]]),
        "sparse": replace(small, x=SparseMatrix.from_dense(small.x * (small.x > 0.7))),
        "one feature": Graph.from_arrays(torch.rand(9, 1), [[0, 1], [1, 2]]),
        "negative": replace(small, x=small.x - 0.5),
    }


@pytest.mark.parametrize("kind", ["small", "no edges", "two nodes", "sparse", "one feature", "negative"])
def test_nothing_is_trained(small: Graph, kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loop._Run, "step", None)
    graph = graphs(small)[kind]
    one, other = (fit(graph, "diffusion", device="cpu", seed=seed, axes=8, width=16) for seed in (0, 1))
    assert one.losses == () and not one.interrupted and one.seconds["train"] == 0
    found = one.embed(graph)
    assert torch.isfinite(found).all() and torch.equal(found, other.embed(graph)), "and no seed plays a part"
    one.save(tmp_path / "model")
    assert torch.equal(load(tmp_path / "model").embed(graph), found)
    record = json.loads(json.dumps(write_run(tmp_path, one, graph)))
    assert record["losses"] == [] and record["epochs"] == 0


def test_a_checkpoint_of_no_training_is_none(small: Graph, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    found = [fit(small, "diffusion", device="cpu", checkpoint=path, axes=8, width=16).embed(small) for _ in range(2)]
    assert torch.equal(*found) and not path.exists()


# on the command line


@pytest.fixture
def file(small: Graph, folder: Path) -> Path:
    np.savez(folder / "small.npz", x=np.asarray(small.x), edge_index=np.asarray(small.edge_index), y=np.asarray(small.y))
    return folder / "small.npz"


def graphkin(*arguments: object) -> int:
    return run([str(argument) for argument in arguments])


def test_fit_and_report_without_training(file: Path, folder: Path, capsys: Capture) -> None:
    run_folder = folder / "run"
    given = ("fit", file, "-m", "diffusion", "-s", "axes=8", "-s", "width=16", "--out", run_folder, "--splits", 1)
    assert graphkin(*given, "--json", "-q", "--checkpoint-every", 1) == 0
    told = json.loads(capsys.readouterr().out)
    record = json.loads((run_folder / "run.json").read_text())
    assert record["losses"] == told["losses"] == [] and record["epochs"] == 0 and record["method"] == "diffusion"
    assert record["settings"]["branches"] == [] and record["scores"] == told["scores"] and "accuracy_mean" in record["scores"]
    assert np.load(run_folder / "embeddings.npy").shape == (40, 16)
    assert {path.name for path in run_folder.iterdir()} == {"run.json", "embeddings.npy", "model.graphkin"}
    assert graphkin("report", run_folder, file) == 0
    assert "diffusion" in (run_folder / "report.html").read_text()
    assert graphkin("embed", run_folder / "model.graphkin", file, "--out", "again.npy") == 0
    assert np.array_equal(np.load("again.npy"), np.load(run_folder / "embeddings.npy"))
    capsys.readouterr()
    assert graphkin(*given, "--overwrite", "--no-baselines") == 0
    captured = capsys.readouterr()
    assert "diffusion: nothing to train" in captured.out and "epoch" not in captured.err


ACCEPTED: list[tuple[list[str], dict[str, tuple[str, ...]]]] = [
    (["branches=x"], {"branches": ("x",)}),
    (["branches=x,ppr0.1"], {"branches": ("x", "ppr0.1")}),
    (["branches=hop1+hop2", "free=ppr0.2"], {"branches": ("hop1+hop2",), "free": ("ppr0.2",)}),
    (["free=none", "branches=hop1"], {"free": ()}),
    (["free=x*0.5,hop3*2", "branches=hop1"], {"free": ("x*0.5", "hop3*2")}),
]


@pytest.mark.parametrize(("pairs", "expected"), ACCEPTED)
def test_names_on_the_command_line(file: Path, pairs: list[str], expected: dict[str, Any], capsys: Capture) -> None:
    chosen = [part for pair in pairs for part in ("-s", pair)]
    given = ("fit", file, "-m", "kin", *SET, *chosen, "--epochs", 2, "--splits", 1, "--no-baselines", "-q", "--json")
    assert graphkin(*given) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert {name: tuple(settings[name]) for name in expected} == expected and settings["epochs"] == 2


REFUSED = {
    "branches=foo": "'foo'",
    "branches=x,5": "branches must be names of smoothed features",
    "branches=none": "Kinship must have something to train",
    "free=x*0": "weight of x must be a number above 0, found '0'",
    "free=x*": "weight of x",
    "free=ppr0.0001": "found 'ppr0.0001'",
    "dropout=1": "dropout must be a number >= 0 and < 1, found 1",
    "early=-1": "early must be a whole number >= 0, found -1",
    "width=1": "width must be a whole number >= 2 and <= 65536, found 1",
    "epochs_by_ratio=0": "epochs_by_ratio must be a number > 0",
    "early_stop=1": "unknown setting for kin 'early_stop'. Did you mean 'early'?",
}


@pytest.mark.parametrize("pair", REFUSED)
def test_a_mistake_is_one_line(file: Path, pair: str, capsys: Capture) -> None:
    assert graphkin("fit", file, "-m", "kin", "--set", pair) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("graphkin: ") and REFUSED[pair] in line and captured.out == ""


@pytest.mark.parametrize("method", NAMES)
def test_too_little_memory_is_one_line(file: Path, method: str, capsys: Capture) -> None:
    assert graphkin("fit", file, "-m", method, "--memory", "1MiB") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told(line, "memory must be at least about", f"for {method} on small", "found 0.00 GiB")


def test_a_network_too_large_for_the_machine_is_one_line(file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphkin.support.files.psutil.virtual_memory", lambda: type("Memory", (), {"total": 2**24}))
    assert graphkin("fit", file, "-m", "kin", "--set", "hidden=4096") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "training kin with 16 features and hidden=4,096 would take" in line
