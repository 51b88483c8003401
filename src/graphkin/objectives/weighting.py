"""What objectives with weighted positives and negatives share: the weights of a graph, prepared as an execution says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphkin.errors import SettingError
from graphkin.execution import Execution, Stored
from graphkin.graphs.graph import Graph
from graphkin.similarity import BLOCK, BLOCK_PAIRS, NodeSimilarity
from graphkin.similarity import Stored as StoredSimilarity
from graphkin.support.sparse import SparseMatrix
from graphkin.weights import Linked, NodeWeights
from graphkin.weights.sampling import similar_nodes

EXACT_TEMPERATURES = {"cpu": 10_000, "cuda": 100_000}
"""nodes up to which temperatures by effective counts are found from all pairs, even if steps are sampled and store none"""


def check_similarity(objective: Any) -> None:
    by_similarity = objective.positives.uses_similarity or objective.negatives.uses_similarity
    if by_similarity and objective.similarity is None:
        raise SettingError("a method that attracts or repels by similarity needs a similarity.")


def use_edges(objective: Any) -> bool:
    """Only similarity of features alone makes sense without edges."""
    return getattr(objective.positives, "needs_edges", False) or getattr(objective.similarity, "needs_edges", True)


def node_weights(
    graph: Graph,
    execution: Execution,
    similarity: NodeSimilarity | None = None,
    folder: Path | None = None,
    *,
    read_once: bool = False,
    counterpart: bool | None = None,
) -> NodeWeights:
    """The weights of a graph. ``similarity`` is a user's, or the one that the settings describe, computed before.

    A node itself is one of its positives with ``counterpart``; None: where the method has two views.

    Weights that are ``read_once`` have their temperatures found with them, and on a large graph those of similar nodes alone
    are to be read (``near``).
    """
    method, stored = execution.method, execution.stored
    objective = method.objective
    itself = method.views is not None if counterpart is None else counterpart
    sampled = method.sampling is not None and method.sampling.samples(graph.num_nodes)
    device = graph.edge_index.device
    if similarity is None:
        similarity = node_similarity(graph, method, stored, folder)
    elif stored != "nothing" and not sampled:
        similarity = similarity.stored()
    is_matrix = isinstance(similarity, StoredSimilarity) and isinstance(similarity.matrix, Tensor)
    large = graph.num_nodes > EXACT_TEMPERATURES[device.type]
    lazy = read_once or (sampled and not is_matrix and large)
    positives = objective.positives.on(graph, similarity, itself, lazy)
    if stored != "nothing" and device.type == "cuda" and isinstance(positives, Linked):
        matrix = positives.matrix
        positives = replace(positives, matrix=matrix.to_dense() if isinstance(matrix, SparseMatrix) else matrix)
    drawn = (sampled or (read_once and large)) and objective.positives.uses_similarity
    near = similar_nodes(similarity) if drawn and similarity is not None else None
    return NodeWeights(positives, objective.negatives.on(graph, similarity, lazy), graph.num_nodes, device, near)


def node_similarity(graph: Graph, method: Any, stored: Stored, folder: Path | None = None) -> NodeSimilarity | None:
    """The similarity that the method's settings describe, as a matrix if it is to be stored.

    Sampled steps compute pairs of the few largest PageRanks, or of labels, when they need them.
    """
    settings = method.objective.similarity
    if settings is None:
        return None
    similarity: NodeSimilarity = settings.on(graph, folder=folder)
    sampled = method.sampling is not None and method.sampling.samples(graph.num_nodes)
    if sampled and not getattr(settings, "of_all_pairs", True):
        return similarity
    return similarity if stored == "nothing" else similarity.stored()


def similarity_bytes(graph: Graph, method: Any, stored: Stored, *, weights: bool) -> int:
    """What stays in memory while training: the similarity and, where they are read, the ``weights``."""
    nodes: int = graph.num_nodes
    objective = method.objective
    if objective.similarity is None:
        return 0
    if stored != "nothing":
        matrices = int(objective.positives.uses_similarity) + int(objective.negatives.uses_similarity)
        return 4 * nodes**2 * (1 + (matrices if stored == "weights" and weights else 0))
    top_k = getattr(objective.similarity, "top_k", None)
    return 0 if top_k is None else 12 * int(1.25 * nodes * min(int(top_k), nodes))


def preparing_bytes(graph: Graph, method: Any, stored: Stored, device: torch.device) -> int:
    """What finding the similarity and its temperatures takes at the peak."""
    nodes: int = graph.num_nodes
    similarity = method.objective.similarity
    if similarity is None:
        return 0
    rows = min(BLOCK, BLOCK_PAIRS // nodes + 1, nodes)
    sampled = method.sampling is not None and method.sampling.samples(nodes)
    all_pairs = stored != "nothing" or nodes <= EXACT_TEMPERATURES[device.type] or not sampled
    blocks = 8 * 4 * rows * nodes if all_pairs else 0
    top_k = getattr(similarity, "top_k", None)
    if top_k is None:
        return blocks
    return max(pagerank_bytes(graph, top_k), blocks)


def pagerank_bytes(graph: Graph, top_k: int) -> int:
    """What finding the largest PageRanks of every node takes at the peak."""
    return 16 * graph.num_edges + 16 * graph.num_nodes * min(top_k, graph.num_nodes) + 40 * graph.num_nodes
