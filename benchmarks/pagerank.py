"""How long the 32 largest PageRanks of every node take: ours against PyTorch Geometric's get_ppr at the same error.

    python benchmarks/pagerank.py                       # both, on 20,000 nodes and 200,000 edges
    python benchmarks/pagerank.py --nodes 1000000       # ours alone beyond 50,000 nodes

Each run prints a table and adds its rows to benchmarks/results/pagerank.json. The error is the largest one of some nodes,
divided by the root of both degrees as the bound is; times are without compilation.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.utils import add_self_loops, get_ppr

from graphkin.bench import Results, Row
from graphkin.bench.measure import cost
from graphkin.graphs.graph import Graph
from graphkin.graphs.synthetic import community_graph
from graphkin.similarity import PageRank
from graphkin.similarity.pagerank import top_pagerank

RESULTS = Path(__file__).parent / "results" / "pagerank.json"
ALPHA, K = 0.1, 32
EXACT_STEPS = 200
MOST_FOR_PYG = 50_000


def ours(graph: Graph, error: float) -> None:
    top_pagerank(graph.edge_index, graph.num_nodes, K, alpha=ALPHA, error=error)


def pyg(graph: Graph, error: float) -> None:
    edges, _ = add_self_loops(graph.edge_index, num_nodes=graph.num_nodes)
    get_ppr(edges, alpha=ALPHA, eps=error, num_nodes=graph.num_nodes)


def our_sample(graph: Graph, error: float) -> np.ndarray:
    """PageRank of the sampled nodes, all entries that were found."""
    nodes, found = torch.from_numpy(_sample(graph)), np.zeros((len(_sample(graph)), graph.num_nodes))
    rows = top_pagerank(graph.edge_index, graph.num_nodes, graph.num_nodes, alpha=ALPHA, error=error, nodes=nodes)
    for row, (columns, values) in enumerate(zip(*rows, strict=True)):
        found[row, columns[columns >= 0]] = values[columns >= 0]
    return found


def pyg_sample(graph: Graph, error: float) -> np.ndarray:
    """The same of get_ppr, from the random walk's PageRank to the symmetric form."""
    edges, _ = add_self_loops(graph.edge_index, num_nodes=graph.num_nodes)
    nodes, degree = _sample(graph), _degree(graph)
    (source, target), values = get_ppr(edges, ALPHA, error, torch.from_numpy(nodes), graph.num_nodes)
    found = np.zeros((len(nodes), graph.num_nodes))
    found[np.searchsorted(nodes, source), target] = values.numpy() * np.sqrt(degree[source] / degree[target])
    return found


def _sample(graph: Graph) -> np.ndarray:
    return np.linspace(0, graph.num_nodes - 1, 64 if graph.num_nodes <= MOST_FOR_PYG else 8).astype(int)


def _degree(graph: Graph) -> np.ndarray:
    return np.bincount(graph.edge_index[0].numpy(), minlength=graph.num_nodes) + 1.0


def largest_error(graph: Graph, found: np.ndarray) -> float:
    """Of the K largest entries of the sampled nodes."""
    rows = torch.from_numpy(_sample(graph))
    exact = PageRank(graph.edge_index, graph.num_nodes, alpha=ALPHA, steps=EXACT_STEPS).block(rows)
    columns = exact.topk(K, dim=1).indices.numpy()
    root = np.sqrt(_degree(graph))
    scale = root[_sample(graph), None] * root[columns]
    true = np.take_along_axis(exact.numpy(), columns, 1)
    return float((np.abs(true - np.take_along_axis(found, columns, 1)) / scale).max())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--error", type=float, default=1e-4)
    given = parser.parse_args()
    graph = community_graph(given.nodes)
    problem: dict[str, Any] = {"nodes": graph.num_nodes, "edges": graph.num_edges, "k": K, "alpha": ALPHA, "error": given.error}
    ways = {"graphkin": (ours, our_sample)} | ({"get_ppr": (pyg, pyg_sample)} if given.nodes <= MOST_FOR_PYG else {})
    results = Results(RESULTS)
    for name, (way, sample) in ways.items():
        repeats = 3 if given.nodes <= MOST_FOR_PYG else 1
        row: Row = cost(
            problem,
            name,
            lambda way=way: way(graph, given.error),  # type: ignore[misc]
            torch.device("cpu"),
            error=largest_error(graph, sample(graph, given.error)),
            repeats=repeats,
            at_most_seconds=60,
        )
        results.add(row)
        assert row.seconds is not None and row.peak_bytes is not None and row.error is not None
        print(f"{name:10}{row.seconds:9.2f} s{row.peak_bytes / 2**30:8.2f} GiB, error {row.error:.1e}")


if __name__ == "__main__":
    main()
