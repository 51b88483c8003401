from __future__ import annotations

import subprocess
import sys
from functools import partial

import pytest
import torch
from torch import Tensor

from graphkin.errors import SettingError
from graphkin.objectives import reference as objective
from graphkin.objectives.kernels import blocked, one_view_loss, symmetric, two_view_loss
from graphkin.objectives.kernels.precision import of_encoder
from graphkin.similarity import Stored
from graphkin.support.sparse import SparseMatrix
from graphkin.weights.node import AllAlike, Attraction, Candidates, Linked, NodeWeights, OwnOnly, PositiveWeights, Repulsion
from tests.cases import unit

F64 = torch.float64
SHAPES = [(1, 3), (2, 3), (31, 100), (257, 3), (257, 100)]


def problem(n: int, d: int, kind: str, dtype: torch.dtype = F64) -> tuple[Tensor, Tensor, NodeWeights]:
    draw = torch.Generator().manual_seed(n * 1000 + d)
    u = unit(torch.randn(n, d, generator=draw, dtype=F64))
    v = unit(u + torch.randn(n, d, generator=draw, dtype=F64))
    similarity = Stored((torch.rand(n, n, generator=draw, dtype=F64) ** 6).to(dtype))
    per_anchor = torch.rand(n, generator=draw, dtype=F64).to(dtype) + 0.1
    positive: PositiveWeights = OwnOnly(dtype) if kind in ("base", "n") else Attraction(similarity, per_anchor)
    negative = AllAlike(dtype) if kind in ("base", "p") else Repulsion(similarity, 0.3)
    return u.to(dtype), v.to(dtype), NodeWeights(positive, negative, n)


def value_and_gradient(
    u: Tensor, v: Tensor, weights: NodeWeights, implementation: str, **options: object
) -> tuple[Tensor, Tensor, Tensor]:
    u, v = u.clone().requires_grad_(), v.clone().requires_grad_()
    tau = float(options.pop("tau", 0.4))  # type: ignore[arg-type]
    loss = two_view_loss(u, v, weights, tau, implementation=implementation, **options)  # type: ignore[arg-type]
    grad_u, grad_v = torch.autograd.grad(loss, (u, v))
    return loss.detach(), grad_u, grad_v


def assert_same(one: tuple[Tensor, ...], other: tuple[Tensor, ...], tolerance: float = 1e-11) -> None:
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("kind", ["base", "p", "n", "plus"])
def test_all_anchors(n: int, d: int, kind: str) -> None:
    u, v, weights = problem(n, d, kind)
    expected = value_and_gradient(u, v, weights, "reference")
    assert_same(value_and_gradient(u, v, weights, "blocked"), expected)
    assert_same(value_and_gradient(u, v, weights.stored(), "symmetric"), expected)
    assert_same(value_and_gradient(u, v, weights.stored(), "auto"), expected)


@pytest.mark.parametrize(("n", "d"), SHAPES)
@pytest.mark.parametrize("kind", ["base", "p", "n", "plus"])
def test_mean_pooling(n: int, d: int, kind: str) -> None:
    u, v, weights = problem(n, d, kind)
    expected = value_and_gradient(u, v, weights, "reference", pooling="mean")
    assert_same(value_and_gradient(u, v, weights.stored(), "blocked", pooling="mean"), expected)


@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("kind", ["base", "p", "n", "plus"])
def test_sampled_anchors_and_candidates(kind: str, pooling: str) -> None:
    u, v, weights = problem(31, 5, kind)
    draw = torch.Generator().manual_seed(0)
    anchors = torch.randperm(31, generator=draw)[:11].sort().values
    for candidates in (None, Candidates.draw(31, 7, 9, draw), Candidates.draw(31, None, 9, draw)):
        options = {"pooling": pooling, "anchors": anchors, "candidates": candidates}
        expected = value_and_gradient(u, v, weights, "reference", **options)
        assert_same(value_and_gradient(u, v, weights, "blocked", **options), expected)


@pytest.mark.parametrize("block", [1, 7, 31, 1000])
def test_blocks_change_nothing(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    u, v, weights = problem(31, 5, "plus")
    expected = objective.enhanced(u, v, weights.block(), 0.4)
    found = blocked.some_anchors(u, v, weights, 0.4, "sum", torch.arange(31), None, block=block)
    paired = symmetric.all_anchors(torch.stack([u, v]), weights.stored().linear(torch.arange(31)), 0.4, block=block)
    assert paired is not None
    torch.testing.assert_close(found[0], expected)
    assert_same(found, paired)
    monkeypatch.setattr(symmetric, "KEEP_BYTES", 0)
    again = symmetric.all_anchors(torch.stack([u, v]), weights.stored().linear(torch.arange(31)), 0.4, block=block)
    assert again is not None
    assert_same(again, paired)


@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("tau", [0.02, 0.005, 0.001])
def test_tiny_temperatures_fall_back_to_log_space(tau: float, pooling: str) -> None:
    """Plain sums of float32 exponentials underflow here; the result must not notice."""
    u, v, _ = problem(31, 8, "plus")
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
        exact = value_and_gradient(*problem(257, 100, kind), "reference")
        u, v, weights = problem(257, 100, kind, torch.float32)
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
    u, v, weights = problem(257, 100, kind, torch.float32)
    exact = value_and_gradient(*problem(257, 100, kind), "reference")
    rounded = value_and_gradient(u.bfloat16(), v.bfloat16(), weights, "reference")
    found = value_and_gradient(u, v, weights.stored(), implementation, precision="bf16")
    for fast, slow, truth in zip(found, rounded, exact, strict=True):
        assert (fast - truth).norm() <= 2 * (slow.double() - truth).norm() + 1e-3
    assert (found[1] - exact[1]).norm() > 1e-5 * exact[1].norm()


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
    code = f"""
import torch
{set_by_the_user}
from graphkin import InfoNCE
from graphkin.objectives.kernels.precision import products_in
before = torch.backends.cuda.matmul.fp32_precision
InfoNCE()(torch.eye(3), torch.eye(3))
with products_in("bf16", torch.device("cuda")):
    assert torch.backends.cuda.matmul.fp32_precision == "tf32"
assert torch.backends.cuda.matmul.fp32_precision == before
if "medium" in {set_by_the_user!r}:
    assert torch.get_float32_matmul_precision() == "medium"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("kind", ["linked", "plus"])
@pytest.mark.parametrize("size", [1, 2, 40, 90])
def test_one_view(kind: str, size: int) -> None:
    """Graph-MLP's batch: positives from links or from similarity, some anchors without any."""
    _, _, both = problem(90, 5, "plus")
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
    _, _, both = problem(40, 5, "plus")
    z = unit(torch.randn(40, 5, generator=torch.Generator().manual_seed(3), dtype=F64))
    assert isinstance(both.positive, Attraction)
    weights = NodeWeights(Attraction(both.positive.similarity, 0.1, counterpart=False), both.negative, 40)
    nodes = torch.arange(40)
    exact = one_view_loss(z, weights, nodes, 1e-3, "reference")
    torch.testing.assert_close(one_view_loss(z, weights, nodes, 1e-3), exact)


def test_gradcheck_of_the_kernels() -> None:
    u, v, weights = problem(7, 3, "plus")
    for implementation in ("blocked", "symmetric"):
        loss = partial(two_view_loss, weights=weights.stored(), tau=0.5, implementation=implementation)
        assert torch.autograd.gradcheck(loss, (u.clone().requires_grad_(), v.clone().requires_grad_()))


def test_rows_that_are_not_of_unit_length_are_still_right() -> None:
    u, v, weights = problem(31, 5, "plus")
    expected = value_and_gradient(u * 40, v * 40, weights, "reference")
    assert_same(value_and_gradient(u * 40, v * 40, weights.stored(), "auto"), expected, 1e-9)


def test_second_derivatives_are_refused_and_not_wrong() -> None:
    u, v, weights = problem(5, 3, "plus")
    u.requires_grad_()
    loss = two_view_loss(u, v, weights.stored(), 0.4)
    (gradient,) = torch.autograd.grad(loss, u, create_graph=True)
    with pytest.raises(RuntimeError, match=r"does not require grad|once_differentiable"):
        gradient.sum().backward()


def test_symmetric_says_what_it_needs() -> None:
    u, v, weights = problem(5, 3, "plus")
    with pytest.raises(SettingError, match="needs stored weights"):
        two_view_loss(u, v, weights, 0.4, implementation="symmetric")
    with pytest.raises(SettingError, match="Did you mean 'blocked'"):
        two_view_loss(u, v, weights, 0.4, implementation="block")


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
