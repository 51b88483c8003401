"""Kinship: similar nodes attract each other in two passes of one encoder (docs/math.md, section 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from graphkin.errors import SettingError, check_choice, check_flag, check_range, check_whole, shown
from graphkin.execution import Execution, MethodLike
from graphkin.graphs.graph import Graph
from graphkin.models.layers import Projector
from graphkin.objectives.kernels.precision import PRECISIONS
from graphkin.objectives.kinship.tasks import KinshipTask, SampledKinshipTask
from graphkin.objectives.kinship.ways import draws_anchors, own_view_alone, ways
from graphkin.objectives.objective import Objective, Setup, Task
from graphkin.objectives.weighting import check_similarity, node_weights, use_edges
from graphkin.similarity import NodeSimilarity, Similarity
from graphkin.support.components import SLOT, register
from graphkin.weights import Attract, NodeWeights, ShortLists, Uniform

NOT_SAMPLED = ("candidates", "positives_sampled", "negatives_sampled")


@register("Kinship")
@dataclass(frozen=True)
class Kinship(Objective):
    """ℓ(u_i) = −Σ_j p_ij s_ij + log Σ_j e^{s_ij}: whom an anchor attracts, by which similarity, at which temperature.

    u and v are two passes through the encoder, which differ by its own noise; no edges or features are removed. p shares the
    attraction among similar nodes as w⁺ does. ``own`` is the share of a node's counterpart in it, and ``drop_positives`` the
    chance of every other positive to be left out of a step. A node without positives attracts its counterpart.

    ``both_views`` compares an anchor with the nodes of its own pass too, ``symmetric`` takes the rows of both passes as
    anchors. ``projector`` is the hidden width of the projector (None: the encoder's). ``precision`` is that of the products of
    embeddings and of the encoder: "float32", "tf32", "bf16", or "auto". In steps of more than 1,024 rows that is TF32 on a GPU
    (bf16 in the fused kernels, from 4,096 anchors on) and bf16 on a CPU that multiplies it fast, and float32 otherwise. On a
    GPU the encoder multiplies in TF32 at least.

    With ``anchors`` in the method's sampling, a step draws this many nodes and one positive of each from the 128 largest p_ij;
    the positives that were drawn are the candidates.
    """

    positives: Any = field(default=Attract(), metadata=SLOT)
    similarity: Any = field(default=Similarity(), metadata=SLOT)
    tau: float = 0.4
    own: float = 0.0
    drop_positives: float = 0.0
    symmetric: bool = False
    both_views: bool = False
    projector: int | None = 256
    precision: str = "auto"

    views: ClassVar[int] = 0
    samples: ClassVar[bool] = True
    shares_anchors: ClassVar[bool] = True
    shares_rows: ClassVar[bool] = True
    recordable: ClassVar[bool] = True
    negatives: ClassVar[Uniform] = Uniform()
    """all nodes repel alike"""

    def __post_init__(self) -> None:
        check_range("tau", self.tau, above=0)
        check_range("own", self.own, at_least=0, at_most=1)
        check_range("drop_positives", self.drop_positives, at_least=0, below=1)
        check_flag("symmetric", self.symmetric)
        check_flag("both_views", self.both_views)
        check_choice("precision", self.precision, PRECISIONS)
        if self.projector is not None:
            check_whole("projector", self.projector, at_least=1, at_most=2**16)
        check_similarity(self)

    @property
    def needs_edges(self) -> bool:
        return use_edges(self)

    def check(self, method: MethodLike) -> None:
        super().check(method)
        given = {name: getattr(method.sampling, name) for name in NOT_SAMPLED}
        for name, value in given.items():
            if value is not None:
                raise SettingError(f"{name} must be none with Kinship, whose steps draw anchors alone, found {shown(value)}.")

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
    ) -> NodeWeights | ShortLists:
        if draws_anchors(execution.method, graph.num_nodes):
            if own_view_alone(execution.method):
                return ShortLists.empty(graph.num_nodes, graph.edge_index.device)
            return ShortLists.of(node_weights(graph, execution, similarity, folder, read_once=True))
        weights = node_weights(graph, execution, similarity, folder)
        return weights.stored() if execution.stored == "weights" else weights

    def heads(self, width: int, num_classes: int, generator: torch.Generator) -> Mapping[str, nn.Module]:
        return {"projector": Projector(width, self.projector or width, generator)}

    def heads_of_blocks(self, widths: tuple[int, ...], num_classes: int, generator: torch.Generator) -> Mapping[str, nn.Module]:
        projectors = [Projector(width, self.projector or width, generator) for width in widths]
        return {"projector": projectors[0] if len(projectors) == 1 else nn.ModuleList(projectors)}

    def task(self, setup: Setup) -> Task:
        drawn = draws_anchors(setup.method, setup.graph.num_nodes)
        return SampledKinshipTask(setup) if drawn else KinshipTask(setup)
