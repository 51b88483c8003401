"""What makes settings better: labels without those of test nodes, held-out edges, agreement of seeds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import graphkin
from graphkin import Graph
from graphkin.errors import GraphError, SettingError, SplitError
from graphkin.graphs.synthetic import community_graph
from graphkin.tuning.criteria import CRITERIA, FIRST_SEED, Asked, criterion_named, tuning_splits
from tests.searches import GRACE, quick, told


@pytest.fixture(scope="module")
def graph() -> Graph:
    return community_graph(150, classes=3, mean_degree=8, words=30, words_of_node=8)


def test_test_labels_are_never_used(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is a test score computed, nor does any test label change anything."""

    def never(*given: Any, **named: Any) -> None:
        raise AssertionError("a test score")

    for name in ("probe", "probe_torch", "probe_sklearn"):
        monkeypatch.setattr(f"graphkin.evaluation.probe.{name}", never)
    assert graph.y is not None
    test = tuning_splits(graph, Asked(GRACE))[0].test
    shuffled = graph.y.clone()
    shuffled[test] = shuffled[test.flip(0)]
    assert not torch.equal(shuffled, graph.y)
    assert told(quick(graph)) == told(quick(replace(graph, y=shuffled)))


@pytest.mark.parametrize("method", ["grace", "graph-mlp"])
def test_removed_test_labels_change_nothing_on_public_splits(method: str, small: Graph) -> None:
    assert small.y is not None and small.test_mask is not None
    without = replace(small, y=torch.where(small.test_mask, -1, small.y))
    assert told(quick(small, method, protocol="public")) == told(quick(without, method, protocol="public"))


def test_splits_share_their_test_nodes_and_no_seed_of_a_table(graph: Graph) -> None:
    splits = tuning_splits(graph, Asked(GRACE, splits=3))
    assert [split.seed for split in splits] == [FIRST_SEED, FIRST_SEED + 1, FIRST_SEED + 2]
    assert all(torch.equal(split.test, splits[0].test) for split in splits)
    assert [split.sizes for split in splits] == [{"train": 15, "val": 15, "test": 120}] * 3
    assert not torch.equal(splits[0].train, splits[1].train)


def test_held_out_edges_are_not_trained_on(graph: Graph) -> None:
    judge: Any = CRITERIA["edges"].ready(graph, Asked(GRACE))
    pairs, left, held, others = (
        {(int(a), int(b)) for a, b in index.T}
        for index in (graph.edge_index, judge.graph.edge_index, *judge.graph.held_out.parts()[:2])
    )
    both = held | {(b, a) for a, b in held}
    assert len(held) == round(0.1 * graph.num_edges) == len(others)
    assert left == pairs - both and both <= pairs
    assert not others & pairs and all(a != b for a, b in others)


def test_a_model_agrees_with_itself(graph: Graph) -> None:
    judge = CRITERIA["agreement"].ready(graph, Asked(GRACE))
    one, other = graphkin.fit_repeats(graph, "grace", range(2), epochs=2, hidden=8)
    assert judge.score(one, ()) is None
    assert judge.score(one, (one,)) == 100
    between = judge.score(one, (other,))
    assert between is not None and 0 < between < 100
    for model in (one, other):
        for parameter in model.modules["encoder"].parameters():
            parameter.data.zero_()
    collapsed = judge.score(one, (other,))
    assert collapsed is not None and collapsed < 3 * 100 * 10 / graph.num_nodes  # chance


def test_auto_is_labels_where_there_are_any(graph: Graph) -> None:
    assert criterion_named("auto", graph).name == "labels"
    assert criterion_named("auto", replace(graph, y=None)).name == "edges"
    with pytest.raises(GraphError, match="criterion='labels' needs labels"):
        quick(replace(graph, y=None), criterion="labels")
    of_test = torch.zeros(graph.num_nodes, dtype=torch.long)
    of_test[tuning_splits(graph, Asked(GRACE))[0].test] = 1
    with pytest.raises(SplitError, match="at least 2 classes, found 1"):
        quick(replace(graph, y=of_test))
    with pytest.raises(SettingError, match="unknown criterion 'luck'"):
        quick(graph, criterion="luck")
    with pytest.raises(SettingError, match="repeats must be at least 2 for criterion agreement, found 1"):
        quick(graph, criterion="agreement", repeats=1)
