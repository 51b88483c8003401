"""How long the most similar pairs without an edge take by an index, and how many of them it finds.

    python -m benchmarks.nearest --nodes 100000 200000 --index-only 1000000

Embeddings are made up: many groups, each spread along a few directions. Both ways run ``graphkin.links``, each in a process of
its own; memory is what a process takes at most beyond embeddings and graph. Adds a run to benchmarks/results/nearest.json.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import graphkin
from graphkin import Graph
from graphkin.support.environment import commit, environment
from graphkin.support.files import write_json

RESULTS = Path(__file__).parent / "results" / "nearest.json"
GROUP, DIRECTIONS, DEGREE, LINKS = 200, 16, 5, 1000


def made(nodes: int, dimensions: int) -> tuple[np.ndarray, Graph]:
    draw = np.random.default_rng(0)
    groups = nodes // GROUP
    member = draw.integers(groups, size=nodes)
    rows = draw.normal(size=(groups, dimensions)).astype(np.float32)[member]
    rows += 0.5 * (draw.normal(size=(nodes, DIRECTIONS)) @ draw.normal(size=(DIRECTIONS, dimensions))).astype(np.float32)
    rows += 0.3 * draw.normal(size=rows.shape).astype(np.float32)
    edges = draw.integers(0, nodes, (2, DEGREE * nodes))
    return rows, Graph.from_arrays(np.ones((nodes, 1)), edges)


def gib(line: str) -> float:
    """What Linux says of this process: VmRSS is the memory that it has, VmHWM the most that it had."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(found.split()[1]) for found in status.splitlines() if found.startswith(f"{line}:")) / 2**20


def forget_peak() -> None:
    """Making the data took more than the data do."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def one(nodes: int, dimensions: int, way: str) -> dict[str, Any]:
    """Time, memory and links of one way."""
    rows, graph = made(nodes, dimensions)
    graphkin.links(rows[:100], Graph.from_arrays(np.ones((100, 1)), [[0], [1]]), device="cpu")
    forget_peak()
    before, start = gib("VmRSS"), time.perf_counter()
    if way == "index":
        from graphkin.uses import index

        index.MOST_COMPARED = 0
    found = graphkin.links(rows, graph, LINKS, exact=way == "exact", device="cpu")
    seconds, memory = time.perf_counter() - start, gib("VmHWM") - before
    recall = None if found.approximate is None else found.approximate.recall
    return {"seconds": seconds, "gib": memory, "recall": recall, "pairs": found.pairs.tolist()}


def apart(nodes: int, dimensions: int, way: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.nearest", "--one", str(nodes), str(dimensions), way]
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def row(nodes: int, dimensions: int, compared: bool) -> dict[str, Any]:
    index = apart(nodes, dimensions, "index")
    pairs = {tuple(pair) for pair in index.pop("pairs")}
    found: dict[str, Any] = {"nodes": nodes, "dimensions": dimensions, "index": index}
    if compared:
        exact = apart(nodes, dimensions, "exact")
        links = {tuple(pair) for pair in exact.pop("pairs")}
        found |= {
            "exact": exact,
            "speed_up": exact["seconds"] / index["seconds"],
            "links_found": len(pairs & links) / len(links),
        }
    print(json.dumps(found), flush=True)
    return found


def table(run: dict[str, Any]) -> str:
    """The table of docs/uses.md."""
    heads = ("nodes", "all pairs", "index", "of the 32 nearest, found", "of the best 1,000 links, found")
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for one in run["rows"]:
        exact = f"{one['exact']['seconds']:,.0f} s" if "exact" in one else "–"
        links = f"{100 * one['links_found']:.1f} %" if "links_found" in one else "–"
        found = f"{one['index']['seconds']:,.0f} s | {100 * one['index']['recall']:.1f} %"
        lines.append(f"| {one['nodes']:,} | {exact} | {found} | {links} |")
    return "\n".join(lines)


def memory(run: dict[str, Any]) -> str:
    """The sentence of docs/uses.md."""
    one = run["rows"][0]
    ways = [f"{one[way]['gib']:.1f} GiB" for way in ("exact", "index")]
    return f"At {one['nodes']:,} nodes, all pairs took {ways[0]} beside the embeddings, the index {ways[1]}."


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, nargs="*", default=[100_000, 200_000])
    parser.add_argument("--index-only", type=int, nargs="*", default=[])
    parser.add_argument("--dimensions", type=int, default=128)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(int(given.one[0]), int(given.one[1]), given.one[2])))
        return
    rows = [row(nodes, given.dimensions, compared=True) for nodes in given.nodes]
    rows += [row(nodes, given.dimensions, compared=False) for nodes in given.index_only]
    earlier = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    write_json(RESULTS, [*earlier, {"commit": commit(), **environment(), "usearch": version("usearch"), "rows": rows}])


if __name__ == "__main__":
    main()
