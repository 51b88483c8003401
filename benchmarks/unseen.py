"""kin beside the best training-free row on graphs that played no part in its choice.

    python -m benchmarks.unseen [NAME ...]

Two are the nearest neighbours of tables that come with scikit-learn, three are drawn so that one source of information fails:
the features, the edges, or the likeness of neighbours. Prints a table and writes benchmarks/results/unseen.json.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import StandardScaler

from graphkin import Graph
from graphkin.experiments import experiments_named
from graphkin.experiments.reproduce import open_graphs, reproduce
from graphkin.experiments.store import Store
from graphkin.experiments.summary import summarise
from graphkin.experiments.watch import Lines
from graphkin.support.environment import commit, environment
from graphkin.support.files import write_json

RESULTS = Path(__file__).parent / "results" / "unseen.json"
SEEDS = 5
NODES = 2000
WORDS = 500
WORDS_OF_NODE = 20
NEIGHBOURS = 5

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def digits() -> Arrays:
    pixels, labels = load_digits(return_X_y=True)
    return pixels, _nearest(pixels), labels


def cancer() -> Arrays:
    table, labels = load_breast_cancer(return_X_y=True)
    scaled = StandardScaler().fit_transform(table)
    return scaled, _nearest(scaled), labels


def random_features() -> Arrays:
    """Features say nothing; 60 % of the edges stay in their class."""
    draw = np.random.default_rng(1)
    labels = draw.integers(6, size=NODES)
    return draw.normal(size=(NODES, 100)), _edges(draw, labels, labels, 8000, 0.6), labels


def random_edges() -> Arrays:
    """Edges say nothing; 30 % of a node's words are its class's."""
    draw = np.random.default_rng(2)
    labels = draw.integers(6, size=NODES)
    return _words(draw, labels, 0.3), _edges(draw, labels, labels, 8000, 0), labels


def opposites() -> Arrays:
    """70 % of the edges lead to the next class; 15 % of a node's words are its class's."""
    draw = np.random.default_rng(3)
    labels = draw.integers(5, size=NODES)
    return _words(draw, labels, 0.15), _edges(draw, labels, (labels + 1) % 5, 10_000, 0.7), labels


GRAPHS: Mapping[str, Callable[[], Arrays]] = {
    "digits": digits,
    "cancer": cancer,
    "random-features": random_features,
    "random-edges": random_edges,
    "opposites": opposites,
}


def _nearest(rows: np.ndarray) -> np.ndarray:
    return np.stack(kneighbors_graph(rows, NEIGHBOURS).nonzero())


def _edges(draw: np.random.Generator, labels: np.ndarray, towards: np.ndarray, count: int, share: float) -> np.ndarray:
    """Pairs [2, count]. A ``share`` of them lead to the class that ``towards`` has for their source, others anywhere."""
    source, target = draw.integers(len(labels), size=(2, count))
    leads = draw.random(count) < share
    target[leads] = [draw.choice(np.flatnonzero(labels == wanted)) for wanted in towards[source[leads]]]
    return np.stack([source, target])


def _words(draw: np.random.Generator, labels: np.ndarray, share: float) -> np.ndarray:
    """A tenth of all words is typical of a class; a node takes a ``share`` of its words from them."""
    typical = np.stack([draw.permutation(WORDS)[: WORDS // 10] for _ in range(labels.max() + 1)])
    anywhere = draw.integers(WORDS, size=(len(labels), WORDS_OF_NODE))
    own = typical[labels[:, None], draw.integers(typical.shape[1], size=anywhere.shape)]
    words = np.where(draw.random(anywhere.shape) < share, own, anywhere)
    x = np.zeros((len(labels), WORDS), np.float32)
    np.put_along_axis(x, words, 1, axis=1)
    return x


def _undirected(edges: np.ndarray) -> np.ndarray:
    once = np.unique(np.sort(edges[:, edges[0] != edges[1]], axis=0), axis=1)
    return np.concatenate([once, once[::-1]], axis=1).astype(np.int64)


def graph(name: str) -> Graph:
    x, edges, labels = GRAPHS[name]()
    return Graph.from_arrays(x.astype(np.float32), _undirected(edges), labels)


def main() -> None:
    names = sys.argv[1:] or list(GRAPHS)
    found = json.loads(RESULTS.read_text(encoding="utf-8"))["graphs"] if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            x, edges, labels = GRAPHS[name]()
            path = Path(folder) / f"{name}.npz"
            np.savez(path, x=x.astype(np.float32), edge_index=_undirected(edges), y=labels.astype(np.int64))
            experiments = experiments_named(["kin"], datasets=[str(path)], rows=["best free", "kin"], seeds=SEEDS)
            graphs, _ = open_graphs(experiments, data_root=None)
            store = Store(Path(folder) / f"{name}.sqlite")
            reproduce(experiments, store, graphs, Lines(), device="cpu", jobs=2)
            summary = summarise(experiments[0], store)
            (dataset,), (measure,) = summary.datasets, summary.experiment.measures
            free, kin = (summary.cell(row, dataset, measure) for row in ("best free", "kin"))
            gain = kin.paired_with(free)
            assert gain is not None
            found[name] = {
                "nodes": len(x),
                "features": x.shape[1],
                "best free": [round(free.mean, 2), round(free.std, 2)],
                "kin": [round(kin.mean, 2), round(kin.std, 2)],
                "gain": round(gain.points, 2),
                "p": float(f"{gain.p_value:.2g}"),
            }
            known = {"what": "test accuracy, 10/10/80, mean and standard deviation", "seeds": SEEDS, "graphs": found}
            write_json(RESULTS, {**known, "commit": commit(), **environment()})
    for name, row in found.items():
        free, kin = row["best free"][0], row["kin"][0]
        print(f"{name:16} best free {free:6.2f}  kin {kin:6.2f}  gain {row['gain']:+.2f} (p {row['p']})")


if __name__ == "__main__":
    main()
