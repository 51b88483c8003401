"""How much memory there is, and how much a graph takes."""

from __future__ import annotations

import re

import psutil
import torch

from graphkin.errors import SettingError
from graphkin.graphs.arrays import Features
from graphkin.support.parallel import peers
from graphkin.support.sparse import SparseMatrix

UNITS = {
    "": 1,
    "B": 1,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}


def parse_memory(text: str | int | None) -> int | None:
    """Bytes from 8GiB, 500MB or a plain number of bytes; None for no limit."""
    if text is None:
        return None
    text = str(text)
    found = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*", text)
    size = int(float(found[1]) * UNITS.get(found[2].upper(), 0)) if found else 0
    if size < 1:
        raise SettingError(f"memory must be a size such as 8GiB or 500MB (units: KiB to TiB, kB to TB), found {text!r}.")
    return size


def whole_memory(device: torch.device) -> int:
    """For this process: several on one machine have their share of it, and a GPU each."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return int(psutil.virtual_memory().total) // peers().local_size


def memory_in_use(device: torch.device) -> int:
    """On a CPU by the whole process, on a GPU by PyTorch."""
    if device.type == "cuda":
        return int(torch.cuda.memory_allocated(device))
    return int(psutil.Process().memory_info().rss)


def bytes_of(x: Features) -> int:
    return 4 * x.values.numel() if isinstance(x, SparseMatrix) else 4 * x.numel()
