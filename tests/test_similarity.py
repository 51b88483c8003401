from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphkin import Graph, Similarity
from graphkin.errors import GraphError, SettingError
from graphkin.similarity import (
    Blend,
    Computed,
    FeatureCosine,
    NodeSimilarity,
    PageRank,
    PageRankCosine,
    Stored,
    aligned_empty,
    aligned_rows,
    as_similarity,
)
from graphkin.similarity.blocks import is_aligned
from graphkin.support.sparse import SparseMatrix
from tests import paper
from tests.cases import Case, cases, make_case

F64 = torch.float64
alphas = st.floats(0.05, 0.95)


def whole(similarity: NodeSimilarity) -> torch.Tensor:
    return similarity.block(torch.arange(similarity.num_nodes))


def pagerank(case: Case, alpha: float = 0.1, steps: int | None = 20, self_loops: bool = True) -> PageRank:
    graph = case.graph()
    return PageRank(graph.edge_index, case.n, alpha=alpha, steps=steps, self_loops=self_loops, dtype=F64)


def assert_equal(found: torch.Tensor, expected: list[list[float]], tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(found, torch.tensor(expected, dtype=F64), rtol=tolerance, atol=tolerance)


@given(cases, alphas, st.integers(1, 6), st.booleans())
def test_pagerank_steps_are_the_papers_sum(case: Case, alpha: float, steps: int, self_loops: bool) -> None:
    expected = paper.pagerank(case.n, case.edges, alpha, steps, self_loops)
    assert_equal(whole(pagerank(case, alpha, steps, self_loops)), expected)


@given(cases, alphas, st.booleans())
def test_exact_pagerank_is_the_inverse(case: Case, alpha: float, self_loops: bool) -> None:
    a_hat = torch.tensor(paper.normalised_adjacency(case.n, case.edges, self_loops), dtype=F64)
    expected = alpha * torch.linalg.inv(torch.eye(case.n, dtype=F64) - (1 - alpha) * a_hat)
    torch.testing.assert_close(whole(pagerank(case, alpha, None, self_loops)), expected, rtol=1e-10, atol=1e-10)


@given(cases, alphas)
def test_pagerank_steps_tend_to_the_exact_one(case: Case, alpha: float) -> None:
    exact = whole(pagerank(case, alpha, None))
    errors = [float((whole(pagerank(case, alpha, steps)) - exact).abs().max()) for steps in (1, 10, 400)]
    assert errors[1] <= 2 * (1 - alpha) ** 10
    assert errors[2] < 1e-8


@given(cases, st.booleans())
def test_ppr_cosine_is_the_cosine_of_rows(case: Case, self_loops: bool) -> None:
    expected = paper.cosine_of_rows(paper.pagerank(case.n, case.edges, 0.1, 20, self_loops))
    assert_equal(whole(PageRankCosine(pagerank(case, self_loops=self_loops))), expected)


@given(cases)
def test_feature_cosine_dense_and_sparse(case: Case) -> None:
    expected = paper.cosine_of_rows(case.x.tolist())
    assert_equal(whole(FeatureCosine(case.x)), expected)
    assert_equal(whole(FeatureCosine(SparseMatrix.from_dense(case.x))), expected)


@given(cases, st.floats(0.01, 0.99), st.sampled_from(["ppr", "ppr-cosine"]))
def test_blend_is_the_papers(case: Case, beta: float, structure: str) -> None:
    p = paper.pagerank(case.n, case.edges, 0.1, 20, True)
    sim_g = p if structure == "ppr" else paper.cosine_of_rows(p)
    expected = paper.blend(sim_g, paper.cosine_of_rows(case.x.tolist()), beta)
    assert_equal(whole(Similarity(beta=beta, structure=structure).on(case.graph(), F64)), expected, 1e-9)


@given(cases)
def test_the_ends_of_the_blend(case: Case) -> None:
    graph = case.graph()
    torch.testing.assert_close(whole(Similarity(beta=0).on(graph, F64)), whole(pagerank(case)))
    gamma = pagerank(case).total() / FeatureCosine(case.x).total()
    torch.testing.assert_close(whole(Similarity(beta=1).on(graph, F64)), gamma * whole(FeatureCosine(case.x)))


@given(cases)
def test_totals_need_no_matrix(case: Case) -> None:
    """The closed forms equal the sums over all pairs."""
    steps = pagerank(case)
    for similarity in (steps, PageRankCosine(steps), FeatureCosine(case.x), Stored(whole(steps))):
        assert similarity.total() == pytest.approx(float(whole(similarity).sum()), rel=1e-10)


@given(cases)
def test_blocks_are_parts_of_the_whole(case: Case) -> None:
    graph = case.graph()
    rows = torch.randint(0, case.n, (3,), generator=case.draw)
    columns = torch.randperm(case.n, generator=case.draw)[:2]
    for settings in (Similarity(beta=0.4), Similarity(beta=0.4, structure="ppr-cosine"), Similarity(beta=1)):
        similarity = settings.on(graph, F64)
        torch.testing.assert_close(similarity.block(rows, columns), whole(similarity)[rows][:, columns])
        torch.testing.assert_close(similarity.own(rows), whole(similarity).diagonal()[rows])
        torch.testing.assert_close(whole(similarity.stored()), whole(similarity))


def test_isolated_node_without_self_loops_keeps_only_itself() -> None:
    similarity = PageRank(torch.tensor([[0, 1], [1, 0]]), 3, alpha=0.2, steps=5, self_loops=False, dtype=F64)
    assert whole(similarity)[2].tolist() == [0.0, 0.0, pytest.approx(0.2)]


def test_a_users_own_similarity_in_every_form() -> None:
    matrix = np.array([[1.0, 0.5, -2.0], [0.5, 1.0, 0.0], [0.0, 0.25, 1.0]])
    expected = torch.tensor(matrix, dtype=torch.float32).clamp(min=0)
    tensor = torch.tensor(matrix, dtype=torch.float32)
    forms = [matrix, tensor, tensor.to_sparse(), scipy.sparse.csr_matrix(matrix), lambda rows: tensor[rows]]
    for form in forms:
        similarity = as_similarity(form, num_nodes=3)
        assert torch.equal(whole(similarity), expected)
        assert torch.equal(similarity.block(torch.tensor([2, 0]), torch.tensor([1])), expected[[2, 0]][:, [1]])


def test_refused_similarities() -> None:
    with pytest.raises(SettingError, match="must be square, found shape"):
        as_similarity(np.ones((2, 3)))
    with pytest.raises(SettingError, match="must be finite"):
        as_similarity(np.array([[1.0, np.nan], [0, 1]]))
    with pytest.raises(SettingError, match="also needs num_nodes"):
        as_similarity(lambda rows: rows)
    with pytest.raises(SettingError, match="found str"):
        as_similarity("ppr")
    with pytest.raises(SettingError, match=r"must return \[2, 3\]"):
        Computed(lambda rows: torch.ones(2, 2), 3).block(torch.tensor([0, 1]))
    with pytest.raises(SettingError, match="finite numbers"):
        Computed(lambda rows: torch.full((1, 3), torch.inf), 3).block(torch.tensor([0]))


def test_beta_must_be_zero_without_any_feature_similarity() -> None:
    graph = Graph.from_arrays(torch.zeros(3, 2), torch.tensor([[0, 1], [1, 2]]))
    with pytest.raises(SettingError, match="beta must be 0"):
        Similarity(beta=0.5).on(graph)
    assert isinstance(Similarity(beta=0).on(graph), PageRank)


def test_no_edges_need_beta_one() -> None:
    graph = Graph.from_arrays(torch.eye(3), torch.empty(2, 0))
    with pytest.raises(GraphError, match="no edges"):
        Similarity(beta=0.5).on(graph)
    assert torch.equal(whole(Similarity(beta=1).on(graph)), torch.eye(3))
    empty = Graph.from_arrays(torch.zeros(3, 2), torch.empty(2, 0))
    with pytest.raises(SettingError, match="beta must be 0"):
        Similarity(beta=1).on(empty)


def test_features_of_any_size_have_the_same_cosines() -> None:
    x = torch.rand(5, 3, generator=torch.Generator().manual_seed(0))
    for scale in (1e-25, 1e25):
        for scaled in (FeatureCosine(x * scale), FeatureCosine(SparseMatrix.from_dense(x * scale))):
            torch.testing.assert_close(whole(scaled), whole(FeatureCosine(x)))


def test_bounds_of_settings() -> None:
    for bad in ({"alpha": 0.0}, {"alpha": 1.0}, {"beta": -0.1}, {"beta": 1.1}, {"beta": float("nan")}, {"steps": 0}):
        with pytest.raises(SettingError, match="must be a"):
            Similarity(**bad)
    with pytest.raises(SettingError, match="Did you mean 'ppr-cosine'"):
        Similarity(structure="pprcosine")


def test_permuting_the_nodes_permutes_the_similarity() -> None:
    case = make_case(5, n=9)
    order = torch.randperm(case.n, generator=case.draw)
    place = torch.argsort(order)
    graph = case.graph()
    moved = Graph.from_arrays(case.x[order], place[graph.edge_index])
    settings = Similarity(beta=0.6)
    torch.testing.assert_close(whole(settings.on(moved, F64)), whole(settings.on(graph, F64))[order][:, order])


def test_blend_of_any_two_similarities() -> None:
    a, b = Stored(torch.eye(2)), Stored(torch.ones(2, 2))
    assert torch.equal(whole(Blend(a, b, 0.5)), torch.tensor([[0.75, 0.25], [0.25, 0.75]]))


def test_top_keeps_the_largest_of_every_row_and_column(cora: Graph) -> None:
    whole = PageRank(cora.edge_index, cora.num_nodes, steps=3).stored().matrix
    assert isinstance(whole, torch.Tensor)
    top = Stored(whole).top(5)
    assert isinstance(top.matrix, SparseMatrix) and top.symmetric
    kept = top.matrix.to_dense()
    torch.testing.assert_close(kept, kept.T)
    smallest = whole.topk(5, dim=1).values[:, -1] * (1 + 1e-5)
    inside = (whole > smallest[:, None]) | (whole > smallest)
    torch.testing.assert_close(kept[inside], whole[inside])
    assert ((kept > 0).sum(dim=1) >= (whole > 0).sum(dim=1).clamp(max=5)).all()
    assert (kept > 0).sum() <= 2 * 5 * cora.num_nodes
    everything = Similarity(beta=0.5, steps=3, top_k=10**6).on(cora)
    rows = torch.tensor([0, 17])
    torch.testing.assert_close(everything.block(rows), Similarity(beta=0.5, steps=3).on(cora).block(rows))


def test_a_block_of_a_sparse_matrix() -> None:
    draw = torch.Generator().manual_seed(0)
    dense = torch.where(torch.rand(9, 9, generator=draw) < 0.4, torch.rand(9, 9, generator=draw), 0)
    rows, columns = torch.tensor([8, 0, 3, 3]), torch.tensor([5, 1, 8, 1])
    assert torch.equal(SparseMatrix.from_dense(dense).block(rows, columns), dense[rows][:, columns])


def test_beta_weighs_the_largest_as_it_does_all(cora: Graph) -> None:
    """γ comes from all PageRanks, not from those that top_k keeps."""
    whole, cut = Similarity(beta=0.5).on(cora), Similarity(beta=0.5, top_k=3).on(cora)
    assert isinstance(whole, Blend) and isinstance(cut, Blend)
    assert cut.gamma == pytest.approx(whole.gamma, rel=1e-4)


@pytest.mark.parametrize("layout", ["aligned", "packed", "turned", "repeated", "cut short"])
def test_aligned_rows_of_any_matrix(layout: str) -> None:
    values = torch.randn(6, 9, generator=torch.Generator().manual_seed(0))
    padded = aligned_empty(6, 9, torch.float32, values.device).copy_(values)
    matrix = {
        "aligned": padded,
        "packed": values,
        "turned": values.T.contiguous().T,
        "repeated": values[:1].expand(6, 9),
        "cut short": torch.randn(89).as_strided((6, 9), (16, 1)),
    }[layout]
    rows = torch.tensor([5, 0, 5, 2])
    found = aligned_rows(matrix, rows)
    assert torch.equal(found, matrix[rows])
    assert is_aligned(found)
