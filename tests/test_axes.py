"""Principal axes against the eigenvectors of the Gram matrix."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from graphkin.support import axes
from graphkin.support.axes import principal_axes, simple_axes

CPU = torch.device("cpu")


def gram_of(rows: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda directions: rows.T @ (rows @ directions)


def decaying(rows: int, width: int, seed: int = 0, rate: float = 0.8) -> Tensor:
    """A matrix with singular values that tell its axes apart."""
    draw = torch.Generator().manual_seed(seed)
    left, right = (torch.linalg.qr(torch.randn(size, min(rows, width), generator=draw)).Q for size in (rows, width))
    found: Tensor = (left * rate ** torch.arange(min(rows, width))) @ right.T
    return found


def eigenvectors(rows: Tensor) -> Tensor:
    """Of MᵀM in float64, the largest first."""
    doubled = rows.double()
    found: Tensor = torch.linalg.eigh(doubled.T @ doubled).eigenvectors.flip(1)
    return found


def orthonormal(found: Tensor, tolerance: float = 1e-5) -> bool:
    return torch.allclose(found.T @ found, torch.eye(found.size(1)), atol=tolerance)


@pytest.fixture(params=["exact", "by iteration"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Iteration on matrices that are small enough for a test."""
    if request.param == "by iteration":
        monkeypatch.setattr(axes, "EXACT_UP_TO", 4)
        monkeypatch.setattr(axes, "EXTRA", 8)
    return str(request.param)


def test_axes_are_the_eigenvectors_up_to_their_sign(way: str) -> None:
    rows = decaying(50, 30)
    found = principal_axes(gram_of(rows), 30, 6, CPU)
    assert found.shape == (30, 6) and found.dtype == torch.float32 and orthonormal(found)
    overlap = (found.double().T @ eigenvectors(rows)[:, :6]).abs()
    torch.testing.assert_close(overlap, torch.eye(6, dtype=torch.float64), atol=1e-3, rtol=0)


def test_equal_axes_are_the_same_subspace(way: str) -> None:
    """Three axes of the same length: any basis of what they span."""
    draw = torch.Generator().manual_seed(0)
    turned: Tensor = torch.linalg.qr(torch.randn(30, 30, generator=draw)).Q
    lengths = torch.cat([torch.full((3,), 4.0), torch.full((27,), 0.1)])
    found = principal_axes(gram_of(lengths[:, None] * turned.T), 30, 3, CPU)
    assert orthonormal(found)
    torch.testing.assert_close(found @ found.T, turned[:, :3] @ turned[:, :3].T, atol=1e-4, rtol=0)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_orthonormal_whatever_the_rank(way: str, rank: int) -> None:
    rows = decaying(40, 30, rate=0.5)[:, :rank] @ torch.randn(rank, 30, generator=torch.Generator().manual_seed(1))
    found = principal_axes(gram_of(rows), 30, 8, CPU)
    assert found.shape == (30, 8) and orthonormal(found)
    torch.testing.assert_close(rows @ found @ found.T, rows, atol=1e-4, rtol=0)


@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 20))
def test_no_other_axes_hold_more(seed: int, rows: int, width: int) -> None:
    """Fewer rows than columns, more, one of each; so many axes as there are columns at most."""
    matrix = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))
    for count in {1, (width + 1) // 2, width}:
        found = principal_axes(gram_of(matrix), width, count, CPU)
        assert found.shape == (width, count) and orthonormal(found)
        best = float((matrix.double() @ eigenvectors(matrix)[:, :count]).square().sum())
        assert float((matrix @ found).square().sum()) == pytest.approx(best, rel=1e-4, abs=1e-5)


def test_the_same_bits_and_the_global_state_alone(way: str) -> None:
    rows, before = decaying(50, 30), torch.get_rng_state()
    one, again = (principal_axes(gram_of(rows), 30, 6, CPU) for _ in range(2))
    assert torch.equal(one, again) and torch.equal(torch.get_rng_state(), before)


def test_iteration_begins_beyond_what_is_exact() -> None:
    """Twice as wide as that, and a tail that hardly falls: what the axes leave out is near what it must be."""
    rows = decaying(700, 2 * axes.EXACT_UP_TO, rate=0.98)
    asked: list[int] = []

    def gram(directions: Tensor) -> Tensor:
        asked.append(directions.size(1))
        return gram_of(rows)(directions)

    found = principal_axes(gram, rows.size(1), 20, CPU)
    assert set(asked) == {20 + axes.EXTRA} and orthonormal(found)
    assert float((rows @ found).square().sum()) == pytest.approx(sum(0.98 ** (2 * k) for k in range(20)), rel=1e-3)


def test_simple_axes_are_found_again_after_any_turn() -> None:
    """Each axis of the truth is about three features of its own."""
    truth = torch.zeros(30, 10)
    for axis in range(10):
        truth[3 * axis : 3 * axis + 3, axis] = torch.tensor([0.8, -0.36, 0.48])
    turn = torch.linalg.qr(torch.randn(10, 10, generator=torch.Generator().manual_seed(0))).Q
    found = simple_axes(truth @ turn)
    torch.testing.assert_close(found.T @ found, torch.eye(10), rtol=0, atol=1e-5)
    overlap = (truth.T @ found).abs()
    assert (overlap.max(dim=0).values > 0.999).all() and (overlap.max(dim=1).values > 0.999).all()


@pytest.mark.parametrize(("features", "axes"), [(40, 12), (12, 12), (5, 1), (64, 64)])
def test_simple_axes_span_the_same_space(features: int, axes: int) -> None:
    given = torch.linalg.qr(torch.randn(features, axes, generator=torch.Generator().manual_seed(1))).Q
    found = simple_axes(given)
    torch.testing.assert_close(found @ found.T, given @ given.T, rtol=0, atol=1e-5)
    assert (found**4).sum() >= (given**4).sum() - 1e-5


def test_axes_of_nearly_one_direction_are_finite() -> None:
    """LAPACK's float32 finds none for this matrix."""
    rows = torch.zeros(3, 30)
    rows[:, [6, 12, 18, 24]] = torch.tensor([0.4, 1.0, 1.0, 0.4])
    rows[0, 0] = 0.2
    found = principal_axes(gram_of(rows), 30, 30, CPU)
    torch.testing.assert_close(found.T @ found, torch.eye(30), rtol=0, atol=1e-5)
    torch.testing.assert_close(rows @ found @ found.T, rows, rtol=0, atol=1e-5)
