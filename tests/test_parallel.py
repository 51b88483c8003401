"""Several processes train one model: with the numbers of one, and with words when one of them is lost."""

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
import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from graphkin import Graph, fit
from graphkin.errors import GraphError, SettingError
from graphkin.support import parallel
from graphkin.support.parallel import Peers, launched
from graphkin.support.randomness import chances, random_key
from graphkin.training.fit import device_named
from tests.parallel_steps import STEPS, steps

ROOT = Path(__file__).parents[1]


def torchrun(processes: int, *arguments: object) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    return [*launcher, "-m", *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


def run(processes: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = torchrun(processes, *arguments)
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def alone() -> dict[str, torch.Tensor]:
    return steps()


@pytest.mark.parametrize("processes", [2, 3])
def test_loss_and_gradient_are_those_of_one_process(processes: int, alone: dict[str, torch.Tensor], tmp_path: Path) -> None:
    done = run(processes, "tests.parallel_steps", tmp_path / "steps")
    assert done.returncode == 0, done.stderr
    assert_same_steps(load_file(tmp_path / "steps"), alone)


def assert_same_steps(together: dict[str, torch.Tensor], alone: dict[str, torch.Tensor], within: float = 1e-5) -> None:
    assert together.keys() == alone.keys()
    for name in STEPS:
        assert together[f"{name}.loss"].item() == pytest.approx(alone[f"{name}.loss"].item(), rel=within), name
        keys = [key for key in alone if key.startswith(f"{name}.") and not key.endswith(".loss")]
        several, one = (torch.cat([found[key].flatten() for key in keys]) for found in (together, alone))
        assert (several - one).norm() <= within * one.norm(), name


def test_processes_agree(tmp_path: Path) -> None:
    done = run(3, "tests.parallel_agreement", tmp_path)
    assert done.returncode == 0, done.stderr
    said = [(tmp_path / f"{rank}").read_text(encoding="utf-8").splitlines() for rank in range(3)]
    assert said[0] == ["from the first: 0", "elsewhere", "elsewhere", "any: True", "joined once"]
    assert said[1] == ["from the first: 0", "told: rank 1 differs", "told: rank 1", "any: True", "joined once"]
    assert said[2] == ["from the first: 0", "elsewhere", "elsewhere", "any: True", "joined once"]
    order = (tmp_path / "order").read_text(encoding="utf-8")
    assert order[0] == "0" and sorted(order) == ["0", "1", "2"], "the first of a machine opens, then the others"


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


def test_fit_by_several_processes_is_fit(tmp_path: Path) -> None:
    how = ["fit", "synthetic-300", "--epochs", 5, "--json", "--no-baselines"]
    done = run(2, "graphkin", *how, "--out", tmp_path / "several", "--memory", "2GiB")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["epochs"] == 5
    command = [sys.executable, "-m", "graphkin", *map(str, how), "--out", str(tmp_path / "one")]
    one = json.loads(subprocess.run(command, env=environment(), capture_output=True, check=True).stdout)
    np.testing.assert_allclose(record["losses"], one["losses"], rtol=1e-5)
    several, alone = (np.load(tmp_path / folder / "embeddings.npy") for folder in ("several", "one"))
    np.testing.assert_allclose(several, alone, atol=1e-3 * np.abs(alone).max())  # Adam divides by small gradients
    assert done.stderr.count("plan: ") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "several"]


def test_a_lost_process_ends_the_run_in_words_and_the_checkpoint_stays(tmp_path: Path) -> None:
    folder, epochs = tmp_path / "run", 40
    how = ["fit", "synthetic-300", "--checkpoint-every", "5", "--no-baselines", "--json", "--out", str(folder)]
    slow = [*how, "--epochs", "100000"]
    running = subprocess.Popen(torchrun(2, "graphkin", *slow), env=environment(), stderr=subprocess.PIPE, text=True)
    _wait_for(folder / "checkpoint.graphkin", running)
    (second,) = [child for child in psutil.Process(running.pid).children() if child.environ()["RANK"] == "1"]
    second.kill()
    _, said = running.communicate(timeout=120)
    assert running.returncode != 0
    words = [line for line in said.splitlines() if line.startswith("graphkin: ")]
    assert words
    assert all("process" in line and "the same command goes on from the last checkpoint" in line for line in words)
    assert "graphkin/loop.py" not in said, "the traceback is torchrun's own"
    reached = _epoch(folder / "checkpoint.graphkin")
    assert reached >= 5

    command = [sys.executable, "-m", "graphkin", *slow]
    command[command.index("100000")] = str(epochs)
    other = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert other.returncode == 2 and "another epochs" in other.stderr
    assert _epoch(folder / "checkpoint.graphkin") == reached, "a run that cannot go on from it leaves it alone"

    again = subprocess.Popen(torchrun(3, "graphkin", *slow), env=environment(), stderr=subprocess.PIPE, text=True)
    _wait_for(folder / "checkpoint.graphkin", again, later_than=reached)
    again.terminate()
    again.communicate(timeout=120)


def test_ctrl_c_in_one_process_ends_all_and_keeps_what_was_learned(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    how = ["fit", "synthetic-300", "--checkpoint-every", "5", "--epochs", "100000", "--json", "--out", str(folder)]
    running = subprocess.Popen(
        torchrun(2, "graphkin", *how), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    _wait_for(folder / "checkpoint.graphkin", running)
    (second,) = [child for child in psutil.Process(running.pid).children() if child.environ()["RANK"] == "1"]
    second.send_signal(signal.SIGINT)
    printed, said = running.communicate(timeout=120)
    record = json.loads(printed)
    assert record["interrupted"] and 5 <= record["epochs"] < 100_000, said
    assert (folder / "embeddings.npy").exists() and (folder / "checkpoint.graphkin").exists()


def _wait_for(checkpoint: Path, running: subprocess.Popen[str], later_than: int = 0) -> None:
    end = time.monotonic() + 240
    while not checkpoint.exists() or _epoch(checkpoint) <= later_than:
        assert running.poll() is None, running.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.1)


def _epoch(path: Path) -> int:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return int(file.metadata()["epoch"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit", "nowhere.csv"], "nowhere.csv"),
        (["fit", "--memory", "1MB"], "memory must be at least"),
        (["fit", "--method", "graph-mlp", "cora-bundled"], "graph-mlp is trained by one"),
        (["datasets"], "torchrun goes with fit"),
    ],
)
def test_a_mistake_is_told(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = run(2, "graphkin", *arguments, *(["--out", tmp_path / "run"] if arguments[0] == "fit" else []))
    told = [line for line in done.stderr.splitlines() if line.startswith("graphkin: ")]
    assert done.returncode != 0
    assert told and all(words in line for line in told)
    assert len(told) == 1 or arguments[0] != "fit"
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_current", Peers(0, 2, 0, 2))


@pytest.mark.usefixtures("two")
def test_what_several_processes_cannot_do(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="is trained by one"):
        fit(small, "graph-mlp")
    monkeypatch.setattr(parallel, "_current", Peers(0, 41, 0, 2))
    with pytest.raises(GraphError, match="as many nodes as processes, found 40 and 41"):
        fit(small)


@pytest.mark.usefixtures("two")
def test_every_process_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(parallel, "_current", Peers(3, 4, 1, 2))
    assert device_named("auto") == device_named("cuda") == torch.device("cuda", 1)
    assert device_named("cpu") == torch.device("cpu")
    with pytest.raises(SettingError, match="a GPU each"):
        device_named("cuda:0")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(SettingError, match="2 processes were started on this machine, and PyTorch sees 1 GPUs"):
        device_named("auto")


def test_who_is_launched_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"RANK": 3, "WORLD_SIZE": 8, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2}
    assert launched().size == 1
    for name, value in given.items():
        monkeypatch.setenv(name, str(value))
    assert launched().size == 1, "without an address nobody can be met"
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert launched() == Peers(3, 8, 1, 2)
    monkeypatch.setenv("RANK", "three")
    with pytest.raises(SettingError, match="RANK must be a whole number, found 'three'"):
        launched()


def test_memory_is_shared_by_the_processes_of_a_machine(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphkin.methods.presets import method_named
    from graphkin.training.plans import plan_for

    whole = plan_for(small, method_named("grace+"), torch.device("cpu")).memory
    monkeypatch.setattr(parallel, "_current", Peers(0, 8, 0, 4))
    assert plan_for(small, method_named("grace+"), torch.device("cpu")).memory == whole // 4
