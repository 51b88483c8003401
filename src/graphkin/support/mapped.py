"""Matrices in temporary files that are mapped into memory, for what does not fit into it."""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import psutil
import torch
from torch import Tensor

from graphkin.errors import OutputError

IN_MEMORY = ("tmpfs", "ramfs")
_in_files: ContextVar[bool] = ContextVar("_in_files", default=False)


@contextmanager
def in_files(wanted: bool = True) -> Iterator[None]:
    """Where :func:`empty` makes its matrices; those of a GPU stay there."""
    before = _in_files.set(wanted)
    try:
        yield
    finally:
        _in_files.reset(before)


def empty(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A matrix without values. Of one in a file, which ends with it, the system keeps in memory what there is room for."""
    size = rows * columns * dtype.itemsize
    if not _in_files.get() or device.type != "cpu" or size == 0:
        return torch.empty(rows, columns, dtype=dtype, device=device)
    with tempfile.TemporaryFile() as file:
        _reserve(file.fileno(), size)
        return torch.frombuffer(mmap.mmap(file.fileno(), size), dtype=dtype).view(rows, columns)


def _reserve(file: int, size: int) -> None:
    """Take the room now: a disk that is full later would end the process."""
    folder = tempfile.gettempdir()
    free, kind = shutil.disk_usage(folder).free, _file_system(folder)
    if kind in IN_MEMORY:
        raise OutputError(
            f"{size / 2**30:,.1f} GiB of smoothed features do not fit into memory, and {folder} lies in memory, too ({kind}). "
            "Set TMPDIR to a folder on a disk."
        )
    if size > free:
        raise _too_small(folder, size, free)
    try:
        os.truncate(file, size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file, 0, size)
    except OSError as error:
        raise _too_small(folder, size, free) from error


def _too_small(folder: str, size: int, free: int) -> OutputError:
    return OutputError(
        f"{folder} must have room for {size / 2**30:,.1f} GiB of smoothed features, found {free / 2**30:,.1f} GiB. "
        "Set TMPDIR to a folder on a larger disk."
    )


def _file_system(folder: str) -> str:
    """Its kind, where the system tells: that of the innermost mount."""
    path = Path(folder).resolve()
    mounts = [mount for mount in psutil.disk_partitions(all=True) if path.is_relative_to(mount.mountpoint)]
    return max(mounts, key=lambda mount: len(mount.mountpoint)).fstype if mounts else ""
