"""Do criteria without labels prefer the settings that labels prefer? Random settings, and rank correlations.

    python -m benchmarks.criteria

Every setting is trained three times: twice on the whole graph, with two seeds, and once without the held-out edges. Prints
Spearman's correlation of each criterion with validation and test accuracy, and adds its rows to
benchmarks/results/criteria.json. "labels, other seed" is what remains of the validation accuracy in another training run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from graphkin import Graph, bundled_cora
from graphkin.evaluation.evaluate import evaluate
from graphkin.graphs.synthetic import community_graph
from graphkin.support.environment import commit, environment
from graphkin.training.fitted import Fitted
from graphkin.training.plan import plan, resolve
from graphkin.tuning.criteria import CRITERIA, Asked, tuning_splits
from graphkin.tuning.space import Range, Space, space_for

RESULTS = Path(__file__).parent / "results" / "criteria.json"
METHOD, HIDDEN = "grace+", 64
SPLITS = 10


def problems() -> dict[str, tuple[Graph, int, int]]:
    """Graphs, each with the epochs of a training run and the number of settings."""
    edges_tell = replace(community_graph(600, classes=6, words=96), name="communities")
    words_tell = replace(
        community_graph(600, classes=6, words=96, mixing=0.9, typical=0.4), name="communities, edges at random"
    )
    listed = ((bundled_cora(), 25, 16), (edges_tell, 40, 30), (words_tell, 40, 30))
    return {graph.name: (graph, epochs, settings) for graph, epochs, settings in listed}


def drawn(space: Space, draw: np.random.Generator) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, dimension in space.dimensions.items():
        assert isinstance(dimension, Range) and not dimension.whole
        ends = np.array([dimension.low, dimension.high])
        values[name] = float(np.exp(draw.uniform(*np.log(ends))) if dimension.log else draw.uniform(*ends))
    return space.settings(values)


def measured(graph: Graph, epochs: int, count: int, seed: int) -> list[dict[str, Any]]:
    base = resolve(METHOD, graph).configure(hidden=HIDDEN, epochs=epochs)
    space = space_for(base, {}, ("hidden", "epochs"))
    asked = Asked(base, seed, splits=SPLITS)
    judges = {name: CRITERIA[name].ready(graph, asked) for name in ("labels", "edges", "agreement")}
    splits, draw = tuning_splits(graph, asked), np.random.default_rng(seed)
    rows = []
    for number in range(1, count + 1):
        settings = drawn(space, draw)
        method = base.configure(**settings)
        whole = plan(graph, method, device="cpu").prepare()
        one, other = (whole.train([asked.first_seed + place]).fitted[0] for place in (0, 1))
        held = plan(judges["edges"].graph, method, device="cpu").prepare().train([asked.first_seed]).fitted[0]
        scores: dict[str, Any] = {
            "labels": judges["labels"].score(one, ()),
            "labels, other seed": judges["labels"].score(other, ()),
            "edges": judges["edges"].score(held, ()),
            "agreement": judges["agreement"].score(one, (other,)),
            "test": _test(one, graph, splits[:3]),
        }
        rows.append({"settings": settings, **scores})
        print(f"{graph.name}, {number} of {count}: validation {scores['labels']:.1f} %", file=sys.stderr, flush=True)
    return rows


def _test(fitted: Fitted, graph: Graph, splits: list[Any]) -> float:
    return evaluate(fitted.embed(graph), graph, splits=splits).mean


def correlations(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    def between(one: str, other: str) -> float:
        return float(spearmanr([row[one] for row in rows], [row[other] for row in rows]).statistic)

    names = ("labels, other seed", "edges", "agreement", "labels")
    return {name: {"validation": between(name, "labels"), "test": between(name, "test")} for name in names}


def table(run: dict[str, Any]) -> str:
    """The table of docs/tune.md."""
    lines = ["| graph | settings | edges | agreement | labels, other seed |", "|---|---|---|---|---|"]
    for name, found in run["graphs"].items():
        cells = [found["correlation"][criterion] for criterion in ("edges", "agreement", "labels, other seed")]
        shown = [f"{cell['validation']:+.2f} ({cell['test']:+.2f})".replace("-", "−") for cell in cells]
        lines.append(f"| {name} | {len(found['rows'])} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    found: dict[str, Any] = {}
    where = {"commit": commit(), "method": METHOD, "hidden": HIDDEN, "seed": given.seed}
    for name, (graph, epochs, count) in problems().items():
        start = time.perf_counter()
        rows = measured(graph, epochs, count, given.seed)
        found[name] = {"epochs": epochs, "correlation": correlations(rows), "rows": rows}
        found[name]["seconds"] = round(time.perf_counter() - start, 1)
        spread = [f"{min(row[key] for row in rows):.1f} to {max(row[key] for row in rows):.1f}" for key in ("labels", "test")]
        print(f"{name}: {count} settings, validation {spread[0]}, test {spread[1]}, {found[name]['seconds']} s")
        for criterion, values in found[name]["correlation"].items():
            print(f"  {criterion:20}{values['validation']:+.2f} with validation {values['test']:+.2f} with test", flush=True)
    earlier = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    RESULTS.write_text(json.dumps([*earlier, {**where, **environment(), "graphs": found}], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
