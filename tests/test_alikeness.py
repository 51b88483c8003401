"""Whether neighbours are alike, read without labels, and the settings that depend on it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from graphkin import Graph, InputError, SparseMatrix, evaluate, fit, load, method_named
from graphkin.graphs import alikeness as looking
from graphkin.graphs.alikeness import Alikeness, alikeness
from graphkin.graphs.arrays import Features
from graphkin.graphs.structural import structural_features
from graphkin.graphs.synthetic import community_graph
from graphkin.methods import from_json, to_json
from graphkin.methods.alike import ByAlikeness
from graphkin.objectives.kinship import ways
from graphkin.support import axes
from graphkin.training.plan import plan

UNLIKE = {"beta": 1.0, "free": ("x", "hop1*0.4", "hop2*0.3", "ppr0.2*0.3")}
NOISE = {"beta": 0.0, "free": ("hop8", "ppr0.05*0.5"), "branches": ("ppr0.05", "hop4+hop8")}
QUICK: dict[str, Any] = {"hidden": 12, "branch_width": 6, "width": 16, "axes": 8, "early": 2, "projector": 8, "epochs": 3}


def by_definition(graph: Graph, x: Tensor) -> tuple[float, float]:
    """In float64, dense, by loops over edges."""
    rows = torch.nn.functional.normalize(x.double(), dim=1)
    centred = rows - rows.mean(0)
    values, vectors = torch.linalg.eigh(centred.T @ centred)
    found = []
    for axis in vectors.T.flip(0)[:64]:
        pairs = [(float(rows[i] @ axis), float(rows[j] @ axis)) for i, j in graph.edge_index.T.tolist()]
        mean = sum(a + b for a, b in pairs) / (2 * len(pairs))
        spread = sum((a - mean) ** 2 + (b - mean) ** 2 for a, b in pairs) / 2
        found.append(sum((a - mean) * (b - mean) for a, b in pairs) / spread)
    noise = float(values.mean()) * (1 + math.sqrt(x.size(1) / len(x))) ** 2
    return sum(sorted(found)[-4:]) / 4, float(values[-1]) / noise if x.size(1) > 50 else math.inf


def dense(x: Features) -> Tensor:
    return x.to_dense() if isinstance(x, SparseMatrix) else x


def of(graph: Graph) -> Alikeness:
    found = alikeness(graph, graph.x)
    assert found is not None
    return found


def test_it_is_the_definition(small: Graph) -> None:
    for graph in (small, community_graph(120, words=60)):
        assert of(graph) == pytest.approx(by_definition(graph, dense(graph.x)), rel=1e-4)


def test_sparse_and_dense_features_and_any_order_of_nodes_give_the_same(small: Graph) -> None:
    graph = community_graph(300, words=40)
    x = dense(graph.x)
    assert isinstance(graph.x, SparseMatrix)
    assert alikeness(graph, x) == pytest.approx(of(graph), rel=1e-4)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    place = torch.empty(300, dtype=torch.long).scatter_(0, order, torch.arange(300))
    assert of(Graph.from_arrays(x[order], place[graph.edge_index])) == pytest.approx(of(graph), rel=1e-4)


@pytest.mark.parametrize("narrowest", [8, 512])
def test_some_nodes_and_edges_tell_about_all(narrowest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever way the axes are found."""
    monkeypatch.setattr(axes, "EXACT_UP_TO", narrowest)
    graph = community_graph(6000, words=100, typical=0.4)
    whole = of(graph)
    monkeypatch.setattr(looking, "MOST_NODES", 3000)
    monkeypatch.setattr(looking, "MOST_EDGES", 20_000)
    assert of(graph) != whole
    assert of(graph) == pytest.approx(whole, rel=0.15)


@pytest.mark.parametrize(("mixing", "low", "high"), [(0.0, 0.5, 1.0), (0.5, 0.15, 0.6), (1.0, -0.05, 0.07)])
def test_fewer_edges_within_classes_are_less_alike(mixing: float, low: float, high: float) -> None:
    assert low < of(community_graph(2000, mixing=mixing, typical=0.6)).neighbours < high


def test_noise_says_nothing(small: Graph) -> None:
    draw = torch.Generator().manual_seed(0)
    edges = community_graph(2000).edge_index
    noise = of(Graph.from_arrays(torch.randn(2000, 100, generator=draw), edges))
    assert noise.features == pytest.approx(1.0, abs=0.1) and noise.neighbours < 0.08
    assert ByAlikeness().settings_for(noise, NOISE, 500) == NOISE
    words = of(community_graph(2000, mixing=1.0, typical=0.6))
    assert words.features > 2 and ByAlikeness().settings_for(words, NOISE, 500) == UNLIKE


def test_few_features_are_never_taken_for_noise() -> None:
    """Each may say something of its own, and then they look like it."""
    x = torch.randn(2000, looking.FEW, generator=torch.Generator().manual_seed(0))
    found = of(Graph.from_arrays(x, community_graph(2000).edge_index))
    assert found.features == math.inf and found.neighbours < 0.08
    assert ByAlikeness().settings_for(found, NOISE, 500) == UNLIKE


def test_what_a_method_does_without_stays_so_where_features_are_noise() -> None:
    graph = Graph.from_arrays(torch.eye(400), community_graph(400, mixing=0.2, classes=4).edge_index)
    chosen = plan(graph, "diffusion", device="cpu", axes=32).method.settings()
    assert chosen["free"] == NOISE["free"] and chosen["branches"] == ()


@pytest.mark.parametrize("x", [torch.ones(40, 3), torch.zeros(40, 3)])
def test_features_that_do_not_differ_and_graphs_without_edges_are_not_judged(x: Tensor, small: Graph) -> None:
    assert alikeness(small, x) is None
    assert alikeness(Graph.from_arrays(dense(small.x), np.zeros((2, 0), np.int64)), small.x) is None
    assert ByAlikeness().settings_for(None, NOISE, 500) == {}


# what kin does with it


@pytest.fixture(scope="module")
def unlike() -> Graph:
    return community_graph(400, mixing=1.0, typical=0.8, words=60, classes=5)


def test_kin_trusts_features_where_neighbours_are_not_alike(unlike: Graph) -> None:
    chosen = plan(unlike, "kin", device="cpu")
    assert {name: chosen.method.settings()[name] for name in UNLIKE} == UNLIKE
    (line,) = [line for line in chosen.lines() if line.startswith("chosen")]
    assert "epochs" in line and "beta=1, free=x,hop1*0.4,hop2*0.3,ppr0.2*0.3, smooth_hops=2 (neighbours are hardly more" in line


def test_smoothed_features_lead_with_the_features_themselves_there(unlike: Graph, small: Graph) -> None:
    chosen = plan(unlike, "diffusion", device="cpu")
    assert chosen.method.settings()["free"] == UNLIKE["free"]
    (line,) = [line for line in chosen.lines() if line.startswith("chosen")]
    assert "free=x," in line and "beta" not in line and "smooth_hops" not in line
    assert plan(small, "diffusion", device="cpu").chosen is None


@pytest.mark.parametrize("x", [torch.randn(400, 60, generator=torch.Generator().manual_seed(1)), torch.eye(400)])
def test_kin_trusts_edges_alone_where_features_are_noise(x: Tensor) -> None:
    """Also where every node has a feature of its own."""
    graph = Graph.from_arrays(x, community_graph(400, mixing=0.2, classes=4).edge_index)
    chosen = plan(graph, "kin", device="cpu", anchors=100, **{**QUICK, "axes": 32})
    assert {name: chosen.method.settings()[name] for name in NOISE} == NOISE
    told = "beta=0, free=hop8,ppr0.05*0.5, branches=ppr0.05,hop4+hop8, smooth_hops=2 (the features look like noise)"
    assert told in str(chosen.chosen)
    prepared = chosen.prepare()
    (fitted,) = prepared.train([0]).fitted
    assert prepared.embed(fitted).isfinite().all()
    assert plan(graph, "kin", device="cpu", branches=("x",)).method.settings()["branches"] == ("x",)


def test_kin_averages_where_neighbours_are_little_alike() -> None:
    mixed = community_graph(1000, mixing=0.8, typical=0.4)
    assert 0.08 < of(mixed).neighbours < 0.25
    chosen = plan(mixed, "kin", device="cpu")
    default, found = method_named("kin").settings(), chosen.method.settings()
    assert found["smooth_hops"] == 2 and all(found[name] == default[name] for name in UNLIKE)
    assert "smooth_hops=2 (neighbours are little more alike than other nodes: 0." in str(chosen.chosen)
    assert plan(mixed, "diffusion", device="cpu").chosen is None, "which learns nothing that could be averaged"
    for given in ({"mixed_below": 0.0}, {"mixed_smooth_hops": "none"}, {"smooth_hops": 0}):
        assert plan(mixed, "kin", device="cpu", **given).method.settings()["smooth_hops"] == 0
    assert plan(mixed, "kin", device="cpu", smooth_hops=1).method.settings()["smooth_hops"] == 1


def test_kin_trusts_edges_where_neighbours_are_alike() -> None:
    chosen = plan(community_graph(1000, mixing=0.5, typical=0.4), "kin", device="cpu")
    default = method_named("kin").settings()
    assert all(chosen.method.settings()[name] == default[name] for name in (*UNLIKE, "smooth_hops"))
    assert not any("alike" in line for line in chosen.lines())


FEW = {
    "branches": ("x", "x+hop1+hop2", "ppr0.1+hop4+hop8"),
    "free": ("x*0.4", "hop1*0.4", "hop2*0.4", "hop4*0.4", "hop8*0.4", "ppr0.05*0.4"),
    "standardised": True,
}


def test_few_features_are_smoothed_over_few_and_many_hops(unlike: Graph, small: Graph) -> None:
    chosen = plan(small, "kin", device="cpu")
    assert {name: chosen.method.settings()[name] for name in FEW} == FEW
    assert "hop8*0.4,ppr0.05*0.4, standardised=true (there are few features)" in str(chosen.chosen)
    many = plan(unlike, "kin", device="cpu").method.settings()
    assert not many["standardised"] and many["branches"] == method_named("kin").settings()["branches"]
    assert not plan(small, "kin", device="cpu", few_features=15).method.settings()["standardised"]
    assert not plan(small, "kin", device="cpu", axes=15).method.settings()["standardised"]
    own = plan(small, "kin", device="cpu", free=("x",), standardised=False).method.settings()
    assert own["free"] == ("x",) and own["standardised"] is False and own["branches"] == FEW["branches"]
    assert plan(small, "diffusion", device="cpu").chosen is None, "which gives what it is asked for"
    earlier = plan(small, "kin", device="cpu", free=("x",), branches=("x",)).method.settings()
    assert earlier["standardised"] is False, "as the files name it that tune wrote before there was this setting"


def test_settings_for_unlike_neighbours_hold_where_features_are_few_if_they_are_given() -> None:
    few = Graph.from_arrays(torch.randn(500, 6, generator=torch.Generator().manual_seed(0)), community_graph(500).edge_index)
    given = plan(few, "kin", device="cpu", unlike_free=("x",)).method.settings()
    assert given["free"] == ("x",) and given["branches"] == FEW["branches"]


def test_few_features_that_few_neighbours_share() -> None:
    """Both choices hold, and both are told."""
    few = Graph.from_arrays(torch.randn(500, 6, generator=torch.Generator().manual_seed(0)), community_graph(500).edge_index)
    chosen = plan(few, "kin", device="cpu")
    assert {name: chosen.method.settings()[name] for name in FEW} == FEW and chosen.method.settings()["beta"] == 1.0
    told = str(chosen.chosen)
    assert "beta=1, smooth_hops=2 (neighbours are hardly" in told and "(there are few features)" in told


@pytest.mark.slow
def test_a_graph_without_features_is_embedded_by_its_edges(cora: Graph) -> None:
    """With nothing but degrees, an embedding that trusted them alone had 36 %; a majority has 30 %."""
    bare = Graph.from_arrays(torch.ones(cora.num_nodes, 1), cora.edge_index, cora.y)
    degrees = Graph.from_arrays(structural_features(cora.edge_index, cora.num_nodes, "degree"), bare.edge_index, cora.y)
    found = fit(degrees, "kin", device="cpu", epochs=60, hidden=128, branch_width=64).embed(degrees)
    assert evaluate(found, degrees, splits=2).mean > 45


def test_a_setting_that_is_given_holds_on_every_graph(unlike: Graph) -> None:
    given = plan(unlike, "kin", device="cpu", beta=0.5).method.settings()
    assert given["beta"] == 0.5 and given["free"] == UNLIKE["free"]
    off = plan(unlike, "kin", device="cpu", unlike_below=0.0).method.settings()
    assert off["beta"] == 0.7
    other = plan(unlike, "kin", device="cpu", unlike_beta=0.9, unlike_free="none").method.settings()
    assert other["beta"] == 0.9 and other["free"] == method_named("kin").settings()["free"]


def test_one_who_gives_the_similarity_is_told_nothing_about_beta(unlike: Graph) -> None:
    chosen = plan(unlike, "kin", device="cpu", similarity=np.eye(unlike.num_nodes))
    assert chosen.method.settings()["beta"] == method_named("kin").settings()["beta"]
    assert "beta" not in str(chosen.chosen) and chosen.method.settings()["free"] == UNLIKE["free"]


def test_a_limit_of_zero_is_never_passed() -> None:
    """Of a star, say, whose ends differ more than nodes do."""
    found, known = Alikeness(neighbours=-0.4, features=9.0), method_named("kin").settings()
    assert ByAlikeness(unlike_below=0, mixed_below=0).settings_for(found, known, 500) == {}
    assert ByAlikeness().settings_for(found, known, 500)["beta"] == 1.0


@pytest.mark.parametrize("nodes", [50, 700, 1000, 9999])
@pytest.mark.parametrize("width", [1, 3, 20, 60, 100])
def test_rounding_is_no_difference_between_features(nodes: int, width: int) -> None:
    ring = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
    for x in (torch.ones(nodes, width), 0.1 * torch.ones(nodes, width), torch.arange(1.0, width + 1).repeat(nodes, 1)):
        graph = Graph.from_arrays(x, ring)
        assert alikeness(graph, graph.x) is None
        sparse = SparseMatrix.from_dense(x)
        assert alikeness(graph, sparse) is None


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("unlike_below", 1.5, "unlike_below must be"),
        ("mixed_below", -1, "mixed_below must be"),
        ("mixed_smooth_hops", 1.5, "mixed_smooth_hops must be"),
        ("unlike_beta", -0.1, "unlike_beta must be"),
        ("unlike_free", "hop0", "smoothed features must be"),
        ("unlike_free", ("x*nan",), "weight"),
        ("noise_beta", 2, "noise_beta must be"),
        ("noise_branches", ("x+hop100",), "smoothed features must be"),
    ],
)
def test_settings_that_cannot_be_are_refused_on_every_graph(name: str, value: Any, problem: str, small: Graph) -> None:
    with pytest.raises(InputError, match=problem):
        plan(small, "kin", device="cpu", **{name: value})


def test_a_single_piece_may_be_given_as_a_word(unlike: Graph) -> None:
    chosen = plan(unlike, "kin", device="cpu", unlike_free="hop1")
    assert chosen.method.settings()["free"] == ("hop1",) and "free=hop1, smooth_hops=2 (" in str(chosen.chosen)


def test_a_fit_and_its_model_keep_what_was_chosen(unlike: Graph, tmp_path: Path) -> None:
    fitted = fit(unlike, "kin", device="cpu", **QUICK)
    fitted.save(tmp_path / "model.graphkin")
    loaded = load(tmp_path / "model.graphkin")
    assert loaded.method.settings()["beta"] == 1.0
    torch.testing.assert_close(loaded.embed(unlike), fitted.embed(unlike))


def test_methods_of_earlier_versions_know_nothing_of_it() -> None:
    method = method_named("kin")
    told = json.loads(json.dumps(to_json(method)))
    assert from_json(told) == method
    del told["by_alikeness"]
    assert from_json(told).by_alikeness is None
    assert "by_alikeness" not in to_json(method_named("grace+"))


def test_features_alone_are_compared_with_all_nodes_only_while_these_are_few(
    unlike: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond, a node attracts its own other view, and no list of similar nodes is made."""
    few = plan(unlike, "kin", device="cpu", anchors=100, **QUICK)
    assert few.method.settings()["own"] == 0.4 and few.execution.change is None
    monkeypatch.setitem(ways.MOST_LISTED, "cpu", 300)
    many = plan(unlike, "kin", device="cpu", anchors=100, **QUICK)
    assert many.method.settings()["own"] == 1.0
    assert many.execution.change is not None and "own=1.0 instead of 0.4" in many.execution.change
    assert "each with its own other view" in many.execution.words
    prepared = many.prepare()
    assert prepared.for_objective.nodes.shape == (400, 1) and not prepared.for_objective.shares.any()
    (fitted,) = prepared.train([0]).fitted
    assert prepared.embed(fitted).isfinite().all()


def test_lists_that_are_not_made_draw_as_those_that_are(unlike: Graph) -> None:
    """With ``own=1`` both give every anchor itself."""
    chosen = plan(unlike, "kin", device="cpu", anchors=100, own=1.0, **QUICK)
    lists = chosen.prepare().for_objective
    anchors = torch.arange(0, 400, 7)
    assert torch.equal(lists.draw(anchors, torch.Generator().manual_seed(0), own=1.0), anchors)
