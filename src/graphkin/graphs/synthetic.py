"""Graphs of any size with known classes: communities, degrees with a heavy tail, and words as features."""

from __future__ import annotations

import re

import numpy as np
import scipy.sparse

from graphkin.errors import check_range, check_whole
from graphkin.graphs.graph import Graph

NAMED = re.compile(r"synthetic-([0-9]{1,10})")
DEGREE_POWER = 2.5
"""P(degree) falls like degree^−2.5, as in many networks."""


def community_graph(
    num_nodes: int,
    *,
    classes: int = 10,
    mean_degree: float = 20.0,
    mixing: float = 0.5,
    words: int = 256,
    words_of_node: int = 16,
    typical: float = 0.2,
    seed: int = 0,
) -> Graph:
    """Nodes of ``classes`` equal classes.

    An edge leads to a node of any class with probability ``mixing``, and stays in its class otherwise; ends are drawn in
    proportion to weights with a heavy tail. A node has ``words_of_node`` words, a share ``typical`` of them from the words of
    its class. Time and memory grow with nodes and edges.
    """
    check_whole("num_nodes", num_nodes, at_least=2, at_most=2**31 - 1)
    check_whole("classes", classes, at_least=1, at_most=min(num_nodes, words))
    check_range("mean_degree", mean_degree, above=0, at_most=num_nodes - 1)
    check_range("mixing", mixing, at_least=0, at_most=1)
    check_range("typical", typical, at_least=0, at_most=1)
    check_whole("words_of_node", words_of_node, at_least=1, at_most=words)
    draw = np.random.default_rng(seed)
    order = draw.permutation(num_nodes)
    bounds = np.linspace(0, num_nodes, classes + 1).astype(np.int64)
    of_class = np.repeat(np.arange(classes), np.diff(bounds))
    labels = np.empty(num_nodes, np.int64)
    labels[order] = of_class
    edges = order[_edges(draw, of_class, bounds, int(num_nodes * mean_degree / 2), mixing)]
    return Graph.from_arrays(
        _bags_of_words(draw, labels, classes, words, words_of_node, typical), edges, labels, name=f"synthetic-{num_nodes}"
    )


def _edges(draw: np.random.Generator, of_class: np.ndarray, bounds: np.ndarray, count: int, mixing: float) -> np.ndarray:
    """Pairs of places [2, count], where the nodes of a class are consecutive. Some pairs come twice or are loops."""
    num_nodes = len(of_class)
    weight = np.minimum((1 - draw.random(num_nodes)) ** (-1 / (DEGREE_POWER - 1)), np.sqrt(num_nodes))
    before = np.concatenate([[0.0], np.cumsum(weight)])
    source = np.searchsorted(before, draw.random(count) * before[-1], side="right") - 1
    anywhere = draw.random(count) < mixing
    low = np.where(anywhere, 0.0, before[bounds[of_class[source]]])
    high = np.where(anywhere, before[-1], before[bounds[of_class[source] + 1]])
    target = np.searchsorted(before, low + draw.random(count) * (high - low), side="right") - 1
    return np.stack([source, np.minimum(target, num_nodes - 1)])


def _bags_of_words(
    draw: np.random.Generator, labels: np.ndarray, classes: int, words: int, words_of_node: int, typical: float
) -> scipy.sparse.csr_matrix:
    each = words // classes
    size = (len(labels), words_of_node)
    own = labels[:, None] * each + draw.integers(0, each, size)
    chosen = np.where(draw.random(size) < typical, own, draw.integers(0, words, size)).astype(np.int32)
    rowptr = np.arange(len(labels) + 1) * words_of_node
    matrix = scipy.sparse.csr_matrix((np.ones(chosen.size, np.float32), chosen.ravel(), rowptr), shape=(len(labels), words))
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix
