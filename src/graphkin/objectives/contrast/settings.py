"""The objective of GRACE, GCA and their "+": similar nodes attract in two views, others repel (docs/math.md, section 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from graphkin.errors import check_choice, check_flag, check_range, check_whole
from graphkin.execution import Execution, MethodLike
from graphkin.graphs.graph import Graph
from graphkin.models.layers import Projector
from graphkin.objectives.contrast.tasks import ContrastTask, SampledTask
from graphkin.objectives.contrast.ways import ways
from graphkin.objectives.kernels.precision import PRECISIONS
from graphkin.objectives.objective import Objective, Setup, Task
from graphkin.objectives.reference import POOLINGS
from graphkin.objectives.weighting import check_similarity, node_weights, use_edges
from graphkin.similarity import NodeSimilarity
from graphkin.support.components import LATER, SLOT, register
from graphkin.weights import NodeWeights, OwnCounterpart, Uniform


@register("Contrast")
@dataclass(frozen=True)
class Contrast(Objective):
    """Eq. (final_loss): who attracts and who repels an anchor, by which similarity, at which temperature.

    ``pooling`` is how positives are put together: "sum" of their exponentials (the paper), "mean" of their scores (the authors'
    program). ``projector`` is the hidden width of the projector (None: the encoder's; 0: no projector). Without ``both_views``
    (MA-GCL) an anchor is compared with the nodes of the other view alone.

    ``precision`` is that of the products of embeddings: "float32", "tf32", "bf16", or "auto", which is bf16 for more than 4,096
    nodes on a GPU with fused kernels and float32 otherwise. On a GPU the encoder multiplies in TF32 with "tf32", "bf16" and,
    for more than 4,096 nodes, "auto".
    """

    positives: Any = field(default=OwnCounterpart(), metadata=SLOT)
    negatives: Any = field(default=Uniform(), metadata=SLOT)
    similarity: Any = field(default=None, metadata=SLOT)
    tau: float = 0.4
    pooling: str = "sum"
    projector: int | None = None
    precision: str = "auto"
    both_views: bool = field(default=True, metadata=LATER)

    samples: ClassVar[bool] = True
    shares_anchors: ClassVar[bool] = True
    weighted: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_range("tau", self.tau, above=0)
        check_choice("pooling", self.pooling, POOLINGS)
        check_choice("precision", self.precision, PRECISIONS)
        if self.projector is not None:
            check_whole("projector", self.projector, at_least=0, at_most=2**16)
        check_flag("both_views", self.both_views)
        check_similarity(self)

    @property
    def needs_edges(self) -> bool:
        return use_edges(self)

    def ways(
        self,
        graph: Graph,
        method: MethodLike,
        device: torch.device,
        own: NodeSimilarity | None = None,
        *,
        adapt: bool = True,
    ) -> Iterator[Execution]:
        return ways(graph, method, device, own, adapt=adapt)

    def prepare(
        self, graph: Graph, execution: Execution, similarity: NodeSimilarity | None = None, folder: Path | None = None
    ) -> NodeWeights:
        weights = node_weights(graph, execution, similarity, folder)
        read_by_kernels = self.pooling == "mean" or execution.implementation != "fused"
        sampled = execution.method.sampling.samples(graph.num_nodes)
        return weights.stored() if execution.stored == "weights" and read_by_kernels and not sampled else weights

    def heads(self, width: int, num_classes: int, generator: torch.Generator) -> Mapping[str, nn.Module]:
        if self.projector == 0:
            return {"projector": nn.Identity()}
        return {"projector": Projector(width, self.projector or width, generator)}

    def task(self, setup: Setup) -> Task:
        sampled = setup.method.sampling.samples(setup.graph.num_nodes)
        return SampledTask(setup) if sampled else ContrastTask(setup)
