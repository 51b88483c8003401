"""Valid files that graphkin itself wrote, made once a process: cases damage copies of them."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from graphkin.commands.cli import run
from graphkin.support.adam import Adam
from tests.fuzz.draws import Draw, communities

NODES = 40
FIT = ("--set", "hidden=4", "--splits", "1", "-q")
GO_ON = ("--epochs", "2", "--checkpoint-every", "1", "--no-baselines")
TOP = ("--set", "top_k=4", "--set", "steps=none")
RUNS = {
    "npy": ("--method", "grace+"),
    "csv": ("--method", "gca", "--format", "csv"),
    "parquet": ("--method", "grace", "--format", "parquet"),
    "labels": ("--method", "graph-mlp+"),
    "held-out": ("--method", "grace", "--hold-out-edges", "0.2", "--no-baselines"),
}
EXPERIMENT = """
title = "Two rows"
protocol = "grace"
seeds = 1
datasets = ["GRAPH"]
measures = ["10 %"]
base = "features"
[[rows]]
name = "features"
baseline = "raw features"
[[rows]]
name = "GRACE"
method = "grace"
settings = { hidden = 4, epochs = 1 }
"""


class Originals:
    """A folder with a graph, a run of each kind, runs that were cut off, and a store with its export."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.graph = folder / "graph.npz"
        self.experiment = folder / "mine.toml"
        self.store = folder / "results.sqlite"
        self.export = folder / "results.json"
        self.checkpoint = folder / "cut-off"
        self.pageranks = folder / "cut-off-early"
        self.model = folder / "npy" / "model.graphkin"
        self.larger = folder / "larger.npz"
        """with enough nodes for a split that trains on 2 % of them"""
        np.savez(self.graph, **_graph())
        np.savez(self.larger, **communities(Draw(0), 200, 2, width=5))
        self.experiment.write_text(EXPERIMENT.replace("GRAPH", self.larger.as_posix()))
        for name, options in RUNS.items():
            _did("fit", self.graph, *options, *FIT, "--epochs", 1, "--out", folder / name)
        self._cut_off()
        _did("reproduce", self.experiment, "--store", self.store, "-q")
        _did("results", "export", self.store, "--out", self.export)

    def _cut_off(self) -> None:
        """One run after its first epoch, and one before it, which leaves PageRanks."""
        with _killed_in(epoch=2):
            _did("fit", self.graph, *FIT, *GO_ON, "--out", self.checkpoint)
        with _killed_in(epoch=1):
            _did("fit", self.graph, *TOP, *FIT, *GO_ON, "--out", self.pageranks)
        assert (self.checkpoint / "checkpoint.graphkin").exists() and list(self.pageranks.rglob("*.npz"))

    def copy(self, name: str, target: Path) -> Path:
        """Of a file or a folder."""
        source = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target))


@functools.cache
def originals() -> Originals:
    return Originals(Path(_folder().name))


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="graphkin-fuzz-originals-")


def _graph() -> dict[str, Any]:
    part = np.arange(NODES) % 4
    masks = {"train_mask": part == 0, "val_mask": part == 1, "test_mask": part >= 2}
    return communities(Draw(0), NODES, 2, width=5) | masks | {"ids": np.array([f"node {i}" for i in range(NODES)])}


class _KilledError(BaseException): ...


@contextlib.contextmanager
def _killed_in(epoch: int) -> Iterator[None]:
    original, epochs = Adam.step, itertools.count(1)

    def step(adam: Adam) -> None:
        if next(epochs) == epoch:
            raise _KilledError
        original(adam)

    with mock.patch.object(Adam, "step", step), contextlib.suppress(_KilledError):
        yield


def _did(*arguments: object) -> None:
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        status = run([str(argument) for argument in arguments])
    if status != 0:
        raise RuntimeError(f"an original cannot be made: {stderr.getvalue()}")
