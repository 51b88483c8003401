r"""Features spread over a graph without any training: powers of the adjacency, and PageRank.

.. math::
    \hat A^k x \qquad\text{and}\qquad h = α \sum_{k≥0} (1-α)^k \hat A^k x = α \, (1 - (1-α) \hat A)^{-1} x

:math:`\hat A` is symmetric with eigenvalues in [−1, 1], as ``normalised_adjacency`` gives it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from graphkin.errors import check_range, check_whole
from graphkin.graphs.arrays import SPARSE_BELOW, Features, inverse, largest_of_rows, length_of_rows
from graphkin.support.sparse import SparseMatrix

REST = 1e-4
"""How far PageRank diffusion may stay from its limit, relative to how far x is from it."""
REST_OF_ROUNDED = 1e-3
"""The same where the result is rounded to bf16, which takes off up to 4e-3 of a number."""
BLOCK_BYTES = {"cpu": 2**20, "cuda": 2**28}
"""Columns are spread so many at a time: few enough for a core's cache, many enough to keep a GPU busy."""
NARROWEST = 32
"""columns of two cache lines: fewer cost as many reads"""


def unit_length(x: Features) -> Features:
    """Rows scaled to length 1; a row of zeros stays as it is."""
    for size in (largest_of_rows, length_of_rows):  # first the largest entry, so that no square overflows
        factors = inverse(size(x))
        x = x.scale_rows(factors) if isinstance(x, SparseMatrix) else x * factors[:, None]
    return x


def powers(adjacency: SparseMatrix, x: Features, hops: Iterable[int]) -> list[Features]:
    """Â^k x for each k of ``hops``, in their order. Sparse features stay sparse while few of their entries are filled."""
    wanted = list(hops)
    for hop in wanted:
        check_whole("hops", hop, at_least=0)
    found = {0: x}
    for hop in range(1, max(wanted, default=0) + 1):
        x = _spread(adjacency, x)
        if hop in wanted:
            found[hop] = x
    return [found[hop] for hop in wanted]


def pagerank_diffusion(adjacency: SparseMatrix, x: Features, alpha: float) -> Tensor:
    """``pagerank_diffusion_plain`` in fewer steps and a few columns at a time; the result is dense.

    Chebyshev's iteration on the same equation: after K steps the rest is at most 1 / T_K(1 / (1 − α)) of the first one, so
    that a teleport of 0.05 takes 31 steps where the plain iteration takes 180.
    """
    return pagerank_diffusions(adjacency, x, [alpha])[0]


def pagerank_diffusions(adjacency: SparseMatrix, x: Features, alphas: Sequence[float], rest: float = REST) -> list[Tensor]:
    """``pagerank_diffusion`` with several ``alphas``, in the steps of the smallest: all are sums of the same T_k(Â) x."""
    factors = [chebyshev_factors(alpha, rest) for alpha in alphas]
    parts = [_chebyshev_sums(adjacency, block, factors) for _, block in column_blocks(x)]
    return [blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=1) for blocks in zip(*parts, strict=True)]


def pagerank_diffusion_plain(adjacency: SparseMatrix, x: Tensor, alpha: float) -> Tensor:
    """The definition: h ← (1 − α) Â h + α x from h = x, until (1 − α)^K is below ``REST``."""
    h = x
    for _ in range(plain_steps(alpha)):
        h = (1 - alpha) * (adjacency @ h) + alpha * x
    return h


def plain_steps(alpha: float) -> int:
    """The smallest K with (1 − α)^K < ``REST``."""
    check_range("alpha", alpha, above=0, at_most=1)
    return 0 if alpha == 1 else math.floor(math.log(REST) / math.log1p(-alpha)) + 1


def chebyshev_steps(alpha: float, rest: float = REST) -> int:
    """The smallest K with T_K(1 / (1 − α)) > 1 / ``rest``; T_K(z) = cosh(K arcosh z)."""
    check_range("alpha", alpha, above=0, at_most=1)
    return 0 if alpha == 1 else math.floor(math.acosh(1 / rest) / math.acosh(1 / (1 - alpha))) + 1


def chebyshev_factors(alpha: float, rest: float = REST) -> np.ndarray:
    """c_k with Σ_k c_k T_k(t) = f(t) + (1 − f(t)) T_K(t) / T_K(1 / (1 − α)): Chebyshev's iterate from x after K steps.

    f(t) = α / (1 − (1 − α) t) is the limit.
    """
    steps = chebyshev_steps(alpha, rest)
    if steps == 0:
        return np.ones(1)
    left = 1 / math.cosh(steps * math.acosh(1 / (1 - alpha)))

    def iterate(t: np.ndarray) -> np.ndarray:
        limit = alpha / (1 - (1 - alpha) * t)
        found: np.ndarray = limit + (1 - limit) * left * np.cos(steps * np.arccos(t))
        return found

    factors: np.ndarray = np.polynomial.chebyshev.chebinterpolate(iterate, steps)
    return factors


def _chebyshev_sums(adjacency: SparseMatrix, x: Tensor, factors: Sequence[np.ndarray]) -> list[Tensor]:
    """Σ_k c_k T_k(Â) x for each c of ``factors``, by T_{k+1} = 2 Â T_k − T_{k−1}."""
    sums = [x * float(factor[0]) for factor in factors]
    before, now = x, x
    for step in range(1, max(map(len, factors))):
        before, now = now, adjacency @ x if step == 1 else _next(adjacency, now, x.clone() if step == 2 else before)
        for found, factor in zip(sums, factors, strict=True):
            if step < len(factor):
                found.add_(now, alpha=float(factor[step]))
    return sums


def _next(adjacency: SparseMatrix, now: Tensor, before: Tensor) -> Tensor:
    """2 Â now − before, in place of ``before`` where no gradient is wanted."""
    if now.requires_grad:
        return (adjacency @ now).mul_(2).sub_(before)
    return torch.addmm(before, adjacency.csr, now, beta=-1, alpha=2, out=before)


def _spread(adjacency: SparseMatrix, x: Features) -> Features:
    """Â x."""
    if isinstance(x, SparseMatrix) and x.device.type == "cpu":
        product = SparseMatrix.from_scipy(adjacency.to_scipy() @ x.to_scipy(), x.dtype)
        return product if product.values.numel() < SPARSE_BELOW * math.prod(product.shape) else product.to_dense()
    out = torch.empty(x.shape[0], x.shape[1], dtype=x.dtype, device=x.device)
    for first, block in column_blocks(x):
        out[:, first : first + block.shape[1]] = adjacency @ block
    return out


def column_blocks(x: Features) -> Iterator[tuple[int, Tensor]]:
    """Some columns at a time, dense, with the number of the first."""
    count, columns = columns_at_a_time(x), columns_of(x)
    for first in range(0, x.shape[1], count):
        yield first, columns(first, count)


def columns_at_a_time(x: Features) -> int:
    most = BLOCK_BYTES["cpu" if x.device.type == "cpu" else "cuda"]
    return max(NARROWEST, most // max(x.dtype.itemsize * x.shape[0], 1))


def columns_of(x: Features) -> Callable[[int, int], Tensor]:
    """A function that gives so many dense columns from one on, or those that are left."""
    if isinstance(x, Tensor):
        return lambda first, count: x[:, first : first + count].contiguous()
    if x.device.type == "cpu":
        by_column = x.to_scipy().tocsc()
        return lambda first, count: torch.from_numpy(by_column[:, first : first + count].toarray())
    return lambda first, count: x.T.row_slice(first, min(first + count, x.shape[1])).to_dense().T.contiguous()
