"""The first fit of a small graph in a fresh process: seconds until graphkin is there, until it has trained, and in all.

    python -m benchmarks.first_fit [--nodes 900] [--device cuda] [--method kin grace+] [--epochs 5]

Triton's cache is empty, so a compiler that is waited for shows. Every method is fitted in ``--repeats`` processes, in turns.
Prints the medians and adds them to benchmarks/results/first-fit.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from graphkin.support.environment import commit, environment
from graphkin.support.files import write_json

RESULTS = Path(__file__).parent / "results" / "first-fit.json"
PROGRAM = """
import json, resource, sys, time
start = time.perf_counter()
import graphkin
from graphkin.graphs.synthetic import community_graph
from graphkin.training.plan import plan
nodes, method, device, epochs = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
graph = community_graph(nodes)
seconds = {"import": time.perf_counter() - start}
planned = plan(graph, method, device=device, **({"epochs": epochs} if epochs else {}))
seconds["plan"] = time.perf_counter() - start
fitted, blocks = planned.fit_and_embed(0)
seconds["fit"] = time.perf_counter() - start
rows = sum(len(block) for block in blocks)
seconds["embed"] = time.perf_counter() - start
peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = {"seconds": seconds, "loop": fitted.seconds, "epochs": len(fitted.losses), "kernel": fitted.kernel, "peak": peak}
print(json.dumps(found))
"""


def once(nodes: int, method: str, device: str, epochs: int) -> dict[str, float]:
    """Seconds of the stages, and of the whole process, and its resident memory at the peak."""
    with tempfile.TemporaryDirectory() as cache:
        start = time.perf_counter()
        found = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(nodes), method, device, str(epochs)],
            capture_output=True, text=True, check=True, env={**os.environ, "TRITON_CACHE_DIR": cache},
        )  # fmt: skip
        whole = time.perf_counter() - start
    told = json.loads(found.stdout.splitlines()[-1])
    ends = told["seconds"]
    stages = {name: ends[name] - before for name, before in zip(ends, [0.0, *ends.values()], strict=False)}
    return {
        **stages,
        "of which training": told["loop"]["train"],
        "process": whole,
        "epochs": told["epochs"],
        "peak_bytes": told["peak"],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=900)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--method", nargs="+", default=["kin", "grace+"])
    parser.add_argument("--epochs", type=int, default=0, help="0: those of the method")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {method: [] for method in given.method}
    for _ in range(given.repeats):
        for method, runs in found.items():
            runs.append(once(given.nodes, method, given.device, given.epochs))
    rows = {method: {name: statistics.median(run[name] for run in runs) for name in runs[0]} for method, runs in found.items()}
    earlier = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    now = {"commit": commit(), **environment(), "nodes": given.nodes, "device": given.device, "repeats": given.repeats}
    write_json(RESULTS, [*earlier, {**now, "methods": rows}])
    for method, row in rows.items():
        print(method, ", ".join(f"{name} {value:.2f}" for name, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
