"""Experiment files for ``graphkin reproduce``, whole and with one or two faults."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from tests.fuzz.damage import BYTES, DEEP
from tests.fuzz.draws import Draw, changed
from tests.fuzz.promises import Case
from tests.fuzz.sources import originals

Table = dict[str, Any]
BARE = ("nan", "inf", "-inf", "2024-01-01", DEEP, "9" * 5000, "9" * 30, "0x10", "{}", '"""')
"""values that JSON does not have, as TOML writes them"""
ODD: tuple[Any, ...] = (
    "", "x", "\x1b[31m", 0, -1, 1.5, 10**12, True, [], [[]], ["x", "x"], {"x": 1}, {"x": {"x": {}}},
    *(f"@{word}" for word in BARE),
)  # fmt: skip
ROWS: tuple[Table, ...] = (
    {"name": "features", "baseline": "raw features"},
    {"name": "propagated", "baseline": "propagated features", "seeds": 1},
    {"name": "untrained", "baseline": "untrained encoder", "method": "grace", "settings": {"hidden": 4}},
    {"name": "PageRank", "baseline": "PageRank 0.1"},
    {"name": "best", "baseline": "best free", "seeds": 1},
    {"name": "GRACE", "method": "grace", "settings": {"hidden": 4}},
    {"name": "GRACE+", "method": "grace+", "settings": {"hidden": 4}, "on": {"GRAPH": {"beta": 0.5}}},
    {"name": "grid", "method": "grace+", "settings": {"hidden": 4}, "grid": {"beta": [0.2, 0.8], "tau": [0.5]}},
    {"name": "ideal", "method": "grace", "ideal": True, "settings": {"hidden": 4}},
    {"name": "Graph-MLP", "method": "graph-mlp", "settings": {"hidden": 4}},
)
KEYS = ("unheard of", "name", "rows", "seeds", "first_seed", "axis", "source", "grid", "on", "epochs", "\x1b[31m", "")
OPTIONS = (("--seeds", "1"), ("--seeds", "0"), ("--rows", "GRACE"), ("--datasets", "x"), ("--jobs", "0"), ("--device", "x"))
PROTOCOLS: tuple[tuple[tuple[str, list[str]], float], ...] = (
    (("grace", ["10 %"]), 6),
    (("grace", ["2 %", "10 %"]), 1),
    (("public", ["test"]), 2),
    (("few-labels", ["1"]), 1),
)


def valid(draw: Draw) -> Table:
    protocol, measures = draw.weighted(PROTOCOLS)
    graph = str(originals().larger if protocol == "grace" else originals().graph)
    if protocol == "grace" and draw.chance(0.05):
        graph = "synthetic-200"
    rows = [row for row in draw.some(ROWS, 3) or ROWS[:1] if protocol != "grace" or row["name"] != "Graph-MLP"]
    rows = json.loads(json.dumps(rows).replace("GRAPH", graph))
    table: Table = {"title": "Fuzz", "protocol": protocol, "seeds": 1, "datasets": [graph], "measures": measures, "rows": rows}
    if rows and draw.chance(0.5):
        table["base"] = rows[0]["name"]
    if rows and draw.chance(0.3):
        table["published"] = {measures[0]: {rows[-1]["name"]: {graph: [80.1, 1.2]}}}
    return copy.deepcopy(table)


def _containers(value: Any) -> list[Any]:
    """Tables and lists that are not empty."""
    inner = list(value.values()) if isinstance(value, dict) else value
    here = [value] if value else []
    return [*here, *(found for entry in inner if isinstance(entry, dict | list) for found in _containers(entry))]


def _place(table: Table, draw: Draw) -> tuple[Any, Any]:
    """A container in the table, which is not empty, and a key of it."""
    chosen: Any = draw.pick(_containers(table) or [{"nothing": "left"}])
    return chosen, draw.pick(list(chosen) if isinstance(chosen, dict) else range(len(chosen)))


def replaced(table: Table, draw: Draw) -> Table:
    chosen, key = _place(table, draw)
    chosen[key] = copy.deepcopy(draw.pick(ODD))
    return table


def dropped(table: Table, draw: Draw) -> Table:
    chosen, key = _place(table, draw)
    del chosen[key]
    return table


def added(table: Table, draw: Draw) -> Table:
    tables = [table, *(entry for entry in _containers(table) if isinstance(entry, dict))]
    draw.pick(tables)[draw.pick(KEYS)] = copy.deepcopy(draw.pick(ODD))
    return table


def large_grid(table: Table, draw: Draw) -> Table:
    grid = {name: [i / 100 for i in range(1, 41)] for name in ("beta", "tau", "alpha", "learning_rate")}
    table["rows"] = [{"name": "grid", "method": "grace+", "grid": grid}]
    return table


def large_graph(table: Table, draw: Draw) -> Table:
    names = ("synthetic-2147483647", "synthetic-9999999999", "synthetic-1", "synthetic-0", "nowhere.npz")
    table["datasets"] = [draw.pick(names)]
    return table


BREAKS: tuple[Callable[[Table, Draw], Table], ...] = (
    replaced, replaced, replaced, replaced, dropped, dropped, added, added, large_graph, large_grid,
)  # fmt: skip


def as_toml(table: Table) -> str:
    """Inline tables throughout; a text that begins with @ stands as it is."""

    def written(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{json.dumps(str(key))} = {written(entry)}" for key, entry in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(written, value)) + "]"
        if isinstance(value, str) and value.startswith("@"):
            return value[1:]
        return json.dumps(value)

    return "".join(f"{json.dumps(str(key))} = {written(value)}\n" for key, value in table.items())


def case(case: Case) -> str:
    draw, path = case.draw, case.folder / "mine.toml"
    table, _ = changed(valid(draw), draw, BREAKS)
    path.write_text(as_toml(table), encoding="utf-8", errors="replace")
    if draw.chance(0.1):
        path.write_bytes(draw.pick(BYTES)(path.read_bytes(), draw))
    store = case.out / "results.sqlite"
    if draw.chance(0.2):
        originals().copy("results.sqlite", store)
    options = draw.pick(OPTIONS) if draw.chance(0.3) else ()
    limits = ["--epochs", "1", "--minutes", "0.02"]
    if draw.chance(0.05):
        limits = ["--epochs", draw.pick(("0", "-1")), "--minutes", "-1"]
    said = case.run("reproduce", path, "--store", store, "-q", "--json", *limits, *options)
    return "reproduced" if said.worked else said.outcome
