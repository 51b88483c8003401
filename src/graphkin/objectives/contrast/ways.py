"""The ways in which the two-view contrast can be computed on a graph, and what each of them takes.

What changes the result least comes first: similarity and weights stored as N×N matrices; similarity alone, weights in blocks;
the same with sampled anchors and candidates, which costs no accuracy (docs/scale.md); and similarity from the largest PageRanks
of every node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from graphkin.execution import SMALL_STEP, Execution, MethodLike, Sampling, Stored, together_on
from graphkin.graphs.graph import Graph
from graphkin.models.encoder import declares, memory_of, width_of
from graphkin.objectives.contrast.tasks import ANCHORS
from graphkin.objectives.kernels import Case, choose, memory_needed
from graphkin.objectives.kernels.precision import of_encoder, resolved
from graphkin.objectives.weighting import preparing_bytes, similarity_bytes
from graphkin.similarity import NodeSimilarity, never_waits
from graphkin.similarity import Stored as StoredSimilarity
from graphkin.support.parallel import peers

MOST_AT_ONCE = {"cpu": 6_000, "cuda": 200_000}
"""nodes of which all pairs are compared in every step, unless that is asked for: a step of more takes too long. On a CPU these
are about as many as a sampled step looks at."""
CANDIDATES = 2048
A_FEW, A_FEW_UP_TO = 5, 32_768
"""repeats that fill a GPU beside each other in the fused kernels, and the nodes in a step up to which they do"""


@dataclass(frozen=True)
class Way:
    """What is stored as matrices, which settings are added, and how to say it."""

    stored: Stored
    settings: dict[str, Any]
    words: str


def ways(
    graph: Graph, method: MethodLike, device: torch.device, own: NodeSimilarity | None, *, adapt: bool
) -> Iterator[Execution]:
    for way in adapted(graph, method, device, own) if adapt else as_asked(graph, method):
        yield execution_of(way, graph, method, device, own)


def execution_of(way: Way, graph: Graph, method: MethodLike, device: torch.device, own: NodeSimilarity | None) -> Execution:
    method = method.configure(**way.settings)
    objective, sampling, nodes = method.objective, sampling_of(method), graph.num_nodes
    case = case_of(graph, method, device, way.stored, own)
    implementation = choose(case, precision=objective.precision)
    few = implementation == "fused" and SMALL_STEP < nodes <= A_FEW_UP_TO
    execution = Execution(
        way.words,
        method,
        way.stored,
        implementation,
        resolved(objective.precision, implementation, case),
        of_encoder(objective.precision, nodes),
        _recorded(graph, method, device, way.stored, implementation, own),
        A_FEW if few else together_on(device, nodes),
    )
    fused = implementation == "fused" and objective.pooling == "sum"
    stored = similarity_bytes(graph, method, way.stored, weights=not fused)
    preparing = preparing_bytes(graph, method, way.stored, device)
    if fused and way.stored != "nothing":
        preparing += 4 * nodes**2
    training = _sampled_step(graph, method, way.stored) if sampling.samples(nodes) else _whole_step(graph, method, case)
    return replace(execution, needs=stored + max(preparing, training))


def sampling_of(method: MethodLike) -> Sampling:
    assert method.sampling is not None
    return method.sampling


def case_of(graph: Graph, method: MethodLike, device: torch.device, stored: Stored, own: NodeSimilarity | None = None) -> Case:
    """What the kernels will be asked for."""
    objective, sampling = method.objective, sampling_of(method)
    anchors = None if sampling.anchors is None or sampling.anchors >= graph.num_nodes else sampling.anchors
    sampled = sampling.samples(graph.num_nodes)
    if peers().size > 1:
        anchors = (anchors or graph.num_nodes) // peers().size
    similarity = own if own is not None else objective.similarity
    by_functions = objective.positives.is_function and objective.negatives.is_function
    return Case(
        device=device,
        nodes=graph.num_nodes,
        width=width_of(method.encoder, graph.num_features),
        dtype=torch.float32,
        tau=objective.tau,
        pooling=objective.pooling,
        anchors=anchors,
        own_candidates=sampled or sampling.own_sets,
        functions=by_functions and getattr(similarity, "symmetric", similarity is None),
        stored=stored == "weights" and not sampled,
        by_similarity=objective.similarity is not None,
        stand_for_all=sampled,
        both_views=objective.both_views,
    )


def as_asked(graph: Graph, method: MethodLike) -> Iterator[Way]:
    if not sampling_of(method).samples(graph.num_nodes):
        yield Way("weights", {}, "all nodes at once, similarity and weights stored")
    yield Way("similarity", {}, "similarity stored")
    yield Way("nothing", {}, "similarity when needed")


def adapted(graph: Graph, method: MethodLike, device: torch.device, own: NodeSimilarity | None) -> Iterator[Way]:
    nodes, sampling, similarity = graph.num_nodes, sampling_of(method), method.objective.similarity
    largest: dict[str, Any] = {} if own is not None else getattr(similarity, "shortcut", dict)()
    storable = bool(largest) or (own is not None and not isinstance(own, StoredSimilarity))
    top_k = largest.get("top_k") or getattr(similarity, "top_k", None)
    of_largest = f", {top_k:,} largest PageRanks of a node" if top_k and own is None else ""
    stays = sampling.own_sets or sampling.takes_all(nodes)
    at_once = stays or (nodes <= MOST_AT_ONCE[device.type] and not sampling.samples(nodes))
    if at_once:
        yield Way("weights", {}, "all nodes at once" + (", similarity and weights stored" if similarity is not None else ""))
    if at_once and storable:
        yield Way("similarity", {}, "all nodes at once, in blocks, similarity stored")
    drawn, sampled = _drawn(nodes, sampling)
    if storable and not stays:
        yield Way("similarity", drawn, f"{sampled}, similarity stored")
    if at_once:
        yield Way("nothing", largest, f"all nodes at once, in blocks{of_largest}")
    if not stays:
        yield Way("nothing", drawn | largest, f"{sampled}{of_largest}")


def _drawn(nodes: int, sampling: Sampling) -> tuple[dict[str, Any], str]:
    """The settings of a sampled step, where it is not sampled yet, and how to say it."""
    count, candidates = min(sampling.anchors or ANCHORS, nodes), sampling.candidates or CANDIDATES
    drawn: dict[str, Any] = {}
    if not sampling.samples(nodes):
        count = min(count, ANCHORS)
        drawn = {"anchors": count, "candidates": candidates}
    return drawn, f"sampled, {count:,} anchors and {candidates:,} candidates a step"


def _recorded(
    graph: Graph,
    method: MethodLike,
    device: torch.device,
    stored: Stored,
    implementation: str,
    own: NodeSimilarity | None,
) -> bool:
    """Whether a step on a GPU has the same shape every time and only queues work."""
    if device.type != "cuda" or implementation != "fused" or peers().size > 1 or not declares(method.encoder, "recordable"):
        return False
    if method.objective.pooling == "mean" and stored != "weights":
        return False
    similarity, some_rows = own or method.objective.similarity, sampling_of(method).anchors is not None
    return never_waits(similarity, graph.x, device, stored=stored != "nothing", some_rows=some_rows)


def _whole_step(graph: Graph, method: MethodLike, case: Case) -> int:
    """Bytes of a step of all nodes: two views, both projected, and what the kernel needs."""
    nodes, edges = graph.num_nodes, 2 * graph.num_edges + graph.num_nodes
    views = memory_of(method.encoder, nodes, edges, case.width)
    return views + nodes * 16 * case.width + memory_needed(case, choose(case, precision=method.objective.precision))


def _sampled_step(graph: Graph, method: MethodLike, stored: Stored) -> int:
    nodes, edges, sampling = graph.num_nodes, 2 * graph.num_edges + graph.num_nodes, sampling_of(method)
    width, similarity = width_of(method.encoder, graph.num_features), method.objective.similarity
    count = min(sampling.anchors or ANCHORS, nodes)
    assert sampling.candidates is not None
    has_similar = hasattr(similarity, "top_k") and (stored != "nothing" or similarity.top_k is not None)
    candidates = min(sampling.candidates + count * (sampling.near if has_similar else 0), nodes)
    pairs = 16 * 4 * count * candidates
    roots = min(count + candidates, nodes)
    return memory_of(method.encoder, nodes, edges, width) + roots * 16 * width + pairs
