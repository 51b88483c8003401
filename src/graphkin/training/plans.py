"""How a graph is trained on within a memory: all pairs of nodes at once, or some nodes that stand for all.

What changes the result least is taken first: similarity and weights kept as N×N matrices; similarity alone, with weights in
blocks; the same with sampled anchors and candidates, which costs no accuracy (docs/scale.md); similarity from the largest
PageRanks of every node; and sampled neighbours where the activations of all nodes are too large, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import psutil
import torch

from graphkin.errors import SettingError
from graphkin.graphs.arrays import Features
from graphkin.graphs.graph import Graph
from graphkin.methods.method import Attract, Method, Repel
from graphkin.models.encoders import GCN
from graphkin.objectives.kernels import why_no_fused_kernels
from graphkin.objectives.kernels.blocked import BLOCK as ANCHORS_AT_A_TIME
from graphkin.objectives.kernels.symmetric import KEEP_BYTES
from graphkin.similarity import BLOCK, BLOCK_PAIRS, Similarity
from graphkin.support.parallel import peers
from graphkin.support.sparse import SparseMatrix

STORE_BELOW_SHARE = 0.25
"""Without a limit of the user's, N×N matrices are kept while they fit in this share of the memory of machine or GPU."""
MOST_AT_ONCE = {"cpu": 10_000, "cuda": 200_000}
"""nodes of which all pairs are compared in blocks: a step of more takes too long"""
EXACT_TEMPERATURES = {"cpu": 10_000, "cuda": 100_000}
"""nodes up to which temperatures by effective counts are found from all pairs, even if steps are sampled and store none"""
TOP_K, ANCHORS, CANDIDATES, NEIGHBOURS = 32, 512, 2048, 10
UNITS = {
    "": 1,
    "B": 1,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}


Kept = Literal["nothing", "similarity", "weights"]
"""what is an N×N matrix; with weights, similarity is one too"""


@dataclass(frozen=True)
class Plan:
    method: Method
    """with the settings that the plan adds"""
    kept: Kept
    estimate: int
    """bytes at the peak: on a CPU of the whole process, on a GPU of what PyTorch allocates"""
    memory: int
    words: str

    def __str__(self) -> str:
        return f"{self.words}; about {self.estimate / 2**30:.1f} of {self.memory / 2**30:.1f} GiB"


def parse_memory(text: str | int | None) -> int | None:
    """Bytes from 8GiB, 500MB or a plain number of bytes; None for no limit."""
    if text is None:
        return None
    text = str(text)
    found = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*", text)
    size = int(float(found[1]) * UNITS.get(found[2].upper(), 0)) if found else 0
    if size < 1:
        raise SettingError(f"memory must be a size such as 8GiB or 500MB (units: KiB to TiB, kB to TB), found {text!r}.")
    return size


def plan_for(graph: Graph, method: Method, device: torch.device, memory: int | None = None) -> Plan:
    """The first plan that fits; an error says how much the smallest one needs."""
    limit = memory or _whole_memory(device)
    found: list[Plan] = []
    for kept, changes, words in _ways(graph, method, device):
        changed = method.configure(**changes)
        plan = Plan(changed, kept, _estimate(graph, changed, kept, device), limit, words)
        by_rule = kept != "nothing" and memory is None
        if matrices_fit(graph.num_nodes, device, kept) if by_rule else plan.estimate <= limit:
            return plan
        found.append(plan)
    smallest = min(found, key=lambda plan: plan.estimate)
    raise SettingError(
        f"memory must be at least about {smallest.estimate / 2**30 + 0.005:.2f} GiB for {method.name} on {graph.name} "
        f"({smallest.words}), found {limit / 2**30:.2f} GiB."
    )


def matrices_fit(nodes: int, device: torch.device, kept: Kept = "weights") -> bool:
    """Whether N×N matrices of similarity, and of both weights, are small beside the memory."""
    matrices = 3 if kept == "weights" else 1
    return matrices * 4 * nodes**2 <= STORE_BELOW_SHARE * _whole_memory(device)


def _whole_memory(device: torch.device) -> int:
    """For this process: several on one machine have their share of it, and a GPU each."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return int(psutil.virtual_memory().total) // peers().local_size


def _ways(graph: Graph, method: Method, device: torch.device) -> Iterator[tuple[Kept, dict[str, Any], str]]:
    """What is kept as matrices, what settings are added, and how to say it."""
    nodes, settings = graph.num_nodes, method.optimiser
    if method.views is None:
        yield "similarity", {}, "batches, similarity stored"
        yield "nothing", {}, "batches, similarity when needed"
        return
    largest: dict[str, Any] = {}
    if isinstance(method.similarity, Similarity) and method.similarity.top_k is None and method.similarity.beta < 1:
        largest = {"top_k": TOP_K, "steps": None}
    top_k = TOP_K if largest else getattr(method.similarity, "top_k", None)
    of_largest = f", {top_k:,} largest PageRanks of a node" if top_k else ""
    own_sets = settings.positives_sampled is not None or settings.negatives_sampled is not None
    at_once = not settings.samples(nodes)
    in_blocks = at_once and (own_sets or nodes <= MOST_AT_ONCE[device.type])
    count, candidates = min(settings.anchors or ANCHORS, nodes), settings.candidates or CANDIDATES
    drawn: dict[str, Any] = {}
    if at_once:
        count = min(count, ANCHORS)
        drawn = {"anchors": count, "candidates": candidates}
    sampled = f"sampled, {count:,} anchors and {candidates:,} candidates a step"
    of_neighbours = f", {settings.neighbours or NEIGHBOURS:,} neighbours of a node"

    if at_once and method.similarity is not None:
        yield "weights", {}, "all nodes at once, similarity and weights stored"
    elif in_blocks:
        yield "weights", {}, "all nodes at once"
    if in_blocks and largest:
        yield "similarity", {}, "all nodes at once, in blocks, similarity stored"
    if largest and not own_sets:
        yield "similarity", drawn, f"{sampled}, similarity stored{of_neighbours if settings.neighbours else ''}"
    if in_blocks:
        yield "nothing", largest, f"all nodes at once, in blocks{of_largest}"
    if own_sets:
        return
    drawn, sampled = {**drawn, **largest}, f"{sampled}{of_largest}"
    if settings.neighbours is None:
        yield "nothing", drawn, sampled
    yield "nothing", {**drawn, "neighbours": settings.neighbours or NEIGHBOURS}, f"{sampled}{of_neighbours}"


def _estimate(graph: Graph, method: Method, kept: Kept, device: torch.device) -> int:
    """Bytes at the peak: what is there, what is kept, and the largest of the stages one after the other.

    How many copies of an array a stage holds was counted where that is possible and measured otherwise; tests compare the sum
    with peaks of several sizes.
    """
    on_gpu = device.type == "cuda"
    there = torch.cuda.memory_allocated(device) if on_gpu else psutil.Process().memory_info().rss
    settings = method.optimiser
    own_sets = settings.positives_sampled is not None or settings.negatives_sampled is not None
    all_pairs = method.views is not None and not own_sets and not settings.samples(graph.num_nodes)
    fused = on_gpu and all_pairs and method.pooling == "sum" and why_no_fused_kernels(device) is None
    similarity = _kept_similarity(graph, method, kept, fused)
    preparing = _preparing(graph, method, kept, device) + (4 * graph.num_nodes**2 if fused and kept != "nothing" else 0)
    before = similarity + max(preparing, _training(graph, method, kept, fused))
    return there + 2 * _size(graph.x) + max(before, 0 if on_gpu else _embedding(graph, method))


def _kept_similarity(graph: Graph, method: Method, kept: Kept, fused: bool) -> int:
    nodes, similarity = graph.num_nodes, method.similarity
    if similarity is None:
        return 0
    if kept != "nothing":
        weights = isinstance(method.positives, Attract) + isinstance(method.negatives, Repel)
        return 4 * nodes**2 * (1 + (weights if kept == "weights" and not fused else 0))
    if isinstance(similarity, Similarity) and similarity.top_k is not None:
        return 12 * int(1.25 * nodes * min(similarity.top_k, nodes))
    return 0


def _preparing(graph: Graph, method: Method, kept: Kept, device: torch.device) -> int:
    nodes, edges, similarity = graph.num_nodes, 2 * graph.num_edges, method.similarity
    if similarity is None:
        return 0
    rows = min(BLOCK, BLOCK_PAIRS // nodes + 1, nodes)
    all_pairs = kept != "nothing" or nodes <= EXACT_TEMPERATURES[device.type] or not method.optimiser.samples(nodes)
    blocks = 8 * 4 * rows * nodes if all_pairs else 0
    if isinstance(similarity, Similarity) and similarity.top_k is not None:
        of_rows = 8 * edges + 16 * nodes * min(similarity.top_k, nodes) + 40 * nodes
        return max(of_rows, blocks)
    return blocks


def _training(graph: Graph, method: Method, kept: Kept, fused: bool) -> int:
    nodes, edges, settings = graph.num_nodes, 2 * graph.num_edges + graph.num_nodes, method.optimiser
    encoder = method.encoder
    if method.views is None or not isinstance(encoder, GCN):
        assert method.supervision is not None
        return (
            4 * method.supervision.batch * (8 * encoder.hidden + 10 * method.supervision.batch) + 4 * nodes * graph.num_features
        )
    wide = encoder.hidden * (2 if encoder.layers > 1 else 1)
    of_all = 70 * edges + 4 * nodes * (4 * wide * (encoder.layers - 1) + 3 * encoder.hidden)
    projected = 4 * 4 * encoder.hidden
    if not settings.samples(nodes):
        in_pairs_of_blocks = kept == "weights" and not fused and method.pooling == "sum" and settings.anchors is None
        if not in_pairs_of_blocks:
            weights_of_blocks = method.similarity is not None and kept != "weights" and not fused
            return of_all + nodes * projected + (22 if weights_of_blocks else 12) * 4 * ANCHORS_AT_A_TIME * nodes
        products = 8 * nodes**2
        return of_all + nodes * projected + (2 * products + 2**26 if products <= KEEP_BYTES else 2**28)
    count = min(settings.anchors or ANCHORS, nodes)
    assert settings.candidates is not None
    similarity = method.similarity
    near = settings.near if isinstance(similarity, Similarity) and (kept != "nothing" or similarity.top_k is not None) else 0
    candidates = min(settings.candidates + count * near, nodes)
    pairs = 16 * 4 * count * candidates
    roots = min(count + candidates, nodes)
    if settings.neighbours is None:
        return of_all + roots * projected + pairs
    below = roots
    for _ in range(encoder.layers - 1):
        below = min(below * (1 + min(settings.neighbours, edges // nodes)), nodes)
    inputs = below * (4 * 2 * graph.num_features + 40 * min(settings.neighbours, nodes))
    return inputs + 4 * below * 2 * wide + 4 * roots * 14 * encoder.hidden + pairs


def _embedding(graph: Graph, method: Method) -> int:
    nodes, edges = graph.num_nodes, 2 * graph.num_edges + graph.num_nodes
    return 30 * edges + 2 * 4 * nodes * method.encoder.hidden


def _size(x: Features) -> int:
    return 4 * x.values.numel() if isinstance(x, SparseMatrix) else 4 * x.numel()
