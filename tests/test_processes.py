"""Streams, signals, threads and processes that are not there."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import graphkin
from graphkin import Graph
from graphkin.support.adam import Adam
from tests.promised import QUICK, Capture, arrays, complaint, graphkin_run


def program(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "graphkin", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


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
    original, epochs = Adam.step, itertools.count(1)

    def step(adam: Adam) -> None:
        if next(epochs) == epoch:
            for number in numbers:
                signal.raise_signal(number)
        original(adam)

    monkeypatch.setattr(Adam, "step", step)


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
    assert "process 1 of 2 (WORLD_SIZE) did not reach 127.0.0.1:" in capsys.readouterr().err
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


@pytest.mark.slow
def test_a_worker_that_is_killed_is_told(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ['title = "x"', 'protocol = "grace"', "seeds = 2", 'datasets = ["synthetic-60"]', 'measures = ["10 %"]']
    Path("e.toml").write_text("\n".join([*lines, "[[rows]]", 'name = "a"', 'method = "grace"', "settings = { hidden = 4 }"]))
    monkeypatch.setattr("graphkin.experiments.reproduce._one", _dies)
    assert graphkin_run("reproduce", "e.toml", "--jobs", 2, "--epochs", 1, "-q", "--store", "r.sqlite") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "a training process was killed" in line and "the same command resumes" in line


def _dies(*given: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_one_and_two_threads_give_the_same_bits(folder: Path) -> None:
    np.savez("f.npz", **arrays(nodes=300))
    command = ["fit", "f.npz", *QUICK, "--method", "grace+", "--set", "top_k=8", "--set", "steps=none"]
    assert torch.get_num_threads() == 1
    assert graphkin_run(*command, "--out", "run1") == 0
    two = {**os.environ, "OMP_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}
    assert program(*command, "--out", "run2", env=two).returncode == 0
    machine = json.loads(Path("run2/run.json").read_text())["machine"]
    assert machine["threads"] == 2
    one, other = (load_file(f"run{threads}/model.graphkin") for threads in (1, 2))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert Path("run1/embeddings.npy").read_bytes() == Path("run2/embeddings.npy").read_bytes()
