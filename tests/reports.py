"""Made-up results and runs, and what a reader sees of their pages."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np

from graphkin import Graph, fit
from graphkin.commands.runs import write_run
from graphkin.experiments import Experiment, ExperimentRow
from graphkin.experiments.summary import Cell, Summary

BOTH = (ExperimentRow("Base", "grace"), ExperimentRow("Base+", "grace+"))
WHERE = {"machine": {"system": "TestOS", "gpu": "A GPU", "threads": 2}, "versions": {"python": "3.12"}, "commit": "abc1234"}


def experiment(**changes: Any) -> Experiment:
    made = Experiment(
        name="toy",
        title="Base and Base+",
        source="a table",
        protocol="gca",
        seeds=4,
        datasets=("one", "two"),
        measures=("test",),
        rows=(ExperimentRow("raw features", baseline="raw features"), *BOTH),
        base="Base",
        published={"test": {"Base": {"one": (80.0, 1.0)}, "Base+": {"one": (99.0, 0.5), "two": (70.0, 1.0)}}},
    )
    return replace(made, **changes)


def cell(mean: float, seeds: int = 4, **given: Any) -> Cell:
    """Around a mean with spread, the same on every seed but for a little of its own."""
    offsets = np.array([-1.0, 1.0, -0.5, 0.5])[:seeds] + 0.01 * np.array([1, -1, -1, 1])[:seeds] * mean / 80
    test = {seed: mean + float(offset) for seed, offset in enumerate(offsets)}
    return Cell(test, given.pop("val", {seed: value + 1 for seed, value in test.items()}), 4, **given)


def summary(gains: dict[str, float], **changes: Any) -> Summary:
    """Base+ above Base by ``gains`` on each dataset."""
    made = experiment(**changes)
    cells = {}
    for dataset, gain in gains.items():
        for row in made.rows:
            for measure in made.measures:
                published = made.published_for(row, dataset, measure)
                level = 80 + (gain if row.name == "Base+" else 0)
                trained: dict[str, Any] = {"losses": (3.0, 2.0, 1.5), "epochs": 20, "seconds": 1.25} if row.method else {}
                trained |= {} if f"val_{made.scored_by.column(measure).measure}" in made.scored_by.measures else {"val": {}}
                cells[row.name, dataset, measure] = cell(level, published=published, **trained)
    return Summary(made, cells)


def scored(mean: float, values: list[float] | None = None, **more: Any) -> dict[str, Any]:
    """Scores as a run file has them."""
    values = [mean - 0.5, mean + 0.5] if values is None else values
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"protocol": "grace", "accuracy_mean": float(np.mean(values)), "accuracy_std": spread, "accuracy": values, **more}


def run_folder(folder: Path, graph: Graph, method: str = "grace+", kind: str = "npy", epochs: int = 3) -> Path:
    fitted = fit(graph, method, epochs=epochs, hidden=8)
    scores: dict[str, Any] = {"not_scored": "too few nodes"}
    if graph.y is not None:
        scores = {**scored(81.5), "of": method, "baselines": {"raw features": scored(80.5)}}
    folder.mkdir(exist_ok=True)
    write_run(folder, fitted, graph, lambda embeddings: scores, kind)
    return folder


def change_record(folder: Path, **changes: Any) -> None:
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    (folder / "run.json").write_text(json.dumps({**record, **changes}), encoding="utf-8")


def nodes_of(page: str) -> dict[str, Any]:
    """What the map of a page shows."""
    found = re.search(r'<script type="application/json" id="nodes">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


def words_of(page: str) -> str:
    """What a reader sees: no scripts, no styles, no tags."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())


def scripts_are_whole(page: str) -> bool:
    """Whether every script ends where the page ends it."""
    return page.count("</script>") == page.count("<script") == (3 if 'id="nodes"' in page else 2)


def fetched(page: str) -> list[str]:
    """Addresses in tags outside of scripts, but for those that need no network."""
    tags = re.findall(r"<[^>]*>", re.sub(r"<(script|style)\b[^>]*>.*?</\1>", r"<\1>", page, flags=re.DOTALL))
    addresses = re.findall(r"""\b(?:src|href|action|data)\s*=\s*["']([^"']*)""", " ".join(tags))
    return [address for address in addresses if not address.startswith(("#", "data:"))]
