"""What is computed for columns of features, some at a time, so that little more than the result is held.

Several processes take turns: each computes some columns, and keeps its share of the rows of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from graphkin.graphs.arrays import Features
from graphkin.graphs.diffusion import columns_at_a_time, columns_of
from graphkin.support.parallel import ALONE, Peers


def fill_columns(
    found: Mapping[str, Tensor],
    x: Features,
    compute: Callable[[Tensor], Iterable[tuple[str, Tensor]]],
    among: Peers = ALONE,
) -> None:
    """Fill in ``found``, this process's rows of the matrices that ``compute`` gives by name for columns of ``x``.

    A single process holds no more of what is computed than ``compute`` does.
    """
    (nodes, width), many, columns_of_x = x.shape, columns_at_a_time(x), columns_of(x)
    if among.size == 1:
        for first in range(0, width, many):
            for name, columns in compute(columns_of_x(first, many)):
                found[name][:, first : first + many] = columns
                del columns
        return
    rows = slice(*among.bounds(nodes))
    for turn in range(0, width, many * among.size):
        starts = range(turn, min(turn + many * among.size, width), many)
        mine = dict(compute(columns_of_x(starts[among.rank], many))) if among.rank < len(starts) else {}
        for rank, first in enumerate(starts):
            last = min(first + many, width)
            for name, matrix in found.items():
                here = rank == among.rank
                columns = mine[name].to(matrix.dtype) if here else matrix.new_empty(nodes, last - first)
                matrix[:, first:last] = among.broadcast(columns, rank)[rows]


def in_columns(function: Callable[[Tensor], Tensor], x: Tensor, among: Peers = ALONE) -> Tensor:
    """A function of columns, computed in float32 where ``x`` is bf16: in the place of ``x``, or this process's rows of it."""
    first, last = among.bounds(len(x))
    found = x if among.size == 1 else torch.empty_like(x[first:last])
    fill_columns({"": found}, x, lambda columns: [("", function(columns.float()))], among)
    return found
