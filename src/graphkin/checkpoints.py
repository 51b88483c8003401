"""A training run on disk, from which the same run goes on: parameters, optimiser, randomness and the losses so far.

A checkpoint is a safetensors file, written whole or not at all; nothing in it is executed or unpickled.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from graphkin.errors import OutputError, check_whole
from graphkin.files import write_tensors

FORMAT = "graphkin-checkpoint-1"


@dataclass(frozen=True)
class Checkpoint:
    """Where a run is kept, how often, and what tells it from other runs."""

    path: Path
    every: int
    identity: dict[str, Any]
    """plain data: method, seed, graph"""

    def __post_init__(self) -> None:
        check_whole("checkpoint_every", self.every, at_least=1)

    def damaged(self) -> OutputError:
        return OutputError(f"{self.path} is not a checkpoint of graphkin, or is damaged: remove it to start anew.")

    def write(self, epoch: int, state: dict[str, Tensor]) -> None:
        tensors = {name: value.detach().cpu().contiguous() for name, value in state.items()}
        metadata = {"format": FORMAT, "epoch": str(epoch), "identity": json.dumps(self.identity, sort_keys=True)}
        write_tensors(self.path, tensors, metadata)

    def read(self) -> tuple[int, dict[str, Tensor]] | None:
        """Epoch and state; None if nothing was written yet. A checkpoint of another run is refused, not replaced."""
        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            known = metadata["format"] == FORMAT
            epoch, identity = int(metadata["epoch"]), dict(json.loads(metadata["identity"]))
        except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
            raise self.damaged() from error
        wanted = json.loads(json.dumps(self.identity))
        if not known or identity != wanted:
            different = _different(wanted, identity) or ["format"]
            raise OutputError(
                f"{self.path} is the checkpoint of another run (another {', '.join(different)}): remove it to start anew."
            )
        return epoch, tensors


def _different(one: Any, other: Any, name: str = "") -> list[str]:
    """The names under which two nested tables differ, such as epochs for method.optimiser.epochs."""
    if not isinstance(one, dict) or not isinstance(other, dict):
        return [] if one == other else [name]
    return [found for key in sorted(one.keys() | other.keys()) for found in _different(one.get(key), other.get(key), key)]
