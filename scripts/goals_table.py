"""Write the table of goals in docs/performance.md from benchmarks/results: ``python -m scripts.goals_table``."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from scripts import performance_table
from scripts.performance_table import END, PAGE, ROOT, Line
from scripts.scale_tables import FITTING, latest_runs

START = "<!-- goals -->\n"
RESULTS = ROOT / "benchmarks" / "results"


class Goal(NamedTuple):
    what: str
    most: float
    """seconds"""
    measured: float
    floor: float | None = None


def goals() -> list[Goal]:
    lines = {line.what: line for line in performance_table.LINES}
    million = next(row for row in latest_runs() if (row["kind"], row["nodes"]) == ("cpu", 10**6))
    first = next(run for run in reversed(_read("first-fit")) if run["device"] == "cuda")
    return [
        _benchmark(
            "objective of kin, 19,717 nodes, d = 256, H200", 3e-3, lines["Kinship, N = 19,717, d = 256, one positive each"]
        ),
        _benchmark(
            "epoch of kin, Pubmed, all anchors with one positive each, H200", 6e-3, lines["the same, one positive each"]
        ),
        _benchmark(
            "objective of the paper, 19,717 nodes, d = 256, stored similarity, H200",
            6.2e-3,
            lines["N = 19,717, d = 256, similarity stored (bf16)"],
        ),
        Goal("kin on Cora, whole fit, two cores", 60, _read("kin-steps")[-1]["rows"][0]["fit_and_embed"]),
        Goal("kin on a million nodes, fit and embed, two cores", 360, sum(million["seconds"][stage] for stage in FITTING)),
        Goal("the same on an H200", 60, _stages_on_the_gpu()),
        Goal("first fit of 900 nodes in a fresh process, H200", 5, first["methods"]["kin"]["process"]),
    ]


def table() -> str:
    lines = ["| | goal | measured | floor | |", "|---|---|---|---|---|"]
    for goal in goals():
        floor = "–" if goal.floor is None else _time(goal.floor)
        met = "met" if goal.measured <= goal.most else "missed"
        lines.append(f"| {goal.what} | {_time(goal.most)} | {_time(goal.measured)} | {floor} | {met} |")
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with the current table."""
    before, rest = text.split(START)
    return before + START + table() + rest[rest.index(END) :]


def _benchmark(what: str, most: float, line: Line) -> Goal:
    found = performance_table.latest(line.problem, line.contender)
    assert found is not None
    return Goal(what, most, found[1]["seconds"], line.floor)


def _stages_on_the_gpu() -> float:
    log = (RESULTS / "h200-2026-11-20.txt").read_text(encoding="utf-8")
    return float(sum(int(seconds) for seconds in re.findall(rf"^(?:{'|'.join(FITTING)}) (\d+) s$", log, re.MULTILINE)))


def _read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _time(seconds: float) -> str:
    if seconds < 0.5:
        return f"{1e3 * seconds:.1f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
