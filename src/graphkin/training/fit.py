"""One loop for all methods: :func:`fit` takes a graph and a method and returns a :class:`~graphkin.training.fitted.Fitted`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch_geometric.data import Data

from graphkin.errors import GraphError, SettingError, check_text, check_whole
from graphkin.graphs.arrays import smallest_entry
from graphkin.graphs.graph import Graph, as_graph
from graphkin.methods.method import Method, to_json
from graphkin.methods.presets import method_named, presets
from graphkin.similarity import NodeSimilarity, as_similarity
from graphkin.support.files import check_memory, checked_path
from graphkin.support.parallel import peers
from graphkin.support.progress import Style
from graphkin.training.checkpoints import Checkpoint
from graphkin.training.fitted import Fitted, parameter_bytes
from graphkin.training.loop import train
from graphkin.training.plans import Plan, parse_memory, plan_for
from graphkin.training.tasks import computed_by_fused_kernels, task_for, weights_for
from graphkin.weights.node import NodeWeights

PAGERANKS = ".pagerank"
"""behind a checkpoint's name, the folder for PageRanks"""
SMALL_STEP = 8192
"""Up to this many nodes in a step one repeat does not fill a GPU."""
TOGETHER, A_FEW = 8, 5
"""repeats that a GPU trains at a time: with small steps, and with larger ones in the fused kernels alone"""
A_FEW_UP_TO = 32_768
"""nodes in a step up to which other repeats fill what one leaves"""


def fit(
    data: Graph | Data,
    method: str | Method = "grace+",
    *,
    preset: str | None = None,
    seed: int = 0,
    device: str = "auto",
    progress: str = "auto",
    similarity: Any = None,
    memory: str | int | Plan | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 50,
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
        memory: how much to use at most, such as "8GiB"; by default what the device has. A graph that is too large for all pairs
            of its nodes is trained on in another way (``training/plans.py``). A plan that was made before is taken as it is.
        checkpoint: a file that is written every ``checkpoint_every`` epochs and after the last one; if it is there already,
            training goes on from it. On one CPU the result is the same, bit for bit, as without a break. It is yours to remove,
            as is the folder beside it with the PageRanks of ``top_k``, if there is one.
        **settings: any setting by its name, such as ``epochs``, ``tau``, ``beta`` or ``tau_pos``.

    Ctrl-C ends training after the current epoch and keeps what was learned.
    """
    (seed,) = _checked_seeds([seed])
    checkpoint = None if checkpoint is None else checked_path(checkpoint)
    keep = None if checkpoint is None else Path(f"{checkpoint}{PAGERANKS}")
    how: dict[str, Any] = {"preset": preset, "device": device, "similarity": similarity, "memory": memory, "keep": keep}
    prepared = prepare(data, method, **how, **settings)
    kept = [] if checkpoint is None else [prepared.checkpoint(checkpoint, checkpoint_every, seed)]
    title = f"{prepared.method.name} on {prepared.graph.name}"
    return prepared.train([seed], progress, title, checkpoints=kept).fitted[0]


def fit_repeats(
    data: Graph | Data,
    method: str | Method = "grace+",
    seeds: Iterable[int] = range(10),
    *,
    preset: str | None = None,
    device: str = "auto",
    progress: str = "auto",
    similarity: Any = None,
    **settings: Any,
) -> list[Fitted]:
    """:func:`fit` with each of ``seeds``, for less than as many calls: similarity and weights are computed once, and a GPU
    trains several repeats at a time where their steps are small.

    After Ctrl-C the repeats that had begun are returned.
    """
    seeds = _checked_seeds(seeds)
    prepared = prepare(data, method, preset=preset, device=device, similarity=similarity, **settings)
    fitted: list[Fitted] = []
    for group in prepared.groups(seeds):
        title = f"{prepared.method.name} on {prepared.graph.name}"
        if len(seeds) > 1:
            title += f", {len(fitted) + len(group)} of {len(seeds)} seeds"
        try:
            trained = prepared.train(group, progress, title)
        except KeyboardInterrupt:  # between two groups, or pressed twice
            if not fitted:
                raise
            break
        fitted += trained.fitted
        if trained.stop_wanted:
            break
    return fitted


def small_steps(graph: Graph, method: Method) -> bool:
    """Whether one repeat leaves room on a GPU for others; Graph-MLP's steps are its batches."""
    batch = graph.num_nodes if method.supervision is None else min(method.supervision.batch, graph.num_nodes)
    return batch <= SMALL_STEP


class Trained(NamedTuple):
    fitted: list[Fitted]
    stop_wanted: bool
    """Ctrl-C was pressed"""


@dataclass(frozen=True)
class Prepared:
    """A graph on its device with all that its repeats share: similarity and weights."""

    graph: Graph
    method: Method
    weights: NodeWeights
    device: torch.device
    seconds: float
    """that preparing took"""

    def checkpoint(self, path: str | Path, every: int, seed: int, graph: Graph | None = None) -> Checkpoint:
        identity = {"method": to_json(self.method), "seed": seed, "graph": (graph or self.graph).content}
        return Checkpoint(Path(path), every, identity)

    def groups(self, seeds: Sequence[int]) -> Iterator[Sequence[int]]:
        """Seeds that are trained together."""
        together = 1
        if self.device.type == "cuda":
            light = self.graph.num_nodes <= A_FEW_UP_TO and computed_by_fused_kernels(self.weights, self.method)
            together = TOGETHER if small_steps(self.graph, self.method) else A_FEW if light else 1
        return (seeds[first : first + together] for first in range(0, len(seeds), together))

    def train(
        self,
        seeds: Sequence[int],
        progress: Style = "none",
        title: str = "",
        graphs: Sequence[Graph] | None = None,
        checkpoints: Sequence[Checkpoint] = (),
    ) -> Trained:
        """Train one group, side by side; ``graphs`` may give every seed training labels of its own."""
        graphs = graphs or [self.graph] * len(seeds)
        tasks = [
            task_for(graph, self.method, self.weights, seed, self.device) for graph, seed in zip(graphs, seeds, strict=True)
        ]
        curves = train(tasks, self.method, self.device, progress, title, checkpoints)
        fitted = [
            Fitted(
                method=self.method,
                modules=task.finish().cpu(),
                num_features=self.graph.num_features,
                num_classes=self.graph.num_classes if self.method.needs_labels else 0,
                seed=seed,
                feature_names=self.graph.feature_names,
                losses=tuple(curve.losses),
                interrupted=curve.interrupted,
                seconds={"prepare": self.seconds, "train": curve.seconds},
                kernel=curve.kernel,
            )
            for task, curve, seed in zip(tasks, curves, seeds, strict=True)
        ]
        return Trained(fitted, curves[0].stop_wanted)


def prepare(
    data: Graph | Data,
    method: str | Method,
    *,
    preset: str | None = None,
    device: str = "auto",
    similarity: Any = None,
    memory: str | int | Plan | None = None,
    planned: bool = True,
    keep: Path | None = None,
    **settings: Any,
) -> Prepared:
    """Check everything, move the graph to its device, and compute similarity and weights.

    What is ``planned`` fits into the memory; otherwise the settings stay as they are given. ``keep`` is a folder for finished
    parts of similarity.
    """
    graph = as_graph(data)
    chosen = resolve(method, graph, preset).configure(**settings)
    check_usable(graph, chosen, own_similarity=similarity is not None)
    if chosen.feature_scale == "auto":
        chosen = chosen.configure(feature_scale="rows" if smallest_entry(graph.x) >= 0 else "none")
    where = device_named(device)
    start = time.perf_counter()
    there = graph.to(where)
    given = own_similarity(similarity, graph, chosen, where)
    kept = None
    if planned and given is None:
        if isinstance(memory, Plan):
            plan = replace(memory, method=memory.method.configure(**settings))
        else:
            limit = parse_memory(memory)
            plan = peers().from_first(lambda: plan_for(there, chosen, where, limit))
        chosen, kept = plan.method, plan.kept
    weights = weights_for(there, chosen, given, kept, keep)
    return Prepared(there, chosen, weights, where, time.perf_counter() - start)


def _checked_seeds(seeds: Any) -> list[int]:
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        raise SettingError(f"seeds must be a list of whole numbers, found {seeds!r}.")
    listed = list(seeds)
    if not listed:
        raise SettingError("seeds must name at least one seed, found none.")
    for seed in listed:
        check_whole("seed", seed, at_least=0)
    return [int(seed) for seed in listed]


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
    """ "auto" is the GPU if there is one; of several processes on a machine each has its own."""
    check_text("device", name)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise SettingError(f"device must be auto, cpu, cuda or cuda:N, found {name!r}.") from error
    if device.type not in ("cpu", "cuda"):
        raise SettingError(f"device must be auto, cpu, cuda or cuda:N, found {name!r}.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingError(f"device {name!r} was asked for, but PyTorch sees no GPU here; use cpu or auto.")
    among = peers()
    if device.type == "cuda" and among.size > 1:
        if ":" in name:
            raise SettingError(f"several processes take a GPU each: device must be auto, cpu or cuda, found {name!r}.")
        if among.local_size > torch.cuda.device_count():
            raise SettingError(
                f"{among.local_size} processes were started on this machine, and PyTorch sees {torch.cuda.device_count()} GPUs "
                "here: start as many as there are GPUs, or use cpu."
            )
        return torch.device("cuda", among.local_rank)
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
    if peers().size > 1 and method.views is None:
        raise SettingError(f"several processes share out the anchors of grace and gca; {method.name} is trained by one.")
    if graph.num_nodes < peers().size:
        raise GraphError(f"there must be at least as many nodes as processes, found {graph.num_nodes} and {peers().size}.")
    if graph.num_edges == 0 and method.needs_edges and not own_similarity:
        raise GraphError(
            f"the graph has no edges, and {method.name} learns from them; with features alone only a '+' method with beta=1 "
            "is possible."
        )
    if method.feature_scale == "rows" and smallest_entry(graph.x) < 0:
        raise GraphError("feature_scale='rows' divides by row sums, which needs features >= 0; use 'none'.")
    parameters = 4 * parameter_bytes(method, graph.num_features)  # with their gradients and both moments of Adam
    check_memory(
        f"training {method.name} with {graph.num_features:,} features and hidden={method.encoder.hidden:,}", parameters
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
