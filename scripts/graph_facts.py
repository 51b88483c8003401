"""Write what the leaderboard says about its graphs: ``GRAPHKIN_DATA=... python scripts/graph_facts.py``."""

from __future__ import annotations

from pathlib import Path

from graphkin.experiments import PEERS, experiment_named
from graphkin.experiments.reproduce import open_graphs
from graphkin.graphs.graph import Graph

FILE = Path(__file__).parent.parent / "src" / "graphkin" / "report" / "graphs.toml"
HEAD = "# Graphs of the leaderboard; homophily is the share of edges between nodes of one class. By scripts/graph_facts.py.\n"


def facts(graph: Graph) -> dict[str, float]:
    assert graph.y is not None
    labels = graph.y.cpu()
    source, target = labels[graph.edge_index.cpu()]
    known = (source >= 0) & (target >= 0)
    return {
        "nodes": graph.num_nodes,
        "features": graph.num_features,
        "classes": graph.num_classes,
        "degree": round(2 * graph.num_edges / graph.num_nodes, 1),
        "homophily": round(float((source == target)[known].float().mean()), 2),
    }


def text() -> str:
    graphs, missing = open_graphs([experiment_named(name) for name in PEERS], None)
    assert not missing, missing
    lines = [
        f'"{name}" = {{ {", ".join(f"{key} = {value}" for key, value in facts(graph).items())} }}'
        for name, graph in graphs.items()
    ]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
