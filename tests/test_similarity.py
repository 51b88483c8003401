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
    Labels,
    LabelSimilarity,
    NodeSimilarity,
    PageRank,
    PageRankCosine,
    Stored,
    aligned_empty,
    aligned_rows,
    as_similarity,
    never_waits,
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


@pytest.mark.slow
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


@pytest.mark.slow
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
        check_pairs(similarity)


def test_isolated_node_without_self_loops_keeps_only_itself() -> None:
    similarity = PageRank(torch.tensor([[0, 1], [1, 0]]), 3, alpha=0.2, steps=5, self_loops=False, dtype=F64)
    assert whole(similarity)[2].tolist() == [0.0, 0.0, pytest.approx(0.2)]


def check_pairs(similarity: NodeSimilarity) -> None:
    """The pairs that a matrix lists, of rows in any order and of one without any."""
    size = similarity.num_nodes
    listed = (torch.rand(size, size, generator=torch.Generator().manual_seed(0)) < 0.4).double()
    listed[size // 2] = 0
    places, rows = SparseMatrix.from_dense(listed), torch.arange(size).flip(0)
    row, column = listed[rows].nonzero(as_tuple=True)
    torch.testing.assert_close(similarity.at(places, rows), whole(similarity)[rows][row, column])


@pytest.mark.parametrize("stored_as_sparse", [False, True])
def test_pairs_of_features(stored_as_sparse: bool) -> None:
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(1)).double()
    x[2] = 0
    check_pairs(FeatureCosine(SparseMatrix.from_dense(x) if stored_as_sparse else x))


def test_pairs_of_a_sparse_similarity_are_read_from_it() -> None:
    matrix = SparseMatrix.from_dense(torch.tensor([[0.0, 0.5, 0.0], [0.5, 0.0, 0.2], [0.0, 0.2, 1.0]]))
    similarity = Stored(matrix)
    assert similarity.at(matrix, torch.tensor([1, 2])).tolist() == pytest.approx([0.5, 0.2, 0.2, 1.0])
    check = SparseMatrix.from_dense(torch.ones(3, 3))
    assert torch.equal(similarity.at(check, torch.tensor([2])), matrix.to_dense()[2])


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


@pytest.mark.slow
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


@pytest.mark.slow
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


def every_kind(graph: Graph, dtype: torch.dtype = torch.float32) -> dict[str, NodeSimilarity]:
    matrix = Similarity(beta=0.4).on(graph, dtype).stored()
    return {
        "ppr": Similarity(beta=0.0).on(graph, dtype),
        "exact": Similarity(beta=0.0, steps=None).on(graph, dtype),
        "ppr-cosine": Similarity(beta=0.0, structure="ppr-cosine").on(graph, dtype),
        "features": FeatureCosine(graph.x.to(dtype=dtype)),
        "sparse features": FeatureCosine(SparseMatrix.from_dense(graph.x.to(dtype=dtype).to_dense())),
        "blend": Similarity(beta=0.4).on(graph, dtype),
        "top_k": Similarity(beta=0.4, top_k=5).on(graph, dtype),
        "stored": matrix,
        "sparse": matrix.top(4),
        "function": Computed(lambda rows: matrix.block(rows), graph.num_nodes),
    }


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_a_similarity_knows_its_dtype(small: Graph, dtype: torch.dtype) -> None:
    for name, similarity in every_kind(small, dtype).items():
        assert similarity.dtype == dtype == similarity.block(torch.tensor([3])).dtype, name
    for rounded in (torch.bfloat16, torch.float16):
        half = Stored(torch.eye(4).to(rounded))
        assert half.dtype == torch.float32 == half.block(torch.tensor([1])).dtype
    numbers = Computed(lambda rows: torch.ones(len(rows), 4, dtype=torch.int64), 4)
    assert numbers.dtype == torch.float32 == numbers.block(torch.tensor([0])).dtype


def test_the_function_is_asked_for_one_row_to_learn_its_dtype() -> None:
    asked: list[int] = []

    def rows_of(rows: torch.Tensor) -> torch.Tensor:
        asked.append(len(rows))
        return torch.ones(len(rows), 5, dtype=F64)

    similarity = Computed(rows_of, 5)
    assert (similarity.dtype, similarity.dtype, asked) == (F64, F64, [1])


def test_everything_a_similarity_holds_moves_to_another_device(small: Graph) -> None:
    """The device without data stands for a GPU; tests/test_gpu.py computes on one."""
    there = torch.device("meta")
    kinds = {**every_kind(small), "labels": Labels().on(small)}
    for name, similarity in kinds.items():
        assert similarity.to("cpu") is similarity and similarity.dtype == torch.float32
        moved = similarity.to(there)
        assert type(moved) is type(similarity) and moved.device == there and similarity.device.type == "cpu", name
        for part in vars(moved).values():
            assert not isinstance(part, torch.Tensor | SparseMatrix | NodeSimilarity) or part.device == there, name
        assert (moved.dtype, moved.symmetric, moved.num_nodes) == (similarity.dtype, similarity.symmetric, 40), name
    stored = kinds["stored"].to(there)
    assert isinstance(stored, Stored) and isinstance(stored.matrix, torch.Tensor) and stored.matrix.stride() == (48, 1)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_the_digest_of_a_stored_similarity_is_of_all_its_entries(form: str) -> None:
    dense = torch.rand(300, 300, generator=torch.Generator().manual_seed(0)) + 0.1

    def stored(matrix: torch.Tensor) -> Stored:
        return Stored(matrix if form == "dense" else SparseMatrix.from_dense(matrix), symmetric=False)

    digest = stored(dense).digest()
    assert len(digest) == 64 and digest == stored(dense.clone()).digest() == stored(dense.clone()).to("cpu").digest()
    for row, column in ((0, 0), (123, 257), (299, 299)):
        changed = dense.clone()
        changed[row, column] = 0.05
        assert stored(changed).digest() != digest
    assert stored(dense.double()).digest() != digest
    if form == "dense":
        padded = stored(dense).stored()
        assert padded.digest() == digest, "how rows lie in memory does not matter"
        assert stored(dense.bfloat16()).digest() != digest


def test_the_digest_of_a_similarity_that_is_computed_is_of_some_rows() -> None:
    def digest(n: int, changed: int | None = None, dtype: torch.dtype = torch.float32) -> str:
        matrix = torch.rand(n, n, generator=torch.Generator().manual_seed(0), dtype=torch.float32).to(dtype)
        if changed is not None:
            matrix[changed] += 0.5
        return Computed(lambda rows: matrix[rows], n).digest()

    assert digest(40) == digest(40) == digest(40, dtype=F64), "as float32"
    assert len({digest(40), digest(41), *(digest(40, node) for node in range(40))}) == 42, "all rows of a small graph"
    few = [digest(1000), digest(1000, 0), digest(1000, 999)]
    assert len(set(few)) == 3 and digest(1000, 1) == few[0], "256 of a larger one"


def test_the_digest_tells_settings_apart(small: Graph) -> None:
    settings = [Similarity(), Similarity(beta=0.6), Similarity(alpha=0.2), Similarity(steps=3), Similarity(top_k=5)]
    assert len({setting.on(small).digest() for setting in settings}) == len(settings)


@pytest.mark.parametrize(
    ("settings", "shortcut"),
    [
        (Similarity(), {"top_k": 32, "steps": None}),
        (Similarity(beta=0.0, structure="ppr-cosine"), {"top_k": 32, "steps": None}),
        (Similarity(beta=1.0), {}),
        (Similarity(top_k=5), {}),
    ],
)
def test_the_largest_pageranks_can_stand_for_all(settings: Similarity, shortcut: dict[str, int | None]) -> None:
    assert settings.shortcut() == shortcut


def test_what_is_zero_or_one() -> None:
    labels = LabelSimilarity(torch.tensor([0, 1, -1]))
    assert labels.is_indicator() and NodeSimilarity.is_indicator(labels)
    for matrix, expected in ((torch.eye(3), True), (2 * torch.eye(3), False)):
        function = Computed(matrix.__getitem__, 3)
        for similarity in (Stored(matrix), Stored(SparseMatrix.from_dense(matrix)), function):
            assert similarity.is_indicator() == expected


def test_who_never_waits_for_a_gpu(small: Graph) -> None:
    cpu, gpu, x = torch.device("cpu"), torch.device("cuda"), small.x
    sparse = SparseMatrix.from_dense(torch.eye(40))
    nothing = torch.empty(0)
    wide = SparseMatrix.from_parts(torch.zeros(40_001, dtype=torch.long), nothing.long(), nothing, (40_000, 10_000))
    of_largest, of_all = Similarity(top_k=5), Similarity()
    assert never_waits(None, x, gpu, stored=False) and never_waits(of_all, x, gpu, stored=True, some_rows=True)
    assert not never_waits(of_all, x, gpu, stored=False) and not never_waits(Labels(), x, gpu, stored=False)
    assert never_waits(of_largest, x, gpu, stored=False) and not never_waits(of_largest, x, gpu, stored=False, some_rows=True)
    assert never_waits(of_largest, sparse, gpu, stored=False), "small features are dense on a GPU"
    assert not never_waits(of_largest, sparse, cpu, stored=False) and not never_waits(of_largest, wide, gpu, stored=False)
    assert never_waits(Similarity(beta=0.0, top_k=5), wide, gpu, stored=False), "no features at all"
    for settings in (of_largest, of_all):
        assert never_waits(settings.on(small), x, cpu, stored=False) == never_waits(settings, x, cpu, stored=False)
    assert never_waits(of_all.on(small).stored(), x, gpu, stored=False, some_rows=True)
    assert not never_waits(Stored(sparse), x, gpu, stored=False, some_rows=True)
    assert not never_waits(Computed(lambda rows: rows, 40), x, gpu, stored=False)
