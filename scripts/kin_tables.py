"""Write the tables of docs/kin.md about graphs beyond the eleven from benchmarks/results: ``python scripts/kin_tables.py``."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

from graphkin.report.reading import signed, spread
from scripts.results_pages import between

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "kin.md"
STUDIED = {
    "blocks": "others: edges to the class after the next",
    "chain": "chain: words in a row",
    "squirrel_filtered": "Squirrel",
    "cora rewired 0.5": "Cora, half of the edges anywhere",
    "synthetic few edges": "synthetic, few edges",
    "synthetic-5000": "synthetic-5000",
    "cora dense": "Cora, 128 dense features",
    "cora": "Cora",
    "photo": "Photo",
}
"""graphs of the study for which it has every training-free row, by their names there"""
TRIED = {"kin: shipped": "kin before", "beta=1.0: shipped": "β = 1", "beta=1.0: free x": "features"}


def table(*lines: list[str]) -> str:
    head, *rows = (f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([head.replace("|  |", "| |"), "|---" * len(lines[0]) + "|", *rows, ""])


def unseen() -> str:
    rows = [["graph", "nodes", "features", "best free", "kin", "gain", "p"]]
    for name, row in _read("unseen")["graphs"].items():
        sizes = [f"{row[key]:,}" for key in ("nodes", "features")]
        means = [spread(*row[key]) for key in ("best free", "kin")]
        rows.append([name, *sizes, *means, signed(row["gain"]), f"{row['p']:g}"])
    return table(*rows)


def few_features() -> str:
    columns = ["features", "best free", "before", "kin"]
    rows = [["graph", *columns, "gain"]]
    for name, row in _read("few-features")["graphs"].items():
        values = [f"{row['features']}", *(f"{row[key]:.1f}" for key in columns[1:])]
        rows.append([name.capitalize(), *values, signed(row["kin"] - row["before"])])
    return table(*rows)


def altered() -> str:
    found = _read("altered")["graphs"]
    columns = ["best free", "kin as if neighbours were alike", "kin"]
    return table(["graph", *columns], *([name, *(f"{row[key]:.1f}" for key in columns)] for name, row in found.items()))


def studied() -> str:
    study = _read("kin-alikeness")
    first, second = study["round A"], study["round B"]
    rows = [["graph", *TRIED.values()]]
    for name, shown in STUDIED.items():
        values = {**first.get(name, {}), **second[name]}
        bar = max(mean(found) for row, found in values.items() if row.startswith("free ") and row != "free only")
        rows.append([shown, *(signed(_mean(second[name], tried) - bar) for tried in TRIED)])
    return table(*rows)


def _mean(values: dict[str, list[float]], readout: str) -> float:
    """Over initialisations and splits."""
    return mean(mean(found) for name, found in values.items() if name.split("#")[0] == readout)


def averages() -> str:
    """Graphs by how alike their neighbours are."""
    rows = [["graph", "alike", "best free", "none", "one hop", "two hops", "four hops", "gain of two"]]
    for name, row in sorted(_read("averages")["graphs"].items(), key=lambda entry: entry[1]["alike"]):
        cells = [f"{row[key]:.1f}" for key in ("best free", "0", "1", "2", "4")]
        rows.append([name, f"{row['alike']:.2f}", *cells, signed(row["2"] - row["0"])])
    return table(*rows)


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def page(text: str) -> str:
    tables = {
        "unseen": unseen,
        "altered": altered,
        "alikeness": studied,
        "averages": averages,
        "few features": few_features,
    }
    for name, made in tables.items():
        text = between(f"<!-- {name} -->\n", text, made(), f"<!-- end of {name} -->")
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
