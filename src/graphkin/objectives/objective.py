"""The slot for an objective: what training minimises, and all that only it knows.

An objective is a frozen dataclass of settings. It says in which ``ways`` it can be computed on a graph, what it needs
``prepared`` for the graph, which modules it trains beside the encoder (``heads``), and gives the ``task`` of one training run,
whose ``loss`` is a step. :class:`graphkin.objectives.bootstrap.Bootstrap` is an example in one short file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from graphkin.errors import SettingError
from graphkin.execution import Execution, MethodLike, together_on
from graphkin.graphs.graph import Graph
from graphkin.models.encoder import declares, inputs_memory_of, memory_of, width_of
from graphkin.similarity import NodeSimilarity
from graphkin.support.parallel import peers


@dataclass(frozen=True)
class Setup:
    """What one training run is made of."""

    graph: Graph
    """on its device, with the labels of this run"""
    x: Any
    """features as the encoder takes them, or what it makes of them"""
    prepared: Any
    """what :meth:`Objective.prepare` gave"""
    execution: Execution
    modules: nn.ModuleDict
    """the encoder, and the heads of the objective"""
    seed: int
    device: torch.device

    @property
    def method(self) -> Any:
        return self.execution.method


class Task(ABC):
    """One training run: its modules, and what a step does with them."""

    def __init__(self, setup: Setup) -> None:
        self.modules = setup.modules
        self.execution = setup.execution
        self.sources: dict[str, torch.Generator] = {}
        """all sources of randomness, by name"""
        self.memory: dict[str, Tensor] = {}
        """what is remembered between epochs besides the modules; changed in place"""

    @abstractmethod
    def loss(self) -> Tensor:
        """The loss of one step, with gradient."""

    def after_epoch(self) -> None:
        """What is done after the optimiser's step."""
        return

    def finish(self) -> nn.ModuleDict:
        """The trained modules."""
        return self.modules


class Objective(ABC):
    """What every objective has; frozen dataclasses inherit it for its defaults."""

    views: ClassVar[int] = 2
    """how many views of the graph it compares; 0: it takes rows of features in batches"""
    samples: ClassVar[bool] = False
    """whether a step may look at some nodes only, as the component Sampling says"""
    shares_anchors: ClassVar[bool] = False
    """whether several processes can share out its anchors"""
    shares_rows: ClassVar[bool] = False
    """whether each of them can then hold and encode rows of its own, where the encoder can"""
    recordable: ClassVar[bool] = False
    """whether a step on a GPU never asks the device for a value, so that it may be recorded and replayed"""
    needs_labels: ClassVar[bool] = False
    trains: ClassVar[bool] = True
    """whether there is anything to train"""
    weighted: ClassVar[bool] = False
    """whether it has ``positives``, ``negatives`` and ``similarity``, which "+" replaces"""

    @property
    def needs_edges(self) -> bool:
        return True

    def check(self, method: MethodLike) -> None:
        """Refuse components that do not go together."""
        if (self.views == 2) != (method.views is not None):
            wanted = "two views of the graph" if self.views == 2 else "no views of the graph: views must be None"
            raise SettingError(f"{type(self).__name__} takes {wanted}, found {method.views!r}.")
        hops = getattr(method.views, "most_hops", None)
        if hops is not None and not declares(method.encoder, "counts_hops"):
            encoder = type(method.encoder).__name__
            raise SettingError(f"most_hops must be none with the encoder {encoder}, which counts no hops, found {hops}.")
        blocks = getattr(method.encoder, "trained_widths", None)
        if self.trains and callable(blocks) and not blocks():
            raise SettingError(f"{type(self).__name__} must have something to train, found {method.encoder!r}.")

    def ways(
        self,
        graph: Graph,
        method: MethodLike,
        device: torch.device,
        own: NodeSimilarity | None = None,
        *,
        adapt: bool = True,
    ) -> Iterator[Execution]:
        """How it can be computed on a graph; what changes the result least comes first.

        ``own`` is a user's similarity. With ``adapt``, ways that change settings are among them.
        """
        width = width_of(method.encoder, graph.num_features)
        edges = 2 * graph.num_edges + graph.num_nodes
        needs = memory_of(method.encoder, graph.num_nodes, edges, width) + 16 * 4 * graph.num_nodes * width
        needs += inputs_memory_of(method.encoder, graph.num_nodes, graph.num_features)
        same_shape = getattr(method.views, "most_hops", None) is None
        records = device.type == "cuda" and peers().size == 1 and self.recordable and declares(method.encoder, "recordable")
        records = records and same_shape
        yield Execution(
            "all nodes at once", method, recorded=records, together=together_on(device, graph.num_nodes), needs=needs
        )

    def prepare(
        self, graph: Graph, execution: Execution, similarity: NodeSimilarity | None = None, folder: Path | None = None
    ) -> Any:
        """What all runs on a graph share. Finished parts of it may be left in ``folder``, from which the next call resumes."""
        return None

    @abstractmethod
    def heads(self, width: int, num_classes: int, generator: torch.Generator) -> Mapping[str, nn.Module]:
        """The modules that are trained along with the encoder, by name."""

    def heads_of_blocks(self, widths: tuple[int, ...], num_classes: int, generator: torch.Generator) -> Mapping[str, nn.Module]:
        """The same for an encoder that gives several blocks side by side."""
        return self.heads(sum(widths), num_classes, generator)

    @abstractmethod
    def task(self, setup: Setup) -> Task: ...
