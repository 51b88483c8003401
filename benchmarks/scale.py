"""Time, memory and accuracy as a graph grows: generated, prepared, trained, embedded and scored within a memory.

    python benchmarks/scale.py --nodes 10000 100000 1000000 --memory 8GiB
    python benchmarks/scale.py --nodes 100000 --method grace+ --epochs 60

Each graph has a process of its own. Each run prints a table and adds its rows to benchmarks/results/scale.json. Embeddings are
written to a file, as ``graphkin fit`` does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphkin.support.environment import commit, environment
from graphkin.support.files import write_json

RESULTS = Path(__file__).parent / "results" / "scale.json"


def one(nodes: int, memory: str, method: str, epochs: int | None, device: str) -> dict[str, Any]:
    from graphkin.evaluation.baselines import propagated_features, raw_features
    from graphkin.evaluation.evaluate import evaluate
    from graphkin.graphs.synthetic import community_graph
    from graphkin.support.memory import peak_memory
    from graphkin.training.device import device_named
    from graphkin.training.embeddings import write_embeddings
    from graphkin.training.plan import plan

    where = device_named(device)
    seconds: dict[str, float] = {}
    peaks: dict[str, int | None] = {}

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        start = time.perf_counter()
        with peak_memory(where) as peak:
            yield
        seconds[name], peaks[name] = time.perf_counter() - start, peak[0]
        print(f"{name} {seconds[name]:.0f} s", file=sys.stderr, flush=True)

    with stage("generate"):
        graph = community_graph(nodes)
    planned = plan(graph, method, device=device, memory=memory, **({} if epochs is None else {"epochs": epochs}))
    with stage("prepare"):
        prepared = planned.prepare()
    with stage("train"):
        (fitted,) = prepared.train([0]).fitted
    prepared = replace(prepared, for_objective=None)
    with tempfile.TemporaryDirectory() as folder:
        with stage("embed"):
            embeddings = write_embeddings(Path(folder) / "embeddings.npy", prepared.embed_in_blocks(fitted), nodes)
        del prepared
        with stage("score"):
            accuracy = evaluate(embeddings, graph, splits=1).test[0]
        del embeddings
    free = {
        name: evaluate(rows(graph), graph, splits=1).test[0]
        for name, rows in (("raw features", raw_features), ("propagated features", propagated_features))
    }
    return {
        "nodes": nodes, "edges": graph.num_edges, "method": method, "epochs": len(fitted.losses),
        "device": device, "memory": memory, "plan": planned.execution.words, "estimate_bytes": planned.execution.estimate,
        "seconds": seconds, "peak_bytes": peaks, "accuracy": accuracy,
        "without_training": free,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--memory", default="8GiB")
    parser.add_argument("--method", default="kin")
    parser.add_argument("--epochs", type=int, help="default: the method's own")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--here", action="store_true", help="one graph, in this process, as JSON")
    given = parser.parse_args()
    settings = [given.memory, given.method, given.epochs, given.device]
    if given.here:
        print(json.dumps(one(given.nodes[0], *settings)))
        return
    earlier = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    rows = []
    for nodes in given.nodes:
        named = zip(("memory", "method", "epochs", "device"), settings, strict=True)
        options = [f"--{name}={value}" for name, value in named if value is not None]
        command = [sys.executable, __file__, "--here", "--nodes", str(nodes), *options]
        row = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1])
        rows.append(row)
        write_json(RESULTS, [*earlier, {"commit": commit(), **environment(), "rows": rows}])
        stages = ", ".join(f"{name} {value:.0f} s" for name, value in row["seconds"].items())
        peak = max(row["peak_bytes"].values()) / 2**30
        print(f"{nodes:,} nodes: {row['accuracy']:.1f} %, {peak:.1f} GiB, {stages} ({row['plan']})", flush=True)


if __name__ == "__main__":
    main()
