"""Similar nodes, clusters, layouts and missing links: laws, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

import graphkin
from graphkin import Graph, InputError
from graphkin.errors import SettingError
from graphkin.uses import cluster as cluster_module
from graphkin.uses import layout as layout_module
from graphkin.uses import links as links_module
from graphkin.uses import nearest as nearest_module
from tests.cases import Case, cases
from tests.wording import refused


def rounded(case: Case) -> np.ndarray:
    """Rows with few values, so that there are ties, copies and rows of zeros among them."""
    rows: np.ndarray = case.u.mul(1.5).round().numpy()
    return rows


def cosines_of(rows: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=1)
    unit = (rows / np.where(lengths > 0, lengths, 1)[:, None]).astype(np.float32)
    found: np.ndarray = (torch.from_numpy(unit) @ torch.from_numpy(unit).T).numpy()
    return found


@given(cases, st.integers(1, 14), st.sampled_from([1, 7, 2**24]))
def test_similar_nodes_are_those_of_a_loop(case: Case, count: int, entries: int) -> None:
    rows = case.u.numpy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest_module, "ENTRIES", entries)
        found = graphkin.similar(case.u, list(range(case.n)), count)
    for node in range(case.n):
        best = sorted((-float(rows[node] @ rows[other]), other) for other in range(case.n) if other != node)[:count]
        assert found.cosines[node] == pytest.approx([-cosine for cosine, _ in best], abs=1e-5)
        assert node not in found.indices[node] and len(set(found.indices[node])) == len(best)
        for other, cosine in zip(found.indices[node], found.cosines[node], strict=True):
            assert cosine == pytest.approx(float(rows[node] @ rows[other]), abs=1e-5)


def test_equal_cosines_come_in_the_order_of_the_nodes() -> None:
    rows = np.array([[1.0, 0], [2, 0], [0, 1], [0, 0], [3, 0], [0, 5]])
    found = graphkin.similar(rows, [0, 3], count=4)
    assert found.indices.tolist() == [[1, 4, 2, 3], [0, 1, 2, 4]]
    assert found.cosines.tolist() == [[1, 1, 0, 0], [0, 0, 0, 0]]
    assert graphkin.similar(rows, 5, count=1).indices.tolist() == [[2]]
    assert graphkin.similar(np.ones((1, 2)), [0]).indices.shape == (1, 0)


@given(cases, st.integers(1, 80), st.sampled_from([1, 10, 2**25]))
def test_links_are_the_best_pairs_of_a_loop(case: Case, count: int, entries: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links_module, "ENTRIES", entries)
        found = graphkin.links(case.u, case.graph(), count)
    edges = {tuple(sorted(edge)) for edge in case.edges}
    pairs = {pair: float(case.u[pair[0]] @ case.u[pair[1]]) for pair in itertools.combinations(range(case.n), 2)}
    left = sorted((cosine for pair, cosine in pairs.items() if pair not in edges), reverse=True)
    assert found.cosines == pytest.approx(left[:count], abs=1e-5)
    listed = [tuple(pair) for pair in found.pairs.tolist()]
    assert len(set(listed)) == len(listed) and not edges & set(listed)
    assert [pairs[pair] for pair in listed] == pytest.approx(left[:count], abs=1e-5)


@given(cases, st.integers(1, 80), st.sampled_from([1, 10, 2**25]))
def test_links_with_ties_do_not_depend_on_blocks(case: Case, count: int, entries: int) -> None:
    rows = np.sign(rounded(case))[:, :1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links_module, "ENTRIES", entries)
        found = graphkin.links(rows, case.graph(), count)
    edges = {tuple(sorted(edge)) for edge in case.edges}
    left = [pair for pair in itertools.combinations(range(case.n), 2) if pair not in edges]
    best = sorted(left, key=lambda pair: (-float(rows[pair[0]] @ rows[pair[1]]), pair))[:count]
    assert [tuple(pair) for pair in found.pairs.tolist()] == best


@pytest.mark.gpu
def test_links_on_a_gpu_are_those_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    graph = Graph.from_arrays(np.ones((700, 1)), draw.integers(0, 700, (2, 3000)))
    rows = draw.normal(size=(700, 8))
    monkeypatch.setattr(links_module, "ENTRIES", 50_000)
    one, other = (graphkin.links(rows, graph, 200, device=device) for device in ("cpu", "cuda"))
    assert other.cosines == pytest.approx(one.cosines, abs=1e-5)
    assert len({tuple(pair) for pair in one.pairs} & {tuple(pair) for pair in other.pairs}) >= 198


def test_a_complete_graph_misses_nothing() -> None:
    edges = np.array(list(itertools.combinations(range(5), 2))).T
    found = graphkin.links(np.ones((5, 2)), Graph.from_arrays(np.ones((5, 1)), edges))
    assert found.pairs.shape == (0, 2) and found.cosines.shape == (0,)


def blobs(nodes: int, groups: int) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    centres = np.eye(groups, 12)
    labels = np.sort(np.arange(nodes) % groups)
    return centres[labels] + draw.normal(0, 0.05, (nodes, 12)), labels


@pytest.mark.parametrize("sample", [60, 20_000])
def test_clear_clusters_are_found_and_counted(sample: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "SAMPLE", sample)
    rows, labels = blobs(202, 5)
    found = graphkin.cluster(rows)
    assert found.count == 5 and found.why.startswith("5 clusters: the highest mean silhouette of 2 to 20 clusters")
    assert sorted(found.silhouettes) == list(range(2, 21)) and max(found.silhouettes.values()) == found.silhouettes[5]
    assert len(set(zip(labels.tolist(), found.numbers.tolist(), strict=True))) == 5
    assert found.sizes == (41, 41, 40, 40, 40) == tuple(np.bincount(found.numbers)[1:].tolist())
    for number, nodes in enumerate(found.central, start=1):
        assert set(found.numbers[nodes]) == {number} and len(nodes) == 3
    assert np.array_equal(found.numbers, graphkin.cluster(3 * torch.from_numpy(rows)).numbers), "lengths do not count"


def test_as_many_clusters_as_asked_for() -> None:
    rows, _ = blobs(40, 4)
    assert graphkin.cluster(rows, 7).count == 7
    found = graphkin.cluster(rows, 1)
    assert set(found.numbers) == {1} and found.why == "1 cluster, as asked for."
    with refused(SettingError, "count", "at most 2", "found 3"):
        graphkin.cluster(np.array([[1.0, 0], [2, 0], [0, 1]]), 3)


@pytest.mark.parametrize("nodes", [1, 2, 3, 5])
def test_clusters_and_layouts_of_few_or_equal_nodes(nodes: int) -> None:
    for rows in (np.ones((nodes, 3)), np.zeros((nodes, 3)), np.random.default_rng(0).normal(size=(nodes, 1))):
        found = graphkin.cluster(rows)
        assert sum(found.sizes) == nodes and found.numbers.min() == 1
        for kind in ("tsne", "pca"):
            points = graphkin.layout(rows, kind)
            assert points.shape == (nodes, 2) and np.isfinite(points).all()


@pytest.mark.parametrize("kind", ["tsne", "pca"])
def test_layouts_keep_groups_together_also_from_a_sample(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = blobs(120, 3)
    for sample in (40, 20_000):
        monkeypatch.setattr(layout_module, "SAMPLE", sample)
        points = graphkin.layout(rows, kind)
        gaps = np.linalg.norm(points[:, None] - points, axis=2)
        np.fill_diagonal(gaps, np.inf)
        assert (labels[gaps.argmin(axis=1)] == labels).all()
        assert np.array_equal(points, graphkin.layout(rows, kind))


def test_sparse_rows_are_as_good_as_dense_ones() -> None:
    rows = np.random.default_rng(0).poisson(0.4, (30, 8)).astype(float)
    sparse = scipy.sparse.csr_matrix(rows)
    assert np.array_equal(graphkin.similar(rows, [3, 4]).indices, graphkin.similar(sparse, [3, 4]).indices)
    assert np.array_equal(graphkin.cluster(rows, 3).numbers, graphkin.cluster(sparse, 3).numbers)


ROWS: Any = np.ones((4, 2))


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda: graphkin.similar(ROWS, [0], count=0), ["count", ">= 1", "found 0"]),
        (lambda: graphkin.similar(ROWS, [4]), ["nodes", "0..3", "found 4"]),
        (lambda: graphkin.similar(ROWS, [0, -1]), ["nodes", "0..3", "found -1"]),
        (lambda: graphkin.similar(ROWS, []), ["nodes", "whole numbers"]),
        (lambda: graphkin.similar(ROWS, [0.5]), ["nodes", "whole numbers"]),  # type: ignore[list-item]
        (lambda: graphkin.similar(ROWS, "ann"), ["nodes", "'ann'"]),  # type: ignore[arg-type]
        (lambda: graphkin.similar(ROWS[0], [0]), ["embeddings", "(2,)"]),
        (lambda: graphkin.similar(np.full((3, 2), np.nan), [0]), ["embeddings", "finite"]),
        (lambda: graphkin.similar(np.empty((0, 2)), [0]), ["embeddings", "(0, 2)"]),
        (lambda: graphkin.cluster(ROWS, count=0), ["count", ">= 1", "found 0"]),
        (lambda: graphkin.cluster(ROWS, count=1.5), ["count", "found 1.5"]),  # type: ignore[arg-type]
        (lambda: graphkin.cluster(ROWS, seed=-1), ["seed", ">= 0", "found -1"]),
        (lambda: graphkin.layout(ROWS, "umap"), ["layout", "'umap'", "tsne, pca"]),
        (lambda: graphkin.links(ROWS, Graph.from_arrays(np.ones((3, 1)), [[0], [1]])), ["embeddings", "3 nodes", "(4, 2)"]),
        (lambda: graphkin.links(ROWS, Graph.from_arrays(ROWS, [[0], [1]]), 0), ["count", ">= 1", "found 0"]),
        (lambda: graphkin.links(ROWS, ROWS), ["graph", "ndarray"]),
        (lambda: graphkin.links(ROWS, Graph.from_arrays(ROWS, [[0], [1]]), device="gpu"), ["device", "'gpu'"]),
    ],
)
def test_mistakes_are_named(call: Any, facts: list[str]) -> None:
    with refused(InputError, *facts):
        call()
