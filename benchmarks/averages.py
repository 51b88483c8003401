"""kin with a quarter of its learned dimensions averaged over no, one, two or four hops, by validation accuracy.

    python -m benchmarks.averages [--models FOLDER] [GRAPH ...]

A graph is a dataset's name, a file, synthetic-N, or a name of benchmarks.altered or benchmarks.unseen. Each is trained on
once, and the model is kept in the folder. Prints a table and adds its rows to benchmarks/results/averages.json. No test label
is read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor

from benchmarks import altered, unseen
from graphkin import Fitted, Graph, load
from graphkin.evaluation.free import FREE, FreeRows
from graphkin.evaluation.probe import validation_accuracy
from graphkin.evaluation.rows import Rows, comparable_rows
from graphkin.graphs.alikeness import alikeness
from graphkin.graphs.readers import open_graph
from graphkin.graphs.splits import random_split
from graphkin.support.environment import commit, environment
from graphkin.support.files import write_json
from graphkin.training.modules import prepared_features
from graphkin.training.plan import plan

RESULTS = Path(__file__).parent / "results" / "averages.json"
HOPS = (0, 1, 2, 4)


def opened(name: str) -> Graph:
    if name in altered.GRAPHS:
        return altered.GRAPHS[name]()
    return unseen.graph(name) if name in unseen.GRAPHS else open_graph(name)


def trained(graph: Graph, model: Path) -> Fitted:
    if not model.exists():
        (fitted,) = plan(graph, "kin", device="cpu").prepare().train([altered.SEED]).fitted
        fitted.save(model)
    return load(model)


def validation_of(graph: Graph) -> Callable[[Tensor | Rows], float]:
    """A function that gives the mean validation accuracy of rows over the splits."""
    assert graph.y is not None
    labels, splits = graph.y.numpy(), [random_split(graph.num_nodes, seed=seed) for seed in altered.SPLITS]

    def quality(rows: Tensor | Rows) -> float:
        found = comparable_rows(rows.numpy() if isinstance(rows, Tensor) else rows)
        return float(np.mean([validation_accuracy(found, labels, split) for split in splits]))

    return quality


def best_free(graph: Graph, quality: Callable[[Tensor | Rows], float]) -> tuple[str, float]:
    free = FreeRows(graph)
    rows = {row: quality(free[row]) for row in FREE}
    best = max(rows, key=rows.__getitem__)
    return best, round(rows[best], 2)


def judged(graph: Graph, fitted: Fitted) -> dict[str, float | str]:
    """How alike neighbours are; mean validation accuracy of the best training-free row and of kin with each number of hops."""
    quality = validation_of(graph)
    best, value = best_free(graph, quality)
    encoder = fitted.modules["encoder"]
    alike = alikeness(graph, prepared_features(fitted.method, graph))
    assert alike is not None
    found: dict[str, float | str] = {"alike": round(alike.neighbours, 3), "which": best, "best free": value}
    for hops in HOPS:
        encoder.settings = replace(encoder.settings, smooth_hops=hops)
        found[str(hops)] = round(quality(fitted.embed(graph)), 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("graphs", nargs="*", default=[*altered.GRAPHS, *unseen.GRAPHS])
    parser.add_argument("--models", type=Path, default=Path("models"))
    given = parser.parse_args()
    given.models.mkdir(exist_ok=True)
    graphs = json.loads(RESULTS.read_text(encoding="utf-8"))["graphs"] if RESULTS.exists() else {}
    for name in given.graphs:
        graph = opened(name)
        title = Path(name).stem
        graphs[title] = judged(graph, trained(graph, given.models / f"{title}.graphkin"))
        what = "validation accuracy, four splits, one initialisation; by the number of hops over which kin averages"
        write_json(RESULTS, {"what": what, "graphs": graphs, "commit": commit(), **environment()})
        print(title, *(f"{key} {value}," for key, value in graphs[title].items()), flush=True)


if __name__ == "__main__":
    main()
