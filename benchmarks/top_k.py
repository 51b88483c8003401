"""How near the weights of the largest PageRanks come to those of all of them.

    python benchmarks/top_k.py --graphs pubmed dblp cs

Anchors are drawn; weights have 90 % of negatives and 10 positives in effect, at each graph's own β. Adds its rows to
benchmarks/results/top_k.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from graphkin.graphs.graph import Graph
from graphkin.graphs.readers import open_graph
from graphkin.methods import method_named, presets
from graphkin.similarity import Similarity
from graphkin.support.environment import commit, environment
from graphkin.support.files import write_json
from graphkin.weights import Attraction, Candidates, Effective, NodeWeights, Repulsion

RESULTS = Path(__file__).parent / "results" / "top_k.json"


def weights(graph: Graph, similarity: Similarity, anchors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """w⁺ without the counterpart's, and w⁻, of the anchors with all nodes."""
    measure = similarity.on(graph)
    positive = Attraction(measure, Effective(10.0))
    negative = Repulsion(measure, Effective(0.9 * (graph.num_nodes - 1)))
    both = NodeWeights(positive, negative, graph.num_nodes, measure.device)
    block = both.block(anchors, Candidates(both.all_nodes()))
    return block.attract.exp(), block.repel.exp()


def rows_of(name: str, count: int) -> list[dict[str, Any]]:
    graph = open_graph(name)
    anchors = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))[:count].sort().values
    beta = method_named("grace+" if name in presets("grace") else "gca+", name).settings()["beta"]
    full = weights(graph, Similarity(beta=beta), anchors)
    found = []
    for top_k in (32, 2048):
        part = weights(graph, Similarity(beta=beta, top_k=top_k, steps=None), anchors)
        alike = [float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1]) for a, b in zip(full, part, strict=True)]
        found.append({"graph": name, "beta": beta, "top_k": top_k, "positives": alike[0], "negatives": alike[1]})
        print(found[-1], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--graphs", nargs="+", default=["pubmed", "dblp", "cs"])
    parser.add_argument("--anchors", type=int, default=200)
    given = parser.parse_args()
    rows = [row for name in given.graphs for row in rows_of(name, given.anchors)]
    earlier = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    write_json(RESULTS, [*earlier, {"commit": commit(), **environment(), "rows": rows}])


if __name__ == "__main__":
    main()
