from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from graphkin import InfoNCE
from graphkin.errors import SettingError
from graphkin.objectives import reference as objective
from graphkin.objectives.kernels import (
    Case,
    Problem,
    blocked,
    choose,
    memory_needed,
    one_view_loss,
    symmetric,
    two_view_loss,
)
from graphkin.objectives.kernels.fused import needs
from graphkin.objectives.kernels.precision import of_encoder, resolved
from graphkin.similarity import Stored
from graphkin.support.products import products_in
from graphkin.support.sparse import SparseMatrix
from graphkin.weights import AllAlike, Attraction, Candidates, Linked, NodeWeights, OwnOnly, PositiveWeights, Repulsion
from tests.cases import unit
from tests.killed_at import ended, started

F64 = torch.float64
SHAPES = [(1, 3), (2, 3), (31, 100), (257, 3), (257, 100)]


def given(n: int, d: int, kind: str, dtype: torch.dtype = F64) -> tuple[Tensor, Tensor, NodeWeights]:
    draw = torch.Generator().manual_seed(n * 1000 + d)
    u = unit(torch.randn(n, d, generator=draw, dtype=F64))
    v = unit(u + torch.randn(n, d, generator=draw, dtype=F64))
    similarity = Stored((torch.rand(n, n, generator=draw, dtype=F64) ** 6).to(dtype))
    per_anchor = torch.rand(n, generator=draw, dtype=F64).to(dtype) + 0.1
    positive: PositiveWeights = OwnOnly(dtype) if kind in ("base", "n") else Attraction(similarity, per_anchor)
    negative = AllAlike(dtype) if kind in ("base", "p") else Repulsion(similarity, 0.3)
    return u.to(dtype), v.to(dtype), NodeWeights(positive, negative, n)


def value_and_gradient(
    u: Tensor,
    v: Tensor,
    weights: NodeWeights,
    implementation: str,
    tau: float = 0.4,
    precision: str = "float32",
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    u, v = u.clone().requires_grad_(), v.clone().requires_grad_()
    problem = Problem(weights, tau, **options)
    loss = two_view_loss(u, v, problem, implementation, precision)
    grad_u, grad_v = torch.autograd.grad(loss, (u, v))
    return loss.detach(), grad_u, grad_v


def assert_same(one: tuple[Tensor, ...], other: tuple[Tensor, ...], tolerance: float = 1e-11) -> None:
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("kind", ["base", "p", "n", "plus"])
def test_all_anchors(n: int, d: int, kind: str) -> None:
    u, v, weights = given(n, d, kind)
    expected = value_and_gradient(u, v, weights, "reference")
    assert_same(value_and_gradient(u, v, weights, "blocked"), expected)
    assert_same(value_and_gradient(u, v, weights.stored(), "symmetric"), expected)
    assert_same(value_and_gradient(u, v, weights.stored(), "auto"), expected)


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("kind", ["base", "p", "n", "plus"])
def test_mean_pooling(n: int, d: int, kind: str) -> None:
    u, v, weights = given(n, d, kind)
    expected = value_and_gradient(u, v, weights, "reference", pooling="mean")
    assert_same(value_and_gradient(u, v, weights.stored(), "blocked", pooling="mean"), expected)


@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("kind", ["base", "p", "n", "plus"])
def test_sampled_anchors_and_candidates(kind: str, pooling: str) -> None:
    u, v, weights = given(31, 5, kind)
    draw = torch.Generator().manual_seed(0)
    anchors = torch.randperm(31, generator=draw)[:11].sort().values
    for candidates in (None, Candidates.draw(31, 7, 9, draw), Candidates.draw(31, None, 9, draw)):
        options: dict[str, Any] = {"pooling": pooling, "anchors": anchors, "candidates": candidates}
        expected = value_and_gradient(u, v, weights, "reference", **options)
        assert_same(value_and_gradient(u, v, weights, "blocked", **options), expected)


@pytest.mark.parametrize("block", [1, 7, 31, 1000])
def test_blocks_change_nothing(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    u, v, weights = given(31, 5, "plus")
    expected = objective.enhanced(u, v, weights.block(), 0.4)
    found = blocked.some_anchors(u, v, Problem(weights, 0.4), block=block)
    paired = symmetric.all_anchors(torch.stack([u, v]), weights.stored().linear(torch.arange(31)), 0.4, block=block)
    assert paired is not None
    torch.testing.assert_close(found[0], expected)
    assert_same(found, paired)
    monkeypatch.setattr(symmetric, "STORED_BYTES", 0)
    again = symmetric.all_anchors(torch.stack([u, v]), weights.stored().linear(torch.arange(31)), 0.4, block=block)
    assert again is not None
    assert_same(again, paired)


@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("tau", [0.02, 0.005, 0.001])
def test_tiny_temperatures_fall_back_to_log_space(tau: float, pooling: str) -> None:
    """Plain sums of float32 exponentials underflow here; the result must not notice."""
    u, v, _ = given(31, 8, "plus")
    matrix = torch.rand(31, 31, generator=torch.Generator().manual_seed(0), dtype=F64) ** 6
    single, double = (
        NodeWeights(Attraction(Stored(m), 0.01), Repulsion(Stored(m), 0.001), 31) for m in (matrix.float(), matrix)
    )
    expected = value_and_gradient(u, v, double, "reference", tau=tau, pooling=pooling)
    found = value_and_gradient(u.float(), v.float(), single.stored(), "auto", tau=tau, pooling=pooling)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=2e-2, atol=2e-3 * float(b.abs().max()))


def test_float32_error_is_at_most_twice_the_references() -> None:
    """Errors against float64 are judged, not values."""
    for kind in ("base", "plus"):
        exact = value_and_gradient(*given(257, 100, kind), "reference")
        u, v, weights = given(257, 100, kind, torch.float32)
        reference = value_and_gradient(u, v, weights, "reference")
        for implementation in ("blocked", "symmetric"):
            found = value_and_gradient(u, v, weights.stored(), implementation)
            for fast, slow, truth in zip(found, reference, exact, strict=True):
                allowed = 2 * (slow - truth).norm() + 1e-7 * truth.norm().clamp(min=1 if truth.dim() == 0 else 0)
                assert (fast - truth).norm() <= allowed


@pytest.mark.parametrize("implementation", ["blocked", "symmetric"])
@pytest.mark.parametrize("kind", ["base", "plus"])
def test_products_of_rounded_embeddings(kind: str, implementation: str) -> None:
    """bfloat16 keeps 8 bits: the error is that of the definition on rounded scores, not more."""
    u, v, weights = given(257, 100, kind, torch.float32)
    exact = value_and_gradient(*given(257, 100, kind), "reference")
    rounded = value_and_gradient(u.bfloat16(), v.bfloat16(), weights, "reference")
    found = value_and_gradient(u, v, weights.stored(), implementation, precision="bf16")
    for fast, slow, truth in zip(found, rounded, exact, strict=True):
        assert (fast - truth).norm() <= 2 * (slow.double() - truth).norm() + 1e-3
    assert (found[1] - exact[1]).norm() > 1e-5 * exact[1].norm()


@pytest.mark.slow
@pytest.mark.parametrize(
    "set_by_the_user",
    [
        "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
        "torch.set_float32_matmul_precision('medium')",
        "torch.backends.cuda.matmul.allow_tf32 = True",
    ],
)
def test_precision_that_the_user_has_set_for_pytorch(set_by_the_user: str) -> None:
    """In a process of its own: PyTorch complains when its older and its newer switches are mixed."""
    assert ended(started(_train_after, set_by_the_user)) == 0


def _train_after(set_by_the_user: str) -> None:
    exec(set_by_the_user, {"torch": torch})
    before = torch.backends.cuda.matmul.fp32_precision
    InfoNCE()(torch.eye(3), torch.eye(3))
    with products_in("bf16", torch.device("cuda")):
        assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    assert torch.backends.cuda.matmul.fp32_precision == before
    if "medium" in set_by_the_user:
        assert torch.get_float32_matmul_precision() == "medium"


@pytest.mark.parametrize("kind", ["linked", "plus"])
@pytest.mark.parametrize("size", [1, 2, 40, 90])
def test_one_view(kind: str, size: int) -> None:
    """Graph-MLP's batch: positives from links or from similarity, some anchors without any."""
    _, _, both = given(90, 5, "plus")
    links = torch.rand(90, 90, generator=torch.Generator().manual_seed(1), dtype=F64)
    matrix = torch.where(links + links.T > 1.6, links + links.T, 0).fill_diagonal_(1)
    assert isinstance(both.positive, Attraction)
    alone = Attraction(both.positive.similarity, both.positive.tau, counterpart=False)
    weights = (
        NodeWeights(Linked(SparseMatrix.from_dense(matrix)), AllAlike(F64), 90)
        if kind == "linked"
        else NodeWeights(alone, both.negative, 90)
    )
    nodes = torch.randperm(90, generator=torch.Generator().manual_seed(2))[:size].sort().values
    results = []
    for implementation in ("auto", "reference"):
        z = unit(torch.randn(size, 5, generator=torch.Generator().manual_seed(3), dtype=F64)).requires_grad_()
        loss = one_view_loss(z, weights, nodes, 0.4, implementation)
        results.append((loss.detach(), *torch.autograd.grad(loss, z)))
    assert_same(results[0], results[1])


def test_one_view_at_a_tiny_temperature() -> None:
    _, _, both = given(40, 5, "plus")
    z = unit(torch.randn(40, 5, generator=torch.Generator().manual_seed(3), dtype=F64))
    assert isinstance(both.positive, Attraction)
    weights = NodeWeights(Attraction(both.positive.similarity, 0.1, counterpart=False), both.negative, 40)
    nodes = torch.arange(40)
    exact = one_view_loss(z, weights, nodes, 1e-3, "reference")
    torch.testing.assert_close(one_view_loss(z, weights, nodes, 1e-3), exact)


def test_gradcheck_of_the_kernels() -> None:
    u, v, weights = given(7, 3, "plus")
    problem = Problem(weights.stored(), 0.5)
    for implementation in ("blocked", "symmetric"):

        def loss(u: Tensor, v: Tensor, implementation: str = implementation) -> Tensor:
            return two_view_loss(u, v, problem, implementation)

        assert torch.autograd.gradcheck(loss, (u.clone().requires_grad_(), v.clone().requires_grad_()))


def test_rows_that_are_not_of_unit_length_are_still_right() -> None:
    u, v, weights = given(31, 5, "plus")
    expected = value_and_gradient(u * 40, v * 40, weights, "reference")
    assert_same(value_and_gradient(u * 40, v * 40, weights.stored(), "auto"), expected, 1e-9)


def test_second_derivatives_are_refused_and_not_wrong() -> None:
    u, v, weights = given(5, 3, "plus")
    u.requires_grad_()
    loss = two_view_loss(u, v, Problem(weights.stored(), 0.4))
    (gradient,) = torch.autograd.grad(loss, u, create_graph=True)
    with pytest.raises(RuntimeError, match=r"does not require grad|once_differentiable"):
        gradient.sum().backward()


def test_symmetric_says_what_it_needs() -> None:
    u, v, weights = given(5, 3, "plus")
    with pytest.raises(SettingError, match="needs stored weights"):
        two_view_loss(u, v, Problem(weights, 0.4), "symmetric")
    with pytest.raises(SettingError, match="Did you mean 'blocked'"):
        two_view_loss(u, v, Problem(weights, 0.4), "block")


@pytest.mark.parametrize(
    ("precision", "nodes", "expected"),
    [
        ("auto", 4096, "float32"),
        ("auto", 4097, "tf32"),
        ("float32", 10**6, "float32"),
        ("tf32", 5, "tf32"),
        ("bf16", 5, "tf32"),
    ],
)
def test_the_encoder_is_exact_where_the_objective_is(precision: str, nodes: int, expected: str) -> None:
    assert of_encoder(precision, nodes) == expected


CPU = torch.device("cpu")


@pytest.mark.parametrize("kind", ["base", "p", "n", "plus"])
def test_a_case_says_what_is_known_of_a_problem(kind: str) -> None:
    u, _, weights = given(31, 5, kind, torch.float32)
    trivial = kind == "base"
    expected = Case(CPU, 31, 5, torch.float32, 0.3, functions=trivial, by_similarity=not trivial)
    assert Problem(weights, 0.3).case(u) == expected, "similarity is not symmetric"
    stored = Problem(weights.stored(), 0.3, "mean", anchors=torch.arange(7)).case(u)
    assert stored == replace(expected, stored=True, pooling="mean", anchors=7)
    drawn = Candidates.draw(31, 6, None, torch.Generator().manual_seed(0))
    assert Problem(weights, 0.3, candidates=drawn).case(u) == replace(expected, own_candidates=True)
    few = Candidates(torch.arange(9), log_factors=torch.zeros(9))
    sampled = Problem(weights, 0.3, anchors=torch.arange(7), candidates=few).case(u)
    assert sampled == replace(expected, nodes=9, anchors=7, own_candidates=True, stand_for_all=True)


def test_a_case_needs_no_weights_to_be_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    here, gpu = Case(CPU, 100, 16), Case(torch.device("cuda"), needs.SMALLEST, 16)
    assert choose(here) == "blocked" and choose(replace(here, stored=True)) == "symmetric"
    for change in ({"pooling": "mean"}, {"anchors": 5}, {"own_candidates": True}):
        assert choose(replace(here, stored=True, **change)) == "blocked"
    monkeypatch.setattr(needs, "why_no_fused_kernels", lambda device: None)
    monkeypatch.setattr(needs, "timed_in_float32", lambda device: True)
    assert choose(gpu) == choose(replace(gpu, anchors=5, pooling="mean", stored=True)) == "fused"
    for no in ({"tau": 0.03}, {"width": 257}, {"dtype": F64}, {"own_candidates": True}, {"functions": False}):
        assert choose(replace(gpu, **no)) == "blocked" and choose(replace(gpu, stored=True, **no)) != "fused"


def test_a_small_graph_never_waits_for_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU, too, "auto" compiles nothing for it; who asks for the kernels by name gets them."""
    monkeypatch.setattr(needs, "why_no_fused_kernels", lambda device: None)
    monkeypatch.setattr(needs, "timed_in_float32", lambda device: True)
    for stored, instead in ((True, "symmetric"), (False, "blocked")):
        case = Case(torch.device("cuda"), 900, 256, stored=stored)
        assert choose(case) == instead and choose(case, "fused") == "fused"


def test_float32_is_not_fused_where_it_was_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "why_no_fused_kernels", lambda device: None)
    case = Case(torch.device("cuda"), 5000, 256)
    for hopper in (True, False):
        monkeypatch.setattr(needs, "timed_in_float32", lambda device, hopper=hopper: hopper)
        assert choose(case, precision="float32") == ("fused" if hopper else "blocked")
        assert choose(case, "fused", "float32") == choose(case) == choose(case, precision="tf32") == "fused"


@pytest.mark.parametrize(
    ("capability", "wanted"), [((7, 5), "capability 8.0"), ((8, 0), None), ((8, 9), None), ((12, 0), None)]
)
def test_gpus_from_ampere_on(capability: tuple[int, int], wanted: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    reason = needs.why_no_fused_kernels(torch.device("cuda"))
    assert reason is None if wanted is None else wanted in str(reason)


@pytest.mark.parametrize(
    ("precision", "implementation", "nodes", "device", "expected"),
    [
        ("auto", "fused", 4096, "cuda", "float32"),
        ("auto", "fused", 4097, "cuda", "bf16"),
        ("auto", "blocked", 4097, "cuda", "float32"),
        ("tf32", "symmetric", 10, "cuda", "tf32"),
        ("tf32", "symmetric", 10, "cpu", "float32"),
        ("bf16", "blocked", 10, "cpu", "bf16"),
        ("bf16", "reference", 10, "cuda", "float32"),
    ],
)
def test_precision_from_a_case(precision: str, implementation: str, nodes: int, device: str, expected: str) -> None:
    assert resolved(precision, implementation, Case(torch.device(device), nodes, 16)) == expected


def test_every_form_states_its_memory() -> None:
    n = 6000
    case = Case(CPU, n, 256)
    assert memory_needed(case, "blocked") == 22 * 4 * 512 * n, "weights are made in every step"
    assert memory_needed(replace(case, stored=True), "blocked") == 12 * 4 * 512 * n
    assert memory_needed(replace(case, by_similarity=False, anchors=50), "blocked") == 12 * 4 * 512 * n
    assert memory_needed(replace(case, own_candidates=True, anchors=50), "blocked") == 22 * 4 * 512 * n
    sampled = replace(case, nodes=2048, anchors=500, own_candidates=True, stand_for_all=True)
    assert memory_needed(sampled, "blocked") == 16 * 4 * 500 * 2048
    assert memory_needed(replace(case, stored=True), "symmetric") == 2 * 8 * n**2 + 2**26
    assert memory_needed(replace(case, stored=True, nodes=9000), "symmetric") == 2**28
    assert memory_needed(case, "fused") == 12 * 4 * 512 * n
    assert memory_needed(replace(case, pooling="mean"), "fused") == 22 * 4 * 512 * n
    assert memory_needed(replace(case, pooling="mean", stored=True), "fused") == 12 * 4 * 512 * n
    assert memory_needed(replace(case, anchors=10), "reference") == 64 * 10 * n


def test_a_problem_that_cannot_be_is_refused() -> None:
    _, _, weights = given(5, 3, "plus")
    with pytest.raises(SettingError, match=r"tau must be a number > 0, found 0"):
        Problem(weights, 0.0)
    with pytest.raises(SettingError, match="Did you mean 'mean'"):
        Problem(weights, 0.4, "meen")
