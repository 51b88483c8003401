"""One branch: its layers, its dropout, and features in several parts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from graphkin import SparseMatrix
from graphkin.models.branch import Branch
from graphkin.models.layers import NORMS, dropped, leaky


def draw(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def parts(nodes: int = 9) -> list[Tensor]:
    return [torch.rand(nodes, width, generator=draw(width)) for width in (5, 3)]


def normed(rows: Tensor, norm: str) -> Tensor:
    if norm == "batch":
        return (rows - rows.mean(0)) / (rows.var(0, unbiased=False) + 1e-5).sqrt()
    centred = rows - rows.mean(1, keepdim=True)
    return rows if norm == "none" else centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()


@pytest.mark.parametrize("norm", NORMS)
def test_it_is_two_layers_on_all_parts_side_by_side(norm: str) -> None:
    branch, x = Branch([5, 3], 7, 4, 0.0, norm, draw()), parts()
    weight = torch.cat(list(branch.first))
    hidden = normed(F.leaky_relu(torch.cat(x, dim=1) @ weight + branch.bias, 0.25), norm)
    expected = normed(F.leaky_relu(hidden @ branch.second.weight.T + branch.second.bias, 0.25), norm)
    torch.testing.assert_close(branch(x), expected)
    assert branch(x).shape == (9, 4) and all(parameter.dtype == torch.float32 for parameter in branch.parameters())


def test_batch_norm_remembers_what_it_saw() -> None:
    branch, x = Branch([5, 3], 7, 4, 0.0, "batch", draw()), parts()
    before = branch.eval()(x)
    branch.train()(x)
    assert not torch.equal(branch.eval()(x), before)
    torch.testing.assert_close(branch(x)[:2], branch([part[:2] for part in x]))  # no node sees another one


def test_dropout_keeps_the_expected_value() -> None:
    x = torch.rand(4, 5, generator=draw()) + 0.5
    source = draw(1)
    found = torch.stack([_tensor(dropped(x, 0.6, source)) for _ in range(20_000)])
    torch.testing.assert_close(found.mean(0), x, atol=0.06, rtol=0)
    assert float((found == 0).float().mean()) == pytest.approx(0.6, abs=0.01)
    torch.testing.assert_close(found.amax(0), x / 0.4)
    assert dropped(x, 0.0) is x


def _tensor(x: Tensor | SparseMatrix) -> Tensor:
    return x.to_dense() if isinstance(x, SparseMatrix) else x


def test_a_branch_drops_in_training_only_and_by_its_generator() -> None:
    branch, x = Branch([5, 3], 7, 4, 0.5, "layer", draw()), parts()
    state = torch.get_rng_state()
    assert torch.equal(branch(x, draw(1)), branch(x, draw(1))) and not torch.equal(branch(x, draw(1)), branch(x, draw(2)))
    assert torch.equal(torch.get_rng_state(), state)
    branch.eval()
    assert torch.equal(branch(x, draw(1)), branch(x))


def test_features_and_hidden_units_are_dropped() -> None:
    """With a rate near 1 nothing of either layer but the biases is left."""
    branch, x = Branch([5, 3], 7, 4, 1 - 1e-7, "none", draw()), parts()
    torch.testing.assert_close(branch(x, draw(1)), F.leaky_relu(branch.second.bias, 0.25).expand(9, 4))


def test_sparse_features_are_the_same_as_dense() -> None:
    branch, (one, other) = Branch([5, 3], 7, 4, 0.5, "layer", draw()).eval(), parts()
    one = one * (one > 0.5)
    found = branch([SparseMatrix.from_dense(one), other])
    torch.testing.assert_close(found, branch([one, other]))
    gradients = [
        torch.autograd.grad(branch([part, other]).square().sum(), branch.first[0])[0]
        for part in (SparseMatrix.from_dense(one), one)
    ]
    torch.testing.assert_close(*gradients)


def test_of_sparse_features_stored_entries_are_dropped() -> None:
    x = torch.rand(200, 30, generator=draw()) + 0.1
    x[:, ::3] = 0
    found = _tensor(dropped(SparseMatrix.from_dense(x), 0.25, draw()))
    kept = found != 0
    torch.testing.assert_close(found[kept], x[kept] / 0.75)
    assert float(kept.sum() / (x != 0).sum()) == pytest.approx(0.75, abs=0.02)


def test_one_generator_gives_the_same_parameters() -> None:
    one, again, other = (Branch([5, 3], 7, 4, 0.5, "layer", draw(seed)) for seed in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), again.parameters(), strict=True))
    assert not torch.equal(one.first[0], other.first[0])


def test_the_leaky_function_is_prelu_with_its_gradients() -> None:
    x = torch.tensor([[-2.0, -0.0, 0.0], [1.0, 3.0, -0.5]], dtype=torch.float64, requires_grad=True)
    slope = torch.tensor([0.25], dtype=torch.float64, requires_grad=True)
    grad = torch.tensor([[1.0, 2.0, -3.0], [0.5, -1.0, 4.0]], dtype=torch.float64)
    assert torch.equal(leaky(x, slope), F.prelu(x, slope))
    found, wanted = (torch.autograd.grad(f(x, slope), [x, slope], grad) for f in (leaky, F.prelu))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
    away = x.detach().clone().where(x != 0, 0.3).requires_grad_()
    assert torch.autograd.gradcheck(leaky, (away, slope))
