"""Write the tables of docs/scale.md from benchmarks/results: ``python scripts/scale_tables.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graphkin.experiments import experiment_named
from graphkin.experiments.store import Store
from graphkin.experiments.summary import summarise
from graphkin.report.reading import mark, signed, spread

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "scale.md"
END = "<!-- end -->"
FITTING = ("prepare", "train", "embed")
"""stages of a fit, whose time and memory count; scoring is none"""


def rows(name: str) -> list[dict[str, Any]]:
    """All rows of all runs, the latest last."""
    runs = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))
    return [row for run in runs for row in run["rows"]]


def pagerank_table() -> str:
    latest = {(row["problem"]["nodes"], row["problem"]["error"], row["contender"]): row for row in rows("pagerank")}
    lines = ["| nodes | edges | error bound | program | seconds | memory | largest error found |", "|---" * 7 + "|"]
    for (nodes, error, contender), row in sorted(
        latest.items(), key=lambda entry: (entry[0][0], -entry[0][1], entry[0][2] != "graphkin")
    ):
        other = latest.get((nodes, error, "get_ppr"))
        faster = f" ({other['seconds'] / row['seconds']:.0f} times faster)" if other and contender == "graphkin" else ""
        cells = [f"{nodes:,}", f"{row['problem']['edges']:,}", f"{error:.0e}", contender, f"{row['seconds']:.1f}{faster}"]
        lines.append("| " + " | ".join([*cells, f"{row['peak_bytes'] / 2**30:.1f} GiB", f"{row['error']:.0e}"]) + " |")
    return "\n".join(lines)


def latest_runs() -> list[dict[str, Any]]:
    """The latest row of every method and size on every kind of device, kin's first."""
    latest = {}
    for row in rows("scale"):
        kind = "cuda" if row["device"].startswith("cuda") else "cpu"
        latest[row["method"] != "kin", kind, row["nodes"]] = {**row, "kind": kind}
    return [latest[key] for key in sorted(latest)]


def scale_table() -> str:
    headings = "nodes | method, epochs | machine | plan | prepare | one step | embed | in all | peak memory | accuracy"
    lines = [f"| {headings} | features, propagated |", "|---" * 11 + "|"]
    for row in latest_runs():
        seconds = row["seconds"]
        times = [
            seconds["prepare"],
            seconds["train"] / row["epochs"],
            seconds["embed"],
            sum(seconds[stage] for stage in FITTING),
        ]
        on = {"cpu": "two cores", "cuda": "H200"}[row["kind"]]
        cells = [f"{row['nodes']:,}", f"{row['method']}, {row['epochs']:,}", on, row["plan"], *map(_seconds, times)]
        free = row["without_training"].get("propagated features")
        cells += [f"{_peak(row) / 2**30:.1f} GiB", f"{row['accuracy']:.1f} %"]
        lines.append("| " + " | ".join([*cells, "not measured" if free is None else f"{free:.1f} %"]) + " |")
    return "\n".join(lines)


def _peak(row: dict[str, Any]) -> int:
    return max(row["peak_bytes"][stage] or 0 for stage in FITTING)


def paper_table() -> str:
    """What 100,000 nodes predict for a million, what was measured there, and what a million predict for 100 million.

    Expected memory is the plan's estimate; extrapolated memory grows as it did between the two.
    """
    small, large = (next(row for row in latest_runs() if row["kind"] == "cpu" and row["nodes"] == n) for n in (10**5, 10**6))
    lines = ["| | 100,000 | expected at 1,000,000 | measured at 1,000,000 | extrapolated to 100,000,000 |", "|---" * 5 + "|"]
    for name in ("prepare", "embed"):
        at = [row["seconds"][name] for row in (small, large)]
        lines.append(f"| {name} | {_seconds(at[0])} | {_seconds(10 * at[0])} | {_seconds(at[1])} | {_seconds(100 * at[1])} |")
    steps = [row["seconds"]["train"] / row["epochs"] for row in (small, large)]
    lines.append(f"| one step | {_seconds(steps[0])} | the same | {_seconds(steps[1])} | the same |")
    peaks = [_peak(row) for row in (small, large)]
    growth = (peaks[1] - peaks[0]) / 900_000
    memory = [peaks[0], large["estimate_bytes"], peaks[1], peaks[1] + 99 * 10**6 * growth]
    lines.append("| memory | " + " | ".join(f"{value / 2**30:,.1f} GiB" for value in memory) + " |")
    return "\n".join(lines)


def _seconds(value: float) -> str:
    if value >= 7200:
        return f"{value / 3600:.1f} h"
    return f"{value / 60:.0f} min" if value >= 600 else f"{value:.1f} s" if value >= 1 else f"{1000 * value:.0f} ms"


def latest_estimates() -> list[dict[str, Any]]:
    """The latest row of every method and graph, kin's first."""
    latest = {(row["method"] != "kin", row["method"], row["nodes"], row["graph"]): row for row in rows("estimates")}
    return [latest[key] for key in sorted(latest)]


def estimates_table() -> str:
    lines = ["| nodes | method | estimated | taken | | estimated | taken | |", "|---" * 8 + "|"]
    for row in latest_estimates():
        cells = [f"{row['nodes']:,}", row["method"]]
        for unit, shown in (("seconds", _seconds), ("bytes", lambda count: f"{count / 2**30:.2f} GiB")):
            expected, taken = row[f"estimated {unit}"], row[unit]
            cells += [shown(expected), shown(taken), f"{100 * (expected / taken - 1):+.0f} %".replace("-", "−")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def top_k_table() -> str:
    latest = {(row["graph"], row["top_k"]): row for row in rows("top_k")}
    graphs = list(dict.fromkeys(graph for graph, _ in latest))
    lines = [
        "| `top_k` | " + " | ".join(f"{graph}: w⁺, w⁻" for graph in graphs) + " |",
        "|---" * (1 + len(graphs)) + "|",
    ]
    for top_k in dict.fromkeys(top_k for _, top_k in latest):
        found = [latest[graph, top_k] for graph in graphs]
        cells = [f"{row['positives']:.2f}, {row['negatives']:.2f}" for row in found]
        lines.append("| " + " | ".join([str(top_k), *cells]) + " |")
    return "\n".join(lines)


def processes_table() -> str:
    """The latest run of each method, size and number of processes, kin's first."""
    latest = {(row.get("method", "grace+"), row["nodes"], row["processes"]): row for row in rows("processes")}
    heads = "method | nodes | processes, one thread each | prepare | one step | memory of each | loss after 10 steps"
    lines = [f"| {heads} |", "|---" * 7 + "|"]
    for (method, nodes, count), row in sorted(latest.items(), key=lambda entry: (entry[0][0] != "kin", entry[0])):
        times = [_seconds(row["seconds"][name]) for name in ("prepare", "step")]
        memory = f"{row['peak_bytes'] / 2**30:.1f} GiB" if row.get("peak_bytes") else "–"
        cells = [method, f"{nodes:,}", str(count), *times, memory, f"{row['loss']:.5f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def sampled_table() -> str:
    store = Store(ROOT / "docs" / "results" / "reproduction.json", read_only=True)
    files = [ROOT / "benchmarks" / "sampled" / f"{name}.toml" for name in ("pubmed", "cs")]
    found = [summarise(experiment_named(str(file)), store) for file in files]
    titles = [summary.experiment.title.partition(",")[0] for summary in found]
    lines = ["| | " + " | ".join(titles) + " |", "|---|---|---|"]
    for row in found[0].experiment.rows:
        cells = []
        for summary in found:
            dataset, measure = summary.experiment.datasets[0], summary.experiment.measures[0]
            cell, gain = summary.cell(row.name, dataset, measure), summary.gain(row.name, dataset, measure)
            text = spread(cell.mean, cell.std) if cell.test else "not run"
            text += f" ({signed(gain.points)}{mark(gain)})" if gain else ""
            cells.append(text + (f", n = {len(cell.test)}" if 0 < len(cell.test) < cell.wanted else ""))
        lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(text: str) -> str:
    for name, table in (
        ("pagerank", pagerank_table()),
        ("top_k", top_k_table()),
        ("sampled", sampled_table()),
        ("processes", processes_table()),
        ("scale", scale_table()),
        ("estimates", estimates_table()),
        ("paper", paper_table()),
    ):
        start = f"<!-- {name} -->\n"
        before, rest = text.split(start)
        text = before + start + table + "\n" + rest[rest.index(END) :]
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
