"""What more processes save: time and memory of the same graph in one process and in several, one thread each.

    python benchmarks/processes.py --method kin --nodes 100000 --processes 1 2

Each run adds its rows to benchmarks/results/processes.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from graphkin.support.environment import commit, environment
from graphkin.support.files import write_json

RESULTS = Path(__file__).parent / "results" / "processes.json"


def one(method_name: str, nodes: int, memory: str, steps: int) -> dict[str, Any] | None:
    """As seen by the first process."""
    from graphkin.graphs.synthetic import community_graph
    from graphkin.support.memory import peak_memory
    from graphkin.support.parallel import joined
    from graphkin.training.device import device_named
    from graphkin.training.loop import train
    from graphkin.training.plan import plan

    with joined() as among:
        graph = community_graph(nodes)
        plan(community_graph(500), method_name, device="cpu", top_k=32, steps=None).prepare()  # compiles
        with peak_memory(device_named("cpu")) as peak:
            start = time.perf_counter()
            prepared = plan(graph, method_name, device="cpu", memory=memory, epochs=steps).prepare()
            prepare_seconds = time.perf_counter() - start
            method = prepared.plan.method
            (curve,) = train([method.objective.task(prepared.setup(seed=0))], method, prepared.plan.device, "none", "")
        if not among.first:
            return None
    seconds = {"prepare": prepare_seconds, "step": curve.seconds / steps}
    sampled = {name: method.settings()[name] for name in ("anchors", "candidates", "top_k")}
    problem = {"method": method_name, "nodes": nodes, "processes": among.size}
    return {**problem, "seconds": seconds, "peak_bytes": peak[0], "loss": curve.losses[-1], **sampled}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--method", default="grace+")
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--here", action="store_true", help="in this process, as JSON")
    given = parser.parse_args()
    if given.here:
        row = one(given.method, given.nodes, given.memory, given.steps)
        if row is not None:
            print(json.dumps(row))
        return
    earlier = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    rows = []
    for processes in given.processes:
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        options = [f"--{name}={getattr(given, name)}" for name in ("method", "nodes", "memory", "steps")]
        done = subprocess.run(
            [*launcher, __file__, "--here", *options],
            env={**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        write_json(RESULTS, [*earlier, {"commit": commit(), **environment(), "rows": rows}])
        print(rows[-1], flush=True)


if __name__ == "__main__":
    main()
