"""What one epoch of a method does: two views against each other, or one view with labels."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphkin.graphs.arrays import Features
from graphkin.graphs.graph import Graph
from graphkin.methods.method import Method
from graphkin.models.encoders import GCN, GCNEncoder
from graphkin.models.neighbours import NeighbourPlan
from graphkin.objectives.kernels import TRUSTED_TAU, choose, one_view_loss
from graphkin.objectives.kernels.precision import of_encoder, products_in
from graphkin.objectives.losses import TwoViewLoss
from graphkin.similarity import Blend, FeatureCosine, NodeSimilarity, Similarity, Stored
from graphkin.support.parallel import peers
from graphkin.support.randomness import generator
from graphkin.support.sparse import SparseMatrix
from graphkin.training.fitted import modules_for, prepared_features
from graphkin.training.plans import ANCHORS, EXACT_TEMPERATURES, Kept, matrices_fit
from graphkin.weights.node import Attraction, Linked, NodeWeights, Repulsion, StoredWeights
from graphkin.weights.sampling import SomeNodes, draw_candidates, similar_nodes

DENSE_ABOVE = 0.03
"""A GPU multiplies features faster as a dense matrix where more of them than this are not zero."""


class Task(Protocol):
    modules: nn.ModuleDict
    encoder_precision: str
    """of its products, forward and backward"""

    @property
    def kernel(self) -> str | None:
        """The implementation and precision of the contrast that were taken, once a step was made."""
        ...

    def loss(self) -> Tensor: ...
    def after_epoch(self) -> None: ...
    def finish(self) -> nn.ModuleDict:
        """The trained modules."""
        ...

    @property
    def sources(self) -> dict[str, torch.Generator]:
        """All sources of randomness."""
        ...

    @property
    def memory(self) -> dict[str, Tensor]:
        """What a task remembers between epochs besides its modules; to be changed in place."""
        ...

    @property
    def generators(self) -> list[torch.Generator] | None:
        """All sources of randomness of a step that can be recorded once and replayed; None where it cannot."""
        ...


def task_for(graph: Graph, method: Method, weights: NodeWeights, seed: int, device: torch.device) -> Task:
    if method.views is None:
        return SupervisedTask(graph, method, weights, seed, device)
    build = SampledTask if method.optimiser.samples(graph.num_nodes) else TwoViewTask
    return build(graph, method, weights, seed, device)


class TwoViewTask:
    """GRACE, GCA and their "+": encode two views, project, contrast."""

    def __init__(
        self,
        graph: Graph,
        method: Method,
        weights: NodeWeights,
        seed: int,
        device: torch.device,
        implementation: str = "auto",
    ) -> None:
        assert method.views is not None
        self.modules = modules_for(method, graph.num_features, 0, seed).to(device)
        self.x = _as_fast(prepared_features(method, graph.x))
        self.plan = self._plan(graph, method)
        settings = method.optimiser
        self.device, self.encoder_precision = device, of_encoder(settings.precision, graph.num_nodes)
        self.contrast = TwoViewLoss(
            weights,
            method.tau,
            method.pooling,
            anchors=settings.anchors,
            positives=settings.positives_sampled,
            negatives=settings.negatives_sampled,
            seed=seed,
            implementation=implementation,
            precision=settings.precision,
        )
        self.view_generator = generator(seed, "views", device)
        self.noise_generator = generator(seed, "noise", device)

    def _plan(self, graph: Graph, method: Method) -> Any:
        assert method.views is not None
        return method.views.plan(graph)

    def loss(self) -> Tensor:
        with products_in(self.encoder_precision, self.device):
            u, v = (self._project(view) for view in (0, 1))
        loss: Tensor = self.contrast(u, v)
        return loss

    def _project(self, view: int, nodes: Tensor | None = None) -> Tensor:
        drawn = self.plan.draw(view, self.view_generator)
        encoded: Tensor = self.modules["encoder"](self.x, drawn, self.noise_generator)
        projected: Tensor = self.modules["projector"](encoded if nodes is None else encoded[nodes])
        return projected

    def after_epoch(self) -> None: ...

    def finish(self) -> nn.ModuleDict:
        return self.modules

    @property
    def sources(self) -> dict[str, torch.Generator]:
        return {"views": self.view_generator, "noise": self.noise_generator, "sampling": self.contrast.generator}

    @property
    def memory(self) -> dict[str, Tensor]:
        return {}

    @property
    def kernel(self) -> str | None:
        return self.contrast.kernel

    @property
    def generators(self) -> list[torch.Generator] | None:
        if peers().size > 1:
            return None
        own_sets = (self.contrast.positives, self.contrast.negatives) != (None, None)
        fused = self.contrast.kernel is not None and self.contrast.kernel.startswith("fused")
        pooled = self.contrast.pooling == "mean" and not isinstance(self.contrast.weights, StoredWeights)
        if own_sets or pooled or not fused or not _never_waits(self.contrast.weights, self.contrast.anchors):
            return None
        return [self.view_generator, self.noise_generator, self.contrast.generator]


class SampledTask(TwoViewTask):
    """The same from some nodes that stand for all, and from some neighbours of theirs."""

    def __init__(self, graph: Graph, method: Method, weights: NodeWeights, seed: int, device: torch.device) -> None:
        super().__init__(graph, method, weights, seed, device)
        self.settings, self.weights = method.optimiser, weights

    def _plan(self, graph: Graph, method: Method) -> Any:
        settings = method.optimiser
        if settings.neighbours is None:
            return super()._plan(graph, method)
        assert isinstance(method.encoder, GCN) and method.views is not None
        return NeighbourPlan(graph, method.views, settings.neighbours, method.encoder.layers)

    def loss(self) -> Tensor:
        nodes, source = self.weights.num_nodes, self.contrast.generator
        assert self.settings.candidates is not None
        count = min(self.settings.anchors or ANCHORS, nodes)
        anchors = torch.randperm(nodes, generator=source, device=self.weights.device)[:count].sort().values
        drawn = draw_candidates(nodes, anchors, self.settings.candidates, source, self.weights.near, self.settings.near)
        some = torch.cat([anchors, drawn.columns]).unique()
        with products_in(self.encoder_precision, self.device):
            u, v = self._projected(some)
        places = drawn._replace(columns=torch.searchsorted(some, drawn.columns))
        return self.contrast.contrast(u, v, SomeNodes.of(self.weights, some), torch.searchsorted(some, anchors), places)

    def _projected(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Both views of ``nodes``; where a process can encode its share of them alone, it does."""
        if not isinstance(self.plan, NeighbourPlan):
            return self._project(0, nodes), self._project(1, nodes)
        mine = peers().share(nodes)
        both = torch.cat([self._project_some(view, mine) for view in (0, 1)], dim=1)
        u, v = peers().gather(both, len(nodes)).chunk(2, dim=1)
        return u, v

    def _project_some(self, view: int, nodes: Tensor) -> Tensor:
        assert isinstance(self.plan, NeighbourPlan)
        drawn = self.plan.draw(view, nodes, self.x, self.view_generator)
        encoder = self.modules["encoder"]
        assert isinstance(encoder, GCNEncoder)
        projected: Tensor = self.modules["projector"](encoder.of_some_nodes(drawn, self.noise_generator))
        return projected

    @property
    def generators(self) -> list[torch.Generator] | None:
        return None


class SupervisedTask:
    """Graph-MLP and its "+": cross entropy on the training nodes plus contrast within a batch that holds them all.

    The parameters of the best validation accuracy are the ones that are kept.
    """

    def __init__(self, graph: Graph, method: Method, weights: NodeWeights, seed: int, device: torch.device) -> None:
        assert method.supervision is not None and graph.y is not None
        assert graph.train_mask is not None and graph.val_mask is not None
        self.modules = modules_for(method, graph.num_features, graph.num_classes, seed).to(device)
        self.encoder_precision = "float32"
        self.method = method
        self.x = prepared_features(method, graph.x)
        self.dense_x = self.x if isinstance(self.x, Tensor) else self.x.to_dense()
        self.y = graph.y
        self.train_nodes = graph.train_mask.nonzero()[:, 0]
        self.other_nodes = (~graph.train_mask).nonzero()[:, 0]
        self.val_nodes = graph.val_mask.nonzero()[:, 0]
        self.weights = weights
        self.batch_generator = generator(seed, "batches", device)
        self.noise_generator = generator(seed, "noise", device)
        self.best_accuracy = torch.tensor(-1.0, device=device)
        self.best_state = copy.deepcopy(self.modules.state_dict())

    def loss(self) -> Tensor:
        assert self.method.supervision is not None
        nodes = self._batch()
        z = self.modules["encoder"](self.dense_x[nodes], self.noise_generator)
        labelled = torch.searchsorted(nodes, self.train_nodes)
        cross_entropy = F.cross_entropy(self.modules["classifier"](z[labelled]), self.y[self.train_nodes])
        contrast = one_view_loss(F.normalize(z, dim=1), self.weights, nodes, self.method.tau)
        return cross_entropy + self.method.supervision.contrast_weight * contrast

    def _batch(self) -> Tensor:
        """All training nodes and a random rest, in increasing order."""
        assert self.method.supervision is not None
        room = max(self.method.supervision.batch - self.train_nodes.numel(), 0)
        order = torch.randperm(self.other_nodes.numel(), generator=self.batch_generator, device=self.other_nodes.device)
        return torch.cat([self.train_nodes, self.other_nodes[order[:room]]]).sort().values

    @torch.no_grad()
    def after_epoch(self) -> None:
        self.modules.eval()
        logits = self.modules["classifier"](self.modules["encoder"](self.dense_x[self.val_nodes]))
        accuracy = (logits.argmax(dim=1) == self.y[self.val_nodes]).float().mean()
        better = accuracy > self.best_accuracy
        self.best_accuracy.copy_(torch.where(better, accuracy, self.best_accuracy))
        for name, value in self.modules.state_dict().items():
            self.best_state[name].copy_(torch.where(better, value, self.best_state[name]))

    def finish(self) -> nn.ModuleDict:
        self.modules.load_state_dict(self.best_state)
        return self.modules

    @property
    def sources(self) -> dict[str, torch.Generator]:
        return {"batches": self.batch_generator, "noise": self.noise_generator}

    @property
    def memory(self) -> dict[str, Tensor]:
        return {"best_accuracy": self.best_accuracy, **{f"best.{name}": value for name, value in self.best_state.items()}}

    @property
    def kernel(self) -> str | None:
        return "symmetric float32"

    @property
    def generators(self) -> list[torch.Generator] | None:
        positives = self.weights.positive
        used: list[object] = [positives.matrix] if isinstance(positives, Linked) else []
        for part in (positives, self.weights.negative):
            if isinstance(part, Attraction | Repulsion):
                used.append(part.similarity.matrix if isinstance(part.similarity, Stored) else None)
        never_waits = all(isinstance(matrix, Tensor) for matrix in used) and self.method.tau >= TRUSTED_TAU
        return [self.batch_generator, self.noise_generator] if never_waits else None


def weights_for(
    graph: Graph,
    method: Method,
    similarity: NodeSimilarity | None = None,
    kept: Kept | None = None,
    keep: Path | None = None,
) -> NodeWeights:
    """The weights of a graph under a method. What is ``kept`` are N×N matrices (None: what fits), weights only where they are
    read: the fused kernels (but for "mean" pooling), Graph-MLP and sampled steps compute them from similarity.

    ``similarity`` takes the place of the one that the method's settings describe; sampled steps read it as it is.
    Temperatures by effective counts are found here, from all pairs of nodes, unless these are too many to compute: sampled
    steps then find those of their anchors.
    """
    two_views, sampled = method.views is not None, method.optimiser.samples(graph.num_nodes)
    device = graph.edge_index.device
    kept = _to_keep(graph, kept)
    if similarity is None:
        similarity = similarity_for(graph, method, kept, keep)
    elif kept != "nothing" and not sampled:
        similarity = similarity.stored()
    at_hand = isinstance(similarity, Stored) and isinstance(similarity.matrix, Tensor)
    lazy = sampled and not at_hand and graph.num_nodes > EXACT_TEMPERATURES[device.type]
    positives = method.positives.on(graph, similarity, two_views, lazy)
    if (
        kept != "nothing"
        and isinstance(positives, Linked)
        and isinstance(positives.matrix, SparseMatrix)
        and device.type == "cuda"
    ):
        positives = Linked(positives.matrix.to_dense())
    near = similar_nodes(positives.similarity) if sampled and isinstance(positives, Attraction) else None
    weights = NodeWeights(positives, method.negatives.on(graph, similarity, lazy), graph.num_nodes, device, near)
    if kept != "weights" or not two_views or sampled:
        return weights
    read = method.pooling == "mean" or not computed_by_fused_kernels(weights, method)
    return weights.stored() if read else weights


def similarity_for(graph: Graph, method: Method, kept: Kept | None = None, keep: Path | None = None) -> NodeSimilarity | None:
    """The similarity that the method's settings describe, as a matrix if it is to be ``kept`` (None: where that fits).

    Sampled steps compute pairs of the few largest PageRanks, or of labels, when they need them.
    """
    if method.similarity is None:
        return None
    similarity = method.similarity.on(graph, keep=keep)
    from_all_pairs = isinstance(method.similarity, Similarity) and method.similarity.top_k is None
    if method.optimiser.samples(graph.num_nodes) and not from_all_pairs:
        return similarity
    return similarity if _to_keep(graph, kept) == "nothing" else similarity.stored()


def _to_keep(graph: Graph, kept: Kept | None) -> Kept:
    """As given, or as it fits where the first process runs: all of them must do the same."""
    if kept is not None:
        return kept
    fits = peers().from_first(lambda: matrices_fit(graph.num_nodes, graph.edge_index.device))
    return "weights" if fits else "nothing"


def computed_by_fused_kernels(weights: NodeWeights, method: Method) -> bool:
    settings = method.optimiser
    own_sets = settings.positives_sampled is not None or settings.negatives_sampled is not None
    if method.views is None or own_sets or settings.samples(weights.num_nodes):
        return False
    embeddings = torch.empty(1, method.encoder.hidden, device=weights.device)
    return embeddings.is_cuda and choose(embeddings, weights, method.tau) == "fused"


def _never_waits(weights: NodeWeights, anchors: int | None) -> bool:
    """Whether a step of the fused kernels only queues work: similarity is stored, or features and sparse rows are at hand."""
    similarity = None if weights.functions is None else weights.functions.similarity
    if isinstance(similarity, Blend):
        features, structure = similarity.features, similarity.structure
        at_hand = isinstance(structure, Stored) and isinstance(features, FeatureCosine) and isinstance(features.unit, Tensor)
        return at_hand and anchors is None
    return similarity is None or isinstance(similarity, Stored)


def _as_fast(x: Features) -> Features:
    if isinstance(x, SparseMatrix) and x.device.type == "cuda":
        dense_enough = x.values.numel() > DENSE_ABOVE * x.shape[0] * x.shape[1]
        return x.to_dense() if dense_enough else x
    return x
