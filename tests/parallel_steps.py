"""One step of several methods by as many processes as torchrun starts: losses and gradients go to the file that is named.

With "cuda" behind it, all processes use one GPU and talk through Gloo, as if each were a machine of its own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from graphkin.graphs.synthetic import community_graph
from graphkin.support.parallel import joined, peers
from graphkin.training.plan import plan

TOP: dict[str, Any] = {"top_k": 6, "steps": None}
SAMPLED: dict[str, Any] = {**TOP, "anchors": 41, "candidates": 50}
STEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "all pairs": ("grace", {}),
    "weights": ("grace+", {}),
    "temperatures": ("grace+", {"tau_pos": 0.1, "tau_neg": 0.1, "structure": "ppr-cosine"}),
    "mean": ("grace+", {"pooling": "mean"}),
    "anchors": ("gca+", {"anchors": 37}),
    "positives and negatives": ("grace+", {"positives_sampled": 60, "negatives_sampled": 70}),
    "largest": ("grace+", TOP),
    "largest cosines": ("grace+", {**TOP, "structure": "ppr-cosine"}),
    "sampled": ("grace+", SAMPLED),
    "sampled, random slopes": ("gca+", {**SAMPLED, "activation": "rrelu", "layers": 3}),
}


def steps(device: str = "cpu") -> dict[str, Tensor]:
    graph = community_graph(151, seed=0)
    found: dict[str, Tensor] = {}
    for name, (method, settings) in STEPS.items():
        planned = plan(graph, method, device=device, adapt=False, hidden=8, **settings)
        task = planned.method.objective.task(planned.prepare().setup(seed=0))
        task.modules.train()
        with torch.no_grad():  # as drawn, all nodes are embedded nearly alike, and the gradient is what rounding leaves of it
            for parameter in task.modules.parameters():
                parameter.mul_(4)
        loss = task.loss()
        loss.backward()
        parts = {"loss": loss.detach().clone()}
        parts |= {key: value.grad for key, value in task.modules.named_parameters() if value.grad is not None}
        peers().add_up(parts.values())
        found |= {f"{name}.{key}": value for key, value in parts.items()}
    return found


def write_steps(path: Path, *devices: str) -> None:
    with joined("gloo") as among:
        found = steps(*devices)
        if among.first:
            save_file({name: value.cpu() for name, value in found.items()}, path)


if __name__ == "__main__":
    torch.set_num_threads(1)
    path, *devices = sys.argv[1:]
    if devices:
        os.environ |= {"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    write_steps(Path(path), *devices)
