"""One loop for all methods: :func:`fit` takes a graph and a method and returns a :class:`~graphkin.fitted.Fitted`."""

from __future__ import annotations

import itertools
import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch_geometric.data import Data

from graphkin.arrays import smallest_entry
from graphkin.errors import DivergedError, GraphError, InputError, SettingError
from graphkin.fitted import Fitted
from graphkin.graphs import Graph, as_graph
from graphkin.methods import Method
from graphkin.presets import method_named, presets
from graphkin.progress import progress as show_progress
from graphkin.similarity import NodeSimilarity, as_similarity
from graphkin.tasks import Task, task_for


def fit(
    data: Graph | Data,
    method: str | Method = "grace+",
    *,
    preset: str | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: str = "auto",
    similarity: Any = None,
    **settings: Any,
) -> Fitted:
    """Train ``method`` on a graph.

    Args:
        data: a :class:`graphkin.Graph` or a ``torch_geometric.data.Data`` with ``x`` and ``edge_index``.
        method: "grace", "gca", "graph-mlp", each with or without "+"; or a :class:`graphkin.Method`.
        preset: the dataset whose shipped settings to use; by default the graph's own name if it is one of them, and settings
            meant for any graph otherwise.
        seed: the one source of all randomness. The same seed gives the same embeddings, bit for bit, on one CPU.
        device: "auto", "cpu", "cuda" or "cuda:N".
        progress: "auto" (a bar on a terminal, else nothing), "visible" (a bar, else lines), "bar", "lines" or "none".
        similarity: for a "+" method, your own node similarity instead of the method's: an N×N matrix (dense or sparse), or a
            function from node indices [B] to similarities [B, N].
        **settings: any setting by its name, such as ``epochs``, ``tau``, ``beta`` or ``tau_pos``.

    Ctrl-C ends training after the current epoch and keeps what was learned.
    """
    graph = as_graph(data)
    chosen = resolve(method, graph, preset).configure(**settings)
    check_usable(graph, chosen, own_similarity=similarity is not None)
    if chosen.feature_scale == "auto":
        chosen = chosen.configure(feature_scale="rows" if smallest_entry(graph.x) >= 0 else "none")
    where = device_named(device)
    start = time.perf_counter()
    task = task_for(graph.to(where), chosen, seed, where, own_similarity(similarity, graph, chosen, where))
    prepared = time.perf_counter()
    curve = _train(task, chosen, progress, f"{chosen.name} on {graph.name}")
    return Fitted(
        method=chosen,
        modules=task.finish().cpu(),
        num_features=graph.num_features,
        num_classes=graph.num_classes if chosen.needs_labels else 0,
        seed=seed,
        feature_names=graph.feature_names,
        losses=tuple(curve.losses),
        interrupted=curve.interrupted,
        seconds={"prepare": prepared - start, "train": time.perf_counter() - prepared},
    )


def resolve(method: str | Method, graph: Graph, preset: str | None = None) -> Method:
    if isinstance(method, Method):
        if preset is not None:
            raise SettingError(f"preset goes with a method's name; this {method.name} has its settings already.")
        return method
    if preset is None:
        base = method_named(method).name.split("+")[0]
        known = graph.name.removesuffix("-bundled")
        preset = known if known in presets(base) else None
    return method_named(method, preset)


def device_named(name: str) -> torch.device:
    """ "auto" is the GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingError(f"device must be auto, cpu, cuda or cuda:N, found {name!r}.") from error
    if device.type not in ("cpu", "cuda"):
        raise SettingError(f"device must be auto, cpu, cuda or cuda:N, found {name!r}.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingError(f"device {name!r} was asked for, but PyTorch sees no GPU here; use cpu or auto.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise SettingError(f"device {name!r} was asked for, but PyTorch sees {torch.cuda.device_count()} GPUs here.")
    return device


def own_similarity(similarity: Any, graph: Graph, method: Method, device: torch.device) -> NodeSimilarity | None:
    if similarity is None:
        return None
    if method.similarity is None:
        raise SettingError(f"{method.name} uses no similarity; a '+' method does.")
    if isinstance(similarity, torch.Tensor):
        similarity = similarity.to(device, torch.float32)
    measure = as_similarity(similarity, graph.num_nodes, device)
    if measure.num_nodes != graph.num_nodes:
        raise SettingError(f"the similarity must be of the graph's {graph.num_nodes} nodes, found {measure.num_nodes}.")
    return measure


def check_usable(graph: Graph, method: Method, *, own_similarity: bool = False) -> None:
    """Everything about this graph that would make this method fail later."""
    if graph.num_nodes < 2:
        raise GraphError(f"contrast needs at least 2 nodes, found {graph.num_nodes}.")
    if graph.num_edges == 0 and method.needs_edges and not own_similarity:
        raise GraphError(
            f"the graph has no edges, and {method.name} learns from them; with features alone only a '+' method with beta=1 "
            "is possible."
        )
    if method.needs_labels:
        _check_labels(graph, method)


def _check_labels(graph: Graph, method: Method) -> None:
    if graph.y is None:
        raise GraphError(f"{method.name} is trained with labels, and the graph has none (y is missing).")
    for name in ("train_mask", "val_mask"):
        mask = getattr(graph, name)
        if mask is None or not mask.any():
            raise GraphError(f"{method.name} needs to know which nodes to use: {name} is missing or empty.")
        unlabelled = (graph.y[mask] < 0).sum()
        if unlabelled:
            raise GraphError(f"every node in {name} needs a label for {method.name}, found {unlabelled} without one.")
    masks = {name: getattr(graph, name) for name in ("train_mask", "val_mask", "test_mask")}
    for one, other in itertools.combinations([name for name, mask in masks.items() if mask is not None], 2):
        shared = int((masks[one] & masks[other]).sum())
        if shared:
            raise GraphError(f"{one} and {other} must not share nodes, found {shared} in both.")


@dataclass
class _Curve:
    losses: list[float] = field(default_factory=list)
    interrupted: bool = False


def _train(task: Task, method: Method, style: str, title: str) -> _Curve:
    settings = method.optimiser
    optimiser = torch.optim.Adam(task.modules.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    curve = _Curve()
    with show_progress(style, title, settings.epochs) as report, _stop_on_interrupt() as stop:
        for epoch in range(1, settings.epochs + 1):
            task.modules.train()
            optimiser.zero_grad(set_to_none=True)
            loss = task.loss()
            loss.backward()
            value = loss.item()
            if not math.isfinite(value):
                raise _diverged(epoch, value, method)
            optimiser.step()
            task.after_epoch()
            curve.losses.append(value)
            report(epoch, value)
            if stop.is_set():
                curve.interrupted = epoch < settings.epochs
                break
    if not all(torch.isfinite(parameter).all() for parameter in task.modules.parameters()):
        raise _diverged(len(curve.losses), math.nan, method)
    return curve


def _diverged(epoch: int, value: float, method: Method) -> InputError:
    suspects = f"learning_rate={method.optimiser.learning_rate}, tau={method.tau}"
    return DivergedError(
        f"the loss became {value} in epoch {epoch} of {method.optimiser.epochs}; the likely cause is a setting that is too "
        f"extreme, first of all the learning rate (found {suspects}): try a smaller learning_rate or a larger tau."
    )


@contextmanager
def _stop_on_interrupt() -> Iterator[threading.Event]:
    """The first Ctrl-C sets the event, the second interrupts as usual; signals reach the main thread only."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    previous = signal.getsignal(signal.SIGINT) or signal.SIG_DFL

    def request_stop(number: int, frame: Any) -> None:
        stop.set()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, request_stop)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)
