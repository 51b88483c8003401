"""A whole epoch of training: views, encoder, objective, backward pass and optimiser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from graphkin.bench.measure import cost
from graphkin.bench.results import Row
from graphkin.execution import SMALL_STEP, TOGETHER
from graphkin.graphs.graph import Graph
from graphkin.methods import Method
from graphkin.objectives.kinship import Kinship
from graphkin.objectives.objective import Task
from graphkin.training.loop import train
from graphkin.training.plan import plan
from graphkin.training.prepared import Prepared

EPOCHS = {"cpu": 5, "cuda": 200}
LARGE_GRAPH_EPOCHS = 20
CURVE = 5
"""The number of epochs over which our curve must agree with the dense reference's."""
ALLOWED = 2e-2


def compare(graph: Graph, method: Method, device: torch.device, repeats: int = 5) -> Iterator[Row]:
    """Ours beside what it is compared with, and on a GPU with several repeats at a time. Times are for one epoch of one repeat.

    All nodes are anchors, in the published form too. Kinship, which has none, is timed besides with one positive for each of
    all anchors but one, as steps draw them that do not take all nodes, and with its default sample.
    """
    problem = {"graph": graph.name, "nodes": graph.num_nodes, "method": method.name, "device": device.type}
    whole = method.configure(anchors=None)
    prepared = plan(graph, whole, device=str(device), adapt=False).prepare()
    if not isinstance(method.objective, Kinship):
        yield _published(problem, prepared, repeats)
        yield from _ours(problem, prepared, whole, "graphkin", ("float32", "bf16"), repeats)
        return
    yield from _ours(problem, prepared, whole, "all anchors,", ("float32", "auto"), repeats)
    most = graph.num_nodes - 1
    prepared = plan(graph, method.configure(anchors=most), device=str(device), adapt=False).prepare()
    yield from _ours(problem, prepared, method.configure(anchors=most), "one positive each,", ("float32", "auto"), repeats)
    sampling = method.sampling
    if sampling is not None and sampling.anchors is not None and sampling.anchors < most:
        yield from _ours(problem, prepared, method, f"{sampling.anchors:,} anchors,", ("float32", "auto"), repeats)


def _ours(
    problem: dict[str, object], prepared: Prepared, method: Method, name: str, precisions: tuple[str, str], repeats: int
) -> Iterator[Row]:
    """In each precision; "auto" only where that is not float32."""
    device, few = prepared.plan.device, method.configure(epochs=CURVE)
    expected = _reference_curve(prepared, few)
    nodes, sampling = prepared.plan.graph.num_nodes, method.sampling
    anchors = nodes if sampling is None or sampling.anchors is None else sampling.anchors
    small = min(nodes, 2 * anchors) <= SMALL_STEP
    epochs = EPOCHS[device.type] if small else min(EPOCHS[device.type], LARGE_GRAPH_EPOCHS)
    for precision in precisions:
        setting = method.configure(precision=precision, epochs=epochs)
        probe = _tasks(prepared, few.configure(precision=precision))
        execution = probe[0].execution
        if precision == "auto" and execution.precision == "float32":
            continue
        error = float((_curve(probe, few, device) - expected).abs().max() / expected.abs().max())
        label = f"{name} {execution.kernel}"
        if not error <= ALLOWED:
            yield Row(problem, label, error, failure=f"its loss curve disagrees with the definition's: {error:.1e}")
            continue
        for together in (1, TOGETHER) if device.type == "cuda" and small else (1,):
            ready = _tasks(prepared, setting, together)

            def run(ready: list[Task] = ready, setting: Method = setting) -> None:
                train(ready, setting, device, "none", "")

            label += "" if together == 1 else f", {together} repeats at a time"
            yield cost(problem, label, run, device, error=error, repeats=repeats, share=1 / (epochs * together))


def _published(problem: dict[str, object], prepared: Prepared, repeats: int) -> Row:
    from graphkin.bench.published import PublishedRun

    device = prepared.plan.device
    try:
        run = PublishedRun(prepared.plan.graph, prepared.plan.method, prepared.for_objective, device)
        return cost(problem, "published form", run.epoch, device, repeats=repeats)
    except torch.OutOfMemoryError:
        return Row(problem, "published form", failure="out of memory")


def _reference_curve(prepared: Prepared, few: Method) -> torch.Tensor:
    """Kinship's is that of float32 in blocks, which ``bench objective`` compares with the definition."""
    device = prepared.plan.device
    if isinstance(few.objective, Kinship):
        return _curve(_tasks(prepared, few, implementation="blocked"), few, device)
    try:
        return _curve(_tasks(prepared, few, implementation="reference"), few, device)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return _curve(_tasks(prepared, few, implementation="blocked"), few, device)


def _curve(tasks: list[Task], method: Method, device: torch.device) -> torch.Tensor:
    return torch.tensor(train(tasks, method, device, "none", "")[0].losses)


def _tasks(prepared: Prepared, method: Method, count: int = 1, implementation: str | None = None) -> list[Task]:
    """Runs with other settings on what was prepared, in the form that is decided for them or in a given one."""
    planned = plan(prepared.plan.graph, method, device=str(prepared.plan.device), adapt=False)
    if implementation is not None:
        forced = replace(planned.execution, implementation=implementation, precision="float32", recorded=False)
        planned = replace(planned, execution=forced)
    ready = replace(prepared, plan=planned)
    return [method.objective.task(ready.setup(seed)) for seed in range(count)]
