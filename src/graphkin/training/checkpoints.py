"""A training run on disk, from which the same run goes on: parameters, optimiser, randomness and the losses so far.

A checkpoint is a safetensors file, written whole or not at all; nothing in it is executed or unpickled. Its digest shows
whether the file changed since: a run that went on from other numbers would replace it with what they lead to.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphkin.errors import OutputError, check_whole
from graphkin.support.files import read_tensors, reading, write_tensors

FORMAT = "graphkin-checkpoint-1"


class Resumed(NamedTuple):
    """What a run goes on from."""

    epoch: int
    state: dict[str, Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """Where a run is kept, how often, and what tells it from other runs."""

    path: Path
    every: int
    identity: dict[str, Any]
    """plain data: method, seed, graph, and the digest of a similarity of the user's own"""

    def __post_init__(self) -> None:
        check_whole("checkpoint_every", self.every, at_least=1)

    def reading(self) -> AbstractContextManager[None]:
        complaint = "is not a graphkin checkpoint, or is damaged: remove it to start over"
        return reading(self.path, complaint, OutputError)

    def write(self, epoch: int, state: dict[str, Tensor]) -> None:
        tensors = {name: value.detach().cpu().contiguous() for name, value in state.items()}
        identity = json.dumps(self.identity, sort_keys=True)
        metadata = {"format": FORMAT, "epoch": str(epoch), "identity": identity, "digest": _digest(tensors)}
        write_tensors(self.path, tensors, metadata)

    def read(self) -> Resumed | None:
        """None if nothing was written yet. A checkpoint of another run is refused, not replaced."""
        if not self.path.exists():
            return None
        with self.reading():
            metadata, tensors = read_tensors(self.path)
            known = metadata["format"] == FORMAT
            epoch, identity = int(metadata["epoch"]), dict(json.loads(metadata["identity"]))
            if not all(value.isfinite().all() for value in tensors.values()):
                raise ValueError("it holds NaN or infinite values")
            if "digest" in metadata and metadata["digest"] != _digest(tensors):  # version 0.2.0 wrote none
                raise ValueError("its values are not those that were written")
        wanted = json.loads(json.dumps(self.identity))
        if not known or identity != wanted:
            different = _different(wanted, identity) or ["format"]
            raise OutputError(
                f"{self.path} is the checkpoint of another run (another {', '.join(different)}): remove it to start over."
            )
        return Resumed(epoch, tensors)


def _digest(tensors: dict[str, Tensor]) -> str:
    found = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        found.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        found.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _different(one: Any, other: Any, name: str = "") -> list[str]:
    """The names under which two nested tables differ, such as epochs for method.optimiser.epochs."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return [] if one == other else [name]
    return [found for key in sorted(one.keys() | other.keys()) for found in _different(one.get(key), other.get(key), key)]
