"""HopGCN, and MA-GCL on it: different numbers of hops in the two views, contrast between the views, and its "+"."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor

from graphkin import GRACE, Graph, Similarity, SparseMatrix, evaluate, fit, method_named
from graphkin.errors import SettingError
from graphkin.evaluation.baselines import untrained
from graphkin.methods import key_form, plus, to_json
from graphkin.models.encoders.hops import HopGCN
from graphkin.models.views import TwoViews, View, whole_graph
from graphkin.objectives import reference as objective
from graphkin.objectives.contrast import Contrast
from graphkin.objectives.kernels import Problem, choose, two_view_loss
from graphkin.weights import AllAlike, Attraction, NodeWeights, OwnOnly, Repulsion
from tests import paper
from tests.cases import Case, cases, make_case, taus

F64 = torch.float64


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("hops", "lazy"), [(0, 0.0), (1, 0.0), (3, 0.5)])
def test_layers_are_the_equation(hops: int, lazy: float) -> None:
    case = make_case(3, n=9)
    encoder = HopGCN(hidden=4, hops=hops, lazy=lazy).build(5, draw()).double().eval()
    adjacency = SparseMatrix.from_dense(torch.tensor(paper.normalised_adjacency(9, case.edges, True), dtype=F64))
    view = View(adjacency, None)
    weights: list[Any] = [weight.tolist() for weight in encoder.weights]
    hidden = paper.layer_of_hops(9, case.edges, case.x.tolist(), weights[0], hops, lazy)
    hidden = [[max(value, 0.0) for value in row] for row in hidden]
    expected = paper.layer_of_hops(9, case.edges, hidden, weights[1], hops, lazy)
    with torch.no_grad():
        found = encoder(case.x, view)
        torch.testing.assert_close(found, torch.tensor(expected, dtype=F64), atol=1e-10, rtol=0)
        torch.testing.assert_close(encoder.in_blocks(case.x, view.adjacency, 2), found)


def test_every_view_draws_its_own_hops(small: Graph) -> None:
    plan = TwoViews(most_hops=(1, 7)).plan(small)
    assert [plan.draw(view, draw()).most_hops for view in (0, 1)] == [1, 7]
    encoder = HopGCN(hidden=4, lazy=0.5, hops=2).build(16, draw()).train()
    for most in (1, 7):
        view = View(whole_graph(small).adjacency, None, most)
        seen = {tuple(encoder._hops(view, draw(seed))) for seed in range(200)}
        assert {hops for both in seen for hops in both} == set(range(most + 1))
        assert any(first != second for first, second in seen), "each layer draws its own"
    assert encoder.eval()._hops(view, draw()) == [2, 2]


def pair_weights(case: Case, tau_pos: float = 0.3, tau_neg: float = 0.2) -> NodeWeights:
    similarity = Similarity(beta=0.6).on(case.graph(), F64).stored()
    return NodeWeights(Attraction(similarity, tau_pos), Repulsion(similarity, tau_neg), case.n)


@given(cases, taus)
def test_contrast_between_views_is_the_papers(case: Case, tau: float) -> None:
    u, v = case.u.tolist(), case.v.tolist()
    expected = paper.two_views(u, v, range(case.n), partial(paper.infonce_anchor, tau=tau, both_views=False))
    assert float(objective.infonce(case.u, case.v, tau, both_views=False)) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("pooling", ["sum", "mean"])
@given(cases, taus)
def test_weighted_contrast_between_views_is_the_equation(pooling: str, case: Case, tau: float) -> None:
    weights = pair_weights(case)
    similarity: Any = weights.positive.similarity
    sim, everyone = similarity.matrix.to_dense().tolist(), range(case.n)

    def anchor(u: paper.Matrix, v: paper.Matrix, i: int) -> float:
        w_pos, w_neg = paper.positive_weights(sim, i, everyone, 0.3), paper.negative_weights(sim, i, everyone, 0.2)
        return paper.enhanced_anchor_of_other_view(u, v, i, tau, w_pos, w_neg, pooling)

    expected = paper.two_views(case.u.tolist(), case.v.tolist(), everyone, anchor)
    found = objective.enhanced(case.u, case.v, weights.block(), tau, pooling, both_views=False)
    assert float(found) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("tau", [0.4, 0.01])
@pytest.mark.parametrize("kind", ["infonce", "plus", "stored"])
def test_the_kernel_agrees(kind: str, tau: float, pooling: str) -> None:
    case = make_case(5, n=12)
    weights = NodeWeights(OwnOnly(F64), AllAlike(F64), case.n) if kind == "infonce" else pair_weights(case)
    problem = Problem(weights.stored() if kind == "stored" else weights, tau, pooling, both_views=False)
    assert choose(problem.case(case.u)) == "blocked"
    losses, gradients = [], []
    for implementation in ("reference", "blocked"):
        u, v = (rows.clone().requires_grad_() for rows in (case.u, case.v))
        loss = two_view_loss(u, v, problem, implementation)
        losses.append(loss.item())
        gradients.append(torch.stack(torch.autograd.grad(loss, (u, v))))
    assert losses[0] == pytest.approx(losses[1], abs=1e-10)
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-9, rtol=1e-9)


def test_identity_weights_are_the_base_method(small: Graph) -> None:
    """The loss differs by a constant, so that training is the same."""
    settings: dict[str, Any] = {"epochs": 4, "hidden": 8, "device": "cpu"}
    base = fit(small, "ma-gcl", **settings)
    same = fit(small, "ma-gcl+", similarity=torch.eye(40), tau_pos=1.0, tau_neg=1e9, **settings)
    differences = Tensor([a - b for a, b in zip(base.losses, same.losses, strict=True)])
    torch.testing.assert_close(differences, torch.full((4,), 40.0).log(), atol=1e-4, rtol=0)
    torch.testing.assert_close(same.embed(small), base.embed(small), atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ["ma-gcl", "ma-gcl+"])
def test_it_learns_more_than_an_untrained_encoder_knows(name: str, cora: Graph) -> None:
    method = method_named(name).configure(hidden=32, epochs=20, learning_rate=0.01)
    fitted = fit(cora, method, device="cpu")
    assert sum(fitted.losses[-5:]) < sum(fitted.losses[:5])
    scores = [evaluate(rows, cora, splits=3).mean for rows in (fitted.embed(cora), untrained(cora, method))]
    assert scores[0] > scores[1] + 10


def test_sampled_steps(small: Graph) -> None:
    fitted = fit(small, "ma-gcl+", epochs=3, hidden=8, anchors=10, candidates=20, device="cpu")
    assert fitted.embed(small).shape == (40, 8)


def test_stored_runs_keep_their_keys() -> None:
    assert "most_hops" not in to_json(GRACE)["views"] and "both_views" not in to_json(GRACE)["objective"]
    other = replace(GRACE, objective=Contrast(both_views=False))
    assert key_form(other) != key_form(GRACE)


def test_refused() -> None:
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"hops": -1}, "hops must be .*found -1"),
        ({"lazy": 1}, "lazy must be .*found 1"),
        ({"most_hops": (1, -1)}, "most_hops must be .*found -1"),
        ({"most_hops": (1, 2, 3)}, r"most_hops must be two numbers.*found \(1, 2, 3\)"),
        ({"both_views": 3}, "both_views must be True or False, found 3"),
        ({"projector": -1}, "projector must be .*found -1"),
    ]
    for settings, message in mistakes:
        with pytest.raises(SettingError, match=message):
            method_named("ma-gcl").configure(**settings)
    with pytest.raises(SettingError, match=r"most_hops must be none with the encoder GCN.*found \(1, 2\)"):
        replace(GRACE, views=TwoViews(most_hops=(1, 2)))
    assert plus(method_named("ma-gcl")).name == "ma-gcl+"
