from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from graphkin import Graph
from graphkin.report.fit_plots import SPAN, map_figure
from graphkin.report.map import NEIGHBOURS, NO_LABEL, node_map


def test_nearest_nodes_are_those_of_a_plain_loop() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 6))
    graph = Graph.from_arrays(torch.ones(30, 1), torch.tensor([[0], [1]]))
    found = node_map(rows, graph, "pca")
    for node in range(30):
        cosines = [
            (float(rows[node] @ rows[other] / np.linalg.norm(rows[node]) / np.linalg.norm(rows[other])), other)
            for other in range(30)
            if other != node
        ]
        best = sorted(cosines, reverse=True)[:NEIGHBOURS]
        assert found.nearest[node].tolist() == [other for _, other in best]
        assert found.similarities[node] == pytest.approx([cosine for cosine, _ in best], abs=1e-5)


def test_map_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphkin.report.map.NODES", 10)
    rows = np.random.default_rng(1).normal(size=(60, 4))
    labels = torch.arange(60) % 20
    labels[3] = -1
    graph = Graph.from_arrays(torch.ones(60, 1), torch.tensor([[0], [1]]), labels)
    found = node_map(rows, graph, "pca")
    assert found.points.shape == (10, 2)
    assert found.nodes == 60
    assert len(set(found.names)) == len(found.names) >= 10
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for place, name in enumerate(found.names[:10]):
        cosines = unit @ unit[int(name)]
        cosines[int(name)] = -2
        assert [int(found.names[near]) for near in found.nearest[place]] == np.argsort(-cosines)[:NEIGHBOURS].tolist()


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("layout", ["tsne", "pca"])
def test_maps_of_few_or_equal_nodes(nodes: int, layout: str) -> None:
    graph = Graph.from_arrays(torch.ones(nodes, 1), torch.zeros(2, 0, dtype=torch.long))
    for rows in (np.ones((nodes, 3)), np.zeros((nodes, 3)), np.random.default_rng(0).normal(size=(nodes, 1))):
        found = node_map(rows, graph, layout)
        assert found.points.shape == (nodes, 2)
        assert np.isfinite(found.points).all()
        assert found.nearest.shape == (nodes, min(NEIGHBOURS, nodes - 1))


def test_maps_are_the_same_every_time() -> None:
    rows = np.random.default_rng(2).normal(size=(50, 8))
    graph = Graph.from_arrays(torch.ones(50, 1), torch.tensor([[0], [1]]))
    assert np.array_equal(node_map(rows, graph).points, node_map(rows, graph).points)


def test_more_classes_than_colours_differ_in_shape() -> None:
    labels = torch.arange(40) % 20
    labels[0] = -1
    graph = Graph.from_arrays(torch.ones(40, 1), torch.tensor([[0], [1]]), labels)
    legend = map_figure(node_map(np.random.default_rng(0).normal(size=(40, 4)), graph, "pca")).legend
    assert len({(entry.colour, entry.symbol) for entry in legend}) == 21
    assert (legend[-1].name, legend[-1].count) == (NO_LABEL, 1)


def test_places_keep_the_shape_of_the_map() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 4)) * np.array([3.0, 1.0, 0.5, 0.5])
    graph = Graph.from_arrays(torch.ones(30, 1), torch.tensor([[0], [1]]))
    found = node_map(rows, graph, "pca")
    nodes = map_figure(found).nodes
    places, points = np.column_stack([nodes["x"], nodes["y"]]), found.points.astype(float)
    assert places.min() == 0 and places.max() == SPAN
    assert places[:, 0].max() > places[:, 1].max(), "the longest way lies level"
    sizes = SPAN / np.ptp(points, axis=0).max()
    assert np.abs(places - (points - points.min(axis=0)) * sizes).max() <= 0.5 + 1e-6
    assert nodes["stretch"] == 1, "both axes of PCA have the same scale"
    assert map_figure(node_map(rows, graph, "tsne")).nodes["stretch"] > 1


def test_similarities_keep_enough_digits_to_tell_neighbours_apart() -> None:
    angles = np.array([0.0, 0.001, 0.0021, 0.0033, 0.0046, 0.006])
    rows = np.column_stack([np.cos(angles), np.sin(angles)])
    graph = Graph.from_arrays(torch.ones(6, 1), torch.tensor([[0], [1]]))
    cosines = map_figure(node_map(rows, graph, "pca")).nodes["cosines"]
    assert len({round(value / 1e6, 3) for value in cosines[0]}) == 1
    assert cosines[0] == sorted(cosines[0], reverse=True) and len(set(cosines[0])) == 5


def test_groups_are_labels_or_clusters_with_their_reason(small: Graph) -> None:
    rows = np.random.default_rng(0).normal(size=(40, 4))
    assert node_map(rows, small, "pca").clusters is None
    assert small.y is not None
    without = node_map(rows, replace(small, y=torch.full_like(small.y, -1)), "pca")
    assert without.clusters is not None and without.clusters.count == len(without.group_names)
