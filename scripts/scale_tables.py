"""Write the tables of docs/scale.md from benchmarks/results: ``python scripts/scale_tables.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "scale.md"
END = "<!-- end -->"


def rows(name: str) -> list[dict[str, Any]]:
    """All rows of all runs, the latest last."""
    runs = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))
    return [row for run in runs for row in run["rows"]]


def pagerank_table() -> str:
    latest = {(row["problem"]["nodes"], row["problem"]["error"], row["contender"]): row for row in rows("pagerank")}
    lines = ["| nodes | edges | bound | | seconds | memory | largest error found |", "|---|---|---|---|---|---|---|"]
    for (nodes, error, contender), row in sorted(
        latest.items(), key=lambda entry: (entry[0][0], -entry[0][1], entry[0][2] != "graphkin")
    ):
        other = latest.get((nodes, error, "get_ppr"))
        faster = f" ({other['seconds'] / row['seconds']:.0f} times faster)" if other and contender == "graphkin" else ""
        cells = [f"{nodes:,}", f"{row['problem']['edges']:,}", f"{error:.0e}", contender, f"{row['seconds']:.1f}{faster}"]
        lines.append("| " + " | ".join([*cells, f"{row['peak_bytes'] / 2**30:.1f} GiB", f"{row['error']:.0e}"]) + " |")
    return "\n".join(lines)


def scale_table() -> str:
    latest = {(row["nodes"], row["device"]): row for row in rows("scale")}
    lines = [
        "| nodes | edges | plan | prepare | a step | embed | score | peak | accuracy | propagated features |",
        "|---" * 10 + "|",
    ]
    for row in sorted(latest.values(), key=lambda row: row["nodes"]):
        seconds, peak = row["seconds"], max(row["peak_bytes"].values()) / 2**30
        times = [seconds["prepare"], seconds["train"] / row["epochs"], seconds["embed"], seconds["score"]]
        cells = [f"{row['nodes']:,}", f"{row['edges']:,}", row["plan"], *(f"{value:.1f} s" for value in times)]
        free = row["without_training"].get("propagated features")
        cells += [f"{peak:.1f} GiB", f"{row['accuracy']:.1f} %", "not measured" if free is None else f"{free:.1f} %"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(text: str) -> str:
    for name, table in (("pagerank", pagerank_table()), ("scale", scale_table())):
        start = f"<!-- {name} -->\n"
        before, rest = text.split(start)
        text = before + start + table + "\n" + rest[rest.index(END) :]
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
