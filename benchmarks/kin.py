"""kin on this machine: a step in float32 and in bf16, a whole fit, and two fits side by side.

    python benchmarks/kin.py cora photo

Everything is timed in one run, in turns, and added to benchmarks/results/kin-steps.json. Compare the ratios: single times vary
with what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from graphkin.support.environment import commit, environment
from graphkin.support.files import write_json

RESULTS = Path(__file__).parent / "results" / "kin-steps.json"
STEPS, ROUNDS = 20, 3


def one(graph: str) -> dict[str, Any]:
    """Steps of both precisions in turns, from the same preparation; then a whole fit."""
    from dataclasses import replace

    from graphkin.graphs.readers import open_graph
    from graphkin.training.plan import plan

    opened = open_graph(graph)
    planned = plan(opened, "kin", epochs=STEPS)
    prepared = planned.prepare()
    times: dict[str, list[float]] = {"float32": [], "bf16": []}
    for _ in range(ROUNDS):
        for precision, found in times.items():
            ready = replace(prepared, plan=plan(opened, "kin", epochs=STEPS, precision=precision))
            found.append(ready.train([0]).fitted[0].seconds["train"] / STEPS)
    start = time.perf_counter()
    whole = plan(opened, "kin")
    fitted, blocks = whole.fit_and_embed(0)
    rows = sum(len(block) for block in blocks)
    return {
        "graph": opened.name,
        "nodes": rows,
        "step": {precision: statistics.median(found) for precision, found in times.items()},
        "prepare": fitted.seconds["prepare"],
        "epochs": len(fitted.losses),
        "fit_and_embed": time.perf_counter() - start,
        "default": whole.execution.precision,
    }


def side_by_side(graph: str) -> dict[str, float]:
    """Seconds of a fit in a process of its own, alone and beside another."""
    command = [sys.executable, __file__, "--here", graph]

    def seconds(count: int) -> float:
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
        return statistics.mean(float(process.communicate()[0].split()[-1]) for process in running)

    return {"alone": seconds(1), "beside_another": seconds(2)}


def alone(graph: str) -> float:
    import graphkin

    start = time.perf_counter()
    graphkin.fit(graph, epochs=STEPS, progress=False)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--here", action="store_true", help="one short fit in this process, in seconds")
    given = parser.parse_args()
    if given.here:
        print(alone(given.graphs[0]))
        return
    earlier = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    rows = []
    for graph in given.graphs:
        row = {**one(graph), "fits": side_by_side(graph)}
        rows.append(row)
        write_json(RESULTS, [*earlier, {"commit": commit(), **environment(), "rows": rows}])
        faster = row["step"]["float32"] / row["step"]["bf16"]
        slower = row["fits"]["beside_another"] / row["fits"]["alone"]
        print(
            f"{graph}: a step takes {1e3 * row['step']['bf16']:.0f} ms in bf16, {faster:.1f} times faster than in float32; "
            f"{row['epochs']} epochs take {row['fit_and_embed']:.0f} s; two fits side by side take {slower:.1f} times as long",
            flush=True,
        )


if __name__ == "__main__":
    main()
