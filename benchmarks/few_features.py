"""kin on graphs with few features, with its settings for them and without, by validation accuracy.

    python -m benchmarks.few_features [--seeds 2] [NAME ...]

Cora's and Citeseer's features are replaced by others, or reduced to a few axes. A name may also be a file. Prints a table and
adds its rows to benchmarks/results/few-features.json. No test label is read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import mean

import torch

from benchmarks import altered, unseen
from benchmarks.averages import best_free, validation_of
from graphkin import Graph, SparseMatrix, fit
from graphkin.graphs.readers import open_graph
from graphkin.graphs.structural import structural_features
from graphkin.support.environment import commit, environment
from graphkin.support.files import write_json

RESULTS = Path(__file__).parent / "results" / "few-features.json"
BEFORE = {"few_branches": None, "few_free": None, "few_standardised": None}


def made(dataset: str, kind: str) -> Graph:
    graph = open_graph(dataset)
    x = structural_features(graph.edge_index, graph.num_nodes, kind)
    return Graph.from_arrays(x, graph.edge_index, graph.y)


def reduced(dataset: str, width: int) -> Graph:
    graph = open_graph(dataset)
    x = graph.x.to_dense() if isinstance(graph.x, SparseMatrix) else graph.x
    torch.manual_seed(0)
    left, lengths, _ = torch.svd_lowrank(x - x.mean(dim=0), q=width)
    return Graph.from_arrays(left * lengths, graph.edge_index, graph.y)


def random(dataset: str, width: int) -> Graph:
    graph = open_graph(dataset)
    x = torch.randn(graph.num_nodes, width, generator=torch.Generator().manual_seed(0))
    return Graph.from_arrays(x, graph.edge_index, graph.y)


GRAPHS: Mapping[str, Callable[[], Graph]] = {
    "Cora, degrees alone": lambda: made("cora", "degree"),
    "Cora, 16 random features": lambda: random("cora", 16),
    "Cora, 16 axes": lambda: reduced("cora", 16),
    "Cora, 40 axes": lambda: reduced("cora", 40),
    "Cora, positions alone": lambda: made("cora", "positional"),
    "Citeseer, 16 axes": lambda: reduced("citeseer", 16),
    "cancer": lambda: unseen.graph("cancer"),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=list(GRAPHS))
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    graphs = json.loads(RESULTS.read_text(encoding="utf-8"))["graphs"] if RESULTS.exists() else {}
    for name in given.names:
        graph = GRAPHS[name]() if name in GRAPHS else open_graph(name)
        quality = validation_of(graph)
        best, value = best_free(graph, quality)
        found: dict[str, float | str] = {"features": graph.num_features, "which": best, "best free": value}
        for version, settings in (("before", BEFORE), ("kin", {})):
            seeds = range(altered.SEED, altered.SEED + given.seeds)
            rows = (fit(graph, "kin", seed=seed, device="cpu", progress=False, **settings).embed(graph) for seed in seeds)
            found[version] = round(mean(map(quality, rows)), 2)
        graphs[name if name in GRAPHS else Path(name).stem] = found
        what = f"validation accuracy, four splits, {given.seeds} initialisations"
        write_json(RESULTS, {"what": what, "graphs": graphs, "commit": commit(), **environment()})
        print(name, *(f"{key} {value}," for key, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
