"""What a plan says of seconds and bytes before training, and what its fit took.

    python -m benchmarks.estimates [--method kin] [--epochs 200] [GRAPH ...]

A graph is a dataset's name or synthetic-N. Each has a process of its own: the estimate as ``fit`` makes it, then the fit, with
its embeddings written to a file. Prints a table and adds its rows to benchmarks/results/estimates.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from graphkin.support.environment import commit, environment
from graphkin.support.files import write_json

RESULTS = Path(__file__).parent / "results" / "estimates.json"
GRAPHS = [f"synthetic-{nodes}" for nodes in (1000, 3000, 10_000, 20_000, 28_000, 50_000, 100_000, 200_000)]


def one(name: str, method: str, epochs: int) -> dict[str, Any]:
    from graphkin.graphs.readers import open_graph
    from graphkin.support.memory import peak_memory
    from graphkin.training.device import device_named
    from graphkin.training.duration import WHOLE, duration, duration_before
    from graphkin.training.embeddings import write_embeddings
    from graphkin.training.plan import plan

    graph = open_graph(name)
    planned = plan(graph, method, device="cpu", epochs=epochs)
    start = time.perf_counter()
    if graph.num_nodes > WHOLE:
        expected = duration_before(planned)
        extra = time.perf_counter() - start
    else:
        prepared = planned.prepare()
        start = time.perf_counter()
        expected = duration(prepared)
        extra = time.perf_counter() - start
        del prepared
        gc.collect()  # its tasks refer to each other, and would hold its matrices beside those of the fit
    with peak_memory(device_named("cpu")) as peak, tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        fitted, blocks = planned.fit_and_embed(0)
        write_embeddings(Path(folder) / "embeddings.npy", blocks, graph.num_nodes)
        seconds = time.perf_counter() - start
    return {
        "graph": name, "nodes": graph.num_nodes, "method": method, "epochs": epochs, "plan": planned.execution.words,
        "estimated seconds": expected.total, "seconds": seconds, "parts": [expected.prepare, expected.step, expected.embed],
        "prepare and train": [fitted.seconds["prepare"], fitted.seconds["train"]], "spent on the estimate": extra,
        "estimated bytes": planned.execution.estimate, "bytes": peak[0],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("graphs", nargs="*", default=GRAPHS)
    parser.add_argument("--method", default="kin")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--here", action="store_true", help="one graph, in this process, as JSON")
    given = parser.parse_args()
    if given.here:
        print(json.dumps(one(given.graphs[0], given.method, given.epochs)))
        return
    earlier = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    rows = []
    for name in given.graphs:
        options = [f"--method={given.method}", f"--epochs={given.epochs}"]
        command = [sys.executable, "-m", "benchmarks.estimates", "--here", *options, name]
        row = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
        rows.append(row)
        write_json(RESULTS, [*earlier, {"commit": commit(), **environment(), "rows": rows}])
        time_of = f"{row['estimated seconds']:.1f} s estimated, {row['seconds']:.1f} s taken"
        memory_of = f"{row['estimated bytes'] / 2**30:.2f} GiB estimated, {row['bytes'] / 2**30:.2f} GiB taken"
        print(f"{name}, {given.method}: {time_of}; {memory_of}; estimate took {row['spent on the estimate']:.1f} s", flush=True)


if __name__ == "__main__":
    main()
