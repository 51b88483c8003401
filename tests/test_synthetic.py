from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from graphkin.errors import SettingError
from graphkin.graphs.readers import open_graph
from graphkin.graphs.synthetic import community_graph


def test_it_is_what_was_asked_for() -> None:
    graph = community_graph(5000, classes=5, mean_degree=12, mixing=0.4, words=100, words_of_node=8, typical=0.5, seed=3)
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (5000, 100, 5)
    assert graph.name == "synthetic-5000"
    assert graph.y is not None
    assert torch.bincount(graph.y).tolist() == [1000] * 5
    assert 2 * graph.num_edges / 5000 == pytest.approx(12, rel=0.05), "some pairs come twice"
    source, target = graph.edge_index
    same = float((graph.y[source] == graph.y[target]).float().mean())
    assert same == pytest.approx(0.6 + 0.4 / 5, abs=0.02)
    degree = torch.bincount(source, minlength=5000)
    assert degree.max() > 10 * degree.float().mean(), "a heavy tail"
    words = graph.x.to_dense() if not isinstance(graph.x, torch.Tensor) else graph.x
    assert set(words.unique().tolist()) == {0.0, 1.0} and words.sum(dim=1).max() <= 8
    own = words.reshape(5000, 5, 20).sum(dim=2)[torch.arange(5000), graph.y].sum() / words.sum()
    assert float(own) == pytest.approx(0.5 + 0.5 / 5, abs=0.05)


def test_a_seed_gives_one_graph() -> None:
    assert community_graph(200, seed=1).content == community_graph(200, seed=1).content
    assert community_graph(200, seed=1).content != community_graph(200, seed=2).content


def test_it_has_a_name() -> None:
    assert open_graph("synthetic-200").content == community_graph(200).content
    with pytest.raises(SettingError, match=r"num_nodes .*>= 2.* found 1"):
        open_graph("synthetic-1")


def test_neighbours_do_not_lie_side_by_side() -> None:
    graph = community_graph(2000)
    assert graph.y is not None
    assert np.abs(np.diff(graph.y.numpy())).mean() > 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_nodes": 1}, "num_nodes .*>= 2.* found 1"),
        ({"classes": 0}, "classes .*>= 1.* found 0"),
        ({"mixing": 1.5}, r"mixing .*<= 1.* found 1\.5"),
        ({"mean_degree": 0}, "mean_degree .*> 0.* found 0"),
        ({"words_of_node": 300}, "words_of_node .*<= 256.* found 300"),
    ],
)
def test_wrong_settings_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        community_graph(**{"num_nodes": 100, **options})
