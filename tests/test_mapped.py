"""Smoothed features in files, where they do not fit into memory."""

from __future__ import annotations

import tempfile
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import torch

from graphkin.errors import OutputError
from graphkin.graphs.synthetic import community_graph
from graphkin.support import mapped
from graphkin.training import fitted as training
from graphkin.training.plan import plan

CPU = torch.device("cpu")
QUICK: dict[str, Any] = {"device": "cpu", "epochs": 2, "hidden": 16, "branch_width": 8, "projector": 8, "anchors": 50}
QUICK |= {"top_k": 8, "steps": None, "unlike_below": 0}
Usage = namedtuple("Usage", ("total", "used", "free"))
Mount = namedtuple("Mount", ("mountpoint", "fstype"))


@pytest.fixture(autouse=True)
def on_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever temporary files lie on this machine."""
    monkeypatch.setattr("psutil.disk_partitions", lambda all: [Mount("/", "ext4")])


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the files that are made."""
    sizes: list[int] = []
    reserve = mapped._reserve

    def counted(file: int, size: int) -> None:
        sizes.append(size)
        reserve(file, size)

    monkeypatch.setattr(mapped, "_reserve", counted)
    return sizes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_matrix_in_a_file_is_a_matrix(
    dtype: torch.dtype, made: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    values = torch.randn(300, 7, generator=torch.Generator().manual_seed(0)).to(dtype)
    with mapped.in_files():
        found = mapped.empty(300, 7, dtype, CPU)
        assert mapped.empty(0, 7, dtype, CPU).shape == (0, 7)
    found[:, 2:] = values[:, 2:]
    found[:, :2] = values[:, :2]
    assert torch.equal(found, values) and torch.equal(found[[5, 5, 299]], values[[5, 5, 299]])
    assert made == [300 * 7 * dtype.itemsize] and not list(tmp_path.iterdir()), "nothing is left behind"


def test_without_being_asked_there_are_no_files(made: list[int]) -> None:
    assert mapped.empty(3, 2, torch.float32, CPU).shape == (3, 2)
    with mapped.in_files(), mapped.in_files(False):
        mapped.empty(3, 2, torch.float32, CPU)
    assert made == []


def test_a_full_disk_is_named_before_anything_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("shutil.disk_usage", lambda folder: Usage(2**40, 2**40, 2**30))
    with mapped.in_files(), pytest.raises(OutputError, match=r"room for 4\.0 GiB .*found 1\.0 GiB\. Set TMPDIR"):
        mapped.empty(2**20, 2**10, torch.float32, CPU)


def test_a_folder_in_memory_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mounts = [Mount("/", "ext4"), Mount(str(tmp_path), "tmpfs"), Mount(f"{tmp_path}/other", "ext4")]
    monkeypatch.setattr("psutil.disk_partitions", lambda all: mounts)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with mapped.in_files(), pytest.raises(OutputError, match=r"lies in memory, too \(tmpfs\)\. Set TMPDIR"):
        mapped.empty(4, 4, torch.float32, CPU)


def test_room_that_the_system_does_not_give_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For a quota, say, which the free space of the disk does not show."""

    def refused(file: int, size: int) -> None:
        raise OSError(122, "Disk quota exceeded")

    monkeypatch.setattr("os.truncate", refused)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with mapped.in_files(), pytest.raises(OutputError, match="Set TMPDIR"):
        mapped.empty(4, 4, torch.float32, CPU)


def test_where_memory_is_short_smoothed_features_lie_in_files(made: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.Process.memory_info", lambda process: type("Memory", (), {"rss": 0}))
    graph = community_graph(400)
    enough = plan(graph, "kin", **QUICK)
    expected = enough.fit(seed=0)
    assert made == [] and enough.execution.in_files == 0
    of_smoothed = 5 * 4 * 400 * 256
    planned = plan(graph, "kin", memory=enough.execution.estimate - of_smoothed // 2, **QUICK)
    assert planned.execution.in_files == of_smoothed and "smoothed features in a file" in planned.execution.words
    assert planned.method == enough.method and planned.execution.change is None, "no setting changes"
    prepared = planned.prepare()
    (found,) = prepared.train([0]).fitted
    assert sum(made) == of_smoothed and found.losses == expected.losses
    assert torch.equal(prepared.embed(found), expected.embed(graph))
    made.clear()
    monkeypatch.setattr(training, "whole_memory", lambda device: 2**20)
    assert torch.equal(found.embed(graph), expected.embed(graph)) and sum(made) == 2 * of_smoothed
