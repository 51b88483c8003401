"""SIGNA's objective and its "+": against loops, its laws, in blocks and in samples, and training from end to end."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphkin import Graph, Similarity, evaluate, fit, method_named
from graphkin.errors import SettingError
from graphkin.evaluation.baselines import untrained
from graphkin.execution.memory import memory_in_use
from graphkin.graphs.synthetic import community_graph
from graphkin.methods import plus
from graphkin.objectives.agreement import Agreement, AgreementTask, agreement, agreement_loss, pair_shares
from graphkin.training.plan import plan
from graphkin.weights import AllNeighbours
from tests import paper
from tests.cases import Case, cases, unit

F64 = torch.float64


def kept_pairs(case: Case, mask: float) -> Tensor:
    return torch.rand(case.n, case.n, generator=case.draw) >= mask


def loops(case: Case, w_pos: list[dict[int, float]], own: list[float], w_neg: list[dict[int, float]], kept: Tensor) -> float:
    z: paper.Matrix = case.u.tolist()
    losses = [paper.agreement_anchor(z, i, w_pos[i], own[i], w_neg[i], kept[i].tolist()) for i in range(case.n)]
    return sum(losses) / case.n


@given(cases, st.sampled_from([0.0, 0.5, 0.9]))
def test_signa_is_the_papers(case: Case, mask: float) -> None:
    """ℓ(u) is a mean over N'_u ∪ {u} and one over all other nodes, where N'_u are the neighbours that are not masked."""
    kept, z = kept_pairs(case, mask), case.u.tolist()
    linked = {(i, j) for pair in case.edges for i, j in (pair, pair[::-1])}
    losses = []
    for i in range(case.n):
        positives = [j for j in range(case.n) if (i, j) in linked and kept[i, j]] + [i]
        negatives = [j for j in range(case.n) if j not in positives]
        scores = [(1 + min(paper.dot(z[i], z[j]), 1.0)) / 2 for j in range(case.n)]
        loss = -sum(torch.tensor(scores[j], dtype=F64).log().item() for j in positives if j != i) / len(positives)
        if negatives:
            loss -= sum(torch.tensor(1 - scores[j], dtype=F64).log().item() for j in negatives) / len(negatives)
        losses.append(loss)
    adjacency = torch.zeros(case.n, case.n, dtype=F64)
    for i, j in linked:
        adjacency[i, j] = 1
    p, q = pair_shares(adjacency, torch.ones(case.n, dtype=F64), 1 - torch.eye(case.n, dtype=F64), kept)
    assert agreement(case.u, p, q).item() == pytest.approx(sum(losses) / case.n, abs=1e-10)


@given(cases, st.sampled_from([0.0, 0.5]))
def test_weights_are_the_equation(case: Case, mask: float) -> None:
    kept, everyone = kept_pairs(case, mask), range(case.n)
    similarity = Similarity(beta=0.6).on(case.graph(), F64).stored().matrix.to_dense()
    w_pos = [paper.positive_weights(similarity.tolist(), i, everyone, 0.3) for i in everyone]
    w_neg = [paper.negative_weights(similarity.tolist(), i, everyone, 0.2) for i in everyone]
    own = [weights.get(i, 0.0) for i, weights in enumerate(w_pos)]
    attract, repel = (
        torch.tensor([[w.get(j, 0.0) if j != i else 0.0 for j in everyone] for i, w in enumerate(weights)], dtype=F64)
        for weights in (w_pos, w_neg)
    )
    p, q = pair_shares(attract, torch.tensor(own, dtype=F64), repel, kept)
    assert agreement(case.u, p, q).item() == pytest.approx(loops(case, w_pos, own, w_neg, kept), abs=1e-10)


@pytest.mark.parametrize("block", [1, 5, 100])
def test_blocks_change_nothing(block: int) -> None:
    draw = torch.Generator().manual_seed(0)
    z = unit(torch.randn(12, 4, generator=draw, dtype=F64))
    p, q = torch.rand(2, 12, 12, generator=draw, dtype=F64).masked_fill_(torch.eye(12, dtype=torch.bool), 0)
    found, expected = (z.clone().requires_grad_() for _ in range(2))
    loss = agreement_loss(found, lambda rows: (p[rows].clone(), q[rows].clone()), torch.arange(12), block=block)
    definition = agreement(expected, p, q)
    assert loss.item() == pytest.approx(definition.item(), abs=1e-10)
    loss.backward()
    definition.backward()
    torch.testing.assert_close(found.grad, expected.grad, atol=1e-10, rtol=1e-10)


def test_equal_rows_may_repel_each_other() -> None:
    z = torch.ones(3, 2, dtype=F64) / 2**0.5
    z.requires_grad_()
    off = 1 - torch.eye(3, dtype=F64)
    loss = agreement_loss(z, lambda rows: (0 * off[rows], off[rows] / 2), torch.arange(3))
    loss.backward()
    assert torch.isfinite(loss) and z.grad is not None and torch.isfinite(z.grad).all()


def task_on(graph: Graph, name: str = "signa", **settings: Any) -> AgreementTask:
    method = method_named(name).configure(hidden=8, width=4, projector=4, **settings)
    task = method.objective.task(plan(graph, method, device="cpu").prepare().setup(seed=0))
    assert isinstance(task, AgreementTask)
    return task


def test_neighbours_are_the_positives(small: Graph) -> None:
    weights = AllNeighbours().on(small, None, counterpart=True)
    p, q = task_on(small, mask_positives=0.0).shares(torch.arange(40))
    linked = torch.zeros(40, 40, dtype=torch.bool)
    linked[small.edge_index[1], small.edge_index[0]] = True
    assert torch.equal(p > 0, linked) and torch.equal(q == 0, linked | torch.eye(40, dtype=torch.bool))
    degree = linked.sum(dim=1)
    torch.testing.assert_close(p.sum(dim=1), degree / (degree + 1))
    torch.testing.assert_close(q.sum(dim=1), torch.ones(40))
    assert weights.dtype == torch.float32


def test_masked_neighbours_are_negatives(small: Graph) -> None:
    task = task_on(small, mask_positives=0.8)
    p, q = task.shares(torch.arange(40))
    linked = torch.zeros(40, 40, dtype=torch.bool)
    linked[small.edge_index[1], small.edge_index[0]] = True
    share = (p > 0)[linked].float().mean()
    assert 0.1 < share < 0.3
    assert torch.equal((q > 0)[linked], (p == 0)[linked])


def test_identity_weights_are_the_base_method(small: Graph) -> None:
    """Where the similarity is 1 for neighbours and the node itself and 0 for others, "+" changes nothing."""
    linked = torch.eye(40)
    linked[small.edge_index[1], small.edge_index[0]] = 1
    settings: dict[str, Any] = {"epochs": 4, "hidden": 8, "width": 4, "device": "cpu"}
    base = fit(small, "signa", **settings)
    same = fit(small, "signa+", similarity=linked, tau_pos=1.0, tau_neg=1e9, **settings)
    assert same.losses == pytest.approx(base.losses, abs=1e-5)
    torch.testing.assert_close(same.embed(small), base.embed(small), atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ["signa", "signa+"])
def test_a_sample_stands_for_all_nodes(name: str) -> None:
    graph = community_graph(150, classes=3, mean_degree=6, words=32)
    whole, sampled = task_on(graph, name), task_on(graph, name, candidates=60, anchors=50)
    for task in (whole, sampled):
        task.modules.load_state_dict(whole.modules.state_dict())
        task.modules.eval()
    exact, found = (torch.stack([task.loss().detach() for _ in range(100)]).mean() for task in (whole, sampled))
    assert found.item() == pytest.approx(exact.item(), rel=0.05)


@pytest.mark.parametrize("settings", [{"anchors": 10}, {"anchors": 10, "candidates": 20}, {"candidates": 20}])
@pytest.mark.parametrize("name", ["signa", "signa+"])
def test_sampled_steps(small: Graph, name: str, settings: dict[str, Any]) -> None:
    fitted = fit(small, name, epochs=3, hidden=8, width=4, device="cpu", **settings)
    assert fitted.embed(small).shape == (40, 4)


def test_a_large_graph_needs_no_matrix_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = community_graph(2100, mean_degree=4)
    monkeypatch.setattr("graphkin.objectives.contrast.ways.MOST_AT_ONCE", {"cpu": 2000})
    decided = plan(graph, "signa", device="cpu", hidden=8, width=4).execution
    assert decided.stored == "nothing" and decided.method.settings()["candidates"] == 2048
    memory = memory_in_use(torch.device("cpu")) + 400 * 2**20
    assert plan(graph, "signa+", device="cpu", memory=memory, hidden=8, width=4).execution.needs < 2100**2 * 4 * 20


@pytest.mark.parametrize("name", ["signa", "signa+"])
def test_it_learns_more_than_an_untrained_encoder_knows(name: str) -> None:
    graph = community_graph(300, classes=3, mean_degree=8, words=48)
    method = method_named(name).configure(hidden=64, width=32, projector=32, epochs=60, learning_rate=0.01)
    fitted = fit(graph, method, device="cpu")
    assert fitted.losses[-1] < fitted.losses[0] - 0.2
    scores = [evaluate(rows, graph, splits=5).mean for rows in (fitted.embed(graph), untrained(graph, method))]
    assert scores[0] > scores[1] + 3


def test_refused() -> None:
    with pytest.raises(SettingError, match=r"mask_positives must be .*found 1"):
        Agreement(mask_positives=1)
    with pytest.raises(SettingError, match=r"projector must be .*found 0"):
        Agreement(projector=0)
    with pytest.raises(SettingError, match=r"negatives_sampled must be none with Agreement, found 5"):
        method_named("signa").configure(negatives_sampled=5)
    with pytest.raises(SettingError, match=r"dropout must be .*found 1"):
        method_named("signa").configure(dropout=1)
    assert plus(method_named("signa"), "p").name == "signa+(p)"
