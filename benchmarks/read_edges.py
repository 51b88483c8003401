"""How long and how much memory a large CSV of edges takes to become a graph.

    python benchmarks/read_edges.py --edges 10000000

Writes a random edge list with text ids, reads it in a process of its own, and appends a row to
benchmarks/results/read_edges.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

RESULTS = Path(__file__).parent / "results" / "read_edges.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges.csv"
        write(path, options.nodes, options.edges)
        megabytes = path.stat().st_size / 1e6
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            measured = pool.apply(read, (path,))
    row = {"edges": options.edges, "nodes": options.nodes, "file_megabytes": round(megabytes, 1), **measured}
    print(json.dumps(row))
    append(RESULTS, row)


def write(path: Path, nodes: int, edges: int) -> None:
    draw = np.random.default_rng(0)
    ids = np.array([f"node-{i:07d}" for i in range(nodes)])
    columns = {end: pa.array(ids[draw.integers(0, nodes, edges)]) for end in ("source", "target")}
    pa.csv.write_csv(pa.table(columns), path)


def read(path: Path) -> dict[str, Any]:
    from graphkin import Graph

    imported = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    graph = Graph.from_tables(path, features="degree")
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": round(seconds, 2),
        "peak_gib": round(peak / 2**20, 3),
        "peak_gib_after_imports": round(imported / 2**20, 3),
        "undirected_edges": graph.num_edges,
    }


def append(path: Path, row: dict[str, Any]) -> None:
    """One more row, with machine, versions and commit."""
    from graphkin.support.environment import environment

    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    rows.append({**row, "commit": commit, **environment()})
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
