"""How long threads should spin before they sleep: steps of kin alone, and of two fits side by side.

    python benchmarks/waiting.py

PyTorch's threads (libgomp) check so many times whether there is work before they sleep; graphkin sets ``GOMP_SPINCOUNT``.
Each count is timed in processes of their own, in turns, and the table is added to benchmarks/results/waiting.json.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from graphkin.support.environment import commit, environment
from graphkin.support.files import write_json

RESULTS = Path(__file__).parent / "results" / "waiting.json"
COUNTS, ROUNDS, STEPS = (0, 1_000, 10_000), 2, 20


def one() -> float:
    """Seconds of a step on a synthetic graph, the first ones left out."""
    from graphkin.graphs.synthetic import community_graph
    from graphkin.training.plan import plan

    graph = community_graph(5000)
    prepared = plan(graph, "kin", device="cpu", epochs=STEPS).prepare()
    prepared.train([0])
    start = time.perf_counter()
    prepared.train([0])
    return (time.perf_counter() - start) / STEPS


def measured(count: int, processes: int) -> float:
    spins = {**os.environ, "OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": str(count)}
    command = [sys.executable, __file__, "--here"]
    running = [subprocess.Popen(command, env=spins, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return statistics.mean(float(process.communicate()[0].split()[-1]) for process in running)


def main() -> None:
    if "--here" in sys.argv:
        print(one())
        return
    times = [[(measured(count, 1), measured(count, 2)) for count in COUNTS] for _ in range(ROUNDS)]
    rows = []
    for count, found in zip(COUNTS, zip(*times, strict=True), strict=True):
        alone, beside = (statistics.median(values) for values in zip(*found, strict=True))
        rows.append({"spins": count, "alone": alone, "beside_another": beside})
        print(f"{count:,} spins: a step takes {1e3 * alone:.0f} ms, beside another fit {1e3 * beside:.0f} ms", flush=True)
    earlier = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    write_json(RESULTS, [*earlier, {"commit": commit(), **environment(), "rows": rows}])


if __name__ == "__main__":
    main()
