"""One step of several methods by as many processes as torchrun starts: losses and gradients go to the file that is named.

So do trained parameters, and products of embeddings.

With "cuda" behind it, all processes use one GPU and talk through Gloo, as if each were a machine of its own.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from safetensors.torch import save_file
from torch import Tensor

from graphkin import GCN, Kinship, Method, Optimiser
from graphkin.graphs import diffusion
from graphkin.graphs.graph import Graph
from graphkin.graphs.synthetic import community_graph
from graphkin.support.parallel import joined, peers
from graphkin.support.sparse import SparseMatrix
from graphkin.training.plan import plan

TOP: dict[str, Any] = {"top_k": 6, "steps": None}
SAMPLED: dict[str, Any] = {**TOP, "anchors": 41, "candidates": 50}
KIN: dict[str, Any] = {"branch_width": 8, "projector": 8, "precision": "float32"}
BOTH: dict[str, Any] = {"symmetric": True, "both_views": True, "drop_positives": 0.3}
OF_GCN = Method("kin-gcn", GCN(), None, Kinship(projector=8, precision="float32"), Optimiser())
STEPS: dict[str, tuple[str | Method, dict[str, Any]]] = {
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
    "hops": ("ma-gcl+", {}),
    "kin": ("kin", KIN),
    "kin, dense": ("kin", KIN),
    "kin, both passes": ("kin", {**KIN, **BOTH}),
    "kin, few features, dense": ("kin", {**KIN, "few_features": 300}),
    "kin, anchors": ("kin", {**KIN, "anchors": 41}),
    "kin, anchors, dense": ("kin", {**KIN, "anchors": 41}),
    "kin, anchors of both passes": ("kin", {**KIN, **BOTH, "anchors": 41}),
    "kin, two anchors": ("kin", {**KIN, "anchors": 2}),
    "kin, largest": ("kin", {**KIN, **TOP, "anchors": 41}),
    "kin, axes": ("kin", {**KIN, "anchors": 41, "axes": 16}),
    "edges": (OF_GCN, BOTH),
    "edges, anchors": (OF_GCN, {"anchors": 41}),
    "kin, batch norm": ("kin", {**KIN, "anchors": 41, "norm": "batch"}),
}
WHOLE: dict[str, Any] = {"hidden": 8, "branch_width": 20, "axes": 40, "free": ("hop2", "ppr0.2*0.4"), "width": 400}
"""all axes of an embedding, so that products of its rows do not depend on their signs and order"""
TRAINED: dict[str, dict[str, Any]] = {
    "all": {},
    "all, dense": {"smooth_outputs": False, "diffuse_outputs": 0.3},
    "anchors": {"anchors": 41},
    "batch norm": {"anchors": 41, "norm": "batch"},
}
"""of kin"""


def graph_of(name: str) -> Graph:
    graph = community_graph(151, seed=0)
    assert isinstance(graph.x, SparseMatrix)
    return replace(graph, x=graph.x.to_dense()) if "dense" in name else graph


def steps(device: str = "cpu") -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, (method, settings) in STEPS.items():
        planned = plan(graph_of(name), method, device=device, adapt=False, hidden=8, **settings)
        prepared = planned.prepare()
        if method == "kin":
            assert len(prepared.x) == len(peers().share(torch.arange(151))) or settings.get("norm") == "batch"
        task = planned.method.objective.task(prepared.setup(seed=0))
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


def trained() -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for name, settings in TRAINED.items():
        how = {**KIN, **WHOLE, "epochs": 6, "early": 3, **settings}
        with patch.dict(diffusion.BLOCK_BYTES, cpu=1):  # some columns in each process
            fitted, blocks = plan(graph_of(name), "kin", device="cpu", adapt=False, **how).fit_and_embed(seed=0)
            rows = torch.cat(list(blocks) or [torch.empty(0, 0)])
        parameters = {key: value.detach() for key, value in fitted.modules.named_parameters()}
        parts = {"losses": torch.tensor(fitted.losses), "products": rows @ rows.T, **parameters}
        found |= {f"{name}.{key}": value for key, value in parts.items()}
    return found


def write_trained(path: Path) -> None:
    with joined("gloo") as among:
        found = trained()
        if among.first:
            save_file(found, path)


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
