from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphkin import Graph, Similarity
from graphkin.errors import SettingError
from graphkin.similarity import LabelSimilarity, Stored
from graphkin.support.sparse import SparseMatrix
from graphkin.weights import (
    NONE,
    AllAlike,
    Attract,
    Attraction,
    Candidates,
    IndicatorAttraction,
    IndicatorRepulsion,
    Linked,
    NegativeWeights,
    NodeWeights,
    OtherClasses,
    OwnOnly,
    PositiveWeights,
    Repel,
    Repulsion,
    SameClass,
    SomeNodes,
    attraction_temperatures,
    effective_count,
    log_attraction,
    log_repulsion,
    repulsion_temperatures,
)
from graphkin.weights.temperatures import attraction_entropy, repulsion_entropy
from tests import paper
from tests.cases import Case, cases, make_case, taus

F64 = torch.float64
INF = float("inf")


def similarity_of(case: Case, beta: float = 0.6) -> Stored:
    return Similarity(beta=beta).on(case.graph(), F64).stored()


def everyone(n: int) -> Candidates:
    return Candidates(torch.arange(n))


def with_own(block: Tensor, own: Tensor) -> Tensor:
    """All of w⁺ in one matrix, the own counterpart on the diagonal."""
    return block.exp() + torch.diag(own.exp())


@given(cases, taus, taus)
def test_weights_are_the_papers(case: Case, tau_pos: float, tau_neg: float) -> None:
    similarity = similarity_of(case)
    sim = similarity.matrix.to_dense().tolist()
    nodes = torch.arange(case.n)
    block = NodeWeights(Attraction(similarity, tau_pos), Repulsion(similarity, tau_neg), case.n).block()
    w_pos = [paper.positive_weights(sim, i, range(case.n), tau_pos) for i in range(case.n)]
    w_neg = [paper.negative_weights(sim, i, range(case.n), tau_neg) for i in range(case.n)]
    expected_pos = torch.tensor([[w_pos[i][j] for j in nodes.tolist()] for i in nodes.tolist()], dtype=F64)
    expected_neg = torch.tensor([[w_neg[i].get(j, 0.0) for j in nodes.tolist()] for i in nodes.tolist()], dtype=F64)
    torch.testing.assert_close(with_own(block.attract, block.own), expected_pos, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(block.repel.exp(), expected_neg, rtol=1e-10, atol=1e-10)


@given(cases, taus, st.integers(1, 12), st.integers(1, 12))
def test_sampled_sets_have_their_own_normalisers(case: Case, tau: float, positives: int, negatives: int) -> None:
    """V_M always contains the anchor's own node, V_N never does."""
    similarity = similarity_of(case)
    sim = similarity.matrix.to_dense().tolist()
    drawn = Candidates.draw(case.n, min(positives, case.n), min(negatives, case.n), case.draw)
    block = NodeWeights(Attraction(similarity, tau), Repulsion(similarity, tau), case.n).block(None, drawn)
    assert drawn.positive is not None
    assert drawn.negative is not None
    v_m, v_n = drawn.columns[drawn.positive].tolist(), drawn.columns[drawn.negative].tolist()
    assert (len(v_m), len(v_n)) == (min(positives, case.n), min(negatives, case.n))
    for i in range(case.n):
        w_pos = paper.positive_weights(sim, i, sorted({*v_m, i}), tau)
        w_neg = paper.negative_weights(sim, i, v_n, tau)
        assert float(block.own[i].exp()) == pytest.approx(w_pos[i], rel=1e-10)
        for place, j in enumerate(drawn.columns.tolist()):
            expected = w_pos[j] if j in v_m and j != i else 0.0
            assert float(block.attract[i, place].exp()) == pytest.approx(expected, rel=1e-10)
            assert float(block.repel[i, place].exp()) == pytest.approx(w_neg.get(j, 0.0), rel=1e-10)


@given(cases, taus)
def test_without_a_counterpart_the_own_node_is_in_no_set(case: Case, tau: float) -> None:
    similarity = similarity_of(case)
    sim = similarity.matrix.to_dense().tolist()
    block, own = Attraction(similarity, tau, counterpart=False).log(torch.arange(case.n), everyone(case.n))
    assert torch.equal(own, torch.full_like(own, -INF))
    for i in range(case.n):
        others = [j for j in range(case.n) if j != i]
        if any(sim[i][j] > 0 for j in others):
            w_pos = paper.positive_weights(sim, i, others, tau)
            assert block[i].exp().tolist() == pytest.approx([w_pos.get(j, 0.0) for j in range(case.n)], rel=1e-10)
        else:
            assert torch.equal(block[i], torch.full_like(block[i], -INF))


@given(cases)
def test_the_mean_weight_is_one(case: Case) -> None:
    similarity = similarity_of(case)
    block = NodeWeights(Attraction(similarity, 0.3), Repulsion(similarity, 0.3), case.n).block()
    ones = torch.ones(case.n, dtype=F64)
    torch.testing.assert_close(with_own(block.attract, block.own).mean(dim=1), ones)
    torch.testing.assert_close(block.repel.exp().sum(dim=1) / (case.n - 1), ones)


@given(cases)
def test_high_tau_pos_gives_weights_proportional_to_similarity(case: Case) -> None:
    similarity = similarity_of(case)
    block, own = Attraction(similarity, 1e6).log(torch.arange(case.n), everyone(case.n))
    matrix = similarity.matrix.to_dense()
    expected = matrix / matrix.mean(dim=1, keepdim=True)
    torch.testing.assert_close(with_own(block, own), expected, rtol=1e-5, atol=1e-8)


@given(cases)
def test_low_tau_pos_puts_all_mass_on_the_most_similar(case: Case) -> None:
    similarity = similarity_of(case)
    block, own = Attraction(similarity, 1e-7).log(torch.arange(case.n), everyone(case.n))
    shares = with_own(block, own) / case.n
    matrix = similarity.matrix.to_dense()
    top = matrix >= matrix.amax(dim=1, keepdim=True) * (1 - 1e-5)
    torch.testing.assert_close((shares * top).sum(dim=1), torch.ones(case.n, dtype=F64))


@given(cases)
def test_limits_of_tau_neg(case: Case) -> None:
    """τ_n → ∞ is uniform; at τ_n → 0 the mass goes to the least similar."""
    similarity = similarity_of(case)
    nodes = torch.arange(case.n)
    uniform = Repulsion(similarity, 1e9).log(nodes, everyone(case.n)).exp()
    others = ~torch.eye(case.n, dtype=torch.bool)
    torch.testing.assert_close(uniform, others.to(F64), rtol=1e-6, atol=1e-6)
    extreme = Repulsion(similarity, 1e-8).log(nodes, everyone(case.n)).exp() / (case.n - 1)
    matrix = similarity.matrix.to_dense().masked_fill(~others, INF)
    least = matrix <= matrix.amin(dim=1, keepdim=True) + 1e-6
    torch.testing.assert_close((extreme * least).sum(dim=1), torch.ones(case.n, dtype=F64))


def test_permuting_the_nodes_permutes_the_weights() -> None:
    case = make_case(3, n=8)
    matrix = similarity_of(case).matrix.to_dense()
    order = torch.randperm(case.n, generator=case.draw)
    plain = NodeWeights(Attraction(Stored(matrix), 0.2), Repulsion(Stored(matrix), 0.2), case.n).block()
    moved = Stored(matrix[order][:, order])
    permuted = NodeWeights(Attraction(moved, 0.2), Repulsion(moved, 0.2), case.n).block()
    torch.testing.assert_close(permuted.attract, plain.attract[order][:, order])
    torch.testing.assert_close(permuted.repel, plain.repel[order][:, order])
    torch.testing.assert_close(permuted.own, plain.own[order])


def test_a_node_similar_to_nothing_falls_back_to_its_counterpart() -> None:
    similarity = Stored(torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 0.5], [0.0, 0.5, 1.0]]))
    block, own = Attraction(similarity, 0.5).log(torch.arange(3), everyone(3))
    assert torch.equal(block[0], torch.full((3,), -INF))
    assert float(own[0].exp()) == pytest.approx(3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_attraction_is_exact_from_tiny_to_huge(dtype: torch.dtype) -> None:
    ratios = [1e-12, 1e-6, 0.5, 1.0, 1.0001, 30.0, 1e4]
    found = log_attraction(torch.tensor(ratios, dtype=dtype), 1.0).double()
    expected = torch.tensor(ratios, dtype=F64).expm1().log()
    expected[-1] = 1e4
    torch.testing.assert_close(found, expected, rtol=2e-6 if dtype == torch.float32 else 1e-14, atol=2e-7)


def test_the_limit_of_huge_temperatures() -> None:
    similarity = Stored(torch.tensor([[1.0, 0.5, 0.25]]).repeat(3, 1))
    block, own = Attraction(similarity, 1e40).log(torch.tensor([0]), everyone(3))
    assert float(own[0].exp() / block[0, 1].exp()) == pytest.approx(2, rel=1e-5)


def test_saturated_pairs_stay_different() -> None:
    """No clamp: similarities 1 and 0.999 at τ_p = 0.001 differ by a factor e, though both exponentials overflow."""
    similarity = Stored(torch.tensor([[1.0, 0.999, 0.998]]).repeat(3, 1))
    block, own = Attraction(similarity, 0.001).log(torch.tensor([0]), everyone(3))
    assert float(own[0] - block[0, 1]) == pytest.approx(1, abs=1e-3)
    assert float(block[0, 1] - block[0, 2]) == pytest.approx(1, abs=1e-3)


def test_effective_count() -> None:
    weights = torch.tensor([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]]).log()
    assert effective_count(weights).tolist() == pytest.approx([4, 2, 1])


@pytest.mark.parametrize("wanted", [3.0, 10.0])
def test_temperatures_give_the_wanted_number_of_positives(wanted: float) -> None:
    draw = torch.Generator().manual_seed(1)
    matrix = torch.rand(60, 60, generator=draw, dtype=F64) ** 4
    tau = attraction_temperatures(Stored(matrix), wanted)
    found = effective_count(log_attraction(matrix, tau[:, None]))
    torch.testing.assert_close(found, torch.full((60,), wanted, dtype=F64), rtol=1e-3, atol=0)
    shrunk = attraction_temperatures(Stored(matrix * 1e-4), wanted)
    torch.testing.assert_close(shrunk, tau * 1e-4, rtol=1e-4, atol=0)


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1.0, 50.0, 300.0, 1e5])
def test_entropies_in_few_passes_are_those_of_the_definition(scale: float) -> None:
    similarity = torch.rand(6, 50, generator=torch.Generator().manual_seed(0))
    similarity[0] = 0
    similarity[1, 5:] = 0
    own = torch.zeros(6, 50, dtype=torch.bool)
    own[torch.arange(6), torch.arange(6)] = True
    tau = torch.full((6,), 1 / scale)
    for fast, slow in ((attraction_entropy, log_attraction), (repulsion_entropy, log_repulsion)):
        for excluded in (None, own):
            logs = slow(similarity.double(), tau.double()[:, None])
            logs = logs if excluded is None else logs.masked_fill(excluded, NONE)
            expected = torch.where(logs.amax(1) > NONE, effective_count(logs).log(), 0)
            torch.testing.assert_close(fast(similarity, tau, excluded).double(), expected, rtol=1e-4, atol=1e-4)


def test_temperatures_keep_the_wanted_share_of_negatives() -> None:
    draw = torch.Generator().manual_seed(2)
    matrix = torch.rand(50, 50, generator=draw, dtype=F64)
    similarity = Stored(matrix)
    repulsion = Repulsion(similarity, repulsion_temperatures(similarity, 0.9))
    found = effective_count(repulsion.log(torch.arange(50), everyone(50)))
    torch.testing.assert_close(found, torch.full((50,), 0.9 * 49, dtype=F64), rtol=1e-3, atol=0)


def test_more_positives_than_there_are_similar_nodes_gives_the_limit() -> None:
    matrix = torch.eye(20, dtype=F64) + torch.diag(torch.full((19,), 0.5, dtype=F64), 1)
    similarity = Stored(matrix)
    block, own = Attraction(similarity, attraction_temperatures(similarity, 15)).log(torch.arange(20), everyone(20))
    assert float(own[0].exp() / block[0, 1].exp()) == pytest.approx(2, rel=1e-3)


def test_exactly_one_of_temperature_and_count() -> None:
    for bad in (Attract, Repel):
        with pytest.raises(SettingError, match="exactly one of"):
            bad(None, None)
        with pytest.raises(SettingError, match="exactly one of"):
            bad(1.0, 1.0)
    for name, kind, value in (("tau_pos", Attract, 0.0), ("tau_neg", Repel, -1.0)):
        with pytest.raises(SettingError, match=f"{name} must be a number > 0"):
            kind(value, None)
    with pytest.raises(SettingError, match="effective_positives must be a number >= 1"):
        Attract(None, 0.5)
    with pytest.raises(SettingError, match="effective_negatives must be a number > 0 and <= 1"):
        Repel(None, 1.5)


def test_samples_larger_than_the_graph_are_refused() -> None:
    with pytest.raises(SettingError, match=r"between 1 and the number of nodes \(5\), found 6"):
        Candidates.draw(5, 6, None, torch.Generator())


def test_stored_weights_are_the_same() -> None:
    case = make_case(11, n=9)
    similarity = similarity_of(case)
    weights = NodeWeights(Attraction(similarity, 0.3), Repulsion(similarity, 0.2), case.n)
    rows = torch.tensor([4, 1])
    for one, other in zip(weights.linear(rows), weights.stored().linear(rows), strict=True):
        assert one is not None and other is not None
        torch.testing.assert_close(one, other)
    assert weights.stored().linear(rows).shares.stride(0) * 8 % 16 == 0  # type: ignore[union-attr]
    sampled = Candidates.draw(case.n, 4, 4, case.draw)
    for one, other in zip(weights.linear(rows, sampled), weights.stored().linear(rows, sampled), strict=True):
        assert one is not None and other is not None
        torch.testing.assert_close(one, other)


def test_indicator_weights_are_one_or_nothing() -> None:
    labels = torch.tensor([0, 0, 1, 1, 1, 2, -1])
    similarity = LabelSimilarity(labels)
    weights = NodeWeights(IndicatorAttraction(similarity), IndicatorRepulsion(similarity), 7)
    same = (labels[:, None] == labels) & (labels >= 0)
    itself = torch.eye(7, dtype=torch.bool)
    block = weights.block()
    assert torch.equal(block.attract, torch.where(same & ~itself, 0, NONE))
    assert torch.equal(block.repel, torch.where(same | itself, NONE, 0))
    assert torch.equal(block.own, torch.zeros(7))
    linear = weights.linear(torch.arange(7))
    assert linear.repel is not None and torch.equal(linear.repel, (~(same | itself)).float())
    assert torch.equal(linear.own, torch.ones(7))
    _, own = IndicatorAttraction(similarity, counterpart=False).log(torch.arange(7), everyone(7))
    assert torch.equal(own, torch.full((7,), NONE))


def test_indicator_weights_are_exact_functions() -> None:
    """2^{a s} − 1 and 2^{−b s} of similarities that are 0 or 1, in float32."""
    similarity = LabelSimilarity(torch.tensor([0, 0, 1, 1, 1, 2]))
    functions = NodeWeights(IndicatorAttraction(similarity), IndicatorRepulsion(similarity), 6).functions
    assert functions is not None and functions.shared
    block = similarity.block(torch.arange(6))
    attraction = functions.attract_factor[:, None] * (torch.exp2(functions.attract_scale[:, None] * block) - 1)
    repulsion = functions.repel_factor[:, None] * torch.exp2(-functions.repel_scale[:, None] * block)
    assert torch.equal(attraction, block) and torch.equal(repulsion, 1 - block)
    assert torch.equal(functions.own, torch.ones(6))


@pytest.mark.parametrize("setting", [SameClass(), OtherClasses()])
def test_indicator_weights_need_a_similarity_of_zero_and_one(setting: SameClass | OtherClasses, small: Graph) -> None:
    options = {"counterpart": True} if isinstance(setting, SameClass) else {}
    setting.on(small, Stored(torch.eye(40)), **options)
    setting.on(small, Stored(SparseMatrix.from_dense(torch.eye(40))), **options)
    for matrix in (torch.full((40, 40), 0.5), SparseMatrix.from_dense(2 * torch.eye(40))):
        with pytest.raises(SettingError, match="1 for two nodes of one class and 0 otherwise"):
            setting.on(small, Stored(matrix), **options)


@pytest.mark.parametrize("tau", ["one", "per anchor", "linear"])
def test_functions_are_the_weights(tau: str) -> None:
    draw = torch.Generator().manual_seed(0)
    matrix = torch.rand(30, 30, generator=draw) ** 4
    similarity = Stored(matrix + matrix.T, symmetric=True)
    per_anchor = torch.linspace(0.2, 1, 30)
    taus: dict[str, tuple[Any, Any]] = {"one": (0.5, 0.4), "per anchor": (per_anchor, per_anchor), "linear": (1e30, 1e6)}
    tau_pos, tau_neg = taus[tau]
    weights = NodeWeights(Attraction(similarity, tau_pos), Repulsion(similarity, tau_neg), 30)
    assert weights.are_functions
    of, s, block = weights.functions, similarity.block(torch.arange(30)), weights.block()
    assert of is not None and of.shared == (tau == "one") and of.attract and of.repel
    x = (of.attract_scale[:, None] * s).double()
    found = of.attract_factor[:, None] * torch.expm1(x * math.log(2)) * of.attract_unit[:, None]
    repulsion = of.repel_factor[:, None] * torch.exp2(-of.repel_scale[:, None] * s - of.repel_level[:, None])
    others = ~torch.eye(30, dtype=torch.bool)
    torch.testing.assert_close(found[others].float(), block.attract.exp()[others], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(repulsion[others], block.repel.exp()[others], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(of.own, block.own.exp(), rtol=1e-4, atol=0)


def every_kind() -> list[NodeWeights]:
    similarity = Stored(torch.rand(6, 6, generator=torch.Generator().manual_seed(0))).stored()
    per_anchor = torch.full((6,), 0.5)
    labels = LabelSimilarity(torch.tensor([0, 0, 1, 1, 1, 2]))
    sparse = SparseMatrix.from_dense(torch.eye(6))
    pairs: list[tuple[PositiveWeights, NegativeWeights]] = [
        (OwnOnly(), AllAlike()),
        (Linked(sparse), AllAlike()),
        (Attraction(similarity, per_anchor), Repulsion(similarity, 0.3)),
        (Attraction(similarity, 0.5), Repulsion(similarity, per_anchor)),
        (IndicatorAttraction(labels), IndicatorRepulsion(labels)),
    ]
    return [NodeWeights(positive, negative, 6, near=sparse) for positive, negative in pairs]


def tensors_in(value: Any) -> list[Tensor]:
    """All tensors that something of ours holds, however deep."""
    if isinstance(value, Tensor):
        return [value]
    parts = value if isinstance(value, tuple) else vars(value).values() if hasattr(value, "__dict__") else ()
    return [found for part in parts for found in tensors_in(part)]


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("form", ["as they are", "stored", "of some nodes"])
def test_everything_moves_to_another_device(place: int, form: str) -> None:
    """The device without data stands for a GPU; tests/test_gpu.py computes on one."""
    weights = every_kind()[place]
    weights = {"stored": weights.stored(), "of some nodes": SomeNodes.of(weights, torch.arange(3))}.get(form, weights)
    there = torch.device("meta")
    moved = weights.to(there)
    assert type(moved) is type(weights) and moved.device == there
    assert moved.by_similarity == weights.by_similarity and moved.num_nodes == weights.num_nodes
    assert len(tensors_in(moved)) == len(tensors_in(weights)) and all(found.is_meta for found in tensors_in(moved))
    before, after = ((of.positive.similarity, of.negative.similarity) for of in (weights, moved))
    assert (after[0] is after[1]) == (before[0] is before[1])
    assert all(similarity is None or similarity.device == there for similarity in after)


def test_weights_know_their_dtype() -> None:
    for weights in every_kind():
        assert weights.dtype == weights.block().own.dtype == torch.float32
    double = Stored(torch.eye(4, dtype=F64))
    assert NodeWeights(Attraction(double, 1.0), Repulsion(double, 1.0), 4).dtype == F64
    assert NodeWeights(OwnOnly(F64), AllAlike(F64), 4).dtype == F64


def test_a_temperature_given_replaces_a_count() -> None:
    assert Attract().changed({"tau_pos": 0.5}) == {"tau_pos": 0.5, "effective_positives": None}
    assert Attract(0.5, None).changed({"effective_positives": 3.0}) == {"effective_positives": 3.0, "tau_pos": None}
    assert Attract().changed({"tau_pos": None, "effective_positives": 3.0}) == {"tau_pos": None, "effective_positives": 3.0}
    assert Repel().changed({"tau_neg": 0.5}) == {"tau_neg": 0.5, "effective_negatives": None}
    assert Repel().changed({}) == {}
