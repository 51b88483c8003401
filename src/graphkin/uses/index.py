"""Nearest nodes by an index (usearch), where comparing all pairs takes too long: approximate, and it says how well it did."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from graphkin.support.files import check_memory
from graphkin.support.progress import tell
from graphkin.uses.nearest import Approximate, Similar, nearest
from graphkin.uses.rows import sample

MOST_COMPARED = 2 * 10**10
"""so many cosines are computed one by one; beyond that, an index is built (all pairs of 200,000 nodes)"""
CHECKED = 200
"""nodes that are also looked up exactly, to know how well the index does"""
ROUNDING = 1e-5
"""cosines that differ by less count as equal"""
SPARE = 9
"""the node itself, and a few more than asked for, because the index rounds cosines and exact ones decide"""
AT_A_TIME = 2**12
"""nodes"""
GATHERED = 2**25
"""numbers in the rows of nodes and their nearest nodes, at a time"""
TIMED = 2**25
"""cosines that are computed to know how long others take"""


def say_where_progress_is(line: str) -> None:
    tell("auto", [line])


def by_index(unit: np.ndarray, cosines: int, exact: bool, say: Callable[[str], None]) -> bool:
    """Whether to build an index instead of computing so many cosines; where there is no usearch, says what that costs."""
    if exact or cosines <= MOST_COMPARED:
        return False
    if importlib.util.find_spec("usearch") is not None:
        return True
    minutes = cosines * _seconds_each(unit) / 60
    say(
        f"{cosines:,} cosines may take {minutes:,.0f} minutes or more; an approximate search is many times faster: "
        "pip install 'graphkin[index]'"
    )
    return False


def _seconds_each(unit: np.ndarray) -> float:
    rows = torch.from_numpy(unit)
    some = rows[: max(1, TIMED // len(rows))]
    start = time.perf_counter()
    (some @ rows.T).amax()
    return (time.perf_counter() - start) / (len(some) * len(rows))


def nearest_by_index(
    unit: np.ndarray, nodes: np.ndarray, count: int, progress: Callable[[float], None] = lambda done: None
) -> Similar:
    """:func:`nearest` by an index of all rows, with exact cosines. ``progress`` is called with the part that is done."""
    count, work = min(count, len(unit) - 1), len(unit) + len(nodes)
    index = _built(unit, lambda rows: progress(rows / work))
    indices = np.empty((len(nodes), count), dtype=np.int64)
    cosines = np.empty((len(nodes), count), dtype=np.float32)
    step = min(max(GATHERED // ((count + SPARE) * unit.shape[1]), 1), AT_A_TIME)
    for first in range(0, len(nodes), step):
        part = slice(first, first + step)
        indices[part], cosines[part] = _looked_up(index, unit, nodes[part], count)
        progress((len(unit) + min(first + step, len(nodes))) / work)
    places = sample(len(nodes), CHECKED)
    least = nearest(unit, nodes[places], count).cosines[:, -1:]
    recall = float((cosines[places] >= least - ROUNDING).mean())
    return Similar(indices, cosines, Approximate(count, recall, len(places)))


def _built(unit: np.ndarray, progress: Callable[[int], None]) -> Any:
    from usearch.index import Index

    check_memory("an index of the embeddings", len(unit) * (2 * unit.shape[1] + 256))
    index = Index(ndim=unit.shape[1], metric="ip", dtype="f16", connectivity=16, expansion_add=64, expansion_search=96)
    for first in range(0, len(unit), AT_A_TIME):
        part = unit[first : first + AT_A_TIME]
        index.add(np.arange(first, first + len(part)), part, threads=torch.get_num_threads())
        progress(first + len(part))
    return index


def _looked_up(index: Any, unit: np.ndarray, nodes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices and cosines [M, count]; a node for which the index has too few is looked up exactly."""
    wanted = min(count + SPARE, len(unit))
    twice = np.resize(nodes, max(len(nodes), 2))  # for one node, usearch gives another type
    found = index.search(unit[twice], wanted, threads=torch.get_num_threads())
    near, enough = found.keys[: len(nodes)].astype(np.int64), found.counts[: len(nodes)] == wanted
    indices = np.empty((len(nodes), count), dtype=np.int64)
    cosines = np.empty((len(nodes), count), dtype=np.float32)
    indices[enough], cosines[enough] = _ordered(unit, nodes[enough], near[enough], count)
    if not enough.all():
        exactly = nearest(unit, nodes[~enough], count)
        indices[~enough], cosines[~enough] = exactly.indices, exactly.cosines
    return indices, cosines


def _ordered(unit: np.ndarray, nodes: np.ndarray, near: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The best first by exact cosines, ties by index, without the nodes themselves."""
    cosines = np.einsum("nd,nkd->nk", unit[nodes], unit[near]).clip(-1, 1)
    cosines[near == nodes[:, None]] = -np.inf
    order = np.lexsort((near, -cosines))[:, :count]
    return np.take_along_axis(near, order, 1), np.take_along_axis(cosines, order, 1)
