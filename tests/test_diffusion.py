from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphkin import Graph
from graphkin.errors import SettingError
from graphkin.graphs import diffusion
from graphkin.graphs.adjacency import normalised_adjacency
from graphkin.graphs.diffusion import (
    REST,
    REST_OF_ROUNDED,
    chebyshev_steps,
    pagerank_diffusion,
    pagerank_diffusion_plain,
    pagerank_diffusions,
    plain_steps,
    powers,
    unit_length,
)
from graphkin.support.sparse import SparseMatrix
from tests import paper
from tests.wording import refused

ALPHAS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.0)
Diffusion = Callable[[SparseMatrix, torch.Tensor, float], torch.Tensor]


def adjacency_of(graph: Graph) -> SparseMatrix:
    return normalised_adjacency(graph.edge_index, graph.num_nodes, self_loops=True, dtype=torch.float64)


def sparse_like(nodes: int, width: int, share: float, seed: int = 0) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(nodes, width, generator=draw, dtype=torch.float64)
    return x * (torch.rand(nodes, width, generator=draw) < share)


@given(st.integers(2, 8), st.integers(0, 2**20), st.sampled_from(ALPHAS))
def test_loops_say_the_same(nodes: int, seed: int, alpha: float) -> None:
    draw = torch.Generator().manual_seed(seed)
    pairs = (torch.rand(nodes, nodes, generator=draw) < 0.4).triu(1).nonzero()
    graph = Graph.from_arrays(torch.rand(nodes, 3, generator=draw), pairs.T)
    edges = [(int(i), int(j)) for i, j in pairs]
    x = torch.randn(nodes, 3, generator=draw, dtype=torch.float64)
    loops = paper.normalised_adjacency(nodes, edges, self_loops=True)
    expected, found = x.tolist(), powers(adjacency_of(graph), x, range(4))
    for power in found:
        assert isinstance(power, torch.Tensor)
        torch.testing.assert_close(power, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-12)
        expected = paper.product(loops, expected)
    ranks = torch.tensor(paper.pagerank(nodes, edges, alpha, plain_steps(alpha), True), dtype=torch.float64)
    plain = pagerank_diffusion_plain(adjacency_of(graph), x, alpha)
    torch.testing.assert_close(plain, ranks @ x, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("way", [pagerank_diffusion, pagerank_diffusion_plain])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_diffusion_ends_at_the_exact_inverse(small: Graph, way: Diffusion, alpha: float) -> None:
    adjacency, x = adjacency_of(small), small.x
    assert isinstance(x, torch.Tensor)
    x = x.double()
    exact = torch.linalg.solve(torch.eye(40, dtype=torch.float64) - (1 - alpha) * adjacency.to_dense(), alpha * x)
    rest, first = (way(adjacency, x, alpha) - exact).norm(dim=0), (x - exact).norm(dim=0)
    assert (rest <= REST * first + 1e-12).all()


@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_larger_rest_takes_fewer_steps(small: Graph, alpha: float) -> None:
    adjacency, x = adjacency_of(small), sparse_like(40, 5, 1.0)
    exact = torch.linalg.solve(torch.eye(40, dtype=torch.float64) - (1 - alpha) * adjacency.to_dense(), alpha * x)
    (rounded,) = pagerank_diffusions(adjacency, x, [alpha], REST_OF_ROUNDED)
    left, first = (rounded - exact).norm(dim=0), (x - exact).norm(dim=0)
    assert (left <= REST_OF_ROUNDED * first + 1e-12).all()
    assert chebyshev_steps(alpha, REST_OF_ROUNDED) < chebyshev_steps(alpha) or alpha == 1


def test_the_number_of_steps_is_the_smallest_that_will_do() -> None:
    for alpha in ALPHAS[:-1]:
        steps = plain_steps(alpha)
        assert (1 - alpha) ** steps < REST <= (1 - alpha) ** (steps - 1)
        z, few = 1 / (1 - alpha), chebyshev_steps(alpha)
        terms = [1.0, z]
        while len(terms) <= few:
            terms.append(2 * z * terms[-1] - terms[-2])
        assert 1 / terms[few] < REST <= 1 / terms[few - 1]
    assert [plain_steps(alpha) for alpha in ALPHAS] == [180, 88, 42, 19, 6, 0]
    assert [chebyshev_steps(alpha) for alpha in ALPHAS] == [31, 22, 15, 10, 5, 0]
    with refused(SettingError, "alpha", "0", "1"):
        plain_steps(0)
    with refused(SettingError, "alpha", "1.5"):
        chebyshev_steps(1.5)


def test_several_at_once_are_those_one_by_one(small: Graph) -> None:
    adjacency, x = adjacency_of(small), sparse_like(40, 5, 1.0)
    together = pagerank_diffusions(adjacency, x, ALPHAS)
    for alpha, found in zip(ALPHAS, together, strict=True):
        torch.testing.assert_close(found, pagerank_diffusion(adjacency, x, alpha), rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(found, by_iteration(adjacency, x, alpha), rtol=1e-10, atol=1e-12)


def by_iteration(adjacency: SparseMatrix, x: torch.Tensor, alpha: float) -> torch.Tensor:
    """h_{k+1} = h_{k−1} + ω_{k+1} ((1 − α) Â h_k + α x − h_{k−1}), ω_{k+1} = 1 / (1 − (1 − α)² ω_k / 4)."""
    before, h, weight = x, x, 1.0
    for step in range(chebyshev_steps(alpha)):
        image = (1 - alpha) * (adjacency @ h) + alpha * x
        weight = 1.0 if step == 0 else 1 / (1 - (1 - alpha) ** 2 * weight / (2 if step == 1 else 4))
        before, h = h, image if step == 0 else torch.lerp(before, image, weight)
    return h


def test_sparse_features_give_the_same_and_stay_sparse_while_few_entries_are_filled(cora: Graph) -> None:
    adjacency = normalised_adjacency(cora.edge_index, cora.num_nodes, self_loops=True)
    assert isinstance(cora.x, SparseMatrix)
    dense = cora.x.to_dense()
    kinds = []
    for hop, plain in zip(powers(adjacency, cora.x, (0, 1, 2, 4)), powers(adjacency, dense, (0, 1, 2, 4)), strict=True):
        kinds.append(type(hop))
        filled = hop.to_dense() if isinstance(hop, SparseMatrix) else hop
        assert isinstance(plain, torch.Tensor)
        torch.testing.assert_close(filled, plain, rtol=1e-4, atol=1e-5)
    assert kinds == [SparseMatrix, SparseMatrix, torch.Tensor, torch.Tensor]
    torch.testing.assert_close(
        pagerank_diffusion(adjacency, cora.x, 0.2), pagerank_diffusion(adjacency, dense, 0.2), rtol=1e-4, atol=1e-5
    )


def test_blocks_of_columns_change_nothing(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    adjacency, x = adjacency_of(small), sparse_like(40, 50, 0.05)
    found = []
    for size in (2**20, 0):
        monkeypatch.setitem(diffusion.BLOCK_BYTES, "cpu", size)
        dense = [power for power in powers(adjacency, x, (1, 3)) if isinstance(power, torch.Tensor)]
        found.append(
            [*dense, pagerank_diffusion(adjacency, x, 0.1), pagerank_diffusion(adjacency, SparseMatrix.from_dense(x), 0.1)]
        )
    for whole, parts in zip(*found, strict=True):
        torch.testing.assert_close(whole, parts, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(found[0][-1], found[0][-2], rtol=1e-12, atol=1e-14)


def test_gradients_pass_through(small: Graph) -> None:
    adjacency = adjacency_of(small)
    x = sparse_like(40, 3, 1.0).requires_grad_()

    def both(x: torch.Tensor) -> torch.Tensor:
        (twice,) = powers(adjacency, x, (2,))
        assert isinstance(twice, torch.Tensor)
        return twice + pagerank_diffusion(adjacency, x, 0.3)

    assert torch.autograd.gradcheck(both, x)


def test_rows_of_length_one() -> None:
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1e30, 0.0], [-1e-30, 0.0]])
    expected = torch.tensor([[0.6, 0.8], [0.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    torch.testing.assert_close(unit_length(x), expected)
    sparse = unit_length(SparseMatrix.from_dense(x))
    assert isinstance(sparse, SparseMatrix)
    torch.testing.assert_close(sparse.to_dense(), expected)


def test_refused(small: Graph) -> None:
    with refused(SettingError, "hops", "-1"):
        powers(adjacency_of(small), small.x, (2, -1))
    with refused(SettingError, "alpha", "0", "nan"):
        pagerank_diffusion(adjacency_of(small), small.x, float("nan"))
