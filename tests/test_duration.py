"""How long a plan will take, told before training."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from graphkin import GRACE, Graph, SparseMatrix, fit
from graphkin.graphs.synthetic import community_graph
from graphkin.models.views import View
from graphkin.similarity import as_similarity
from graphkin.training import duration as durations
from graphkin.training.duration import SMALLEST, WHOLE, Duration, duration, duration_before, is_told, stand_in
from graphkin.training.plan import Plan, plan
from graphkin.training.prepared import Prepared

Capture = pytest.CaptureFixture[str]
QUICK: dict[str, Any] = {"hidden": 12, "branch_width": 6, "width": 16, "axes": 8, "early": 2, "projector": 8, "epochs": 40}
LARGE = 5 * SMALLEST


@pytest.fixture(scope="module")
def large() -> Graph:
    return community_graph(LARGE, words=40)


def test_the_parts_make_the_whole() -> None:
    found = Duration(prepare=4.0, step=0.25, embed=0.5, epochs=1000)
    assert found.total == 254.5
    assert str(found) == "about 4 min: 4.0 s to prepare, 1,000 epochs of 250 ms, 500 ms to embed"
    assert str(Duration(0.2, 3.0, 20.0, 5000)).startswith("about 4.2 h: 200 ms to prepare, 5,000 epochs of 3.0 s, 20 s to")


def test_a_stand_in_is_like_the_graph(large: Graph) -> None:
    weighted = replace(large, edge_weight=torch.rand(large.edge_index.size(1)) + 0.5)
    found = stand_in(weighted, 6000)
    assert found.num_nodes == 6000 and found.num_features == large.num_features
    assert found.num_edges / 6000 == pytest.approx(large.num_edges / LARGE, rel=0.05)
    assert isinstance(found.x, SparseMatrix) and isinstance(large.x, SparseMatrix)
    assert found.x.density == pytest.approx(large.x.density, rel=0.02)
    assert found.edge_weight is not None and 0.9 < float(found.edge_weight.mean()) < 1.1
    assert torch.equal(stand_in(large, 6000).edge_index, found.edge_index), "the same every time"
    dense = stand_in(replace(large, x=large.x.to_dense()), 6000)
    assert isinstance(dense.x, torch.Tensor) or dense.x.shape == (6000, large.num_features)


@pytest.mark.parametrize(
    ("method", "settings", "step_on", "listing_on"),
    [
        ("kin", {"epochs": 100}, lambda nodes: 0.2, lambda nodes: 1e-3 * nodes),
        ("kin", {"epochs": 100, "top_k": "none"}, lambda nodes: 0.2, lambda nodes: 1e-8 * nodes**2),
        ("grace+", {"top_k": 8, "steps": "none"}, lambda nodes: 0.3 + 1e-4 * nodes, lambda nodes: 1e-3 * nodes),
        ("grace", {"candidates": LARGE}, lambda nodes: 0.3 + 1e-4 * nodes, lambda nodes: 0.0),
        ("bgrl", {}, lambda nodes: 0.3 + 1e-4 * nodes, lambda nodes: 0.0),
    ],
)
def test_what_grows_with_the_graph_is_scaled_up(
    large: Graph,
    method: str,
    settings: dict[str, Any],
    step_on: Callable[[int], float],
    listing_on: Callable[[int], float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a clock that knows how each stage grows, the estimate is exact."""

    def smoothing_on(nodes: int) -> float:
        return 2e-3 * nodes

    def prepare(self: Plan) -> Prepared:
        nodes = self.graph.num_nodes
        return Prepared(self, None, None, {}, listing_on(nodes) + smoothing_on(nodes), listing_on(nodes))

    monkeypatch.setattr(Plan, "prepare", prepare)
    monkeypatch.setattr(durations, "_step", lambda prepared: step_on(prepared.plan.graph.num_nodes))
    monkeypatch.setattr(durations, "_embedding", lambda prepared: 1e-4 * prepared.plan.graph.num_nodes)
    planned = plan(large, method, device="cpu")
    planned = replace(planned, execution=replace(planned.execution, method=planned.method.configure(**settings)))
    found = duration_before(planned)
    assert found.prepare == pytest.approx(listing_on(LARGE) + smoothing_on(LARGE))
    assert found.step == pytest.approx(step_on(LARGE)) and found.embed == pytest.approx(1e-4 * LARGE)
    assert found.epochs == planned.method.optimiser.epochs


def test_comparing_all_pairs_grows_with_their_number(large: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "prepare", lambda self: Prepared(self, None, None, {}, 1.0, 0.0))
    monkeypatch.setattr(durations, "_step", lambda prepared: 1e-8 * prepared.plan.graph.num_nodes**2)
    monkeypatch.setattr(durations, "_embedding", lambda prepared: 0.0)
    found = duration_before(plan(large, "grace", device="cpu", candidates=None, adapt=False))
    assert found.step == pytest.approx(1e-8 * LARGE**2)


@pytest.mark.parametrize("method", ["kin", "grace+", "bgrl"])
def test_it_is_measured_on_the_graph_itself_or_on_a_stand_in(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durations, "SMALLEST", 200)
    graph = community_graph(900, words=40)
    planned = plan(graph, method, device="cpu", epochs=40)
    for found in (duration(planned.prepare()), duration_before(planned)):
        assert found.epochs == 40 and min(found.prepare, found.step, found.embed) > 0


def test_of_a_large_table_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its columns were prepared before a stand-in was made."""
    monkeypatch.setattr(durations, "SMALLEST", 200)
    draw = np.random.default_rng(0)
    nodes = pd.DataFrame({"id": range(900), "age": draw.normal(40, 10, 900), "city": draw.choice(["a", "b", "c"], 900)})
    edges = pd.DataFrame(draw.integers(900, size=(2000, 2)), columns=["source", "target"])
    planned = plan((edges, nodes), "grace", device="cpu", epochs=40)
    assert planned.recipe is not None and duration_before(planned).total > 0


# who is told, and that nothing else changes


def test_it_is_told_where_progress_is_shown_and_changes_nothing(small: Graph, capsys: Capture) -> None:
    told = fit(small, "kin", device="cpu", progress="lines", **QUICK)
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("time:")]
    assert "to prepare, 40 epochs of" in line
    silent = fit(small, "kin", device="cpu", progress=False, **QUICK)
    assert "time:" not in capsys.readouterr().err
    assert told.losses == silent.losses and torch.equal(told.embed(small), silent.embed(small))


def test_the_global_random_state_stays_as_it_was(small: Graph) -> None:
    """An encoder of one's own may draw from it."""

    @dataclass(frozen=True)
    class Careless:
        def build(self, num_features: int, generator: torch.Generator) -> nn.Module:
            return CarelessEncoder(num_features)

    class CarelessEncoder(nn.Module):
        def __init__(self, num_features: int) -> None:
            super().__init__()
            self.linear = nn.Linear(num_features, 8)

        def forward(self, x: torch.Tensor, view: View, generator: torch.Generator | None = None) -> torch.Tensor:
            embeddings: torch.Tensor = self.linear(nn.functional.dropout(view.masked(x), 0.5))
            return embeddings

    prepared = plan(small, replace(GRACE, encoder=Careless()), device="cpu", epochs=40).prepare()
    before = torch.get_rng_state()
    duration(prepared)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_large_graph_is_told_before_it_is_prepared(small: Graph, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    order: list[str] = []
    prepare = Plan.prepare

    def estimated(planned: Plan) -> str:
        order.append("told")
        return "soon"

    def prepared(self: Plan, *given: Any) -> Prepared:
        order.append("prepared")
        return prepare(self, *given)

    monkeypatch.setattr("graphkin.training.plan.WHOLE", 10)
    monkeypatch.setattr("graphkin.training.plan.duration_before", estimated)
    monkeypatch.setattr(Plan, "prepare", prepared)
    fit(small, "kin", device="cpu", progress="lines", **QUICK)
    assert order == ["told", "prepared"] and "time: soon" in capsys.readouterr().err


def test_who_is_not_told(small: Graph, large: Graph, tmp_path: Path) -> None:
    planned = plan(small, "kin", device="cpu", **QUICK)
    assert is_told(planned, "lines", None) and is_told(planned, "bar", tmp_path / "new")
    (tmp_path / "begun").touch()
    assert not is_told(planned, "lines", tmp_path / "begun"), "who resumes waits for less"
    assert not is_told(planned, "none", None) and not is_told(planned, lambda epoch, loss: None, None)
    logging.getLogger("graphkin").setLevel(logging.WARNING)
    assert not is_told(planned, "log", None)
    assert not is_told(plan(small, "kin", device="cpu", **{**QUICK, "epochs": 29}), "lines", None)
    assert not is_told(plan(small, "diffusion", device="cpu"), "lines", None)
    assert LARGE > WHOLE and is_told(plan(large, "kin", device="cpu"), "lines", None)
    own = as_similarity(lambda rows, columns: torch.ones(len(rows), len(columns)), LARGE)
    assert not is_told(replace(planned, graph=large, own=own), "lines", None)
