"""Products in the precision that is set around them."""

from __future__ import annotations

import pytest
import torch

from graphkin.models.layers import linear
from graphkin.objectives.kernels.precision import FEW_ROWS, of_rows
from graphkin.support.products import affine, multiplies_bf16_fast, products_in, times
from graphkin.support.randomness import kept
from graphkin.support.sparse import SparseMatrix

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_products_are_of_rounded_matrices_within_and_exact_outside() -> None:
    a, b = rows(5, 7), rows(7, 3, seed=1)
    rounded = (a.bfloat16() @ b.bfloat16()).float()
    with products_in("bf16", CPU):
        assert torch.equal(times(a, b), rounded)
        with products_in("float32", CPU):
            assert torch.equal(times(a, b), rounded), "an inner float32 leaves what is set around it"
    assert torch.equal(times(a, b), a @ b)
    assert not torch.equal(a @ b, rounded)


def test_an_error_within_leaves_the_precision_as_it_was() -> None:
    a, b = rows(2, 2), rows(2, 2, seed=1)
    with pytest.raises(ZeroDivisionError), products_in("bf16", CPU):
        raise ZeroDivisionError
    assert torch.equal(times(a, b), a @ b)


def test_gradients_are_those_of_rounded_matrices() -> None:
    a, b, grad = rows(5, 7), rows(7, 3, seed=1).requires_grad_(), rows(5, 3, seed=2)
    with products_in("bf16", CPU):
        found = times(a, b)
    found.backward(grad)
    assert b.grad is not None and b.grad.dtype == torch.float32
    assert torch.equal(b.grad, (a.bfloat16().T @ grad.bfloat16()).float())


def test_layers_follow_and_their_gradients_are_close_to_the_exact_ones() -> None:
    layer, x = linear(64, 16, torch.Generator().manual_seed(0)), rows(32, 64).requires_grad_()
    exact = torch.autograd.grad(layer(x).square().sum(), [x, *layer.parameters()])
    with products_in("bf16", CPU):
        assert torch.equal(layer(x), affine(x, layer.weight, layer.bias))
        found = torch.autograd.grad(layer(x).square().sum(), [x, *layer.parameters()])
    for one, other in zip(found, exact, strict=True):
        assert not torch.equal(one, other)
        torch.testing.assert_close(one, other, rtol=0.05, atol=0.02 * other.abs().max().item())


def test_sparse_matrices_are_not_rounded() -> None:
    a, b = rows(5, 7) * (rows(5, 7, seed=3) > 0), rows(7, 3, seed=1)
    with products_in("bf16", CPU):
        torch.testing.assert_close(times(SparseMatrix.from_dense(a), b), a @ b)


@pytest.mark.parametrize(
    ("precision", "count", "device", "fast", "expected"),
    [
        ("auto", FEW_ROWS, CPU, True, "float32"),
        ("auto", FEW_ROWS + 1, CPU, True, "bf16"),
        ("auto", FEW_ROWS + 1, CPU, False, "float32"),
        ("bf16", 10, CPU, False, "bf16"),
        ("float32", 10**6, CPU, True, "float32"),
        ("tf32", 10**6, CPU, True, "float32"),
        ("auto", FEW_ROWS, GPU, True, "float32"),
        ("auto", FEW_ROWS + 1, GPU, True, "tf32"),
        ("bf16", 10, GPU, True, "bf16"),
    ],
)
def test_what_steps_on_rows_compute_with(
    precision: str, count: int, device: torch.device, fast: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphkin.objectives.kernels.precision.multiplies_bf16_fast", lambda device: fast)
    assert of_rows(precision, count, device) == expected


def test_a_processor_that_pytorch_does_not_know_is_not_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphkin.support.products.torch.cpu", object())
    assert not multiplies_bf16_fast(CPU)
    assert not multiplies_bf16_fast(GPU)


@pytest.mark.parametrize("shape", [(1,), (3, 5), (64, 1000)])
@pytest.mark.parametrize("rate", [0.0, 0.6, 1 - 1e-9])
def test_flags_that_are_kept(shape: tuple[int, ...], rate: float) -> None:
    drawn = [kept(torch.Size(shape), rate, torch.Generator().manual_seed(seed), CPU) for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert drawn[0].shape == shape and drawn[0].dtype == torch.bool
    if drawn[0].numel() > 1000:
        assert drawn[0].float().mean().item() == pytest.approx(1 - rate, abs=0.01)
        assert torch.equal(drawn[0], drawn[2]) == (rate == 0)
