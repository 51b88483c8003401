"""What one epoch of a method does: two views against each other, or one view with labels."""

from __future__ import annotations

import copy
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphkin.fitted import modules_for, prepared_features
from graphkin.graphs import Graph
from graphkin.losses import TwoViewLoss
from graphkin.methods import Method
from graphkin.objective import neighbourhood
from graphkin.randomness import generator
from graphkin.similarity import NodeSimilarity
from graphkin.weights import Candidates, NodeWeights

STORE_BELOW_BYTES = 4 * 2**30
"""Similarity and weights are kept as N×N matrices while they fit in this; beyond, blocks are computed when needed."""


class Task(Protocol):
    modules: nn.ModuleDict

    def loss(self) -> Tensor: ...
    def after_epoch(self) -> None: ...
    def finish(self) -> nn.ModuleDict:
        """The trained modules."""
        ...


def task_for(graph: Graph, method: Method, seed: int, device: torch.device, similarity: NodeSimilarity | None = None) -> Task:
    """``similarity`` takes the place of the one that the method's settings describe."""
    weights = weights_for(graph, method, similarity)
    build = TwoViewTask if method.views is not None else SupervisedTask
    return build(graph, method, weights, seed, device)


class TwoViewTask:
    """GRACE, GCA and their "+": encode two views, project, contrast."""

    def __init__(self, graph: Graph, method: Method, weights: NodeWeights, seed: int, device: torch.device) -> None:
        assert method.views is not None
        self.modules = modules_for(method, graph.num_features, 0, seed).to(device)
        self.x = prepared_features(method, graph.x)
        self.plan = method.views.plan(graph)
        settings = method.optimiser
        self.contrast = TwoViewLoss(
            weights,
            method.tau,
            method.pooling,
            anchors=settings.anchors,
            positives=settings.positives_sampled,
            negatives=settings.negatives_sampled,
            seed=seed,
        )
        self.view_generator = generator(seed, "views", device)
        self.noise_generator = generator(seed, "noise", device)

    def loss(self) -> Tensor:
        u, v = (self._project(view) for view in (0, 1))
        loss: Tensor = self.contrast(u, v)
        return loss

    def _project(self, view: int) -> Tensor:
        drawn = self.plan.draw(view, self.view_generator)
        projected: Tensor = self.modules["projector"](self.modules["encoder"](self.x, drawn, self.noise_generator))
        return projected

    def after_epoch(self) -> None: ...

    def finish(self) -> nn.ModuleDict:
        return self.modules


class SupervisedTask:
    """Graph-MLP and its "+": cross entropy on the training nodes plus contrast within a batch that holds them all.

    The parameters of the best validation accuracy are the ones that are kept.
    """

    def __init__(self, graph: Graph, method: Method, weights: NodeWeights, seed: int, device: torch.device) -> None:
        assert method.supervision is not None and graph.y is not None
        assert graph.train_mask is not None and graph.val_mask is not None
        self.modules = modules_for(method, graph.num_features, graph.num_classes, seed).to(device)
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
        self.best_accuracy = -1.0
        self.best_state = copy.deepcopy(self.modules.state_dict())

    def loss(self) -> Tensor:
        assert self.method.supervision is not None
        nodes = self._batch()
        z = self.modules["encoder"](self.dense_x[nodes], self.noise_generator)
        labelled = torch.isin(nodes, self.train_nodes)
        cross_entropy = F.cross_entropy(self.modules["classifier"](z[labelled]), self.y[nodes[labelled]])
        weights = self.weights.block(nodes, Candidates(nodes))
        contrast = neighbourhood(F.normalize(z, dim=1), weights, self.method.tau)
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
        accuracy = float((logits.argmax(dim=1) == self.y[self.val_nodes]).float().mean())
        if accuracy > self.best_accuracy:
            self.best_accuracy = accuracy
            self.best_state = copy.deepcopy(self.modules.state_dict())

    def finish(self) -> nn.ModuleDict:
        self.modules.load_state_dict(self.best_state)
        return self.modules


def weights_for(graph: Graph, method: Method, similarity: NodeSimilarity | None = None) -> NodeWeights:
    """The weights of a graph under a method, kept as matrices where that fits."""
    two_views = method.views is not None
    fits = 3 * 4 * graph.num_nodes**2 <= STORE_BELOW_BYTES
    if similarity is None and method.similarity is not None:
        similarity = method.similarity.on(graph)
    if similarity is not None and fits:
        similarity = similarity.stored()
    weights = NodeWeights(
        method.positives.on(graph, similarity, two_views),
        method.negatives.on(graph, similarity),
        graph.num_nodes,
        graph.edge_index.device,
    )
    return weights.stored() if fits and two_views else weights
