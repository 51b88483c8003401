"""kin on graphs whose neighbours are not alike, with and without the settings that it takes for them, by validation accuracy.

    python -m benchmarks.altered [NAME ...]

Copies of known graphs whose edges or features are drawn anew, and two drawn graphs. With them and the eleven graphs of
docs/kin.md the settings were chosen: benchmarks/results/kin-alikeness.json has all that was tried. Prints a table and writes
benchmarks/results/altered.json. No test label is read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import joblib
import numpy as np
from torch import Tensor

from graphkin import Graph
from graphkin.evaluation.free import FREE, FreeRows
from graphkin.evaluation.probe import validation_accuracy
from graphkin.evaluation.rows import Rows, comparable_rows
from graphkin.graphs.readers import open_graph
from graphkin.graphs.splits import random_split
from graphkin.graphs.synthetic import community_graph
from graphkin.support.environment import commit, environment
from graphkin.support.files import write_json
from graphkin.training.plan import plan

RESULTS = Path(__file__).parent / "results" / "altered.json"
SPLITS = range(70200, 70204)
SEED = 70300


def undirected(edges: np.ndarray) -> np.ndarray:
    once = np.unique(np.sort(edges[:, edges[0] != edges[1]], axis=0), axis=1)
    return np.concatenate([once, once[::-1]], axis=1).astype(np.int64)


def rewired(name: str) -> Graph:
    """Every edge leads anywhere."""
    graph = open_graph(name)
    edges = graph.edge_index.numpy()
    once = edges[:, edges[0] < edges[1]]
    other = np.random.default_rng(11).permutation(once[1])
    return Graph.from_arrays(graph.x, undirected(np.stack([once[0], other])), graph.y)


def chain(nodes: int = 8000, classes: int = 18) -> Graph:
    """Words in a row, each with a vector. A class follows from the one before; a third as many edges lead anywhere."""
    draw = np.random.default_rng(13)
    follows = draw.dirichlet(np.full(classes, 0.15), size=classes)
    labels = np.zeros(nodes, int)
    for place in range(1, nodes):
        labels[place] = draw.choice(classes, p=follows[labels[place - 1]])
    mean = draw.normal(size=(classes, 100)) * 0.35
    words = mean[:, None] + draw.normal(size=(classes, 150, 100))
    x = words[labels, draw.integers(150, size=nodes)] + 0.3 * draw.normal(size=(nodes, 100))
    x[draw.random(nodes) < 0.2] = draw.normal(size=100)
    row = np.stack([np.arange(nodes - 1), np.arange(1, nodes)])
    edges = np.concatenate([row, draw.integers(nodes, size=(2, nodes // 3))], axis=1)
    return Graph.from_arrays(x.astype(np.float32), undirected(edges), labels)


def others(nodes: int = 4000, classes: int = 6) -> Graph:
    """60 % of the edges lead to the class after the next; 18 % of a node's words are its class's."""
    draw = np.random.default_rng(14)
    labels = draw.integers(classes, size=nodes)
    source, target = draw.integers(nodes, size=(2, 5 * nodes))
    leads = draw.random(5 * nodes) < 0.6
    members = [np.flatnonzero(labels == one) for one in range(classes)]
    target[leads] = [draw.choice(members[(labels[node] + 2) % classes]) for node in source[leads]]
    words = draw.integers(400, size=(nodes, 15))
    own = labels[:, None] * 40 + draw.integers(40, size=words.shape)
    x = np.zeros((nodes, 400), np.float32)
    np.put_along_axis(x, np.where(draw.random(words.shape) < 0.18, own, words), 1, axis=1)
    return Graph.from_arrays(x, undirected(np.stack([source, target])), labels)


GRAPHS: Mapping[str, Callable[[], Graph]] = {
    "cora rewired": partial(rewired, "cora"),
    "citeseer rewired": partial(rewired, "citeseer"),
    "synthetic rewired": partial(community_graph, 5000, mixing=1.0, typical=0.4),
    "others": others,
    "chain": chain,
}


def judged(name: str) -> dict[str, float | str]:
    """Mean validation accuracy of kin both ways and of every training-free row, and which of those is best."""
    graph = GRAPHS[name]()
    assert graph.y is not None
    labels, splits = graph.y.numpy(), [random_split(graph.num_nodes, seed=seed) for seed in SPLITS]

    def quality(rows: Tensor | Rows) -> float:
        found = comparable_rows(rows.numpy() if isinstance(rows, Tensor) else rows)
        return float(np.mean([validation_accuracy(found, labels, split) for split in splits]))

    def kin_with(**settings: float) -> float:
        prepared = plan(graph, "kin", device="cpu", **settings).prepare()
        (fitted,) = prepared.train([SEED]).fitted
        return quality(prepared.embed(fitted))

    free = FreeRows(graph)
    rows = {row: quality(free[row]) for row in FREE}
    best = max(rows, key=rows.__getitem__)
    found = {
        "best free": rows[best],
        "kin as if neighbours were alike": kin_with(unlike_below=0.0, mixed_below=0.0),
        "kin": kin_with(),
    }
    return {**{key: round(value, 2) for key, value in found.items()}, "which": best}


def main() -> None:
    names = sys.argv[1:] or list(GRAPHS)
    earlier = json.loads(RESULTS.read_text(encoding="utf-8"))["graphs"] if RESULTS.exists() else {}
    for name, row in zip(
        names, joblib.Parallel(n_jobs=2, return_as="generator")(map(joblib.delayed(judged), names)), strict=True
    ):
        earlier[name] = row
        what = "validation accuracy, 10/10/80, mean of 4 splits, one initialisation"
        write_json(RESULTS, {"what": what, "graphs": earlier, "commit": commit(), **environment()})
        print(name, row, flush=True)


if __name__ == "__main__":
    main()
