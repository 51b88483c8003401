from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from graphkin import Graph, Similarity
from graphkin.methods import method_named
from graphkin.objectives.kernels import Problem, two_view_loss
from graphkin.objectives.weighting import node_similarity
from graphkin.similarity import Blend, FeatureCosine, NodeSimilarity, Stored
from graphkin.support.sparse import SparseMatrix
from graphkin.weights import (
    AllAlike,
    Attraction,
    Candidates,
    Effective,
    NodeWeights,
    OwnOnly,
    Repulsion,
    SomeNodes,
    attraction_temperatures,
    draw_candidates,
    repulsion_temperatures,
    similar_nodes,
)
from tests.cases import unit, weights_for

F64 = torch.float64


@pytest.fixture
def similarity(small: Graph) -> NodeSimilarity:
    return Similarity(beta=0.3, top_k=6).on(small, dtype=F64)


@pytest.fixture
def views(small: Graph) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    u, v = (unit(torch.randn(small.num_nodes, 5, generator=draw, dtype=F64)) for _ in range(2))
    return u, v


def weights_of(similarity: NodeSimilarity, *, plain: bool = False) -> NodeWeights:
    if plain:
        return NodeWeights(OwnOnly(F64), AllAlike(F64), similarity.num_nodes)
    near = similar_nodes(similarity)
    return NodeWeights(Attraction(similarity, 0.05), Repulsion(similarity, 0.1), similarity.num_nodes, near=near)


def samples(weights: NodeWeights, anchors: Tensor, size: int, near: int, count: int) -> list[Candidates]:
    draw = torch.Generator().manual_seed(1)
    return [draw_candidates(weights.num_nodes, anchors, size, draw, weights.near, near) for _ in range(count)]


@pytest.mark.slow
def test_a_node_is_in_a_sample_as_often_as_its_factor_says(similarity: NodeSimilarity) -> None:
    anchors = torch.tensor([3, 17, 18])
    count = 6_000
    seen, factors = torch.zeros(40), torch.zeros(40, dtype=F64)
    for drawn in samples(weights_of(similarity), anchors, 4, 3, count):
        assert drawn.log_factors is not None and (drawn.columns.diff() > 0).all()
        seen[drawn.columns] += 1
        factors[drawn.columns] = drawn.log_factors
    chance = (-factors).exp()
    noise = (chance * (1 - chance) / count).sqrt()
    assert (((seen / count) - chance).abs() <= 5 * noise).all()
    near = similar_nodes(similarity)
    assert near is not None
    of_first = near.rows(anchors[:1])[0].nonzero()[:, 0]
    others = torch.ones(40, dtype=torch.bool)
    others[near.rows(anchors).nonzero()[:, 1]] = False
    assert chance[of_first[of_first != 3]].min() > 2 * chance[others].max(), "similar nodes are drawn more often"


@pytest.mark.slow
@pytest.mark.parametrize("near", [0, 3])
def test_sums_are_unbiased(similarity: NodeSimilarity, views: tuple[Tensor, Tensor], near: int) -> None:
    """The mean of Σ T e^s/τ over many samples is the sum over all nodes, for both transformations."""
    u, _ = views
    anchors = torch.tensor([0, 5, 21, 39])
    count = 3_000
    scores = (u[anchors] @ u.T / 0.5).exp()
    block = similarity.block(anchors)
    for transformed in (torch.expm1(block / 0.05), torch.exp(-block / 0.1)):
        wanted = (transformed * scores).sum(dim=1)
        found = torch.stack(
            [
                ((transformed * scores)[:, drawn.columns] * drawn.log_factors.exp()).sum(dim=1)
                for drawn in samples(weights_of(similarity), anchors, 6, near, count)
                if drawn.log_factors is not None
            ]
        )
        noise = found.std(dim=0) / math.sqrt(count)
        assert ((found.mean(dim=0) - wanted).abs() < 5 * noise).all()
        assert (noise < 0.05 * wanted).all(), "or this proves nothing"


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_the_loss_and_its_gradient_tend_to_the_full_ones(
    similarity: NodeSimilarity, views: tuple[Tensor, Tensor], pooling: str, plain: bool
) -> None:
    weights = weights_of(similarity, plain=plain)
    anchors = torch.arange(0, 40, 3)

    def loss_and_gradient(candidates: Candidates | None) -> tuple[float, Tensor]:
        u, v = (view.clone().requires_grad_() for view in views)
        loss = two_view_loss(u, v, Problem(weights, 0.5, pooling, anchors, candidates))
        loss.backward()
        assert u.grad is not None and v.grad is not None
        return loss.item(), torch.stack([u.grad, v.grad])

    wanted, gradient = loss_and_gradient(None)
    errors, far = [], []
    for size in (8, 80, 800):
        found = [loss_and_gradient(drawn) for drawn in samples(weights, anchors, size, 3, 30)]
        errors.append(sum(abs(loss - wanted) for loss, _ in found) / len(found))
        far.append(float((sum(grad for _, grad in found) / len(found) - gradient).norm() / gradient.norm()))
    assert errors[0] > errors[1] > errors[2] and errors[2] < 1e-6, "with 800 draws of 40 nodes every node is there"
    assert far[2] < 1e-6 and far[1] < 0.3


def test_weights_of_some_nodes_are_those_of_the_graph(similarity: NodeSimilarity, views: tuple[Tensor, Tensor]) -> None:
    weights = weights_of(similarity)
    anchors = torch.tensor([2, 9, 30])
    (drawn,) = samples(weights, anchors, 5, 2, 1)
    whole = two_view_loss(*views, Problem(weights, 0.5, "sum", anchors, drawn))
    nodes = torch.cat([anchors, drawn.columns]).unique()
    places = drawn._replace(columns=torch.searchsorted(nodes, drawn.columns))
    u, v = (view[nodes] for view in views)
    some = Problem(SomeNodes.of(weights, nodes), 0.5, "sum", torch.searchsorted(nodes, anchors), places)
    for implementation in ("reference", "blocked"):
        torch.testing.assert_close(two_view_loss(u, v, some, implementation), whole)


def test_temperatures_from_a_sample_tend_to_those_from_all_nodes(similarity: NodeSimilarity) -> None:
    """With all nodes as candidates they are the same; the weights then are, too."""
    rows = torch.arange(40)
    everything = Candidates(rows, log_factors=torch.zeros(40, dtype=F64))
    exact = NodeWeights(
        Attraction(similarity, attraction_temperatures(similarity, 5)),
        Repulsion(similarity, repulsion_temperatures(similarity, 0.9)),
        40,
    )
    found = NodeWeights(Attraction(similarity, Effective(5)), Repulsion(similarity, Effective(0.9 * 39)), 40)
    for one, other in zip(exact.block(), found.block(rows, everything), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    for one, other in zip(exact.block(), found.block(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_nodes_without_similar_ones_draw_none() -> None:
    alone = Stored(SparseMatrix.from_dense(torch.eye(5)), symmetric=True)
    weights = NodeWeights(Attraction(alone, 1.0), Repulsion(alone, 1.0), 5, near=similar_nodes(alone))
    (drawn,) = samples(weights, torch.tensor([0, 1]), 2, 4, 1)
    assert drawn.columns.numel() <= 2


def test_similar_nodes_come_from_what_is_stored(small: Graph) -> None:
    assert similar_nodes(Similarity(beta=0.3).on(small)) is None
    sparse = Similarity(beta=0.0, top_k=3).on(small)
    assert isinstance(sparse, Stored) and similar_nodes(sparse) is sparse.matrix
    stored = Similarity(beta=0.3).on(small).stored()
    near = similar_nodes(stored)
    assert near is not None and near.shape == (40, 40)
    largest = stored.block(torch.arange(40)).topk(32, dim=1)
    torch.testing.assert_close(near.to_dense().gather(1, largest.indices), largest.values)


def test_a_sampled_method_stores_the_node_similarity_all_pairs_where_it_fits(small: Graph) -> None:
    method = method_named("grace+").configure(candidates=12, anchors=8)
    weights = weights_for(small, method, stored="similarity")
    assert isinstance(weights.positive, Attraction) and isinstance(weights.positive.similarity, Stored)
    everything = weights_for(small, method.configure(candidates=None), stored="nothing")
    for sampled, full in zip(weights.block(), everything.block(), strict=True):
        torch.testing.assert_close(sampled, full, rtol=1e-4, atol=1e-5)
    assert weights.near is not None, "similar nodes are candidates"
    on_the_fly = weights_for(small, method, stored="nothing")
    assert isinstance(on_the_fly.positive, Attraction) and not isinstance(on_the_fly.positive.similarity, Stored)


def test_a_sampled_method_never_makes_a_matrix_of_the_largest_pageranks(small: Graph) -> None:
    method = method_named("grace+").configure(candidates=12, anchors=8, top_k=5)
    for given in (None, node_similarity(small, method, "similarity")):
        weights = weights_for(small, method, given, stored="similarity")
        assert isinstance(weights.positive, Attraction) and isinstance(weights.positive.similarity, Blend)
        assert isinstance(weights.positive.similarity.structure, Stored)
        assert weights.near is weights.positive.similarity.structure.matrix


@pytest.mark.slow
def test_the_total_of_clipped_cosines_is_estimated_on_large_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(0)
    features = FeatureCosine(torch.randn(3000, 6, generator=draw) + 0.3)
    wanted = features.total()
    monkeypatch.setattr("graphkin.similarity.features.SUMMED_BELOW", 2000)
    assert features.total() == pytest.approx(wanted, rel=0.03) and features.total() != wanted
    assert isinstance(Blend(Stored(torch.eye(3000)), features, 0.5).gamma, float)


def test_temperatures_of_a_sampled_method_are_exact_while_all_pairs_are_few(
    small: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = method_named("grace+").configure(candidates=12, anchors=8, top_k=5, effective_positives=3)
    weights = weights_for(small, method, stored="similarity")
    assert isinstance(weights.positive, Attraction) and isinstance(weights.negative, Repulsion)
    exact = attraction_temperatures(weights.positive.similarity, 3)
    assert isinstance(weights.positive.tau, Tensor) and torch.equal(weights.positive.tau, exact)
    assert isinstance(weights.negative.tau, Tensor)
    monkeypatch.setattr("graphkin.objectives.weighting.EXACT_TEMPERATURES", {"cpu": 39})
    lazy = weights_for(small, method, stored="similarity")
    assert isinstance(lazy.positive, Attraction) and lazy.positive.tau == Effective(3)
    stored = weights_for(small, method.configure(top_k=None), stored="similarity")
    assert isinstance(stored.positive, Attraction) and isinstance(stored.positive.tau, Tensor), "all pairs are at hand"


def test_the_most_similar_nodes_are_always_candidates(similarity: NodeSimilarity) -> None:
    near = similar_nodes(similarity)
    assert near is not None
    anchors = torch.tensor([0, 7, 25])
    block = near.rows(anchors)
    block[torch.arange(3), anchors] = 0
    largest = block.topk(2, dim=1).indices.flatten()
    for drawn in samples(weights_of(similarity), anchors, 2, 4, 20):
        assert torch.isin(largest, drawn.columns).all() and drawn.log_factors is not None
        assert (drawn.log_factors[torch.searchsorted(drawn.columns, largest)] == 0).all(), "each stands for itself alone"
