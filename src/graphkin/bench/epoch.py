"""A whole epoch of training: views, encoder, objective, backward pass and optimiser."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from graphkin.bench import Row
from graphkin.bench.measure import cost
from graphkin.bench.published import PublishedRun
from graphkin.graphs.graph import Graph
from graphkin.methods.method import Method
from graphkin.training.fit import SMALL_STEP, TOGETHER
from graphkin.training.loop import train
from graphkin.training.tasks import Task, TwoViewTask, weights_for

EPOCHS = {"cpu": 5, "cuda": 200}
LARGE_GRAPH_EPOCHS = 20
CURVE = 5
"""epochs over which our curve must be the dense reference's"""
ALLOWED = 2e-2


def compare(graph: Graph, method: Method, device: torch.device, repeats: int = 5) -> Iterator[Row]:
    """The published form, ours, and on a GPU ours with several repeats at a time; times are of one epoch of one repeat."""
    problem = {"graph": graph.name, "nodes": graph.num_nodes, "method": method.name, "device": device.type}
    graph = graph.to(device)
    method = method.configure(anchors=None)
    weights = weights_for(graph, method)
    few = method.configure(epochs=CURVE)

    def tasks(setting: Method, count: int = 1, implementation: str = "auto") -> list[Task]:
        return [TwoViewTask(graph, setting, weights, seed, device, implementation) for seed in range(count)]

    def curve(ready: list[Task]) -> torch.Tensor:
        return torch.tensor(train(ready, few, device, "none", "")[0].losses)

    small = graph.num_nodes <= SMALL_STEP
    epochs = EPOCHS[device.type] if small else min(EPOCHS[device.type], LARGE_GRAPH_EPOCHS)
    try:
        yield cost(problem, "published form", PublishedRun(graph, method, weights, device).epoch, device, repeats=repeats)
    except torch.OutOfMemoryError:
        yield Row(problem, "published form", failure="out of memory")
    try:
        expected = curve(tasks(few, implementation="reference"))
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        expected = curve(tasks(few, implementation="blocked"))
    for precision in ("float32", "bf16"):
        setting = method.configure(precision=precision, epochs=epochs)
        probe = tasks(few.configure(precision=precision))
        error = float((curve(probe) - expected).abs().max() / expected.abs().max())
        name = f"graphkin {probe[0].kernel}"
        if not error <= ALLOWED:
            yield Row(problem, name, error, failure=f"its loss curve disagrees with the definition's: {error:.1e}")
            continue
        for together in (1, TOGETHER) if device.type == "cuda" and small else (1,):
            ready = tasks(setting, together)

            def run(ready: list[Task] = ready, setting: Method = setting) -> None:
                train(ready, setting, device, "none", "")

            label = name if together == 1 else f"{name}, {together} repeats at a time"
            yield cost(problem, label, run, device, error=error, repeats=repeats, share=1 / (epochs * together))
