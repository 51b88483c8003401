"""The nodes most similar to given ones."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from graphkin.errors import SettingError, check_flag, check_whole, shown
from graphkin.evaluation.rows import Rows
from graphkin.graphs.arrays import as_array, plain_tensor
from graphkin.uses.index import by_index, nearest_by_index, say_where_progress_is
from graphkin.uses.nearest import Similar, nearest
from graphkin.uses.rows import unit_embeddings


def similar(
    embeddings: Tensor | Rows,
    nodes: int | Sequence[int] | Tensor | np.ndarray,
    count: int = 10,
    *,
    exact: bool = False,
    say: Callable[[str], None] = say_where_progress_is,
) -> Similar:
    """``(z @ z.T).topk(count)`` of the rows ``nodes``, without the nodes themselves, where z are rows of length 1.

    ``nodes`` are indices. There are fewer than ``count`` where the graph has fewer other nodes. A row of zeros is similar
    to none: its cosines are 0.

    Beyond 2·10¹⁰ cosines, which is ``nodes`` times all nodes, an index is built if usearch is installed, unless ``exact``;
    ``similar(...).approximate`` then says how well it did. ``say`` gets a line where it is not installed.
    """
    check_whole("count", count, at_least=1)
    check_flag("exact", exact)
    unit = unit_embeddings(embeddings)
    wanted = checked_nodes(nodes, len(unit))
    if by_index(unit, len(wanted) * len(unit), exact, say):
        return nearest_by_index(unit, wanted, int(count))
    return nearest(unit, wanted, int(count))


def checked_nodes(nodes: Any, there: int) -> np.ndarray:
    """Indices [M] of nodes."""
    listed = [nodes] if isinstance(nodes, numbers.Integral) else nodes
    found = as_array(plain_tensor(listed, "nodes") if isinstance(listed, Tensor) else listed, "nodes")
    if found.ndim != 1 or len(found) == 0 or found.dtype.kind not in "iu":
        raise SettingError(f"nodes must be a list of whole numbers, found {shown(nodes)}.")
    outside = found[(found < 0) | (found >= there)]
    if len(outside):
        raise SettingError(f"nodes must be in 0..{there - 1}, found {outside[0]}.")
    return found.astype(np.int64)
