"""The decision how a method is trained on a graph, within a memory. Training, kernels, plans and benchmarks all read it.

An objective knows in which ways it can be computed (``ways``), the one that changes the result least first. The first that fits
is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import torch

from graphkin.errors import MemoryLimitError
from graphkin.execution.memory import bytes_of, memory_in_use, whole_memory
from graphkin.execution.sampling import Sampling
from graphkin.graphs.graph import Graph
from graphkin.models.encoder import Encoder, declares, embedding_memory_of, width_of
from graphkin.models.views import TwoViews
from graphkin.similarity import NodeSimilarity
from graphkin.support.parallel import ALONE, Peers, peers

STORE_BELOW_SHARE = 0.25
"""Without a limit of the user's, N×N matrices are stored while they fit in this share of the memory of machine or GPU."""
SMALL_STEP, TOGETHER = 8192, 8
"""nodes in a step up to which one repeat does not fill a GPU, and how many repeats it then trains at a time"""

Stored = Literal["nothing", "similarity", "weights"]
"""what is an N×N matrix; with weights, similarity is one too"""


@dataclass(frozen=True)
class Execution:
    """How a method is trained on a graph."""

    words: str
    method: Any
    """the method with the settings that this way of training adds"""
    stored: Stored = "nothing"
    implementation: str = "reference"
    """of the objective: the form it is computed in"""
    precision: str = "float32"
    """of the products in the objective"""
    encoder_precision: str = "float32"
    """of the products in the encoder, forward and backward"""
    recorded: bool = False
    """whether a GPU records a step once and replays it"""
    together: int = 1
    """repeats that a GPU trains at a time"""
    in_files: int = 0
    """bytes of what the encoder takes that lie in files, which are mapped into memory"""
    needs: int = 0
    """bytes at the peak beside the graph, its features and what is in memory already"""
    estimate: int = 0
    """bytes at the peak: on a CPU of the whole process, on a GPU of what PyTorch allocates"""
    memory: int = 0
    """bytes that may be used"""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """the settings that were asked for, where others are used"""

    def __str__(self) -> str:
        return f"{self.words}; about {self.estimate / 2**30:.1f} of {self.memory / 2**30:.1f} GiB"

    @property
    def kernel(self) -> str:
        """Implementation and precision of the objective."""
        return f"{self.implementation} {self.precision}"

    @property
    def change(self) -> str | None:
        """Where this is another algorithm than the one that was asked for: one line that says so."""
        if not self.asked:
            return None
        used = self.method.settings()
        changed = ", ".join(f"{name}={used[name]} instead of {value}" for name, value in self.asked.items())
        limit = f"{self.memory / 2**30:.1f} GiB"
        return f"comparing all pairs of nodes takes too long or more than {limit}: {self.words} ({changed})."

    def record(self) -> dict[str, Any]:
        """As plain data, for files: the same for two runs that were trained in the same way."""
        names = ("words", "stored", "implementation", "precision", "encoder_precision", "recorded")
        return {name: getattr(self, name) for name in names} | {"change": self.change}


class MethodLike(Protocol):
    """What a decision reads of a method."""

    @property
    def name(self) -> str: ...
    @property
    def encoder(self) -> Encoder: ...
    @property
    def views(self) -> TwoViews | None: ...
    @property
    def objective(self) -> Any: ...
    @property
    def sampling(self) -> Sampling | None: ...
    def settings(self) -> dict[str, Any]: ...
    def configure(self, /, **settings: Any) -> Any: ...


def decide(
    graph: Graph,
    method: MethodLike,
    device: torch.device,
    memory: int | None = None,
    similarity: NodeSimilarity | None = None,
) -> Execution:
    """The first way that fits into ``memory`` (None: what the device has); an error says how much the smallest one needs.

    ``similarity`` is a user's own.
    """
    limit = memory or whole_memory(device)
    there = memory_in_use(device) + 2 * bytes_of(graph.x)
    found: list[Execution] = []
    for way in _ways(graph, method, device, similarity):
        needs = max(way.needs, _embedding(graph, method, device) - way.in_files)
        execution = replace(way, estimate=there + needs, memory=limit)
        by_rule = way.stored != "nothing" and memory is None
        if matrices_fit(graph.num_nodes, device, way.stored) if by_rule else execution.estimate <= limit:
            return execution
        found.append(execution)
    smallest = min(found, key=lambda execution: execution.estimate)
    raise MemoryLimitError(
        f"memory must be at least about {smallest.estimate / 2**30 + 0.005:.2f} GiB for {method.name} on {graph.name} "
        f"({smallest.words}), found {limit / 2**30:.2f} GiB."
    )


def as_asked(graph: Graph, method: MethodLike, device: torch.device, similarity: NodeSimilarity | None = None) -> Execution:
    """The first way that changes no setting and stores only what is small beside the memory."""
    listed = list(method.objective.ways(graph, method, device, similarity, adapt=False))
    fitting = (way for way in listed if way.stored == "nothing" or matrices_fit(graph.num_nodes, device, way.stored))
    chosen: Execution = next(fitting, listed[-1])
    return replace(chosen, memory=whole_memory(device))


def rows_among(method: MethodLike) -> Peers:
    """The processes of which each holds and encodes its share of the rows; only this one where it needs all of them."""
    shared = method.objective.shares_rows and declares(method.encoder, "shares_rows")
    return peers() if shared else ALONE


def together_on(device: torch.device, nodes: int) -> int:
    """How many repeats with so many nodes in a step are trained at a time."""
    return TOGETHER if device.type == "cuda" and nodes <= SMALL_STEP else 1


def matrices_fit(nodes: int, device: torch.device, stored: Stored = "weights") -> bool:
    """Whether N×N matrices of similarity, and of both weights, are small beside the memory."""
    matrices = 3 if stored == "weights" else 1
    return matrices * 4 * nodes**2 <= STORE_BELOW_SHARE * whole_memory(device)


def _ways(graph: Graph, method: MethodLike, device: torch.device, own: NodeSimilarity | None) -> Iterator[Execution]:
    asked = method.settings()
    for way in method.objective.ways(graph, method, device, own, adapt=True):
        used = way.method.settings()
        yield replace(way, asked={name: value for name, value in asked.items() if used[name] != value})


def _embedding(graph: Graph, method: MethodLike, device: torch.device) -> int:
    """What ``embed`` needs after training, which on a GPU is over by then, unless the encoder settles there."""
    nodes, features = graph.num_nodes, graph.num_features
    stated = embedding_memory_of(method.encoder, nodes, features, rows_among(method).size)
    if stated is None and device.type == "cuda":
        return 0
    return 30 * (2 * graph.num_edges + nodes) + (
        2 * 4 * nodes * width_of(method.encoder, features) if stated is None else stated
    )
