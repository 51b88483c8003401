from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphkin import Graph, Similarity
from graphkin.errors import OutputError, SettingError
from graphkin.graphs.synthetic import community_graph
from graphkin.similarity import PageRank, Stored, pagerank_loops
from graphkin.similarity import pagerank as module
from graphkin.similarity.pagerank import top_pagerank
from graphkin.similarity.pagerank_rows import Rows, cosine_rows, symmetric_csr
from graphkin.support.sparse import SparseMatrix
from tests.cases import Case, cases

ROUNDING = 1e-6


def dense(rows: Rows) -> np.ndarray:
    matrix = np.zeros((len(rows.columns), len(rows.columns)))
    for row, (columns, values) in enumerate(zip(*rows, strict=True)):
        known = columns >= 0
        assert (values[~known] == 0).all() and (np.diff(columns[known]) > 0).all(), "in order, what is missing last"
        matrix[row, columns[known]] = values[known]
    return matrix


def exact(graph: Graph, **options: Any) -> np.ndarray:
    pagerank = PageRank(graph.edge_index, graph.num_nodes, edge_weight=graph.edge_weight, dtype=torch.float64, **options)
    return pagerank.block(torch.arange(graph.num_nodes)).numpy()


def degrees(graph: Graph, self_loops: bool) -> np.ndarray:
    weight = None if graph.edge_weight is None else graph.edge_weight.double()
    return torch.bincount(graph.edge_index[0], weight, graph.num_nodes).double().numpy() + self_loops


@settings(max_examples=60)
@given(
    cases,
    st.floats(0.05, 0.95),
    st.sampled_from([None, 1, 2, 7, 20]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1e-1, 1e-3, 1e-6]),
)
def test_every_entry_is_within_the_error(
    case: Case, alpha: float, steps: int | None, self_loops: bool, weighted: bool, error: float
) -> None:
    graph = case.graph()
    if weighted:
        weight = 0.1 + np.random.default_rng(0).random(len(case.edges)) * 3
        graph = Graph.from_arrays(graph.x, np.array(case.edges).reshape(-1, 2).T, edge_weight=weight)
    options: dict[str, Any] = {"alpha": alpha, "steps": steps, "self_loops": self_loops}
    rows = top_pagerank(graph.edge_index, case.n, case.n, edge_weight=graph.edge_weight, error=error, **options)
    root = np.sqrt(degrees(graph, self_loops))
    missing = exact(graph, **options) - dense(rows)
    assert (missing >= -ROUNDING).all(), "never too large"
    assert (missing <= error * root[:, None] * root + ROUNDING).all()


@pytest.mark.slow
@pytest.mark.parametrize("steps", [None, 20])
def test_the_largest_are_found(steps: int | None) -> None:
    graph = community_graph(700, seed=0)
    whole = torch.from_numpy(exact(graph, steps=steps))
    error = 1e-7
    rows = top_pagerank(graph.edge_index, graph.num_nodes, 8, steps=steps, error=error)
    most = error * degrees(graph, self_loops=True).max() + ROUNDING
    largest = whole.topk(8, dim=1).values.sort(dim=1).values.numpy()
    np.testing.assert_allclose(np.sort(rows.values, axis=1), largest, rtol=0, atol=most)
    nodes = np.arange(graph.num_nodes)[:, None]
    np.testing.assert_allclose(whole.numpy()[nodes, rows.columns], rows.values, rtol=0, atol=most)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [None, 5])
def test_threads_and_parts_change_nothing(cora: Graph, steps: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    one = top_pagerank(cora.edge_index, cora.num_nodes, 8, steps=steps)
    monkeypatch.setattr(module, "NODES_AT_A_TIME", 1000)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr("numba.get_num_threads", lambda: 3)
    said: list[int] = []
    other = top_pagerank(cora.edge_index, cora.num_nodes, 8, steps=steps, say=said.append)
    assert said == [1000, 2000, 2708]
    assert np.array_equal(one.columns, other.columns) and np.array_equal(one.values, other.values)


def test_some_nodes_alone(cora: Graph) -> None:
    whole = top_pagerank(cora.edge_index, cora.num_nodes, 8)
    nodes = torch.tensor([2707, 0, 44])
    some = top_pagerank(cora.edge_index, cora.num_nodes, 8, nodes=nodes)
    assert np.array_equal(some.columns, whole.columns[nodes]) and np.array_equal(some.values, whole.values[nodes])


@pytest.mark.slow
def test_a_stopped_one_goes_on(cora: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NODES_AT_A_TIME", 1000)
    whole = top_pagerank(cora.edge_index, cora.num_nodes, 8)

    def stop(nodes: int) -> None:
        if nodes == 2000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        top_pagerank(cora.edge_index, cora.num_nodes, 8, folder=tmp_path, say=stop)
    assert {path.name for path in tmp_path.iterdir()} == {"pagerank-0.npz", "pagerank-1000.npz"}
    done: list[int] = []
    original = pagerank_loops.push

    def push(walk: Any, starts: Any, *others: Any) -> None:
        done.append(int(starts[0]))
        original(walk, starts, *others)

    monkeypatch.setattr(module, "push", push)
    again = top_pagerank(cora.edge_index, cora.num_nodes, 8, folder=tmp_path)
    assert done == [2000]
    assert np.array_equal(again.columns, whole.columns) and np.array_equal(again.values, whole.values)
    with pytest.raises(OutputError, match=r"pagerank-0\.npz.*another graph.*other settings"):
        top_pagerank(cora.edge_index, cora.num_nodes, 8, alpha=0.2, folder=tmp_path)
    (tmp_path / "pagerank-0.npz").write_bytes(b"PK")
    with pytest.raises(OutputError, match=r"pagerank-0\.npz.*PageRank, or is damaged"):
        top_pagerank(cora.edge_index, cora.num_nodes, 8, folder=tmp_path)


def test_nodes_without_edges_keep_to_themselves() -> None:
    none = torch.empty(2, 0, dtype=torch.long)
    for steps in (None, 3):
        alone = top_pagerank(none, 3, 2, alpha=0.3, steps=steps, self_loops=False)
        np.testing.assert_allclose(dense(alone), 0.3 * np.eye(3), rtol=1e-6)
        looped = top_pagerank(none, 3, 2, alpha=0.3, steps=steps, error=1e-7)
        np.testing.assert_allclose(dense(looped), np.eye(3), atol=1e-6)


@pytest.mark.parametrize("steps", [None, 50])
def test_what_is_too_small_for_a_float_breaks_nothing(steps: int | None) -> None:
    """Nodes whose share is rounded to zero are visited again and again."""
    path = torch.arange(200)
    edges = torch.stack([path[:-1], path[1:]])
    weight = torch.where(edges[0] % 2 == 0, 1e30, 1e-30).double()
    graph = Graph.from_arrays(torch.ones(200, 1), edges, edge_weight=weight)
    options: dict[str, Any] = {"steps": steps, "edge_weight": graph.edge_weight, "error": 1e-40}
    for alpha in (1e-3, 0.1) if steps is None else (1e-50, 0.1):
        found = top_pagerank(graph.edge_index, 200, 4, alpha=alpha, **options)
        assert np.isfinite(found.values).all() and (found.values >= 0).all()
        present = found.columns[found.columns >= 0]
        assert ((np.sort(found.columns)[:, 1:] != np.sort(found.columns)[:, :-1]) | (np.sort(found.columns)[:, 1:] < 0)).all()
        assert present.max() < 200


def test_symmetric_takes_the_larger_of_both(small: Graph) -> None:
    rows = top_pagerank(small.edge_index, small.num_nodes, 4, error=1e-2)
    one = dense(rows)
    rowptr, columns, values = (torch.from_numpy(part) for part in symmetric_csr(rows))
    matrix = SparseMatrix.from_parts(rowptr, columns, values, (small.num_nodes, small.num_nodes))
    np.testing.assert_array_equal(matrix.to_dense().numpy(), np.maximum(one, one.T).astype(np.float32))
    assert not np.array_equal(one, one.T), "or this proves nothing"
    assert all((columns[start:end].diff() > 0).all() for start, end in pairwise(rowptr.tolist()))


def test_cosines_are_those_of_the_entries(small: Graph) -> None:
    rows = top_pagerank(small.edge_index, small.num_nodes, 6)
    entries = dense(rows)
    unit = entries / np.linalg.norm(entries, axis=1, keepdims=True)
    found = dense(cosine_rows(rows, small.num_nodes))
    np.testing.assert_allclose(found, unit @ unit.T, atol=1e-6)
    few = cosine_rows(rows, 3)
    np.testing.assert_allclose(np.sort(few.values, axis=1), np.sort(unit @ unit.T, axis=1)[:, -3:], atol=1e-6)


@pytest.mark.parametrize("structure", ["ppr", "ppr-cosine"])
def test_top_k_of_a_similarity_is_the_definitions_up_to_the_error(small: Graph, structure: str) -> None:
    everything = small.num_nodes
    settings = Similarity(beta=0.4, structure=structure, top_k=everything, pagerank_error=1e-8)
    sparse = settings.on(small)
    whole = Similarity(beta=0.4, structure=structure).on(small)
    nodes = torch.arange(everything)
    torch.testing.assert_close(sparse.block(nodes), whole.block(nodes), rtol=1e-4, atol=1e-5)
    assert sparse.total() == pytest.approx(whole.total(), rel=1e-4)
    cut = Similarity(beta=0.0, structure="ppr", steps=None, top_k=3, pagerank_error=1e-8).on(small)
    expected = Similarity(beta=0.0, steps=None).on(small).top(3)
    assert isinstance(cut, Stored)
    torch.testing.assert_close(cut.block(nodes), expected.block(nodes), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1.0}, "alpha must be"),
        ({"alpha": 1e-50}, "alpha must be a number >= 0.001 and < 1, found 1e-50"),
        ({"error": 0.0}, "pagerank_error must be a number > 0, found 0.0"),
        ({"k": 0}, "k must be a whole number >= 1"),
    ],
)
def test_wrong_settings_are_named(small: Graph, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        top_pagerank(small.edge_index, small.num_nodes, **{"k": 2, **options})
