"""Kinship's steps: short lists, drawn positives, and training from end to end."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from graphkin import GCN, MLP, Graph, Kinship, Method, Optimiser, Similarity, evaluate, fit
from graphkin.evaluation.baselines import untrained
from graphkin.graphs.synthetic import community_graph
from graphkin.models.views import isolated
from graphkin.objectives import reference as objective
from graphkin.objectives import weighting
from graphkin.objectives.kinship.tasks import SampledKinshipTask, dense_rows_of
from graphkin.objectives.objective import Task
from graphkin.support.randomness import some_of
from graphkin.support.sparse import SparseMatrix
from graphkin.training import loop
from graphkin.training.plan import plan
from graphkin.weights import AllAlike, Attraction, NodeWeights
from graphkin.weights.lists import ShortLists
from tests.cases import make_case, unit, weights_for

F64 = torch.float64
KIN = Method("test-kin", MLP(hidden=16, dropout=0.2), None, Kinship(projector=8), Optimiser(epochs=6, learning_rate=0.01))
EDGES = replace(KIN, encoder=GCN(hidden=8))
ODD: dict[str, Any] = {"own": 0.2, "drop_positives": 0.4, "symmetric": True, "both_views": True}


def of_case(seed: int, n: int, tau_pos: float = 0.3) -> NodeWeights:
    similarity = Similarity(beta=0.6).on(make_case(seed, n=n).graph(), F64).stored()
    return NodeWeights(Attraction(similarity, tau_pos, counterpart=False), AllAlike(F64), n)


def dense(lists: ShortLists) -> Tensor:
    """The shares of the lists as a matrix [N, N]."""
    size = len(lists.nodes)
    return lists.shares.new_zeros(size, size).scatter_add_(1, lists.nodes.long(), lists.shares)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_lists_hold_the_largest_shares(seed: int) -> None:
    weights = of_case(seed, 12)
    shares = objective.kinship_shares(weights.block()).fill_diagonal_(0)
    torch.testing.assert_close(dense(ShortLists.of(weights)), shares)
    values, places = shares.topk(4, dim=1)
    some = values.sum(1, keepdim=True)
    expected = torch.zeros_like(shares).scatter_(1, places, values / some.clamp(min=1e-300))
    short = ShortLists.of(weights, 4)
    torch.testing.assert_close(dense(short), expected)
    assert short.nodes.shape == (12, 4) and short.nodes.dtype == torch.int32


def frequencies(lists: ShortLists, times: int, own: float = 0.0, drop: float = 0.0) -> Tensor:
    size = len(lists.nodes)
    anchors = torch.arange(size).repeat(times)
    drawn = lists.draw(anchors, torch.Generator().manual_seed(0), own, drop)
    return torch.zeros(size, size, dtype=F64).index_put_((anchors, drawn), torch.ones(1, dtype=F64), accumulate=True) / times


@pytest.mark.parametrize("own", [0.0, 0.3, 1.0])
def test_drawn_positives_have_the_exact_gradient_in_the_mean(own: float) -> None:
    """The positive term of a step, −s_{i,j(i)} with j(i) ~ p_i, averaged over draws: its gradient is that of −Σ p s."""
    weights, times, tau = of_case(1, 9), 40_000, 0.4
    draw = torch.Generator().manual_seed(0)
    u, v = (unit(torch.randn(9, 4, generator=draw, dtype=F64)).requires_grad_() for _ in range(2))
    shares = objective.kinship_shares(weights.block(), own)
    exact = torch.autograd.grad(-(shares * (u @ v.T)).sum() / tau, (u, v))
    anchors = torch.arange(9).repeat(times)
    drawn = ShortLists.of(weights).draw(anchors, draw, own)
    sampled = torch.autograd.grad(-(u[anchors] * v[drawn]).sum() / (tau * times), (u, v))
    for found, expected in zip(sampled, exact, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=0.05)
    assert float(sum((a - b).norm() for a, b in zip(sampled, exact, strict=True))) < 0.15


def test_dropped_positives_share_what_is_left() -> None:
    """The frequencies are the mean of p over all subsets that may be kept, each with its chance."""
    weights, drop, own = of_case(2, 5), 0.6, 0.25
    expected = torch.zeros(5, 5, dtype=F64)
    for chosen in itertools.product([False, True], repeat=5):
        kept = torch.tensor(chosen).expand(5, 5)
        chance = drop ** (5 - sum(chosen)) * (1 - drop) ** sum(chosen)
        expected += chance * objective.kinship_shares(weights.block(), own, kept)
    assert expected[0, 0] > own, "an anchor that lost all has itself"
    found = frequencies(ShortLists.of(weights), 40_000, own, drop)
    torch.testing.assert_close(found, expected, rtol=0, atol=0.015)


def test_no_draw_leaves_the_list() -> None:
    """Whatever the random number, a positive with a share is drawn, and the node itself where there is none."""
    shares = torch.tensor([[0.0, 0.7, 0.3, 0.0], [0.0, 0.0, 0.0, 0.0]])
    lists = ShortLists(torch.tensor([[5, 6, 7, 8], [9, 9, 9, 9]], dtype=torch.int32), shares)
    drawn = lists.draw(torch.tensor([0, 1]).repeat(20_000), torch.Generator().manual_seed(0)).view(-1, 2)
    assert set(drawn[:, 0].tolist()) == {6, 7} and set(drawn[:, 1].tolist()) == {1}


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_lists_of_a_large_graph_look_at_similar_nodes_alone(beta: float, small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    method = KIN.configure(beta=beta, top_k=5, anchors=8, effective_positives=3)
    execution = plan(small, method, device="cpu").execution
    whole = method.objective.prepare(small, execution)
    monkeypatch.setattr(weighting, "EXACT_TEMPERATURES", {"cpu": 10})
    monkeypatch.setattr("graphkin.weights.lists.PAIRS_OF_SIMILAR", 70)
    near = weighting.node_weights(small, execution, read_once=True).near
    assert near is not None and near.values.numel() < 40 * 12
    some = method.objective.prepare(small, execution)
    torch.testing.assert_close(some.shares.sum(1), torch.ones(40))
    for listed, shares in zip(some.nodes, some.shares, strict=True):
        assert bool((listed[shares > 0].diff() > 0).all()), "an order that does not depend on how shares are rounded"
    if beta == 0:
        torch.testing.assert_close(dense(some), dense(whole), rtol=1e-3, atol=1e-4)


def task_of(graph: Graph, method: Method, **settings: Any) -> Task:
    prepared = plan(graph, method, device="cpu", adapt=False, **settings).prepare()
    return prepared.plan.method.objective.task(prepared.setup(seed=3))


@pytest.mark.parametrize("base", [KIN, EDGES])
def test_a_step_of_all_nodes_is_the_definition(small: Graph, base: Method) -> None:
    method = base.configure(own=0.1, both_views=True) if base is EDGES else base.configure(dropout=0.0)
    task = task_of(small, method)
    task.modules.eval()
    encoder, projector = task.modules["encoder"], task.modules["projector"]
    u = unit(projector(encoder(task.x, task.view)))  # type: ignore[attr-defined]
    weights = weights_for(small, method).block()
    settings = method.objective
    shares = objective.kinship_shares(weights, settings.own)  # type: ignore[attr-defined]
    expected = objective.kinship(u, u, shares, 0.4, both_views=base is EDGES)
    torch.testing.assert_close(task.loss(), expected)


@pytest.mark.parametrize(("total", "count"), [(10, 10), (30, 4), (640, 3)])
def test_some_numbers_are_drawn_once_and_all_alike(total: int, count: int) -> None:
    source, times = torch.Generator().manual_seed(0), 20_000
    drawn = torch.stack([some_of(total, count, source) for _ in range(times)])
    assert all(len(set(row)) == count for row in drawn[:500].tolist())
    for place in (0, count - 1):
        share = torch.bincount(drawn[:, place], minlength=total) / times
        assert (share - 1 / total).abs().max() < 6 * (1 / total / times) ** 0.5


def test_a_drawn_step_is_infonce_of_the_drawn_pairs(small: Graph) -> None:
    task: Any = task_of(small, KIN.configure(dropout=0.0), anchors=10)
    state = {name: source.get_state() for name, source in task.sources.items()}
    found = task.loss()
    for name, source in task.sources.items():
        source.set_state(state[name])
    anchors = torch.randperm(40, generator=task.sources["sampling"])[:10]
    positives = task.lists.draw(anchors, task.sources["positives"])
    encoder, projector = task.modules["encoder"], task.modules["projector"]
    u, v = (unit(projector(encoder(task.x[nodes], isolated(10)))) for nodes in (anchors, positives))
    torch.testing.assert_close(found, objective.kinship(u, v, torch.eye(10), 0.4))


WAYS: list[dict[str, Any]] = [{}, {"anchors": 12}, ODD, {**ODD, "anchors": 12}]


@pytest.mark.parametrize("settings", WAYS)
@pytest.mark.parametrize("base", [KIN, EDGES])
def test_one_seed_gives_one_result(small: Graph, base: Method, settings: dict[str, Any]) -> None:
    before = torch.get_rng_state()
    one, again = (fit(small, base, device="cpu", **settings) for _ in range(2))
    assert one.losses == again.losses and torch.equal(one.embed(small), again.embed(small))
    assert fit(small, base, device="cpu", seed=1, **settings).losses != one.losses
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("settings", WAYS)
def test_it_goes_on_from_a_checkpoint(small: Graph, settings: dict[str, Any], tmp_path: Path) -> None:
    whole = fit(small, KIN, device="cpu", **settings)
    path, steps = tmp_path / "kin.checkpoint", itertools.count()
    with pytest.MonkeyPatch.context() as patched:
        step = loop._Run.step

        def stopped(run: Any) -> None:
            if next(steps) == 4:
                raise KeyboardInterrupt
            step(run)

        patched.setattr(loop._Run, "step", stopped)
        with pytest.raises(KeyboardInterrupt):
            fit(small, KIN, device="cpu", checkpoint=path, checkpoint_every=2, **settings)
    assert path.exists()
    resumed = fit(small, KIN, device="cpu", checkpoint=path, **settings)
    assert resumed.losses == whole.losses and torch.equal(resumed.embed(small), whole.embed(small))


@pytest.mark.parametrize("settings", WAYS)
def test_isolated_nodes_and_nodes_without_features(settings: dict[str, Any]) -> None:
    x = torch.rand(30, 6, generator=torch.Generator().manual_seed(0))
    x[[0, 5, 29]] = 0
    graph = Graph.from_arrays(x, [[1, 2, 3, 4, 5], [2, 3, 4, 6, 7]])
    for base in (KIN, EDGES):
        fitted = fit(graph, base, device="cpu", **settings)
        assert torch.isfinite(torch.tensor(fitted.losses)).all() and torch.isfinite(fitted.embed(graph)).all()


@pytest.mark.parametrize("settings", [{}, {"anchors": 100}])
def test_it_learns(settings: dict[str, Any]) -> None:
    graph = community_graph(200, classes=3, mean_degree=8, words=48)
    for encoder in (MLP(hidden=16, dropout=0.2), GCN(hidden=16)):
        method = replace(KIN, encoder=encoder).configure(epochs=60, **settings)
        fitted = fit(graph, method, device="cpu")
        assert sum(fitted.losses[-10:]) < sum(fitted.losses[:10]) - 1


@pytest.mark.slow
def test_it_learns_more_than_an_untrained_encoder_knows() -> None:
    graph = community_graph(300, classes=3, mean_degree=8, words=48)
    for settings in ({}, {"anchors": 100}):
        method = replace(KIN, encoder=GCN(hidden=16)).configure(epochs=100, **settings)
        scores = [evaluate(rows, graph, splits=5).mean for rows in (fit(graph, method).embed(graph), untrained(graph, method))]
        assert scores[0] > scores[1]


@pytest.mark.parametrize("settings", [{"anchors": 12}, {**ODD, "anchors": 12}, ODD])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_step_asks_the_device_for_no_value(small: Graph, settings: dict[str, Any], sparse: bool) -> None:
    """Fake tensors have shapes and no values: a step that needs one would fail, as it would while a GPU records it."""
    assert isinstance(small.x, Tensor)
    graph = replace(small, x=SparseMatrix.from_dense(small.x * (small.x > 0.5))) if sparse and "anchors" in settings else small
    task = task_of(graph, KIN, **settings)
    if isinstance(graph.x, SparseMatrix) and isinstance(task, SampledKinshipTask):
        task.rows = dense_rows_of(graph.x)  # as on a GPU
    with FakeTensorMode(allow_non_fake_inputs=True):
        loss = task.loss()
    assert loss.shape == ()


def test_sparse_features_give_the_same(small: Graph) -> None:
    assert isinstance(small.x, Tensor)
    matrix = SparseMatrix.from_dense(small.x * (small.x > 0.5))
    rows = torch.tensor([3, 0, 39, 3])
    assert torch.equal(matrix.short_rows(rows, matrix.longest_row), matrix.rows(rows))
    one, other = (fit(replace(small, x=x), KIN, device="cpu", anchors=9) for x in (matrix, matrix.to_dense()))
    assert one.losses == pytest.approx(other.losses, rel=1e-5)


def test_both_passes_may_be_encoded_together(small: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a GPU does it: without dropout the same loss and gradient; with it, the passes still differ."""

    def step(together: bool, dropout: float) -> tuple[Tensor, Tensor]:
        monkeypatch.setattr("graphkin.objectives.kinship.tasks.on_gpu_row_by_row", lambda setup: together)
        settings: dict[str, Any] = {
            "hidden": 12,
            "branch_width": 6,
            "axes": 8,
            "width": 16,
            "projector": 8,
            "anchors": 20,
            "epochs": 1,
        }
        prepared = plan(small, "kin", device="cpu", dropout=dropout, **settings).prepare()
        task = prepared.plan.method.objective.task(prepared.setup(0))
        loss = task.loss()
        loss.backward()
        encoder: Any = task.modules["encoder"]
        return loss.detach(), encoder.late[0].second.weight.grad

    for one, other in zip(step(True, 0.0), step(False, 0.0), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    assert step(True, 0.5)[0] != step(True, 0.0)[0]
