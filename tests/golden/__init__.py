"""What every shipped setting gives: losses of a few epochs, and a digest of the embeddings.

``python -m tests.golden FILE`` writes them. ``losses.json`` and ``model.graphkin`` were written by the code at 8991cfe: a
change of the design must not change a number, and models of earlier versions stay readable.
"""

from __future__ import annotations

import hashlib
import platform
from pathlib import Path
from typing import Any

import torch

from graphkin import Graph, fit
from graphkin.graphs.synthetic import community_graph
from graphkin.methods import presets

FOLDER = Path(__file__).parent
BASES = ("grace", "gca", "graph-mlp")
EPOCHS = 3
NODES = 240


def machine() -> dict[str, str]:
    """On what sums are added up in the same order."""
    return {
        "torch": torch.__version__.split("+")[0],
        "processor": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
    }


def graph() -> Graph:
    made = community_graph(NODES)
    part = torch.arange(NODES) % 4
    masks: dict[str, Any] = {"train_mask": part == 0, "val_mask": part == 1, "test_mask": part >= 2}
    return Graph.from_arrays(made.x, made.edge_index, made.y, **masks, name="golden")


def settings() -> list[tuple[str, str]]:
    """Every method with every dataset's settings."""
    return [(f"{base}{plus}", preset) for base in BASES for preset in presets(base) for plus in ("", "+")]


def values(method: str, preset: str) -> dict[str, Any]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        data = graph()
        fitted = fit(data, method, preset=preset, seed=7, device="cpu", epochs=EPOCHS, hidden=32)
        rows = fitted.embed(data).contiguous().numpy()
    finally:
        torch.set_num_threads(threads)
    return {"losses": list(fitted.losses), "embeddings": hashlib.sha256(rows.tobytes()).hexdigest()[:16]}
