"""Edges held out before training: which they are, that nothing sees them, and how finding them again is scored."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from torch import Tensor

import graphkin
from graphkin import Graph, evaluate, hold_out_edges
from graphkin.errors import GraphError, InputError, SettingError
from graphkin.evaluation.baselines import UNTRAINED
from graphkin.evaluation.free import BEST_FREE, FREE, FreeRows
from graphkin.evaluation.links import area, average_precision
from graphkin.experiments import experiment_named, parse, scoring
from graphkin.experiments.execute import Failure, execute
from graphkin.experiments.jobs import jobs_of
from graphkin.experiments.outcomes import Outcome
from graphkin.experiments.trials import trials_of
from graphkin.graphs.held_out import HeldOut, known_edges, without
from graphkin.methods import method_named
from tests.wording import refused

ROWS = (BEST_FREE, "2 hops")
EXPERIMENT = """
title = "Links"
protocol = "links"
seeds = 2
datasets = ["small"]
measures = ["auc", "ap"]
[[rows]]
name = "GRACE"
method = "grace"
settings = { hidden = 8, epochs = 2 }
[[rows]]
name = "diffusion"
method = "diffusion"
[[rows]]
name = "untrained encoder"
baseline = "untrained encoder"
method = "grace"
""" + "\n".join(f'[[rows]]\nname = "{name}"\nbaseline = "{name}"' for name in ROWS)


def pairs_of(index: Tensor) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in index.T.tolist()}


def held_of(graph: Graph) -> HeldOut:
    assert graph.held_out is not None
    return graph.held_out


def missing_a_few(nodes: int, missing: int) -> Graph:
    """Nearly complete."""
    pairs = torch.triu_indices(nodes, nodes, 1)
    return Graph.from_arrays(torch.rand(nodes, 3), pairs[:, missing:])


def test_edges_are_taken_out_and_others_never_were_there(small: Graph) -> None:
    left = hold_out_edges(small, 0.2, val=0.1, seed=3)
    edges, others, val_edges, val_others = (pairs_of(part) for part in held_of(left).parts())
    before, after = pairs_of(small.edge_index), pairs_of(left.edge_index)
    assert (len(edges), len(val_edges)) == (round(0.2 * small.num_edges), round(0.1 * small.num_edges))
    assert (len(others), len(val_others)) == (len(edges), len(val_edges)), "pairs are different"
    assert not edges & val_edges and not others & val_others
    gone = edges | val_edges
    assert after == before - gone - {(b, a) for a, b in gone} and gone <= before
    assert not (others | val_others) & before
    assert all(a < b for a, b in gone | others | val_others)
    assert pairs_of(known_edges(left)) == {(a, b) for a, b in before if a < b}
    assert torch.equal(known_edges(left), known_edges(small)), "in the same order"


def test_the_seed_decides(small: Graph) -> None:
    one, same, other = (hold_out_edges(small, seed=seed) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(held_of(one).parts(), held_of(same).parts(), strict=True))
    assert not torch.equal(held_of(one).edges, held_of(other).edges)
    assert one.content == same.content != other.content and one.content != small.content
    assert replace(one, held_out=None, notes=()).content != one.content, "what is held out is part of the content"


def test_weights_stay_with_their_edges(small: Graph) -> None:
    weight = small.edge_index.sum(0).float() + 1
    left = hold_out_edges(replace(small, edge_weight=weight))
    assert left.edge_weight is not None
    assert torch.equal(left.edge_weight, left.edge_index.sum(0).float() + 1)


@pytest.mark.parametrize("kind", ["degree", "positional"])
def test_features_made_from_edges_do_not_know_what_was_held_out(small: Graph, kind: str) -> None:
    made = Graph.from_arrays(None, small.edge_index, num_nodes=40, features=kind)
    left = hold_out_edges(made, 0.3)
    again = Graph.from_arrays(None, left.edge_index, num_nodes=40, features=kind)
    assert torch.equal(left.x.to_dense(), again.x.to_dense())
    assert left.x.shape != made.x.shape or not torch.equal(left.x.to_dense(), made.x.to_dense())


@pytest.mark.parametrize("missing", [10, 15, 30])
def test_other_pairs_of_a_dense_graph_are_those_that_are_left(missing: int) -> None:
    graph = missing_a_few(12, missing)
    left = hold_out_edges(graph, 0.1, val=0.05)
    others = pairs_of(held_of(left).others) | pairs_of(held_of(left).val_others)
    assert len(others) == sum(part.size(1) for part in held_of(left).parts()) // 2
    assert others <= pairs_of(torch.triu_indices(12, 12, 1)[:, :missing])


def test_what_cannot_be_held_out_is_refused(small: Graph) -> None:
    with refused(GraphError, "9 held-out edges", "found 2"):
        hold_out_edges(missing_a_few(12, 2))
    path = Graph.from_arrays(torch.rand(5, 2), [[0, 1, 2, 3], [1, 2, 3, 4]])
    with refused(GraphError, "0.1 and 0.05", "4 edges"):
        hold_out_edges(path)
    for share, val, facts in ((0, 0.1, ("share", "0")), (1.2, 0.1, ("share", "1.2")), (0.1, 0, ("val", "0"))):
        with refused(SettingError, *facts):
            hold_out_edges(small, share, val=val)
    with refused(SettingError, "share and val", "0.6 + 0.4"):
        hold_out_edges(small, 0.6, val=0.4)
    with refused(SettingError, "seed", "-1"):
        hold_out_edges(small, seed=-1)
    left = hold_out_edges(small)
    with refused(GraphError, "small", "already"):
        hold_out_edges(left)
    with refused(GraphError, "held-out edges", "different graph"):
        without(left, held_of(left))


def by_loops(rows: np.ndarray, edges: Tensor, others: Tensor) -> tuple[float, float]:
    """AUC: how often an edge is above another pair, ties half. AP: precision at each edge's score, averaged over edges."""

    def cosine(a: int, b: int) -> float:
        lengths = math.sqrt(float(rows[a] @ rows[a])) * math.sqrt(float(rows[b] @ rows[b]))
        return float(rows[a] @ rows[b]) / lengths if lengths else 0.0

    positive = [cosine(a, b) for a, b in edges.T.tolist()]
    negative = [cosine(a, b) for a, b in others.T.tolist()]
    wins = [1.0 if p > n else 0.5 if p == n else 0.0 for p in positive for n in negative]
    precisions = []
    for score in positive:
        hits = sum(other >= score for other in positive)
        precisions.append(hits / (hits + sum(other >= score for other in negative)))
    return 100 * sum(wins) / len(wins), 100 * sum(precisions) / len(precisions)


@pytest.mark.parametrize("levels", [2, 10**6])
def test_the_scores_are_those_of_loops(small: Graph, levels: int) -> None:
    """Also with ties, rows of zeros and sparse rows."""
    rows = np.random.default_rng(0).integers(-levels, levels + 1, (40, 3)).astype(float)
    if levels == 2:
        rows = np.sign(rows) * [1, 0, 0]  # cosines are exactly -1, 0 or 1
    rows[5] = 0
    left = hold_out_edges(replace(small, y=None), 0.3, val=0.2)
    held = held_of(left)
    scores = evaluate(rows, left, protocol="links")
    expected = (*by_loops(rows, held.edges, held.others), *by_loops(rows, held.val_edges, held.val_others))
    assert [values[0] for values in scores.values.values()] == pytest.approx(expected, abs=1e-9)
    assert list(scores.values) == ["auc", "ap", "val_auc", "val_ap"]
    assert evaluate(scipy.sparse.csr_matrix(rows), left, protocol="links") == scores
    assert evaluate(torch.from_numpy(7 * rows), left, protocol="links").test == pytest.approx(scores.test)


def test_chance_and_perfection() -> None:
    assert area(np.ones(4), np.ones(4)) == average_precision(np.ones(4), np.ones(4)) == 0.5
    assert area(np.ones(4), np.zeros(4)) == average_precision(np.ones(4), np.zeros(4)) == 1
    draw = np.random.default_rng(0)
    one, other = draw.integers(0, 5, 20).astype(float), draw.integers(0, 4, 30).astype(float)
    assert area(one, other) == pytest.approx(np.mean([(a > b) + 0.5 * (a == b) for a in one for b in other]))


def test_embeddings_that_saw_every_edge_are_not_scored(small: Graph) -> None:
    with refused(GraphError, "links", "held out", "--hold-out-edges", "graphkin.hold_out_edges"):
        evaluate(small.x.to_dense(), small, protocol="links")
    with refused(SettingError, "links", "train"):
        evaluate(small.x.to_dense(), hold_out_edges(small), protocol="links", train=0.1)


@pytest.mark.parametrize("method", ["grace+", "kin", "diffusion"])
def test_training_does_not_see_held_out_edges(small: Graph, method: str) -> None:
    """Embeddings are those of a graph that never had them."""
    left = hold_out_edges(small, 0.3)
    never = Graph.from_arrays(small.x, left.edge_index, name="small")
    settings: dict[str, Any] = {} if method == "diffusion" else {"epochs": 2, "hidden": 8}
    rows = [graphkin.fit(graph, method, **settings).embed(graph) for graph in (left, never, small)]
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])


@pytest.fixture
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_measured", {})
    monkeypatch.setattr(scoring, "_last_row", {})


def test_an_experiment_trains_and_compares_without_the_edges_of_its_seed(small: Graph, nothing_known: None) -> None:
    """Each number is what a user gets by hand on the graph of that seed."""
    small = replace(small, y=None, train_mask=None, val_mask=None, test_mask=None, public_splits=())
    found: dict[tuple[str, int], Outcome] = {}
    for job in jobs_of([parse("links", EXPERIMENT)], {"small": small}, set(), together=lambda trial: 2):
        assert len(job.seeds) == 2
        for one in execute(job, small):
            assert isinstance(one, Outcome)
            found[job.labels[0], one.seed] = one
    trials = trials_of(parse("links", EXPERIMENT), {"small": small.content})
    method = trials["GRACE", "small", "auc"][0].method
    assert method is not None and len(found) == 10
    assert found["diffusion", 0].losses == (), "nothing is trained"
    for seed in (0, 1):
        left = hold_out_edges(small, seed=seed)
        free = {name: evaluate(FreeRows(left)[name], left, protocol="links").values for name in FREE}
        rows = {
            "GRACE": graphkin.fit(left, method, seed=seed, device="cpu").embed(left),
            "diffusion": graphkin.fit(left, "diffusion", seed=seed, device="cpu").embed(left),
            UNTRAINED: graphkin.evaluation.baselines.untrained(left, method_named("grace"), seed),
        }
        by_hand = {name: evaluate(z, left, protocol="links").values for name, z in rows.items()} | {"2 hops": free["2 hops"]}
        for name, values in by_hand.items():
            assert found[name, seed].test == pytest.approx({"auc": values["auc"][0], "ap": values["ap"][0]}), name
            assert found[name, seed].val == pytest.approx({"auc": values["val_auc"][0], "ap": values["val_ap"][0]}), name
        for measure in ("auc", "ap"):
            best = max(FREE, key=lambda name: free[name][f"val_{measure}"][0])
            assert found[BEST_FREE, seed].chosen[measure] == best
            assert found[BEST_FREE, seed].test[measure] == pytest.approx(free[best][measure][0])
    assert found["GRACE", 0].test != found["GRACE", 1].test


def test_a_graph_with_too_few_edges_is_a_failed_run() -> None:
    graph = Graph.from_arrays(torch.rand(5, 2), [[0, 1, 2, 3], [1, 2, 3, 4]])
    (job, *_) = jobs_of([parse("links", EXPERIMENT)], {"small": graph}, set())
    (failure,) = execute(job, graph)
    assert isinstance(failure, Failure) and "4 edges" in failure.reason and failure.job.seeds == (0,)


def test_the_shipped_experiment() -> None:
    experiment = experiment_named("links")
    assert experiment.protocol == "links" and experiment.measures == ("auc", "ap") and experiment.base == BEST_FREE
    assert {row.method or row.baseline for row in experiment.rows} >= {"kin", "grace+", "diffusion", BEST_FREE}


def test_methods_that_train_with_labels_are_refused() -> None:
    with refused(InputError, "labels", "links"):
        parse("links", EXPERIMENT.replace('method = "grace"\nsettings = { hidden = 8, epochs = 2 }', 'method = "graph-mlp"'))
