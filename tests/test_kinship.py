"""Kinship's loss: against the oracle in loops, its laws, and the blocks that compute it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from graphkin import Similarity
from graphkin.objectives import reference as objective
from graphkin.objectives.kernels.kinship import Form, block_of, kinship_loss
from graphkin.objectives.kinship.tasks import Positives
from graphkin.similarity import Stored
from graphkin.support.randomness import random_key
from graphkin.weights import AllAlike, Attraction, NodeWeights, OwnOnly
from tests import paper
from tests.cases import Case, cases, make_case, taus, unit

F64 = torch.float64
FORMS = [(symmetric, both) for symmetric in (False, True) for both in (False, True)]
forms, chance = st.sampled_from(FORMS), st.sampled_from([0.0, 0.25, 1.0])


def weights_of(case: Case, tau_pos: float = 0.3) -> NodeWeights:
    similarity = Similarity(beta=0.6).on(case.graph(), F64).stored()
    return NodeWeights(Attraction(similarity, tau_pos, counterpart=False), AllAlike(F64), case.n)


def oracle(case: Case, tau: float, p: list[dict[int, float]], symmetric: bool, both_views: bool) -> float:
    u, v = case.u.tolist(), case.v.tolist()
    of_u = [paper.kinship_anchor(u, v, i, tau, p[i], both_views) for i in range(case.n)]
    of_v = [paper.kinship_anchor(v, u, i, tau, p[i], both_views) for i in range(case.n)]
    return sum(of_u) / case.n if not symmetric else sum(of_u + of_v) / (2 * case.n)


@given(cases, taus, taus, forms, chance, st.sampled_from([None, 0.3, 0.9]))
def test_kinship_is_the_equation(
    case: Case, tau: float, tau_pos: float, form: tuple[bool, bool], own: float, drop: float | None
) -> None:
    similarity: paper.Matrix = Similarity(beta=0.6).on(case.graph(), F64).stored().matrix.to_dense().tolist()
    positives, key = Positives(weights_of(case, tau_pos), own, drop or 0.0), random_key(case.draw)
    kept = torch.ones(case.n, case.n, dtype=torch.bool)
    if drop is not None:
        kept = positives.kept(torch.arange(case.n), key)
    p = []
    for i in range(case.n):
        w_pos = paper.positive_weights(similarity, i, [j for j in range(case.n) if j != i], tau_pos)
        p.append(paper.kinship_shares(w_pos, i, own, kept[i].tolist()))
    expected = oracle(case, tau, p, *form)
    shares = objective.kinship_shares(positives.weights.block(), own, kept)
    found = objective.kinship(case.u, case.v, shares, tau, symmetric=form[0], both_views=form[1])
    assert float(found) == pytest.approx(expected, abs=1e-10)
    blocks = kinship_loss(case.u, case.v, partial(positives.shares, key=None if drop is None else key), Form(tau, *form), 3)
    assert float(blocks) == pytest.approx(expected, abs=1e-10)


def shares_for(case: Case, own: float = 0.0) -> Tensor:
    return objective.kinship_shares(weights_of(case).block(), own)


@given(cases, taus)
def test_the_own_counterpart_alone_is_infonce(case: Case, tau: float) -> None:
    """Between the views, and with both views and sides the whole of Eq. (contrastive_loss)."""
    alone = torch.eye(case.n, dtype=F64)
    assert torch.equal(shares_for(case, own=1.0), alone)
    between = F.cross_entropy(case.u @ case.v.T / tau, torch.arange(case.n))
    assert float(objective.kinship(case.u, case.v, alone, tau)) == pytest.approx(float(between), abs=1e-10)
    whole = objective.kinship(case.u, case.v, alone, tau, symmetric=True, both_views=True)
    assert float(whole) == pytest.approx(float(objective.infonce(case.u, case.v, tau)), abs=1e-10)


@given(cases, taus, forms)
def test_relabelling_the_nodes_changes_nothing(case: Case, tau: float, form: tuple[bool, bool]) -> None:
    shares, order = shares_for(case, 0.2), torch.randperm(case.n, generator=case.draw)
    moved = shares[order][:, order]
    one = objective.kinship(case.u, case.v, shares, tau, symmetric=form[0], both_views=form[1])
    other = objective.kinship(case.u[order], case.v[order], moved, tau, symmetric=form[0], both_views=form[1])
    assert float(one) == pytest.approx(float(other), abs=1e-10)


@given(cases, taus, chance)
def test_outside_the_logarithm_is_never_less_than_inside(case: Case, tau: float, own: float) -> None:
    """Jensen: −Σ p s ≥ −log Σ p e^s, which is how Eq. (final_loss) pools the same positives."""
    shares, scores = shares_for(case, own), case.u @ case.v.T / tau
    inside = (scores.logsumexp(1) - (shares * scores.exp()).sum(1).log()).mean()
    assert float(objective.kinship(case.u, case.v, shares, tau)) >= float(inside) - 1e-12


@given(cases, taus)
def test_the_gradient_is_repulsion_without_attraction(case: Case, tau: float) -> None:
    """∂ℓ_i/∂u_i = Σ_j (q_ij − p_ij) v_j / τ, with q the softmax of the scores."""
    shares, u = shares_for(case), case.u.clone().requires_grad_()
    (found,) = torch.autograd.grad(objective.kinship(u, case.v, shares, tau), u)
    q = (case.u @ case.v.T / tau).softmax(1)
    torch.testing.assert_close(found, (q - shares) @ case.v / (tau * case.n), rtol=1e-10, atol=1e-12)


@given(cases, st.sampled_from([0.0, 0.4]))
def test_shares_add_up_to_one(case: Case, own: float) -> None:
    shares = shares_for(case, own)
    torch.testing.assert_close(shares.sum(1), torch.ones(case.n, dtype=F64))
    alone = shares.diagonal() == 1
    torch.testing.assert_close(shares.diagonal()[~alone], torch.full((int((~alone).sum()),), own, dtype=F64))


def test_gradcheck() -> None:
    case = make_case(3, n=6)
    u, v = case.u.clone().requires_grad_(), case.v.clone().requires_grad_()
    for symmetric, both_views in FORMS:
        loss = partial(objective.kinship, shares=shares_for(case, 0.3), tau=0.5, symmetric=symmetric, both_views=both_views)
        assert torch.autograd.gradcheck(loss, (u, v))


def value_and_gradient(loss: Callable[[Tensor, Tensor], Tensor], u: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    u, v = u.clone().requires_grad_(), v.clone().requires_grad_()
    found = loss(u, v)
    return found.detach(), *torch.autograd.grad(2 * found, (u, v), allow_unused=True, materialize_grads=True)


def views_of(n: int, d: int, dtype: torch.dtype = F64) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(n * 1000 + d)
    u = unit(torch.randn(n, d, generator=draw, dtype=F64))
    return u.to(dtype), unit(u + torch.randn(n, d, generator=draw, dtype=F64)).to(dtype)


def random_weights(n: int, dtype: torch.dtype = F64) -> NodeWeights:
    similarity = (torch.rand(n, n, generator=torch.Generator().manual_seed(n), dtype=F64) ** 6).to(dtype)
    similarity[n // 2] = 0
    return NodeWeights(Attraction(Stored(similarity), 0.2, counterpart=False), AllAlike(dtype), n)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("n", "d", "block"), [(1, 3, None), (2, 3, 1), (31, 100, 7), (257, 3, 64), (257, 100, None)])
def test_blocks_change_nothing(n: int, d: int, block: int | None, form: tuple[bool, bool]) -> None:
    (u, v), weights, key = views_of(n, d), random_weights(n), random_key(torch.Generator().manual_seed(0))
    for own, drop in ((0.0, 0.0), (0.3, 0.5)):
        positives = Positives(weights, own, drop)
        kept = positives.kept(torch.arange(n), key)
        shares = objective.kinship_shares(weights.block(), own, kept)
        dense = partial(objective.kinship, shares=shares, tau=0.4, symmetric=form[0], both_views=form[1])
        expected = value_and_gradient(dense, u, v)
        for of_rows in (positives, Positives(weights.stored(), own, drop)):
            blocked = partial(kinship_loss, shares=partial(of_rows.shares, key=key), form=Form(0.4, *form), block=block)
            torch.testing.assert_close(value_and_gradient(blocked, u, v), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("form", FORMS)
def test_blocks_of_the_counterparts_alone(form: tuple[bool, bool]) -> None:
    u, v = views_of(31, 5)
    alone = NodeWeights(OwnOnly(F64), AllAlike(F64), 31)
    dense = partial(objective.kinship, shares=torch.eye(31, dtype=F64), tau=0.4, symmetric=form[0], both_views=form[1])
    blocked = partial(kinship_loss, shares=Positives(alone, 0.5).in_rows(), form=Form(0.4, *form), block=8)
    torch.testing.assert_close(value_and_gradient(blocked, u, v), value_and_gradient(dense, u, v), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("tau", [1e-3, 0.4, 1e3])
def test_the_error_of_float32_is_the_definitions(tau: float, form: tuple[bool, bool]) -> None:
    """Finite at any temperature, and no further from float64 than the definition in float32 is, twice."""
    u, v = views_of(64, 16, torch.float32)
    u[3] = 0
    shares = objective.kinship_shares(random_weights(64).block(), 0.1)
    dense = partial(objective.kinship, tau=tau, symmetric=form[0], both_views=form[1])
    exact = value_and_gradient(partial(dense, shares=shares), u.double(), v.double())
    plain = value_and_gradient(partial(dense, shares=shares.float()), u, v)
    blocked = partial(kinship_loss, shares=lambda rows: shares[rows].float(), form=Form(tau, *form), block=16)
    for found, definition, truth in zip(value_and_gradient(blocked, u, v), plain, exact, strict=True):
        assert torch.isfinite(found).all()
        noise = 1e-6 * float(truth.abs().max())
        assert float((found - truth).abs().max()) <= 2 * float((definition - truth).abs().max()) + noise


def test_bf16_is_close() -> None:
    u, v = views_of(64, 16, torch.float32)
    shares = objective.kinship_shares(random_weights(64, torch.float32).block())
    exact, rounded = (float(kinship_loss(u, v, lambda rows: shares[rows], Form(0.4, precision=p))) for p in ("float32", "bf16"))
    assert exact != rounded and rounded == pytest.approx(exact, rel=1e-2)


def test_a_block_holds_so_many_pairs() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert [block_of(n, gpu) for n in (1, 100, 2**13, 2**20, 2**30)] == [1, 100, 2**11, 2**4, 1]
    assert [block_of(n, cpu) for n in (1, 100, 2**11, 2**13, 2**20)] == [1, 100, 2**8, 2**6, 2**6]
    assert math.isfinite(float(kinship_loss(*views_of(5, 2), None, Form())))
