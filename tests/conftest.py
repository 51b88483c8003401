from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# Before torch and numba are imported: tests run in two processes, and threads that wait for a busy core spin. Numba sets the
# number of torch's threads to its own.
os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the kernels are imported: Triton then runs them on the CPU
from hypothesis import settings

from graphkin import Graph, bundled_cora
from tests.browsing import Browser, started
from tests.documents import quick  # noqa: F401 - a fixture

settings.register_profile("graphkin", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("graphkin")


@pytest.fixture(scope="session")
def cora() -> Graph:
    return bundled_cora()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="session")
def data_root() -> Path:
    return Path(os.environ["GRAPHKIN_DATA"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def small() -> Graph:
    """Two communities of 20 nodes with features that tell them apart, labels and masks."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(40) // 20
    same = labels[:, None] == labels
    chance = torch.where(same, 0.3, 0.03)
    edges = (torch.rand(40, 40, generator=draw) < chance).triu(1).nonzero().T
    x = torch.rand(40, 16, generator=draw)
    x[:, :8] += labels[:, None] * 0.8
    split = torch.arange(40) % 4
    return Graph.from_arrays(x, edges, labels, train_mask=split == 0, val_mask=split == 1, test_mask=split >= 2, name="small")
