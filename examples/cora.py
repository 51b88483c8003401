"""Compare kin and GRACE+ with training-free baselines on the bundled Cora. This is ``make demo``.

Each seed is a new initialisation, scored on its own five random 10/10/80 splits. Every trained model gets a folder like those
of ``graphkin fit``, so ``graphkin report`` can open it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import graphkin
from graphkin.commands.runs import prepare_folder, with_baselines, write_run
from graphkin.evaluation.free import BEST_FREE, FreeRows, best_free
from graphkin.support.environment import environment
from graphkin.support.files import write_json

ROWS = {
    "unit features": None,
    BEST_FREE: None,
    "GRACE+": "grace+",
    "kin": "kin",
}
SPLITS = 5
"""for each seed"""


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds to run")
    parser.add_argument("--seconds", type=float, default=200, help="start no seed that would probably take longer than this")
    parser.add_argument("--epochs", type=int, help="train for this many epochs, for a quick look")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("runs/demo"))
    options = parser.parse_args(arguments)

    console = Console(highlight=False)
    graph = graphkin.bundled_cora()
    folder = prepare_folder(options.out, overwrite=True)
    settings = {} if options.epochs is None else {"epochs": options.epochs}
    accuracies: dict[str, list[float]] = {row: [] for row in ROWS}
    seconds: dict[str, list[float]] = {row: [] for row in ROWS}
    start = time.perf_counter()
    for seed in range(options.seeds):
        free: dict[str, graphkin.Scores] = {}
        for row, method in ROWS.items():
            began = time.perf_counter()
            if method is None:
                free[row] = without_training(row, graph, seed)
                accuracies[row] += free[row].test
            else:
                accuracies[row] += trained(graph, method, seed, options.device, folder, free, settings)
            seconds[row].append(time.perf_counter() - began)
        elapsed = time.perf_counter() - start
        if seed + 1 < options.seeds and elapsed * (seed + 2) / (seed + 1) > options.seconds:
            done = f"{seed + 1} of {options.seeds} seeds"
            console.print(f"Stopped after {done}: the next would not finish within {options.seconds:.0f} s.")
            break

    record = {"graph": graph.name, "protocol": "grace", "accuracies": accuracies, "seconds": seconds, **environment()}
    write_json(folder / "table.json", record)
    console.print(table(accuracies, seconds))
    console.print(paired_difference(accuracies[BEST_FREE], accuracies["kin"]))
    console.print(f"Embeddings, models and run files: {folder}/METHOD-seedN; this table: {folder}/table.json", soft_wrap=True)


def scores(rows: Any, graph: graphkin.Graph, seed: int) -> graphkin.Scores:
    return graphkin.evaluate(rows, graph, splits=SPLITS, seed=SPLITS * seed)


def without_training(row: str, graph: graphkin.Graph, seed: int) -> graphkin.Scores:
    free = FreeRows(graph)
    if row != BEST_FREE:
        return scores(free[row], graph, seed)
    best = best_free({name: scores(rows, graph, seed) for name, rows in free.items()})
    assert best is not None
    return best


def trained(
    graph: graphkin.Graph,
    method: str,
    seed: int,
    device: str,
    folder: Path,
    free: dict[str, graphkin.Scores],
    settings: dict[str, Any],
) -> tuple[float, ...]:
    """Test accuracies of one run, by split; the run is written to a folder of its own, with ``free`` as its baselines."""
    fitted = graphkin.fit(graph, method, seed=seed, device=device, progress="visible", **settings)
    run = prepare_folder(folder / f"{method.replace('+', 'plus')}-seed{seed}", overwrite=True)
    found: list[graphkin.Scores] = []

    def score(embeddings: Any) -> dict[str, Any]:
        found.append(scores(embeddings, graph, seed))
        return with_baselines({method: found[0], **free})

    write_run(run, fitted, graph, score)
    return found[0].test


def table(accuracies: dict[str, list[float]], seconds: dict[str, list[float]]) -> Table:
    result = Table("embedding", title=f"Test accuracy on Cora, {len(accuracies['kin'])} random 10/10/80 splits")
    result.add_column("accuracy, %", justify="right")
    result.add_column("seconds per run", justify="right")
    for row, values in accuracies.items():
        result.add_row(
            row, f"{statistics.mean(values):.2f} ± {statistics.stdev(values):.2f}", f"{statistics.median(seconds[row]):.1f}"
        )
    return result


def paired_difference(free: list[float], trained: list[float]) -> str:
    differences = [b - a for a, b in zip(free, trained, strict=True)]
    mean, spread = statistics.mean(differences), statistics.stdev(differences)
    return f"kin minus best free on the same splits: {mean:+.2f} ± {spread:.2f} points"


if __name__ == "__main__":
    main(sys.argv[1:])
