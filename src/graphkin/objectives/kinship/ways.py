"""The ways in which Kinship can be computed on a graph, and what each of them takes.

What changes the result least comes first: similarity and weights stored as N×N matrices; similarity alone, weights in blocks;
anchors with one positive each, from short lists of the similarity of all pairs; and from those of the largest PageRanks, or
without lists. On a CPU, smoothed features in files come last: they change nothing, and take long where memory is short.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from graphkin.execution import Execution, MethodLike, Stored, rows_among, together_on
from graphkin.graphs.graph import Graph
from graphkin.models.encoder import (
    declares,
    embedding_memory_of,
    inputs_in_files_of,
    inputs_memory_of,
    memory_of,
    trained_widths_of,
)
from graphkin.objectives.kernels import kinship as kernel
from graphkin.objectives.kernels.precision import encoder_of_rows
from graphkin.objectives.kernels.problem import Case
from graphkin.objectives.weighting import EXACT_TEMPERATURES, pagerank_bytes, preparing_bytes, similarity_bytes
from graphkin.similarity import NodeSimilarity
from graphkin.support.parallel import peers
from graphkin.weights.lists import LENGTH, LENGTH_OF_SIMILAR, PAIRS, PAIRS_OF_SIMILAR

ANCHORS = 4096
"""of a sampled step, where no number is asked for"""
MOST_AT_ONCE = {"cpu": 10_000, "cuda": 200_000}
"""nodes of which all pairs are compared in every step: a step of more takes too long"""
MOST_LISTED = {"cpu": 30_000, "cuda": 300_000}
"""nodes of which all pairs are compared once, for short lists"""

OWN_VIEW = {"own": 1.0}
"""the settings for more of them whose similarity is that of features alone, which no short cut finds"""

KEPT_OF_STEP = 1 / 3
"""of the memory of a step on a CPU, what is still in use after training: parameters with their moments, and workspaces"""

BLOCKS_OF_LISTS, ROWS_OF_LISTS = 14, 256
"""of pairs of nodes in float32, of so many rows, that are held at the peak while short lists and temperatures are found"""


def draws_anchors(method: Any, nodes: int) -> bool:
    """Whether a step on so many nodes takes some of them alone."""
    return method.sampling.anchors is not None and method.sampling.anchors < nodes


def ways(
    graph: Graph, method: MethodLike, device: torch.device, own: NodeSimilarity | None, *, adapt: bool
) -> Iterator[Execution]:
    nodes, drawn = graph.num_nodes, draws_anchors(method, graph.num_nodes)
    by_similarity = method.objective.similarity is not None
    if not drawn:
        yield _all_nodes(graph, method, device, "weights", ", similarity and weights stored" if by_similarity else "")
        if not adapt or nodes <= MOST_AT_ONCE[device.type]:
            yield _all_nodes(graph, method, device, "similarity", ", in blocks, similarity stored")
        if not adapt:
            yield _all_nodes(graph, method, device, "nothing", ", in blocks")
            return
        method = method.configure(anchors=min(ANCHORS, nodes - 1))
    similarity = method.objective.similarity
    largest: dict[str, Any] = {} if own is not None else getattr(similarity, "shortcut", dict)()
    lists_all_pairs = own is None and not own_view_alone(method) and getattr(similarity, "of_all_pairs", False)
    if not (adapt and lists_all_pairs) or nodes <= MOST_LISTED[device.type]:
        yield _some_nodes(graph, method, device)
    if adapt and lists_all_pairs:
        method = method.configure(**(largest or OWN_VIEW))
        yield _some_nodes(graph, method, device)
    if adapt and device.type == "cpu":
        processes = rows_among(method).size
        in_files = inputs_in_files_of(method.encoder, nodes, graph.num_features, processes)
        if in_files:
            yield _some_nodes(graph, method, device, in_files)


def own_view_alone(method: Any) -> bool:
    """Whether a node attracts nothing but its own other view, so that no list of others is needed."""
    return bool(method.objective.own == 1 or method.objective.similarity is None)


def _all_nodes(graph: Graph, method: MethodLike, device: torch.device, stored: Stored, words: str) -> Execution:
    nodes, objective, width = graph.num_nodes, method.objective, sum(trained_widths_of(method.encoder, graph.num_features))
    processes = rows_among(method).size
    mine = -(-nodes // processes)
    reads = similarity_bytes(graph, method, stored, weights=True)
    form = _form(graph, method, device, nodes, rows=nodes)
    step = kernel.memory(
        nodes,
        device,
        form[0],
        both_views=objective.both_views,
        computes_weights=stored != "weights",
        drops=objective.drop_positives > 0,
    )
    step += memory_of(method.encoder, mine, 2 * graph.num_edges + nodes, width) + _projecting(objective, nodes, mine, width)
    needs = (
        reads
        + inputs_memory_of(method.encoder, nodes, graph.num_features, processes)
        + max(preparing_bytes(graph, method, stored, device), step)
    )
    return _execution(f"all nodes at once{words}", method, device, nodes, form, needs, stored, waits=stored == "nothing")


def _some_nodes(graph: Graph, method: MethodLike, device: torch.device, in_files: int = 0) -> Execution:
    assert method.sampling is not None and method.sampling.anchors is not None
    nodes, objective, count = graph.num_nodes, method.objective, method.sampling.anchors
    width, edges = sum(trained_widths_of(method.encoder, graph.num_features)), 2 * graph.num_edges + graph.num_nodes
    processes = rows_among(method).size
    mine = -(-count // processes)
    top_k = getattr(objective.similarity, "top_k", None)
    of_similar = top_k is not None and nodes > EXACT_TEMPERATURES[device.type]
    alone = own_view_alone(method)
    lists = 8 * nodes * (1 if alone else min(LENGTH_OF_SIMILAR if of_similar else LENGTH, nodes))
    inputs = inputs_memory_of(method.encoder, nodes, graph.num_features, processes)
    form = _form(graph, method, device, count, rows=2 * count)
    step = kernel.memory(count, device, form[0], both_views=objective.both_views, computes_weights=False, drops=False)
    step += _projecting(objective, count, mine, width) + 24 * count * LENGTH + 8 * nodes
    if declares(method.encoder, "sees_edges"):
        step += memory_of(method.encoder, nodes, edges, width)
    else:
        step += memory_of(method.encoder, mine, mine, width) + 2 * 4 * mine * graph.num_features
    preparing = 0 if alone else similarity_bytes(graph, method, "nothing", weights=False) + _listing(graph, method, device)
    settling = embedding_memory_of(method.encoder, nodes, graph.num_features, processes) or 0
    if device.type == "cpu":
        settling += int(KEPT_OF_STEP * step) + 30 * edges
    needs = lists + max(inputs + max(preparing, step), settling) - in_files
    positive = "its own other view" if alone else "one positive"
    words = f"{count:,} anchors a step, each with {positive}"
    words += f", {top_k:,} largest PageRanks of a node" if top_k and not alone else ""
    words += f", smoothed features in a file of {in_files / 2**30:.1f} GiB" if in_files else ""
    found = _execution(words, method, device, 2 * count, form, needs, "nothing", waits=False)
    return replace(found, in_files=in_files)


def _form(graph: Graph, method: MethodLike, device: torch.device, anchors: int, rows: int) -> tuple[str, str]:
    """Implementation and precision of steps of so many anchors, in which so many ``rows`` are encoded."""
    objective, width = method.objective, max(trained_widths_of(method.encoder, graph.num_features))
    case = Case(device, anchors, width, tau=objective.tau, both_views=objective.both_views)
    return kernel.choose(case, objective.precision, rows)


def _listing(graph: Graph, method: MethodLike, device: torch.device) -> int:
    """What finding the similarity and the short lists takes at the peak."""
    nodes, top_k = graph.num_nodes, getattr(method.objective.similarity, "top_k", None)
    rows = min(ROWS_OF_LISTS, max(PAIRS // nodes, 16), nodes)
    if top_k is None:
        return BLOCKS_OF_LISTS * 4 * rows * nodes
    pairs = PAIRS_OF_SIMILAR if nodes > EXACT_TEMPERATURES[device.type] else rows * nodes
    return max(pagerank_bytes(graph, top_k), BLOCKS_OF_LISTS * 4 * pairs)


def _projecting(objective: Any, rows: int, mine: int, width: int) -> int:
    """Bytes of two projected passes and their gradients; where this process projects some rows, of those of all, too."""
    gathered = 0 if mine == rows else 2 * 4 * rows * 5 * width
    return 2 * 4 * mine * (3 * (objective.projector or width) + 5 * width) + gathered


def _execution(
    words: str,
    method: MethodLike,
    device: torch.device,
    rows: int,
    form: tuple[str, str],
    needs: int,
    stored: Stored,
    *,
    waits: bool,
) -> Execution:
    """``rows`` are encoded in a step; it ``waits`` where it asks the device for a value."""
    on_gpu, (implementation, precision) = device.type == "cuda", form
    return Execution(
        words,
        method,
        stored,
        implementation,
        precision,
        encoder_of_rows(method.objective.precision, rows, device),
        recorded=on_gpu and not waits and peers().size == 1 and declares(method.encoder, "recordable"),
        together=together_on(device, rows),
        needs=needs,
    )
