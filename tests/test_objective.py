from __future__ import annotations

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from graphkin import EnhancedInfoNCE, InfoNCE, Similarity
from graphkin.errors import GraphError, SettingError
from graphkin.objectives import reference as objective
from graphkin.similarity import Stored
from graphkin.support.sparse import SparseMatrix
from graphkin.weights import (
    AllAlike,
    Attraction,
    Candidates,
    Linked,
    Neighbours,
    NodeWeights,
    OwnOnly,
    PairWeights,
    Repulsion,
    StoredWeights,
)
from tests import paper
from tests.cases import Case, cases, make_case, taus, unit

F64 = torch.float64
poolings = st.sampled_from(["sum", "mean"])


def weights_of(case: Case, tau_pos: float = 0.3, tau_neg: float = 0.2) -> NodeWeights:
    similarity = Similarity(beta=0.6).on(case.graph(), F64).stored()
    return NodeWeights(Attraction(similarity, tau_pos), Repulsion(similarity, tau_neg), case.n)


def similarity_matrix(case: Case) -> paper.Matrix:
    rows: paper.Matrix = Similarity(beta=0.6).on(case.graph(), F64).stored().matrix.to_dense().tolist()
    return rows


@given(cases, taus)
def test_infonce_is_the_papers(case: Case, tau: float) -> None:
    u, v = case.u.tolist(), case.v.tolist()
    expected = paper.two_views(u, v, range(case.n), partial(paper.infonce_anchor, tau=tau))
    assert float(objective.infonce(case.u, case.v, tau)) == pytest.approx(expected, abs=1e-10)


@given(cases, taus, taus, taus, poolings)
def test_enhanced_is_the_papers(case: Case, tau: float, tau_pos: float, tau_neg: float, pooling: str) -> None:
    sim, everyone = similarity_matrix(case), range(case.n)

    def anchor(u: paper.Matrix, v: paper.Matrix, i: int) -> float:
        w_pos = paper.positive_weights(sim, i, everyone, tau_pos)
        w_neg = paper.negative_weights(sim, i, everyone, tau_neg)
        return paper.enhanced_anchor(u, v, i, tau, w_pos, w_neg, pooling)

    expected = paper.two_views(case.u.tolist(), case.v.tolist(), everyone, anchor)
    weights = weights_of(case, tau_pos, tau_neg).block()
    assert float(objective.enhanced(case.u, case.v, weights, tau, pooling)) == pytest.approx(expected, abs=1e-10)


@given(cases, taus, poolings, st.integers(1, 12), st.integers(1, 12), st.integers(1, 12))
def test_enhanced_with_sampled_anchors_and_sets(
    case: Case, tau: float, pooling: str, anchors: int, positives: int, negatives: int
) -> None:
    sim = similarity_matrix(case)
    drawn = Candidates.draw(case.n, min(positives, case.n), min(negatives, case.n), case.draw)
    rows = torch.randperm(case.n, generator=case.draw)[:anchors].sort().values
    assert drawn.positive is not None
    assert drawn.negative is not None
    v_m, v_n = set(drawn.columns[drawn.positive].tolist()), drawn.columns[drawn.negative].tolist()

    def anchor(u: paper.Matrix, v: paper.Matrix, i: int) -> float:
        w_pos = paper.positive_weights(sim, i, sorted(v_m | {i}), 0.3)
        w_neg = paper.negative_weights(sim, i, v_n, 0.2)
        return paper.enhanced_anchor(u, v, i, tau, w_pos, w_neg, pooling)

    expected = paper.two_views(case.u.tolist(), case.v.tolist(), rows.tolist(), anchor)
    weights = weights_of(case).block(rows, drawn)
    found = objective.enhanced(case.u, case.v, weights, tau, pooling, rows, drawn.columns)
    assert float(found) == pytest.approx(expected, abs=1e-10)


@given(cases, taus, st.integers(1, 4))
def test_ideal_is_the_papers(case: Case, tau: float, classes: int) -> None:
    labels = torch.randint(0, classes, (case.n,), generator=case.draw)
    loss = partial(paper.ideal_anchor, tau=tau, labels=labels.tolist())
    expected = paper.two_views(case.u.tolist(), case.v.tolist(), range(case.n), loss)
    assert float(objective.ideal(case.u, case.v, labels, tau)) == pytest.approx(expected, abs=1e-10)


@given(cases, taus)
def test_neighbourhood_is_the_papers(case: Case, tau: float) -> None:
    a_hat = paper.normalised_adjacency(case.n, case.edges, True)
    power, z = paper.product(a_hat, a_hat), case.u.tolist()
    expected = sum(
        paper.neighbourhood_anchor(z, i, tau, dict(enumerate(power[i])), dict.fromkeys(range(case.n), 1.0))
        for i in range(case.n)
    )
    shipped = Neighbours(hops=2).on(case.graph(), None, counterpart=False)
    assert isinstance(shipped, Linked)
    torch.testing.assert_close(shipped.matrix.to_dense().double(), torch.tensor(power, dtype=F64), rtol=1e-5, atol=1e-6)
    linked = Linked(SparseMatrix.from_dense(torch.tensor(power, dtype=F64)))
    weights = NodeWeights(linked, AllAlike(F64), case.n).block()
    assert float(objective.neighbourhood(case.u, weights, tau)) == pytest.approx(expected / case.n, abs=1e-10)


@given(cases, taus, taus, taus)
def test_enhanced_neighbourhood_is_the_papers(case: Case, tau: float, tau_pos: float, tau_neg: float) -> None:
    sim, z = similarity_matrix(case), case.u.tolist()
    expected = 0.0
    for i in range(case.n):
        others = [j for j in range(case.n) if j != i]
        w_pos = paper.positive_weights(sim, i, others, tau_pos)
        expected += paper.neighbourhood_anchor(z, i, tau, w_pos, paper.negative_weights(sim, i, others, tau_neg))
    similarity = Stored(torch.tensor(sim, dtype=F64))
    weights = NodeWeights(Attraction(similarity, tau_pos, False), Repulsion(similarity, tau_neg), case.n).block()
    assert float(objective.neighbourhood(case.u, weights, tau)) == pytest.approx(expected / case.n, abs=1e-10)


@given(cases, taus)
def test_estimate_and_its_limit_are_the_papers(case: Case, tau: float) -> None:
    anchor, counterpart, nodes = case.u[0], case.v[0], case.v
    p_pos = torch.softmax(torch.randn(case.n, generator=case.draw, dtype=F64), 0)
    p_neg = torch.softmax(-p_pos * 9, 0)
    found = objective.asymptotic(anchor, counterpart, nodes, p_pos, p_neg, 3.0, 5.0, tau)
    a, b, c = anchor.tolist(), counterpart.tolist(), nodes.tolist()
    expected = paper.asymptotic(a, b, c, p_pos.tolist(), p_neg.tolist(), 3.0, 5.0, tau)
    assert float(found) == pytest.approx(expected, abs=1e-10)
    found = objective.estimated(anchor, counterpart, nodes[:1], nodes[1:], 3.0, 5.0, tau)
    assert float(found) == pytest.approx(paper.estimated(a, b, c[:1], c[1:], 3.0, 5.0, tau), abs=1e-10)


@pytest.mark.slow
def test_the_theorem() -> None:
    """The mean of the Monte Carlo estimate tends to the asymptotic form as m, n → ∞, with a bias that falls like 1/m."""
    case = make_case(4, n=12)
    p_pos = torch.full((12,), 1 / 12, dtype=F64)
    p_neg = torch.softmax(-3 * case.v @ case.u[0], 0)
    limit = objective.asymptotic(case.u[0], case.v[0], case.v, p_pos, p_neg, 2.0, 0.5, 0.4)
    draw = torch.Generator().manual_seed(0)

    def bias(samples: int, repeats: int = 4000) -> float:
        total = 0.0
        for _ in range(repeats):
            positives = case.v[torch.multinomial(p_pos, samples, replacement=True, generator=draw)]
            negatives = case.v[torch.multinomial(p_neg, samples, replacement=True, generator=draw)]
            total += float(objective.estimated(case.u[0], case.v[0], positives, negatives, 2.0, 0.5, 0.4))
        return abs(total / repeats - float(limit))

    few, more, many = bias(2), bias(16), bias(2000, repeats=1000)
    assert few > 4 * more > 4 * many
    assert many < 5e-3


def test_the_enhanced_objective_is_the_theorems_limit_with_weights_for_probabilities() -> None:
    """With p⁺ = w⁺/M and p⁻ = w⁻/N over the candidates of one view, Eq. (final_loss) is the limit with l = M and q = N."""
    case = make_case(8, n=9)
    block = weights_of(case).block()
    i, tau = 2, 0.5
    scores = case.v @ case.u[i] / tau
    w_pos, w_neg = block.attract[i].exp(), block.repel[i].exp()
    w_pos[i] = block.own[i].exp()
    direct = ((scores[i]).exp() + (w_neg * scores.exp()).sum()).log() - (w_pos * scores.exp()).sum().log()
    m, n = float(w_pos.sum()), float(w_neg.sum())
    limit = objective.asymptotic(case.u[i], case.v[i], case.v, w_pos / m, w_neg / n, m, n, tau)
    assert float(direct) == pytest.approx(float(limit), abs=1e-12)


def identity_weights(n: int, scale: float = 1.0) -> PairWeights:
    own = torch.full((n,), math.log(scale), dtype=F64)
    attract = torch.full((n, n), -math.inf, dtype=F64)
    return PairWeights(attract, objective.without_own_pairs(torch.zeros(n, n, dtype=F64)), own)


@given(cases, taus, poolings)
def test_plus_collapses_to_the_base(case: Case, tau: float, pooling: str) -> None:
    """w⁺ = c·I and w⁻ = 1 give InfoNCE: the same gradient, the value up to log c (which "mean" has no part in)."""
    scale = float(case.n)
    u, v = case.u.clone().requires_grad_(), case.v.clone().requires_grad_()
    base = objective.infonce(u, v, tau)
    plus = objective.enhanced(u, v, identity_weights(case.n, scale), tau, pooling)
    constant = math.log(scale) if pooling == "sum" else 0.0
    assert float(plus.detach()) == pytest.approx(float(base.detach()) - constant, abs=1e-10)
    for one, other in zip(torch.autograd.grad(plus, (u, v)), torch.autograd.grad(base, (u, v)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@given(cases, taus)
def test_identity_similarity_and_uniform_negatives_collapse_through_the_weights(case: Case, tau: float) -> None:
    similarity = Stored(torch.eye(case.n, dtype=F64))
    weights = NodeWeights(Attraction(similarity, 1.0), Repulsion(similarity, 1.0), case.n).block()
    found = objective.enhanced(case.u, case.v, weights, tau)
    expected = objective.infonce(case.u, case.v, tau) - math.log(case.n)
    assert float(found) == pytest.approx(float(expected), abs=1e-10)


@given(cases, taus, poolings)
def test_swapping_the_views_changes_nothing(case: Case, tau: float, pooling: str) -> None:
    weights = weights_of(case).block()
    one = objective.enhanced(case.u, case.v, weights, tau, pooling)
    assert float(one) == pytest.approx(float(objective.enhanced(case.v, case.u, weights, tau, pooling)), abs=1e-12)


@given(cases, taus, poolings)
def test_permuting_the_nodes_changes_nothing(case: Case, tau: float, pooling: str) -> None:
    block = weights_of(case).block()
    order = torch.randperm(case.n, generator=case.draw)
    moved = PairWeights(block.attract[order][:, order], block.repel[order][:, order], block.own[order])
    one = objective.enhanced(case.u, case.v, block, tau, pooling)
    other = objective.enhanced(case.u[order], case.v[order], moved, tau, pooling)
    assert float(one) == pytest.approx(float(other), abs=1e-10)


@pytest.mark.parametrize("n", [1, 2, 7, 31])
def test_identical_embeddings_give_the_closed_form(n: int) -> None:
    same = unit(torch.ones(n, 3, dtype=F64))
    assert float(objective.infonce(same, same, 0.3)) == pytest.approx(math.log(2 * n - 1), abs=1e-12)


def test_ideal_weights_are_what_labels_make_of_similarity() -> None:
    """With sim = 1[same class] and τ_n → 0, w⁻ leaves exactly the other classes; w⁺ is constant on the class."""
    labels = torch.tensor([0, 0, 1, 1, 1, 2])
    similarity = Stored((labels[:, None] == labels).to(F64))
    block = NodeWeights(Attraction(similarity, 0.5), Repulsion(similarity, 1e-4), 6).block()
    assert torch.equal(block.repel.exp() > 1e-12, labels[:, None] != labels)
    assert (block.attract[2, [3, 4]] == block.own[2]).all()


@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gradcheck(pooling: str, seed: int) -> None:
    case = make_case(seed, n=6, negative=seed == 2)
    u, v = case.u.clone().requires_grad_(), case.v.clone().requires_grad_()
    weights = weights_of(case).block()

    def enhanced(u: Tensor, v: Tensor) -> Tensor:
        return objective.enhanced(u, v, weights, 0.5, pooling)

    assert torch.autograd.gradcheck(enhanced, (u, v))
    assert torch.autograd.gradcheck(partial(objective.infonce, tau=0.5), (u, v))
    labels = torch.tensor([0, 1, 0, 1, 2, 2])
    assert torch.autograd.gradcheck(lambda u, v: objective.ideal(u, v, labels, 0.5), (u, v))
    alone = weights_of(case).block()
    assert torch.autograd.gradcheck(lambda z: objective.neighbourhood(z, alone, 0.5), (u,))


def test_a_node_without_positives_adds_nothing_and_breaks_nothing() -> None:
    matrix = torch.zeros(3, 3, dtype=F64)
    matrix[0, 1] = matrix[1, 0] = 1
    weights = NodeWeights(Attraction(Stored(matrix), 1.0, False), AllAlike(F64), 3).block()
    z = unit(torch.randn(3, 2, dtype=F64, generator=torch.Generator().manual_seed(0))).requires_grad_()
    loss = objective.neighbourhood(z, weights, 0.5)
    (gradient,) = torch.autograd.grad(loss, z)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("tau", [0.4, 0.01])
def test_extreme_temperatures_stay_finite(pooling: str, tau: float) -> None:
    """τ_p = 0.001, τ_n = 0.0001 and similarities up to 1: s/τ reaches 10⁴ in float32."""
    draw = torch.Generator().manual_seed(0)
    matrix = torch.rand(50, 50, generator=draw)
    matrix = ((matrix + matrix.T) / 2).fill_diagonal_(1)
    u, v = (torch.randn(50, 8, generator=draw).requires_grad_() for _ in range(2))
    loss = EnhancedInfoNCE(matrix, tau=tau, tau_pos=0.001, tau_neg=0.0001, pooling=pooling)(u, v)
    gradients = torch.autograd.grad(loss, (u, v))
    assert torch.isfinite(loss)
    assert all(torch.isfinite(g).all() and g.abs().max() > 0 for g in gradients)


def test_modules_are_the_functions() -> None:
    case = make_case(6, n=10)
    u, v = case.u * 3, case.v * 0.2
    assert float(InfoNCE(0.5)(u, v)) == pytest.approx(float(objective.infonce(case.u, case.v, 0.5)), abs=1e-12)
    matrix = torch.tensor(similarity_matrix(case), dtype=F64)
    expected = objective.enhanced(case.u, case.v, weights_of(case, 0.3, 0.2).block(), 0.5)
    for stored in (True, False):
        module = EnhancedInfoNCE(matrix, tau=0.5, tau_pos=0.3, tau_neg=0.2, stored=stored)
        assert float(module(u, v)) == pytest.approx(float(expected), abs=1e-12)
    by_rows = EnhancedInfoNCE(lambda rows: matrix[rows], tau=0.5, tau_pos=0.3, tau_neg=0.2, num_nodes=10)
    assert float(by_rows(u, v)) == pytest.approx(float(expected), abs=1e-12)


def test_module_samples_from_its_own_generator() -> None:
    case = make_case(6, n=12)
    matrix = torch.tensor(similarity_matrix(case), dtype=F64)
    before = torch.get_rng_state()
    sampled = [EnhancedInfoNCE(matrix, anchors=4, positives=5, negatives=6, seed=s)(case.u, case.v) for s in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(sampled[0], sampled[1])
    assert not torch.equal(sampled[0], sampled[2])


def test_modules_refuse_what_cannot_be() -> None:
    loss = EnhancedInfoNCE(torch.eye(3))
    with pytest.raises(GraphError, match=r"must have shape \[3, d\]"):
        loss(torch.ones(2, 4), torch.ones(2, 4))
    with pytest.raises(GraphError, match="one row per node"):
        loss(torch.ones(3, 4), torch.ones(3, 5))
    for tau in (0.0, -1.0, float("nan")):
        with pytest.raises(SettingError, match="tau must be a number > 0"):
            InfoNCE(tau)
    with pytest.raises(SettingError, match="Did you mean 'mean'"):
        EnhancedInfoNCE(torch.eye(3), pooling="meen")
    with pytest.raises(SettingError, match="positives must be a whole number"):
        EnhancedInfoNCE(torch.eye(3), positives=0)


def test_own_only_and_all_alike_are_infonce() -> None:
    case = make_case(9, n=7)
    weights = NodeWeights(OwnOnly(F64), AllAlike(F64), 7).block()
    found = objective.enhanced(case.u, case.v, weights, 0.4)
    assert float(found) == pytest.approx(float(objective.infonce(case.u, case.v, 0.4)), abs=1e-12)


def test_modules_work_under_autocast() -> None:
    case = make_case(6, n=10)
    u, v = case.u.float(), case.v.float()
    for module in (InfoNCE(0.5), EnhancedInfoNCE(torch.eye(10), pooling="mean"), EnhancedInfoNCE(torch.eye(10))):
        expected = float(module(u, v))
        with torch.autocast("cpu", torch.bfloat16):
            assert float(module(u, v)) == pytest.approx(expected)


def test_modules_take_any_precision() -> None:
    case = make_case(6, n=10)
    matrix = torch.tensor(similarity_matrix(case), dtype=F64)
    double, single = EnhancedInfoNCE(matrix), EnhancedInfoNCE(matrix.float())
    expected = float(double(case.u, case.v))
    for module, rows in ((double, torch.float32), (single, F64), (single, torch.bfloat16)):
        u = case.u.detach().to(rows).requires_grad_()
        loss = module(u, case.v.to(rows))
        loss.backward()
        assert float(loss.detach()) == pytest.approx(expected, rel=1e-2)
        assert u.grad is not None
        assert u.grad.dtype == rows


def test_a_loss_on_its_device_stays_what_it_is() -> None:
    case = make_case(6, n=10)
    matrix = torch.tensor(similarity_matrix(case), dtype=F64)
    loss = EnhancedInfoNCE(matrix, anchors=4)
    weights, source = loss.weights, loss.generator
    for moved in (loss.to("cpu"), loss.cpu(), loss.float(), loss.to(torch.float16), nn.Sequential(loss).double()[0]):
        assert moved is loss and loss.weights is weights and loss.generator is source
    assert loss(case.u, case.v).dtype == F64, "that of its similarity"


@pytest.mark.parametrize("stored", [True, False])
def test_a_loss_moves_its_weights(stored: bool) -> None:
    """The device without data stands for a GPU; tests/test_gpu.py computes on one."""
    loss = EnhancedInfoNCE(torch.eye(4), stored=stored, seed=3)
    seeded: list[tuple[object, ...]] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("graphkin.objectives.losses.generator", lambda *given: seeded.append(given))
        loss.to("meta")
    assert loss.weights.device == torch.device("meta")
    positive = loss.weights.positive
    assert isinstance(positive, Attraction) and isinstance(positive.tau, Tensor) and positive.tau.is_meta
    assert positive.similarity is loss.weights.negative.similarity and positive.similarity.device.type == "meta"
    assert isinstance(loss.weights, StoredWeights) == stored
    assert seeded == [(3, "sampling", torch.device("meta"))], "a generator belongs to a device"


def test_the_base_objective_builds_nothing_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(6, n=10)
    loss = InfoNCE(0.5)
    expected = loss(case.u, case.v)
    with monkeypatch.context() as patched:
        for name in ("NodeWeights", "Problem", "generator"):
            patched.setattr(f"graphkin.objectives.losses.{name}", None)
        assert torch.equal(loss(case.u, case.v), expected)
    other = make_case(7, n=6)
    assert float(loss(other.u, other.v)) == pytest.approx(float(objective.infonce(other.u, other.v, 0.5)), abs=1e-12)
    assert loss(case.u.float(), case.v.float()).dtype == torch.float32
