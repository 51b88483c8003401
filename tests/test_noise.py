"""Noise of some rows of a step is that of the same rows among all."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graphkin.models.layers import dropped
from graphkin.models.noise import NoiseOfRows
from graphkin.support.sparse import SparseMatrix


def source() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@given(here=st.lists(st.booleans(), min_size=1, max_size=20), width=st.integers(1, 9))
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_keep_their_noise(here: list[bool], width: int, sparse: bool) -> None:
    flags = torch.tensor(here)
    rows = torch.rand(len(here), width, generator=source()) * torch.bernoulli(torch.full((len(here), width), 0.6))
    whole = SparseMatrix.from_dense(rows) if sparse else rows
    some = SparseMatrix.from_dense(rows[flags]) if sparse else rows[flags]
    noise = NoiseOfRows(source(), flags, (rows != 0).sum(dim=1) if sparse else None)
    expected, found = dropped(whole, 0.5, source()), dropped(some, 0.5, noise)
    assert torch.equal(_dense(found), _dense(expected)[flags])


def test_all_processes_draw_as_many_numbers() -> None:
    after = set()
    for here in ([True, False, False], [False, True, True], [False, False, False]):
        noise = NoiseOfRows(source(), torch.tensor(here))
        dropped(torch.ones(sum(here), 7), 0.3, noise)
        after.add(tuple(torch.rand(4, generator=noise.source).tolist()))
    assert len(after) == 1


def _dense(x: torch.Tensor | SparseMatrix) -> torch.Tensor:
    return x.to_dense() if isinstance(x, SparseMatrix) else x
