"""The paper's objective or Kinship alone, forward and backward, with all anchors, on random embeddings and similarities."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from graphkin.bench import Row, kinship
from graphkin.bench.contenders import Contender, Views, checked_and_timed
from graphkin.objectives import reference as objective
from graphkin.objectives.kernels import Problem, memory_needed, two_view_loss
from graphkin.objectives.kernels.fused import needs as fused
from graphkin.similarity import Blend, FeatureCosine, NodeSimilarity, Stored
from graphkin.support.sparse import SparseMatrix
from graphkin.weights import AllAlike, Attraction, NodeWeights, OwnOnly, Repulsion

WEIGHTS = ("infonce", "stored", "stored-bf16", "on-the-fly", "kinship", "kinship-stored")
TAU, TAU_POS, TAU_NEG, NEIGHBOURS = 0.4, 0.3, 0.3, 32
CHECKED_ANCHORS = 64
"""Where the dense reference cannot fit, only the fastest are tried, and checked against the reference on so many anchors."""


def compare(nodes: int, width: int, weights: str, features: int, device: torch.device, repeats: int = 10) -> Iterator[Row]:
    """Every implementation that applies, on one problem."""
    problem = {"nodes": nodes, "width": width, "weights": weights, "device": device.type}
    if weights == "on-the-fly":
        problem |= {"features": features, "neighbours": NEIGHBOURS}
    views = Views.draw(nodes, width, device)
    given = _weights(nodes, weights, features, device)
    fits = memory_needed(Problem(given, TAU).case(views.u), "reference") < 0.8 * _memory(device)
    if weights.startswith("kinship"):
        definition, *others = kinship.contenders(given, views.u, TAU, dense_fits=fits)
        yield from checked_and_timed(problem, [definition, *others], views, definition, repeats)
        return
    if not fits:
        some = torch.arange(0, nodes, max(nodes // CHECKED_ANCHORS, 1), device=device)[:CHECKED_ANCHORS]
        views = views._replace(checked=some)
    contenders = _contenders(given, views.u, fits, weights == "on-the-fly")
    yield from checked_and_timed(problem, contenders, views, _dense(given), repeats)


def _contenders(weights: NodeWeights, u: Tensor, dense_fits: bool, on_the_fly: bool) -> Iterator[Contender]:
    """The dense reference first, so that the others' speed is a ratio to it."""
    if dense_fits:
        yield _dense(weights)
    if not weights.by_similarity and u.is_cuda:
        yield Contender("flex_attention", "bf16", _flex_attention())
    if u.is_cuda and fused.why_not(Problem(weights, TAU).case(u), "bf16", asked=True) is None:
        for precision in ("float32", "tf32", "bf16") if dense_fits else ("bf16",):
            yield _kernel("fused", precision, weights)
    if dense_fits and not on_the_fly:
        yield _kernel("symmetric", "float32", weights.stored())
        yield _kernel("symmetric", "bf16", weights.stored())
    if dense_fits or not u.is_cuda:
        yield _kernel("blocked", "float32", weights)


def _kernel(implementation: str, precision: str, weights: NodeWeights) -> Contender:
    def loss(u: Tensor, v: Tensor, anchors: Tensor | None) -> Tensor:
        chosen = implementation if anchors is None or implementation == "fused" else "blocked"
        return two_view_loss(u, v, Problem(weights, TAU, anchors=anchors), chosen, precision)

    return Contender(f"{implementation} {precision}", precision, loss)


def _dense(weights: NodeWeights) -> Contender:
    """The definition, with its N×N weights computed before; a step of it is products, sums and PyTorch's own gradient."""
    whole = None

    def loss(u: Tensor, v: Tensor, anchors: Tensor | None) -> Tensor:
        nonlocal whole
        if anchors is not None:
            return objective.enhanced(u, v, weights.block(anchors), TAU, anchors=anchors)
        if not weights.by_similarity:
            return objective.infonce(u, v, TAU)
        whole = weights.block() if whole is None else whole
        return objective.enhanced(u, v, whole, TAU)

    return Contender("dense", "float32", loss)


def _flex_attention() -> Callable[[Tensor, Tensor, Tensor | None], Tensor]:
    """InfoNCE's denominators as the log-sum-exp of PyTorch's flex_attention over both views, in bfloat16."""
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention

    compiled = torch.compile(flex_attention)

    def loss(u: Tensor, v: Tensor, anchors: Tensor | None) -> Tensor:
        z = torch.cat([u, v])

        def without_itself(score: Tensor, b: Tensor, h: Tensor, row: Tensor, column: Tensor) -> Tensor:
            return torch.where(row == column, -float("inf"), score)

        rows = z if anchors is None else torch.cat([u[anchors], v[anchors]])
        index = None if anchors is None else torch.cat([anchors, anchors + len(u)])

        def for_chosen(score: Tensor, b: Tensor, h: Tensor, row: Tensor, column: Tensor) -> Tensor:
            assert index is not None
            return torch.where(index[row] == column, -float("inf"), score)

        query, key = (part.bfloat16()[None, None] for part in (rows, z))
        _, extra = compiled(
            query,
            key,
            key,
            score_mod=without_itself if index is None else for_chosen,
            scale=1 / TAU,
            return_aux=AuxRequest(lse=True),  # type: ignore[arg-type]
        )
        own = (u * v).sum(dim=1) / TAU
        own = own if anchors is None else own[anchors]
        difference: Tensor = extra.lse.mean() - own.mean()
        return difference

    return loss


def _weights(nodes: int, kind: str, features: int, device: torch.device) -> NodeWeights:
    if kind in ("infonce", "kinship"):
        return NodeWeights(OwnOnly(), AllAlike(), nodes, device)
    similarity: NodeSimilarity = _similarity(nodes, features, device)
    if kind == "kinship-stored":
        return NodeWeights(Attraction(similarity, TAU_POS, counterpart=False), AllAlike(), nodes, device).stored()
    if kind.startswith("stored"):
        similarity = similarity.stored(torch.bfloat16 if kind == "stored-bf16" else torch.float32)
    return NodeWeights(Attraction(similarity, TAU_POS), Repulsion(similarity, TAU_NEG), nodes, device)


def _similarity(nodes: int, features: int, device: torch.device) -> Blend:
    """Random neighbours in place of top PageRank, and random features, a tenth of them not zero; half of each."""
    draw = torch.Generator(device).manual_seed(1)
    present = torch.rand(nodes, features, generator=draw, device=device) < 0.1
    x = torch.rand(nodes, features, generator=draw, device=device) * present
    row = torch.arange(nodes, device=device).repeat_interleave(min(NEIGHBOURS, nodes) // 2)
    column = torch.randint(nodes, row.shape, generator=draw, device=device)
    keys = torch.cat([row * nodes + column, column * nodes + row]).unique()
    row, column = keys // nodes, keys % nodes
    value = 1 / (1 + (row - column).abs().float())
    rowptr = torch.searchsorted(row, torch.arange(nodes + 1, device=device))
    structure = SparseMatrix.from_parts(rowptr, column, value, (nodes, nodes))
    return Blend(Stored(structure, symmetric=True), FeatureCosine(x), 0.5)


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
