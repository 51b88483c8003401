from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import graphkin
from graphkin import Graph, fit
from graphkin.commands.cli import run
from graphkin.errors import OutputError, SettingError
from graphkin.support.files import read_tensors
from graphkin.training.checkpoints import Checkpoint
from tests.wording import refused

METHODS: list[tuple[str, dict[str, Any]]] = [
    ("grace", {}),
    ("grace+", {"anchors": 8, "negatives_sampled": 9}),
    ("gca+", {"activation": "rrelu"}),
    ("graph-mlp+", {"batch": 20}),
    ("grace+", {"candidates": 12, "anchors": 8, "top_k": 5}),
    ("dgi", {}),
    ("mvgrl", {}),
    ("cca-ssg", {}),
    ("sgrl", {"predictor": 8}),
    ("signa+", {"width": 8, "candidates": 12, "anchors": 8}),
    ("signa", {"width": 8}),
    ("ma-gcl", {"activation": "rrelu"}),
]


class KilledError(Exception): ...


def killed_after(epochs: int) -> Any:
    def report(epoch: int, loss: float) -> None:
        if epoch == epochs:
            raise KilledError

    return report


@pytest.mark.parametrize(("method", "settings"), METHODS)
@pytest.mark.parametrize("stops", [(4,), (2, 5, 9)])
def test_a_killed_run_ends_as_an_unbroken_one(
    small: Graph, method: str, settings: dict[str, Any], stops: tuple[int, ...], tmp_path: Path
) -> None:
    settings = {**settings, "epochs": 10, "hidden": 8}
    unbroken = graphkin.fit(small, method, seed=3, **settings)
    keep: dict[str, Any] = {"checkpoint": tmp_path / "run", "checkpoint_every": 3}
    for stop in stops:
        with pytest.raises(KilledError):
            graphkin.fit(small, method, seed=3, progress=killed_after(stop), **keep, **settings)
    resumed = graphkin.fit(small, method, seed=3, **keep, **settings)
    assert resumed.losses == unbroken.losses
    assert torch.equal(resumed.embed(small), unbroken.embed(small))
    finished = graphkin.fit(small, method, seed=3, progress=killed_after(1), **keep, **settings)
    assert torch.equal(finished.embed(small), unbroken.embed(small)), "a finished checkpoint trains no epoch"


def test_a_checkpoint_of_another_run_is_refused_and_kept(small: Graph, tmp_path: Path) -> None:
    path = tmp_path / "run"
    keep: dict[str, Any] = {"checkpoint": path, "checkpoint_every": 1, "epochs": 2, "hidden": 8}
    graphkin.fit(small, "grace", seed=0, **keep)
    before = path.read_bytes()
    with refused(OutputError, path, "another", "seed", "remove"):
        graphkin.fit(small, "grace", seed=1, **keep)
    with refused(OutputError, path, "another", "epochs", "tau"):
        graphkin.fit(small, "grace", seed=0, **{**keep, "epochs": 3, "tau": 0.9})
    other = Graph.from_arrays(small.x, small.edge_index[:, :40])
    with refused(OutputError, path, "another", "graph"):
        graphkin.fit(other, "grace", seed=0, **keep)
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", [b"", b"not a checkpoint", None])
def test_a_damaged_checkpoint_is_named(small: Graph, damage: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "run"
    keep: dict[str, Any] = {"checkpoint": path, "checkpoint_every": 1, "epochs": 2, "hidden": 8}
    graphkin.fit(small, "grace", **keep)
    path.write_bytes(path.read_bytes()[:-50] if damage is None else damage)
    with refused(OutputError, path, "damaged", "remove"):
        graphkin.fit(small, "grace", **keep)


@pytest.mark.parametrize("part", ["losses", "adam.0.exp_avg", "random.views", "modules.projector.inner.weight", None])
def test_a_checkpoint_with_other_tensors_is_named(small: Graph, part: str | None, tmp_path: Path) -> None:
    path = tmp_path / "run"
    keep: dict[str, Any] = {"checkpoint": path, "checkpoint_every": 1, "epochs": 2, "hidden": 8}
    graphkin.fit(small, "grace", **keep)
    metadata, tensors = read_tensors(path)
    if part is None:
        metadata["epoch"] = "99"
    else:
        tensors[part] = torch.zeros(1, 7, 3)
    save_file(tensors, path, metadata)
    with refused(OutputError, path, "damaged", "remove"):
        graphkin.fit(small, "grace", **keep)


def test_a_checkpoint_whose_values_changed_is_refused_and_kept(small: Graph, tmp_path: Path) -> None:
    """A finite value that no training leads to would be trained on, and the checkpoint replaced."""
    path = tmp_path / "run"
    keep: dict[str, Any] = {"checkpoint": path, "checkpoint_every": 1, "epochs": 2, "hidden": 8}
    graphkin.fit(small, "grace", **keep)
    metadata, tensors = read_tensors(path)
    tensors["modules.projector.inner.weight"][0, 0] += 1
    save_file(tensors, path, metadata)
    before = path.read_bytes()
    with refused(OutputError, path, "damaged", "remove"):
        graphkin.fit(small, "grace", **keep)
    assert path.read_bytes() == before


def test_a_checkpoint_of_0_2_0_has_no_digest_and_is_read(small: Graph, tmp_path: Path) -> None:
    path = tmp_path / "run"
    keep: dict[str, Any] = {"checkpoint": path, "checkpoint_every": 1, "epochs": 2, "hidden": 8}
    first = graphkin.fit(small, "grace", **keep)
    metadata, tensors = read_tensors(path)
    del metadata["digest"]
    save_file(tensors, path, metadata)
    assert graphkin.fit(small, "grace", **keep).losses == first.losses


def test_how_often_is_a_whole_number() -> None:
    with refused(SettingError, "checkpoint_every", 1, 0):
        Checkpoint(Path("x"), 0, {})


def test_pageranks_are_kept_beside_the_checkpoint(small: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before training, the next start does not compute them again; of another graph, they are refused."""
    settings: dict[str, Any] = {"epochs": 3, "hidden": 8, "top_k": 5, "steps": None, "device": "cpu"}
    wanted = fit(small, "grace+", **settings).embed(small)
    with monkeypatch.context() as patched:
        patched.setattr("graphkin.training.prepared.train", _killed)
        with pytest.raises(SystemExit):
            fit(small, "grace+", checkpoint=tmp_path / "run.checkpoint", **settings)
    assert [path.name for path in tmp_path.iterdir()] == ["run.checkpoint.pagerank"]
    monkeypatch.setattr("graphkin.similarity.pagerank.push", None)
    resumed = fit(small, "grace+", checkpoint=tmp_path / "run.checkpoint", **settings)
    assert torch.equal(resumed.embed(small), wanted)
    forth = small.edge_index[:, small.edge_index[0] < small.edge_index[1]]
    fewer = Graph.from_arrays(small.x, forth[:, :-1])
    with refused(OutputError, "pagerank-0.npz", "another", "remove"):
        fit(fewer, "grace+", checkpoint=tmp_path / "run.checkpoint", **settings)


def _killed(*given: object, **named: object) -> None:
    raise SystemExit


@pytest.mark.slow
def test_the_same_command_goes_on_from_kept_pageranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["fit", "synthetic-200", "--set", "top_k=4", "--set", "steps=none", "--epochs", "2", "--checkpoint-every", "1"]
    with monkeypatch.context() as patched:
        patched.setattr("graphkin.training.prepared.train", _killed)
        with pytest.raises(SystemExit):
            run(command)
    (folder,) = (tmp_path / "runs").iterdir()
    assert run([*command[:-2], "--no-baselines"]) == 0, "without --checkpoint-every in a folder of its own"
    with monkeypatch.context() as patched:
        patched.setattr("graphkin.similarity.pagerank.push", None)
        assert run([*command, "--no-baselines"]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["embeddings.npy", "model.graphkin", "run.json"]
