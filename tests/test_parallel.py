"""Several processes train one model: with the numbers of one, and with words when one of them is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file

from graphkin import Graph, fit
from graphkin.commands.cli import run
from graphkin.errors import GraphError, SettingError
from graphkin.execution import decide
from graphkin.graphs.synthetic import community_graph
from graphkin.methods import Method, method_named
from graphkin.support import parallel
from graphkin.support.launch import launched
from graphkin.support.parallel import Peers
from graphkin.support.randomness import chances, random_key
from graphkin.training.device import device_named
from tests.killed_at import STEP, AtCall, ended, meetings, started, together, words
from tests.kills import new_folder
from tests.parallel_agreement import agree
from tests.parallel_steps import STEPS, steps, trained, write_steps, write_trained
from tests.wording import refused

ROOT = Path(__file__).parents[1]


def torchrun(processes: int, module: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [*launcher, "-m", module, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def called(processes: int, function: Callable[..., Any], *given: Any) -> list[int | None]:
    """The exit statuses of processes that call a function together."""
    return [ended(process) for process in [started(function, *given, **place) for place in meetings(processes)]]


@pytest.fixture(scope="module")
def alone() -> dict[str, torch.Tensor]:
    return steps()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_loss_and_gradient_are_those_of_one_process(processes: int, alone: dict[str, torch.Tensor], tmp_path: Path) -> None:
    assert called(processes, write_steps, tmp_path / "steps") == [0] * processes
    assert_same_steps(load_file(tmp_path / "steps"), alone)


def assert_same_steps(together: dict[str, torch.Tensor], alone: dict[str, torch.Tensor], within: float = 1e-5) -> None:
    assert together.keys() == alone.keys()
    for name in STEPS:
        assert together[f"{name}.loss"].item() == pytest.approx(alone[f"{name}.loss"].item(), rel=within), name
        keys = [key for key in alone if key.startswith(f"{name}.") and not key.endswith(".loss")]
        several, one = (torch.cat([found[key].flatten() for key in keys]) for found in (together, alone))
        assert (several - one).norm() <= within * one.norm(), name


@pytest.fixture(scope="module")
def trained_alone() -> dict[str, torch.Tensor]:
    return trained()


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_kin_is_trained_and_embeds_as_in_one_process(
    processes: int, trained_alone: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    assert called(processes, write_trained, tmp_path / "trained") == [0] * processes
    together = load_file(tmp_path / "trained")
    assert together.keys() == trained_alone.keys()
    for name, alone in trained_alone.items():
        assert (together[name] - alone).norm() <= 1e-5 * alone.norm(), name


@pytest.mark.slow
def test_processes_agree(tmp_path: Path) -> None:
    assert called(3, agree, tmp_path) == [0, 0, 0]
    said = [(tmp_path / f"{rank}").read_text(encoding="utf-8").splitlines() for rank in range(3)]
    assert said[0] == ["from the first: 0", "elsewhere", "elsewhere", "any: True", "joined once"]
    assert said[1] == ["from the first: 0", "told: rank 1 differs", "told: rank 1", "any: True", "joined once"]
    assert said[2] == ["from the first: 0", "elsewhere", "elsewhere", "any: True", "joined once"]
    order = (tmp_path / "order").read_text(encoding="utf-8")
    assert order[0] == "0" and sorted(order) == ["0", "1", "2"], "the first of a machine opens, then the others"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads have names on Linux")
def test_no_thread_of_gloo_is_left(tmp_path: Path) -> None:
    """One that still lets go of a tensor while the interpreter ends would abort the process."""
    done = torchrun(2, "tests.parallel_agreement", tmp_path)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        assert "gloo" not in (tmp_path / f"{rank}").read_text(encoding="utf-8")


@given(total=st.integers(0, 50), size=st.integers(1, 9))
def test_shares_are_all_rows_once_and_nearly_alike(total: int, size: int) -> None:
    rows = torch.arange(total)
    shares = [Peers(rank, size).share(rows) for rank in range(size)]
    assert torch.cat(shares).equal(rows)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_chance_depends_on_its_pair_alone() -> None:
    key = random_key(torch.Generator().manual_seed(0))
    rows, columns = torch.arange(1000)[:, None], torch.arange(64)
    found = chances(key, rows, columns)
    assert chances(key, rows[500:503], columns).equal(found[500:503])
    assert not chances(random_key(torch.Generator().manual_seed(1)), rows, columns).equal(found)
    assert found.min() >= 0 and found.max() < 1
    assert found.unique().numel() == found.numel()
    counts = torch.histc(found, 20, 0, 1)
    assert (counts - 3200).abs().max() < 5 * 3200**0.5
    for one, other in ((found[1:], found[:-1]), (found[:, 1:], found[:, :-1])):
        correlation = torch.corrcoef(torch.stack([one.flatten(), other.flatten()]))[0, 1]
        assert abs(correlation) < 5 / found.numel() ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("method", [["--method", "grace+"], [], ["--set", "anchors=100"]])
def test_fit_by_torchrun_is_fit(method: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    how = ["fit", "synthetic-300", *method, "--epochs", "5", "--json", "--no-baselines"]
    done = torchrun(2, "graphkin", *how, "--out", tmp_path / "several", "--memory", "2GiB")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["epochs"] == 5
    assert run([*how, "--out", str(tmp_path / "one")]) == 0
    one = json.loads(capsys.readouterr().out)
    np.testing.assert_allclose(record["losses"], one["losses"], rtol=1e-5)
    rows = [np.load(tmp_path / folder / "embeddings.npy") for folder in ("several", "one")]
    several, alone = (some @ some.T for some in rows)  # whatever the signs of axes
    np.testing.assert_allclose(several, alone, atol=1e-3 * np.abs(alone).max())  # Adam divides by small gradients
    assert done.stderr.count("plan: ") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "several"]


FIT = ["fit", "synthetic-300", "--checkpoint-every", "5", "--no-baselines", "--out", "run", "--set", "hidden=16"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["grace+", "kin"])
def test_a_lost_process_ends_the_run_in_words_and_the_checkpoint_stays(
    method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint = tmp_path / "run" / "checkpoint.graphkin"
    epochs = ["--epochs", "9", "--method", method]
    done = torchrun(2, "tests.last_is_killed", 8, *FIT, *epochs)
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if line.startswith("graphkin: ")]
    assert told
    assert all("process" in line and "checkpoint" in line for line in told)
    assert "graphkin/training" not in done.stderr, "the traceback is torchrun's own"
    assert _epoch(checkpoint) == 5
    assert run([*FIT, "--method", method, "--epochs", "40"]) == 2
    assert "epochs" in capsys.readouterr().err
    assert _epoch(checkpoint) == 5, "a run that cannot go on from it leaves it alone"
    assert together([*FIT, *epochs], tmp_path, None, None, None) == [0, 0, 0], words(tmp_path)
    assert json.loads(Path("run/run.json").read_text(encoding="utf-8"))["epochs"] == 9
    assert not checkpoint.exists()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["grace+", "kin"])
def test_ctrl_c_in_one_process_ends_all_and_keeps_what_was_learned(method: str, tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "work")
    how = [*FIT, "--method", method, "--epochs", "100000"]
    statuses = together(how, folder, None, AtCall(STEP, 7, signal.SIGINT))
    assert statuses == [128 + signal.SIGINT, 0], words(folder)
    record = json.loads((folder / "run" / "run.json").read_text(encoding="utf-8"))
    assert record["interrupted"] and record["epochs"] == 7
    assert (folder / "run" / "embeddings.npy").exists()
    assert _epoch(folder / "run" / "checkpoint.graphkin") == 7


def _epoch(path: Path) -> int:
    with safe_open(path, framework="pt") as file:
        return int(file.metadata()["epoch"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["fit", "nowhere.csv"], ["nowhere.csv"]),
        (["fit", "synthetic-60", "--method", "grace+", "--memory", "1MB"], ["memory", "GiB"]),
        (["fit", "synthetic-60", "--method", "graph-mlp"], ["graph-mlp", "processes"]),
        (["datasets"], ["torchrun", "fit"]),
    ],
)
def test_a_mistake_is_told(arguments: list[str], facts: list[str], tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "work")
    assert together([*arguments, *(["--out", "run"] if arguments[0] == "fit" else [])], folder, None, None) == [2, 2]
    said = [line for rank in (0, 1) for line in words(folder, rank).splitlines()]
    told = [line for line in said if line.startswith("graphkin: ")]
    assert told and all(fact in line for line in told for fact in facts), told
    assert len(told) == 1 or arguments[0] != "fit"
    assert not (folder / "run" / "run.json").exists()


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_current", Peers(0, 2, 0, 2))


@pytest.mark.usefixtures("two")
def test_what_several_processes_cannot_do(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    with refused(SettingError, "graph-mlp", "processes"):
        fit(small, "graph-mlp")
    monkeypatch.setattr(parallel, "_current", Peers(0, 41, 0, 2))
    with refused(GraphError, "nodes", 40, 41):
        fit(small, "grace")


@pytest.mark.usefixtures("two")
def test_every_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(parallel, "_current", Peers(3, 4, 1, 2))
    assert device_named("auto") == device_named("cuda") == torch.device("cuda", 1)
    assert device_named("cpu") == torch.device("cpu")
    with refused(SettingError, "device", "cuda:0"):
        device_named("cuda:0")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with refused(SettingError, "2 processes", "1 GPU"):
        device_named("auto")


def test_who_is_launched_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"RANK": 3, "WORLD_SIZE": 8, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2}
    assert launched().size == 1
    for name, value in given.items():
        monkeypatch.setenv(name, str(value))
    assert launched().size == 1, "without an address nobody can be met"
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "29500")
    found = launched()
    assert (found.rank, found.size, found.local_rank, found.local_size) == (3, 8, 1, 2)
    monkeypatch.setenv("RANK", "three")
    with refused(SettingError, "RANK", "three"):
        launched()


def test_memory_is_shared_by_the_processes_of_a_machine(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = decide(small, method_named("grace+"), torch.device("cpu")).memory
    monkeypatch.setattr(parallel, "_current", Peers(0, 8, 0, 4))
    assert decide(small, method_named("grace+"), torch.device("cpu")).memory == whole // 4


def test_more_processes_hold_fewer_smoothed_features_each(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, kin = community_graph(3000), method_named("kin")
    smoothed = 5 * 4 * 3000 * 256

    def needs(method: Method) -> int:
        return int(next(method.objective.ways(graph, method, torch.device("cpu"))).needs)

    alone = {norm: needs(kin.configure(norm=norm)) for norm in ("layer", "batch")}
    monkeypatch.setattr(parallel, "_current", Peers(0, 4, 0, 4))
    assert needs(kin) < alone["layer"] - 0.7 * smoothed
    assert needs(kin.configure(norm="batch")) == alone["batch"], "whose statistics are those of all rows"
